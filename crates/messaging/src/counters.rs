//! Counters that every transport keeps.

use crate::latency::Latency;

/// Counts since the process started; those of the queue are as of now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Messages handed to the receiver's socket or record.
    pub sent: u64,
    /// Bytes of the frames sent.
    pub bytes_sent: u64,
    /// Messages that arrived as a whole.
    pub received: u64,
    /// Bytes of the frames received.
    pub bytes_received: u64,
    /// Messages queued now, for receivers without room.
    pub queued: u64,
    /// Bytes of the frames queued.
    pub queued_bytes: u64,
    /// Number of times a receiver was full.
    pub retries: u64,
    /// Messages refused because the queue was at its limit.
    pub refused: u64,
    /// Messages dropped because their receiver had no room for too long.
    pub dropped: u64,
    /// Messages dropped because their receiver was gone.
    pub lost: u64,
    /// Arrivals that violate the form of a packet or frame.
    pub malformed: u64,
    /// Arrivals with an unknown version of the form.
    pub version_unknown: u64,
    /// Arrivals for another process, for instance one that had this pid before.
    pub misaddressed: u64,
    /// Arrivals with a false sender, or from outside the server.
    pub forged: u64,
    /// Messages whose rest never arrived, or whose parts found no room.
    pub incomplete: u64,
    /// Messages whose descriptors were lost on the way, for instance at this process's limit.
    pub descriptors_lost: u64,
    /// Latency of received messages, from the send call.
    pub latency: Latency,
}

#[cfg(feature = "messaging-tdb")]
impl Counters {
    /// Adds the counts of another channel of the same transport.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        let Self { latency, .. } = &mut self;
        latency.merge(&other.latency);
        Self {
            sent: self.sent + other.sent,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            received: self.received + other.received,
            bytes_received: self.bytes_received + other.bytes_received,
            queued: self.queued + other.queued,
            queued_bytes: self.queued_bytes + other.queued_bytes,
            retries: self.retries + other.retries,
            refused: self.refused + other.refused,
            dropped: self.dropped + other.dropped,
            lost: self.lost + other.lost,
            malformed: self.malformed + other.malformed,
            version_unknown: self.version_unknown + other.version_unknown,
            misaddressed: self.misaddressed + other.misaddressed,
            forged: self.forged + other.forged,
            incomplete: self.incomplete + other.incomplete,
            descriptors_lost: self.descriptors_lost + other.descriptors_lost,
            latency: self.latency,
        }
    }
}

impl Counters {
    /// Returns all counters by name, in the order for display; of the latency the 50th, 99th and
    /// 100th percentile and the count of each step, with names that begin with [`LATENCY_STEP`].
    #[must_use]
    pub fn named(&self) -> Vec<(String, u64)> {
        // Destructured, so that a new counter is not forgotten here.
        let Self {
            sent,
            bytes_sent,
            received,
            bytes_received,
            queued,
            queued_bytes,
            retries,
            refused,
            dropped,
            lost,
            malformed,
            version_unknown,
            misaddressed,
            forged,
            incomplete,
            descriptors_lost,
            latency,
        } = *self;
        let percentile = |percent| latency.percentile(percent).unwrap_or_default();
        let counts = [
            ("sent", sent),
            ("bytes_sent", bytes_sent),
            ("received", received),
            ("bytes_received", bytes_received),
            ("queued", queued),
            ("queued_bytes", queued_bytes),
            ("retries", retries),
            ("refused", refused),
            ("dropped", dropped),
            ("lost", lost),
            ("malformed", malformed),
            ("version_unknown", version_unknown),
            ("misaddressed", misaddressed),
            ("forged", forged),
            ("incomplete", incomplete),
            ("descriptors_lost", descriptors_lost),
            ("latency_p50_ns", percentile(50)),
            ("latency_p99_ns", percentile(99)),
            ("latency_max_ns", percentile(100)),
        ];
        let steps = latency.steps().map(|(bound, count)| match bound {
            Some(bound) => (format!("{LATENCY_STEP}{bound}_ns"), count),
            None => (format!("{LATENCY_STEP}any"), count),
        });
        counts.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(steps).collect()
    }
}

/// Prefix of the names of latency steps; the step's upper bound (exclusive) follows, the lower
/// bound is that of the step before.
pub const LATENCY_STEP: &str = "latency_below_";
