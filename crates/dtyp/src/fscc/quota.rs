//! Quotas of users: FileQuotaInformation, [MS-FSCC] 2.4.40, and FILE_GET_QUOTA_INFORMATION,
//! 2.4.40.1.

use super::entry_list::entries;
use super::field::Field;
use crate::reader::Reader;
use crate::{FileTime, Sid};

/// Quota of one user: [MS-FSCC] 2.4.40.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileQuotaInformation {
    /// ChangeTime: last change of the quota; zero in a set.
    pub change_time: FileTime,
    /// QuotaUsed: bytes that the user has; without a meaning in a set.
    pub quota_used: u64,
    /// QuotaThreshold: bytes that cause a warning, or [`NO_LIMIT`](Self::NO_LIMIT).
    pub quota_threshold: u64,
    /// QuotaLimit: bytes that the user may have, [`NO_LIMIT`](Self::NO_LIMIT), or
    /// [`DELETED`](Self::DELETED).
    pub quota_limit: u64,
    /// Sid: the user.
    pub sid: Sid,
}

impl FileQuotaInformation {
    /// A threshold or limit of -1: the user may have any number of bytes.
    pub const NO_LIMIT: u64 = u64::MAX;
    /// A limit of -2 in a set: the user has no quota any more.
    pub const DELETED: u64 = u64::MAX - 1;

    /// Appends the entry with a NextEntryOffset of zero, for
    /// [`EntryListWriter::push`](super::EntryListWriter::push) with an alignment of 8.
    pub fn encode(&self, out: &mut Vec<u8>) {
        0_u32.put(out);
        put_sid_len(&self.sid, out);
        self.change_time.put(out);
        self.quota_used.put(out);
        self.quota_threshold.put(out);
        self.quota_limit.put(out);
        self.sid.encode(out);
    }
}

/// Reason for refusing a list of quotas or users: an entry is incomplete, its SID is none, or the
/// chain leaves the list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QuotaListError {
    /// Offset of the entry in the list.
    pub offset: usize,
}

/// A list of quotas, decoded one by one.
///
/// Iteration ends at the first error. An empty list has no entries and no error.
#[derive(Clone, Copy, Debug)]
pub struct QuotaList<'a>(pub &'a [u8]);

impl<'a> QuotaList<'a> {
    /// Decodes the entries in order.
    pub fn iter(
        self,
    ) -> impl Iterator<Item = Result<FileQuotaInformation, QuotaListError>> + use<'a> {
        decoded(self.0, |reader| {
            let sid_len = reader.len32()?;
            Some(FileQuotaInformation {
                change_time: Field::take(reader)?,
                quota_used: reader.u64()?,
                quota_threshold: reader.u64()?,
                quota_limit: reader.u64()?,
                sid: take_sid(reader, sid_len)?,
            })
        })
    }
}

/// A list of users whose quotas are queried, decoded one by one.
#[derive(Clone, Copy, Debug)]
pub struct GetQuotaList<'a>(pub &'a [u8]);

impl<'a> GetQuotaList<'a> {
    /// Decodes the SIDs in order.
    pub fn iter(self) -> impl Iterator<Item = Result<Sid, QuotaListError>> + use<'a> {
        decoded(self.0, |reader| {
            let sid_len = reader.len32()?;
            take_sid(reader, sid_len)
        })
    }
}

/// Appends one user with a NextEntryOffset of zero, for
/// [`EntryListWriter::push`](super::EntryListWriter::push) with an alignment of 4.
pub fn encode_get_quota_entry(sid: &Sid, out: &mut Vec<u8>) {
    0_u32.put(out);
    put_sid_len(sid, out);
    sid.encode(out);
}

/// Decodes entries by their fields behind NextEntryOffset, up to the first one that is wrong.
fn decoded<'a, T>(
    list: &'a [u8],
    read: fn(&mut Reader<'_>) -> Option<T>,
) -> impl Iterator<Item = Result<T, QuotaListError>> + use<'a, T> {
    let mut is_over = false;
    entries(list)
        .map(move |entry| {
            let (offset, bytes) = entry.map_err(|offset| QuotaListError { offset })?;
            let reader = &mut Reader::new(bytes);
            let _next_entry_offset = reader.u32();
            read(reader).ok_or(QuotaListError { offset })
        })
        .take_while(move |entry| !std::mem::replace(&mut is_over, entry.is_err()))
}

