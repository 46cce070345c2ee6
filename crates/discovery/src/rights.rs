//! Giving up all rights, before the first packet is read.

use anyhow::Context;
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use rustix::process::DumpableBehavior;

/// The user without rights of every Linux.
const NOBODY: u32 = 65_534;

/// Becomes nobody, if this process is root's, and forbids itself to become anybody else.
///
/// # Errors
/// The kernel refuses: the process must not go on.
pub(crate) fn give_up() -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        setgroups(&[]).context("cannot leave root's groups")?;
        setgid(Gid::from_raw(NOBODY)).context("cannot leave root's group")?;
        setuid(Uid::from_raw(NOBODY)).context("cannot give up root's rights")?;
    }
    rustix::thread::set_no_new_privs(true).context("cannot give up future rights")?;
    // Another process of nobody's could attach to this one otherwise.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("cannot forbid core dumps")?;
    Ok(())
}
