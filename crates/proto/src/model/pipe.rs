//! An open pipe of a client, and the memory that it takes.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use dtyp::NtStatus;

use crate::model::memory_account::{Charge, MemoryAccount};
use crate::model::reject::Reject;

/// Pipes that a client may have open. Those that are known have one for each service that they talk
/// to.
const PIPES_MAX: usize = 256;

/// The pipes of a client, as far as they have to be counted.
#[derive(Debug, Default)]
pub struct Pipes(Rc<()>);

/// An open pipe. What it keeps is taken from the account of its client.
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
    /// The client has as many as it may have, or no memory is left for it.
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
    /// Takes what a client wrote: see [`rpc::Pipe::write`].
    ///
    /// # Errors
    /// The pipe breaks, or what is written finds no memory; then the pipe is as it was. The answer,
    /// whose length nobody knows before, may take more than there is: that is refused with the next
    /// write.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Reject> {
        self.memory.resize(self.pipe.memory() + bytes.len())?;
        let written = self.pipe.write(bytes);
        self.memory.set(self.pipe.memory());
        written.map_err(|_| Reject::Status(NtStatus::PIPE_DISCONNECTED))
    }

    /// Reads what waits: see [`rpc::Pipe::read`].
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
