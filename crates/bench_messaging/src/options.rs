//! The command line of `choro bench messaging`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use messaging::TransportKind;

use super::workload::{self, Workload};

/// Measure the messages between processes: every transport, Samba's, and bare sockets.
///
/// Each line of the table is a workload over a transport. The workloads are those of Samba's
/// local.messaging.ping_speed (`ping`: pairs of pings of 11 bytes and of none, at most 20
/// unanswered), the same between 10 and 50 pairs of processes at once (`pairs`), with messages of 1
/// KiB and 64 KiB (`large`), and with one ping at a time (`latency`). Messages per second are pings
/// and pongs.
///
/// `tdb-no-mmap` is tdb with `use mmap = no`.
///
/// `bare` is two connected datagram sockets and poll: the limit of the machine with a datagram for
/// each message. A transport that packs several messages into one can exceed it. If smbtorture is
/// installed (Debian: samba-testsuite), Samba's own test is run as well: `samba`.
///
/// All are measured by turns, in rounds. A figure is the median of the rounds, with the lowest and
/// the highest as its spread; a ratio is the median of the ratios of the rounds. Needs neither a
/// server nor a configuration.
#[derive(Args, Clone, Debug)]
pub struct MessagingOptions {
    /// Seconds of measurement for each line of the table, all rounds together. Samba's test counts
    /// whole seconds, so each of its rounds has at least one second.
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds)]
    pub seconds: f64,
    /// Number of rounds of each measurement.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure only this workload: ping, pairs, large or latency; may be given more than once.
    #[arg(long, value_name = "NAME", value_parser = workload::NAMES)]
    pub workload: Vec<String>,
    /// Measure only this of our transports; may be given more than once.
    #[arg(long, value_name = "NAME")]
    pub transport: Vec<String>,
    /// Do not run Samba's own test.
    #[arg(long)]
    pub without_samba: bool,
    /// Measure instead the effect of a stopped process on another one that sends to it and to
    /// others; it is stopped for SECONDS.
    ///
    /// One process pings three others as fast as they answer; then, for the same time, it also
    /// sends messages of 16 KiB to a fourth process, which is stopped. The table shows the gaps
    /// between messages of the living processes; the processor time of the sender's longest turn,
    /// which distinguishes its own pauses from those of a machine with few processors; its memory;
    /// and the numbers of queued, refused and dropped messages; queued ones are dropped after a
    /// minute. Messages accepted and not dropped must arrive when the process goes on.
    #[arg(long, value_name = "SECONDS", value_parser = seconds,
          conflicts_with_all = ["workload", "svg", "seconds", "rounds"])]
    pub stopped_peer: Option<f64>,
    /// Print a JSON array with an object for each line of the table.
    /// Its members: workload, transport, pairs, message_bytes (the larger of a pair), outstanding,
    /// messages_per_second with messages_per_second_min and _max, p50_us and p99_us (of the round
    /// trip; null for samba), ratio_to_samba (null if not measured), ratio_to_bare.
    ///
    /// With --stopped-peer: workload ("stopped_peer"), transport, stopped (true if one was),
    /// seconds, living (processes), messages_per_second, gap_p50_us, gap_p999_us, gap_max_us,
    /// gap_max_us_each (of each living process), turn_max_us, memory_peak_kib, queued_max,
    /// queued_bytes_max, refused, dropped, delivered_afterwards.
    #[arg(long)]
    pub json: bool,
    /// Also write the table, in Markdown, into this file.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Also draw the table, into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Directory in which the lock directory is created [default: /dev/shm].
    #[arg(long, value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.01 to 3600".into()),
    }
}

impl MessagingOptions {
    /// Duration of a line's measurement in one round.
    #[must_use]
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.rounds))
    }

    pub(super) fn carriers(&self) -> Result<Vec<TransportKind>> {
        if self.transport.is_empty() {
            return Ok(TransportKind::BUILT.to_vec());
        }
        let kinds = self.transport.iter().map(|name| TransportKind::from_name(name));
        Ok(kinds.collect::<Result<_, _>>()?)
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        let mut workloads = workload::all();
        workloads.retain(|workload| {
            self.workload.is_empty() || self.workload.iter().any(|name| name == workload.name)
        });
        workloads
    }
}
