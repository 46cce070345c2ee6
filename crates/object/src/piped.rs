//! Data of a file on their way past the memory of the server.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Both ends of a pipe.
#[derive(Debug)]
pub struct Pipe {
    /// Where bytes come out.
    pub output: OwnedFd,
    /// Where they go in.
    pub input: OwnedFd,
    /// Pages that it has room for.
    pub pages_max: usize,
    /// For whoever makes pipes to count those that there are.
    pub counted: Arc<()>,
}

/// Data in a pipe: read from a file, or received to be written to one. It holds the pages that they are in,
/// of the page cache or of the network, so they can neither fail to come nor become fewer, whatever happens
/// to the file or the connection; what is written to the file meanwhile may be seen in what was read.
// One pointer, since it goes from hand to hand among operations that have none.
#[derive(Debug)]
pub struct Piped(Box<Filled>);

#[derive(Debug)]
struct Filled {
    pipe: Pipe,
    length: usize,
}

impl Piped {
    /// A pipe with so many bytes in it.
    #[must_use]
    pub fn new(pipe: Pipe, length: usize) -> Self {
        Self(Box::new(Filled { pipe, length }))
    }

    /// The pipe, to put bytes in or take them out: whoever does says how many ([`Self::came`],
    /// [`Self::took`]).
    #[must_use]
    pub fn pipe(&self) -> &Pipe {
        &self.0.pipe
    }

    /// Bytes that are left in it.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// So many bytes were put in.
    pub fn came(&mut self, bytes: usize) {
        self.0.length += bytes;
    }

    /// So many bytes were taken out.
    ///
    /// # Panics
    /// If there were not so many.
    pub fn took(&mut self, bytes: usize) {
        self.0.length = self.0.length.checked_sub(bytes).expect("nobody takes what is not there");
    }

    /// The pipe, to be used again. None if something is left in it, which would come out before what
    /// somebody else puts in: then it is closed.
    #[must_use]
    pub fn into_empty(self) -> Option<Pipe> {
        (self.0.length == 0).then_some(self.0.pipe)
    }
}
