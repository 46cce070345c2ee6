//! Records of clustered databases, and messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ctdb::{
    Access, Answer, CommitRecord, Control, Database, DatabaseKind, Destination, Function, Record,
    RecordChange, RecordHeader, TraversedRecord,
};

use crate::lab::{Lab, PATIENCE};
use crate::process::Process;

/// Services of the tests: in the range that CTDB leaves to tests.
const SERVICE: u64 = 0xAE00_0000_0000_0001;

/// Key of the sequence number of a persistent database, which each transaction raises.
const SEQUENCE_NUMBER: &[u8] = b"__db_sequence_number__\0";

/// Reads a record. ctdbd locks its chain for a moment when it moves the record.
fn read(database: &Database, key: &[u8]) -> Access<Option<Vec<u8>>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match database.read(key, |value| value.map(<[u8]>::to_vec)).expect("the file is whole") {
            Access::Busy if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            access => return access,
        }
    }
}

fn here(value: Option<&[u8]>) -> Access<Option<Vec<u8>>> {
    Access::Here { result: value.map(<[u8]>::to_vec), deleted: None }
}

/// A process on each of three nodes, with a database.
pub(crate) fn three(lab: &Lab, name: &str) -> [(Process, Database); 3] {
    [0, 1, 2].map(|node| {
        let mut process = Process::on(lab, node);
        let database = process.attach(lab, name, DatabaseKind::Volatile);
        (process, database)
    })
}

pub(crate) fn a_record_is_made_changed_and_deleted(lab: &Lab) {
    let mut process = Process::on(lab, 0);
    let database = process.attach(lab, "made.tdb", DatabaseKind::Volatile);
    assert_eq!(read(&database, b"k"), Access::Elsewhere, "only its lmaster knows of no record");
    assert_eq!(process.store(&database, b"k", b"first"), None);
    assert_eq!(read(&database, b"k"), here(Some(b"first")));
    // CTDB's tool reads and writes the same.
    let shown = lab.ok(0, &["ctdb", "readkey", "made.tdb", "k"]);
    assert!(shown.contains("size:5 ptr:[first]"), "{shown}");
    lab.ok(0, &["ctdb", "writekey", "made.tdb", "k", "second"]);
    assert_eq!(process.value(&database, b"k"), Some(b"second".to_vec()));
    let deleted = process.change(&database, b"k", &RecordChange::Delete);
    assert_eq!(deleted, Some(b"second".to_vec()));
    assert_eq!(process.value(&database, b"k"), None);
    let shown = lab.ok(0, &["ctdb", "catdb", "made.tdb"]);
    assert!(shown.contains("Dumped 0 records"), "{shown}");
}

pub(crate) fn a_transaction_is_read_on_its_node(lab: &Lab) {
    let mut process = Process::on(lab, 0);
    let database = process.attach(lab, "kept.tdb", DatabaseKind::Persistent);
    assert_eq!(read(&database, b"k"), here(None));
    let header = RecordHeader { sequence: 1, dmaster: process.own_number(), flags: 0 };
    let records = [
        CommitRecord { key: b"k", header, value: b"kept" },
        CommitRecord { key: SEQUENCE_NUMBER, header, value: &1u64.to_ne_bytes() },
    ];
    let commit = Control::Commit { database: database.number(), records: &records };
    assert_eq!(process.ask(&commit), Answer::Done);
    assert_eq!(read(&database, b"k"), here(Some(b"kept")));
    let number = process.ask(&Control::SequenceNumber(database.number()));
    assert_eq!(number, Answer::SequenceNumber(1));
}

pub(crate) fn messages_arrive_at_the_service_they_are_for(lab: &Lab) {
    let mut process = Process::on(lab, 0);
    let own = Destination::Node(process.own_number());
    process.register(SERVICE);
    process.register(SERVICE + 1);
    process.send(own, SERVICE, b"one");
    assert_eq!(process.message(SERVICE).data, b"one");
    assert_eq!(process.ask(&Control::Deregister(SERVICE)), Answer::Done);
    process.send(own, SERVICE, b"to nobody");
    process.send(own, SERVICE + 1, b"two");
    // Messages keep their order, so the one to nobody would be here.
    assert_eq!(process.message(SERVICE + 1).data, b"two");
    assert!(!process.has_message(SERVICE));
}

