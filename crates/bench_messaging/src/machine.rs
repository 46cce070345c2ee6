//! Description of the machine of a run.

use std::fs;

use dtyp::UtcTime;
use serde::Serialize;

/// The machine and its system.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the processors.
    pub cpu: String,
    /// Number of processors that are online.
    pub processors: usize,
    /// Memory of the machine in MiB.
    pub memory_mib: u64,
    /// Release of the Linux kernel.
    pub kernel: String,
    /// Congestion control of TCP, which decides how fast loopback is.
    pub tcp: String,
    /// Date of the run, as year-month-day.
    pub date: String,
    /// Average number of runnable tasks in the last minute. Taken before the run, it is the load by
    /// others; much above zero, the figures are not worth keeping.
    pub load_average: f64,
}

/// Setting of the network namespace of the process that opens it.
pub const TCP_CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The load average from which on a run is disturbed.
const LOAD_DISTURBING: f64 = 0.5;

impl Machine {
    /// Describes this machine as of now.
    #[must_use]
    pub fn this() -> Self {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let kib = field(&memory, "MemTotal")
            .and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok());
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let UtcTime { year, month, day, .. } = UtcTime::of(std::time::SystemTime::now());
        Self {
            cpu: field(&information, "model name").unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib.unwrap_or_default() / 1024,
            kernel,
            tcp: congestion_control(),
            date: format!("{year:04}-{month:02}-{day:02}"),
            load_average: load.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
        }
    }

    /// Whether something else keeps the machine busy.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.load_average > LOAD_DISTURBING
    }

    /// A name for files with its results.
    #[must_use]
    pub fn file_stem(&self) -> String {
        let mut cpu = String::new();
        for character in self.cpu.chars() {
            if character.is_ascii_alphanumeric() {
                cpu.push(character.to_ascii_lowercase());
            } else if !cpu.ends_with('-') {
                cpu.push('-');
            }
        }
        format!("{}-{}", self.date, cpu.trim_matches('-'))
    }
}

/// The value of a line "name : value".
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then_some(value.trim())
    })
}

/// The congestion control of new connections.
#[must_use]
pub fn congestion_control() -> String {
    let text = fs::read_to_string(TCP_CONGESTION_CONTROL).unwrap_or_default();
    if text.trim().is_empty() { "unknown".into() } else { text.trim().into() }
}

#[cfg(test)]
mod tests {
    use super::{Machine, field};

    #[test]
    fn a_file_name_has_no_spaces() {
        let machine = Machine {
            cpu: "AMD EPYC (tm) 7B13".into(),
            processors: 2,
            memory_mib: 1,
            kernel: "6".into(),
            tcp: "cubic".into(),
            date: "2024-01-01".into(),
            load_average: 0.7,
        };
        assert_eq!(machine.file_stem(), "2024-01-01-amd-epyc-tm-7b13");
        assert!(machine.is_disturbed());
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: AMD EPYC\n";
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "name"), None);
    }
}
