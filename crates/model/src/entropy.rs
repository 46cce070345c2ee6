//! Source of unguessable bytes, given to the engine.

use std::fmt;

/// A source of unguessable bytes.
pub struct Entropy(Box<dyn Fill>);

/// Fills a buffer with unguessable bytes.
pub trait Fill: FnMut(&mut [u8]) + Send {}

impl<T: FnMut(&mut [u8]) + Send> Fill for T {}

impl Entropy {
    /// Wraps a source of unguessable bytes.
    #[must_use]
    pub fn new(fill: impl Fill + 'static) -> Self {
        Self(Box::new(fill))
    }

    /// Returns the next `N` unguessable bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.0)(&mut bytes);
        bytes
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}
