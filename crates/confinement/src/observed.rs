//! The confinement of a running process, as the kernel shows it.

use std::fs;
use std::io;

/// Rights of a process, from `/proc/PID/status`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Observed {
    /// A filter of system calls is loaded.
    pub is_filtered: bool,
    /// Number of filters; `None` before Linux 5.9.
    pub filters: Option<u32>,
    /// Programs give it no rights.
    pub no_new_privileges: bool,
    /// Effective and permitted capabilities. A worker that acts for a user has permitted ones.
    pub capabilities: u64,
    /// Capabilities that a program could give it.
    pub bounding: u64,
}

/// Value of `Seccomp` with filters.
const FILTERED: &str = "2";

impl Observed {
    /// Reads those of a process.
    ///
    /// # Errors
    /// There is no such process, or `/proc` is not mounted.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(format!("/proc/{pid}/status"))?))
    }

    fn parse(status: &str) -> Self {
        let value = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        let bits = |name| value(name).and_then(|it| u64::from_str_radix(it, 16).ok());
        Self {
            is_filtered: value("Seccomp") == Some(FILTERED),
            filters: value("Seccomp_filters").and_then(|it| it.parse().ok()),
            no_new_privileges: value("NoNewPrivs") == Some("1"),
            capabilities: bits("CapEff").unwrap_or(0) | bits("CapPrm").unwrap_or(0),
            bounding: bits("CapBnd").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Observed;

    #[test]
    fn the_lines_of_the_kernel_are_read() {
        let status = "Name:\tchoro-worker\nCapPrm:\t00000000002000c0\nCapEff:\t0000000000000000\n\
                      CapBnd:\t00000000012005c7\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        let expected = Observed {
            is_filtered: true,
            filters: Some(3),
            no_new_privileges: true,
            capabilities: 0x20_00c0,
            bounding: 0x120_05c7,
        };
        assert_eq!(Observed::parse(status), expected);
        assert_eq!(Observed::parse("Seccomp:\t0\n"), Observed::default());
        Observed::of(std::process::id()).expect("it lives");
    }
}
