//! Forking of a process, and closing of its descriptors.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use libc::{c_int, c_uint, sigset_t};

/// Result of a fork in each of the two processes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Forked {
    /// The process is the new one.
    Child,
    /// The process is the old one; with the pid of the new one.
    Parent(u32),
}

/// Forks this process. The child is in a process group of its own: signals to the parent's group do
/// not reach it. In the child, handlers of `signals` are reset; no signal is lost or delivered to
/// the wrong process. `None` if this process has more than one thread: only the calling one would
/// continue, and the work of the others would stay half done.
///
/// The child has its parent's tables and none of their locks: it takes them over
/// (`tables::Registry::inherit`), or drops them.
///
/// # Errors
/// The kernel cannot create a process.
pub fn fork(signals: &[c_int]) -> io::Result<Option<Forked>> {
    if threads()? != 1 {
        return Ok(None);
    }
    let before = block_signals()?;
    // SAFETY: this is the only thread, so no work is half done in the child.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: changes only the group of this process. It cannot fail for a new process.
        unsafe { libc::setpgid(0, 0) };
        discard_dead_stack();
        for &signal in signals {
            // SAFETY: the default handler runs no code of this program.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // Reads the error before the calls below change `errno`.
    let forked = match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Some(Forked::Child)),
        pid => Ok(Some(Forked::Parent(u32::try_from(pid).expect("pids are positive")))),
    };
    // SAFETY: the kernel has filled the set in.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    forked
}

/// Gives back what the parent's calls have left on the stack below this one. The pages are shared
/// until the parent uses them again; from then on each of its children would have its own copy.
fn discard_dead_stack() {
    let page_len = rustix::param::page_size();
    let here = 0_u8;
    // The page below this one may be in use already.
    let end = (&raw const here).addr() / page_len * page_len - page_len;
    let start = (&raw const here).with_addr(end - DEAD_STACK_LEN).cast_mut().cast();
    // SAFETY: nothing is mapped below the stack within the kernel's gap of 1 MiB, and no frame is
    // below this one. The call fails where the stack is shorter, after it has done the rest.
    unsafe { libc::madvise(start, DEAD_STACK_LEN, libc::MADV_DONTNEED) };
}

/// Bytes of the stack that [`discard_dead_stack`] gives back: more than the supervisor's calls use.
const DEAD_STACK_LEN: usize = 262_144;

/// Closes all descriptors but the standard ones and those `kept`. Other owners of descriptors must
/// have been forgotten, and never be dropped: for a child that uses none of its parent's files.
///
/// # Errors
/// The kernel is older than 5.9, or a filter refuses the call, and `/proc` cannot list the
/// descriptors either.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let number = |it: &BorrowedFd<'_>| c_uint::try_from(it.as_raw_fd()).ok();
    let mut kept: Vec<c_uint> = kept.iter().filter_map(number).filter(|it| *it >= FIRST).collect();
    kept.sort_unstable();
    close_ranges_but(&kept).or_else(|_| close_each_but(&kept))
}

/// Closes the ranges between the descriptors `kept`, which are sorted.
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
    // SAFETY: by the contract of `close_all_but`, no code uses or closes these descriptors.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn close_each_but(kept: &[c_uint]) -> io::Result<()> {
    for number in open_descriptors()? {
        if number >= FIRST && !kept.contains(&number) {
            // SAFETY: as above. The descriptor that listed the folder is closed already.
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

/// First descriptor after the standard ones.
const FIRST: c_uint = 3;

/// Number of threads of this process: the folder has one link from each, one from its parent and
/// its own.
pub(crate) fn threads() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}

/// Blocks all signals, and returns those that were blocked before.
fn block_signals() -> io::Result<sigset_t> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the set is a local buffer.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the first set is filled in, the second a local buffer.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) } {
        // SAFETY: the call has filled the set in.
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
        // SAFETY: the child runs only the code below, which may use the C library's memory.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the call only reads a flag.
            let is_open = |it: c_uint| unsafe { libc::fcntl(it.cast_signed(), libc::F_GETFD) } >= 0;
            let is_right = close_each_but(&[kept]).is_ok() && is_open(kept) && !is_open(other);
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        assert!(child > 0, "there is a process for us");
        let mut status = 0;
        // SAFETY: the status is a local buffer.
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
