//! Changes of names and files that this client made: what CHANGE_NOTIFY tells.

use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath, RootId};
use wire::change_notify::CompletionFilter;

use crate::model::open::Open;

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

impl Change {
    /// Data was written to what is open, or its length changed. Nothing for a pipe.
    #[must_use]
    pub fn written(open: &Open) -> Option<Self> {
        let file = open.file().ok()?;
        let filter = match file.path.stream() {
            None => CompletionFilter::SIZE | CompletionFilter::LAST_WRITE,
            Some(_) => CompletionFilter::STREAM_SIZE | CompletionFilter::STREAM_WRITE,
        };
        Some(Self {
            root: open.share.root?,
            path: file.path.clone(),
            is_directory: file.is_directory,
            kind: ChangeKind::Modified(filter),
        })
    }

    /// The same change, where the share's root lies at `folder`.
    #[must_use]
    pub fn seen_from_host(self, folder: &ObjectPath) -> HostChange {
        let kind = match self.kind {
            ChangeKind::Added => HostChangeKind::Added,
            ChangeKind::Doomed(identity) => HostChangeKind::Doomed(identity),
            ChangeKind::Modified(filter) => HostChangeKind::Modified(filter.bits()),
            ChangeKind::Removed => HostChangeKind::Removed,
            ChangeKind::Renamed { to } => HostChangeKind::Renamed { to: to.below(folder) },
        };
        HostChange { path: self.path.below(folder), is_directory: self.is_directory, kind }
    }
}

/// How a name or file changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// The name is new.
    Added,
    /// The directory goes when its last open is closed.
    Doomed(FileIdentity),
    /// The name is gone.
    Removed,
    /// The name is another now.
    Renamed {
        /// The name it has now.
        to: ObjectPath,
    },
    /// Data, attributes, times or the security descriptor changed: the filters of [MS-SMB2] 2.2.35
    /// that it matches.
    Modified(CompletionFilter),
}
