//! The pid file, and the lock beside it that keeps a second server out.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use settings::replace_file;

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
        match take_lock(&lock, &lock_path) {
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
        write_holder(&lock).with_context(|| format!("cannot write {}", lock_path.display()))?;
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
/// closed what it had inherited. So if the process that has taken the lock is gone, this waits. By
/// then the worker has let go of the lock directory, too: of that first.
fn take_lock(lock: &File, path: &Path) -> Result<(), Errno> {
    let deadline = Instant::now() + INHERITED_TIMEOUT;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if is_orphaned(path) && Instant::now() < deadline => {
                thread::sleep(INHERITED_INTERVAL);
            }
            taken => return taken,
        }
    }
}

/// Writes into the lock which process has taken it. Its pid alone would not do: another process may
/// have it by the time that the lock is looked at.
fn write_holder(lock: &File) -> io::Result<()> {
    let pid = std::process::id();
    let start = start_time(pid).unwrap_or_default();
    let text = format!("{pid} {start}\n");
    lock.write_all_at(text.as_bytes(), 0)?;
    lock.set_len(u64::try_from(text.len()).expect("it is short"))
}

/// True if the process that took the lock at `path` has ended. False if the lock does not say which
/// process that was.
fn is_orphaned(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let (pid, start) = text.trim().split_once(' ').unwrap_or_default();
    match (pid.parse(), start.parse::<u64>()) {
        (Ok(pid), Ok(start)) => start_time(pid) != Some(start),
        _ => false,
    }
}

/// Returns the start time of a process in ticks since the boot, as in proc_pid_stat(5). `None` if
/// it has ended, or is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may have spaces and parentheses of its own.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // The 22nd of all fields; the state was the third.
    fields.nth(22 - 4)?.parse().ok()
}

/// Opens a file of ours for writing. A symbolic link is refused, since it may lead to any file.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// Replaces the file, whatever its type, with a new one that has our pid.
fn write_pid(path: &Path) -> io::Result<()> {
    replace_file(path, format!("{}\n", std::process::id()).as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use std::path::Path;
    use std::process::{Child, Command};
    use std::time::Instant;

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::{
        FILE_NAME, FlockOperation, INHERITED_INTERVAL, LOCK_NAME, PidFile, flock, open, start_time,
    };

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

    /// A process that has inherited the lock, which says that `holder` took it, for a moment.
    fn inherited(directory: &Path, holder: &str) -> Child {
        let path = directory.join(LOCK_NAME);
        let lock = open(&path, 0o600).expect("there is space");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody holds it");
        fs::write(&path, holder).expect("it is ours");
        Command::new("sleep").arg("0.3").stdin(lock).spawn().expect("it is installed")
    }

    fn check_that_it_is_waited_for(holder: &str) {
        let directory = tempfile::tempdir().expect("there is space");
        let mut worker = inherited(directory.path(), holder);
        let began = Instant::now();
        let _second = PidFile::take(directory.path()).expect("the worker ends soon");
        assert!(began.elapsed() >= INHERITED_INTERVAL, "it was held");
        worker.wait().expect("it ends");
    }

    #[test]
    fn a_lock_that_a_dead_servers_worker_has_inherited_is_waited_for() {
        let mut server = Command::new("true").spawn().expect("it is installed");
        let start = start_time(server.id()).unwrap_or(1);
        // As a zombie first: nobody has taken its status yet.
        let pid = Pid::from_child(&server);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("ours");
        check_that_it_is_waited_for(&format!("{} {start}\n", server.id()));
        server.wait().expect("it ends");
        check_that_it_is_waited_for(&format!("{} {start}\n", server.id()));
    }

    #[test]
    fn a_process_with_the_pid_of_a_dead_server_is_not_taken_for_it() {
        let start = start_time(std::process::id()).expect("it runs");
        check_that_it_is_waited_for(&format!("{} {}\n", std::process::id(), start - 1));
    }

    #[test]
    fn a_server_that_lives_is_not_waited_for() {
        let start = start_time(std::process::id()).expect("it runs");
        // An earlier version says nothing.
        for holder in [format!("{} {start}\n", std::process::id()), String::new()] {
            let directory = tempfile::tempdir().expect("there is space");
            let mut worker = inherited(directory.path(), &holder);
            PidFile::take(directory.path()).expect_err("the process that took it lives");
            worker.wait().expect("it ends");
        }
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
    fn a_reader_of_the_pid_file_cannot_keep_the_server_from_starting() {
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
