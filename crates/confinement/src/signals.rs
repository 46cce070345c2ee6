//! Extent of the signals that a process may send.

/// Processes that a process may signal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signals {
    /// The process itself, and no other.
    ToItself,
    /// Others, too, by real-time signals: they announce messages by TDB.
    OfMessages,
}
