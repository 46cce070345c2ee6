//! `choro audit`, which shows the records of audited shares.

mod records;
mod since;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use config::Config;
use dtyp::upcase::equal_ignoring_case;
use observe::report;
use serde_json::Value;
use settings::Settings;

use self::records::Record;

/// Show who did what in audited shares (`vfs objects = full_audit`).
///
/// Reads the audit file of this machine, and the older ones beside it that logrotate has renamed.
/// The server may run meanwhile. Times are in UTC.
#[derive(Args, Debug)]
pub(super) struct Audit {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Only records of this user.
    #[arg(long, global = true)]
    user: Option<String>,
    /// Only records since then: an age such as `90m`, `12h`, `30d` or `8w`, or a time in UTC such
    /// as `2026-11-27` or `2026-11-27T08:30:00`.
    #[arg(long, global = true, value_name = "TIME", value_parser = since::parse)]
    since: Option<String>,
    /// Only records of this share.
    #[arg(long, global = true)]
    share: Option<String>,
    /// Only records of this event, such as `rename` or `logon`.
    #[arg(long, global = true)]
    event: Option<String>,
    /// Show the newest records, at most so many.
    #[arg(long, global = true, value_name = "COUNT", default_value_t = 1_000)]
    last: usize,
    /// Read this file instead, or standard input for `-`. May be repeated.
    #[arg(long, global = true, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Print a JSON array, one object for each record.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Show who deleted a file, moved it away, or put another one in its place.
    ///
    /// Also finds that a folder above it was deleted or renamed. `delete_pending` is a user's wish
    /// to delete a file that others had open; the last of them then deletes it.
    WhoDeleted {
        /// Path of the file: below its share, or from the root of this machine.
        path: String,
    },
}

/// A deleted file, as `who-deleted` names it.
struct Target {
    share: Option<String>,
    path: String,
}

impl Audit {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<()> {
        let config = Settings::find(config)?.config;
        let target = self
            .command
            .as_ref()
            .map(|AuditCommand::WhoDeleted { path }| Target::find(path, &config));
        let files = match self.file.is_empty() {
            false => self.file.clone(),
            true => match config.audit_outputs().file {
                Some(file) => records::files(&file)?,
                None => bail!("there is no audit file: `choro:audit file = none`"),
            },
        };
        let mut found = VecDeque::new();
        let mut unread = 0;
        for file in &files {
            unread += records::read(file, |record| {
                if self.wants(&record, target.as_ref()) {
                    found.push_back(record);
                    if found.len() > self.last {
                        found.pop_front();
                    }
                }
            })?;
        }
        if unread > 0 {
            writeln!(io::stderr(), "choro: {unread} lines are no records and are left out")?;
        }
        // Records of several clients may be written in another order.
        let mut found: Vec<Record> = found.into();
        found.sort_by(|one, other| one.text("time").cmp(other.text("time")));
        if self.json {
            let rows = found.into_iter().map(Record::into_members);
            return report::print_json(rows.collect());
        }
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        report::print(&report::table(
            &["TIME", "USER", "ADDRESS", "EVENT", "RESULT", "PATH"],
            &rows,
        ))
    }

    fn wants(&self, record: &Record, target: Option<&Target>) -> bool {
        let is = |wanted: &Option<String>, name| {
            wanted.as_ref().is_none_or(|it| equal_ignoring_case(it, record.text(name)))
        };
        // Of times that are written alike the later one is the greater text.
        let is_late = self.since.as_ref().is_none_or(|since| record.text("time") >= since.as_str());
        let is_of = target.is_none_or(|target| target.is_gone_by(record));
        is_late
            && is(&self.user, "user")
            && is(&self.share, "share")
            && is(&self.event, "event")
            && is_of
    }
}

