//! Place of an object's streams in a depot, as Samba's `vfs_streams_depot` has it.

use std::fmt::Write;

use crate::cache::directories::Inode;

/// Path of a folder of streams, below the depot: two directories by a hash, and the folder itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DepotPath {
    /// Names of the two directories by a hash.
    pub(crate) hashes: [String; 2],
    /// Name of the folder: device and inode number in hexadecimal digits.
    pub(crate) folder: String,
}

impl DepotPath {
    /// The path for an object. Device and number are in little-endian order; the device is as
    /// `stat` of the C library reports it.
    pub(crate) fn of(inode: Inode) -> Self {
        let part = |shift: u32| u32::try_from(inode.device >> shift & 0xFFFF_FFFF).unwrap_or(0);
        let device = rustix::fs::makedev(part(32), part(0));
        let mut key = [0; 16];
        key[..8].copy_from_slice(&device.to_le_bytes());
        key[8..].copy_from_slice(&inode.number.to_le_bytes());
        let [first, second, ..] = hash(key).to_le_bytes();
        let mut folder = String::with_capacity(32);
        for byte in key {
            write!(folder, "{byte:02X}").expect("memory takes it");
        }
        Self { hashes: [format!("{first:02X}"), format!("{second:02X}")], folder }
    }
}

/// A linear hash, with wrapping arithmetic of 32 bits.
fn hash(key: [u8; 16]) -> u32 {
    let begin = 0x238F_13AF_u32.wrapping_mul(16);
    let sum = (0_u32..)
        .zip(key)
        .fold(begin, |sum, (index, byte)| sum.wrapping_add(u32::from(byte) << (index * 5 % 24)));
    sum.wrapping_mul(1_103_515_243).wrapping_add(12_345)
}

#[cfg(test)]
mod tests {
    use super::DepotPath;
    use crate::cache::directories::Inode;

    /// Paths that Samba 4.17 made for files of device 254:0.
    #[test]
    fn a_folder_is_where_samba_has_it() {
        for (number, folder) in [
            (9_986_146, "00FE0000000000006260980000000000"),
            (9_986_290, "00FE000000000000F260980000000000"),
            (9_986_354, "00FE0000000000003261980000000000"),
        ] {
            let path = DepotPath::of(Inode { device: 254 << 32, number });
            assert_eq!(path.folder, folder);
            assert_eq!(path.hashes, ["E9", "F5"]);
        }
    }
}
