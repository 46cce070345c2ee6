//! Caches of files, one set for all shares of a store.
//!
//! A client may open a share a thousand times, and each open of a snapshot makes a root of its own.
//! With a set in each root, the limits of the caches would hold for none of the sums. Entries name
//! device and inode, so they are as true for one share as for another, whatever their settings.

use std::cell::RefCell;

use crate::cache::no_xattr::NoXattr;
use crate::cache::regular_files::RegularFiles;

/// The caches that all roots of a store use.
#[derive(Debug, Default)]
pub(crate) struct FileCaches {
    /// Names of ordinary files of all shares.
    pub(crate) regular: RefCell<RegularFiles>,
    /// Objects without extended attributes, of all shares.
    pub(crate) no_xattr: RefCell<NoXattr>,
}
