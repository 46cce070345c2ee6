//! System calls that rustix does not have in the form needed here.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::path::{Arg, DecInt};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::sys::lengths::as_u64;

/// Retries of `openat2`, which gives up with EAGAIN when directories are moved while it walks `..`
/// in a symbolic link.
const RESOLVE_ATTEMPTS_MAX: u32 = 16;

/// `getxattrat` and `listxattrat`: Linux 6.13, the same numbers on every architecture.
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;

/// Kernels before 6.13, and sandboxes that do not know the two.
static NO_XATTRAT: AtomicBool = AtomicBool::new(false);

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
    let (directory, number) = (descriptors()?, DecInt::from_fd(fd));
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat(directory, number.as_c_str(), flags, Mode::empty())
    })
}

/// Gives the object of `fd` one more name.
pub(crate) fn link(
    fd: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), Errno> {
    let (descriptors, number) = (descriptors()?, DecInt::from_fd(fd));
    let flags = AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(descriptors, number.as_c_str(), directory, name, flags)
}

/// Returns `/proc/self/fd`, which has this process's descriptors by number. Kept open: walking
/// `/proc` costs more than the call that needs it.
fn descriptors() -> Result<BorrowedFd<'static>, Errno> {
    static DIRECTORY: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(directory) = DIRECTORY.get() {
        return Ok(directory.as_fd());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty())?;
    Ok(DIRECTORY.get_or_init(|| directory).as_fd())
}

/// Writes all of `data` to a file.
///
/// # Errors
/// IO if the file takes no more bytes, among others; some may be written then.
pub(crate) fn write_all_at(file: impl AsFd, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, data, offset))? {
            0 => return Err(Errno::IO),
            count => {
                offset += as_u64(count);
                data = &data[count..];
            }
        }
    }
    Ok(())
}

/// Renames to a name that the caller expects to be free.
///
/// # Errors
/// EXIST if it is not; a file system without NOREPLACE replaces what has the name by then.
pub(crate) fn rename_to_free(
    from: (BorrowedFd<'_>, &OsStr),
    to: (BorrowedFd<'_>, &OsStr),
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        // A file system without NOREPLACE; moving a directory into itself fails in both forms.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(from.0, from.1, to.0, to.1),
        moved => moved,
    }
}

/// Time since the start of the machine, exact to a few milliseconds: no system call.
pub(crate) fn coarse_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// The path that leads to the object of a descriptor, also one opened with O_PATH.
pub(crate) fn magic_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The metadata of an open object.
pub(crate) fn status_of(fd: BorrowedFd<'_>) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, wanted)
}

/// Returns the metadata of a path, from a directory; those of a link itself, if it is one.
pub(crate) fn status_at(directory: BorrowedFd<'_>, name: impl Arg) -> Result<Statx, Errno> {
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

/// The same for an entry of a directory, the link itself if it is one.
pub(crate) fn may_access_entry(
    directory: BorrowedFd<'_>,
    name: &CStr,
    mode: libc::c_int,
) -> Result<(), Errno> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EACCESS;
    let directory = directory.as_raw_fd();
    // SAFETY: the name ends with a zero, and the kernel writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_faccessat2, directory, name.as_ptr(), mode, flags) };
    check(result).map(drop)
}

/// Handling of data that are not in the page cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Uncached {
    /// Reads the cached part; EAGAIN if nothing is cached before the end of the file, EOPNOTSUPP
    /// if the file system does not support this.
    Refuse,
    /// Waits until the disk has delivered them.
    Wait,
}

/// Pages of a part of a file that the page cache has, or is about to get.
///
/// # Errors
/// NOSYS before Linux 6.5; PERM from 6.14 on if the user could not write the file.
pub(crate) fn pages_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<u64, Errno> {
    /// `cachestat`: the same number on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [offset, length];
    // Cached, dirty, under write-back, evicted, evicted lately.
    let mut found = [0_u64; 5];
    let (range, counts) = (range.as_ptr(), found.as_mut_ptr());
    // SAFETY: the two arrays are what the kernel calls cachestat_range and cachestat, of two and
    // five numbers of 64 bits, which it reads and writes.
    check(unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range, counts, 0) })?;
    Ok(found[0])
}

/// Whether the file system keeps its files in memory, so that reading never waits for a disk.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let found = rustix::fs::fstatfs(file).map(|found| found.f_type);
    matches!(found, Ok(TMPFS_MAGIC | RAMFS_MAGIC))
}

