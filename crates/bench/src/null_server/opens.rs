//! Open files of one folder: created, opened, queried, written, read and closed with the fewest
//! possible system calls.
//!
//! A new file takes one `openat`, an existing one another, a new folder `mkdirat` and `openat`;
//! then one `statx` for the times and sizes of the response. Names are used as written, there is no
//! access control, and only the file system stores metadata.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use dtyp::fscc::{FileAllInformation, FileBasicInformation, FileStandardInformation};
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus, utf16};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, StatxFlags, StatxTimestamp, mkdirat, openat, statx,
};
use rustix::io::{Errno, pread, pwrite};
use wire::FileId;
use wire::create::{CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse};

/// Opens of one client: more than any load has.
const OPENS_MAX: usize = 1 << 10;

/// Rights of an open that writes.
const WRITES: AccessMask = AccessMask::WRITE_DATA.union(AccessMask::APPEND_DATA);

/// Opens of a client, by FileId.
pub(super) struct Opens {
    folder: Arc<OwnedFd>,
    /// Descriptors, indexed by the number in FileId.Volatile.
    files: Vec<Option<OwnedFd>>,
    /// Result of the last CREATE of this frame, for related requests: [MS-SMB2] 3.3.5.2.7.2.
    created: Result<FileId, NtStatus>,
    /// Metadata of that file until a change: one `statx` serves a whole compound.
    seen: Option<Seen>,
}

impl Opens {
    pub(super) const fn new(folder: Arc<OwnedFd>) -> Self {
        Self { folder, files: Vec::new(), created: Err(NtStatus::FILE_CLOSED), seen: None }
    }

    /// Ends the relation to the frame before: its CREATE is not for the next one's related
    /// requests.
    pub(super) const fn begin_frame(&mut self) {
        self.created = Err(NtStatus::FILE_CLOSED);
        self.seen = None;
    }

