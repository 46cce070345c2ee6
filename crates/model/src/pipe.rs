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
    /// Data of a WRITE whose request waits for the outcome of a task.
    held: Option<Vec<u8>>,
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
        Ok(Pipe { pipe, held: None, memory, _counted: Rc::clone(&self.0) })
    }
}

impl Pipe {
    /// Takes new data behind the interface: see [`rpc::Pipe::renew`].
    pub fn renew(&mut self, catalogue: Arc<dyn rpc::Catalogue>) {
        self.pipe.renew(catalogue);
    }

    /// Takes data that a client wrote: see [`rpc::Pipe::write`].
    ///
    /// # Errors
    /// If the pipe breaks, or another WRITE waits, or the data does not fit the client's memory
    /// limit; then the pipe stays as it was. A response of unknown length may exceed the limit, and
    /// then the next write is refused.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Reject> {
        if self.held.is_some() {
            return Err(Reject::PipeBusy);
        }
        self.memory.resize(self.pipe.memory() + bytes.len())?;
        let written = self.pipe.write(bytes);
        self.memory.set(self.pipe.memory());
        written.map_err(|_| Reject::PipeBroken)
    }

    /// Keeps the data of a WRITE whose request waits for the outcome of a task.
    ///
    /// # Errors
    /// If another one waits, or the data does not fit the client's memory limit.
    pub fn hold(&mut self, bytes: &[u8]) -> Result<(), Reject> {
        if self.held.is_some() {
            return Err(Reject::PipeBusy);
        }
        self.memory.resize(self.pipe.memory() + bytes.len())?;
        self.held = Some(bytes.to_vec());
        Ok(())
    }

    /// Returns the data of the WRITE that waits, which can be written now.
    pub fn take_held(&mut self) -> Vec<u8> {
        self.held.take().unwrap_or_default()
    }

    /// Returns the questions of a request to a domain: see [`rpc::Pipe::questions`].
    pub fn questions(&mut self, bytes: &[u8]) -> Vec<rpc::NameQuestion> {
        self.pipe.questions(bytes)
    }

    /// Takes a domain's answers for the next write, which drops them: see [`rpc::Pipe::learn`].
    pub fn learn(&mut self, found: Vec<(rpc::NameQuestion, rpc::Principal)>) {
        self.pipe.learn(found);
    }

    /// Returns the task that a request asks for: see [`rpc::Pipe::task`].
    pub fn task(&mut self, bytes: &[u8]) -> Option<rpc::Task> {
        self.pipe.task(bytes)
    }

    /// Takes the outcome of a task for the next write, which drops it: see
    /// [`rpc::Pipe::learn_outcome`].
    pub fn learn_outcome(&mut self, outcome: rpc::Outcome) {
        self.pipe.learn_outcome(outcome);
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
