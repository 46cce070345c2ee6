//! An open pipe of a client, and its memory.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::memory_account::{Charge, MemoryAccount};
use crate::reject::Reject;

/// Highest number of pipes that a client may have open. Known clients have one for each service
/// that they use.
const PIPES_MAX: usize = 256;

/// The pipes of a client: their number.
#[derive(Debug, Default)]
pub struct Pipes(Rc<()>);

/// An open pipe, with its memory charged to its client.
#[derive(Debug)]
pub struct Pipe {
    pipe: rpc::Pipe,
    memory: Charge,
    _counted: Rc<()>,
}

impl Pipes {
    /// Opens a pipe for `caller`.
    ///
    /// # Errors
    /// If the client has `PIPES_MAX` pipes or has reached its memory limit.
    pub fn open(
        &self,
        memory: &MemoryAccount,
        name: rpc::PipeName,
        catalogue: Arc<dyn rpc::Catalogue>,
        caller: rpc::Caller,
    ) -> Result<Pipe, Reject> {
        if Rc::strong_count(&self.0) > PIPES_MAX {
            return Err(Reject::TooManyPipes);
        }
        let pipe = rpc::Pipe::new(name, catalogue, caller);
        let memory = memory.keep(pipe.memory())?;
        Ok(Pipe { pipe, memory, _counted: Rc::clone(&self.0) })
    }
}

impl Pipe {
    /// Takes data that a client wrote: see [`rpc::Pipe::write`].
    ///
    /// # Errors
    /// If the pipe breaks, or the data does not fit the client's memory limit; then the pipe stays
    /// as it was. A response of unknown length may exceed the limit, and then the next write is
    /// refused.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Reject> {
        self.memory.resize(self.pipe.memory() + bytes.len())?;
        let written = self.pipe.write(bytes);
        self.memory.set(self.pipe.memory());
        written.map_err(|_| Reject::PipeBroken)
    }

    /// Returns the questions of a request to a domain: see [`rpc::Pipe::questions`].
    pub fn questions(&mut self, bytes: &[u8]) -> Vec<rpc::NameQuestion> {
        self.pipe.questions(bytes)
    }

    /// Takes a domain's answers for the next write, which drops them: see [`rpc::Pipe::learn`].
    pub fn learn(&mut self, found: Vec<(rpc::NameQuestion, rpc::Principal)>) {
        self.pipe.learn(found);
    }

    /// Reads data of a response: see [`rpc::Pipe::read`].
    pub fn read(&mut self, max_len: usize) -> Vec<u8> {
        let bytes = self.pipe.read(max_len);
        self.memory.set(self.pipe.memory());
        bytes
    }
}

impl Deref for Pipe {
    type Target = rpc::Pipe;

    fn deref(&self) -> &rpc::Pipe {
        &self.pipe
    }
}
