//! Data of a file that bypasses the memory of the server.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Both ends of a pipe.
#[derive(Debug)]
pub struct Pipe {
    /// End that bytes are read from.
    pub output: OwnedFd,
    /// End that bytes are written to.
    pub input: OwnedFd,
    /// Capacity of the pipe in pages.
    pub pages_max: usize,
    /// Reference count of a pool's pipes, shared by all of them.
    pub counted: Arc<()>,
}

/// Data in a pipe: read from a file, or received for a write to one. The pipe holds references to
/// pages of the page cache or of the network, so the data stays complete whatever happens to the
/// file or the connection; later writes to the file may be visible in data that was read.
// One pointer, since it is moved along with operations that have no pipe.
#[derive(Debug)]
pub struct Piped(Box<Filled>);

#[derive(Debug)]
struct Filled {
    pipe: Pipe,
    length: usize,
}

impl Piped {
    /// Takes a pipe with `length` bytes in it.
    #[must_use]
    pub fn new(pipe: Pipe, length: usize) -> Self {
        Self(Box::new(Filled { pipe, length }))
    }

    /// The pipe, to add or remove bytes. The caller reports their number ([`Self::came`],
    /// [`Self::took`]).
    #[must_use]
    pub fn pipe(&self) -> &Pipe {
        &self.0.pipe
    }

    /// Number of bytes in the pipe.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Reports that `bytes` were added.
    pub fn came(&mut self, bytes: usize) {
        self.0.length += bytes;
    }

    /// Reports that `bytes` were removed.
    ///
    /// # Panics
    /// If the pipe had fewer bytes.
    pub fn took(&mut self, bytes: usize) {
        self.0.length = self.0.length.checked_sub(bytes).expect("nobody takes what is not there");
    }

    /// Returns the empty pipe for another use. `None` if it has bytes left, which would precede
    /// those of the next user: then it is closed.
    #[must_use]
    pub fn into_empty(self) -> Option<Pipe> {
        (self.0.length == 0).then_some(self.0.pipe)
    }
}
