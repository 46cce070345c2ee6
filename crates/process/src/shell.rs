//! A shell that runs a command of the configuration, without anything of the server's.
//!
//! The child takes the ids of its user in all three forms before it executes the shell, so nothing
//! leads back to the server's rights. From then on the user may stop it, so this process does not
//! wait until it has executed the shell, as the standard library would.
//!
//! The child has a session of its own, no descriptor but `/dev/null` and perhaps a pipe for its
//! output, the signals as a program expects them, and an environment with `PATH` and the variables
//! of the command. The limit of core dumps stays the server's, which keeps its keys.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Gid, Pid, PidfdFlags, Resource, Rlimit, Signal, Uid, WaitOptions};
use rustix::thread::{self, CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

/// `PATH` of commands: directories of programs, as for a login of root.
pub const PROGRAM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The shell of all commands.
const SHELL: &CStr = c"/bin/sh";

/// Status of a child that could not execute the shell, as shells have it.
const NOT_EXECUTED: libc::c_int = 127;

/// First descriptor after the standard ones.
const FIRST: libc::c_uint = 3;

/// Highest number of a descriptor, for kernels without `close_range` or its flag.
const DESCRIPTORS_MAX: libc::c_int = 65_536;

/// Processes that a user may have who starts one more by a command. They share the limits of the
/// service with the processes of the server.
const PROCESSES_MAX: u64 = 1_024;

/// Highest number of a signal.
const SIGNAL_MAX: libc::c_int = 64;

/// The ids of the user that a command runs as.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// Id of the user of this system.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of all supplementary groups.
    pub groups: Vec<u32>,
}

/// A shell that runs, or has ended and waits to be asked.
#[derive(Debug)]
pub struct Shell {
    pid: Pid,
    end: OwnedFd,
    /// How it has ended; after that its number may be another process's.
    status: Option<ExitStatus>,
    /// Reading end of its standard output, if that is kept.
    output: Option<OwnedFd>,
}

impl Shell {
    /// Has `/bin/sh` run a script, with `variables` in its environment: as this user, for a thread
    /// with root's rights, or with the rights of this process.
    ///
    /// # Errors
    /// The kernel has no process left, or ids, script or variables cannot be passed to it. If the
    /// shell cannot be executed, it has the status 127.
    pub fn start<'a>(
        script: &str,
        variables: impl IntoIterator<Item = (&'a String, &'a String)>,
        identity: Option<&Identity>,
    ) -> io::Result<Self> {
        Self::start_program(SHELL, script, variables, identity, None)
    }

    /// As [`Self::start`], with a pipe for the output, which [`Self::read_output`] reads. A script
    /// that writes more than the pipe holds waits until it is killed.
    ///
    /// # Errors
    /// As [`Self::start`]; also if there is no pipe left.
    pub fn start_with_output<'a>(
        script: &str,
        variables: impl IntoIterator<Item = (&'a String, &'a String)>,
        identity: Option<&Identity>,
    ) -> io::Result<Self> {
        let (reading, writing) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&reading, OFlags::NONBLOCK)?;
        Self::start_program(SHELL, script, variables, identity, Some((reading, writing)))
    }

    fn start_program<'a>(
        program: &CStr,
        script: &str,
        variables: impl IntoIterator<Item = (&'a String, &'a String)>,
        identity: Option<&Identity>,
        pipe: Option<(OwnedFd, OwnedFd)>,
    ) -> io::Result<Self> {
        let ids = identity.map(Ids::of).transpose()?;
        let image = Image::new(program, script, variables)?;
        let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let (output, written) = pipe.unzip();
        let stdout = written.as_ref().unwrap_or(&null);
        // SAFETY: the child makes system calls only, and allocates nothing: another thread of ours
        // may have held the allocator's lock for good.
        let pid = match unsafe { libc::fork() } {
            0 => {
                let _ = image.execute(&null, stdout, ids.as_ref());
                // SAFETY: ends the child without a look at what its parent has prepared.
                unsafe { libc::_exit(NOT_EXECUTED) }
            }
            pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)?,
        };
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(end) => Ok(Self { pid, end, status: None, output }),
            Err(errno) => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                Err(errno.into())
            }
        }
    }

    /// Descriptor that is readable when the shell has ended.
    #[must_use]
    pub fn end_source(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Returns how the shell has ended; `None` while it runs.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let ended = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG)?;
            self.status = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.status)
    }

    /// Returns the first bytes of the output so far, without waiting for more: at most `bytes_max`.
    /// Empty if none is kept.
    #[must_use]
    pub fn read_output(&self, bytes_max: usize) -> Vec<u8> {
        let mut bytes = vec![0; bytes_max];
        let read = self.output.as_ref().map(|output| rustix::io::read(output, &mut bytes[..]));
        bytes.truncate(read.and_then(Result::ok).unwrap_or(0));
        bytes
    }

    /// Returns the group of the shell's processes, if one of them lives on though the shell has
    /// ended: a process that waits in the kernel outlives its signal.
    #[must_use]
    pub fn remaining_group(&self) -> Option<Pid> {
        has_processes(self.pid).then_some(self.pid)
    }

    /// Ends the shell and all processes of its session that did not leave its group.
    pub fn kill(&mut self) {
        if matches!(self.try_wait(), Ok(None)) {
            // It has no group of its own yet if it was stopped at once.
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }
}

