//! Directories and their entries: listing, renaming, linking, deleting.

pub(crate) mod apple;
pub(crate) mod delete_vetoed;
pub(crate) mod list;
pub(crate) mod recycle;
pub(crate) mod rename;
pub(crate) mod unlink;
