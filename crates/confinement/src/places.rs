//! The places that each kind of process may reach: the one list that all rulesets are made of.
//!
//! Where the directories of the configuration are, those know who make a ruleset. A kind without
//! any entry reaches everything.

use crate::access::{CHANGE, CONTENT, OWN, READ, READ_DIR};
use crate::process_kind::ProcessKind::{self, Auditd, Discoveryd, MetricsWeb, Notifyd, Worker};

/// A directory or a file, by its use.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Place {
    /// Shares that a command or an administrator adds, with the descriptors of all shares.
    AddedShares,
    /// Directory with the records of audits.
    AuditRecords,
    /// Streams of a share in a directory of their own.
    Depot,
    /// Identity of the server, for clients.
    Identity,
    /// Tables, and what processes of the server publish for others.
    LockDirectory,
    /// Sockets for messages, in the lock directory.
    Messages,
    /// Files and directories of a share.
    Share,
    /// Snapshots of a share in a directory beside it.
    Snapshots,
    /// Files and directories of the system, at a fixed path.
    System(&'static str),
    /// Pages with the figures of processes, in the lock directory.
    Traces,
    /// Names that clients use for users.
    UsernameMap,
    /// Files of the shares that users have made.
    Usershares,
}

/// A place that kinds of processes may reach.
#[derive(Debug)]
struct Reached {
    kinds: &'static [ProcessKind],
    place: Place,
    access: u64,
    /// Use of it, for the reader of the list.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and a test"))]
    reason: &'static str,
}

const fn reached(
    kinds: &'static [ProcessKind],
    place: Place,
    access: u64,
    reason: &'static str,
) -> Reached {
    Reached { kinds, place, access, reason }
}

/// Those that take part in the server's messages, and read the configuration again. Logond does,
/// too, but modules of the name service read what they like.
const HELPERS: &[ProcessKind] = &[Auditd, Notifyd];

/// Those that write lines with times.
const LOGGING: &[ProcessKind] = &[Auditd, Discoveryd, MetricsWeb, Notifyd, Worker];

const WORKER: &[ProcessKind] = &[Worker];

const REACHED: &[Reached] = &[
    reached(WORKER, Place::Share, CONTENT, "files of clients"),
    reached(WORKER, Place::Depot, CONTENT, "streams of files of clients"),
    reached(WORKER, Place::Snapshots, READ, "earlier versions of files of clients"),
    reached(HELPERS, Place::LockDirectory, OWN, "their places, the configuration in effect"),
    reached(WORKER, Place::LockDirectory, READ, "the same, and users; tables are open before"),
    reached(WORKER, Place::Messages, OWN, "its socket, and those of dead processes"),
    reached(WORKER, Place::Traces, OWN, "its page"),
    reached(WORKER, Place::AddedShares, OWN, "administration of shares; rights of users in them"),
    reached(WORKER, Place::Identity, READ, "the SID of the server"),
    reached(WORKER, Place::UsernameMap, READ, "names of users at logons"),
    reached(WORKER, Place::Usershares, READ, "shares that users have made meanwhile"),
    reached(&[Notifyd], Place::System("/"), READ_DIR, "names in directories that are watched"),
    reached(&[Auditd], Place::AuditRecords, OWN, "the file of the records"),
    reached(LOGGING, Place::System("/proc"), READ, "own threads and descriptors, mounts"),
    reached(LOGGING, Place::System("/etc/localtime"), READ, "times in the log and of snapshots"),
    reached(LOGGING, Place::System("/usr/share/zoneinfo"), READ, "the same, for other time zones"),
    reached(WORKER, Place::System("/sys"), READ, "speeds and queues of network interfaces"),
    reached(WORKER, Place::System("/etc/hosts"), READ, "names of this server, in Kerberos tickets"),
    reached(WORKER, Place::System("/etc/resolv.conf"), READ, "its domains, for the same"),
    reached(WORKER, Place::System("/run/systemd/resolve"), READ, "what that file may lead to"),
    reached(WORKER, Place::System("/dev/null"), CHANGE, "standard streams"),
];

/// Returns true if the paths of a kind are restricted.
#[must_use]
pub fn has_places(kind: ProcessKind) -> bool {
    REACHED.iter().any(|it| it.kinds.contains(&kind))
}

/// Returns the rights of a kind in a place; none if it may not reach it.
pub(crate) fn access(kind: ProcessKind, place: Place) -> u64 {
    let of_kind = REACHED.iter().filter(|it| it.place == place && it.kinds.contains(&kind));
    of_kind.fold(0, |access, it| access | it.access)
}

/// Paths of the system that a kind may reach.
pub(crate) fn system_paths(kind: ProcessKind) -> impl Iterator<Item = (Place, &'static str)> {
    let of_kind = REACHED.iter().filter(move |it| it.kinds.contains(&kind));
    of_kind.filter_map(|it| match it.place {
        Place::System(path) => Some((it.place, path)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Place, REACHED, access, has_places, system_paths};
    use crate::access::{EXECUTE, IOCTL_DEV, MAKE_BLOCK, MAKE_CHAR, READ, READ_FILE, WRITE_FILE};
    use crate::process_kind::ProcessKind;

    #[test]
    fn each_place_has_a_reason_and_a_process_for_it() {
        assert!(REACHED.iter().all(|it| !it.reason.is_empty() && !it.kinds.is_empty()));
        let restricted = ProcessKind::ALL.into_iter().filter(|kind| has_places(*kind));
        let all_but_logond = ProcessKind::ALL.into_iter().filter(|it| *it != ProcessKind::Logond);
        assert!(restricted.eq(all_but_logond));
    }

    #[test]
    fn nobody_runs_programs_or_controls_devices_anywhere() {
        let left = EXECUTE | IOCTL_DEV | MAKE_BLOCK | MAKE_CHAR;
        assert!(REACHED.iter().all(|it| it.access & left == 0));
    }

    #[test]
    fn files_of_the_system_are_read_only_and_those_with_secrets_not_at_all() {
        for kind in ProcessKind::ALL {
            for (place, path) in system_paths(kind) {
                let writes = access(kind, place) & WRITE_FILE != 0;
                assert_eq!(writes, path == "/dev/null", "{path} of {}", kind.name());
                let reads = access(kind, place) & READ_FILE != 0;
                let has_secrets = ["/etc/shadow", "/root/x", "/var/lib/x", "/run/x"]
                    .iter()
                    .any(|secret| Path::new(secret).starts_with(path));
                assert!(!reads || !has_secrets, "{path} of {}", kind.name());
            }
        }
    }

    #[test]
    fn only_a_worker_reaches_shares_and_no_snapshot_is_written() {
        for kind in ProcessKind::ALL {
            let is_worker = kind == ProcessKind::Worker;
            assert_eq!(access(kind, Place::Share) != 0, is_worker, "{}", kind.name());
        }
        assert_eq!(access(ProcessKind::Worker, Place::Snapshots), READ);
    }
}