/// True if a group has a process, of any user.
#[must_use]
pub fn has_processes(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group) != Err(Errno::SRCH)
}

/// Program, arguments and environment in the kernel's form, made before the fork.
#[derive(Debug)]
struct Image {
    texts: Vec<CString>,
    /// Pointers to the texts: program, `-c` and script. Both lists end with null.
    arguments: [*const libc::c_char; 4],
    environment: Vec<*const libc::c_char>,
}

impl Image {
    fn new<'a>(
        program: &CStr,
        script: &str,
        variables: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> io::Result<Self> {
        let variables = variables.into_iter().map(|(name, value)| format!("{name}={value}"));
        let texts =
            [script.to_owned(), format!("PATH={PROGRAM_PATH}")].into_iter().chain(variables);
        let texts = texts.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<CString> =
            [program.to_owned(), c"-c".to_owned()].into_iter().chain(texts).collect();
        let null = std::ptr::null();
        let arguments = [texts[0].as_ptr(), texts[1].as_ptr(), texts[2].as_ptr(), null];
        let environment = texts[3..].iter().map(|text| text.as_ptr()).chain([null]).collect();
        Ok(Self { texts, arguments, environment })
    }

    /// Replaces the program of the child.
    fn execute(
        &self,
        stdin: &OwnedFd,
        stdout: &OwnedFd,
        ids: Option<&Ids>,
    ) -> io::Result<Infallible> {
        rustix::stdio::dup2_stdin(stdin)?;
        rustix::stdio::dup2_stdout(stdout)?;
        rustix::stdio::dup2_stderr(stdin)?;
        rustix::process::chdir(c"/")?;
        begin(ids)?;
        let (program, arguments) = (self.texts[0].as_ptr(), self.arguments.as_ptr());
        // SAFETY: all pointers lead to texts of this image, and the lists end with null.
        unsafe { libc::execve(program, arguments, self.environment.as_ptr()) };
        Err(io::Error::last_os_error())
    }
}

/// The ids in the kernel's form, made before the fork.
#[derive(Debug)]
struct Ids {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Ids {
    fn of(identity: &Identity) -> io::Result<Self> {
        let Identity { uid, gid, groups } = identity;
        // Minus one means "leave as it is" to the kernel.
        if *uid == u32::MAX || *gid == u32::MAX || groups.contains(&u32::MAX) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let groups = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        Ok(Self { uid: Uid::from_raw(*uid), gid: Gid::from_raw(*gid), groups })
    }
}

/// Gives up all that is the server's, between fork and exec.
fn begin(ids: Option<&Ids>) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    close_descriptors();
    reset_signals()?;
    if let Some(ids) = ids {
        if !ids.uid.is_root() {
            end_first_where_memory_is_short();
        }
        take_ids(ids)?;
        if !ids.uid.is_root() {
            // Not before: the kernel would refuse the shell to a user who has more already.
            limit_processes();
        }
    }
    Ok(())
}

