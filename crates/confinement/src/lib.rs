//! Confinement: the system calls and capabilities that each process of the server keeps.
//!
//! A fault in a process is worth no more than what the process may do. So each gives up the
//! capabilities that it does not need ([`give_up_capabilities`]) when it begins, and all system
//! calls but those of its list ([`filter_calls`]) once it is set up. `calls` has the lists of all
//! processes, `capabilities` what each keeps, with the reasons.
//!
//! A process that makes a call outside its list is ended, after it has reported the call
//! ([`Report`]). A call that is newer than this program fails as on an older kernel, so that a new
//! C library finds its way around it.
//!
//! A process may give up its [`priority`], too. That is here because `tdb` and `messaging`, whose
//! locks depend on it, stand above this crate and below `process`.
//!
//! Unsafe code is in `install`, `priority` and `violation` only: no safe library offers that.

mod arguments;
mod calls;
mod capabilities;
mod conditions;
mod filter;
mod install;
mod instruction;
mod mode;
mod observed;
pub mod priority;
mod process_kind;
mod search;
mod violation;

pub use capabilities::{
    bound_capabilities, give_up_capabilities, kept_capabilities, names_of_capabilities,
};
pub use filter::{call_name, known_call_name, prepare};
pub use install::{filter_calls, unavailable};
pub use mode::Mode;
pub use observed::Observed;
pub use process_kind::ProcessKind;
pub use violation::Report;
