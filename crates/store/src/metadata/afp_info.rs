//! `AFP_AfpInfo`: the Finder's type, creator, tags and colors of a file, a structure of 60 bytes.
//!
//! Signature, version, reserved, backup time, the Finder's information (32 bytes), that of ProDOS
//! (6), reserved (6). Clients read and write it whole; what they may do otherwise is known from
//! Apple's server.

use dtyp::NtStatus;

/// Length of the structure in bytes.
pub(crate) const AFP_INFO_LEN: usize = 60;

/// Place of the Finder's information.
const FINDER_INFO: std::ops::Range<usize> = 16..48;

/// Beginning of the structure, and of each WRITE.
const SIGNATURE: &[u8; 4] = b"AFP\0";

/// A backup time that stands for none.
const NEVER: [u8; 4] = [0x80, 0, 0, 0];

/// The structure, with the Finder's information in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct AfpInfo([u8; AFP_INFO_LEN]);

impl Default for AfpInfo {
    fn default() -> Self {
        Self::of([0; 32])
    }
}

impl From<AfpInfo> for Vec<u8> {
    fn from(info: AfpInfo) -> Self {
        info.0.to_vec()
    }
}

impl AfpInfo {
    pub(crate) fn of(finder_info: [u8; 32]) -> Self {
        let mut bytes = [0; AFP_INFO_LEN];
        bytes[..4].copy_from_slice(SIGNATURE);
        bytes[5] = 1;
        bytes[12..16].copy_from_slice(&NEVER);
        bytes[FINDER_INFO].copy_from_slice(&finder_info);
        Self(bytes)
    }

    /// Reads a stored value. One without information of the Finder is as good as none, and so is
    /// one that is damaged.
    pub(crate) fn stored(value: &[u8]) -> Option<Self> {
        let bytes: &[u8; AFP_INFO_LEN] = value.first_chunk()?;
        let is_one = bytes.starts_with(SIGNATURE) && bytes[FINDER_INFO] != [0; 32];
        is_one.then_some(Self(*bytes))
    }

    pub(crate) fn finder_info(&self) -> [u8; 32] {
        std::array::from_fn(|at| self.0[FINDER_INFO.start + at])
    }

    /// Returns the offset that a READ means: any within the structure is its beginning.
    pub(crate) fn read_offset(offset: u64) -> u64 {
        if offset <= 60 { 0 } else { offset }
    }

    /// Changes the structure in `value` by a WRITE: one at the beginning with the signature at
    /// least, or a whole structure, whose offset does not count.
    pub(crate) fn overwrite(value: &mut [u8], offset: u64, data: &[u8]) -> Result<(), NtStatus> {
        let length_min = if offset == 0 { 3 } else { AFP_INFO_LEN };
        if data.len() < length_min || !data.starts_with(&SIGNATURE[..3]) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let length = data.len().min(value.len());
        value[..length].copy_from_slice(&data[..length]);
        Ok(())
    }
}
