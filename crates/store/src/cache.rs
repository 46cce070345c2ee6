//! Results that can be computed again: open directories, names, absent attributes.

pub(crate) mod directories;
pub(crate) mod directory_paths;
pub(crate) mod file_caches;
pub(crate) mod name_hashes;
pub(crate) mod no_xattr;
pub(crate) mod regular_files;
