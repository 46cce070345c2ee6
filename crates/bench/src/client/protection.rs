//! Protection of messages of a session.

use std::fmt;

/// Whether messages are signed or encrypted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protection {
    /// Neither; the client says that it can sign and does not ask for it.
    Plain,
    /// The client requires signatures, and checks them.
    Signed,
    /// The client encrypts, and the server does as the client.
    Sealed,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Signed => "signed",
            Self::Sealed => "sealed",
        })
    }
}
