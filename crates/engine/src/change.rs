//! Changes of names and files by this client, for CHANGE_NOTIFY.

use std::sync::Arc;

use arbitration::LeaseKey;
use model::audit::Audit;
use model::open::Open;
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath, RootId};
use wire::change_notify::CompletionFilter;

/// One change, in a share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Root of the share with the change.
    pub root: RootId,
    /// Path of the changed file in the share.
    pub path: ObjectPath,
    /// True for a change of a directory.
    pub is_directory: bool,
    /// Kind of the change, with its details.
    pub kind: ChangeKind,
}

/// A name that CREATE has added to a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddedName {
    /// The change as watches see it.
    pub change: Change,
    /// Directory of the name; `None` for the root of a share.
    pub parent: Option<FileIdentity>,
    /// Key of the requester's own lease on the directory, which the change does not break.
    pub parent_lease: Option<LeaseKey>,
    /// Audit that records it, if the share is audited.
    pub audit: Option<Arc<Audit>>,
}

impl Change {
    /// Makes the change for a write to an open, or a new length; none for a pipe.
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

    /// Converts to a change of the host, with the share's root at `folder`.
    #[must_use]
    pub fn to_host_change(self, folder: &ObjectPath) -> HostChange {
        let kind = match self.kind {
            ChangeKind::Added => HostChangeKind::Added,
            ChangeKind::DeletePending(identity) => HostChangeKind::DeletePending(identity),
            ChangeKind::Modified(filter) => HostChangeKind::Modified(filter.bits()),
            ChangeKind::Removed => HostChangeKind::Removed,
            ChangeKind::Renamed { to } => HostChangeKind::Renamed { to: to.below(folder) },
        };
        HostChange { path: self.path.below(folder), is_directory: self.is_directory, kind }
    }
}

/// Kind of a change of a name or file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// The name is a new one.
    Added,
    /// The directory is delete pending: its last open's close removes it.
    DeletePending(FileIdentity),
    /// The name was removed from its directory.
    Removed,
    /// The name was replaced by another.
    Renamed {
        /// The new name, as a path.
        to: ObjectPath,
    },
    /// Data, attributes, times or the security descriptor changed; with the matching filters of
    /// [MS-SMB2] 2.2.35.
    Modified(CompletionFilter),
}
