//! Options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;

use crate::load::fixture::Scale;
use crate::null_server::DataPath;
use crate::row::{self, Row};
use crate::server::Kind;

/// Measure Choro and Samba side by side.
///
/// Starts both servers on the loopback interface with shares on tmpfs, puts the same loads on both
/// in turn, prints a table of medians and ratios, and writes it to the results directory.
#[derive(Clone, Debug, Parser)]
#[command(name = "choro-bench", version, max_term_width = 100)]
pub struct Options {
    /// Measure only the rows whose names contain this; may be given more than once.
    #[arg(long, value_name = "PATTERN")]
    pub rows: Vec<String>,
    /// Print the names of the rows and end.
    #[arg(long)]
    pub list: bool,
    /// Repetitions of each row on each server.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Seconds of each measurement whose load has no fixed size.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,
    /// Small loads, once: to see that everything works, not to compare.
    #[arg(long)]
    pub quick: bool,
    /// Measure only this server, without comparison.
    #[arg(long, value_name = "SERVER", conflicts_with = "against")]
    pub only: Option<Kind>,
    /// Compare with this other build of Choro instead of Samba.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Compare with a server that answers from memory instead of Samba: the limit of this machine
    /// and the load generator. Rows that it cannot serve are left out.
    #[arg(long, conflicts_with_all = ["against", "only"])]
    pub against_null: bool,
    /// Compare with a bare server instead of Samba: the limit of this machine with files. It moves
    /// the same file's bytes in this way, without anything else. With `pread` it also creates,
    /// opens, queries, writes and closes small files, with the fewest possible system calls, and
    /// signs and seals large reads and writes. Rows that it cannot serve are left out.
    #[arg(long, value_name = "WAY", conflicts_with_all = ["against", "against_null", "only"])]
    pub against_raw: Option<DataPath>,
    /// Compare with the same build without io_uring, as in most containers, instead of Samba.
    #[arg(long, conflicts_with_all = ["against", "against_null", "against_raw", "only"])]
    pub against_fallback: bool,
    /// Give Samba its fastest settings: `vfs objects = io_uring`, `use sendfile = yes`, and
    /// asynchronous reads and writes of every size.
    #[arg(
        long,
        conflicts_with_all = ["against", "against_null", "against_raw", "against_fallback"],
    )]
    pub tuned_samba: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Check the load generator against smbclient and smbtorture instead.
    #[arg(long)]
    pub truth: bool,
    /// Measure Choro over each `messaging type` instead, with a load like dbench's.
    #[arg(long)]
    pub transports: bool,
    /// Measure the Linux kernel's client with small files instead, in a guest that shares a
    /// processor with the server.
    #[arg(long)]
    pub kernel_client: bool,
    /// With `--kernel-client`: guest and server run on all processors.
    #[arg(long, requires = "kernel_client", conflicts_with = "cpu")]
    pub all_processors: bool,
    /// Measure Choro's other shares while the storage of one hangs instead, for `--seconds` in each
    /// kind of operation. With `--rows`, only those kinds.
    #[arg(long)]
    pub hanging_storage: bool,
    /// Measure how exactly limits of classes of service hold instead.
    #[arg(long)]
    pub limits: bool,
    /// Measure classes of service instead: credits, an unlimited client beside a limited one,
    /// weights, latency and the cost of rules. With `--rows`, only the parts `credits`, `beside`,
    /// `weights`, `latency` or `cost`.
    #[arg(long)]
    pub qos: bool,
    /// File for the chart: of ratios, or, with `--qos`, of classes of service.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["truth", "transports", "limits"])]
    pub svg: Option<PathBuf>,
    /// The processor to pin to [default: the last].
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<usize>,
    /// Choro's executable [default: beside this one].
    #[arg(long, value_name = "FILE")]
    pub choro: Option<PathBuf>,
    /// Directory for the shares and the servers' state; should be a tmpfs.
    #[arg(long, value_name = "DIRECTORY", default_value = "/dev/shm")]
    pub directory: PathBuf,
    /// Directory for the results [default: bench/results]. A quick or partial run writes none
    /// without this option.
    #[arg(long, value_name = "DIRECTORY")]
    pub results: Option<PathBuf>,
    /// Be the null server on this port.
    #[arg(long, value_name = "PORT", hide = true)]
    pub serve_nothing: Option<u16>,
    /// Be the bare server, with the files of this folder.
    #[arg(
        long,
        value_name = "FOLDER",
        hide = true,
        requires_all = ["serve_nothing", "against_raw"],
    )]
    pub serve_folder: Option<PathBuf>,
    /// This process has a network namespace of its own already.
    #[arg(long, hide = true)]
    pub own_network: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.01 to 600".into()),
    }
}

impl Options {
    /// Sizes of the loads, by `--quick`.
    #[must_use]
    pub const fn scale(&self) -> Scale {
        if self.quick { Scale::QUICK } else { Scale::FULL }
    }

