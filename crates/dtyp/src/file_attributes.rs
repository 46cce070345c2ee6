//! FileAttributes: [MS-FSCC] 2.6.

bitflags::bitflags! {
    /// The attributes of a file or directory.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct FileAttributes: u32 {
        /// The file may not be written or deleted.
        const READONLY = 0x0000_0001;
        /// Listings hide the file by default.
        const HIDDEN = 0x0000_0002;
        /// Part of the operating system.
        const SYSTEM = 0x0000_0004;
        /// A directory.
        const DIRECTORY = 0x0000_0010;
        /// Changed since the last backup.
        const ARCHIVE = 0x0000_0020;
        /// No other attribute is set; valid alone.
        const NORMAL = 0x0000_0080;
        /// The file need not reach the disk.
        const TEMPORARY = 0x0000_0100;
        /// Has ranges without storage.
        const SPARSE_FILE = 0x0000_0200;
        /// Has a reparse point.
        const REPARSE_POINT = 0x0000_0400;
        /// Compressed on disk.
        const COMPRESSED = 0x0000_0800;
        /// The data is in remote storage.
        const OFFLINE = 0x0000_1000;
        /// Left out of content indexing.
        const NOT_CONTENT_INDEXED = 0x0000_2000;
        /// Encrypted on disk.
        const ENCRYPTED = 0x0000_4000;
        /// Protected by integrity checks.
        const INTEGRITY_STREAM = 0x0000_8000;
        /// Skipped by the integrity scrubber.
        const NO_SCRUB_DATA = 0x0002_0000;

        // A client may set any bit; [MS-FSCC] 2.6 demands that unknown ones are ignored, not
        // refused.
        const _ = !0;
    }
}

impl FileAttributes {
    /// The attributes that a client may set: [MS-FSA] 2.1.5.15.2.
    pub const SETTABLE: Self = Self::from_bits_retain(
        0x0000_0001
            | 0x0000_0002
            | 0x0000_0004
            | 0x0000_0020
            | 0x0000_0100
            | 0x0000_1000
            | 0x0000_2000,
    );

    /// The form in responses: NORMAL if no other attribute is set, and never NORMAL beside others.
    #[must_use]
    pub fn shown(self) -> Self {
        let others = self.difference(Self::NORMAL);
        if others.is_empty() { Self::NORMAL } else { others }
    }
}

#[cfg(test)]
mod tests {
    use super::FileAttributes;

    #[test]
    fn normal_stands_alone() {
        assert_eq!(FileAttributes::empty().shown(), FileAttributes::NORMAL);
        let hidden = FileAttributes::HIDDEN | FileAttributes::NORMAL;
        assert_eq!(hidden.shown(), FileAttributes::HIDDEN);
    }
}
