//! What a transport has done, in numbers.

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
}

impl Counters {
    /// All of them by name, in the order in which they are to be shown.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
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
        } = *self;
        vec![
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
        ]
    }
}
