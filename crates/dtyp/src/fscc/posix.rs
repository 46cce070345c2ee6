//! Metadata of files and file systems in the POSIX extensions of 3.1.1, for Linux clients and
//! Samba; no part of [MS-FSCC].

use super::field::Field;
use super::name::put_name;
use crate::{FileAttributes, FileTime, Sid};

/// FilePosixInformation: class 100 of files and of directory entries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilePosixInformation {
    /// CreationTime.
    pub creation_time: FileTime,
    /// LastAccessTime.
    pub last_access_time: FileTime,
    /// LastWriteTime.
    pub last_write_time: FileTime,
    /// ChangeTime.
    pub change_time: FileTime,
    /// EndOfFile, in bytes.
    pub end_of_file: u64,
    /// AllocationSize, in bytes.
    pub allocation_size: u64,
    /// DosAttributes.
    pub file_attributes: FileAttributes,
    /// Inode number on the file system.
    pub inode: u64,
    /// Number of the file system.
    pub device: u32,
    /// Number of hard links.
    pub hard_links: u32,
    /// The reparse tag, or zero.
    pub reparse_tag: u32,
    /// Permission bits and file type.
    pub mode: u32,
    /// Owner of the file.
    pub owner: Sid,
    /// Group of the file.
    pub group: Sid,
}

impl FilePosixInformation {
    /// Appends the packet form of QUERY_INFO.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.creation_time.put(out);
        self.last_access_time.put(out);
        self.last_write_time.put(out);
        self.change_time.put(out);
        self.end_of_file.put(out);
        self.allocation_size.put(out);
        self.file_attributes.put(out);
        self.inode.put(out);
        self.device.put(out);
        0_u32.put(out);
        self.hard_links.put(out);
        self.reparse_tag.put(out);
        self.mode.put(out);
        self.owner.encode(out);
        self.group.encode(out);
    }

    /// Appends a directory entry with a NextEntryOffset of zero, unpadded, for
    /// [`EntryListWriter::push`](super::EntryListWriter::push).
    pub fn encode_entry(&self, file_name: &str, out: &mut Vec<u8>) {
        // NextEntryOffset, and four bytes that are ignored.
        0_u64.put(out);
        self.encode(out);
        put_name(file_name, out);
    }
}

/// FileFsPosixInformation: class 100 of file systems.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileFsPosixInformation {
    /// Size of a block in bytes; the other fields count such blocks.
    pub block_bytes: u32,
    /// Number of all blocks.
    pub total_blocks: u64,
    /// Number of free blocks.
    pub free_blocks: u64,
    /// Number of free blocks for this user.
    pub available_blocks: u64,
    /// Number of the file system.
    pub identifier: u64,
}

impl FileFsPosixInformation {
    /// Appends the packet form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // OptimalTransferSize: the size of a block.
        self.block_bytes.put(out);
        self.block_bytes.put(out);
        self.total_blocks.put(out);
        self.free_blocks.put(out);
        self.available_blocks.put(out);
        // TotalFileNodes and FreeFileNodes are unknown: all ones.
        u64::MAX.put(out);
        u64::MAX.put(out);
        self.identifier.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::{FileFsPosixInformation, FilePosixInformation};
    use crate::fscc::{EntryListWriter, FileInformationClass, FsInformationClass};
    use crate::{FileAttributes, FileTime, Sid};

    fn information() -> FilePosixInformation {
        FilePosixInformation {
            creation_time: FileTime(1),
            last_access_time: FileTime(2),
            last_write_time: FileTime(3),
            change_time: FileTime(4),
            end_of_file: 5,
            allocation_size: 6,
            file_attributes: FileAttributes::ARCHIVE,
            inode: 7,
            device: 8,
            hard_links: 9,
            reparse_tag: 10,
            mode: 0o644,
            owner: Sid::unix_user(1_000),
            group: Sid::unix_group(50),
        }
    }

    /// The offsets that Linux uses.
    #[test]
    fn fields_are_at_the_offsets_that_linux_reads() {
        let mut out = Vec::new();
        information().encode(&mut out);
        let word = |at: usize| u32::from_le_bytes(*out[at..].first_chunk().expect("within"));
        assert_eq!(word(48), 0x20);
        assert_eq!([word(52), word(60), word(64)], [7, 8, 0]);
        assert_eq!([word(68), word(72), word(76)], [9, 10, 0o644]);
        let sids = &out[80..];
        assert_eq!(Sid::decode(sids), Some(Sid::unix_user(1_000)));
        assert_eq!(Sid::decode(&sids[16..]), Some(Sid::unix_group(50)));
        assert_eq!(out.len(), 80 + 2 * 16);
        assert_eq!(FileInformationClass::POSIX.minimum_len(), Some(80));
    }

    #[test]
    fn entries_end_in_their_names() {
        let mut out = Vec::new();
        let mut writer = EntryListWriter::new(&mut out, 1_000, 8);
        for name in ["a:b", "c"] {
            assert!(writer.push(|out| information().encode_entry(name, out)));
        }
        let first = 8 + 112 + 4 + 6_usize;
        assert_eq!(out[..8], [136, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out[first - 10..first], *b"\x06\0\0\0a\0:\0b\0");
        assert_eq!(out[first.next_multiple_of(8)..][..8], [0; 8]);
    }

    #[test]
    fn a_file_system_takes_56_bytes() {
        let mut out = Vec::new();
        FileFsPosixInformation { block_bytes: 4_096, ..Default::default() }.encode(&mut out);
        assert_eq!(out.len(), 56);
        assert_eq!(FsInformationClass::POSIX.minimum_len(), Some(56));
    }
}
