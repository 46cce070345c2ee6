//! Sources and targets of data: memory, or the files of a folder.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use dtyp::NtStatus;
use dtyp::fscc::FileAllInformation;
use rustix::fs::{Mode, OFlags};
use wire::FileId;
use wire::create::{CreateAction, CreateRequest, CreateResponse};
use wire::read::ReadRequest;
use wire::write::WriteRequest;

use super::opens::Opens;
use super::{HEAD_BYTES_MAX, PAYLOAD_BYTES_MAX};

/// System calls that move bytes between a file and a socket.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DataPath {
    /// Through memory of the process: `pread` and `send`, `recv` and `pwrite`.
    Pread,
    /// Within the kernel: `sendfile`, and `splice` twice.
    Sendfile,
}

/// Contents that the server offers.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Every name is a file with these bytes.
    Memory(Arc<[u8]>),
    /// The files of a folder.
    Folder(Arc<OwnedFd>, DataPath),
}

impl Content {
    pub(super) fn memory() -> Self {
        Self::Memory(vec![0x5A; PAYLOAD_BYTES_MAX].into())
    }

    pub(super) fn folder(path: &Path, way: DataPath) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        Ok(Self::Folder(folder.with_context(|| path.display().to_string())?.into(), way))
    }
}

/// Data that follow an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Payload {
    pub(super) bytes: usize,
    /// File and offset of data that are not in memory yet.
    pub(super) unread: Option<(FileId, u64)>,
    /// The answer is signed, and they with it.
    pub(super) is_signed: bool,
}

/// Data to read and write, of one connection.
pub(super) enum Data {
    Memory(Arc<[u8]>),
    Folder {
        opens: Opens,
        way: DataPath,
        /// Buffer for the head of a response, and data behind it.
        buffer: Vec<u8>,
    },
}

impl Data {
    pub(super) fn of(content: Content) -> Self {
        match content {
            Content::Memory(data) => Self::Memory(data),
            Content::Folder(folder, way) => {
                let buffer = vec![0; HEAD_BYTES_MAX + PAYLOAD_BYTES_MAX];
                Self::Folder { opens: Opens::new(folder), way, buffer }
            }
        }
    }

    /// The end of a long WRITE goes from the socket into the file without coming into memory.
    pub(super) const fn is_spliced(&self) -> bool {
        matches!(self, Self::Folder { way: DataPath::Sendfile, .. })
    }

    pub(super) const fn begin_frame(&mut self) {
        if let Self::Folder { opens, .. } = self {
            opens.begin_frame();
        }
    }

    pub(super) fn create(
        &mut self,
        request: &CreateRequest<'_>,
    ) -> Result<CreateResponse<'static>, NtStatus> {
        match self {
            Self::Memory(_) => Ok(CreateResponse {
                create_action: CreateAction::OPENED,
                file_id: FileId { persistent: 1, volatile: 1 },
                ..CreateResponse::default()
            }),
            Self::Folder { opens, .. } => opens.create(request),
        }
    }

    pub(super) fn close(&mut self, file_id: FileId) -> Result<(), NtStatus> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Folder { opens, .. } => opens.close(file_id),
        }
    }

    pub(super) fn all_information(&self, file_id: FileId) -> Result<FileAllInformation, NtStatus> {
        match self {
            Self::Memory(_) => Ok(FileAllInformation::default()),
            Self::Folder { opens, .. } => opens.all_information(file_id),
        }
    }

    /// Writes data, unless already in their file, and returns their number of bytes.
    pub(super) fn write(&mut self, request: &WriteRequest<'_>) -> Result<usize, NtStatus> {
        let data = request.data();
        match self {
            Self::Memory(_) => Ok(data.len()),
            Self::Folder { opens, .. } => opens.write(request.file_id, request.offset, data),
        }
    }

    /// Reads data, except those that go from the file to the socket.
    pub(super) fn read(
        &mut self,
        request: &ReadRequest<'_>,
        is_protected: bool,
    ) -> Result<Payload, NtStatus> {
        let bytes = usize::try_from(request.length).expect("64 bits are enough");
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        match self {
            Self::Memory(_) => Ok(Payload { bytes, ..Payload::default() }),
            Self::Folder { opens, way: DataPath::Sendfile, .. } if !is_protected => {
                opens.file(request.file_id)?;
                let unread = Some((request.file_id, request.offset));
                Ok(Payload { bytes, unread, ..Payload::default() })
            }
            Self::Folder { opens, buffer, .. } => {
                let room = &mut buffer[HEAD_BYTES_MAX..][..bytes];
                match opens.read(request.file_id, request.offset, room)? {
                    0 if bytes > 0 => Err(NtStatus::END_OF_FILE),
                    bytes => Ok(Payload { bytes, ..Payload::default() }),
                }
            }
        }
    }

    /// Returns the data of the last read.
    pub(super) fn last_read(&self, bytes: usize) -> &[u8] {
        match self {
            Self::Memory(data) => &data[..bytes],
            Self::Folder { buffer, .. } => &buffer[HEAD_BYTES_MAX..][..bytes],
        }
    }

    /// Returns the data of the last read behind `head`, in one piece.
    pub(super) fn last_read_behind(&mut self, head: &[u8], bytes: usize) -> Result<&mut [u8]> {
        let Self::Folder { buffer, .. } = self else { bail!("nothing in memory is protected") };
        let start = HEAD_BYTES_MAX.checked_sub(head.len()).context("the head is too long")?;
        buffer[start..HEAD_BYTES_MAX].copy_from_slice(head);
        Ok(&mut buffer[start..HEAD_BYTES_MAX + bytes])
    }

    /// Returns the descriptor of an open file.
    pub(super) fn file(&self, file_id: FileId) -> Option<&OwnedFd> {
        match self {
            Self::Memory(_) => None,
            Self::Folder { opens, .. } => opens.file(file_id).ok(),
        }
    }
}
