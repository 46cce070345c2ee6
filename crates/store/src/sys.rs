//! Calls of the system, and their results. Nothing here decides.

pub(crate) mod ahead;
pub(crate) mod basic_expression;
pub(crate) mod entries;
pub(crate) mod features;
pub(crate) mod file_kind;
pub(crate) mod kernel_locks;
pub(crate) mod lengths;
pub(crate) mod quota;
pub(crate) mod system;
pub(crate) mod times;
pub(crate) mod trusted_path;
pub(crate) mod unforeseen;
pub(crate) mod xattr;
