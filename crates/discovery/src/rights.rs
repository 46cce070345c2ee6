//! Giving up all rights, and memory beyond a limit, before the first packet is read.

use anyhow::Context;
use confinement::ProcessKind;
use nix::unistd::{Gid, Uid, User, setgid, setgroups, setuid};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// The user of this process alone, if the system has it: the package creates it.
const USER: &str = "choro-discovery";

/// The user without rights of every Linux. Processes of other programs may have it, too.
const NOBODY: Ids = Ids { uid: 65_534, gid: 65_534 };

/// Memory of the process. The library for multicast DNS keeps what any neighbor sends, also what
/// nobody has asked for; beyond this the process ends, and its successor has forgotten all of it.
const MEMORY_BYTES_MAX: u64 = 32 << 20;

/// Ids of a user without rights.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ids {
    uid: u32,
    gid: u32,
}

/// Becomes a user without rights, if this process is root's, and forbids itself to become anybody
/// else, or to take more memory than the limit. `choro:confinement` does not change that.
///
/// # Errors
/// The kernel refuses: the process must not go on.
pub(crate) fn give_up() -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        let Ids { uid, gid } = unprivileged(User::from_name(USER));
        debug!("goes on as the user with id {uid}");
        setgroups(&[]).context("cannot leave root's groups")?;
        setgid(Gid::from_raw(gid)).context("cannot leave root's group")?;
        // Before the last one: what bounds the capabilities of programs takes one itself.
        if let Err(error) = confinement::bound_capabilities(ProcessKind::Discoveryd) {
            debug!("programs could give capabilities: {error}");
        }
        setuid(Uid::from_raw(uid)).context("cannot give up root's rights")?;
    }
    confinement::give_up_capabilities(ProcessKind::Discoveryd)
        .context("cannot give up capabilities")?;
    rustix::thread::set_no_new_privs(true).context("cannot give up future rights")?;
    // Another process of the user's could attach to this one otherwise.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("cannot forbid core dumps")?;
    // The operator may have set a lower limit, which this process could not raise.
    let maximum = getrlimit(Resource::Data).maximum.unwrap_or(u64::MAX).min(MEMORY_BYTES_MAX);
    let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    setrlimit(Resource::Data, limit).context("cannot limit the memory of the process")
}

/// Returns the ids of the process's own user, or those of nobody without a fit one.
fn unprivileged(found: nix::Result<Option<User>>) -> Ids {
    match found {
        Ok(Some(user)) if user.uid.is_root() || user.gid.as_raw() == 0 => {
            warn!("the user {USER} has ids of root; `nobody` is used instead");
            NOBODY
        }
        Ok(Some(user)) => Ids { uid: user.uid.as_raw(), gid: user.gid.as_raw() },
        Ok(None) => NOBODY,
        Err(error) => {
            warn!("cannot look up the user {USER}: {error}; `nobody` is used instead");
            NOBODY
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;
    use nix::unistd::{Gid, Uid, User};

    use super::{Ids, NOBODY, unprivileged};

    fn user(uid: u32, gid: u32) -> Option<User> {
        let root =
            User::from_uid(Uid::from_raw(0)).expect("there are users").expect("there is root");
        Some(User { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), ..root })
    }

    #[test]
    fn the_own_user_is_taken_unless_it_is_root_or_unknown() {
        assert_eq!(unprivileged(Ok(user(990, 989))), Ids { uid: 990, gid: 989 });
        for unfit in [Ok(user(0, 989)), Ok(user(990, 0)), Ok(None), Err(Errno::EIO)] {
            assert_eq!(unprivileged(unfit), NOBODY);
        }
    }
}
