//! The share of the processors that a process has beside others.
//!
//! A thread with idle priority must not hold a lock that others wait for. So whatever takes such a
//! lock does it by [`with_normal_priority`]: each access of a table (`tdb`), and the lock of the
//! folder of messages (`messaging`).

use std::cell::Cell;
use std::fs;
use std::io;

use libc::{c_int, pid_t, sched_param};

/// A process's claim to the processors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Priority {
    /// That of the system's other programs, by the nice value: SCHED_OTHER.
    Normal,
    /// Only what others leave: SCHED_IDLE. A process of normal priority that wakes takes the
    /// processor at once.
    Idle,
}

impl Priority {
    fn policy(self) -> c_int {
        match self {
            Self::Normal => libc::SCHED_OTHER,
            Self::Idle => libc::SCHED_IDLE,
        }
    }
}

/// Sets the priority of all threads of a process. Threads that they start inherit it.
///
/// # Errors
/// There is no such process, it is another user's, or it may not return to normal priority: see
/// [`nice_limit`].
pub fn set_process_priority(pid: u32, priority: Priority) -> io::Result<()> {
    set_thread_priority(pid, priority)?;
    // Without `/proc` only its first thread is known.
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        if let Some(thread_id) = thread.file_name().to_str().and_then(|it| it.parse().ok()) {
            // It may have ended since.
            let _ = set_thread_priority(thread_id, priority);
        }
    }
    Ok(())
}

/// Returns true if the calling thread has [`Priority::Idle`].
pub fn is_idle_priority() -> bool {
    // SAFETY: the call only reads an attribute of this thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_IDLE }
}

/// Returns true if the calling thread has [`Priority::Normal`].
pub fn is_normal_priority() -> bool {
    // SAFETY: as above.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
}

/// Returns the RLIMIT_NICE with which a process of this nice value may return from
/// [`Priority::Idle`] without a privilege.
pub fn nice_limit(nice: i32) -> u64 {
    u64::try_from(20 - nice.clamp(-20, 19)).expect("it is above zero")
}

/// Sets the priority of a thread; 0 is the calling one.
///
/// # Errors
/// As for [`set_process_priority`].
pub fn set_thread_priority(thread_id: u32, priority: Priority) -> io::Result<()> {
    let thread_id = pid_t::try_from(thread_id).map_err(io::Error::other)?;
    // SAFETY: all zeros are valid: no policy that is used here has a parameter.
    let parameters: sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads the parameters during the call.
    match unsafe { libc::sched_setscheduler(thread_id, priority.policy(), &raw const parameters) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Priority of a thread, as far as it changes it itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Own {
    /// It was never lowered, or has left idle priority for good.
    Normal,
    /// It was lowered. Another process may have raised it since.
    Lowered,
    /// It was lowered, and is raised for a step.
    Raised,
}

thread_local! {
    static OWN: Cell<Own> = const { Cell::new(Own::Normal) };
}

/// Gives the calling thread idle priority, until [`leave_idle_priority`].
///
/// A thread lowers itself, and no other one does: that could be while it holds a lock.
///
/// # Errors
/// As for [`set_process_priority`].
pub fn take_idle_priority() -> io::Result<()> {
    set_thread_priority(0, Priority::Idle)?;
    OWN.set(Own::Lowered);
    Ok(())
}

/// Gives this process normal priority for good, if the calling thread was lowered by
/// [`take_idle_priority`].
///
/// # Errors
/// As for [`set_process_priority`].
pub fn leave_idle_priority() -> io::Result<()> {
    match OWN.replace(Own::Normal) {
        Own::Normal => Ok(()),
        Own::Lowered | Own::Raised => {
            let raised = set_process_priority(std::process::id(), Priority::Normal);
            // As it is lowered still, its locks need normal priority still.
            raised.inspect_err(|_| OWN.set(Own::Lowered))
        }
    }
}

/// Runs a step that holds a lock which other processes wait for, at normal priority.
///
/// The locks do not lend priority: a thread of idle priority that loses the processor while it
/// holds one keeps all who wait for it as long as others are busy. If normal priority cannot be
/// had, the step runs all the same. For a thread that [`take_idle_priority`] has not lowered it
/// costs no system call.
#[inline]
pub fn with_normal_priority<T>(step: impl FnOnce() -> T) -> T {
    match OWN.get() {
        Own::Lowered => with_raised_priority(step),
        // A step within another one ends with that.
        Own::Normal | Own::Raised => step(),
    }
}

#[cold]
#[inline(never)]
fn with_raised_priority<T>(step: impl FnOnce() -> T) -> T {
    // Another process has raised it, and does not lower it again.
    if !is_idle_priority() || set_thread_priority(0, Priority::Normal).is_err() {
        return step();
    }
    OWN.set(Own::Raised);
    let result = step();
    if OWN.get() == Own::Raised {
        // Lowering takes no privilege.
        let _ = take_idle_priority();
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::{
        Priority, is_idle_priority, is_normal_priority, leave_idle_priority, nice_limit,
        set_thread_priority, take_idle_priority, with_normal_priority,
    };

    /// For one test at a time: who leaves idle priority raises all threads of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Runs steps in a thread of idle priority. Returns `None` where a thread may not leave that.
    fn lowered<T: Send + 'static>(steps: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _alone = ALONE.lock();
        let lowered = thread::spawn(|| {
            take_idle_priority().expect("less is always allowed");
            let may_return = set_thread_priority(0, Priority::Normal).is_ok();
            take_idle_priority().expect("less is always allowed");
            may_return.then(steps)
        });
        lowered.join().expect("it ends")
    }

    #[test]
    fn a_thread_gives_up_its_priority_and_others_keep_theirs() {
        let _alone = ALONE.lock();
        let lowered = thread::spawn(|| {
            take_idle_priority().expect("less is always allowed");
            let child = thread::spawn(is_idle_priority);
            (is_idle_priority(), is_normal_priority(), child.join().expect("it ends"))
        });
        assert_eq!(lowered.join().expect("it ends"), (true, false, true));
        assert!(!is_idle_priority());
    }

    #[test]
    fn a_step_with_a_lock_has_normal_priority_and_leaves_the_priority_as_it_was() {
        assert!(with_normal_priority(is_normal_priority));
        assert!(is_normal_priority());
        let seen = lowered(|| {
            let nested = || (with_normal_priority(is_normal_priority), is_normal_priority());
            (with_normal_priority(nested), is_idle_priority())
        });
        assert!(seen.is_none_or(|seen| seen == ((true, true), true)), "{seen:?}");
    }

    #[test]
    fn a_thread_that_another_process_has_raised_is_not_lowered_by_a_step() {
        let seen = lowered(|| {
            set_thread_priority(0, Priority::Normal).expect("it may return");
            (with_normal_priority(is_normal_priority), is_normal_priority())
        });
        assert!(seen.is_none_or(|seen| seen == (true, true)), "{seen:?}");
    }

    #[test]
    fn a_thread_that_leaves_idle_priority_is_not_lowered_by_a_step() {
        let seen = lowered(|| {
            let left = with_normal_priority(|| leave_idle_priority().is_ok());
            (left, is_normal_priority(), with_normal_priority(is_normal_priority))
        });
        assert!(seen.is_none_or(|seen| seen == (true, true, true)), "{seen:?}");
    }

    #[test]
    fn the_limit_counts_from_the_lowest_priority() {
        assert_eq!([19, 0, -20].map(nice_limit), [1, 20, 40]);
        assert_eq!([i32::MAX, i32::MIN].map(nice_limit), [1, 40]);
    }
}
