//! Settings of a share's snapshots. In quotes: the option of `vfs_shadow_copy2`.

use std::ffi::{CStr, CString};
use std::path::PathBuf;

use crate::sys::basic_expression::BasicExpression;

/// Location and names of a share's snapshots.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// Paths of directories of snapshots, relative to any directory of the share
    /// ("shadow:snapdirseverywhere"). The one nearest to a file counts.
    pub everywhere: Vec<PathBuf>,
    /// Further directories of snapshots, in their order ("shadow:snapdir").
    pub directories: Vec<SnapshotDirectory>,
    /// Forms of a snapshot's name; the first one that fits counts.
    pub names: Vec<SnapshotNames>,
    /// Order in which clients see them ("shadow:sort").
    pub order: SnapshotOrder,
    /// Id that the share's folder must belong to in a snapshot; none for any owner.
    pub owner: Option<u32>,
}

/// Directory that holds one directory for each snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnapshotDirectory {
    /// Absolute path of the directory.
    pub path: PathBuf,
    /// Path of the share within each snapshot; empty for a snapshot of the share itself
    /// ("shadow:basedir", "shadow:snapsharepath").
    pub share: PathBuf,
    /// It is in the share, where clients may make links as the server's user.
    pub is_in_share: bool,
}

/// Form of a snapshot's name, which tells its time.
#[derive(Clone, Debug)]
pub enum SnapshotNames {
    /// The time is in the name.
    Format(NameFormat),
    /// The name is a number, as snapper gives them: `info.xml` beside the snapshot has the time.
    Snapper,
}

/// Name with a time in it.
#[derive(Clone, Debug)]
pub struct NameFormat {
    /// Text before the time; `None` if the name is the time alone.
    pub prefix: Option<NamePrefix>,
    /// Format for strftime(3) and strptime(3). After a prefix it begins with the delimiter, and
    /// text behind the time is ignored ("shadow:format").
    pub format: CString,
    /// The time is local, not UTC ("shadow:localtime").
    pub local_time: bool,
}

/// Text of names before the time.
#[derive(Clone, Debug)]
pub struct NamePrefix {
    expression: CString,
    delimiter: Vec<u8>,
}

impl NamePrefix {
    /// The text that `expression` matches, a basic regular expression ("shadow:snapprefix"). It
    /// ends before the first `delimiter` of the name ("shadow:delimiter"). `None` if the C library
    /// refuses the expression.
    #[must_use]
    pub fn new(expression: &str, delimiter: &str) -> Option<Self> {
        let expression = CString::new(expression).ok()?;
        BasicExpression::new(&expression)?;
        Some(Self { expression, delimiter: delimiter.as_bytes().to_owned() })
    }

    /// The expression, ready to match.
    pub(crate) fn compiled(&self) -> Option<BasicExpression> {
        BasicExpression::new(&self.expression)
    }

    /// Splits a name before the first delimiter; `None` if it has none.
    pub(crate) fn split<'n>(&self, name: &'n CStr) -> Option<(CString, &'n CStr)> {
        let bytes = name.to_bytes();
        let at = match self.delimiter.len() {
            0 => 0,
            length => bytes.windows(length).position(|part| part == self.delimiter)?,
        };
        let prefix = CString::new(&bytes[..at]).ok()?;
        let rest = CStr::from_bytes_with_nul(&name.to_bytes_with_nul()[at..]).ok()?;
        Some((prefix, rest))
    }
}

/// Order in which clients see snapshots.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SnapshotOrder {
    /// The oldest snapshot comes first.
    Ascending,
    /// The newest snapshot comes first.
    #[default]
    Descending,
    /// As the directory lists them.
    Listed,
}
