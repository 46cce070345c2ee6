//! System calls that rustix does not have in the form needed here.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::extents::Extents;

/// Retries of `openat2`, which gives up with EAGAIN when directories are moved while it walks `..`
/// in a symbolic link.
const RESOLVE_ATTEMPTS_MAX: u32 = 16;

/// `getxattrat`: Linux 6.13, the same number on every architecture.
const SYS_GETXATTRAT: libc::c_long = 464;

/// Opens `path` beneath `directory`, whatever links and `..` it meets on the way.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    path: impl AsRef<OsStr>,
    flags: OFlags,
    mode: u32,
    follow_symlinks: bool,
) -> Result<OwnedFd, Errno> {
    let path = path.as_ref();
    let path = if path.is_empty() { OsStr::new(".") } else { path };
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

/// Opens `path` from `directory` on, wherever links lead. It has no `..` itself.
pub(crate) fn open_anywhere(
    directory: BorrowedFd<'_>,
    path: &OsStr,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
    })
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

/// The seconds since 1970 that `text` tells by strptime(3), if that is all that it tells.
pub(crate) fn parse_time(text: &CStr, format: &CStr, local: bool) -> Option<i64> {
    // SAFETY: a structure of numbers and of a pointer that nothing follows.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    time.tm_mday = 1;
    // SAFETY: both strings are terminated, and the structure is one.
    let end = unsafe { libc::strptime(text.as_ptr(), format.as_ptr(), &raw mut time) };
    // SAFETY: on success the pointer is into `text`, its terminator at the latest.
    if end.is_null() || unsafe { *end } != 0 {
        return None;
    }
    // Whether summer time holds is found out.
    time.tm_isdst = -1;
    // SAFETY: the structure is one.
    let seconds =
        unsafe { if local { libc::mktime(&raw mut time) } else { libc::timegm(&raw mut time) } };
    Some(seconds)
}

/// What strftime(3) makes of a time; `None` if that is nothing, or long.
pub(crate) fn format_time(seconds: i64, format: &CStr, local: bool) -> Option<String> {
    /// As long as a name can be.
    const LENGTH_MAX: usize = 255;

    // SAFETY: a structure of numbers and of a pointer that nothing follows.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel's time and the structure are there; the C library writes the latter.
    let known = unsafe {
        if local {
            libc::localtime_r(&raw const seconds, &raw mut time)
        } else {
            libc::gmtime_r(&raw const seconds, &raw mut time)
        }
    };
    if known.is_null() {
        return None;
    }
    let mut text = vec![0_u8; LENGTH_MAX + 1];
    // SAFETY: no more than `text.len()` bytes are written, the terminator included; the format is
    // terminated, and the structure is one that the C library filled in.
    let length = unsafe {
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const time)
    };
    text.truncate(length);
    (length > 0).then(|| String::from_utf8(text).ok()).flatten()
}

/// What statfs(2) calls the type of the file system.
pub(crate) fn file_system_number(object: BorrowedFd<'_>) -> Option<u32> {
    // The numbers have 32 bits; the field has as many as the architecture likes, with or without sign.
    let found = rustix::fs::fstatfs(object).ok()?;
    u32::try_from(found.f_type & 0xFFFF_FFFF).ok()
}

/// Whether an XFS was made so that files can share storage.
pub(crate) fn xfs_reflinks(object: BorrowedFd<'_>) -> bool {
    /// Words of `struct xfs_fsop_geom_v1`, which has 112 bytes.
    const WORDS: usize = 28;
    /// Where its flags are.
    const FLAGS: usize = 23;
    /// `XFS_IOC_FSGEOMETRY_V1`: _IOR('X', 100, struct xfs_fsop_geom_v1).
    const FSGEOMETRY_V1: libc::Ioctl = 0x8070_5864_u32 as libc::Ioctl;
    /// `XFS_FSOP_GEOM_FLAGS_REFLINK`.
    const REFLINK: u32 = 1 << 20;

    // An O_PATH descriptor takes no ioctl; a file that may not be read says nothing.
    let Ok(fd) = reopen(object, OFlags::RDONLY | OFlags::NONBLOCK) else { return false };
    let mut geometry = [0_u64; WORDS / 2];
    // SAFETY: the number says that the kernel writes 112 bytes, which `geometry` has, aligned to
    // eight as the structure wants it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), FSGEOMETRY_V1, geometry.as_mut_ptr()) };
    let mut words = geometry.iter().flat_map(|word| {
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
    });
    result == 0 && words.nth(FLAGS).is_some_and(|flags| flags & REFLINK != 0)
}

/// FICLONERANGE: the storage of a range becomes that of another file, too.
pub(crate) fn clone_range(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    extents: Extents,
) -> Result<(), Errno> {
    /// `struct file_clone_range`.
    #[repr(C)]
    struct Arguments {
        source: i64,
        source_offset: u64,
        length: u64,
        target_offset: u64,
    }
    /// `_IOW(0x94, 13, struct file_clone_range)`.
    const FICLONERANGE: libc::Ioctl = 0x4020_940D;

    let arguments = Arguments {
        source: source.as_raw_fd().into(),
        source_offset: extents.source_offset,
        // Nothing would mean all of the file.
        length: extents.length.max(1),
        target_offset: extents.target_offset,
    };
    // SAFETY: the kernel reads the structure whose size its number names.
    let result = unsafe { libc::ioctl(target.as_raw_fd(), FICLONERANGE, &raw const arguments) };
    check(result.into()).map(drop)
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
