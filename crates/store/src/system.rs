//! System calls that rustix does not have in the form needed here.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Retries of `openat2`, which gives up with EAGAIN when directories are moved while it walks `..`
/// in a symbolic link.
const RESOLVE_ATTEMPTS_MAX: u32 = 16;

/// `getxattrat`: Linux 6.13, the same number on every architecture.
const SYS_GETXATTRAT: libc::c_long = 464;

/// Opens `path` beneath `directory`, whatever links and `..` it meets on the way.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: u32,
    follow_symlinks: bool,
) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { "." } else { path };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if !follow_symlinks {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let flags = flags | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let mut attempts = 0;
    loop {
        match rustix::fs::openat2(directory, path, flags, mode, resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if attempts < RESOLVE_ATTEMPTS_MAX => attempts += 1,
            result => return result,
        }
    }
}

/// Opens once more the object that `fd` stands for. The inode is pinned by `fd`, so what was
/// learned about it still holds.
pub(crate) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::io::retry_on_intr(|| rustix::fs::open(magic_path(fd), flags, Mode::empty()))
}

/// The path that leads to the object of a descriptor, also one opened with O_PATH.
pub(crate) fn magic_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The metadata of an open object.
pub(crate) fn status_of(fd: BorrowedFd<'_>) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, wanted)
}

/// The metadata of a directory's entry; of the link itself, if it is one.
pub(crate) fn status_at(directory: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted)
}

/// Whether the effective user may access the object of `fd` in all the ways of `mode` (R_OK…).
pub(crate) fn may_access(fd: BorrowedFd<'_>, mode: libc::c_int) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: the path is a static string, and the kernel writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_faccessat2, fd.as_raw_fd(), c"".as_ptr(), mode, flags) };
    check(result).map(drop)
}

/// What a read does about data that are not in the page cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Uncached {
    /// Reads what is cached; EAGAIN if that is nothing though the file goes on, EOPNOTSUPP if the
    /// file system cannot tell.
    Refuse,
    /// Waits for them.
    Wait,
}

/// Reads at `offset`, appending to `buffer` within its capacity.
pub(crate) fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut BytesMut,
    offset: u64,
    length: usize,
    uncached: Uncached,
) -> Result<usize, Errno> {
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    let spare = buffer.spare_capacity_mut();
    let length = length.min(spare.len());
    let vector = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: length };
    let flags = match uncached {
        Uncached::Refuse => libc::RWF_NOWAIT,
        Uncached::Wait => 0,
    };
    // SAFETY: the vector describes `length` bytes of spare capacity that this function borrows
    // mutably; the kernel writes no more than that.
    let count = unsafe { libc::preadv2(file.as_raw_fd(), &raw const vector, 1, offset, flags) };
    let count = usize::try_from(count).map_err(|_| last_errno())?;
    assert!(count <= length, "the kernel fills no more than it was given");
    // SAFETY: the kernel has written the first `count` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Whether the file system keeps its files in memory, so that reading never waits for a disk.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let found = rustix::fs::fstatfs(file).map(|found| found.f_type);
    matches!(found, Ok(TMPFS_MAGIC | RAMFS_MAGIC))
}

/// The next entries of a directory, in the kernel's form; 0 at the end.
pub(crate) fn read_entries(directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            directory.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    check(result)
}

/// An extended attribute of a directory's entry, of the link itself if it is one.
pub(crate) fn attribute_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> Result<usize, Errno> {
    #[repr(C)]
    struct Arguments {
        value: u64,
        size: u32,
        flags: u32,
    }
    static MISSING: AtomicBool = AtomicBool::new(false);

    let size = u32::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    if !MISSING.load(Ordering::Relaxed) {
        let mut arguments = Arguments { value: value.as_mut_ptr() as u64, size, flags: 0 };
        // SAFETY: both names are terminated; the kernel writes at most `size` bytes to `value`,
        // which this function borrows mutably.
        let result = unsafe {
            libc::syscall(
                SYS_GETXATTRAT,
                directory.as_raw_fd(),
                name.as_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
                attribute.as_ptr(),
                &raw mut arguments,
                size_of::<Arguments>(),
            )
        };
        match check(result) {
            // Kernels before 6.13, and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => MISSING.store(true, Ordering::Relaxed),
            result => return result,
        }
    }
    let mut path = magic_path(directory).into_bytes();
    path.push(b'/');
    path.extend_from_slice(name.to_bytes());
    rustix::fs::lgetxattr(path, attribute, value)
}

/// Gives this thread a umask and a current directory of its own. Where a sandbox forbids that they
/// stay the process's.
pub(crate) fn leave_umask_of_process() {
    // SAFETY: a number only; nothing in memory is unshared.
    unsafe { libc::unshare(libc::CLONE_FS) };
}

/// Becomes the user for this thread only: the calls of the C library would change all threads.
pub(crate) fn set_thread_credentials(uid: u32, gid: u32, groups: &[u32]) -> Result<(), Errno> {
    // Minus one means "leave as it is" to these calls, which would leave us root.
    if uid == u32::MAX || gid == u32::MAX {
        return Err(Errno::INVAL);
    }
    set_thread_uid(0)?;
    // SAFETY: the kernel reads `groups.len()` group ids.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    // SAFETY: numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresgid, u32::MAX, gid, u32::MAX) })?;
    set_thread_uid(uid)
}

/// Changes the effective user of this thread. Away from root the kernel clears the effective
/// capabilities; back to root, which the saved user allows, it restores them.
fn set_thread_uid(uid: u32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresuid, u32::MAX, uid, u32::MAX) })?;
    Ok(())
}

fn check(result: libc::c_long) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| last_errno())
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