/// Whether a file system gives an object another change time with each change that comes after
/// somebody has looked at it: these do from Linux 6.13 on. Before, all changes between two ticks of
/// the kernel's clock have one time.
#[must_use]
pub fn has_fine_times(object: BorrowedFd<'_>) -> bool {
    const BTRFS_MAGIC: u32 = 0x9123_683E;
    const EXT4_MAGIC: u32 = 0xEF53;
    const TMPFS_MAGIC: u32 = 0x0102_1994;
    const XFS_MAGIC: u32 = 0x5846_5342;
    let uname = rustix::system::uname();
    let release = uname.release().to_str().unwrap_or_default();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|it| it.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 13)
        && matches!(
            file_system_number(object),
            Some(BTRFS_MAGIC | EXT4_MAGIC | TMPFS_MAGIC | XFS_MAGIC)
        )
}

/// The seconds since 1970 that `text` begins with by strptime(3), and the text behind them.
pub(crate) fn parse_time<'t>(
    text: &'t CStr,
    format: &CStr,
    local: bool,
) -> Option<(i64, &'t CStr)> {
    // SAFETY: a structure of numbers and of a pointer that nothing follows.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    time.tm_mday = 1;
    // SAFETY: both strings are terminated, and the structure is one.
    let end = unsafe { libc::strptime(text.as_ptr(), format.as_ptr(), &raw mut time) };
    if end.is_null() {
        return None;
    }
    // SAFETY: the pointer is into `text`, its terminator at the latest.
    let rest = unsafe { CStr::from_ptr(end) };
    // Whether summer time holds is found out.
    time.tm_isdst = -1;
    // SAFETY: the structure is one.
    let seconds =
        unsafe { if local { libc::mktime(&raw mut time) } else { libc::timegm(&raw mut time) } };
    Some((seconds, rest))
}

/// Formats a time by strftime(3); `None` if the result is empty or longer than a name.
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

/// Returns the type of the file system from statfs(2).
pub(crate) fn file_system_number(object: BorrowedFd<'_>) -> Option<u32> {
    // The numbers have 32 bits; the field has as many as the architecture likes, with or without
    // sign.
    let found = rustix::fs::fstatfs(object).ok()?;
    u32::try_from(found.f_type & 0xFFFF_FFFF).ok()
}

/// Whether an XFS was made so that files can share storage.
pub(crate) fn xfs_reflinks(object: BorrowedFd<'_>) -> bool {
    /// Words of `struct xfs_fsop_geom_v1`, which has 112 bytes.
    const WORDS: usize = 28;
    /// Index of the word of flags in it.
    const FLAGS: usize = 23;
    /// `XFS_IOC_FSGEOMETRY_V1`: _IOR('X', 100, struct xfs_fsop_geom_v1).
    const FSGEOMETRY_V1: libc::Ioctl = 0x8070_5864_u32 as libc::Ioctl;
    /// Flag of a file system with reflinks: `XFS_FSOP_GEOM_FLAGS_REFLINK`.
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

/// A range, and where it goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    pub(crate) source_offset: u64,
    pub(crate) target_offset: u64,
    pub(crate) length: u64,
}

/// FICLONERANGE: the storage of a range becomes that of another file, too.
pub(crate) fn clone_range(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    extents: Extents,
) -> Result<(), Errno> {
    /// Argument of the ioctl: `struct file_clone_range` of the kernel.
    #[repr(C)]
    struct Arguments {
        source: i64,
        source_offset: u64,
        length: u64,
        target_offset: u64,
    }
    /// Number of the ioctl: `_IOW(0x94, 13, struct file_clone_range)`.
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

/// An extended attribute of a directory's entry, of the link itself if it is one. The length of the
/// value alone if the buffer is empty.
pub(crate) fn attribute_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &mut [u8],
) -> Result<usize, Errno> {
    getxattrat(directory, name, libc::AT_SYMLINK_NOFOLLOW, attribute, value).unwrap_or_else(|| {
        let path = entry_path(directory, name);
        match value.is_empty() {
            true => rustix::fs::lgetxattr_query(path, attribute),
            false => rustix::fs::lgetxattr(path, attribute, value),
        }
    })
}

/// An extended attribute of the object of `fd`, which was opened with O_PATH; as [`attribute_at`].
pub(crate) fn attribute_of_path(
    fd: BorrowedFd<'_>,
    attribute: &CStr,
    value: &mut [u8],
) -> Result<usize, Errno> {
    let number = DecInt::from_fd(fd);
    getxattrat(descriptors()?, number.as_c_str(), 0, attribute, value).unwrap_or_else(
        || match value.is_empty() {
            true => rustix::fs::getxattr_query(magic_path(fd), attribute),
            false => rustix::fs::getxattr(magic_path(fd), attribute, value),
        },
    )
}

/// The names of the extended attributes of a directory's entry, of the link itself if it is one.
pub(crate) fn attribute_names_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    names: &mut [u8],
) -> Result<usize, Errno> {
    listxattrat(directory, name, libc::AT_SYMLINK_NOFOLLOW, names)
        .unwrap_or_else(|| rustix::fs::llistxattr(entry_path(directory, name), names))
}

