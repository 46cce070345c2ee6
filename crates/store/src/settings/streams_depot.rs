//! Settings of a depot for named streams.

use std::path::PathBuf;

/// Depot of a share's named streams: a directory with a file for each stream ("vfs objects =
/// streams_depot"). In quotes: options of Samba's `vfs_streams_depot`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DepotSettings {
    /// Absolute path of the depot, in or outside the share ("directory").
    pub directory: PathBuf,
    /// Streams of a file that is gone are removed if another file has its number; otherwise they
    /// are renamed ("delete_lost").
    pub delete_lost: bool,
    /// A file has streams only if an extended attribute says so ("check_valid").
    pub check_valid: bool,
}
