//! State of the cluster of a configuration with `clustering = yes`, which is refused.

use std::io::{self, Write};
use std::path::Path;

use config::LoadError;
use ctdb::{NoDaemon, Node, NodeFlags, Observation, Standing};
use observe::report;

use super::super::status::cluster::{look, part, socket};

/// Databases of Samba's server. It attaches them on a node once it runs there, and they stay.
const SAMBA_DATABASES: &[&str] = &["brlock.tdb", "locking.tdb"];

/// A line about the cluster.
#[derive(Debug, Eq, PartialEq)]
struct Finding {
    message: String,
    /// True if something should be done before a server serves.
    is_fault: bool,
}

/// Prints the state of the cluster, if `refusal` refuses a configuration for being of one.
///
/// # Errors
/// The output cannot be written.
pub(super) fn explain(refusal: &anyhow::Error, json: bool) -> anyhow::Result<()> {
    let Some(LoadError::Clustered { socket: named, .. }) = refusal.downcast_ref() else {
        return Ok(());
    };
    let socket = socket(named);
    let found = findings(&look(&socket), &socket);
    if json {
        let row = |it: Finding| {
            vec![
                ("kind", "cluster".into()),
                ("fault", it.is_fault.into()),
                ("message", it.message.into()),
            ]
        };
        return report::print_json(found.into_iter().map(row).collect());
    }
    let mut errors = io::stderr().lock();
    for finding in found {
        writeln!(errors, "Cluster: {}", finding.message)?;
    }
    Ok(())
}

fn findings(seen: &Result<Observation, NoDaemon>, socket: &Path) -> Vec<Finding> {
    match seen {
        Ok(seen) => of_cluster(seen),
        Err(error) => vec![fault(no_daemon(error, socket))],
    }
}

fn no_daemon(error: &NoDaemon, socket: &Path) -> String {
    let socket = socket.display();
    match error {
        NoDaemon::Absent(why) => {
            format!("{error}: {socket}: {why}; start CTDB, or name its socket by `ctdbd socket`")
        }
        NoDaemon::Unreachable(why) => format!("{error}: {socket}: {why}"),
        NoDaemon::Silent => format!("{error} on {socket}: it hangs, or was stopped by a signal"),
        other => format!("{other} on {socket}"),
    }
}

fn of_cluster(seen: &Observation) -> Vec<Finding> {
    let state = &seen.state;
    let mut found = Vec::new();
    if let Some(number) = state.own_number {
        let (count, part) = (state.nodes.len(), part(state.standing()));
        let message = format!("this is node {number} of {count}; it {part}");
        found.push(Finding { message, is_fault: state.standing() != Standing::Active });
    }
    if state.standing() == Standing::Recovering {
        found.push(fault(RECOVERS.to_owned()));
    }
    found.extend(state.nodes.iter().filter_map(of_node));
    let samba = seen.databases.iter().filter(|name| SAMBA_DATABASES.contains(&name.as_str()));
    let samba: Vec<&str> = samba.map(String::as_str).collect();
    if !samba.is_empty() {
        found.push(fault(format!(
            "Samba has attached {}: it serves in this cluster, or did since ctdbd was started; \
             Samba and Choro do not see each other's locks and open files",
            samba.join(", ")
        )));
    }
    match seen.keepalive {
        Some(keepalive) => {
            let (least, most) = keepalive.seconds();
            found.push(note(format!(
                "a node that falls silent, such as by a broken link, is noticed after {least} to \
                 {most} s (`KeepaliveInterval` {} × `KeepaliveLimit` {}); until then others wait \
                 for files that it has open",
                keepalive.interval, keepalive.limit
            )));
        }
        None => found.push(fault("ctdbd does not tell its keepalive parameters".to_owned())),
    }
    if !seen.unanswered.is_empty() {
        found.push(fault(format!("ctdbd does not tell: {}", seen.unanswered.join(", "))));
    }
    found
}

const RECOVERS: &str = "no record can be used until the recovery has ended, which takes a second \
                        or two; if it lasts, the log of ctdbd says why";

