//! Settings of a share's recycle bin. In quotes: the option of `vfs_recycle`.

use std::array;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use dtyp::NameExpression;

use crate::sys::unforeseen::{DIGITS, draw, in_digits};

/// A recycle bin: files that clients delete are moved there.
#[derive(Clone, Debug, Default)]
pub struct RecycleSettings {
    /// Path of the bin below the share, without `.` and `..` ("repository").
    pub repository: PathBuf,
    /// Files keep their path below the bin ("keeptree").
    pub keep_tree: bool,
    /// A file keeps earlier ones of its name, as `Copy #1 of` it ("versions").
    pub versions: bool,
    /// Times of a file that become those of its deletion ("touch", "touch_mtime").
    pub touch: Touch,
    /// Mode of the bin's first directory ("directory_mode").
    pub directory_mode: u32,
    /// Mode of directories below that one ("subdir_mode").
    pub subdirectory_mode: u32,
    /// Smaller files are deleted ("minsize").
    pub size_min: u64,
    /// Larger files are deleted ("maxsize").
    pub size_max: Option<u64>,
    /// Names of files that are deleted ("exclude").
    pub excluded: Vec<NameExpression>,
    /// Names of directories whose files, also in directories below, are deleted ("exclude_dir").
    pub excluded_directories: Vec<NameExpression>,
    /// Names of files that replace earlier ones in the bin ("noversions").
    pub unversioned: Vec<NameExpression>,
    /// The server deletes for a user who is not known any more: the file's owner makes directories,
    /// those only are used that this owner may write, and nothing is replaced.
    pub gives_directories: bool,
    /// The user is a guest, or may be one: nothing about the bin is written to the log.
    pub is_quiet: bool,
}

/// Selection of times that a move to the bin sets to the present.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Touch {
    /// Both times stay as they are.
    #[default]
    Nothing,
    /// The last access time changes.
    AccessTime,
    /// The last access and last write times change.
    BothTimes,
}

/// Highest number of a folder beside one that belongs to somebody else.
const BESIDE_MAX: u32 = 256;

/// Further names with a number that nobody foresees. Several are tried because the first one may be
/// known: each new one is free.
const UNFORESEEN_MAX: usize = 4;

/// Numbers that nobody foresees, for the folders of one deletion. The first one is that of the
/// process, so that its deletions share a folder. Others see it there, and may take its name, so
/// the further ones are new for each deletion.
#[derive(Debug, Default)]
pub(crate) struct Unforeseen(OnceCell<[u64; UNFORESEEN_MAX]>);

impl Unforeseen {
    /// Draws the numbers when they are needed: few deletions are beside so many folders of others.
    fn numbers(&self) -> &[u64; UNFORESEEN_MAX] {
        // Drawn in a worker, where the first deletion is: not the same in all forks.
        static OF_PROCESS: LazyLock<u64> = LazyLock::new(draw);
        let number = |attempt| if attempt == 0 { *OF_PROCESS } else { draw() };
        self.0.get_or_init(|| array::from_fn(number))
    }
}

/// Names of a folder below the first one of the bin: that of the settings, and those of folders
/// that are used instead if somebody else has one of that name: `bob-2` for `bob`. Others could
/// make all with a small number, so the last ones are [`Unforeseen`].
pub(crate) fn names_for(name: &OsStr, unforeseen: &Unforeseen) -> impl Iterator<Item = OsString> {
    let beside = move |suffix: String| {
        let mut beside = name.to_owned();
        beside.push("-");
        beside.push(suffix);
        beside
    };
    let numbered = (2..=BESIDE_MAX).map(move |number| beside(number.to_string()));
    let unforeseen =
        (0..UNFORESEEN_MAX).map(move |attempt| beside(in_digits(unforeseen.numbers()[attempt])));
    [name.to_owned()].into_iter().chain(numbered).chain(unforeseen)
}

/// Whether a folder is one of those that [`names_for`] finds beside a name.
fn is_beside(folder: &OsStr, name: &OsStr) -> bool {
    let suffix = folder.as_bytes().strip_prefix(name.as_bytes());
    let suffix = suffix.and_then(|it| it.strip_prefix(b"-")).and_then(|it| str::from_utf8(it).ok());
    let Some(suffix) = suffix else { return false };
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let number = suffix.parse().ok().filter(|it: &u32| (2..=BESIDE_MAX).contains(it));
    suffix.len() == DIGITS && suffix.bytes().all(is_digit)
        || number.is_some_and(|number| number.to_string() == suffix)
}

impl RecycleSettings {
    /// Whether a file of this size is moved to the bin. `directory` is its directory below the
    /// share. What is in the bin already is not.
    pub(crate) fn takes(&self, directory: &Path, name: &str, size: u64) -> bool {
        let is_excluded = |component: &std::path::Component<'_>| {
            let component = component.as_os_str().to_string_lossy();
            self.excluded_directories.iter().any(|it| it.matches(&component))
        };
        !self.has(directory)
            && size >= self.size_min
            && self.size_max.is_none_or(|max| size <= max)
            && !self.excluded.iter().any(|it| it.matches(name))
            && !directory.components().any(|it| is_excluded(&it))
    }

    /// Whether a directory is in the bin, or in a folder that stands beside one of the bin's.
    fn has(&self, directory: &Path) -> bool {
        let mut found = directory.iter();
        self.repository.iter().enumerate().all(|(depth, wanted)| {
            found.next().is_some_and(|name| name == wanted || depth > 0 && is_beside(name, wanted))
        })
    }

    /// Whether folders below the first one of the bin are each for one user.
    #[must_use]
    pub fn has_private_folders(&self) -> bool {
        self.subdirectory_mode & 0o077 == 0
    }

    /// Whether a file of this name keeps earlier ones in the bin.
    pub(crate) fn keeps_versions_of(&self, name: &str) -> bool {
        self.versions && !self.unversioned.iter().any(|it| it.matches(name))
    }

    /// The directory in the bin, below the share, for files of `directory`.
    pub(crate) fn place_of(&self, directory: &Path) -> PathBuf {
        if self.keep_tree { self.repository.join(directory) } else { self.repository.clone() }
    }
}
