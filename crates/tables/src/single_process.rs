//! Identities of the running `logond` and `auditd`, in files that workers read when they need one.
//!
//! They are no page in shared memory: a worker needs them a few times in its life.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use dtyp::ServerId;

/// A process of which a server has at most one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SingleProcess {
    /// The process that writes the records of audits.
    Auditd,
    /// The process that checks logons.
    Logond,
}

impl SingleProcess {
    /// Name of the file in the lock directory.
    fn file(self) -> &'static str {
        match self {
            Self::Auditd => "auditd",
            Self::Logond => "logond",
        }
    }
}

/// Announces a new process to all workers.
///
/// # Errors
/// Those of the file system.
pub fn announce(lock_dir: &Path, process: SingleProcess, id: ServerId) -> io::Result<()> {
    let new = lock_dir.join(format!("{}.new", process.file()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&id.to_bytes())?;
    fs::rename(new, lock_dir.join(process.file()))
}

/// Returns the process that was announced last; `None` if there was none.
#[must_use]
pub fn announced(lock_dir: &Path, process: SingleProcess) -> Option<ServerId> {
    // By one call: a logon waits for it.
    let mut bytes = [0; ServerId::ENCODED_LEN + 1];
    let count = File::open(lock_dir.join(process.file())).ok()?.read(&mut bytes).ok()?;
    Some(ServerId::from_bytes(bytes[..count].try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{SingleProcess, announce, announced};

    #[test]
    fn the_last_one_is_known_and_a_damaged_file_names_nobody() {
        let folder = tempfile::tempdir().expect("there is space");
        let logond = SingleProcess::Logond;
        assert_eq!(announced(folder.path(), logond), None);
        for pid in [5, 6] {
            let id = ServerId { pid, unique_id: 7 };
            announce(folder.path(), logond, id).expect("there is space");
            assert_eq!(announced(folder.path(), logond), Some(id));
        }
        assert_eq!(announced(folder.path(), SingleProcess::Auditd), None);
        std::fs::write(folder.path().join("logond"), b"short").expect("there is space");
        assert_eq!(announced(folder.path(), logond), None);
    }
}
