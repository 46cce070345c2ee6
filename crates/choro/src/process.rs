//! What every process of a server is that the supervisor starts.

use std::ffi::CStr;

use anyhow::{Context, bail};
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

/// How process lists show a worker.
pub(crate) const WORKER: &CStr = c"choro-worker";

/// Becomes one, which process lists show as `name`.
///
/// # Errors
/// The supervisor is gone, or the kernel refuses.
pub(crate) fn begin(name: &CStr, supervisor_pid: u32) -> anyhow::Result<()> {
    bind_life_to(supervisor_pid)?;
    rustix::thread::set_name(name).context("cannot name the process")?;
    // Keys of sessions and hashes of passwords must not end in a core dump, nor be read by
    // another process of the user the worker acts as. Acting as a user undoes the second of these
    // where `fs.suid_dumpable` is set. A limit of 1 holds there as well: too small for a file, and the
    // one value that also keeps pipes from getting a dump.
    let limit = Rlimit { current: Some(1), maximum: Some(1) };
    rustix::process::setrlimit(Resource::Core, limit).context("cannot forbid core dumps")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("cannot forbid core dumps")?;
    // `create mask` and its relatives decide alone.
    rustix::process::umask(Mode::empty());
    Ok(())
}

/// The kernel ends us when the supervisor dies, from now on; before now it may have died
/// already. It forgets when we first act as another user; from then on the end of the control
/// socket tells us.
fn bind_life_to(supervisor_pid: u32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot bind to the supervisor's life")?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(supervisor_pid) {
        bail!("the supervisor is gone");
    }
    Ok(())
}
