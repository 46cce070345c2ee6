//! `msg/` in the lock directory: the members of a server's messaging, and their transport.
//!
//! Every process has a socket there whose name is its pid and its unique id. A process lives as
//! long as its socket accepts connections: the kernel ends that with the process, and no later
//! process with its pid has the name. The file `transport` names the transport of all members.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use confinement::priority::with_normal_priority;
use dtyp::ServerId;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::transport::InitError;
use crate::transport::owner::Owner;

/// The open directory of the sockets.
#[derive(Debug)]
pub(super) struct Members {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// Membership of this process, until dropped.
#[derive(Debug)]
pub(super) struct Member {
    members: Members,
    name: String,
    owner: Owner,
    /// Device and inode, so that only our own file is removed.
    file: (u64, u64),
    pub(super) socket: OwnedFd,
}

impl Members {
    /// Opens the directory, and creates it if missing. It must belong to this user or root, and
    /// give no rights to others.
    pub(super) fn open(lock_dir: &Path) -> Result<Self, InitError> {
        match rustix::fs::mkdir(directory(lock_dir), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(system(&directory(lock_dir))(error)),
        }
        Self::open_existing(lock_dir)
    }

    /// Opens the directory of an existing server.
    pub(super) fn open_existing(lock_dir: &Path) -> Result<Self, InitError> {
        let path = directory(lock_dir);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&path, flags, Mode::empty()).map_err(system(&path))?;
        let stat = rustix::fs::fstat(&descriptor).map_err(system(&path))?;
        let ours = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
        if !ours || stat.st_mode & 0o077 != 0 {
            let mode = stat.st_mode & 0o7777;
            return Err(InitError::DirectoryNotOurs { path, uid: stat.st_uid, mode });
        }
        Ok(Self { path, descriptor })
    }

    /// Joins, with a socket of this kind. `transport` is the transport of this process.
    ///
    /// # Errors
    /// [`InitError::OtherTransport`] if the living members use another one.
    pub(super) fn join(
        self,
        server_id: ServerId,
        kind: SocketType,
        transport: &'static str,
    ) -> Result<Member, InitError> {
        let name = name_of(server_id);
        let bind = || {
            self.agree(transport)?;
            self.bind(&name, kind).map_err(system(&self.path.join(&name)))
        };
        let bound = self.with_lock(FlockOperation::LockExclusive, bind);
        let (socket, file) = bound.map_err(system(&self.path))??;
        Ok(Member { members: self, name, owner: Owner::here(), file, socket })
    }

