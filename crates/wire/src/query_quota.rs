//! SMB2_QUERY_QUOTA_INFO, the input of a QUERY_INFO for quotas: [MS-SMB2] 2.2.37.1.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

/// The quotas to return: [MS-SMB2] 2.2.37.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueryQuotaInfo<'a> {
    /// ReturnSingle: return one quota at most.
    pub return_single: bool,
    /// RestartScan: begin with the first quota, and not behind those that were returned last.
    pub restart_scan: bool,
    /// Users whose quotas are returned.
    pub users: QuotaUsers<'a>,
}

/// SidBuffer, in one of its two formats or empty.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotaUsers<'a> {
    /// All users, one after the other.
    All,
    /// All users, from the one with this SID on (format 2).
    From(&'a [u8]),
    /// Users of a list of FILE_GET_QUOTA_INFORMATION (format 1): [MS-FSCC] 2.4.40.1.
    Listed(&'a [u8]),
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    return_single: u8,
    restart_scan: u8,
    reserved: U16,
    sid_list_length: U32,
    start_sid_length: U32,
    start_sid_offset: U32,
}

impl<'a> QueryQuotaInfo<'a> {
    /// Reads the structure. A list takes precedence over a first user: [MS-SMB2] 3.3.5.20.4.
    ///
    /// # Errors
    /// The fixed part, the list or the SID is not within `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, buffer) = Layout::ref_from_prefix(bytes)
            .map_err(|_| DecodeError::Short { need: size_of::<Layout>(), have: bytes.len() })?;
        let length = |field: U32| usize::try_from(field.get()).expect("32 bits fit memory");
        let part = |offset: usize, length: usize| {
            let rest = buffer.get(offset..).and_then(|rest| rest.get(..length));
            rest.ok_or(DecodeError::Offset { offset, length, have: buffer.len() })
        };
        let users = match (length(layout.sid_list_length), length(layout.start_sid_length)) {
            (0, 0) => QuotaUsers::All,
            (0, sid) => QuotaUsers::From(part(length(layout.start_sid_offset), sid)?),
            (list, _) => QuotaUsers::Listed(part(0, list)?),
        };
        Ok(Self {
            return_single: layout.return_single != 0,
            restart_scan: layout.restart_scan != 0,
            users,
        })
    }

    /// Appends the structure to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (list, start): (&[u8], &[u8]) = match self.users {
            QuotaUsers::All => (&[], &[]),
            QuotaUsers::From(sid) => (&[], sid),
            QuotaUsers::Listed(list) => (list, &[]),
        };
        let layout = Layout {
            return_single: self.return_single.into(),
            restart_scan: self.restart_scan.into(),
            reserved: U16::ZERO,
            sid_list_length: message::len32(list).into(),
            start_sid_length: message::len32(start).into(),
            start_sid_offset: U32::ZERO,
        };
        out.extend_from_slice(layout.as_bytes());
        out.extend_from_slice(list);
        out.extend_from_slice(start);
    }
}

#[cfg(test)]
mod tests {
    use super::{QueryQuotaInfo, QuotaUsers};
    use crate::DecodeError;

    fn query(users: QuotaUsers<'_>) -> QueryQuotaInfo<'_> {
        QueryQuotaInfo { return_single: true, restart_scan: false, users }
    }

    fn encoded(query: &QueryQuotaInfo<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        query.encode(&mut out);
        out
    }

    #[test]
    fn a_query_round_trips_and_every_prefix_is_an_error() {
        for users in [QuotaUsers::All, QuotaUsers::From(&[7; 12]), QuotaUsers::Listed(&[9; 20])] {
            let bytes = encoded(&query(users));
            assert_eq!(QueryQuotaInfo::decode(&bytes), Ok(query(users)));
            for cut in 0..bytes.len() {
                QueryQuotaInfo::decode(&bytes[..cut]).expect_err("it is cut");
            }
        }
        let bytes = encoded(&query(QuotaUsers::Listed(&[9; 2])));
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9]);
    }

    #[test]
    fn a_list_takes_precedence_over_a_first_user() {
        let mut bytes = encoded(&query(QuotaUsers::Listed(&[9; 4])));
        bytes[8..16].fill(0xFF);
        let users = QueryQuotaInfo::decode(&bytes).expect("the list is whole").users;
        assert_eq!(users, QuotaUsers::Listed(&[9; 4]));
    }

    #[test]
    fn a_first_user_may_stand_anywhere_in_the_buffer_and_not_behind_it() {
        let mut bytes = encoded(&query(QuotaUsers::From(&[1, 2, 3, 4])));
        bytes.extend([5, 6]);
        bytes[12] = 2;
        let users = |bytes: &[u8]| match QueryQuotaInfo::decode(bytes).map(|it| it.users) {
            Ok(QuotaUsers::From(sid)) => Ok(sid.to_vec()),
            other => Err(other.err()),
        };
        assert_eq!(users(&bytes), Ok(vec![3, 4, 5, 6]));
        for offset in [3_u32, 6, 7, u32::MAX] {
            bytes[12..16].copy_from_slice(&offset.to_le_bytes());
            let want = DecodeError::Offset { offset: offset as usize, length: 4, have: 6 };
            assert_eq!(users(&bytes), Err(Some(want)));
        }
    }
}
