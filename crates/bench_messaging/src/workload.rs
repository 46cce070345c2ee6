//! Workloads: message sizes and numbers of processes.

use std::fmt;

/// Messages of a measurement, and the number of processes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Number of pairs of processes.
    pub(super) pairs: usize,
    /// Bytes of the pings, which take turns.
    pub(super) sizes: &'static [usize],
    /// Pings that may be unanswered at once.
    pub(super) outstanding: usize,
}

impl Workload {
    /// Whether it is that of Samba's own test.
    pub(super) fn is_sambas(&self) -> bool {
        self.name == PING
    }

    /// Bytes of the larger of the pings.
    pub(super) fn message_bytes(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, pairs, outstanding, .. } = self;
        let bytes = self.message_bytes();
        write!(f, "{name}: {pairs} × {outstanding} outstanding, {bytes} bytes")
    }
}

const PING: &str = "ping";

/// The names, in the order of the table.
pub(super) const NAMES: [&str; 4] = [PING, "pairs", "large", "latency"];

/// The pings of Samba's test, and as many of them unanswered as it allows.
const SAMBAS: Workload = Workload { name: PING, pairs: 1, sizes: &[11, 0], outstanding: 20 };

/// All of them, in the order of the table.
pub(super) fn all() -> Vec<Workload> {
    let [_, pairs, large, latency] = NAMES;
    vec![
        SAMBAS,
        Workload { name: pairs, pairs: 10, ..SAMBAS },
        Workload { name: pairs, pairs: 50, ..SAMBAS },
        Workload { name: large, sizes: &[1 << 10], ..SAMBAS },
        Workload { name: large, sizes: &[64 << 10], ..SAMBAS },
        Workload { name: latency, sizes: &[11], outstanding: 1, ..SAMBAS },
    ]
}

#[cfg(test)]
mod tests {
    use super::{NAMES, all};

    #[test]
    fn every_name_has_a_workload_and_every_workload_a_name() {
        for workload in all() {
            assert!(NAMES.contains(&workload.name), "{workload}");
        }
        for name in NAMES {
            assert!(all().iter().any(|workload| workload.name == name), "{name}");
        }
    }
}
