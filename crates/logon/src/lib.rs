//! Two libraries of the system that check logons, behind safe types: MIT Kerberos ([`gss`]), and
//! Samba's client of winbindd ([`winbind`]).
//!
//! Both are opened at run time, so that a host without them runs the server all the same and says
//! what is missing. Both parse what clients send, in C, and may wait for other machines: only
//! `logond` opens them, a process without any client's data, and `choro check --domain`.
//!
//! Unsafe code is in here alone of all that is about logons: the tables of functions and structures
//! of both libraries, written by hand from their public headers.

pub mod gss;
mod library;
pub mod machine_secrets;
pub mod winbind;

pub use library::LibraryError;
