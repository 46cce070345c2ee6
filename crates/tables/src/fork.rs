//! A process that goes on from where this one is.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use libc::{c_int, c_uint, sigset_t};

/// Which of two processes this is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Forked {
    /// The new one.
    Child,
    /// That which was there, and the pid of the new one.
    Parent(u32),
}

/// Makes a process that is a copy of this one, in a process group of its own: what is for the parent's
/// group is not for it. In it, handlers of `signals` are gone, and no signal has been lost or taken by the
/// wrong process. `None` if this process has more than one thread: only the one that asks would go on,
/// and what others were doing would stay half done.
///
/// The child has its parent's tables and none of their locks: it makes them its own
/// ([`Registry::inherit`](crate::Registry::inherit)), or drops them.
///
/// # Errors
/// The kernel has no process for us.
pub fn fork(signals: &[c_int]) -> io::Result<Option<Forked>> {
    if threads()? != 1 {
        return Ok(None);
    }
    let before = block_signals()?;
    // SAFETY: this is the only thread, so nothing is half done in the child.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: it says something of this process and no more. It fails for no new process.
        unsafe { libc::setpgid(0, 0) };
        for &signal in signals {
            // SAFETY: the default does nothing of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // Its error was made before this changes `errno`.
    let forked = match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Some(Forked::Child)),
        pid => Ok(Some(Forked::Parent(u32::try_from(pid).expect("pids are positive")))),
    };
    // SAFETY: the set was filled in by the kernel.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    forked
}

/// Closes all descriptors but the standard ones and those `kept`. What else owns some must have been
/// forgotten, and never be dropped: for a child that has nothing to do with what its parent has open.
///
/// # Errors
/// The kernel is older than 5.9, or a filter refuses, and what is open cannot be found in `/proc` either.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let number = |it: &BorrowedFd<'_>| c_uint::try_from(it.as_raw_fd()).ok();
    let mut kept: Vec<c_uint> = kept.iter().filter_map(number).filter(|it| *it >= FIRST).collect();
    kept.sort_unstable();
    close_ranges_but(&kept).or_else(|_| close_each_but(&kept))
}

/// `kept` is sorted.
fn close_ranges_but(kept: &[c_uint]) -> io::Result<()> {
    let mut first = FIRST;
    for &kept in kept {
        if first < kept {
            close_range(first, kept - 1)?;
        }
        first = kept + 1;
    }
    close_range(first, c_uint::MAX)
}

fn close_range(first: c_uint, last: c_uint) -> io::Result<()> {
    // SAFETY: who calls `close_all_but` has seen to it that nobody uses or closes them.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn close_each_but(kept: &[c_uint]) -> io::Result<()> {
    for number in open_descriptors()? {
        if number >= FIRST && !kept.contains(&number) {
            // SAFETY: as above. That which the folder was read through is closed already.
            unsafe { libc::close(number.cast_signed()) };
        }
    }
    Ok(())
}

/// Descriptors of this process, and one that has just been closed.
fn open_descriptors() -> io::Result<BTreeSet<c_uint>> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(number).collect())
}

/// Does something, and says whether it has left no descriptor open: what a library keeps open for itself, a
/// child that closes everything must not close behind its back.
///
/// # Errors
/// `/proc` is not there.
pub fn leaves_nothing_open(work: impl FnOnce()) -> io::Result<bool> {
    let before = open_descriptors()?;
    work();
    // Through which the folder is read is the same number, unless something has taken that.
    Ok(open_descriptors()?.is_subset(&before))
}

/// The first descriptor that is not a standard one.
const FIRST: c_uint = 3;

/// Threads of this process: the folder of them has a link from each, one from above and its own.
fn threads() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}

/// Blocks all signals, and says which were blocked.
fn block_signals() -> io::Result<sigset_t> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the set is ours to fill in.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the first set is filled in, the second ours to fill in.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) } {
        // SAFETY: the call has filled it in.
        0 => Ok(unsafe { before.assume_init() }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::{c_uint, close_each_but, fork};

    #[test]
    fn without_close_range_each_descriptor_is_closed_that_is_not_kept() {
        let [kept, other] = [(); 2].map(|()| File::open("/dev/null").expect("it is there"));
        let [kept, other] =
            [&kept, &other].map(|it| c_uint::try_from(it.as_raw_fd()).expect("a number"));
        // SAFETY: the child does nothing but what is below, and the C library's memory can be used in it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it asks, and no more.
            let is_open = |it: c_uint| unsafe { libc::fcntl(it.cast_signed(), libc::F_GETFD) } >= 0;
            let is_right = close_each_but(&[kept]).is_ok() && is_open(kept) && !is_open(other);
            // SAFETY: it ends.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        assert!(child > 0, "there is a process for us");
        let mut status = 0;
        // SAFETY: the status is ours to fill in.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    }

    #[test]
    fn a_process_with_threads_is_not_forked() {
        std::thread::scope(|scope| {
            let (tell, wait) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || wait.recv());
            assert_eq!(fork(&[]).expect("it can be asked"), None);
            drop(tell);
        });
    }
}
