//! Snapshots of a share: the options of Samba's `vfs_shadow_copy2`, and layouts that are found.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::{ShadowCopy, Share, Substitutions};
use store::{
    NameFormat, NamePrefix, SnapshotDirectory, SnapshotNames, SnapshotOrder, SnapshotSettings,
};

use crate::mount_point::Place;
use crate::served::warn_for_user;

/// Default of the option `shadow:snapdir`.
const DIRECTORY: &str = ".snapshots";

/// Directories that ZFS and snapper keep in the root of a file system.
const FOUND_DIRECTORIES: [&str; 2] = [".zfs/snapshot", DIRECTORY];

/// Names that tools give to snapshots.
struct KnownName {
    /// Basic regular expression for the text before the delimiter.
    prefix: &'static str,
    delimiter: &'static str,
    format: &'static str,
    local_time: bool,
}

/// Sanoid takes its time zone from its environment, which its service sets to UTC.
const KNOWN_NAMES: [KnownName; 4] = [
    // zfs-auto-snapshot: zfs-auto-snap_daily-2024-01-31-1230
    KnownName {
        prefix: "^zfs-auto-snap",
        delimiter: "-20",
        format: "-%Y-%m-%d-%H%M",
        local_time: false,
    },
    // Sanoid: autosnap_2024-01-31_12:30:00_daily
    KnownName {
        prefix: "^autosnap$",
        delimiter: "_20",
        format: "_%Y-%m-%d_%H:%M:%S",
        local_time: false,
    },
    // TrueNAS: auto-2024-01-31_12-30
    KnownName { prefix: "^auto$", delimiter: "-20", format: "-%Y-%m-%d_%H-%M", local_time: true },
    // zrepl: zrepl_20240131_123000_000
    KnownName { prefix: "^zrepl", delimiter: "_20", format: "_%Y%m%d_%H%M%S", local_time: false },
];

/// Options for the snapshots of a share, with their substitutions. Where the snapshots are depends
/// on the folder, which is not open yet.
#[derive(Clone, Debug)]
pub(super) struct SnapshotOptions {
    /// Name of the share, for the log.
    share: String,
    options: ShadowCopy,
}

impl SnapshotOptions {
    /// Returns those of a share; `None` if it has no snapshots.
    pub(super) fn of(share: &Share, substitutions: &Substitutions) -> Option<Self> {
        let mut options = ShadowCopy::of(share)?;
        let ShadowCopy { mount_point, directory, base, share_path, .. } = &mut options;
        for path in [mount_point, directory, base, share_path] {
            *path = path.take().map(|text| substitutions.expand_path(&text));
        }
        Some(Self { share: share.name.clone(), options })
    }

    /// Directory of the snapshots that may be in another file system than the share.
    pub(super) fn absolute_directory(&self) -> Option<&Path> {
        self.options.directory.as_ref().map(Path::new).filter(|path| path.is_absolute())
    }

    /// Returns the directories that may hold snapshots of a share whose folder has this place.
    pub(super) fn directories(&self, place: &Place) -> Option<Vec<PathBuf>> {
        let layout = Layout::new(&self.share, &self.options, place);
        let directories = layout.directories(&self.options)?;
        Some(directories.into_iter().map(|it| it.path).collect())
    }

    /// Returns the settings for a share whose folder has this place; `None` if an option
    /// contradicts it.
    pub(super) fn laid_out(&self, place: &Place) -> Option<SnapshotSettings> {
        let Self { share, options } = self;
        let layout = Layout::new(share, options, place);
        let directories = layout.directories(options)?;
        for directory in &directories {
            warn_of_owner(share, &directory.path);
        }
        Some(SnapshotSettings {
            everywhere: if layout.everywhere { layout.snapshots.clone() } else { Vec::new() },
            directories,
            names: names(share, options, &layout.mount_point)?,
            order: match options.sort.as_str() {
                order if order.eq_ignore_ascii_case("desc") => SnapshotOrder::Descending,
                order if order.eq_ignore_ascii_case("asc") => SnapshotOrder::Ascending,
                _ => SnapshotOrder::Listed,
            },
            owner: None,
        })
    }
}

/// Paths of a share and its snapshots.
struct Layout<'s> {
    /// Name of the share, for the log.
    share: &'s str,
    /// The folder of the share, without symbolic links.
    path: &'s Path,
    /// The directory where its file system begins.
    mount_point: PathBuf,
    /// Paths of directories of snapshots.
    snapshots: Vec<PathBuf>,
    /// These paths begin at any directory.
    everywhere: bool,
}

