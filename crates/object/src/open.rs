//! Requests to open or create an object: [MS-FSA] 2.1.5.1.

use bytes::Bytes;
use dtyp::{AccessMask, FileAttributes};

use crate::{FileIdentity, LocalOpen, Metadata, ObjectPath, RootId};

/// Action for an existing file, and for a missing one: [MS-SMB2] 2.2.13 CreateDisposition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disposition {
    /// Replaces the file, or creates it.
    Supersede,
    /// Opens the file, or fails.
    Open,
    /// Fails, or creates the file.
    Create,
    /// Opens the file, or creates it.
    OpenIf,
    /// Overwrites the file, or fails.
    Overwrite,
    /// Overwrites the file, or creates it.
    OverwriteIf,
}

impl Disposition {
    /// True if a missing file is created.
    #[must_use]
    pub fn creates(self) -> bool {
        !matches!(self, Self::Open | Self::Overwrite)
    }

    /// True if an existing file is emptied.
    #[must_use]
    pub fn overwrites(self) -> bool {
        matches!(self, Self::Supersede | Self::Overwrite | Self::OverwriteIf)
    }
}

/// Kind of object that the client requires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestedKind {
    /// Either; a missing object is created as a file.
    Any,
    /// FILE_DIRECTORY_FILE: a file is refused with NOT_A_DIRECTORY.
    Directory,
    /// FILE_NON_DIRECTORY_FILE: a directory is refused with FILE_IS_A_DIRECTORY.
    File,
}

/// One extended attribute: [MS-FSCC] 2.4.16.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtendedAttribute {
    /// Zero, or the flag FILE_NEED_EA (0x80).
    pub flags: u8,
    /// Name in ASCII, compared without case.
    pub name: String,
    /// Value; an empty one removes the attribute.
    pub value: Vec<u8>,
}

/// A request to open or create an object.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub root: RootId,
    pub path: ObjectPath,
    pub disposition: Disposition,
    pub kind: RequestedKind,
    /// Requested rights, with generic bits mapped; MAXIMUM_ALLOWED requests all rights of the user
    /// besides. The store opens the file so that the granted rights can be used, and refuses rights
    /// that the user lacks with ACCESS_DENIED.
    pub desired_access: AccessMask,
    /// Rights that the share permits; no others are granted.
    pub share_access_max: AccessMask,
    /// Attributes for a created file.
    pub attributes: FileAttributes,
    /// Bytes to reserve for a created file.
    pub allocation_size: u64,
    /// FILE_OPEN_REPARSE_POINT: a symbolic link is opened itself, not followed.
    pub open_reparse_point: bool,
    /// FILE_DELETE_ON_CLOSE: refused for a read-only file with CANNOT_DELETE.
    pub delete_on_close: bool,
    /// FILE_WRITE_THROUGH: writes reach stable storage before their reply.
    pub write_through: bool,
    /// True for a reconnect: the client had these rights and keeps them, even if the file has
    /// become read-only meanwhile.
    pub is_reconnect: bool,
    /// A self-relative security descriptor for a created file.
    pub security: Option<Bytes>,
    /// Permission bits of a created file, from a client with the POSIX extensions; only these are
    /// set then.
    pub posix_mode: Option<u32>,
    /// Extended attributes for a created file.
    pub extended_attributes: Vec<ExtendedAttribute>,
}

impl OpenRequest {
    /// True if an existing file meets the demands on the kind of object.
    #[must_use]
    pub fn accepts_file(&self) -> bool {
        self.disposition != Disposition::Create && self.kind != RequestedKind::Directory
    }

    /// Opens an existing object for its removal.
    #[must_use]
    pub fn to_remove(root: RootId, path: ObjectPath) -> Self {
        Self {
            root,
            path,
            disposition: Disposition::Open,
            kind: RequestedKind::Any,
            desired_access: AccessMask::READ_ATTRIBUTES,
            share_access_max: AccessMask::FILE_ALL,
            attributes: FileAttributes::empty(),
            allocation_size: 0,
            open_reparse_point: true,
            delete_on_close: false,
            write_through: false,
            is_reconnect: false,
            security: None,
            posix_mode: None,
            extended_attributes: Vec::new(),
        }
    }

    /// True for a request as [`OpenRequest::to_remove`] makes it; one of a client may be the same.
    /// The server's rights may carry it out, so it must change nothing but its target.
    #[must_use]
    pub fn is_to_remove(&self) -> bool {
        self.open_reparse_point && self.desired_access == AccessMask::READ_ATTRIBUTES
    }
}

/// Result of a successful open.
#[derive(Clone, Debug)]
pub struct Opened {
    pub open: LocalOpen,
    /// True if this request created the object, or the stream that it names.
    pub created: bool,
    /// Granted rights: those requested, or all with MAXIMUM_ALLOWED.
    pub granted_access: AccessMask,
    /// All rights of the user on the object within those of the share, for `MxAc`.
    pub maximal_access: AccessMask,
    /// Path as stored, with its case, as clients see it.
    pub path: ObjectPath,
    /// The path on disk, if it is another; without a stream.
    pub path_on_disk: Option<String>,
    /// Parent directory; `None` for the root of a share.
    pub parent: Option<FileIdentity>,
    /// Metadata at the time of opening, without `ea_size`.
    pub metadata: Metadata,
}