pub(crate) fn a_record_goes_round_all_nodes(lab: &Lab) {
    let mut nodes = three(lab, "round.tdb");
    let mut want: Option<Vec<u8>> = None;
    for round in 0..30u8 {
        let at = usize::from(round % 3);
        let (process, database) = &mut nodes[at];
        assert_eq!(process.store(database, b"k", &[round; 200]), want, "round {round}");
        want = Some(vec![round; 200]);
        let (_, before) = &nodes[(at + 2) % 3];
        assert_eq!(read(before, b"k"), Access::Elsewhere, "it has moved");
    }
    // To fetch it only to read it moves it, too.
    let (process, database) = &mut nodes[0];
    let fetched =
        process.call(database, Function::Fetch, b"k", PATIENCE).expect("there is an answer");
    let record = Record::decode(&fetched).expect("a record");
    assert_eq!((record.header.dmaster, record.value), (0, want.as_deref()));
    assert_eq!(read(database, b"k"), here(want.as_deref()));
    assert_eq!(read(&nodes[2].1, b"k"), Access::Elsewhere);
}

pub(crate) fn a_traverse_has_the_records_of_all_nodes(lab: &Lab) {
    let mut nodes = three(lab, "traversed.tdb");
    let mut want = BTreeMap::new();
    for (node, (process, database)) in nodes.iter_mut().enumerate() {
        for number in 0..20 {
            let (key, value) = (format!("{node}-{number}"), vec![b'v'; number + 1]);
            process.store(database, key.as_bytes(), &value);
            want.insert(key.into_bytes(), value);
        }
        process.store(database, format!("{node}-gone").as_bytes(), b"x");
        process.change(database, format!("{node}-gone").as_bytes(), &RecordChange::Delete);
    }
    let (process, database) = &mut nodes[0];
    process.register(SERVICE);
    let traverse = Control::Traverse { database: database.number(), traverse: 7, service: SERVICE };
    assert_eq!(process.ask(&traverse), Answer::Done);
    let mut found = BTreeMap::new();
    loop {
        let message = process.message(SERVICE);
        let Some(it) = TraversedRecord::decode(&message.data).expect("a record") else { break };
        assert_eq!(it.traverse, 7);
        if let Some(value) = it.record.value {
            found.insert(it.key.to_vec(), value.to_vec());
        }
    }
    assert_eq!(found, want);
}

pub(crate) fn messages_arrive_from_other_nodes(lab: &Lab) {
    let mut processes = [0, 1, 2].map(|node| Process::on(lab, node));
    processes.iter_mut().for_each(|process| process.register(SERVICE));
    processes[0].send(Destination::Node(1), SERVICE, b"to node 1");
    let message = processes[1].message(SERVICE);
    assert_eq!(message.data, b"to node 1");
    processes[2].send(Destination::Active, SERVICE, b"to all");
    let generation = message.generation;
    for process in &mut processes {
        let message = process.message(SERVICE);
        assert_eq!(message.data, b"to all");
        assert_eq!(message.generation, generation, "no recovery came between");
    }
}

pub(crate) fn the_end_of_a_client_is_told_to_all_nodes(lab: &Lab) {
    let mut processes = [0, 1, 2].map(|node| Process::on(lab, node));
    let check = Control::CheckService { process: std::process::id(), service: SERVICE + 2 };
    let is_registered = |process: &mut Process| {
        process.ask_at(Destination::Node(1), &check) == Answer::IsRegistered(true)
    };
    assert!(!is_registered(&mut processes[0]));
    let mut mortal = Process::on(lab, 1);
    mortal.register(SERVICE + 2);
    assert!(is_registered(&mut processes[0]));
    let notify = Control::Notify { service: SERVICE, data: b"gone" };
    assert_eq!(mortal.ask(&notify), Answer::Done);
    processes.iter_mut().for_each(|process| process.register(SERVICE));
    drop(mortal);
    for process in &mut processes {
        assert_eq!(process.message(SERVICE).data, b"gone");
    }
    assert!(!is_registered(&mut processes[0]));
}
