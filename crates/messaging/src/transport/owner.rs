//! Whose a socket, a record or a message is.

/// The process that has made something, and that alone sends or takes it back. One that was forked off
/// has a copy of it, and leaves all there is to its parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Owner(u32);

impl Owner {
    /// This process.
    pub(super) fn here() -> Self {
        Self(std::process::id())
    }

    /// Whether it is this process.
    pub(super) fn is_here(self) -> bool {
        self == Self::here()
    }
}
