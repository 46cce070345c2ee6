//! The identity of the running `logond`, in a file that workers read at a logon.
//!
//! It is no page in shared memory: most servers have no `logond`, and a worker needs it a few times
//! in its life.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use dtyp::ServerId;

/// Announces a new `logond` to all workers.
///
/// # Errors
/// Those of the file system.
pub fn announce_logond(lock_dir: &Path, logond: ServerId) -> io::Result<()> {
    let new = lock_dir.join(NEW_NAME);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&logond.to_bytes())?;
    fs::rename(new, lock_dir.join(NAME))
}

/// Returns the `logond` that was announced last; `None` if there was none.
#[must_use]
pub fn announced_logond(lock_dir: &Path) -> Option<ServerId> {
    let bytes = fs::read(lock_dir.join(NAME)).ok()?;
    Some(ServerId::from_bytes(bytes.as_slice().try_into().ok()?))
}

/// Name of the file in the lock directory.
const NAME: &str = "logond";
/// Name under which it is written.
const NEW_NAME: &str = "logond.new";

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{NAME, announce_logond, announced_logond};

    #[test]
    fn the_last_one_is_known_and_a_damaged_file_names_nobody() {
        let folder = tempfile::tempdir().expect("there is space");
        assert_eq!(announced_logond(folder.path()), None);
        for pid in [5, 6] {
            let logond = ServerId { pid, unique_id: 7 };
            announce_logond(folder.path(), logond).expect("there is space");
            assert_eq!(announced_logond(folder.path()), Some(logond));
        }
        std::fs::write(folder.path().join(NAME), b"short").expect("there is space");
        assert_eq!(announced_logond(folder.path()), None);
    }
}