    /// Duration of a measurement, without the preparation.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(if self.quick { self.seconds.min(0.05) } else { self.seconds })
    }

    /// Number of repetitions of each row.
    #[must_use]
    pub const fn repetitions(&self) -> u32 {
        if self.quick { 1 } else { self.repetitions }
    }

    /// The rows that were asked for.
    #[must_use]
    pub fn chosen_rows(&self) -> Vec<Row> {
        let mut rows = row::all();
        rows.retain(|row| {
            let name = row.to_string();
            let is_chosen = self.rows.is_empty()
                || self.rows.iter().any(|pattern| name.contains(pattern.as_str()));
            is_chosen
                && (!self.against_null || row.has_limit())
                && self.against_raw.is_none_or(|way| row.is_served_bare(way))
        });
        rows
    }

    /// The servers that were asked for.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        let second = match self.against {
            Some(_) => Kind::Other,
            None if self.against_null => Kind::Null,
            None if self.against_fallback => Kind::Fallback,
            None => self.against_raw.map_or(Kind::Samba, Kind::Raw),
        };
        self.only.map_or_else(|| vec![Kind::Choro, second], |kind| vec![kind])
    }

    /// More lines for the configuration of a server of this kind.
    #[must_use]
    pub const fn global(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Samba if self.tuned_samba => {
                "vfs objects = io_uring\nuse sendfile = yes\n\
                 aio read size = 1\naio write size = 1\n"
            }
            _ => "",
        }
    }

    /// The executable of a server of this kind that is Choro's.
    ///
    /// # Errors
    ///
    /// As [`Options::choro`].
    pub fn program(&self, kind: Kind) -> Result<PathBuf> {
        match (kind, &self.against) {
            (Kind::Other, Some(path)) => Ok(path.clone()),
            _ => self.choro(),
        }
    }

    /// Choro's executable.
    ///
    /// # Errors
    ///
    /// When it is not named and this executable has no place.
    pub fn choro(&self) -> Result<PathBuf> {
        match &self.choro {
            Some(path) => Ok(path.clone()),
            None => {
                let own = std::env::current_exe().context("where is this executable")?;
                Ok(own.with_file_name("choro"))
            }
        }
    }

    /// Directory for the results, if any are written.
    #[must_use]
    pub fn results(&self) -> Option<PathBuf> {
        let beside_samba = self.only.is_none() && self.kinds().last() == Some(&Kind::Samba);
        let both = beside_samba && !self.tuned_samba;
        let whole = !self.quick && self.rows.is_empty() && both;
        let ours = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/results"));
        self.results.clone().or_else(|| whole.then(ours))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::Options;
    use crate::row;

    fn parse(arguments: &[&str]) -> Options {
        Options::try_parse_from([&["choro-bench"], arguments].concat()).expect("it is right")
    }

    #[test]
    fn rows_are_chosen_by_any_of_the_patterns() {
        assert_eq!(parse(&[]).chosen_rows(), row::all());
        let chosen = parse(&["--rows", "stat", "--rows", "idle"]).chosen_rows();
        let names: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["stat, depth 1", "memory: idle client", "system calls: stat, depth 1"]);
    }

    #[test]
    fn only_a_whole_run_is_kept_unasked() {
        assert!(parse(&[]).results().is_some());
        let against = ["--against", "/tmp/choro"];
        let raw = ["--against-raw", "pread"];
        let fallback = ["--against-fallback"];
        let other = [&["--against-null"][..], &raw, &["--tuned-samba"], &against, &fallback];
        let partial = [&["--quick"][..], &["--only", "samba"], &["--rows", "stat"]];
        for partial in partial.into_iter().chain(other) {
            assert_eq!(parse(partial).results(), None, "{partial:?}");
        }
        assert!(parse(&["--quick", "--results", "/tmp/x"]).results().is_some());
    }

    #[test]
    fn another_build_stands_in_the_place_of_samba() {
        let options = parse(&["--choro", "/new/choro", "--against", "/old/choro"]);
        let programs =
            options.kinds().into_iter().map(|kind| options.program(kind).expect("named"));
        assert_eq!(
            programs.collect::<Vec<_>>(),
            [Path::new("/new/choro"), Path::new("/old/choro")]
        );
    }

    #[test]
    fn a_null_server_has_no_files_to_list_and_no_cipher() {
        let rows = parse(&["--against-null"]).chosen_rows();
        let names: Vec<String> = rows.iter().map(ToString::to_string).collect();
        assert!(names.iter().any(|name| name == "read 1 MiB, depth 16, plain"));
        assert!(names.iter().any(|name| name == "small-file copy, depth 1"));
        let without = ["sealed", "signed", "listing", "memory", "system calls", "channel"];
        assert!(!names.iter().any(|name| without.iter().any(|it| name.contains(it))), "{names:?}");
    }

    #[test]
    fn a_bare_server_has_files_and_no_listings() {
        let names = |way: &str| -> Vec<String> {
            let rows = parse(&["--against-raw", way]).chosen_rows();
            rows.iter().map(ToString::to_string).collect()
        };
        let within_the_kernel = names("sendfile");
        assert!(within_the_kernel.iter().any(|name| name == "write 1 MiB, depth 16, plain"));
        let is_plain = |name: &String| name.contains("plain");
        assert!(within_the_kernel.iter().all(is_plain), "{within_the_kernel:?}");
        let by_memory = names("pread");
        let rows = [
            "write 1 MiB, depth 16, sealed",
            "small-file copy, depth 4",
            "stat, depth 1",
            "open + close, depth 16",
            "create, large directory",
            "system calls: small-file copy, depth 1",
        ];
        for row in rows {
            assert!(by_memory.iter().any(|name| name == row), "{row}");
        }
        let without = ["listing", "memory", "channel", "echo", "connect"];
        let is_without = |name: &String| !without.iter().any(|it| name.contains(it));
        assert!(by_memory.iter().all(is_without), "{by_memory:?}");
    }

    #[test]
    fn a_measurement_takes_some_time() {
        for wrong in ["0", "-1", "nan", "1e9", "x"] {
            let arguments = ["choro-bench", "--seconds", wrong];
            assert!(Options::try_parse_from(arguments).is_err(), "{wrong}");
        }
    }
}
