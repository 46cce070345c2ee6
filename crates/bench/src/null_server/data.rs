//! Where the data of all files come from and go to: memory, or one file.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::{HEAD_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::load::fixture;

/// Bytes that a pipe holds: as many as anybody may have (`fs.pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// How bytes come out of a file into a socket, and from there into one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Through memory of the process: `pread` and `send`, `recv` and `pwrite`.
    Pread,
    /// Within the kernel: `sendfile`, and `splice` twice.
    Sendfile,
}

/// What is in every file.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Memory(Arc<[u8]>),
    /// It is looked for in this folder when a client comes.
    File(Arc<Path>, Way),
}

impl Content {
    pub(super) fn memory() -> Self {
        Self::Memory(vec![0x5A; PAYLOAD_BYTES_MAX].into())
    }
}

/// What one connection reads and writes.
pub(super) enum Data {
    Memory(Arc<[u8]>),
    File {
        file: File,
        way: Way,
        buffer: Vec<u8>,
    },
    /// There is no such file yet.
    None,
}

impl Data {
    pub(super) fn of(content: Content) -> Self {
        match content {
            Content::Memory(data) => Self::Memory(data),
            Content::File(folder, way) => {
                let path = folder.join(fixture::STREAM);
                match File::options().read(true).write(true).open(path) {
                    Ok(file) => {
                        let buffer = vec![0; HEAD_BYTES_MAX + PAYLOAD_BYTES_MAX];
                        Self::File { file, way, buffer }
                    }
                    Err(_) => Self::None,
                }
            }
        }
    }

    /// The end of a long WRITE goes from the socket into the file without coming into memory.
    pub(super) const fn is_spliced(&self) -> bool {
        matches!(self, Self::File { way: Way::Sendfile, .. })
    }

    pub(super) fn write(&self, data: &[u8], place: u64) -> Result<()> {
        let Self::File { file, .. } = self else { return Ok(()) };
        Ok(file.write_all_at(data, place)?)
    }

    /// What is read, behind `head`, in one piece.
    pub(super) fn read_behind(
        &mut self,
        head: &[u8],
        place: u64,
        bytes: usize,
    ) -> Result<&mut [u8]> {
        let Self::File { file, buffer, .. } = self else { bail!("there is no file") };
        let frame = &mut buffer[..head.len() + bytes];
        let (front, data) = frame.split_at_mut(head.len());
        front.copy_from_slice(head);
        file.read_exact_at(data, place)?;
        Ok(frame)
    }
}

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
        data: &Data,
        mut place: u64,
        mut missing: usize,
    ) -> Result<()> {
        let Data::File { file, .. } = data else { bail!("there is no file") };
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
