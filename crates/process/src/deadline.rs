//! A time limit for a step that nothing else can interrupt.
//!
//! It is here because timers of a process have no safe wrapper.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use libc::{c_int, itimerspec, sigevent, timer_t, timespec};

/// Ends this process, by a signal, when it has passed. Dropping it cancels that.
#[derive(Debug)]
pub struct Deadline {
    timer: timer_t,
}

impl Deadline {
    /// Sets a deadline this far from now. The signal is [`deadline_signal`], and nothing handles
    /// it: neither destructors nor exit handlers run.
    ///
    /// # Errors
    /// The kernel has no timer left.
    pub fn after(limit: Duration) -> io::Result<Self> {
        // SAFETY: all zeros are valid, and leave out what SIGEV_SIGNAL does not use.
        let mut event: sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = deadline_signal();
        let mut timer = MaybeUninit::uninit();
        // SAFETY: the kernel reads the event and writes the timer's number during the call.
        let made = unsafe {
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr())
        };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call was successful.
        let deadline = Self { timer: unsafe { timer.assume_init() } };
        let never = timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = timespec {
            tv_sec: limit.as_secs().try_into().map_err(io::Error::other)?,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let once = itimerspec { it_interval: never, it_value };
        // SAFETY: the timer exists until it is dropped; the kernel reads the time during the call.
        match unsafe {
            libc::timer_settime(deadline.timer, 0, &raw const once, std::ptr::null_mut())
        } {
            0 => Ok(deadline),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // SAFETY: it was created, and nothing else deletes it.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Returns the signal of a passed [`Deadline`]: one that the system's libraries do not block while
/// they wait, as they do SIGALRM, and that nothing else sends.
pub fn deadline_signal() -> c_int {
    libc::SIGRTMIN() + 8
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    use libc::timer_t;

    use super::{Deadline, deadline_signal};

    /// In this process a deadline is set, because it has this variable.
    const PASSES: &str = "CHORO_TEST_DEADLINE_PASSES";

    fn is_timer(timer: timer_t) -> bool {
        let mut left = MaybeUninit::uninit();
        // SAFETY: the kernel knows the number or not, and writes the time during the call.
        unsafe { libc::timer_gettime(timer, left.as_mut_ptr()) == 0 }
    }

    #[test]
    fn a_process_ends_by_its_deadline_and_not_by_one_that_was_kept() {
        if std::env::var_os(PASSES).is_some() {
            let kept = Deadline::after(Duration::from_secs(60)).expect("there are timers");
            let timer = kept.timer;
            drop(kept);
            if is_timer(timer) {
                return;
            }
            let _deadline = Deadline::after(Duration::from_millis(50)).expect("there are timers");
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        let name = "deadline::tests::a_process_ends_by_its_deadline_and_not_by_one_that_was_kept";
        let mut program = Command::new(std::env::current_exe().expect("it runs"));
        let ended = program.args(["--exact", name]).env(PASSES, "1").status();
        assert_eq!(ended.expect("it starts").signal(), Some(deadline_signal()));
    }
}