    /// Writes the server's transport down, or verifies that it is the same. The directory is
    /// locked.
    fn agree(&self, transport: &'static str) -> Result<(), InitError> {
        let path = self.path.join(TRANSPORT);
        let written = self.transport()?;
        if written.as_deref() == Some(transport) {
            return Ok(());
        }
        if let Some(running) = written
            && !self.list().map_err(system(&self.path))?.living.is_empty()
        {
            return Err(InitError::OtherTransport { running, asked: transport });
        }
        let write = || -> Result<(), Errno> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
            let mode = Mode::RUSR | Mode::WUSR;
            let temporary = "transport.new";
            let flags = flags | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.descriptor, temporary, flags, mode)?;
            rustix::io::write(&file, transport.as_bytes())?;
            rustix::fs::renameat(&self.descriptor, temporary, &self.descriptor, TRANSPORT)
        };
        write().map_err(system(&path))
    }

    /// Transport of the server, running or ended; `None` if none was written yet.
    pub(super) fn transport(&self) -> Result<Option<String>, InitError> {
        let path = self.path.join(TRANSPORT);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.descriptor, TRANSPORT, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file.map_err(system(&path))?,
        };
        let mut text = String::new();
        std::fs::File::from(file)
            .take(TRANSPORT_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|source| InitError::System { path, source })?;
        Ok(Some(text))
    }

    fn bind(&self, name: &str, kind: SocketType) -> Result<(OwnedFd, (u64, u64)), Errno> {
        let socket = socket(kind)?;
        if kind == SocketType::DGRAM {
            rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        }
        let address = self.address(name)?;
        match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                // Of an earlier process: the name is this one's now.
                rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?;
                rustix::net::bind(&socket, &address)?;
            }
            bound => bound?,
        }
        if kind == SocketType::STREAM {
            rustix::net::listen(&socket, LISTEN_BACKLOG)?;
        }
        let stat = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((socket, (stat.st_dev, stat.st_ino)))
    }

    /// Returns a socket of this kind that is connected to a member.
    ///
    /// # Errors
    /// `ENOENT` or `ECONNREFUSED` if the process does not exist; `EPROTOTYPE` if its socket is of
    /// another kind; `EAGAIN` if a connection is not possible now.
    pub(super) fn connect(&self, to: ServerId, kind: SocketType) -> Result<OwnedFd, Errno> {
        self.connect_to(&name_of(to), kind)
    }

    fn connect_to(&self, name: &str, kind: SocketType) -> Result<OwnedFd, Errno> {
        let socket = socket(kind)?;
        rustix::net::connect(&socket, &self.address(name)?)?;
        Ok(socket)
    }

    /// True if a process lives.
    pub(super) fn is_alive(&self, process: ServerId) -> bool {
        self.has_life(&name_of(process))
    }

    /// True if a process has a socket here, whether it lives or not.
    pub(super) fn has_socket(&self, process: ServerId) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statat(&self.descriptor, name_of(process), flags).is_ok()
    }

    /// True if the socket accepts connections. The attempt uses a datagram socket: it does not
    /// disturb a living process, and for a stream socket the kernel reports the living owner before
    /// the wrong kind.
    fn has_life(&self, name: &str) -> bool {
        matches!(self.connect_to(name, SocketType::DGRAM), Ok(_) | Err(Errno::PROTOTYPE))
    }

    /// Lists all living members, and others that are dead or still joining.
    pub(super) fn list(&self) -> Result<Census, Errno> {
        let mut census = Census::default();
        self.for_each(|name, id| {
            match self.has_life(name) {
                true => census.living.push(id),
                false => census.others.push(id),
            }
            Ok(())
        })?;
        census.living.sort_unstable();
        Ok(census)
    }

    /// Removes the sockets of dead members, and returns their ids. Returns none while others join:
    /// one of those may be stopped.
    pub(super) fn remove_dead(&self) -> Result<Vec<ServerId>, Errno> {
        let remove = || {
            let mut removed = Vec::new();
            self.for_each(|name, id| {
                if !self.has_life(name) {
                    rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?;
                    removed.push(id);
                }
                Ok(())
            })?;
            Ok(removed)
        };
        match self.with_lock(FlockOperation::NonBlockingLockExclusive, remove) {
            Err(Errno::WOULDBLOCK) => Ok(Vec::new()),
            removed => removed?,
        }
    }

    /// Removes the socket of a dead member. Returns true if there was one.
    pub(super) fn remove(&self, dead: ServerId) -> Result<bool, Errno> {
        match rustix::fs::unlinkat(&self.descriptor, name_of(dead), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Calls `visit` for every socket with the name of a process.
    fn for_each(
        &self,
        mut visit: impl FnMut(&str, ServerId) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            if entry.file_type() == FileType::Socket
                && let Ok(name) = entry.file_name().to_str()
                && let Some(id) = id_of(name)
            {
                visit(name, id)?;
            }
        }
        Ok(())
    }

    /// Returns the address of a socket in the directory. A path that is too long for an address is
    /// replaced by one over our descriptor of the directory.
    fn address(&self, name: &str) -> Result<SocketAddrUnix, Errno> {
        match SocketAddrUnix::new(self.path.join(name)) {
            Err(Errno::NAMETOOLONG) => {
                SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", self.descriptor.as_raw_fd()))
            }
            address => address,
        }
    }

    /// Runs a step of a few system calls, with the directory locked against joining and against
    /// removal of dead members. Each birth waits for the lock, so it is held at normal priority.
    fn with_lock<T>(
        &self,
        operation: FlockOperation,
        step: impl FnOnce() -> T,
    ) -> Result<T, Errno> {
        with_normal_priority(|| {
            let _lock = self.lock(operation)?;
            Ok(step())
        })
    }

    fn lock(&self, operation: FlockOperation) -> Result<DirectoryLock, Errno> {
        // A lock of this kind belongs to the open file, so it needs its own.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        rustix::fs::flock(&file, operation)?;
        Ok(DirectoryLock { _file: file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Member {
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    fn remove(&self) -> Result<(), Errno> {
        let directory = &self.members.descriptor;
        let remove = || {
            let stat = rustix::fs::statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
            if (stat.st_dev, stat.st_ino) == self.file {
                rustix::fs::unlinkat(directory, &self.name, AtFlags::empty())?;
            }
            Ok(())
        };
        self.members.with_lock(FlockOperation::LockExclusive, remove)?
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // A socket file that stays is harmless: it accepts no connections.
            let _ = self.remove();
        }
    }
}

/// Processes with a socket in the directory.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) living: Vec<ServerId>,
    /// Processes that are dead or still joining.
    pub(super) others: Vec<ServerId>,
}

/// Lock of the directory, released when dropped.
#[derive(Debug)]
struct DirectoryLock {
    _file: OwnedFd,
}

/// Name of a member's socket.
pub(super) fn name_of(id: ServerId) -> String {
    format!("{}-{:016x}", id.pid, id.unique_id)
}

/// Returns the member whose socket has this name.
fn id_of(name: &str) -> Option<ServerId> {
    let (pid, unique_id) = name.split_once('-')?;
    let unique_id = u64::from_str_radix(unique_id, 16).ok()?;
    let id = ServerId { pid: pid.parse().ok()?, unique_id };
    // Refuse other spellings of an id.
    (name_of(id) == name).then_some(id)
}

fn socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
}

/// Returns the directory of the members' sockets in a lock directory.
#[must_use]
pub fn directory(lock_dir: &Path) -> PathBuf {
    lock_dir.join(NAME)
}

fn system(path: &Path) -> impl Fn(Errno) -> InitError {
    move |error| InitError::System { path: path.to_owned(), source: error.into() }
}

/// Name of the directory in the lock directory.
const NAME: &str = "msg";

/// File with the transport of all members: a word of `messaging type`.
const TRANSPORT: &str = "transport";

/// Bytes read of that file, more than any such word has.
const TRANSPORT_BYTES_MAX: u64 = 32;

/// Connections that may wait for acceptance; the kernel's `net.core.somaxconn` may be lower.
const LISTEN_BACKLOG: i32 = 4_096;

#[cfg(test)]
mod tests;
