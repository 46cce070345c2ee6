//! Reasons why bytes from ctdbd's socket are not what they claim to be.

/// Reason why bytes are not a packet, or not the answer to a control.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A list claims more entries than there may be, or than there are bytes for.
    #[error("a list of {0} entries")]
    Count(u32),
    /// The packet's own length is impossible.
    #[error("a packet of {0} bytes")]
    Length(u32),
    /// The packet does not begin as all packets do.
    #[error("{0:#010x} in place of the magic number")]
    Magic(u32),
    /// A field is outside the packet.
    #[error("a packet that ends within its fields")]
    Short,
    /// A text has no end, or is no text.
    #[error("a text that is none")]
    Text,
    /// The reply is of another kind than the request.
    #[error("a reply of another kind than its request")]
    Unexpected,
    /// A number that should name a state names none.
    #[error("the unknown state {0}")]
    State(u32),
    /// The protocol has another version.
    #[error("version {0} of the protocol")]
    Version(u32),
}
