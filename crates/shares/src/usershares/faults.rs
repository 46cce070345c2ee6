//! Faults of files that are no shares, each told once.
//!
//! Who may write such a file decides how it is broken, and everybody may ask for it, as often as
//! they like.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{AtFlags, statat};
use tracing::debug;

use super::super::served::{serves_guest, warn_for_user};

/// Faults that are remembered at most: as many as a folder has entries that are no shares.
const FAULTS_MAX: usize = super::BAD_ENTRIES_MAX as usize;

/// State of a file: its number, and the time of its last change in seconds and nanoseconds.
type State = Option<(u64, i64, u64)>;

/// Faults that this process has told, by names of files.
#[derive(Debug, Default)]
struct Faults(HashMap<String, (State, String)>);

static FAULTS: LazyLock<Mutex<Faults>> = LazyLock::new(Mutex::default);

impl Faults {
    /// Returns whether a fault is new since the file was changed last, and remembers it.
    fn is_new(&mut self, name: &str, state: State, fault: &str) -> bool {
        let known = self.0.get(name);
        if known.is_some_and(|(known, told)| *known == state && told == fault) {
            return false;
        }
        if self.0.len() >= FAULTS_MAX {
            self.0.clear();
        }
        self.0.insert(name.to_owned(), (state, fault.to_owned()));
        true
    }
}

/// Says why a file is no share, unless that was said since the file was changed last.
pub(super) fn tell(folder: &OwnedFd, name: &str, fault: &str) {
    let status = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let state = status.map(|it| (it.st_ino, it.st_ctime, it.st_ctime_nsec));
    tell_once(name, state, &format!("usershare {name:?} is not served: {fault}"));
}

/// Says why no file of the folder is a share.
pub(super) fn tell_of_folder(fault: &str) {
    // No file has this name.
    tell_once("", None, fault);
}

fn tell_once(name: &str, state: State, line: &str) {
    let mut faults = FAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    if serves_guest() || faults.is_new(name, state, line) {
        warn_for_user!("{line}");
    } else {
        debug!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::{FAULTS_MAX, Faults};

    #[test]
    fn a_fault_is_told_once_for_each_change_of_its_file() {
        let mut faults = Faults::default();
        let (first, second) = (Some((7, 1, 0)), Some((7, 1, 5)));
        for (state, fault, is_new) in [
            (first, "a", true),
            (first, "a", false),
            (second, "a", true),
            (second, "b", true),
            (second, "b", false),
            (None, "b", true),
        ] {
            assert_eq!(faults.is_new("x", state, fault), is_new, "{state:?} {fault}");
        }
        assert!(faults.is_new("y", None, "b") && !faults.is_new("x", None, "b"));
        for number in 0..2 * FAULTS_MAX {
            faults.is_new(&number.to_string(), None, "b");
        }
        assert!(faults.0.len() <= FAULTS_MAX);
    }
}
