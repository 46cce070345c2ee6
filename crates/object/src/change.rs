//! Changes of names and files, in the form that all processes of a server exchange.

use crate::metadata::FileIdentity;
use crate::path::ObjectPath;

/// One change, by its path on the host: shares may overlap, and a change in one is a change in the
/// other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostChange {
    /// Path of the changed object, from the root of the host's file system.
    pub path: ObjectPath,
    /// Whether the object is a directory.
    pub is_directory: bool,
    /// Kind of the change, with details.
    pub kind: HostChangeKind,
}

/// Kind of a change of a name or file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostChangeKind {
    /// The name was created just now.
    Added,
    /// The directory is deleted when its last open is closed. Other processes may have it open
    /// under another path, so it is identified by its inode.
    DeletePending(FileIdentity),
    /// Data, attributes, times or the security descriptor changed, with the matching filters of
    /// [MS-SMB2] 2.2.35.
    Modified(u32),
    /// The name was removed or deleted.
    Removed,
    /// The name was changed to another one.
    Renamed {
        /// The new path of the object.
        to: ObjectPath,
    },
    /// Changes at or below the path are missing here: watchers must enumerate again.
    Missed,
}

impl HostChange {
    /// Missed changes at or below a path, of any number.
    #[must_use]
    pub fn missed(path: ObjectPath) -> Self {
        Self { path, is_directory: true, kind: HostChangeKind::Missed }
    }

    /// The new path of a renamed object.
    #[must_use]
    pub fn new_path(&self) -> Option<&ObjectPath> {
        match &self.kind {
            HostChangeKind::Renamed { to } => Some(to),
            _ => None,
        }
    }
}
