//! A share that a request is about.

use std::ops::Deref;

use config::Share;

/// A share as it is configured, or one that is made for the request. It is small: the stack of a
/// worker, where tree connects lie deepest, is a part of the memory of each client.
#[derive(Debug)]
pub(super) enum FoundShare<'a> {
    /// A share of the configuration, unchanged.
    Configured(&'a Share),
    /// A home, a user's share, or one whose lists name the requester.
    Made(Box<Share>),
}

impl FoundShare<'_> {
    /// Returns the share, which may be changed then.
    pub(super) fn into_made(self) -> Box<Share> {
        match self {
            Self::Configured(share) => Box::new(share.clone()),
            Self::Made(share) => share,
        }
    }
}

impl Deref for FoundShare<'_> {
    type Target = Share;

    fn deref(&self) -> &Share {
        match self {
            Self::Configured(share) => share,
            Self::Made(share) => share,
        }
    }
}
