//! The end of a process that makes a call outside its list.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, siginfo_t};

/// Reports the number of the call, for a person to read. It runs in a signal handler, in whatever
/// state the process is: it may make system calls, and neither lock nor allocate.
pub type Report = fn(u32);

static REPORT: OnceLock<Report> = OnceLock::new();

/// Another thread has reported a call already.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Offset of `si_syscall` in the information of a SIGSYS: behind three numbers, which are aligned
/// to eight bytes, and an address.
const CALL_OFFSET: usize = 24;

/// Lets `report` run before this process ends for a call outside its list.
///
/// # Errors
/// The kernel refuses the handler.
pub(crate) fn report_with(report: Report) -> io::Result<()> {
    REPORT.get_or_init(|| report);
    // SAFETY: all zeros are a valid value: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handle as *const () as usize;
    // Not deferred: the handler ends the process by the same signal.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: the handler has the form that SA_SIGINFO requires, and makes system calls only.
    match unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel has filled in the information of a SIGSYS, which is longer.
    let call = unsafe { info.cast::<u8>().add(CALL_OFFSET).cast::<u32>().read() };
    if !IS_REPORTED.swap(true, Ordering::Relaxed)
        && let Some(report) = REPORT.get()
    {
        report(call);
    }
    // SAFETY: the default handler runs no code of this program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: `raise` makes system calls only, and the signal ends the process.
    unsafe { libc::raise(signal) };
    // SAFETY: the process ends here, should the signal have been blocked.
    unsafe { libc::_exit(c_int::from(u8::MAX)) };
}
