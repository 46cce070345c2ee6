//! Changes of objects that are being made: no client hears of them before they have their name.
//!
//! A directory with a descriptor has a temporary name until the descriptor is stored. A file has
//! none, and the kernel reports it under a number that is no entry of the directory.

use object::{HostChangeKind, has_temporary};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

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
        && is_absent(&absolute(path))
}

/// Whether a path leads nowhere. A local user may put a link into it after the change, to a file
/// system that does not answer: links are not followed.
fn is_absent(path: &str) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    found.is_err_and(|errno| errno == Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::is_absent;

    #[test]
    fn a_path_through_a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir(path("folder")).expect("there is space");
        symlink("folder", path("link")).expect("there is space");
        assert!(is_absent(&path("folder/#1")));
        assert!(!is_absent(&path("link/#1")), "nobody looks behind it");
        fs::write(path("folder/#1"), "").expect("there is space");
        assert!(!is_absent(&path("folder/#1")));
    }
}
