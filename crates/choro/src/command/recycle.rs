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
                return report::print(&format!("Restored {}\n", restored.display()));
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
    let (mut files, mut bytes) = (0_u64, 0_u64);
    for bin in bins {
        bin.walk(&mut |found| {
            let (directory, name, flags, path) = match found {
                Found::File { deleted, .. } if until.is_some_and(|until| deleted > until) => {
                    return;
                }
                Found::Unreadable { path, error } => return faults.report("read", path, error),
                Found::File { directory, name, path, .. } => {
                    (directory, name, AtFlags::empty(), path)
                }
                Found::DirectoryEnd { parent, name, path } => {
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
    report::print(&format!("Deleted {files} files of {bytes} bytes\n"))
}

#[cfg(test)]
mod tests {
    use super::age;
    use std::time::Duration;

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
