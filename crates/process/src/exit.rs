//! The end of a process without the steps that other programs end with.

/// How a worker ends by itself: its exit status, which the supervisor reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// It has closed all of its opens, and carried out all of its deletions.
    Finished,
    /// A deadline has passed before that, as its storage hangs. Its files need the care that those
    /// of a dead worker have.
    Unfinished,
}

impl Ending {
    /// Status for the kernel: neither that of an error nor that of a panic.
    #[must_use]
    pub fn status(self) -> i32 {
        match self {
            Self::Finished => 0,
            Self::Unfinished => 3,
        }
    }

    /// The ending with this exit status; none for a failed process.
    #[must_use]
    pub fn of_status(status: i32) -> Option<Self> {
        [Self::Finished, Self::Unfinished].into_iter().find(|it| it.status() == status)
    }
}

/// Ends this process, and leaves all to the kernel. The destructors of the system's libraries would
/// each copy a page of memory first, for a flag: a twentieth of a short client.
pub fn exit_at_once(ending: Ending) -> ! {
    // SAFETY: the process ends here. The log has no buffer, and nothing registers exit handlers
    // that matter to others.
    unsafe { libc::_exit(ending.status()) }
}
