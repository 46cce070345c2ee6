//! Opening: [MS-FSA] 2.1.5.1.

use bytes::Bytes;
use dtyp::{AccessMask, FileAttributes};

use crate::{FileIdentity, LocalOpen, Metadata, ObjectPath, RootId};

/// What to do if the file exists, and if it does not: [MS-SMB2] 2.2.13 CreateDisposition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disposition {
    /// Replace it, or create it.
    Supersede,
    /// Open it, or fail.
    Open,
    /// Fail, or create it.
    Create,
    /// Open it, or create it.
    OpenIf,
    /// Overwrite it, or fail.
    Overwrite,
    /// Overwrite it, or create it.
    OverwriteIf,
}

impl Disposition {
    /// Whether a missing file is created.
    #[must_use]
    pub fn creates(self) -> bool {
        !matches!(self, Self::Open | Self::Overwrite)
    }

    /// Whether an existing file is emptied.
    #[must_use]
    pub fn overwrites(self) -> bool {
        matches!(self, Self::Supersede | Self::Overwrite | Self::OverwriteIf)
    }
}

/// What kind of object the client insists on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KindWanted {
    /// Either; a missing one is created as a file.
    Any,
    /// FILE_DIRECTORY_FILE: a file is NOT_A_DIRECTORY.
    Directory,
    /// FILE_NON_DIRECTORY_FILE: a directory is FILE_IS_A_DIRECTORY.
    File,
}

/// One extended attribute: [MS-FSCC] 2.4.16.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtendedAttribute {
    /// 0, or FILE_NEED_EA (0x80).
    pub flags: u8,
    /// The name in ASCII, compared without case.
    pub name: String,
    /// The value; empty removes it.
    pub value: Vec<u8>,
}

/// A request to open or create.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// The share.
    pub root: RootId,
    /// The path in it.
    pub path: ObjectPath,
    /// What to do.
    pub disposition: Disposition,
    /// What kind it must be.
    pub kind: KindWanted,
    /// Rights wanted, generic bits already mapped; MAXIMUM_ALLOWED means all that the user has
    /// beside the others named. The store opens the file so that the granted rights can be used,
    /// and refuses with ACCESS_DENIED what the user may not do.
    pub desired_access: AccessMask,
    /// Rights that the share grants at most: nothing beyond them is granted.
    pub share_access_max: AccessMask,
    /// Attributes for a created file.
    pub attributes: FileAttributes,
    /// Reserve this for a created file.
    pub allocation_size: u64,
    /// FILE_OPEN_REPARSE_POINT: a symbolic link is opened itself, not followed.
    pub open_reparse_point: bool,
    /// FILE_DELETE_ON_CLOSE: a read-only file is CANNOT_DELETE.
    pub delete_on_close: bool,
    /// FILE_WRITE_THROUGH.
    pub write_through: bool,
    /// The rights were granted to the client before, and it has them again: the file may have
    /// become read-only meanwhile.
    pub takes_up: bool,
    /// A self-relative security descriptor for a created file.
    pub security: Option<Bytes>,
    /// The permission bits of a created file, where the client speaks POSIX; no others are given then.
    pub posix_mode: Option<u32>,
    /// Extended attributes for a created file.
    pub extended_attributes: Vec<ExtendedAttribute>,
}

impl OpenRequest {
    /// Opens what is there, in order to remove it.
    #[must_use]
    pub fn to_remove(root: RootId, path: ObjectPath) -> Self {
        Self {
            root,
            path,
            disposition: Disposition::Open,
            kind: KindWanted::Any,
            desired_access: AccessMask::READ_ATTRIBUTES,
            share_access_max: AccessMask::FILE_ALL,
            attributes: FileAttributes::empty(),
            allocation_size: 0,
            open_reparse_point: true,
            delete_on_close: false,
            write_through: false,
            takes_up: false,
            security: None,
            posix_mode: None,
            extended_attributes: Vec::new(),
        }
    }
}

/// An object that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The open.
    pub open: LocalOpen,
    /// Whether it was created by this request.
    pub created: bool,
    /// Rights granted: what was asked for, or all with MAXIMUM_ALLOWED.
    pub granted_access: AccessMask,
    /// All rights that the user has on the object within the share's: `MxAc` asks for it.
    pub maximal_access: AccessMask,
    /// The path as it is stored, case included.
    pub path: ObjectPath,
    /// The directory that its name is in; nothing for the root of a share.
    pub parent: Option<FileIdentity>,
    /// Metadata at the time of opening. `ea_size` is not filled in.
    pub metadata: Metadata,
}
