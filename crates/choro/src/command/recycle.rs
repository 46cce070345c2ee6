//! `choro recycle`, which manages the recycle bins of shares.

mod bin;
mod faults;
mod folders;
mod repository;
mod restore;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use dtyp::UtcTime;
use observe::report;
use process::printable;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use settings::Settings;

use self::bin::{Bin, Found};
use self::faults::Faults;

/// List, restore and empty the recycle bins of shares (`vfs objects = recycle`).
///
/// Works on the files of this machine; the server may run meanwhile. Paths are below the share.
#[derive(Debug, Subcommand)]
pub(super) enum Recycle {
    /// List deleted files with the time of the deletion, in UTC.
    List {
        /// Share to list; all shares if absent.
        share: Option<String>,
        /// Print a JSON array, one object for each file.
        #[arg(long)]
        json: bool,
    },
    /// Move a deleted file back. Never replaces another file.
    ///
    /// Missing folders are made, with owner and mode of the folder above.
    Restore {
        /// Share that had the file.
        share: String,
        /// Path of the file in the bin, as `list` shows it under STORED AS.
        file: PathBuf,
        /// New path of the file; needed if the bin keeps no paths (`recycle:keeptree = no`).
        #[arg(long, value_name = "PATH")]
        to: Option<PathBuf>,
    },
    /// Delete the files in the bins for good, and folders that are empty then.
    Empty {
        /// Share to empty; all shares if absent.
        share: Option<String>,
        /// Delete only files that were deleted at least this long ago, such as `12h`, `30d` or
        /// `8w`.
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
    },
}

impl Recycle {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<()> {
        let config = Settings::find(config)?.config;
        let mut faults = Faults::default();
        match self {
            Self::List { share, json } => {
                let bins = bin::find(&config, share.as_deref(), &mut faults)?;
                list(&bins, json, &mut faults)?;
            }
            Self::Restore { share, file, to } => {
                let bins = bin::find(&config, Some(&share), &mut faults)?;
                let restored = restore::restore(&bins, &file, to)?;
                return report::print(&format!(
                    "Restored {}\n",
                    printable(&restored.to_string_lossy())
                ));
            }
            Self::Empty { share, older_than } => {
                let bins = bin::find(&config, share.as_deref(), &mut faults)?;
                empty(&bins, older_than, &mut faults)?;
            }
        }
        faults.verdict()
    }
}