/// Has the kernel end processes of the user before those of the server where memory is short.
fn end_first_where_memory_is_short() {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let score = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty());
    // Without `/proc` the command runs all the same.
    let _ = score.and_then(|file| rustix::io::write(&file, b"1000"));
}

/// Lets the user have [`PROCESSES_MAX`] at most: the user may take the command over and have it
/// start others, which outlive it.
fn limit_processes() {
    let before = rustix::process::getrlimit(Resource::Nproc);
    let most = |limit: Option<u64>| Some(limit.map_or(PROCESSES_MAX, |it| it.min(PROCESSES_MAX)));
    let limits = Rlimit { current: most(before.current), maximum: most(before.maximum) };
    let _ = rustix::process::setrlimit(Resource::Nproc, limits);
}

fn take_ids(ids: &Ids) -> io::Result<()> {
    thread::set_keep_capabilities(false)?;
    if !thread::capabilities_secure_bits()?.is_empty() {
        thread::set_capabilities_secure_bits(CapabilitiesSecureBits::empty())?;
    }
    thread::set_thread_groups(&ids.groups)?;
    thread::set_thread_res_gid(ids.gid, ids.gid, ids.gid)?;
    thread::set_thread_res_uid(ids.uid, ids.uid, ids.uid)?;
    if !ids.uid.is_root() {
        let none = CapabilitySet::empty();
        thread::set_capabilities(
            None,
            CapabilitySets { effective: none, permitted: none, inheritable: none },
        )?;
    }
    Ok(())
}

/// Closes all but the standard ones. A child that is stopped later must not keep a connection open
/// that this process has closed.
fn close_descriptors() {
    let (first, last, flags) = (FIRST, libc::c_uint::MAX, 0);
    // SAFETY: numbers only; the child uses no other descriptor from here on.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } == 0 {
        return;
    }
    for number in FIRST.cast_signed()..DESCRIPTORS_MAX {
        // SAFETY: as above; fails for a number that is not open.
        unsafe { libc::close(number) };
    }
}

