//! REQ_GET_DFS_REFERRAL and RESP_GET_DFS_REFERRAL resolve a path of a DFS namespace to its targets:
//! [MS-DFSC] 2.2.2 to 2.2.5.

use dtyp::utf16;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

bitflags::bitflags! {
    /// ReferralHeaderFlags: [MS-DFSC] 2.2.4.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct DfsReferralFlags: u32 {
        /// The targets answer further referral requests.
        const REFERRAL_SERVERS = 0x0000_0001;
        /// The targets hold the files.
        const STORAGE_SERVERS = 0x0000_0002;

        const _ = !0;
    }
}

/// The input of FSCTL_DFS_GET_REFERRALS: [MS-DFSC] 2.2.2.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DfsReferralRequest {
    /// Newest version of entries that the client supports.
    pub max_referral_level: u16,
    /// RequestFileName: `\server\share\path`.
    pub request_file_name: String,
}

/// The output of FSCTL_DFS_GET_REFERRALS: [MS-DFSC] 2.2.4.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DfsReferralResponse {
    /// Version of the entries: 2, 3 or 4.
    pub version: u16,
    /// Kind of the targets.
    pub flags: DfsReferralFlags,
    /// ServerType: true for targets of the root of the namespace.
    pub is_root: bool,
    /// TimeToLive in seconds.
    pub time_to_live: u32,
    /// Part of the client's path that the targets replace. PathConsumed is its length.
    pub dfs_path: String,
    /// NetworkAddress of each target, the preferred one first: `\server\share\path`.
    pub targets: Vec<String>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct HeaderLayout {
    path_consumed: U16,
    number_of_referrals: U16,
    flags: U32,
}

/// First fields of an entry of any version.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct EntryLayout {
    version: U16,
    size: U16,
    server_type: U16,
    flags: U16,
}

/// TargetSetBoundary, set in the first entry of version 4.
const TARGET_SET_BOUNDARY: u16 = 0x0004;

/// Bytes of an entry of version 2, and of versions 3 and 4.
const ENTRY_BYTES: [u16; 2] = [22, 34];

impl DfsReferralRequest {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short, or the path is not UTF-16.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (level, name) = message::prefix::<U16>(bytes)?;
        Ok(Self { max_referral_level: level.get(), request_file_name: text(name)? })
    }

    /// Decodes the input of FSCTL_DFS_GET_REFERRALS_EX: [MS-DFSC] 2.2.3.
    ///
    /// # Errors
    ///
    /// As for [`DfsReferralRequest::decode`].
    pub fn decode_extended(bytes: &[u8]) -> Result<Self, DecodeError> {
        // MaxReferralLevel, RequestFlags; RequestDataLength; RequestFileNameLength.
        let ([level, _], rest) = message::prefix::<[U16; 2]>(bytes)?;
        let (_, rest) = message::prefix::<U32>(rest)?;
        let (length, rest) = message::prefix::<U16>(rest)?;
        let bad =
            DecodeError::BadValue { field: "RequestFileNameLength", value: length.get().into() };
        let name = rest.get(..usize::from(length.get())).ok_or(bad)?;
        Ok(Self { max_referral_level: level.get(), request_file_name: text(name)? })
    }

    /// Appends the input of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U16::new(self.max_referral_level));
        put_text(out, &self.request_file_name);
    }
}

impl DfsReferralResponse {
    /// Encodes the output with the first targets that fit into `room` bytes; `None` if not even one
    /// fits.
    #[must_use]
    pub fn fitting(mut self, room: usize) -> Option<Vec<u8>> {
        while !self.targets.is_empty() {
            let mut bytes = Vec::new();
            self.encode(&mut bytes);
            if bytes.len() <= room {
                return Some(bytes);
            }
            self.targets.pop();
        }
        None
    }

    /// Appends the output of the IOCTL.
    ///
    /// # Panics
    ///
    /// If paths and targets together are longer than 64 KiB.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let path_bytes = utf16::to_bytes(&self.dfs_path).len();
        let short = |length: usize| U16::new(u16::try_from(length).expect("paths are short"));
        message::put(
            out,
            &HeaderLayout {
                path_consumed: short(path_bytes),
                number_of_referrals: short(self.targets.len()),
                flags: self.flags.bits().into(),
            },
        );
        let size = ENTRY_BYTES[usize::from(self.version > 2)];
        let entries_bytes = self.targets.len() * usize::from(size);
        let mut strings = Vec::new();
        put_text(&mut strings, &self.dfs_path);
        for (at, target) in self.targets.iter().enumerate() {
            let is_boundary = self.version >= 4 && at == 0;
            message::put(
                out,
                &EntryLayout {
                    version: self.version.into(),
                    size: size.into(),
                    server_type: u16::from(self.is_root).into(),
                    flags: if is_boundary { TARGET_SET_BOUNDARY } else { 0 }.into(),
                },
            );
            if self.version <= 2 {
                // Proximity.
                message::put(out, &U32::ZERO);
            }
            message::put(out, &U32::new(self.time_to_live));
            let to_strings = entries_bytes - at * usize::from(size);
            // DFSPath, DFSAlternatePath, NetworkAddress.
            let offsets = [to_strings, to_strings, to_strings + strings.len()];
            message::put(out, &offsets.map(short));
            if self.version > 2 {
                // ServiceSiteGuid.
                out.extend_from_slice(&[0; 16]);
            }
            put_text(&mut strings, target);
        }
        out.extend_from_slice(&strings);
    }

    /// Decodes the output of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the output is too short, or its entries have different versions.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (header, mut entries) = message::prefix::<HeaderLayout>(bytes)?;
        let flags = DfsReferralFlags::from_bits_retain(header.flags.get());
        let mut response = Self { flags, ..Self::default() };
        for at in 0..header.number_of_referrals.get() {
            let (entry, rest) = message::prefix::<EntryLayout>(entries)?;
            let version = entry.version.get();
            let bad = DecodeError::BadValue { field: "VersionNumber", value: version.into() };
            if !(2..=4).contains(&version) || (at > 0 && version != response.version) {
                return Err(bad);
            }
            let rest = if version <= 2 { message::prefix::<U32>(rest)?.1 } else { rest };
            let (time_to_live, rest) = message::prefix::<U32>(rest)?;
            let ([path, _, target], _) = message::prefix::<[U16; 3]>(rest)?;
            response.version = version;
            response.is_root = entry.server_type.get() == 1;
            response.time_to_live = time_to_live.get();
            response.dfs_path = text_at(entries, *path)?;
            response.targets.push(text_at(entries, *target)?);
            let size = entry.size.get();
            let bad = DecodeError::BadValue { field: "Size", value: size.into() };
            let is_whole = size >= ENTRY_BYTES[usize::from(version > 2)];
            entries = entries.get(usize::from(size)..).filter(|_| is_whole).ok_or(bad)?;
        }
        Ok(response)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&utf16::to_bytes(text));
    out.extend_from_slice(&[0; 2]);
}

/// Decodes UTF-16LE up to the first zero unit.
fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    let end = bytes.chunks_exact(2).position(|unit| unit == [0, 0]);
    let bytes = &bytes[..end.map_or(bytes.len() & !1, |units| 2 * units)];
    utf16::decode(bytes).map_err(|_| DecodeError::BadValue { field: "UTF-16", value: 0 })
}

fn text_at(bytes: &[u8], offset: U16) -> Result<String, DecodeError> {
    let bad = DecodeError::BadValue { field: "Offset", value: offset.get().into() };
    text(bytes.get(usize::from(offset.get())..).ok_or(bad)?)
}

#[cfg(test)]
mod tests;