impl<'s> Layout<'s> {
    fn new(share: &'s str, options: &ShadowCopy, place: &'s Place) -> Self {
        let Place { path, mount_point } = place;
        let given = options.mount_point.as_ref().map(PathBuf::from);
        let is_above = |it: &PathBuf| path.starts_with(it);
        if let Some(other) = given.as_ref().filter(|it| !is_above(it)) {
            warn_for_user!(
                "share {share}: {} is not below shadow:mountpoint = {}, which is ignored",
                path.display(),
                other.display()
            );
        }
        let mount_point = given.filter(is_above).unwrap_or_else(|| mount_point.clone());
        let snapshots = match &options.directory {
            Some(directory) => vec![PathBuf::from(directory)],
            None if options.auto => FOUND_DIRECTORIES.map(PathBuf::from).to_vec(),
            None => vec![PathBuf::from(DIRECTORY)],
        };
        let is_absolute = snapshots.iter().any(|it| it.is_absolute());
        if is_absolute && options.everywhere && !options.auto {
            warn_for_user!(
                "share {share}: shadow:snapdirseverywhere is ignored: shadow:snapdir is absolute"
            );
        }
        let everywhere = options.everywhere && !is_absolute;
        Self { share, path, mount_point, snapshots, everywhere }
    }

    /// Directories of snapshots, the nearest first. With `everywhere`, those that are not in the
    /// share; `None` if an option contradicts the path of the share.
    fn directories(&self, options: &ShadowCopy) -> Option<Vec<SnapshotDirectory>> {
        if self.everywhere {
            let may_be =
                |it: &&Path| options.cross_mount_points || it.starts_with(&self.mount_point);
            let above = self.path.ancestors().skip(1).take_while(may_be);
            let directories = above.filter_map(|above| {
                let share = self.path.strip_prefix(above).ok()?;
                Some(self.in_directory(above, share))
            });
            return Some(directories.flatten().collect());
        }
        let base = options.base.as_ref().map(PathBuf::from);
        let is_below = |base: &PathBuf| base.starts_with(&self.mount_point);
        if let Some(other) = base.as_ref().filter(|it| !is_below(it)) {
            let (name, mount_point) = (self.share, self.mount_point.display());
            let other = other.display();
            warn_for_user!(
                "share {name}: shadow:basedir = {other} is ignored: not below {mount_point}"
            );
        }
        let base = base.filter(is_below);
        let share_path = options.share_path.as_deref();
        let share_path = share_path.filter(|it| base.is_none() && !it.starts_with('/'));
        let base = base.as_deref().unwrap_or(&self.mount_point);
        let share = match share_path {
            Some(path) => Path::new(path),
            None => match self.path.strip_prefix(base) {
                Ok(below) => below,
                Err(_) => {
                    let (name, path) = (self.share, self.path.display());
                    warn_for_user!("share {name}: {path} is not below {}", base.display());
                    return None;
                }
            },
        };
        Some(self.in_directory(&self.mount_point, share))
    }

    /// The directories of snapshots of one directory, in which the share has this path.
    fn in_directory(&self, directory: &Path, share: &Path) -> Vec<SnapshotDirectory> {
        let at = |it: &PathBuf| {
            let path = directory.join(it);
            let is_in_share = path.starts_with(self.path);
            SnapshotDirectory { path, share: share.to_owned(), is_in_share }
        };
        self.snapshots.iter().map(at).collect()
    }
}

/// Forms of the names; `None` if those that the share gives are none.
fn names(share: &str, options: &ShadowCopy, mount_point: &Path) -> Option<Vec<SnapshotNames>> {
    let format = |prefix: Option<(&str, &str)>, format: &str, local_time| {
        let prefix = match prefix {
            Some((expression, delimiter)) => Some(NamePrefix::new(expression, delimiter)?),
            None => None,
        };
        let format = CString::new(format).ok()?;
        Some(SnapshotNames::Format(NameFormat { prefix, format, local_time }))
    };
    let mut names = Vec::new();
    if let Some(given) = &options.format {
        let prefix = options.prefix.as_deref().map(|it| (it, options.delimiter.as_str()));
        let form = format(prefix, given, options.local_time);
        if form.is_none() {
            warn_for_user!("share {share}: shadow:snapprefix is no regular expression");
        }
        names.push(form?);
    }
    if options.auto {
        names.extend(format(None, ShadowCopy::FORMAT, false));
        names.push(SnapshotNames::Snapper);
        names.extend(
            KNOWN_NAMES
                .iter()
                .filter_map(|it| format(Some((it.prefix, it.delimiter)), it.format, it.local_time)),
        );
        // Btrbk: NAME.20240131T1230, with the name of the subvolume.
        let name = mount_point.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("^{}$", quoted_expression(&name));
        names.extend(format(Some((&name, ".20")), ".%Y%m%dT%H%M", true));
    }
    Some(names)
}

