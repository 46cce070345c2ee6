//! Data of files: reading, writing, copying, storage.

pub(crate) mod compression;
pub(crate) mod copy;
pub(crate) mod extents;
pub(crate) mod kernel_claims;
pub mod piped;
pub(crate) mod range;
pub(crate) mod read_write;
