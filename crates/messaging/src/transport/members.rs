//! `msg/` in the lock directory: who takes part in the messages of a server, and by which transport.
//!
//! Every process has a socket there whose name is its pid and its unique id. That the socket can be
//! connected to is what it means to live: the kernel ends that with the process, and no later
//! process with its pid has the name. The file `transport` says how all of them talk.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use dtyp::ServerId;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::transport::InitError;
use crate::transport::owner::Owner;

/// The directory, open.
#[derive(Debug)]
pub(super) struct Members {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// This process among the members, until dropped.
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
    /// Opens the directory, making it if it is not there. It must belong to this user or root,
    /// and to nobody else.
    pub(super) fn open(lock_dir: &Path) -> Result<Self, InitError> {
        match rustix::fs::mkdir(lock_dir.join(NAME), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(system(&lock_dir.join(NAME))(error)),
        }
        Self::open_existing(lock_dir)
    }

    /// Opens the directory of a server that has one.
    pub(super) fn open_existing(lock_dir: &Path) -> Result<Self, InitError> {
        let path = lock_dir.join(NAME);
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

    /// Becomes a member, with a socket of this kind. `transport` is how this process talks.
    ///
    /// # Errors
    /// [`InitError::OtherTransport`] if those that live talk in another way.
    pub(super) fn join(
        self,
        server_id: ServerId,
        kind: SocketType,
        transport: &'static str,
    ) -> Result<Member, InitError> {
        let name = name_of(server_id);
        {
            let _lock = self.lock(FlockOperation::LockExclusive).map_err(system(&self.path))?;
            self.agree(transport)?;
            let path = self.path.join(&name);
            self.bind(&name, kind).map_err(system(&path))
        }
        .map(|(socket, file)| Member {
            members: self,
            name,
            owner: Owner::here(),
            file,
            socket,
        })
    }

    /// Writes down how this server talks, or finds that it is written. The directory is locked.
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

    /// How the server talks, or talked when it last ran; `None` if it never did.
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
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let socket = socket(kind)?;
        if kind == SocketType::DGRAM {
            rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        }
        rustix::net::bind(&socket, &self.address(name)?)?;
        if kind == SocketType::STREAM {
            rustix::net::listen(&socket, LISTEN_BACKLOG)?;
        }
        let stat = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((socket, (stat.st_dev, stat.st_ino)))
    }

    /// A socket of this kind that is connected to a member.
    ///
    /// # Errors
    /// `ENOENT` or `ECONNREFUSED` if there is no such process; `EPROTOTYPE` if its socket is of
    /// another kind; `EAGAIN` if it cannot be connected to now.
    pub(super) fn connect(&self, to: ServerId, kind: SocketType) -> Result<OwnedFd, Errno> {
        self.connect_to(&name_of(to), kind)
    }

    fn connect_to(&self, name: &str, kind: SocketType) -> Result<OwnedFd, Errno> {
        let socket = socket(kind)?;
        rustix::net::connect(&socket, &self.address(name)?)?;
        Ok(socket)
    }

    /// Whether a process lives.
    pub(super) fn is_alive(&self, process: ServerId) -> bool {
        self.has_life(&name_of(process))
    }

    /// A datagram socket is asked for: to connect it to one that lives disturbs nobody, and the
    /// kernel says that one lives before it says that it is of another kind.
    fn has_life(&self, name: &str) -> bool {
        matches!(self.connect_to(name, SocketType::DGRAM), Ok(_) | Err(Errno::PROTOTYPE))
    }

    /// All that live, and all that are dead or about to live.
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

    /// Removes what dead members left; who they were. Nobody, while others join: one of them may be
    /// stopped.
    pub(super) fn remove_dead(&self) -> Result<Vec<ServerId>, Errno> {
        let _lock = match self.lock(FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(Vec::new()),
            lock => lock?,
        };
        let mut removed = Vec::new();
        self.for_each(|name, id| {
            if !self.has_life(name) {
                rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?;
                removed.push(id);
            }
            Ok(())
        })?;
        Ok(removed)
    }

    /// Removes what a member left that is dead; whether it had left something.
    pub(super) fn remove(&self, dead: ServerId) -> Result<bool, Errno> {
        match rustix::fs::unlinkat(&self.descriptor, name_of(dead), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Shows every socket with the name of a process.
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

    /// Keeps others from joining and from removing what is dead meanwhile. Held for a few system
    /// calls.
    fn lock(&self, operation: FlockOperation) -> Result<DirectoryLock, Errno> {
        // A lock of this kind belongs to the open file, so it needs one of its own.
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
        let _lock = self.members.lock(FlockOperation::LockExclusive)?;
        let stat = rustix::fs::statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (stat.st_dev, stat.st_ino) == self.file {
            rustix::fs::unlinkat(directory, &self.name, AtFlags::empty())?;
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // A file that stays is stale and harmless: nobody can connect to it.
            let _ = self.remove();
        }
    }
}

/// Who has a socket in the directory.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) living: Vec<ServerId>,
    /// Dead, or about to live.
    pub(super) others: Vec<ServerId>,
}

/// Releases the lock when dropped.
#[derive(Debug)]
struct DirectoryLock {
    _file: OwnedFd,
}

/// The name of a member's socket.
pub(super) fn name_of(id: ServerId) -> String {
    format!("{}-{:016x}", id.pid, id.unique_id)
}

/// The member whose socket has this name.
fn id_of(name: &str) -> Option<ServerId> {
    let (pid, unique_id) = name.split_once('-')?;
    let unique_id = u64::from_str_radix(unique_id, 16).ok()?;
    let id = ServerId { pid: pid.parse().ok()?, unique_id };
    // One process, one name.
    (name_of(id) == name).then_some(id)
}

fn socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
}

fn system(path: &Path) -> impl Fn(Errno) -> InitError {
    move |error| InitError::System { path: path.to_owned(), source: error.into() }
}

/// The directory in the lock directory.
const NAME: &str = "msg";

/// Says in what way all talk: a word of `messaging type`.
const TRANSPORT: &str = "transport";

/// Longer than any such word.
const TRANSPORT_BYTES_MAX: u64 = 32;

/// Connections that wait to be accepted; the kernel takes `net.core.somaxconn` if that is less.
const LISTEN_BACKLOG: i32 = 4_096;

#[cfg(test)]
mod tests;
