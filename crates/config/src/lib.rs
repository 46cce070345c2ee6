//! smb.conf: parameters as data, shares, substitutions.
//!
//! The language is Samba's: what `testparm -s` prints for a file is what this crate makes of it
//! (`tests/oracle.rs`). Where we knowingly differ, the place says so:
//!
//! - a value that cannot be read is a warning and the default, except for the few parameters where
//!   the default is the weaker choice ([`Parameter::refuses_bad_values`]); Samba refuses the file;
//! - a relative `include` is looked for beside the file that names it, not in the working
//!   directory, which for a server means nothing;
//! - a section that is opened a second time keeps its parametric options, and only at the end it is
//!   asked whether it has a path;
//! - white space around the name of a section is not part of it;
//! - a `copy` of nothing makes the one share unavailable, where Samba refuses the file;
//! - `%%` stands for one percent sign.
//!
//! Nothing here acts on a parameter. The server reads typed fields of [`Global`] and [`Share`].

#![forbid(unsafe_code)]

pub mod choice;
pub mod class;
pub mod hosts_access;
pub mod interface;
pub mod limits;
#[cfg(test)]
mod share_lines;
mod streams_depot;
pub mod substitutions;
pub mod user_list;
pub mod username_map;

mod accepted;
mod client_config;
mod config;
mod full_audit;
mod global;
mod kind;
mod lines;
pub mod list;
mod load;
mod options;
mod parameter;
mod place;
mod recycle;
mod render;
mod section;
mod shadow_copy;
mod share;
mod share_name;
mod shell_command;
mod source;
mod startups;
mod unsupported;
mod warning;

pub use class::ClassSection;
pub use config::{Config, Directories};
pub use full_audit::{AuditOutputs, AuditSyslog, FullAudit, audit_events};
pub use global::{Global, Keytab};
pub use kind::{BadValue, Canonical, Kind};
pub use lines::is_read_as_written;
pub use parameter::{Effect, Parameter, Scope, Synonym, find, nearest, nearest_of, parameters};
pub use place::Place;
pub use recycle::Recycle;
pub use render::{render_effective, render_for_processes};
pub use shadow_copy::ShadowCopy;
pub use share::Share;
pub use share_name::is_share_name;
pub use shell_command::{ShellCommand, is_plain_path};
pub use startups::Startups;
pub use streams_depot::StreamsDepot;
pub use substitutions::Substitutions;
pub use user_list::{GroupKind, UserList};
pub use username_map::UsernameMap;
pub use warning::{LoadError, Warning, WarningKind, hint, quoted};
