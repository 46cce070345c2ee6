//! Snapshots of a share: the options of Samba's `vfs_shadow_copy2`.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::{Share, Substitutions};
use store::{SnapshotOrder, SnapshotSettings};
use tracing::warn;

/// The module that a share names to have snapshots.
const MODULE: &str = "shadow_copy2";

/// Prefix of the options' names.
const OPTIONS: &str = "shadow";

/// Default of the option `shadow:snapdir`.
const DIRECTORY: &str = ".snapshots";

/// The default of `shadow:format`: what clients call a snapshot, too.
const FORMAT: &str = "@GMT-%Y.%m.%d-%H.%M.%S";

/// Options that are not followed. `shadow:fixinodes` needs not be: files in snapshots always have
/// numbers of their own.
const UNKNOWN: [&str; 4] = ["crossmountpoints", "snapdirseverywhere", "snapprefix", "sscanf"];

/// The settings of a share whose folder is `path`; `None` if it has no snapshots.
pub(super) fn snapshot_settings(
    share: &Share,
    path: &str,
    substitutions: &Substitutions,
) -> Option<SnapshotSettings> {
    if !share.has_module(MODULE) {
        return None;
    }
    for option in UNKNOWN {
        if share.option(OPTIONS, option).is_some_and(|text| !is_no(text)) {
            warn!("share {}: {OPTIONS}:{option} is not supported", share.name);
        }
    }
    let option = |name| share.option(OPTIONS, name).map(|text| substitutions.expand_path(text));
    let path = fs::canonicalize(path).ok()?;
    let mount_point = option("mountpoint").map_or_else(|| mount_point(&path), PathBuf::from);
    let directory = mount_point.join(option("snapdir").as_deref().unwrap_or(DIRECTORY));
    warn_of_owner(&share.name, &directory);
    let base = option("basedir").map_or(mount_point, PathBuf::from);
    let share_in_snapshot = match option("snapsharepath") {
        Some(path) => PathBuf::from(path.trim_start_matches('/')),
        None => match path.strip_prefix(&base) {
            Ok(below) => below.to_owned(),
            Err(_) => {
                warn!("share {}: {} is not below {}", share.name, path.display(), base.display());
                return None;
            }
        },
    };
    let format = share.option(OPTIONS, "format").unwrap_or(FORMAT);
    Some(SnapshotSettings {
        directory,
        share: share_in_snapshot,
        format: CString::new(format).ok()?,
        local_time: share.option(OPTIONS, "localtime").is_some_and(is_yes),
        order: match share.option(OPTIONS, "sort") {
            None => SnapshotOrder::default(),
            Some(order) if order.eq_ignore_ascii_case("desc") => SnapshotOrder::Descending,
            Some(order) if order.eq_ignore_ascii_case("asc") => SnapshotOrder::Ascending,
            Some(_) => SnapshotOrder::Listed,
        },
    })
}

/// Says why no snapshot is shown if somebody else owns the directory that holds them.
fn warn_of_owner(share: &str, directory: &Path) {
    let own = rustix::process::getuid().as_raw();
    if let Ok(found) = fs::metadata(directory)
        && ![0, own].contains(&found.uid())
    {
        warn!(
            "share {share}: no snapshots are shown, since {directory:?} belongs to user id {}, \
             not to root",
            found.uid()
        );
    }
}

/// The directory where the file system begins that holds `path`.
fn mount_point(path: &Path) -> PathBuf {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let own = device(path);
    let same = path.ancestors().take_while(|ancestor| device(ancestor) == own);
    same.last().unwrap_or(path).to_owned()
}

fn is_no(text: &str) -> bool {
    ["no", "false", "off", "0"].iter().any(|no| text.eq_ignore_ascii_case(no))
}

fn is_yes(text: &str) -> bool {
    ["yes", "true", "on", "1"].iter().any(|yes| text.eq_ignore_ascii_case(yes))
}
