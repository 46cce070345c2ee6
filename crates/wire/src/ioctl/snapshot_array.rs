//! SRV_SNAPSHOT_ARRAY lists earlier versions of a file: [MS-SMB2] 2.2.32.2.

use dtyp::{FileTime, utf16};
use zerocopy::little_endian::U32;

use crate::error::DecodeError;
use crate::message;

/// The output of FSCTL_SRV_ENUMERATE_SNAPSHOTS: [MS-SMB2] 2.2.32.2.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SnapshotArray {
    /// NumberOfSnapShots: number of all snapshots.
    pub number_of_snapshots: u32,
    /// SnapShotArraySize: bytes of the list of all snapshots.
    pub snapshot_array_size: u32,
    /// The returned snapshots, in whole seconds: all of them or, if there is no room, none.
    pub snapshots: Vec<FileTime>,
}

/// Bytes of a token and its terminator.
const TOKEN_BYTES: usize = 2 * (FileTime::GMT_TOKEN_UNITS + 1);

/// Bytes of the three counts.
const COUNTS_BYTES: usize = 12;

impl SnapshotArray {
    /// Bytes of the structure without snapshots: the counts, and the empty list, padded because
    /// clients reject a shorter structure.
    pub const EMPTY_BYTES: usize = 16;

    /// Returns all snapshots, if the structure fits into `room` bytes with them; else their number
    /// and the size of the list.
    ///
    /// # Panics
    ///
    /// If there are more than 2^26 snapshots.
    #[must_use]
    pub fn fitting(snapshots: Vec<FileTime>, room: usize) -> Self {
        let list_bytes = match snapshots.len() {
            0 => 0,
            // One more zero ends the list.
            count => count * TOKEN_BYTES + 2,
        };
        Self {
            number_of_snapshots: u32::try_from(snapshots.len()).expect("a few thousand"),
            snapshot_array_size: u32::try_from(list_bytes).expect("a few thousand"),
            snapshots: if COUNTS_BYTES + list_bytes <= room { snapshots } else { Vec::new() },
        }
    }

    /// Decodes the output of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the list is too short, or an element is no token.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let ([number, returned, size], mut rest) = message::prefix::<[U32; 3]>(bytes)?;
        let mut snapshots = Vec::new();
        for _ in 0..returned.get() {
            let (token, behind) = message::prefix::<[u8; TOKEN_BYTES]>(rest)?;
            let name = utf16::decode(&token[..TOKEN_BYTES - 2]).ok();
            let time = name.as_deref().and_then(FileTime::from_gmt_token);
            let bad = DecodeError::BadValue { field: "SnapShots", value: 0 };
            snapshots.push(time.ok_or(bad)?);
            rest = behind;
        }
        Ok(Self { number_of_snapshots: number.get(), snapshot_array_size: size.get(), snapshots })
    }

    /// Appends the output of the IOCTL.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 snapshots.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let returned = u32::try_from(self.snapshots.len()).expect("fewer than there are");
        let counts = [self.number_of_snapshots, returned, self.snapshot_array_size];
        message::put(out, &counts.map(U32::new));
        for snapshot in &self.snapshots {
            out.extend_from_slice(&utf16::to_bytes(&snapshot.to_gmt_token()));
            out.extend_from_slice(&[0; 2]);
        }
        out.extend_from_slice(&[0; 2]);
        let bytes = (out.len() - start).max(Self::EMPTY_BYTES);
        out.resize(start + bytes, 0);
    }
}
