//! A process of the server: all that worker, notifyd and supervisor have in common.
//!
//! The supervisor forks workers ([`fork()`]) or starts its own executable again ([`arguments`]).
//! Either way the new process takes the [`properties`] of one of the server's, writes to the common
//! [`log`], has a [`control`] socket to the supervisor and answers administrators
//! ([`administration`]). It waits for an [`EventSet`]; its threads talk through a [`Mailbox`].
//!
//! Unsafe code is in `deadline`, `exit`, `fork`, `packet_filter` and `priority` only: no safe
//! library offers that.

pub mod administration;
pub mod arguments;
pub mod clocks;
pub mod control;
mod deadline;
mod event_set;
mod exit;
mod fork;
pub mod log;
mod mailbox;
mod packet_filter;
mod priority;
pub mod properties;
mod wake_up;

pub use deadline::{Deadline, deadline_signal};
pub use event_set::EventSet;
pub use exit::{Ending, exit_at_once};
pub use fork::{Forked, close_all_but, fork, leaves_nothing_open};
pub use mailbox::Mailbox;
pub use packet_filter::{Instruction, filter_sockets};
pub use priority::{
    Priority, is_idle_priority, is_normal_priority, leave_idle_priority, nice_limit,
    set_process_priority, set_thread_priority, with_normal_priority,
};
pub use wake_up::WakeUp;