/// Returns a line about a node that is not well.
fn of_node(node: &Node) -> Option<Finding> {
    let remedies = [
        (NodeFlags::DISCONNECTED, "it or its network is down"),
        (NodeFlags::STOPPED, "`ctdb continue` there takes it in again"),
        (NodeFlags::BANNED, "its ctdbd failed too often; `ctdb unban` there, once that is mended"),
        (NodeFlags::DELETED, "its line is commented out in the list of nodes"),
        (NodeFlags::DISABLED, "it serves no public addresses; `ctdb enable` there"),
        (
            NodeFlags::UNHEALTHY,
            "it serves no public addresses; `ctdb event status legacy monitor` \
                                there says why",
        ),
    ];
    let (_, remedy) = remedies.into_iter().find(|(flag, _)| node.flags.has(*flag))?;
    let address = node.address.map(|it| format!(" ({it})")).unwrap_or_default();
    let message = format!("node {}{address} is {}: {remedy}", node.number, node.flags);
    // A deleted node is an empty line of the list, and is well.
    Some(Finding { message, is_fault: !node.flags.has(NodeFlags::DELETED) })
}

fn fault(message: String) -> Finding {
    Finding { message, is_fault: true }
}

fn note(message: String) -> Finding {
    Finding { message, is_fault: false }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use ctdb::{Answer, Keepalive, NoDaemon, Node, NodeFlags, Observation, RecoveryMode, RunState};

    use super::{findings, of_cluster};

    fn seen(flags: &[u32]) -> Observation {
        let mut seen = Observation::default();
        let node = |(number, flags): (u32, &u32)| Node {
            number,
            flags: NodeFlags(*flags),
            address: "10.98.0.1".parse().ok(),
        };
        seen.state.learn(&Answer::OwnNumber(0));
        seen.state.learn(&Answer::Nodes((0..).zip(flags).map(node).collect()));
        seen.state.learn(&Answer::RecoveryMode(RecoveryMode::Normal));
        seen.state.learn(&Answer::RunState(RunState::Running));
        seen.keepalive = Some(Keepalive { interval: 5, limit: 5 });
        seen
    }

    /// Returns the lines that are faults.
    fn faults(seen: &Observation) -> Vec<String> {
        let found = of_cluster(seen).into_iter().filter(|finding| finding.is_fault);
        found.map(|finding| finding.message).collect()
    }

    #[test]
    fn a_cluster_that_is_well_has_no_fault_and_says_when_silence_is_noticed() {
        let seen = seen(&[0, 0, 0]);
        assert_eq!(faults(&seen), Vec::<String>::new());
        let lines: Vec<String> = of_cluster(&seen).into_iter().map(|it| it.message).collect();
        assert_eq!(lines[0], "this is node 0 of 3; it takes part in the cluster");
        assert!(lines[1].contains("after 25 to 30 s"), "{lines:?}");
    }

    #[test]
    fn nodes_that_are_not_well_are_named_with_their_flags_and_a_remedy() {
        let faults = faults(&seen(&[0x20, 0x02, 0]));
        let [own, stopped, unhealthy] = faults.as_slice() else { panic!("{faults:?}") };
        assert_eq!(own, "this is node 0 of 3; it takes no part: it is stopped");
        assert!(stopped.contains("node 0 (10.98.0.1) is stopped: `ctdb continue`"), "{stopped}");
        assert!(unhealthy.contains("node 1 (10.98.0.1) is unhealthy"), "{unhealthy}");
    }

    #[test]
    fn a_recovery_and_the_databases_of_samba_are_faults() {
        let mut seen = seen(&[0]);
        seen.state.learn(&Answer::RecoveryMode(RecoveryMode::Active));
        seen.databases = ["choro_files.tdb", "locking.tdb"].map(str::to_owned).to_vec();
        let faults = faults(&seen);
        let [own, recovers, samba] = faults.as_slice() else { panic!("{faults:?}") };
        assert!(own.contains("recovers") && recovers.contains("until the recovery has ended"));
        assert!(samba.starts_with("Samba has attached locking.tdb: "), "{samba}");
    }

    #[test]
    fn without_a_ctdbd_there_is_one_line_with_the_socket_and_a_remedy() {
        let absent = Err(NoDaemon::Absent(io::ErrorKind::NotFound.into()));
        let found = findings(&absent, Path::new("/run/x"));
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        let line = &finding.message;
        assert!(line.starts_with("ctdbd is not running: /run/x: ") && finding.is_fault, "{line}");
        assert!(line.contains("`ctdbd socket`"), "{line}");
    }
}
