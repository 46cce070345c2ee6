//! `msg/` in the lock directory: one socket per process, named by its pid.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::transport::InitError;

/// The directory, open.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// A socket file that this process made; dropping it removes the file.
#[derive(Debug)]
pub(super) struct Bound {
    directory: Directory,
    name: String,
    /// Device and inode, so that only our own file is removed.
    file: (u64, u64),
    pub(super) socket: OwnedFd,
}

impl Directory {
    /// Opens the directory, making it if it is not there. It must belong to this user or root,
    /// and to nobody else.
    pub(super) fn open(lock_dir: &Path) -> Result<Self, InitError> {
        let path = lock_dir.join("msg");
        let system = |error: Errno| InitError::System { path: path.clone(), source: error.into() };
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(system(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&path, flags, Mode::empty()).map_err(system)?;
        let stat = rustix::fs::fstat(&descriptor).map_err(system)?;
        let ours = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
        if !ours || stat.st_mode & 0o077 != 0 {
            let mode = stat.st_mode & 0o7777;
            return Err(InitError::DirectoryNotOurs { path, uid: stat.st_uid, mode });
        }
        Ok(Self { path, descriptor })
    }

    /// Makes the socket of the process `pid`, which is this one. What lies under the name is left
    /// by a dead process that had this pid.
    pub(super) fn bind(self, pid: u32) -> Result<Bound, InitError> {
        let name = pid.to_string();
        match self.bind_as(&name) {
            Ok((socket, file)) => Ok(Bound { directory: self, name, file, socket }),
            Err(error) => {
                Err(InitError::System { path: self.path.join(&name), source: error.into() })
            }
        }
    }

    fn bind_as(&self, name: &str) -> Result<(OwnedFd, (u64, u64)), Errno> {
        let _lock = self.lock()?;
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let socket = socket()?;
        rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        rustix::net::bind(&socket, &self.address(name)?)?;
        let stat = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((socket, (stat.st_dev, stat.st_ino)))
    }

    /// A socket that is connected to that of the process `pid`.
    ///
    /// # Errors
    /// `ENOENT` or `ECONNREFUSED` if there is no such process.
    pub(super) fn connect(&self, pid: u32) -> Result<OwnedFd, Errno> {
        let socket = socket()?;
        rustix::net::connect(&socket, &self.address(&pid.to_string())?)?;
        Ok(socket)
    }

    /// The address of a socket here. Where the path is too long for an address, it goes by the
    /// descriptor that we have of the directory.
    fn address(&self, name: &str) -> Result<SocketAddrUnix, Errno> {
        match SocketAddrUnix::new(self.path.join(name)) {
            Err(Errno::NAMETOOLONG) => {
                SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", self.descriptor.as_raw_fd()))
            }
            address => address,
        }
    }

    /// Keeps others from making and removing sockets meanwhile: a name may be found stale and be
    /// taken by a new process before it is removed. Held for a few system calls.
    fn lock(&self) -> Result<DirectoryLock, Errno> {
        // A lock of this kind belongs to the open file, so it needs one of its own.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(DirectoryLock { _file: file })
    }

    fn remove_stale(&self) -> Result<usize, Errno> {
        let _lock = self.lock()?;
        let mut removed = 0;
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(pid) = name.to_str().ok().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if entry.file_type() != FileType::Socket {
                continue;
            }
            if let Err(Errno::CONNREFUSED) = self.connect(pid) {
                rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Removes the sockets that dead processes left in `lock_dir`: for the supervisor, when it starts
/// and when it has reaped a process. Returns how many there were.
///
/// # Errors
/// What the file system says.
pub fn remove_stale_sockets(lock_dir: &Path) -> Result<usize, InitError> {
    let directory = Directory::open(lock_dir)?;
    directory
        .remove_stale()
        .map_err(|error| InitError::System { path: directory.path, source: error.into() })
}

impl Bound {
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    fn remove(&self) -> Result<(), Errno> {
        let directory = &self.directory.descriptor;
        let _lock = self.directory.lock()?;
        let stat = rustix::fs::statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (stat.st_dev, stat.st_ino) == self.file {
            rustix::fs::unlinkat(directory, &self.name, AtFlags::empty())?;
        }
        Ok(())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // A file that stays is stale and harmless: nobody can connect to it.
        let _ = self.remove();
    }
}

/// Releases the lock when dropped.
#[derive(Debug)]
struct DirectoryLock {
    _file: OwnedFd,
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

impl From<InitError> for io::Error {
    fn from(error: InitError) -> Self {
        match error {
            InitError::System { source, .. } => source,
            error @ InitError::DirectoryNotOurs { .. } => Self::other(error),
        }
    }
}
