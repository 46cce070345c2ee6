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

    /// Missed changes in place of others: at or below the nearest directory that all are in.
    #[must_use]
    pub fn missed_instead_of<'a>(changes: impl IntoIterator<Item = &'a Self>) -> Self {
        let directories = changes.into_iter().flat_map(|change| {
            let is_missed = change.kind == HostChangeKind::Missed;
            let paths = std::iter::once(&change.path).chain(change.new_path());
            paths.map(ObjectPath::as_str).map(move |path| match is_missed {
                true => path,
                false => path.rsplit_once('/').map_or("", |(directory, _)| directory),
            })
        });
        let common = directories.reduce(common_directory).unwrap_or_default();
        Self::missed(ObjectPath::from_stored(common.to_owned(), None))
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

/// Returns the nearest directory that two directories are in, or one of them.
fn common_directory<'p>(one: &'p str, other: &str) -> &'p str {
    let components = one.split('/').zip(other.split('/'));
    let common = components.take_while(|(one, other)| one == other);
    let len = common.map(|(component, _)| component.len() + 1).sum::<usize>();
    &one[..len.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::{HostChange, HostChangeKind, ObjectPath};

    fn path(path: &str) -> ObjectPath {
        ObjectPath::from_stored(path.to_owned(), None)
    }

    #[test]
    fn missed_changes_concern_the_nearest_directory_of_all() {
        let change = |name, kind| HostChange { path: path(name), is_directory: false, kind };
        let added = |name| change(name, HostChangeKind::Added);
        let renamed = |from, to| change(from, HostChangeKind::Renamed { to: path(to) });
        for (changes, directory) in [
            (vec![added("srv/a/f")], "srv/a"),
            (vec![added("srv/a/f"), added("srv/a/d/g")], "srv/a"),
            (vec![added("srv/ab/f"), added("srv/a/g")], "srv"),
            (vec![renamed("srv/a/d/f", "srv/a/e/f")], "srv/a"),
            (vec![HostChange::missed(path("srv/a/d")), added("srv/a/d/e/f")], "srv/a/d"),
            (vec![added("f"), added("srv/f")], ""),
            (vec![], ""),
        ] {
            let missed = HostChange::missed_instead_of(&changes);
            assert_eq!(missed, HostChange::missed(path(directory)), "{changes:?}");
        }
    }
}