/// Reads an age such as `30d`.
fn age(text: &str) -> Result<Duration, String> {
    let hours = match text.chars().last() {
        Some('h') => 1,
        Some('d') => 24,
        Some('w') => 7 * 24,
        _ => return Err("expected a number and h, d or w, such as 30d".to_owned()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| "expected a number".to_owned())?;
    Ok(Duration::from_secs(u64::from(number) * hours * 3_600))
}

/// A deleted file, as `list` shows it.
struct Row {
    share: String,
    deleted: String,
    size: u64,
    original: Option<String>,
    stored: String,
}

fn list(bins: &[Bin], json: bool, faults: &mut Faults) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for bin in bins {
        bin.walk(&mut |found| match found {
            Found::File { path, size, deleted, .. } => rows.push(Row {
                share: bin.share.clone(),
                deleted: date(deleted),
                size,
                original: bin.original(path).map(|it| it.display().to_string()),
                stored: path.display().to_string(),
            }),
            Found::DirectoryEnd { .. } => {}
            Found::Unreadable { path, error } => faults.report("read", path, error),
        });
    }
    if json {
        let row = |Row { share, deleted, size, original, stored }| {
            vec![
                ("share", share.into()),
                ("deleted", deleted.into()),
                ("size", size.into()),
                ("original", original.into()),
                ("stored", stored.into()),
            ]
        };
        return report::print_json(rows.into_iter().map(row).collect());
    }
    let row = |Row { share, deleted, size, original, stored }| {
        vec![share, deleted, size.to_string(), original.unwrap_or_else(|| "-".to_owned()), stored]
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(row).collect();
    report::print(&report::table(&["SHARE", "DELETED", "SIZE", "ORIGINAL", "STORED AS"], &rows))
}

fn date(time: SystemTime) -> String {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::of(time);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

fn empty(bins: &[Bin], older_than: Option<Duration>, faults: &mut Faults) -> anyhow::Result<()> {
    let until =
        older_than.map(|age| SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
    let (files, bytes) = remove(bins, until, faults);
    report::print(&format!("Deleted {files} files of {bytes} bytes\n"))
}

/// Removes the files that were deleted until a time, or all, and then folders that are empty.
/// Returns the number of files, and their bytes.
fn remove(bins: &[Bin], until: Option<SystemTime>, faults: &mut Faults) -> (u64, u64) {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let is_young = |deleted: SystemTime| until.is_some_and(|until| deleted > until);
    for bin in bins {
        bin.walk(&mut |found| {
            let (directory, name, flags, path) = match found {
                Found::File { deleted, .. } if is_young(deleted) => return,
                Found::DirectoryEnd { moved, .. } if moved.is_some_and(is_young) => return,
                Found::Unreadable { path, error } => return faults.report("read", path, error),
                Found::File { directory, name, path, .. } => {
                    (directory, name, AtFlags::empty(), path)
                }
                Found::DirectoryEnd { parent, name, path, .. } => {
                    (parent, name, AtFlags::REMOVEDIR, path)
                }
            };
            match unlinkat(directory.as_fd(), name, flags) {
                // A folder that still has files, or a file that another process has removed.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => return,
                Err(errno) => return faults.report("delete", path, &errno.into()),
                Ok(()) => {}
            }
            if let Found::File { size, .. } = found {
                files += 1;
                bytes += size;
            }
        });
    }
    (files, bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use config::Config;
    use tempfile::TempDir;

    use super::bin::find;
    use super::{Faults, age, remove};

    /// A share with a bin, on this machine's own file system.
    struct Share(TempDir);

    impl Share {
        fn new() -> Self {
            let share = Self(tempfile::tempdir().expect("there is space"));
            fs::create_dir(share.path(".recycle")).expect("there is space");
            share
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn make(&self, path: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().expect("it is in the share")).expect("space");
            fs::write(path, "1234").expect("there is space");
        }

        /// Changes the times of a folder.
        fn make_and_remove(&self, path: &str) {
            self.make(path);
            fs::remove_file(self.path(path)).expect("it was just made");
        }

        /// Last change of an inode.
        fn changed(&self, path: &str) -> SystemTime {
            let status = fs::metadata(self.path(path)).expect("it is there");
            let seconds = u64::try_from(status.ctime()).expect("it is new");
            let nanoseconds = u32::try_from(status.ctime_nsec()).expect("less than a second");
            SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
        }

        /// Does something until the change of a path has a later time: clocks have ticks.
        fn later(&self, path: &str, than: SystemTime, act: impl Fn()) -> SystemTime {
            loop {
                act();
                let changed = self.changed(path);
                if changed > than {
                    return changed;
                }
            }
        }

        fn rename(&self, from: &str, to: &str) {
            fs::rename(self.path(from), self.path(to)).expect("it is ours");
        }

        /// Removes what was deleted until a time. Returns the number of files.
        fn remove(&self, keep_tree: bool, until: SystemTime) -> u64 {
            let words = if keep_tree { "yes" } else { "no" };
            self.remove_with(&format!("recycle:keeptree = {words}\n"), Some(until))
        }

        /// As [`Self::remove`], with these lines in the configuration of the share.
        fn remove_with(&self, lines: &str, until: Option<SystemTime>) -> u64 {
            let path = self.0.path().display();
            let text = format!("[data]\npath = {path}\nvfs objects = recycle\n{lines}");
            let (config, _) = Config::parse(&text, "test").expect("it is right");
            let mut faults = Faults::default();
            let bins = find(&config, None, &mut faults).expect("there is one");
            let (files, _) = remove(&bins, until, &mut faults);
            faults.verdict().expect("all is ours");
            files
        }

        fn has(&self, path: &str) -> bool {
            self.path(path).exists()
        }
    }

    /// Files of a folder that is renamed into the bin keep their times.
    #[test]
    fn a_folder_that_was_moved_into_the_bin_stays_as_long_as_a_file_that_was_deleted_then() {
        for keep_tree in [false, true] {
            let share = Share::new();
            share.make("docs/sub/f");
            fs::create_dir(share.path("docs/empty")).expect("there is space");
            let before = share.changed("docs/empty").max(share.changed("docs/sub/f"));
            let moved = share.later("docs", before, || {
                share.rename("docs", "moved");
                share.rename("moved", "docs");
            });
            share.rename("docs", ".recycle/docs");
            assert_eq!(share.remove(keep_tree, before), 0, "keeptree {keep_tree}");
            assert!(share.has(".recycle/docs/sub/f") && share.has(".recycle/docs/empty"));
            // A later file in it hides the time of the move.
            share.later(".recycle/docs", moved, || share.make_and_remove(".recycle/docs/g"));
            assert_eq!(share.remove(keep_tree, moved), 0, "keeptree {keep_tree}");
            let now = share.changed(".recycle/docs");
            assert_eq!(share.remove(keep_tree, now), 1, "keeptree {keep_tree}");
            assert!(!share.has(".recycle/docs"));
        }
    }

    /// Otherwise a folder of which files are deleted each day would keep all of them.
    #[test]
    fn a_folder_that_the_bin_made_keeps_no_older_files() {
        let share = Share::new();
        share.make("docs/f");
        fs::create_dir(share.path(".recycle/docs")).expect("there is space");
        share.rename("docs/f", ".recycle/docs/f");
        let first = share.changed(".recycle/docs/f");
        share.later(".recycle/docs/g", first, || {
            share.make("docs/g");
            share.rename("docs/g", ".recycle/docs/g");
        });
        assert_eq!(share.remove(true, first), 1);
        assert!(!share.has(".recycle/docs/f") && share.has(".recycle/docs/g"));
    }

    /// With a variable in the path of the bin, the folder is a bin itself.
    #[test]
    fn a_folder_that_was_moved_beside_the_bins_of_users_stays_as_long() {
        let lines = "recycle:repository = .recycle/%U\n";
        let share = Share::new();
        share.make("docs/sub/f");
        let before = share.changed("docs/sub/f").max(share.changed("docs"));
        share.later("docs", before, || {
            share.rename("docs", "moved");
            share.rename("moved", "docs");
        });
        share.rename("docs", ".recycle/docs");
        assert_eq!(share.remove_with(lines, Some(before)), 0);
        assert!(share.has(".recycle/docs/sub/f"));
        let now = share.changed(".recycle/docs");
        assert_eq!(share.remove_with(lines, Some(now)), 1);
    }

    #[test]
    fn a_bin_of_a_user_keeps_no_older_files() {
        let share = Share::new();
        share.make("f");
        fs::create_dir(share.path(".recycle/anna")).expect("there is space");
        share.rename("f", ".recycle/anna/f");
        let first = share.changed(".recycle/anna/f");
        share.later(".recycle/anna/g", first, || {
            share.make("g");
            share.rename("g", ".recycle/anna/g");
        });
        assert_eq!(share.remove_with("recycle:repository = .recycle/%U\n", Some(first)), 1);
        assert!(share.has(".recycle/anna/g"));
    }

    /// The attack: the folder is made again, so that the one in the bin seems to be the bin's.
    #[test]
    fn a_younger_folder_of_the_share_does_not_make_a_moved_one_the_bins_own() {
        let share = Share::new();
        share.make("docs/sub/f");
        let before = share.changed("docs/sub/f");
        share.rename("docs", ".recycle/docs");
        let made = share.later("docs", before, || {
            let _ = fs::remove_dir(share.path("docs"));
            fs::create_dir(share.path("docs")).expect("it was removed");
        });
        share.later(".recycle/docs", made, || share.make_and_remove(".recycle/docs/g"));
        assert!(Path::new(&share.path("docs")).metadata().is_ok_and(|it| it.created().is_ok()));
        assert_eq!(share.remove(true, made), 0);
        assert!(share.has(".recycle/docs/sub/f"));
    }

    /// The attack: a rename within the share's folder needs no right to the folder that is renamed.
    #[test]
    fn a_folder_of_the_share_that_is_renamed_to_the_name_of_the_bin_and_a_number_is_left_alone() {
        for repository in [".recycle", ".recycle/%U"] {
            for number in ["77", "00c0ffee00c0ffee"] {
                let share = Share::new();
                for path in ["archive/f", "archive/2019/f", ".recycle/anna/f"] {
                    share.make(path);
                }
                share.rename("archive", &format!(".recycle-{number}"));
                let lines = format!(
                    "recycle:repository = {repository}\nrecycle:directory_mode = 01777\n\
                     recycle:subdir_mode = 0700\n"
                );
                assert_eq!(share.remove_with(&lines, None), 1, "{repository}, {number}");
                assert!(!share.has(".recycle/anna/f"));
                for path in ["f", "2019/f"] {
                    assert!(share.has(&format!(".recycle-{number}/{path}")));
                }
            }
        }
    }

    #[test]
    fn ages_are_numbers_with_a_unit() {
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3_600)));
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("2w"), age("14d"));
        for bad in ["", "d", "-1d", "30", "3 d", "99999999999d", "1é"] {
            age(bad).expect_err(bad);
        }
    }
}
