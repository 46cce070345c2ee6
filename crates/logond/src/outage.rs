//! Whether the domain answers. While it does not, passwords are refused at once: each question
//! would take a minute of a thread, and of a client.

use std::time::{Duration, Instant};

/// State of the domain, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Outage(Option<Out>);

#[derive(Debug)]
struct Out {
    probe_at: Instant,
    pause: Duration,
    is_probing: bool,
}

impl Outage {
    /// Returns whether the domain may be asked about a client's password.
    pub(crate) fn may_ask(&self) -> bool {
        self.0.is_none()
    }

    /// Records a question without an answer. True if that is news.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let is_news = self.0.is_none();
        let pause = self.0.as_ref().map_or(PAUSE_MIN, |out| (2 * out.pause).min(PAUSE_MAX));
        match &mut self.0 {
            // Questions from before the outage end later, and say nothing new.
            Some(out) if !out.is_probing => {}
            state => *state = Some(Out { probe_at: now + pause, pause, is_probing: false }),
        }
        is_news
    }

    /// Records a probe without an answer. Without a probe under way nothing changes: the domain may
    /// have answered a password meanwhile.
    pub(crate) fn probe_failed(&mut self, now: Instant) {
        if self.0.as_ref().is_some_and(|out| out.is_probing) {
            self.begin(now);
        }
    }

    /// Records that the probe was not asked, so that another question is the next one.
    pub(crate) fn not_probed(&mut self) {
        if let Some(out) = &mut self.0 {
            out.is_probing = false;
        }
    }

    /// Records an answer. True if that is news.
    pub(crate) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Returns true, once, if the domain should be asked for a sign of life. The result is one of
    /// [`Self::begin`] and [`Self::end`].
    pub(crate) fn take_probe(&mut self, now: Instant) -> bool {
        match &mut self.0 {
            Some(out) if !out.is_probing && out.probe_at <= now => {
                out.is_probing = true;
                true
            }
            _ => false,
        }
    }

    /// Returns the time of the next [`Self::take_probe`].
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        self.0.as_ref().filter(|out| !out.is_probing).map(|out| out.probe_at)
    }
}

/// Time until the first sign of life is asked for.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest time between two requests for a sign of life.
const PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Outage, PAUSE_MAX, PAUSE_MIN};

    #[test]
    fn an_outage_is_reported_once_and_ends_with_the_first_answer() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        assert!(outage.may_ask() && outage.next_probe().is_none());
        assert!(outage.begin(now) && !outage.may_ask());
        assert!(!outage.begin(now + Duration::from_secs(1)), "it is known");
        assert_eq!(outage.next_probe(), Some(now + PAUSE_MIN), "late questions move nothing");
        assert!(outage.end() && outage.may_ask());
        assert!(!outage.end());
    }

    #[test]
    fn a_probe_that_fails_after_an_answer_begins_no_outage() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        outage.begin(now);
        assert!(outage.take_probe(now + PAUSE_MIN));
        assert!(outage.end());
        outage.probe_failed(now + PAUSE_MIN);
        assert!(outage.may_ask(), "it has answered since");
    }

    #[test]
    fn probes_become_rare_and_one_is_under_way_at_most() {
        let (mut outage, mut now) = (Outage::default(), Instant::now());
        outage.begin(now);
        let mut pause = PAUSE_MIN;
        for _ in 0..8 {
            assert_eq!(outage.next_probe(), Some(now + pause));
            assert!(!outage.take_probe(now + pause - Duration::from_nanos(1)));
            now += pause;
            assert!(outage.take_probe(now) && !outage.take_probe(now));
            assert_eq!(outage.next_probe(), None);
            outage.begin(now);
            pause = (2 * pause).min(PAUSE_MAX);
        }
        assert_eq!(pause, PAUSE_MAX);
    }
}