/// The names of the extended attributes of the object of `fd`, which was opened with O_PATH.
pub(crate) fn attribute_names_of_path(
    fd: BorrowedFd<'_>,
    names: &mut [u8],
) -> Result<usize, Errno> {
    let number = DecInt::from_fd(fd);
    listxattrat(descriptors()?, number.as_c_str(), 0, names)
        .unwrap_or_else(|| rustix::fs::listxattr(magic_path(fd), names))
}

/// The path of a directory's entry.
fn entry_path(directory: BorrowedFd<'_>, name: &CStr) -> Vec<u8> {
    let mut path = magic_path(directory).into_bytes();
    path.push(b'/');
    path.extend_from_slice(name.to_bytes());
    path
}

/// `None` where the call is not to be had.
fn listxattrat(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: libc::c_int,
    names: &mut [u8],
) -> Option<Result<usize, Errno>> {
    if NO_XATTRAT.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the path is terminated; the kernel writes at most `names.len()` bytes to `names`,
    // which this function borrows mutably.
    let result = unsafe {
        libc::syscall(
            SYS_LISTXATTRAT,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags,
            names.as_mut_ptr(),
            names.len(),
        )
    };
    known(check(result))
}

/// `None` if the result says that the kernel, or a sandbox, does not know the call.
fn known(result: Result<usize, Errno>) -> Option<Result<usize, Errno>> {
    let is_missing = matches!(result, Err(Errno::NOSYS | Errno::PERM));
    if is_missing {
        NO_XATTRAT.store(true, Ordering::Relaxed);
    }
    (!is_missing).then_some(result)
}

/// `None` where the call is not to be had.
fn getxattrat(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: libc::c_int,
    attribute: &CStr,
    value: &mut [u8],
) -> Option<Result<usize, Errno>> {
    #[repr(C)]
    struct Arguments {
        value: u64,
        size: u32,
        flags: u32,
    }

    if NO_XATTRAT.load(Ordering::Relaxed) {
        return None;
    }
    let Ok(size) = u32::try_from(value.len()) else { return Some(Err(Errno::INVAL)) };
    let mut arguments = Arguments { value: value.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: both names are terminated; the kernel writes at most `size` bytes to `value`, which
    // this function borrows mutably.
    let result = unsafe {
        libc::syscall(
            SYS_GETXATTRAT,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags,
            attribute.as_ptr(),
            &raw mut arguments,
            size_of::<Arguments>(),
        )
    };
    known(check(result))
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

/// Takes CAP_FSETID from this thread for good, and from those that it starts: becoming root again
/// does not bring it back.
pub(crate) fn give_up_fsetid() -> Result<(), Errno> {
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(CapabilitySet::FSETID);
    }
    set_capabilities(None, sets)
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

pub(crate) fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    use rustix::fs::{Mode, OFlags, XattrFlags};
    use rustix::io::Errno;

    use super::{NO_XATTRAT, attribute_at, attribute_names_at};
    use super::{attribute_names_of_path, attribute_of_path};

    #[test]
    fn attributes_are_read_the_same_by_old_kernels_and_new_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(folder.path().join("file")).expect("made");
        fs::write(folder.path().join("bare"), b"").expect("made");
        rustix::fs::fsetxattr(&file, "user.a", b"value", XattrFlags::empty()).expect("room");
        let open = |path: &std::path::Path| {
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("there")
        };
        let directory = open(folder.path());
        let (directory, path) = (directory.as_fd(), open(&folder.path().join("file")));
        for is_old in [false, true] {
            NO_XATTRAT.store(is_old, Ordering::Relaxed);
            let mut value = [0; 8];
            assert_eq!(attribute_at(directory, c"file", c"user.a", &mut value), Ok(5));
            assert_eq!(&value, b"value\0\0\0");
            assert_eq!(attribute_at(directory, c"file", c"user.a", &mut []), Ok(5));
            assert_eq!(attribute_of_path(path.as_fd(), c"user.a", &mut []), Ok(5));
            assert_eq!(attribute_of_path(path.as_fd(), c"user.a", &mut [0; 2]), Err(Errno::RANGE));
            assert_eq!(attribute_of_path(path.as_fd(), c"user.b", &mut value), Err(Errno::NODATA));
            assert_eq!(attribute_names_at(directory, c"file", &mut value), Ok(7));
            assert_eq!(attribute_names_of_path(path.as_fd(), &mut value), Ok(7));
            assert_eq!(&value, b"user.a\0\0");
            assert_eq!(attribute_names_at(directory, c"bare", &mut value), Ok(0));
        }
        NO_XATTRAT.store(false, Ordering::Relaxed);
    }
}
