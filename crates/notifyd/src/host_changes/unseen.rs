//! Changes of objects that are being made: no client hears of them before they have their name.
//!
//! A directory with a descriptor has a temporary name until the descriptor is stored. A file has
//! none, and the kernel reports it under a number that is no entry of the directory.

use std::fs;
use std::io;

use object::{HostChangeKind, has_temporary};

use super::{HostEvent, absolute};

/// Takes temporary names out of a report; `None` if nothing is left of it.
pub(super) fn without_unseen(mut event: HostEvent) -> Option<HostEvent> {
    let change = &mut event.change;
    let is_unseen = has_temporary(change.path.as_str());
    match &change.kind {
        HostChangeKind::Renamed { to } => match (is_unseen, has_temporary(to.as_str())) {
            (false, false) => {}
            (true, false) => {
                change.path = to.clone();
                change.kind = HostChangeKind::Added;
            }
            (false, true) => change.kind = HostChangeKind::Removed,
            (true, true) => return None,
        },
        HostChangeKind::Missed => {}
        _ if is_unseen => return None,
        HostChangeKind::Modified(_) if is_nameless(change.path.as_str()) => return None,
        _ => {}
    }
    Some(event)
}

/// Whether a path ends like that of a file without a name, `#1234`, and there is no such file.
fn is_nameless(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let number = name.strip_prefix('#').unwrap_or_default();
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && fs::symlink_metadata(absolute(path))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