impl Target {
    /// Finds the share of a path from the root; other paths are below any share.
    fn find(path: &str, config: &Config) -> Self {
        let plain = path.replace('\\', "/");
        let in_share = config.shares.iter().filter_map(|share| {
            let rest = Path::new(&plain).strip_prefix(&share.path).ok()?.to_str()?;
            Some((share.path.len(), share.name.clone(), rest.to_owned()))
        });
        match in_share.filter(|_| plain.starts_with('/')).max() {
            Some((_, share, path)) => Self { share: Some(share), path },
            None => Self { share: None, path: plain.trim_matches('/').to_owned() },
        }
    }

    /// Returns whether the record says why the file is gone.
    fn is_gone_by(&self, record: &Record) -> bool {
        let is_share =
            self.share.as_ref().is_none_or(|it| equal_ignoring_case(it, record.text("share")));
        let moves = match record.text("event") {
            "delete" | "delete_directory" | "delete_pending" => false,
            "rename" => true,
            _ => return false,
        };
        let (path, new_path) = (record.text("path"), record.text("new_path"));
        let is_replaced = moves && equal_ignoring_case(new_path, &self.path);
        let is_gone = is_at_or_below(&self.path, path) || is_replaced;
        is_share && is_gone && record.text("result") == "ok"
    }
}

/// Returns whether a path is this file's, or lies in this folder.
fn is_at_or_below(path: &str, folder: &str) -> bool {
    let (mut of_path, mut of_folder) = (path.split('/'), folder.split('/'));
    !folder.is_empty()
        && of_folder.all(|it| of_path.next().is_some_and(|own| equal_ignoring_case(it, own)))
}

fn row(record: &Record) -> Vec<String> {
    let [time, user, address, event, result] =
        ["time", "user", "address", "event", "result"].map(|name| record.text(name).to_owned());
    let mut path = match (record.text("share"), record.text("path")) {
        (share, "") => share.to_owned(),
        (share, path) => format!("{share}/{path}"),
    };
    if record.has("new_path") {
        path.push_str(" -> ");
        path.push_str(record.text("new_path"));
    }
    for (name, unit) in [("bytes", "bytes"), ("count", "records"), ("unlogged", "more")] {
        if let Some(Value::Number(number)) = record.get(name) {
            path.push_str(&format!(" ({number} {unit})"));
        }
    }
    let time = time.get(..19).map_or_else(|| time.clone(), |it| it.replace('T', " "));
    vec![time, user, address, event, result, path.trim_start().to_owned()]
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::{Record, Target, is_at_or_below};

    fn is_gone_by(path: &str, line: &str) -> bool {
        let text = "[data]\npath = /srv/data\n[inner]\npath = /srv/data/inner\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let record = Record::parse(line.as_bytes()).expect("it is a record");
        Target::find(path, &config).is_gone_by(&record)
    }

    #[test]
    fn a_deletion_is_found_by_each_form_of_the_path() {
        let line = r#"{"event":"delete","result":"ok","share":"data","path":"docs/Letter"}"#;
        for path in ["docs/letter", "docs\\letter", "/srv/data/docs/letter", "/docs/letter"] {
            assert!(is_gone_by(path, line), "{path}");
        }
        for path in ["docs", "docs/letter2", "letter", "/srv/data/inner/docs/letter"] {
            assert!(!is_gone_by(path, line), "{path}");
        }
        assert!(!is_gone_by("docs/letter", &line.replace("ok", "ACCESS_DENIED")));
    }

    #[test]
    fn renames_take_files_away_and_put_others_in_their_place() {
        let line = r#"{"event":"rename","result":"ok","share":"data","path":"a/b","new_path":"c"}"#;
        assert!(is_gone_by("a/b/letter", line) && is_gone_by("c", line));
        assert!(!is_gone_by("c/letter", line) && !is_gone_by("a", line));
    }

    #[test]
    fn the_root_is_above_no_file() {
        assert!(
            !is_at_or_below("a", "") && is_at_or_below("a/b", "a") && !is_at_or_below("ab", "a")
        );
    }
}
