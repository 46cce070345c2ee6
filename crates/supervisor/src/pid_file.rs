//! The pid file, and the lock beside it that keeps a second server out.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The file's name inside `pid directory`. Everybody may read it.
const FILE_NAME: &str = "choro.pid";

/// The lock's name inside `pid directory`. Only the server's user may open it: a lock on a file
/// that others may read is one that they may hold, and so keep the server from starting.
const LOCK_NAME: &str = "choro.pid.lock";

/// Longest wait for starting workers of a killed server. They close what they had inherited before
/// anything else, and end when they see that the supervisor is gone.
const INHERITED_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two attempts to take the lock.
const INHERITED_INTERVAL: Duration = Duration::from_millis(10);

/// `pid directory`/choro.pid, removed when this is dropped, and the lock that is held until then.
///
/// The lock says that a server runs, not the presence of a file: what a killed server left is taken
/// over.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    _lock: File,
}

impl PidFile {
    /// Takes the lock and writes our pid into the file.
    ///
    /// # Errors
    /// Another server holds the lock; the message names its pid.
    pub(super) fn take(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE_NAME);
        let lock_path = directory.join(LOCK_NAME);
        let lock = open(&lock_path, 0o600)
            .with_context(|| format!("cannot open {}", lock_path.display()))?;
        match take_lock(&lock, &path) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let pid = fs::read_to_string(&path).unwrap_or_default();
                bail!(
                    "a server is running already (pid {}, {}); give a second one directories \
                     of its own",
                    pid.trim(),
                    path.display()
                );
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot lock {}", lock_path.display()));
            }
        }
        write_pid(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Takes the lock. A worker that was starting when its supervisor was killed holds it until it has
/// closed what it had inherited. So if no process has the pid in the file at `path`, this waits. By
/// then the worker has let go of the lock directory, too: of that first.
fn take_lock(lock: &File, path: &Path) -> Result<(), Errno> {
    let deadline = Instant::now() + INHERITED_TIMEOUT;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if !names_a_process(path) && Instant::now() < deadline => {
                thread::sleep(INHERITED_INTERVAL);
            }
            taken => return taken,
        }
    }
}

/// True if the pid in the file is that of a process, or the file has none.
fn names_a_process(path: &Path) -> bool {
    let pid = fs::read_to_string(path).ok().and_then(|it| it.trim().parse().ok());
    let pid = pid.and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Opens a file of ours for writing. A symbolic link is refused, since it may lead to any file.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// Replaces the file, whatever its type, with a new one that has our pid.
fn write_pid(path: &Path) -> io::Result<()> {
    let draft = path.with_extension("pid.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    writeln!(open(&draft, 0o644)?, "{}", std::process::id())?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use std::process::Command;
    use std::time::Instant;

    use super::{FILE_NAME, FlockOperation, INHERITED_INTERVAL, LOCK_NAME, PidFile, flock, open};

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
    fn a_lock_that_a_dead_servers_worker_has_inherited_is_waited_for() {
        let directory = tempfile::tempdir().expect("there is space");
        let lock = open(&directory.path().join(LOCK_NAME), 0o600).expect("there is space");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody holds it");
        let pid = directory.path().join(FILE_NAME);
        fs::write(&pid, std::process::id().to_string()).expect("there is space");
        let worker = Command::new("sleep").arg("0.3").stdin(lock).spawn();
        PidFile::take(directory.path()).expect_err("the process in the file lives");
        let mut server = Command::new("true").spawn().expect("it is installed");
        server.wait().expect("it ends");
        fs::write(&pid, server.id().to_string()).expect("it is ours");
        let began = Instant::now();
        let _second = PidFile::take(directory.path()).expect("the worker ends soon");
        assert!(began.elapsed() >= INHERITED_INTERVAL, "it was held");
        worker.and_then(|mut worker| worker.wait()).expect("it is installed");
    }

    #[test]
    fn the_file_of_a_killed_server_is_taken_over() {
        let directory = tempfile::tempdir().expect("there is space");
        fs::write(directory.path().join("choro.pid"), "123456789\n").expect("it is ours");
        let _held = PidFile::take(directory.path()).expect("nobody holds it");
        let text = fs::read_to_string(directory.path().join("choro.pid")).expect("it exists");
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn who_may_read_the_pid_cannot_keep_the_server_from_starting() {
        let directory = tempfile::tempdir().expect("there is space");
        let pid = directory.path().join(FILE_NAME);
        std::mem::forget(PidFile::take(directory.path()).expect("nobody holds it"));
        // As any user of the machine can, who then waits for the server to die.
        let reader = File::open(&pid).expect("everybody may read it");
        flock(&reader, FlockOperation::NonBlockingLockExclusive).expect("nobody locks this file");
        let lock = directory.path().join(LOCK_NAME);
        let mode = fs::metadata(&lock).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "others must not be able to open the lock");
        // The first server's lock ends with it.
        fs::remove_file(&lock).expect("it is ours");
        let _held = PidFile::take(directory.path()).expect("a reader's lock means nothing");
    }

    #[test]
    fn a_link_in_place_of_the_file_leads_to_nothing_that_is_overwritten() {
        let directory = tempfile::tempdir().expect("there is space");
        let precious = directory.path().join("precious");
        fs::write(&precious, "data").expect("there is space");
        for name in [FILE_NAME, "choro.pid.new"] {
            symlink(&precious, directory.path().join(name)).expect("it is new");
        }
        drop(PidFile::take(directory.path()).expect("links are replaced"));
        symlink(&precious, directory.path().join("other")).expect("it is new");
        fs::rename(directory.path().join("other"), directory.path().join(LOCK_NAME)).expect("ours");
        let refused = PidFile::take(directory.path()).expect_err("the lock is a link");
        assert!(format!("{refused:#}").contains(LOCK_NAME), "{refused:#}");
        assert_eq!(fs::read_to_string(&precious).expect("it is there"), "data");
    }
}
