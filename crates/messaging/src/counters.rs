//! What a transport has done, in numbers.

use crate::latency::Latency;

/// Counts since the process started, but for the queue, which is as it is now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Messages handed to the receiver's process.
    pub sent: u64,
    /// Bytes of their frames.
    pub bytes_sent: u64,
    /// Messages that arrived whole.
    pub received: u64,
    /// Bytes of their frames.
    pub bytes_received: u64,
    /// Messages that wait for room at their receivers now.
    pub queued: u64,
    /// Bytes of their frames.
    pub queued_bytes: u64,
    /// Times a receiver was found full.
    pub retries: u64,
    /// Messages refused because the queue was at its limit.
    pub refused: u64,
    /// Messages dropped because their receiver had no room for too long.
    pub dropped: u64,
    /// Messages dropped because their receiver was gone.
    pub lost: u64,
    /// Arrivals that were not in the form they should have.
    pub malformed: u64,
    /// Arrivals of a version that is not known.
    pub version_unknown: u64,
    /// Arrivals for another process, for instance one that had this pid before.
    pub misaddressed: u64,
    /// Arrivals whose sender was not who it said, or not one of the server.
    pub forged: u64,
    /// Messages of which the rest never came, or for whose parts there was no room.
    pub incomplete: u64,
    /// Messages whose descriptors were lost on the way, for instance at this process's limit.
    pub descriptors_lost: u64,
    /// How long those took that were received.
    pub latency: Latency,
}

#[cfg(feature = "messaging-tdb")]
impl Counters {
    /// These and those of another channel of the same transport.
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
    /// All of them by name, in the order in which they are to be shown; of the latency, bounds that
    /// so many in a hundred messages were faster than, and how many there are in each step, whose
    /// names begin with [`LATENCY_STEP`].
    #[must_use]
    pub fn named(&self) -> Vec<(String, u64)> {
        // Taken apart, so that one that is added is not forgotten here.
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

/// What the names of the steps of the latency begin with; what follows is what those in the step were
/// faster than, and those before it were not.
pub const LATENCY_STEP: &str = "latency_below_";
