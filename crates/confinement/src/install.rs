//! The installation of a program in the kernel.

use std::io;

use libc::sock_filter;

use crate::filter::{of_process, program};
use crate::mode::Mode;
use crate::process_kind::ProcessKind;
use crate::signals::Signals;
use crate::violation::{Report, report_with};

/// Lets all threads of this process make the calls of its list only, for good, and take no rights
/// from programs that they would execute.
///
/// # Errors
/// The kernel has no filters, or another processor than those that filters are made for. Nothing
/// has been taken then.
pub fn filter_calls(
    kind: ProcessKind,
    mode: Mode,
    signals: Signals,
    report: Report,
) -> io::Result<()> {
    if mode == Mode::Off {
        return Ok(());
    }
    let program = program(kind, mode, signals).map_err(io::Error::other)?;
    let program = of_process(&program, std::process::id());
    // A process without privileges must not lead a privileged program by a filter.
    rustix::thread::set_no_new_privs(true)?;
    if mode == Mode::On {
        report_with(report)?;
    }
    install(&program)
}

/// Returns the reason why the kernel cannot filter calls; none if it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    let trap = libc::SECCOMP_RET_TRAP;
    let (operation, address) = (libc::SECCOMP_GET_ACTION_AVAIL, &raw const trap);
    // SAFETY: the kernel reads a number, and changes nothing.
    match unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, address) } {
        0 => ProcessKind::ALL
            .into_iter()
            .find_map(|kind| program(kind, Mode::On, Signals::OfMessages).err()),
        _ => Some(format!("the kernel filters no system calls: {}", io::Error::last_os_error())),
    }
}

/// Filters of a process that runs code of others change how the processor works, at a cost for all
/// that it does (before Linux 5.16). None does here, so that is left out where the kernel knows how
/// (4.17).
const FLAGS: [libc::c_ulong; 2] = [
    libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
    libc::SECCOMP_FILTER_FLAG_TSYNC,
];

fn install(program: &[sock_filter]) -> io::Result<()> {
    match install_with(program, FLAGS[0]) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install_with(program, FLAGS[1]),
        result => result,
    }
}

fn install_with(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let argument = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let (operation, address) = (libc::SECCOMP_SET_MODE_FILTER, &raw const argument);
    // SAFETY: the program lives until the call returns; the kernel copies it.
    match unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, address) } {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has other filters"))),
    }
}
