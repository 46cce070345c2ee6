//! ACCESS_MASK: [MS-DTYP] 2.4.3, with the file bits of [MS-SMB2] 2.2.13.1.

bitflags::bitflags! {
    /// Rights that are requested or granted on a file, pipe, printer or directory.
    ///
    /// The low bits have other names for a directory ([MS-SMB2] 2.2.13.1.2): LIST_DIRECTORY is
    /// READ_DATA, ADD_FILE is WRITE_DATA, ADD_SUBDIRECTORY is APPEND_DATA, TRAVERSE is EXECUTE.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct AccessMask: u32 {
        /// Read the data, or list the directory.
        const READ_DATA = 0x0000_0001;
        /// Write the data, or add a file to the directory.
        const WRITE_DATA = 0x0000_0002;
        /// Append to the data, or add a directory to the directory.
        const APPEND_DATA = 0x0000_0004;
        /// Read the extended attributes.
        const READ_EA = 0x0000_0008;
        /// Write the extended attributes.
        const WRITE_EA = 0x0000_0010;
        /// Execute the file, or traverse the directory.
        const EXECUTE = 0x0000_0020;
        /// Delete entries of the directory.
        const DELETE_CHILD = 0x0000_0040;
        /// Read the attributes.
        const READ_ATTRIBUTES = 0x0000_0080;
        /// Change the attributes.
        const WRITE_ATTRIBUTES = 0x0000_0100;
        /// Delete the object.
        const DELETE = 0x0001_0000;
        /// Read the security descriptor, save the SACL.
        const READ_CONTROL = 0x0002_0000;
        /// Change the DACL.
        const WRITE_DAC = 0x0004_0000;
        /// Change the owner.
        const WRITE_OWNER = 0x0008_0000;
        /// Wait on the object. Has no meaning for files on a server.
        const SYNCHRONIZE = 0x0010_0000;
        /// Read or write the SACL.
        const ACCESS_SYSTEM_SECURITY = 0x0100_0000;
        /// Request all rights that the caller may have.
        const MAXIMUM_ALLOWED = 0x0200_0000;
        /// All file rights.
        const GENERIC_ALL = 0x1000_0000;
        /// The rights to execute.
        const GENERIC_EXECUTE = 0x2000_0000;
        /// The rights to write.
        const GENERIC_WRITE = 0x4000_0000;
        /// The rights to read.
        const GENERIC_READ = 0x8000_0000;

        // A client may set any bit; unknown ones must survive until `proto` refuses them.
        const _ = !0;
    }
}

impl AccessMask {
    /// The meaning of GENERIC_ALL for a file: FILE_ALL_ACCESS.
    pub const FILE_ALL: Self = Self::from_bits_retain(0x001F_01FF);
    /// The meaning of GENERIC_READ for a file.
    pub const FILE_GENERIC_READ: Self = Self::from_bits_retain(0x0012_0089);
    /// The meaning of GENERIC_WRITE for a file.
    pub const FILE_GENERIC_WRITE: Self = Self::from_bits_retain(0x0012_0116);
    /// The meaning of GENERIC_EXECUTE for a file.
    pub const FILE_GENERIC_EXECUTE: Self = Self::from_bits_retain(0x0012_00A0);

    /// The generic bits, which [`AccessMask::map_generic`] replaces.
    pub const GENERIC: Self = Self::GENERIC_ALL
        .union(Self::GENERIC_EXECUTE)
        .union(Self::GENERIC_WRITE)
        .union(Self::GENERIC_READ);

    /// Replaces the generic bits by file rights: [MS-SMB2] 2.2.13.1. MAXIMUM_ALLOWED stays.
    #[must_use]
    pub fn map_generic(self) -> Self {
        let generic = [
            (Self::GENERIC_ALL, Self::FILE_ALL),
            (Self::GENERIC_READ, Self::FILE_GENERIC_READ),
            (Self::GENERIC_WRITE, Self::FILE_GENERIC_WRITE),
            (Self::GENERIC_EXECUTE, Self::FILE_GENERIC_EXECUTE),
        ];
        generic.into_iter().fold(self, |mask, (bit, rights)| {
            if mask.contains(bit) { mask.difference(bit).union(rights) } else { mask }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::AccessMask;

    #[test]
    fn generic_bits_become_file_rights() {
        assert_eq!(AccessMask::GENERIC_ALL.map_generic(), AccessMask::FILE_ALL);
        let mask = (AccessMask::GENERIC_READ | AccessMask::MAXIMUM_ALLOWED).map_generic();
        assert_eq!(mask, AccessMask::FILE_GENERIC_READ | AccessMask::MAXIMUM_ALLOWED);
    }
}
