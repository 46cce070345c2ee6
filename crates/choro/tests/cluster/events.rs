//! What becomes of a cluster: addresses move, nodes stop, daemons stand still or die.

use std::time::{Duration, Instant};

use ctdb::{
    Access, Answer, ClusterState, Control, DatabaseKind, Function, News, NodeFlags, Standing,
    service,
};
use rustix::process::Signal;

use crate::choro::{Site, signal_process, text};
use crate::commands::checked;
use crate::lab::{Lab, PATIENCE, wait_until};
use crate::process::Process;
use crate::records::three;

/// Time after which a call counts as unanswered.
const BRIEF: Duration = Duration::from_secs(1);

pub(crate) fn an_address_that_moves_is_told_on_both_nodes(lab: &Lab) {
    let mut processes = [0, 1].map(|node| Process::on(lab, node));
    for process in &mut processes {
        ClusterState::SERVICES.into_iter().for_each(|service| process.register(service));
    }
    let Answer::PublicAddresses(all) = processes[0].ask(&Control::PublicAddresses) else {
        panic!("no addresses")
    };
    let moved = all.iter().find(|it| it.node == Some(0)).expect("node 0 has one").address;
    lab.ok(0, &["ctdb", "moveip", &moved.to_string(), "1"]);
    let [before, after] = &mut processes;
    let hear = |process: &mut Process, service| {
        let message = process.message(service);
        ClusterState::default().hear(&message)
    };
    let released = hear(before, service::RELEASE_ADDRESS);
    assert_eq!(released, Some(News::AddressReleased(moved)));
    assert_eq!(hear(after, service::TAKE_ADDRESS), Some(News::AddressTaken(moved)));
}

pub(crate) fn after_a_recovery_records_are_where_they_can_be_used(lab: &Lab) {
    let mut nodes = three(lab, "recovered.tdb");
    for (process, _) in &mut nodes {
        process.register(service::RECONFIGURE);
    }
    let (process, database) = &mut nodes[1];
    process.store(database, b"k", b"before");
    let generation = process.state().map.expect("it is told").generation;
    lab.ok(0, &["ctdb", "recover"]);
    for (process, _) in &mut nodes {
        let message = process.message(service::RECONFIGURE);
        assert_eq!(ClusterState::default().hear(&message), Some(News::Reconfigured));
        assert_ne!(message.generation, generation);
        process.becomes_active();
    }
    let (process, database) = &mut nodes[2];
    assert_eq!(process.value(database, b"k"), Some(b"before".to_vec()));
}

pub(crate) fn a_stopped_node_finds_all_records_busy_until_it_continues(lab: &Lab) {
    let mut nodes = three(lab, "stopped.tdb");
    let (process, database) = &mut nodes[2];
    process.store(database, b"k", b"before");
    lab.ok(0, &["ctdb", "stop", "-n", "2"]);
    let are_frozen = || database.read(b"k", |_| ()).expect("the file is whole") == Access::Busy;
    wait_until(are_frozen, || "its records are not frozen".to_owned());
    assert_eq!(process.state().standing(), Standing::Inactive(NodeFlags::STOPPED));
    assert_eq!(process.call(database, Function::Migrate, b"other", BRIEF), None);
    let lines = checked(lab, 2);
    assert!(lines.contains("this is node 2 of 3; it takes no part: it is stopped"), "{lines}");
    assert!(checked(lab, 0).contains("node 2 (10.98.0.3) is stopped: `ctdb continue`"));
    // The others go on.
    let (process, database) = &mut nodes[0];
    process.store(database, b"k2", b"meanwhile");
    assert_eq!(process.state().node(2).map(|node| node.flags), Some(NodeFlags::STOPPED));

    lab.ok(0, &["ctdb", "continue", "-n", "2"]);
    let (process, database) = &mut nodes[2];
    assert_eq!(process.value(database, b"k2"), Some(b"meanwhile".to_vec()));
    lab.wait_for(2, &["ctdb", "nodestatus"]);
}

pub(crate) fn a_killed_ctdbd_ends_its_connections_and_others_go_on(lab: &Lab) {
    let [mut first, mut second, third] = three(lab, "killed.tdb");
    first.0.store(&first.1, b"k", b"of a node that lives");
    first.0.register(service::RECONFIGURE);
    lab.act(&["kill", "2"]);
    let (mut process, database) = third;
    let lost = process.next(Instant::now() + PATIENCE);
    assert!(lost.is_err(), "{lost:?}");
    // Its file must not be open when a new ctdbd begins.
    drop((process, database));
    first.0.message(service::RECONFIGURE);
    let value = second.0.value(&second.1, b"k");
    assert_eq!(value, Some(b"of a node that lives".to_vec()));
    let flags = second.0.state().node(2).map(|node| node.flags);
    assert!(flags.is_some_and(|flags| flags.has(NodeFlags::DISCONNECTED)), "{flags:?}");

    lab.act(&["start", "2"]);
    lab.wait_for(2, &["ctdb", "nodestatus"]);
    let mut process = Process::on(lab, 2);
    let database = process.attach(lab, "killed.tdb", DatabaseKind::Volatile);
    let value = process.value(&database, b"k");
    assert_eq!(value, Some(b"of a node that lives".to_vec()));
}

pub(crate) fn a_ctdbd_that_stands_still_blocks_nobody(lab: &Lab) {
    let mut process = Process::on(lab, 0);
    let database = process.attach(lab, "still.tdb", DatabaseKind::Volatile);
    process.store(&database, b"here", b"v");
    let ctdbd = lab.ctdbd(0);
    signal_process(ctdbd, Signal::STOP);
    let continued = Continued(ctdbd);
    assert_eq!(process.call(&database, Function::Migrate, b"other", BRIEF), None);
    // What is here needs no ctdbd.
    assert_eq!(process.store(&database, b"here", b"w"), Some(b"v".to_vec()));
    let site = Site::new();
    site.write_config_with(&format!("ctdbd socket = {}\n", text(&lab.socket(0))), "");
    let error = site.run(&["status", "--cluster"]).fails(1);
    assert!(error.contains(": ctdbd does not answer") && error.lines().count() == 1, "{error}");
    drop(continued);
    // The late reply is left out, and the next one is found.
    assert!(process.call(&database, Function::Migrate, b"other", PATIENCE).is_some());
    process.becomes_active();
}

/// A process that goes on when this is dropped.
struct Continued(u32);

impl Drop for Continued {
    fn drop(&mut self) {
        signal_process(self.0, Signal::CONT);
    }
}
