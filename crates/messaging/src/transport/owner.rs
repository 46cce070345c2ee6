//! Ownership of sockets and records across a fork.

/// Process that created something; only it sends or removes it. A forked child has a copy and
/// leaves everything to its parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Owner(u32);

impl Owner {
    /// Returns this process as the owner.
    pub(super) fn here() -> Self {
        Self(std::process::id())
    }

    /// True if this process is the owner.
    pub(super) fn is_here(self) -> bool {
        self == Self::here()
    }
}
