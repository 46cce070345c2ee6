//! Memory that all processes of a server share: a mapped file of the lock directory; or without a
//! file, for a simulation, memory of one process.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;

/// Permissions of the file: the server's processes alone.
const FILE_MODE: u32 = 0o600;

/// A type that may lie in shared memory.
///
/// # Safety
/// All bytes must be valid values, and all mutable parts must be atomics, because other processes
/// write at any time.
pub(crate) unsafe trait Shared: Sync {}

// SAFETY: an array consists of its elements.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// A value in mapped memory, as one process accesses it.
#[derive(Debug)]
pub(crate) struct SharedMemory<T: Shared> {
    value: NonNull<T>,
}

// SAFETY: the value behind the pointer is `Sync`, and no thread owns it.
unsafe impl<T: Shared> Send for SharedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for SharedMemory<T> {}

impl<T: Shared> SharedMemory<T> {
    /// Opens the file at `path`, creates it if it does not exist, and gives it the length of the
    /// value. Unwritten bytes are zero. A link is not followed.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = options().create(true).truncate(false).mode(FILE_MODE).open(path)?;
        file.set_len(size_of::<T>() as u64)?;
        allocate(&file, size_of::<T>())?;
        Self::map(&file)
    }

    /// Creates the file with zeros. Processes that have an older one open keep it.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        remove(path)?;
        let file = options().create_new(true).mode(FILE_MODE).open(path)?;
        allocate(&file, size_of::<T>())?;
        Self::map(&file)
    }

    /// Opens the file that another process has created.
    ///
    /// # Errors
    /// `InvalidData` if it has another length; else those of the file system.
    pub(crate) fn join(path: &Path) -> io::Result<Self> {
        let file = options().open(path)?;
        if file.metadata()?.len() != size_of::<T>() as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(&file)
    }

    /// Makes a value of zeros for the threads of this process.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn private() -> io::Result<Self> {
        Self::map_with(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn map(file: &File) -> io::Result<Self> {
        Self::map_with(libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map_with(flags: libc::c_int, fd: RawFd) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let length = size_of::<T>();
        // SAFETY: a new mapping of a long enough file or of none, at an address that the kernel
        // chooses.
        let value = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
        if value == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let value = NonNull::new(value.cast()).expect("the kernel maps nothing at zero unasked");
        Ok(Self { value })
    }
}

impl<T: Shared> Deref for SharedMemory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped with the length of `T` until this is dropped, aligned to a page; all bytes
        // are valid, and other processes write only to atomics.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Shared> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference is left.
        unsafe { libc::munmap(self.value.as_ptr().cast(), size_of::<T>()) };
    }
}

/// Removes the file, if it exists. Processes that have it mapped keep it.
///
/// # Errors
/// Those of the file system.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives the file this length and reserves space for it: a write to a mapped file without space
/// kills the process.
fn allocate(file: &File, length: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: the arguments are numbers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    options
}