    pub(super) fn create(
        &mut self,
        request: &CreateRequest<'_>,
    ) -> Result<CreateResponse<'static>, NtStatus> {
        self.begin_frame();
        let created = self.open(request);
        self.created = created.as_ref().map(|it| it.file_id).map_err(|status| *status);
        created
    }

    fn open(&mut self, request: &CreateRequest<'_>) -> Result<CreateResponse<'static>, NtStatus> {
        let path = path_beneath(request.name)?;
        let (file, create_action) = self.opened(&path, request)?;
        let seen = read_metadata(&file)?;
        let file_id = self.keep(file)?;
        self.seen = Some(seen);
        let Seen { basic, standard } = seen;
        Ok(CreateResponse {
            create_action,
            creation_time: basic.creation_time,
            last_access_time: basic.last_access_time,
            last_write_time: basic.last_write_time,
            change_time: basic.change_time,
            allocation_size: standard.allocation_size,
            end_of_file: standard.end_of_file,
            file_attributes: basic.file_attributes,
            file_id,
            ..CreateResponse::default()
        })
    }

    /// Opens or creates the requested file. Requests that no load sends are refused.
    fn opened(
        &self,
        path: &[u8],
        request: &CreateRequest<'_>,
    ) -> Result<(OwnedFd, CreateAction), NtStatus> {
        let open = |flags| openat(&self.folder, path, flags | OFlags::CLOEXEC, FILE_MODE);
        let is_folder = request.create_options.contains(CreateOptions::DIRECTORY_FILE);
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let (file, action) = match request.create_disposition {
            CreateDisposition::OPEN if is_folder => {
                (open(OFlags::PATH | OFlags::DIRECTORY), CreateAction::OPENED)
            }
            CreateDisposition::OPEN => {
                (open(flags_for(request.desired_access)), CreateAction::OPENED)
            }
            CreateDisposition::CREATE if is_folder => {
                mkdirat(&self.folder, path, FOLDER_MODE).map_err(refused)?;
                (open(OFlags::PATH | OFlags::DIRECTORY), CreateAction::CREATED)
            }
            CreateDisposition::CREATE => (open(new), CreateAction::CREATED),
            CreateDisposition::OVERWRITE_IF => match open(new) {
                Err(Errno::EXIST) => {
                    (open(OFlags::RDWR | OFlags::TRUNC), CreateAction::OVERWRITTEN)
                }
                made => (made, CreateAction::CREATED),
            },
            _ => return Err(NtStatus::NOT_SUPPORTED),
        };
        Ok((file.map_err(refused)?, action))
    }

    /// Gives an open the first free number: there are few.
    fn keep(&mut self, file: OwnedFd) -> Result<FileId, NtStatus> {
        let free = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        if free == OPENS_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        if free == self.files.len() {
            self.files.push(None);
        }
        self.files[free] = Some(file);
        Ok(FileId { persistent: 1, volatile: u64::try_from(free).expect("64 bits are enough") })
    }

    /// The number of an open, or of the one of this compound.
    fn number(&self, file_id: FileId) -> Result<usize, NtStatus> {
        let file_id = if file_id == FileId::ANY { self.created? } else { file_id };
        usize::try_from(file_id.volatile).map_err(|_| NtStatus::FILE_CLOSED)
    }

    /// The open of this name.
    pub(super) fn file(&self, file_id: FileId) -> Result<&OwnedFd, NtStatus> {
        let file = self.files.get(self.number(file_id)?).and_then(Option::as_ref);
        file.ok_or(NtStatus::FILE_CLOSED)
    }

    pub(super) fn close(&mut self, file_id: FileId) -> Result<(), NtStatus> {
        let number = self.number(file_id)?;
        let file = self.files.get_mut(number).and_then(Option::take);
        file.map(drop).ok_or(NtStatus::FILE_CLOSED)
    }

    /// All that is known of a file, but its name.
    pub(super) fn all_information(&self, file_id: FileId) -> Result<FileAllInformation, NtStatus> {
        let file = self.file(file_id)?;
        let seen = match self.seen {
            Some(seen) if file_id == FileId::ANY => seen,
            _ => read_metadata(file)?,
        };
        let Seen { basic, standard } = seen;
        Ok(FileAllInformation { basic, standard, ..FileAllInformation::default() })
    }

    /// Reads from `offset` on, and returns how many bytes; none at or behind the end.
    pub(super) fn read(
        &self,
        file_id: FileId,
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, NtStatus> {
        pread(self.file(file_id)?, data, offset).map_err(refused)
    }

    /// Writes from `offset` on, and returns how many bytes.
    pub(super) fn write(
        &mut self,
        file_id: FileId,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, NtStatus> {
        self.seen = None;
        let file = self.file(file_id)?;
        // Of a long one, all is in the file already.
        if data.is_empty() { Ok(0) } else { pwrite(file, data, offset).map_err(refused) }
    }
}

/// Modes of new files and directories.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// Returns the flags to open an existing file with these rights.
const fn flags_for(desired_access: AccessMask) -> OFlags {
    if desired_access.intersects(WRITES) {
        OFlags::RDWR
    } else if desired_access.contains(AccessMask::READ_DATA) {
        OFlags::RDONLY
    } else {
        OFlags::PATH
    }
}

/// The path of a name, which does not leave the folder.
fn path_beneath(name: &[u8]) -> Result<Vec<u8>, NtStatus> {
    let name = utf16::decode(name).map_err(|_| NtStatus::OBJECT_NAME_INVALID)?;
    let is_name = |it: &str| !matches!(it, "" | "." | "..") && !it.contains(['/', '\0']);
    if !name.split('\\').all(is_name) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    let mut path = name.into_bytes();
    path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    Ok(path)
}

/// Metadata of a file, from `statx`.
#[derive(Clone, Copy)]
struct Seen {
    basic: FileBasicInformation,
    standard: FileStandardInformation,
}

fn read_metadata(file: &OwnedFd) -> Result<Seen, NtStatus> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let status = statx(file, c"", AtFlags::EMPTY_PATH, wanted).map_err(refused)?;
    let time = |it: StatxTimestamp| FileTime::from_unix(it.tv_sec, it.tv_nsec);
    let directory = FileType::from_raw_mode(status.stx_mode.into()) == FileType::Directory;
    let basic = FileBasicInformation {
        creation_time: time(status.stx_btime),
        last_access_time: time(status.stx_atime),
        last_write_time: time(status.stx_mtime),
        change_time: time(status.stx_ctime),
        file_attributes: if directory { FileAttributes::DIRECTORY } else { FileAttributes::NORMAL },
        ..FileBasicInformation::default()
    };
    let standard = FileStandardInformation {
        allocation_size: status.stx_blocks * STATX_BLOCK_BYTES,
        end_of_file: status.stx_size,
        number_of_links: status.stx_nlink,
        directory,
        ..FileStandardInformation::default()
    };
    Ok(Seen { basic, standard })
}

/// Bytes in a unit of `stx_blocks`: statx(2).
const STATX_BLOCK_BYTES: u64 = 512;

/// Returns the status for an error of the kernel.
const fn refused(error: Errno) -> NtStatus {
    match error {
        Errno::NOENT => NtStatus::OBJECT_NAME_NOT_FOUND,
        Errno::EXIST => NtStatus::OBJECT_NAME_COLLISION,
        _ => NtStatus::UNSUCCESSFUL,
    }
}

#[cfg(test)]
mod tests {
    use dtyp::{NtStatus, utf16};

    use super::path_beneath;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let path = |name: &str| path_beneath(&utf16::to_bytes(name));
        assert_eq!(path(r"a\b c"), Ok(b"a/b c".to_vec()));
        assert_eq!(path("..."), Ok(b"...".to_vec()));
        for out in ["..", r"a\..", r"..\a", r"\a", "/a", "a/../b", r"a\\b", "a\0b", ".", ""] {
            assert_eq!(path(out), Err(NtStatus::OBJECT_NAME_INVALID), "{out:?}");
        }
    }
}