/// Reads a SID of exactly this length in bytes.
fn take_sid(reader: &mut Reader<'_>, len: usize) -> Option<Sid> {
    let sid = Sid::decode(reader.bytes(len)?)?;
    (sid.encoded_len() == len).then_some(sid)
}

fn put_sid_len(sid: &Sid, out: &mut Vec<u8>) {
    u32::try_from(sid.encoded_len()).expect("a SID has at most 68 bytes").put(out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        FileQuotaInformation, GetQuotaList, QuotaList, QuotaListError, encode_get_quota_entry,
    };
    use crate::fscc::EntryListWriter;
    use crate::{FileTime, Sid};

    fn quota(uid: u32, quota_limit: u64) -> FileQuotaInformation {
        FileQuotaInformation {
            change_time: FileTime(7),
            quota_used: 4_096,
            quota_threshold: FileQuotaInformation::NO_LIMIT,
            quota_limit,
            sid: Sid::unix_user(uid),
        }
    }

    #[test]
    fn quotas_round_trip_with_an_alignment_of_8() {
        let quotas = [quota(1_000, 1 << 20), quota(1_001, FileQuotaInformation::NO_LIMIT)];
        let mut out = Vec::new();
        let mut list = EntryListWriter::new(&mut out, 200, 8);
        for quota in &quotas {
            assert!(list.push(|out| quota.encode(out)));
        }
        #[rustfmt::skip]
        let first = [
            56, 0, 0, 0, 16, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0,
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 16, 0, 0, 0, 0, 0,
            1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xE8, 3, 0, 0,
        ];
        assert_eq!(out[..56], first);
        assert_eq!(out.len(), 112);
        let decoded: Result<Vec<_>, _> = QuotaList(&out).iter().collect();
        assert_eq!(decoded.as_deref(), Ok(&quotas[..]));
        for cut in 1..out.len() {
            let decoded: Result<Vec<_>, _> = QuotaList(&out[..cut]).iter().collect();
            let offset = if cut <= 56 { 0 } else { 56 };
            assert_eq!(decoded, Err(QuotaListError { offset }), "{cut}");
        }
    }

    #[test]
    fn users_round_trip_and_a_list_that_is_cut_is_refused() {
        let sids = [Sid::unix_user(5), Sid::administrators()];
        let mut out = Vec::new();
        let mut list = EntryListWriter::new(&mut out, 200, 4);
        for sid in &sids {
            assert!(list.push(|out| encode_get_quota_entry(sid, out)));
        }
        assert_eq!(out[..8], [24, 0, 0, 0, 16, 0, 0, 0]);
        let decoded: Result<Vec<_>, _> = GetQuotaList(&out).iter().collect();
        assert_eq!(decoded.as_deref(), Ok(&sids[..]));
        for cut in 1..out.len() {
            let decoded: Result<Vec<_>, _> = GetQuotaList(&out[..cut]).iter().collect();
            assert!(decoded.is_err(), "{cut}");
        }
    }

    #[test]
    fn a_length_that_is_not_that_of_the_sid_is_refused() {
        let mut out = Vec::new();
        encode_get_quota_entry(&Sid::unix_user(5), &mut out);
        for wrong in [0, 8, 12, 15, 17, 20, u32::MAX] {
            let mut list = out.clone();
            list.extend([0; 16]);
            list[4..8].copy_from_slice(&wrong.to_le_bytes());
            let decoded: Vec<_> = GetQuotaList(&list).iter().collect();
            assert_eq!(decoded, [Err(QuotaListError { offset: 0 })], "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lists_end_with_their_first_error(
            list in proptest::collection::vec(
                prop_oneof![Just(0_u8), Just(1), Just(16), any::<u8>()],
                0..200,
            ),
        ) {
            let quotas: Vec<_> = QuotaList(&list).iter().collect();
            let users: Vec<_> = GetQuotaList(&list).iter().collect();
            prop_assert!(quotas.len() <= list.len() / 4 + 1 && users.len() <= list.len() / 4 + 1);
            let errors = quotas.iter().filter(|it| it.is_err()).count();
            prop_assert!(errors <= 1 && quotas.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
