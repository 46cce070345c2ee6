//! The capabilities of each kind of process.

use std::io;

use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::process_kind::ProcessKind;

/// A capability that a kind of process keeps.
#[derive(Debug)]
struct Kept {
    kinds: &'static [ProcessKind],
    capability: CapabilitySet,
    /// Use of it, for the reader of the list.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and a test"))]
    reason: &'static str,
}

const WORKER: &[ProcessKind] = &[ProcessKind::Worker];

const fn kept(
    kinds: &'static [ProcessKind],
    capability: CapabilitySet,
    reason: &'static str,
) -> Kept {
    Kept { kinds, capability, reason }
}

/// All that is kept. Discoveryd and the process for metrics have users without capabilities.
const KEPT: &[Kept] = &[
    kept(WORKER, CapabilitySet::SETUID, "acts for users"),
    kept(WORKER, CapabilitySet::SETGID, "acts with their groups"),
    kept(WORKER, CapabilitySet::CHOWN, "gives files to owners, where NT's rights allow it"),
    kept(WORKER, CapabilitySet::FOWNER, "changes modes and ACLs, where NT's rights allow it"),
    kept(WORKER, CapabilitySet::DAC_OVERRIDE, "tables; deletions by NT's rights; admin users"),
    kept(WORKER, CapabilitySet::DAC_READ_SEARCH, "paths to watched and deleted files"),
    kept(WORKER, CapabilitySet::LEASE, "oplocks that local programs break, on files of users"),
    kept(WORKER, CapabilitySet::SYS_ADMIN, "writes NT's descriptors (security.NTACL)"),
    kept(WORKER, CapabilitySet::SYS_NICE, "leaves idle priority, without a limit for it"),
    kept(WORKER, CapabilitySet::IPC_LOCK, "memory of rings, before Linux 5.12"),
    kept(&[ProcessKind::Notifyd], CapabilitySet::SYS_ADMIN, "fanotify"),
    kept(
        &[ProcessKind::Notifyd],
        CapabilitySet::DAC_READ_SEARCH,
        "opens changed directories of users by their handles",
    ),
    kept(&[ProcessKind::Auditd], CapabilitySet::DAC_OVERRIDE, "records in folders of others"),
    kept(
        &[ProcessKind::Logond],
        CapabilitySet::DAC_OVERRIDE,
        "secrets and pipes of winbindd, keytabs of others",
    ),
];

/// Highest number of a capability that a kernel may have.
const NUMBERS: u32 = 64;

/// Names of the capabilities, in the order of their numbers: linux/capability.h.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Returns the capabilities that a kind keeps, if the server has them, as a set of bits.
#[must_use]
pub fn kept_capabilities(kind: ProcessKind) -> u64 {
    set_of(kind).bits()
}

fn set_of(kind: ProcessKind) -> CapabilitySet {
    let of_kind = KEPT.iter().filter(|it| it.kinds.contains(&kind));
    of_kind.fold(CapabilitySet::empty(), |set, it| set | it.capability)
}

/// Returns the names of a set of bits, without `CAP_`.
#[must_use]
pub fn names_of_capabilities(bits: u64) -> Vec<String> {
    let is_set = |number: &u32| bits >> number & 1 == 1;
    let name = |number: u32| {
        let known = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
        known.map_or_else(|| number.to_string(), |it| (*it).to_owned())
    };
    (0..NUMBERS).filter(is_set).map(name).collect()
}

/// Gives up the capabilities that a program could give this thread, but those that its kind keeps.
/// That takes a capability itself; without it they stay.
///
/// # Errors
/// The kernel tells no capabilities.
pub fn bound_capabilities(kind: ProcessKind) -> io::Result<()> {
    let kept = set_of(kind);
    let may_bound = thread::capabilities(None)?.effective.contains(CapabilitySet::SETPCAP);
    for number in (0..NUMBERS).filter(|_| may_bound) {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // Fails from the first number on that the kernel does not have.
        if !kept.contains(capability)
            && thread::remove_capability_from_bounding_set(capability).is_err()
        {
            break;
        }
    }
    Ok(())
}

/// Gives up all capabilities of this thread that its kind does not keep, for good: no program can
/// give it any. Threads that it starts later have as few. To be called before there is another
/// one.
///
/// # Errors
/// The kernel refuses to take them.
pub fn give_up_capabilities(kind: ProcessKind) -> io::Result<()> {
    let kept = set_of(kind);
    // Instead of the bounding set, which takes a call for each capability: no program gives more
    // than the process has.
    thread::set_no_new_privs(true)?;
    // Kernels before 4.3 have none.
    let _ = thread::clear_ambient_capability_set();
    let CapabilitySets { effective, permitted, .. } = thread::capabilities(None)?;
    let fewer = CapabilitySets {
        effective: effective & kept,
        permitted: permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(thread::set_capabilities(None, fewer)?)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::{CapabilitySet, capabilities};

    use super::{
        KEPT, NAMES, give_up_capabilities, kept_capabilities, names_of_capabilities, set_of,
    };
    use crate::process_kind::ProcessKind;

    #[test]
    fn each_has_a_reason_and_the_processes_that_strangers_reach_have_none() {
        assert!(KEPT.iter().all(|it| !it.reason.is_empty() && !it.kinds.is_empty()));
        for kind in [ProcessKind::Discoveryd, ProcessKind::MetricsWeb] {
            assert_eq!(kept_capabilities(kind), 0, "{}", kind.name());
        }
        let dangerous = CapabilitySet::SYS_MODULE
            | CapabilitySet::SYS_RAWIO
            | CapabilitySet::SYS_PTRACE
            | CapabilitySet::NET_ADMIN
            | CapabilitySet::NET_RAW
            | CapabilitySet::MKNOD
            | CapabilitySet::FSETID
            | CapabilitySet::KILL
            | CapabilitySet::SETFCAP;
        for kind in ProcessKind::ALL {
            assert!(!set_of(kind).intersects(dangerous), "{}", kind.name());
        }
    }

    #[test]
    fn bits_have_the_names_of_the_kernel() {
        assert_eq!(names_of_capabilities(1 | 1 << 21 | 1 << 63), ["CHOWN", "SYS_ADMIN", "63"]);
        assert_eq!(NAMES.iter().position(|it| *it == "SETUID"), Some(7));
        assert_eq!(CapabilitySet::SETUID.bits(), 1 << 7);
    }

    #[test]
    fn a_thread_keeps_capabilities_of_its_list_alone() {
        let (before, after) = thread::spawn(|| {
            let before = capabilities(None).expect("it is Linux");
            give_up_capabilities(ProcessKind::Notifyd).expect("fewer can be had");
            (before, capabilities(None).expect("it is Linux"))
        })
        .join()
        .expect("it ends");
        let kept = set_of(ProcessKind::Notifyd);
        assert_eq!(after.permitted, before.permitted & kept);
        assert_eq!(after.effective, before.effective & kept);
        assert!(after.inheritable.is_empty());
    }
}
