//! Confinement: the system calls, capabilities and paths that each process of the server keeps.
//!
//! A fault in a process is worth no more than what the process may do. So each gives up the
//! capabilities that it does not need ([`give_up_capabilities`]) when it begins, and once it is set
//! up, all paths and sockets but its own ([`Ruleset`]) and all system calls but those of its list
//! ([`filter_calls`]). `calls` has the lists of all processes, `capabilities` what each keeps,
//! `places` the paths that it reaches, with the reasons.
//!
//! A process that makes a call outside its list is ended, after it has reported the call
//! ([`Report`]). A call that is newer than this program fails as on an older kernel, so that a new
//! C library finds its way around it.
//!
//! A process may give up its [`priority`], too. That is here because `tdb` and `messaging`, whose
//! locks depend on it, stand above this crate and below `process`.
//!
//! Unsafe code is in `install`, `landlock`, `priority` and `violation` only: no safe library that
//! is used here offers that.

mod access;
mod arguments;
mod calls;
mod capabilities;
mod conditions;
mod filter;
mod install;
mod instruction;
mod landlock;
mod mode;
mod observed;
mod places;
pub mod priority;
mod process_kind;
mod ruleset;
mod search;
mod signals;
mod violation;

pub use capabilities::{
    bound_capabilities, give_up_capabilities, kept_capabilities, names_of_capabilities,
};
pub use filter::{call_name, known_call_name, prepare};
pub use install::{filter_calls, unavailable};
pub use mode::Mode;
pub use observed::Observed;
pub use places::{Place, has_places};
pub use process_kind::ProcessKind;
pub use ruleset::{Freedom, Ruleset, paths_unavailable, restricts_tcp, tcp_unavailable};
pub use signals::Signals;
pub use violation::Report;
