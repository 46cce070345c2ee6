//! `server.lock`: whether a server is running on a lock directory, and its supervisor.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use dtyp::ServerId;

/// The supervisor's lock, held until it is dropped or the process dies.
///
/// It belongs to the open file, not to the process, so that closing another descriptor of the same
/// file does not drop it.
#[derive(Debug)]
pub(crate) struct ServerLock {
    _file: File,
}

impl ServerLock {
    /// Takes the lock and writes its holder to the file; `None` if a server is running already.
    pub(crate) fn take(lock_dir: &Path, supervisor: ServerId) -> io::Result<Option<Self>> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(lock_dir.join(NAME))?;
        match lock_call(&file, libc::F_OFD_SETLK) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(&supervisor.to_bytes())?;
        Ok(Some(Self { _file: file }))
    }

    /// Returns the supervisor of the running server; `None` without one.
    ///
    /// Does not take the lock, so that a server can start at the same moment.
    pub(crate) fn holder(lock_dir: &Path) -> io::Result<Option<ServerId>> {
        let path = lock_dir.join(NAME);
        let mut file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let found = lock_call(&file, libc::F_OFD_GETLK)?;
        if i32::from(found.l_type) == libc::F_UNLCK {
            return Ok(None);
        }
        // Between taking the lock and writing, the supervisor has no tables either.
        let mut supervisor = [0; ServerId::ENCODED_LEN];
        match file.read_exact(&mut supervisor) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|()| Some(ServerId::from_bytes(&supervisor))),
        }
    }
}

/// Takes or queries an exclusive lock of the whole file.
fn lock_call(file: &File, command: i32) -> io::Result<libc::flock> {
    // SAFETY: an all-zero `flock` is valid; it means the whole file and no pid, as locks of open
    // files require.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = i16::try_from(libc::F_WRLCK).expect("a lock type is a short in C");
    lock.l_whence = i16::try_from(libc::SEEK_SET).expect("a whence is a short in C");
    // SAFETY: the descriptor is open, and the kernel reads and writes only `lock`.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock),
    }
}

const NAME: &str = "server.lock";
