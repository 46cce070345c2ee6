//! Properties of every process that the supervisor starts.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use anyhow::{Context, bail};
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

/// Name of a worker in process lists.
pub const WORKER: &CStr = c"choro-worker";

/// Increase of `oom_score_adj` over the supervisor's, in thousandths of all memory: more than the
/// supervisor ever uses, without which there is no server, and little beside other programs.
const OOM_SCORE_MORE: i32 = 100;

/// The most that the kernel takes.
const OOM_SCORE_MAX: i32 = 1_000;

/// Becomes one, which process lists show as `name`.
///
/// # Errors
/// The supervisor is gone, or the kernel refuses.
pub fn begin(name: &CStr, supervisor_pid: u32) -> anyhow::Result<()> {
    bind_life_to(supervisor_pid)?;
    rustix::thread::set_name(name).context("cannot name the process")?;
    // Without /proc, or in a sandbox that forbids this, the kernel ends the largest process as
    // usual.
    let _ = prefer_for_want_of_memory();
    // Session keys and password hashes must not get into a core dump, nor be read by another
    // process of the user that the worker impersonates. Impersonation undoes the second where
    // `fs.suid_dumpable` is set. A limit of 1 works there as well: too small for a file, and the
    // one value that also keeps pipes from getting a dump.
    let limit = Rlimit { current: Some(1), maximum: Some(1) };
    rustix::process::setrlimit(Resource::Core, limit).context("cannot forbid core dumps")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("cannot forbid core dumps")?;
    // `create mask` and its relatives decide alone.
    rustix::process::umask(Mode::empty());
    Ok(())
}

/// Gives this process normal priority for good, if it has lowered itself. Without the right to do
/// so it goes on as it is.
pub fn leave_idle_priority() {
    if let Err(error) = confinement::priority::leave_idle_priority() {
        tracing::debug!("cannot return to normal priority: {error}");
    }
}

/// The kernel ends us when the supervisor dies, from now on; before now it may have died
/// already. It forgets when we first act as another user; from then on the end of the control
/// socket tells us.
fn bind_life_to(supervisor_pid: u32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot tie this process to the supervisor")?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(supervisor_pid) {
        bail!("the supervisor is gone");
    }
    Ok(())
}

/// Makes the kernel end this process before the supervisor, whose score we inherited. Raising the
/// score needs no privilege.
fn prefer_for_want_of_memory() -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj")?;
    // The kernel gives all of it at once: a sign and four digits at most, and the line's end.
    let mut text = [0; 8];
    let length = file.read(&mut text)?;
    let text = str::from_utf8(&text[..length]).map_err(io::Error::other)?;
    let inherited: i32 = text.trim().parse().map_err(io::Error::other)?;
    let wanted = inherited.saturating_add(OOM_SCORE_MORE).min(OOM_SCORE_MAX);
    file.write_all_at(wanted.to_string().as_bytes(), 0)
}