/// Programs inherit ignored and blocked signals.
fn reset_signals() -> io::Result<()> {
    // The kernel's form of the default handler without flags. The C library's call leaves out the
    // two signals of its own, which the server may have been started with as ignored.
    let default = [0u64; 4];
    let (address, mask_bytes) = (default.as_ptr(), size_of::<u64>());
    for signal in 1..=SIGNAL_MAX {
        let before = std::ptr::null_mut::<u64>();
        // SAFETY: the kernel reads the structure, and nothing else; the default handler runs no
        // code of this program. Fails for the two signals that always have it.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, address, before, mask_bytes) };
    }
    let mut none = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is a local buffer.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the call above has filled the set in.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::CString;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::ExitStatusExt;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::{ExitStatus, Identity, Shell};

    /// Number of a command of `fcntl` (asm-generic/fcntl.h).
    const F_SETSIG: libc::c_int = 10;

    fn end_of(shell: &mut Shell) -> ExitStatus {
        let mut polled = [PollFd::new(&shell.end, PollFlags::IN)];
        poll(&mut polled, None).expect("it can be waited for");
        shell.try_wait().expect("a child").expect("it has ended")
    }

    fn start(script: &str) -> Shell {
        Shell::start(script, &BTreeMap::new(), None).expect("there is a shell")
    }

    #[test]
    fn the_status_of_the_script_is_reported_once_it_has_ended() {
        for (script, status) in [("true", 0), ("exit 7", 7), ("no-such-program", 127)] {
            assert_eq!(end_of(&mut start(script)).code(), Some(status), "{script}");
        }
    }

    #[test]
    fn a_shell_that_does_not_end_is_ended() {
        // The inner one stops until somebody continues it; the outer one waits for it.
        let mut shell = start("sh -c 'kill -STOP $$'; true");
        assert!(shell.try_wait().expect("a child").is_none());
        shell.kill();
        assert_eq!(end_of(&mut shell).signal(), Some(libc::SIGKILL));
        shell.kill();
    }

    #[test]
    fn the_output_of_a_script_is_kept_up_to_a_number_of_bytes() {
        let output = |script, bytes_max| {
            let shell = Shell::start_with_output(script, &BTreeMap::new(), None);
            let mut shell = shell.expect("there is a shell");
            end_of(&mut shell);
            shell.read_output(bytes_max)
        };
        assert_eq!(output("echo 100 50; echo error >&2", 64), b"100 50\n");
        assert_eq!(output("echo 100 50", 3), b"100");
        assert_eq!(output("true", 64), b"");
        let mut silent = start("echo 100 50");
        end_of(&mut silent);
        assert_eq!(silent.read_output(64), b"");
    }

    /// The attack: a user takes the command over, and has it start others.
    #[test]
    fn processes_of_a_user_are_few_and_end_before_those_of_the_server() {
        if !rustix::process::getuid().is_root() {
            return;
        }
        let output = |uid| {
            let identity = Identity { uid, gid: uid, groups: Vec::new() };
            let script = "cat /proc/self/oom_score_adj /proc/self/limits";
            let shell = Shell::start_with_output(script, &BTreeMap::new(), Some(&identity));
            let mut shell = shell.expect("there is a shell");
            assert_eq!(end_of(&mut shell).code(), Some(0));
            String::from_utf8(shell.read_output(4_096)).expect("numbers")
        };
        let of_user = output(65_534);
        assert_eq!(of_user.lines().next(), Some("1000"));
        let processes = of_user.lines().find(|line| line.starts_with("Max processes"));
        let fields: Vec<_> = processes.expect("it is listed").split_whitespace().collect();
        assert_eq!(fields[2..4], ["1024", "1024"]);
        assert_ne!(output(0).lines().next(), Some("1000"), "root's are the administrator's");
    }

    #[test]
    fn ids_that_mean_no_change_start_nothing() {
        for identity in [
            Identity { uid: u32::MAX, ..Identity::default() },
            Identity { gid: u32::MAX, ..Identity::default() },
            Identity { groups: vec![u32::MAX], ..Identity::default() },
        ] {
            let refused = Shell::start("true", &BTreeMap::new(), Some(&identity));
            let refused = refused.expect_err("it must not keep the server's ids");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }

    /// The attack: a user stops the child before it has executed the shell. Here a lease on the
    /// program makes it wait there.
    #[test]
    fn a_child_that_does_not_get_to_execute_the_shell_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("sh");
        std::fs::copy("/bin/sh", &path).expect("there is space");
        let program = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        let file = File::open(&path).expect("it is ours");
        let lease = |kind: libc::c_int| {
            // SAFETY: numbers only.
            let of_signal = unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGCHLD) };
            assert_eq!(of_signal, 0, "a signal that is ignored");
            // SAFETY: numbers only.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }
        };
        assert_eq!(lease(libc::F_WRLCK), 0, "{}", io::Error::last_os_error());
        let start = || Shell::start_program(&program, "exit 7", &BTreeMap::new(), None, None);
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).expect("descriptors are left");
        let mut stopped = start().expect("it is started");
        drop(writing);
        let (mut polled, patience) =
            ([PollFd::new(&reading, PollFlags::IN)], Timespec { tv_sec: 60, tv_nsec: 0 });
        let closed = poll(&mut polled, Some(&patience)).expect("it can be waited for");
        assert_eq!(closed, 1, "it keeps no descriptor that this process has closed");
        assert!(stopped.try_wait().expect("a child").is_none());
        stopped.kill();
        assert_eq!(end_of(&mut stopped).signal(), Some(libc::SIGKILL));
        let mut late = start().expect("it is started");
        assert_eq!(lease(libc::F_UNLCK), 0, "{}", io::Error::last_os_error());
        drop(file);
        assert_eq!(end_of(&mut late).code(), Some(7));
    }

    #[test]
    fn a_script_with_nul_starts_nothing() {
        let refused = Shell::start("true\0", &BTreeMap::new(), None);
        assert_eq!(refused.expect_err("it has a NUL").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_missing_shell_has_the_status_127() {
        let missing = Shell::start_program(c"/no/such/shell", "true", &BTreeMap::new(), None, None);
        assert_eq!(end_of(&mut missing.expect("a child")).code(), Some(127));
    }
}
