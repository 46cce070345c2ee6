//! Changes of names and files, as all processes of a server know them.

use crate::metadata::FileIdentity;
use crate::path::ObjectPath;

/// One change, by its place on the host: shares may overlap, and a change in one is a change in the
/// other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostChange {
    /// What changed, from the root of the host's file system.
    pub path: ObjectPath,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// How.
    pub kind: HostChangeKind,
}

/// How a name or file changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostChangeKind {
    /// The name is new.
    Added,
    /// The directory goes when its last open is closed. The path need not be the one under which
    /// others have it open, so it is named by its identity.
    Doomed(FileIdentity),
    /// Data, attributes, times or the security descriptor changed: the filters of [MS-SMB2] 2.2.35
    /// that it matches.
    Modified(u32),
    /// The name is gone.
    Removed,
    /// The name is another now.
    Renamed {
        /// The name it has now.
        to: ObjectPath,
    },
    /// More changed at or below the path than anyone has counted: who watches has to look.
    Uncounted,
}

impl HostChange {
    /// Nobody knows what changed below a path.
    #[must_use]
    pub fn uncounted(path: ObjectPath) -> Self {
        Self { path, is_directory: true, kind: HostChangeKind::Uncounted }
    }

    /// The new name, if there is one.
    #[must_use]
    pub fn new_path(&self) -> Option<&ObjectPath> {
        match &self.kind {
            HostChangeKind::Renamed { to } => Some(to),
            _ => None,
        }
    }
}