/// A basic regular expression that matches this text.
fn quoted_expression(text: &str) -> String {
    let mut expression = String::new();
    for character in text.chars() {
        if matches!(character, '.' | '*' | '[' | '^' | '$' | '\\') {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression
}

/// Says why no snapshot is shown if somebody else owns the directory that holds them.
fn warn_of_owner(share: &str, directory: &Path) {
    let own = rustix::process::getuid().as_raw();
    if let Ok(found) = fs::metadata(directory)
        && ![0, own].contains(&found.uid())
    {
        warn_for_user!(
            "share {share}: no snapshots are shown, since {directory:?} belongs to user id {}, \
             not to root",
            found.uid()
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use config::{Config, Substitutions};
    use store::{SnapshotDirectory, SnapshotSettings};

    use super::{Place, SnapshotOptions, quoted_expression};

    /// The settings of a share `a/b` in a file system that begins at a temporary directory.
    fn settings(lines: &str) -> (Option<SnapshotSettings>, PathBuf) {
        let folder = tempfile::tempdir().expect("there is space");
        let root = fs::canonicalize(folder.path()).expect("it was just made");
        let path = root.join("a/b");
        fs::create_dir_all(&path).expect("there is space");
        let text = format!(
            "[s]\npath = /s\nvfs objects = shadow_copy2\nshadow:mountpoint = {}\n{lines}\n",
            root.display()
        );
        let (config, _) = Config::parse(&text, "test").expect("it is well-formed");
        let options = SnapshotOptions::of(&config.shares[0], &Substitutions::default());
        let place = Place { path, mount_point: "/".into() };
        (options.and_then(|it| it.laid_out(&place)), root)
    }

    fn directory(path: PathBuf, share: &str) -> SnapshotDirectory {
        SnapshotDirectory { path, share: share.into(), is_in_share: false }
    }

    #[test]
    fn snapshots_of_the_file_system_have_the_share_below_its_root() {
        let (found, root) = settings("shadow:snapdir = snaps");
        let found = found.expect("it has snapshots");
        assert_eq!(found.directories, [directory(root.join("snaps"), "a/b")]);
        assert!(found.everywhere.is_empty());
    }

    #[test]
    fn directories_are_looked_for_up_to_the_mount_point_or_the_root() {
        let everywhere = "shadow:snapdir = snaps\nshadow:snapdirseverywhere = yes";
        let (found, root) = settings(everywhere);
        let found = found.expect("it has snapshots");
        assert_eq!(found.everywhere, [Path::new("snaps")]);
        let above = [directory(root.join("a/snaps"), "b"), directory(root.join("snaps"), "a/b")];
        assert_eq!(found.directories, above);

        let (found, root) = settings(&format!("{everywhere}\nshadow:crossmountpoints = yes"));
        let found = found.expect("it has snapshots");
        let share = root.join("a/b");
        let share = share.strip_prefix("/").expect("it is absolute");
        let (path, share) = ("/snaps".into(), share.to_owned());
        let last = SnapshotDirectory { path, share, is_in_share: false };
        assert_eq!(found.directories.last(), Some(&last));
    }

    #[test]
    fn a_directory_of_snapshots_in_the_share_is_known_as_such() {
        let (found, root) = settings("shadow:snapdir = a/b/snaps");
        let found = found.expect("it has snapshots");
        let path = root.join("a/b/snaps");
        let in_share = SnapshotDirectory { path, share: "a/b".into(), is_in_share: true };
        assert_eq!(found.directories, [in_share]);
    }

    #[test]
    fn an_absolute_directory_is_the_only_one() {
        let (found, _) = settings("shadow:snapdir = /snaps\nshadow:snapdirseverywhere = yes");
        let found = found.expect("it has snapshots");
        assert!(found.everywhere.is_empty());
        assert_eq!(found.directories, [directory("/snaps".into(), "a/b")]);
    }

    #[test]
    fn a_base_directory_and_a_path_in_snapshots_are_not_for_directories_everywhere() {
        let lines = "shadow:snapsharepath = c/d";
        let (found, root) = settings(lines);
        let found = found.expect("it has snapshots");
        assert_eq!(found.directories, [directory(root.join(".snapshots"), "c/d")]);
        let (found, root) = settings(&format!("{lines}\nshadow:snapdirseverywhere = yes"));
        let found = found.expect("it has snapshots");
        assert_eq!(found.directories[0], directory(root.join("a/.snapshots"), "b"));
    }

    #[test]
    fn layouts_of_zfs_and_snapper_are_found_in_each_directory() {
        let (found, root) = settings("shadow:auto = yes");
        let found = found.expect("it has snapshots");
        assert_eq!(found.everywhere, [".zfs/snapshot", ".snapshots"].map(Path::new));
        assert_eq!(found.directories[0], directory(root.join("a/.zfs/snapshot"), "b"));
        assert_eq!(found.directories.len(), 4);
        assert!(found.names.len() > 2);
    }

    #[test]
    fn an_expression_that_is_none_shows_no_snapshots() {
        assert!(settings("shadow:snapprefix = \\(a").0.is_none());
    }

    #[test]
    fn the_name_of_a_subvolume_is_no_expression() {
        assert_eq!(quoted_expression("a.b[1]*^$\\"), "a\\.b\\[1]\\*\\^\\$\\\\");
    }
}
