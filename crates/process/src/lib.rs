//! A process of the server: all that worker, notifyd and supervisor have in common.
//!
//! The supervisor forks workers ([`fork()`]) or starts its own executable again ([`arguments`]).
//! Either way the new process takes the [`properties`] of one of the server's, writes to the common
//! [`log`], has a [`control`] socket to the supervisor and answers administrators
//! ([`administration`]). It waits for an [`EventSet`]; its threads talk through a [`Mailbox`].
//! A [`HelperProcess`] does so for those that serve workers; they take [`Turns`].
//!
//! Unsafe code is in `deadline`, `exit`, `fork`, `heap`, `netgroup`, `packet_filter` and `shell`
//! only: no safe library offers that.

pub mod administration;
pub mod arguments;
pub mod clocks;
mod confining;
pub mod control;
mod deadline;
mod event_set;
mod exit;
mod fair_queue;
mod fork;
mod heap;
mod helper;
pub mod log;
mod mailbox;
mod name_connection;
mod name_look_up;
mod name_question;
mod netgroup;
mod packet;
mod packet_filter;
mod passed_command;
pub mod properties;
mod shell;
mod terminal_text;
mod turns;
mod wake_up;

pub use confinement::priority::{
    Priority, is_normal_priority, nice_limit, set_process_priority, set_thread_priority,
    take_idle_priority,
};
pub use confining::{
    confine, confinement_mode, give_up_capabilities, keep_to, ruleset, ruleset_with, signals_of,
};
pub use deadline::{Deadline, deadline_signal};
pub use event_set::EventSet;
pub use exit::{Ending, exit_at_once};
pub use fair_queue::FairQueue;
pub use fork::{Forked, close_all_but, fork};
pub use heap::fill_holes;
pub use helper::{HelperProcess, Order};
pub use mailbox::Mailbox;
pub use name_connection::{NameConnection, ask_for_name, listen_for_names};
pub use name_look_up::{loading_questions, look_up_name};
pub use name_question::{
    NAME_BYTES_MAX, NameAnswer, NamePurpose, NameQuestion, NameRequest, QUESTION_BYTES_MAX,
    SystemUser, may_be_name,
};
pub use netgroup::{netgroup_exists, netgroup_includes};
pub use packet_filter::{Instruction, filter_sockets};
pub use passed_command::{
    CommandAnswer, CommandRequest, OUTPUT_BYTES_MAX, PassedCommand, REQUEST_BYTES_MAX,
    listen_for_commands,
};
pub use properties::leave_idle_priority;
pub use shell::{Identity, PROGRAM_PATH, Shell, has_processes};
pub use terminal_text::{escape_json, is_command, printable};
pub use turns::Turns;
pub use wake_up::WakeUp;
