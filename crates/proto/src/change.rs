//! Changes of names and files that this client made: what CHANGE_NOTIFY tells.

use object::{ObjectPath, RootId};

/// One change, in a share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// The share.
    pub root: RootId,
    /// What changed.
    pub path: ObjectPath,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// How.
    pub kind: ChangeKind,
}

/// How a name or file changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// The name is new.
    Added,
    /// The name is gone.
    Removed,
    /// The name is another now.
    Renamed {
        /// The name it has now.
        to: ObjectPath,
    },
    /// Data, attributes, times or the security descriptor changed: the filters of [MS-SMB2] 2.2.35
    /// that it matches.
    Modified(wire::change_notify::CompletionFilter),
}
