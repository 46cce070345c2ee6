//! Log lines about clients that are turned away.
//!
//! A flood of connections must not fill the log. So the first refusal for each reason has a line of
//! its own, and a summary counts those that follow.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::admission::Refusal;

/// Time between two lines about one reason.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

impl Refusal {
    /// Returns the reason and the parameter behind it, as the end of a log line.
    fn reason(self) -> &'static str {
        match self {
            Self::Hosts => "by `hosts allow` or `hosts deny`",
            Self::Address => {
                "because its address has too many without a user (`max clients per address`)"
            }
            Self::AddressShare => {
                "because its address has three quarters of all places (`max smbd processes`)"
            }
            Self::Startups => "because too many have not logged on yet (`max startups`)",
            Self::Births => {
                "because its address and others had too many workers without a user lately"
            }
            Self::Full => "because all places are taken (`max smbd processes`)",
            Self::Crashes => "because workers that served its address have crashed",
            Self::NoWorker => "because no worker could take it",
        }
    }
}

/// Clients that were turned away for one reason since the last line about it.
#[derive(Debug)]
struct Unlogged {
    since: Instant,
    count: u64,
}

/// Counters of the refusals that no line has reported. Time is an argument.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<Refusal, Unlogged>);

impl Refusals {
    /// Notes a refusal. Returns the line to log, if it is the first in a while.
    pub(super) fn record(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        refusal: Refusal,
    ) -> Option<String> {
        if let Some(unlogged) = self.0.get_mut(&refusal) {
            unlogged.count += 1;
            return None;
        }
        self.0.insert(refusal, Unlogged { since: now, count: 0 });
        Some(format!("{peer}: refused {}", refusal.reason()))
    }

    /// Returns the summaries that are due.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        self.0.retain(|refusal, unlogged| {
            let Unlogged { since, count } = *unlogged;
            if now.duration_since(since) < SUMMARY_INTERVAL {
                return true;
            }
            if count > 0 {
                let seconds = now.duration_since(since).as_secs();
                let reason = refusal.reason();
                lines.push(format!("{count} more refused in {seconds} s {reason}"));
            }
            *unlogged = Unlogged { since: now, count: 0 };
            count > 0
        });
        lines
    }

    /// Returns the time of the next summary.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.0.values().map(|unlogged| unlogged.since + SUMMARY_INTERVAL).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Refusal, Refusals};

    #[test]
    fn a_flood_of_refusals_is_one_line_each_ten_seconds() {
        let peer = "192.0.2.1:1000".parse().expect("it is one");
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let first = refusals.record(start, peer, Refusal::Full).expect("the first is told");
        assert!(
            first.starts_with("192.0.2.1:1000: refused because all places are taken"),
            "{first}"
        );
        assert!(refusals.record(start, peer, Refusal::Address).is_some(), "another reason");
        for _ in 0..20_000 {
            assert_eq!(refusals.record(start, peer, Refusal::Full), None);
        }
        assert!(refusals.take_due(start + Duration::from_secs(9)).is_empty());
        let due = start + Duration::from_secs(10);
        assert_eq!(refusals.next_timeout(), Some(due));
        let lines = refusals.take_due(due);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("20000 more refused in 10 s because all places"), "{lines:?}");
        assert_eq!(refusals.record(due, peer, Refusal::Full), None, "it goes on");
        assert!(refusals.record(due, peer, Refusal::Address).is_some(), "that was over");
        let later = due + Duration::from_secs(10);
        assert!(refusals.take_due(later)[0].starts_with("1 more refused"));
        assert!(refusals.take_due(later + Duration::from_secs(10)).is_empty());
        assert_eq!(refusals.next_timeout(), None);
    }
}
