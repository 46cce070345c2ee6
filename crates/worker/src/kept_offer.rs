//! The interfaces that were offered to a client lately.
//!
//! To list them, the kernel is asked for each link and address, and drivers for speeds. A compound
//! may have hundreds of requests for them, and clients repeat theirs after minutes.

use std::time::Duration;

use config::Global;
use interfaces::Offer;
use tracing::warn;

/// Longest time for which a change of a link may stay unseen.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The last offer, with the time of its making.
#[derive(Debug, Default)]
pub(super) struct KeptOffer(Option<(Duration, Offer)>);

impl KeptOffer {
    /// Returns the offer of this second, which `list` makes if there is none.
    pub(super) fn offer(&mut self, now: Duration, list: impl FnOnce() -> Offer) -> &Offer {
        let is_recent = |(since, _): &(Duration, _)| now.saturating_sub(*since) < AGE_MAX;
        let kept = self.0.take().filter(is_recent);
        &self.0.insert(kept.unwrap_or_else(|| (now, list()))).1
    }

    /// Forgets the offer, whose configuration has changed.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

/// Returns the interfaces that are offered to clients, as they are now.
pub(super) fn list_interfaces(global: &Global) -> Offer {
    Offer::now(global).unwrap_or_else(|error| {
        warn!("cannot list the addresses of this machine: {error}");
        Offer::default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use interfaces::Offer;

    use super::{AGE_MAX, KeptOffer};

    #[test]
    fn the_links_are_listed_once_a_second_and_after_each_change_of_the_configuration() {
        let (mut kept, mut listed) = (KeptOffer::default(), 0);
        let begin = Duration::from_secs(7);
        let mut ask = |kept: &mut KeptOffer, now| {
            kept.offer(now, || {
                listed += 1;
                Offer { unmatched: vec![listed.to_string()], ..Offer::default() }
            });
            listed
        };
        for _ in 0..500 {
            assert_eq!(ask(&mut kept, begin), 1);
        }
        assert_eq!(ask(&mut kept, begin + AGE_MAX / 2), 1);
        assert_eq!(ask(&mut kept, begin + AGE_MAX), 2);
        kept.forget();
        assert_eq!(ask(&mut kept, begin + AGE_MAX), 3);
    }
}
