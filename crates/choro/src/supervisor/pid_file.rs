//! The pid file: who runs, and that only one does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The file's name inside `pid directory`.
const FILE_NAME: &str = "choro.pid";

/// `pid directory`/choro.pid, locked for as long as this lives and removed when it is dropped.
///
/// The lock, not the file's presence, says that a server runs: a file left by a server that was
/// killed is taken over.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    _locked: File,
}

impl PidFile {
    /// Takes the file and writes our pid into it.
    ///
    /// # Errors
    /// Another server holds it; the message names its pid.
    pub(super) fn take(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE_NAME);
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o644)
                .open(&path)
                .with_context(|| format!("cannot open {}", path.display()))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut pid = String::new();
                    file.take(32).read_to_string(&mut pid).unwrap_or_default();
                    bail!(
                        "a server is running already (pid {}, {}); give a second one directories \
                         of its own",
                        pid.trim(),
                        path.display()
                    );
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
            // Its last owner may have removed the file between our open and our lock.
            if is_same_file(&file, &path) {
                write_pid(&mut file).with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(Self { path, _locked: file });
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::PidFile;

    #[test]
    fn a_second_server_is_refused_until_the_first_has_gone() {
        let directory = tempfile::tempdir().expect("there is space");
        let first = PidFile::take(directory.path()).expect("nobody holds it");
        let error = PidFile::take(directory.path()).expect_err("it is held").to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(!directory.path().join("choro.pid").exists());
        PidFile::take(directory.path()).expect("it is free again");
    }

    #[test]
    fn the_file_of_a_killed_server_is_taken_over() {
        let directory = tempfile::tempdir().expect("there is space");
        std::fs::write(directory.path().join("choro.pid"), "123456789\n").expect("it is ours");
        let _held = PidFile::take(directory.path()).expect("nobody holds it");
        let text = std::fs::read_to_string(directory.path().join("choro.pid")).expect("it exists");
        assert_eq!(text, format!("{}\n", std::process::id()));
    }
}
