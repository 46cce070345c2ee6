//! Bytes that go from a socket into a file without coming into memory.

use std::net::TcpStream;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Bytes that a pipe holds: as many as anybody may have (`fs.pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// A pipe between a socket and a file.
pub(super) struct Splicing {
    output: OwnedFd,
    input: OwnedFd,
}

impl Splicing {
    pub(super) fn new() -> Result<Self> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC).context("a pipe")?;
        fcntl_setpipe_size(&input, PIPE_BYTES).context("a large pipe")?;
        Ok(Self { output, input })
    }

    /// Moves the next bytes that come to a place of the file.
    pub(super) fn receive(
        &self,
        socket: &TcpStream,
        file: &OwnedFd,
        mut place: u64,
        mut missing: usize,
    ) -> Result<()> {
        let flags = SpliceFlags::MOVE;
        while missing > 0 {
            let mut came = splice(socket, None, &self.input, None, missing, flags)?;
            ensure!(came > 0, "the client hung up");
            missing -= came;
            while came > 0 {
                came -= splice(&self.output, None, file, Some(&mut place), came, flags)?;
            }
        }
        Ok(())
    }
}
