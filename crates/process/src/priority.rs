//! The share of the processors that a process has beside others.
//!
//! It is here because scheduling policies have no safe wrapper, as forks have none.

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

/// Runs a step that holds a lock of a shared table, at normal priority.
///
/// The locks do not lend priority: a thread of idle priority that loses the processor while it
/// holds one keeps all who wait for it as long as others are busy. If normal priority cannot be
/// had, the step runs all the same.
pub fn with_normal_priority<T>(step: impl FnOnce() -> T) -> T {
    let is_raised = is_idle_priority() && set_thread_priority(0, Priority::Normal).is_ok();
    let result = step();
    if is_raised {
        // Lowering takes no privilege.
        let _ = set_thread_priority(0, Priority::Idle);
    }
    result
}

/// Gives this process normal priority for good, if it has idle priority. Without the right to do so
/// it goes on as it is.
pub fn leave_idle_priority() {
    if is_idle_priority()
        && let Err(error) = set_process_priority(std::process::id(), Priority::Normal)
    {
        tracing::debug!("cannot return to normal priority: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{
        Priority, is_idle_priority, is_normal_priority, nice_limit, set_thread_priority,
        with_normal_priority,
    };

    #[test]
    fn a_thread_gives_up_its_priority_and_others_keep_theirs() {
        let lowered = thread::spawn(|| {
            set_thread_priority(0, Priority::Idle).expect("less is always allowed");
            let child = thread::spawn(is_idle_priority);
            (is_idle_priority(), is_normal_priority(), child.join().expect("it ends"))
        });
        assert_eq!(lowered.join().expect("it ends"), (true, false, true));
        assert!(!is_idle_priority());
    }

    #[test]
    fn a_step_with_a_lock_leaves_the_priority_as_it_was() {
        assert!(with_normal_priority(is_normal_priority));
        assert!(is_normal_priority());
        let lowered = thread::spawn(|| {
            set_thread_priority(0, Priority::Idle).expect("less is always allowed");
            // Without the right to return, it stays idle within, too.
            let may_return = set_thread_priority(0, Priority::Normal).is_ok();
            set_thread_priority(0, Priority::Idle).expect("less is always allowed");
            (may_return == with_normal_priority(is_normal_priority), is_idle_priority())
        });
        assert_eq!(lowered.join().expect("it ends"), (true, true));
    }

    #[test]
    fn the_limit_counts_from_the_lowest_priority() {
        assert_eq!([19, 0, -20].map(nice_limit), [1, 20, 40]);
        assert_eq!([i32::MAX, i32::MIN].map(nice_limit), [1, 40]);
    }
}
