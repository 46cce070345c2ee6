//! The codec against packets of a real ctdbd: `fixtures/4.17.12.txt`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ctdb::{
    Answer, Call, CommitRecord, Control, DatabaseEntry, DatabaseKind, Destination, Event, Exchange,
    Failure, Function, Malformed, Message, Node, NodeFlags, PublicAddress, Record, RecordHeader,
    RecoveryMode, RunState, TraversedRecord, Uptime, VnnMap,
};

const DATABASE: u32 = 0x5184_6878;
const PERSISTENT: u32 = 0x4702_3BF1;
const SERVICE: u64 = 0xC000_0000_0000_0001;
const TOOL_SERVICE: u64 = 0xBE00_0000_0000_12C0;
const GENERATION: u32 = 944_494_853;

/// Bytes of a header, which hold numbers of nodes and requests.
const HEADER_BYTES: usize = 32;

/// Packets of one name: to ctdbd, and from it.
#[derive(Debug, Default)]
struct Recorded {
    sent: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

fn recorded() -> HashMap<&'static str, Recorded> {
    let mut all: HashMap<&str, Recorded> = HashMap::new();
    for line in include_str!("fixtures/4.17.12.txt").lines().filter(|it| !it.starts_with('#')) {
        let [name, direction, hex] = *line.split(' ').collect::<Vec<_>>() else { panic!("{line}") };
        let digits: Vec<u8> = hex.chars().map(|it| digit(it).expect("hexadecimal")).collect();
        let packet = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let of_name = all.entry(name).or_default();
        if direction == ">" { &mut of_name.sent } else { &mut of_name.received }.push(packet);
    }
    all
}

fn digit(digit: char) -> Option<u8> {
    digit.to_digit(16)?.try_into().ok()
}

/// Compares a request with the recorded one, whose end is padded to eight bytes.
#[track_caller]
fn assert_sent(name: &str, exchange: &mut Exchange, recorded: &Recorded) {
    let [want] = recorded.sent.as_slice() else { panic!("{name}: {recorded:?}") };
    let sent = exchange.output().to_vec();
    exchange.written(sent.len());
    let (body, want) = (&sent[HEADER_BYTES..], &want[HEADER_BYTES..]);
    let (want, padding) = want.split_at_checked(body.len()).expect("it is not longer");
    assert_eq!(body, want, "{name}");
    assert!(padding.len() < 8 && padding.iter().all(|byte| *byte == 0), "{name}: {padding:?}");
    // The operation.
    assert_eq!(sent[16..20], recorded.sent[0][16..20], "{name}");
}

/// Compares a request with the recorded one, and returns what the recorded reply makes of it.
fn replied(
    name: &str,
    exchange: &mut Exchange,
    recorded: &Recorded,
) -> Result<Option<Event>, Malformed> {
    let request = exchange.output()[28..32].to_vec();
    assert_sent(name, exchange, recorded);
    let mut reply = recorded.received[0].clone();
    reply[28..32].copy_from_slice(&request);
    exchange.receive(&reply);
    exchange.next_event(Instant::now())
}

/// Sends a control, compares it with the recorded one, and returns the result of the recorded
/// reply.
#[track_caller]
fn ask(name: &str, control: &Control<'_>) -> Result<Answer, Failure> {
    let recorded = &recorded()[name];
    let mut exchange = Exchange::default();
    let now = Instant::now();
    let id = exchange.ask(Destination::Own, control, now).expect("it is short");
    match replied(name, &mut exchange, recorded) {
        Ok(Some(Event::Answered(of, result))) if of == id => result,
        other => panic!("{name}: {other:?}"),
    }
}

#[track_caller]
fn call(name: &str, function: Function, key: &[u8]) -> Vec<u8> {
    let recorded = &recorded()[name];
    let mut exchange = Exchange::default();
    let now = Instant::now();
    let call = Call { database: DATABASE, function, key };
    let id = exchange.call(call, now).expect("it is short");
    match replied(name, &mut exchange, recorded) {
        Ok(Some(Event::Called(of, Ok(data)))) if of == id => data,
        other => panic!("{name}: {other:?}"),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn the_state_of_a_cluster_is_read() {
    assert_eq!(ask("own_number", &Control::OwnNumber), Ok(Answer::OwnNumber(1)));
    let node = |number, address| Node { number, flags: NodeFlags(0), address: Some(ip(address)) };
    let nodes = vec![node(0, "10.98.0.1"), node(1, "10.98.0.2"), node(2, "10.98.0.3")];
    assert_eq!(ask("nodes", &Control::Nodes), Ok(Answer::Nodes(nodes)));
    let map = VnnMap { generation: GENERATION, lmasters: vec![0, 1, 2] };
    assert_eq!(ask("vnn_map", &Control::VnnMap), Ok(Answer::VnnMap(map)));
    let running = Ok(Answer::RunState(RunState::Running));
    assert_eq!(ask("run_state", &Control::RunState), running);
    let normal = Ok(Answer::RecoveryMode(RecoveryMode::Normal));
    assert_eq!(ask("recovery_mode", &Control::RecoveryMode), normal);
    let tunable = Control::Tunable("KeepaliveInterval");
    assert_eq!(ask("tunable", &tunable), Ok(Answer::Tunable(5)));
    let uptime = Uptime {
        now: 1_795_922_015,
        started: 1_795_921_887,
        recovery_began: 1_795_921_889,
        recovery_ended: 1_795_921_889,
    };
    assert_eq!(ask("uptime", &Control::Uptime), Ok(Answer::Uptime(uptime)));
    let place = |address, node| PublicAddress { address: ip(address), node: Some(node) };
    let places = vec![place("10.98.0.103", 0), place("10.98.0.102", 1), place("10.98.0.101", 2)];
    let found = ask("public_addresses", &Control::PublicAddresses);
    assert_eq!(found, Ok(Answer::PublicAddresses(places)));
}

#[test]
fn databases_are_attached_with_their_flags() {
    let kinds = [
        (DatabaseKind::Volatile, "x.tdb", "", DATABASE, 0x1C41),
        (DatabaseKind::Persistent, "p.tdb", "_persistent", PERSISTENT, 0x0400),
        (DatabaseKind::Replicated, "r.tdb", "_replicated", 0x7207_83A5, 0x0C41),
    ];
    for (kind, name, ending, database, flags) in kinds {
        let attach = Control::Attach { name, kind };
        let attached = ask(&format!("attach{ending}"), &attach);
        assert_eq!(attached, Ok(Answer::Database(database)));
        let found = ask(&format!("database_flags{ending}"), &Control::DatabaseFlags(database));
        assert_eq!(found, Ok(Answer::DatabaseFlags(flags)));
    }
    let path = ask("database_path", &Control::DatabasePath(DATABASE));
    assert_eq!(path, Ok(Answer::Text("/var/lib/ctdb/volatile/x.tdb.0".to_owned())));
    let name = ask("database_name", &Control::DatabaseName(0x7207_83A5));
    assert_eq!(name, Ok(Answer::Text("r.tdb".to_owned())));
    let entry = |database, flags| DatabaseEntry { database, flags };
    let all = vec![
        entry(0x7207_83A5, 8),
        entry(PERSISTENT, 1),
        entry(DATABASE, 0),
        entry(0x6645_C6C4, 1),
    ];
    assert_eq!(ask("databases", &Control::Databases), Ok(Answer::Databases(all)));
}

#[test]
fn records_are_moved_and_fetched() {
    assert_eq!(call("migrate", Function::Migrate, b"k"), b"");
    let fetched = call("fetch", Function::Fetch, b"k2");
    let header = RecordHeader { sequence: 4, dmaster: 0, flags: 0 };
    assert_eq!(Record::decode(&fetched), Ok(Record { header, value: Some(b"two") }));
    let absent = call("fetch_absent", Function::Fetch, b"absent");
    assert_eq!(Record::decode(&absent).map(|record| record.value), Ok(None));
}

#[test]
fn deletions_and_transactions_are_written_as_the_tool_writes_them() {
    let header = RecordHeader { sequence: 7, dmaster: 0, flags: 0x0001_0000 };
    let schedule = Control::ScheduleForDeletion { database: DATABASE, header, key: b"k" };
    assert_eq!(ask("schedule_for_deletion", &schedule), Ok(Answer::Done));
    let header = RecordHeader { sequence: 1, dmaster: 0, flags: 0 };
    let records = [
        CommitRecord { key: b"k", header, value: b"v1" },
        CommitRecord { key: b"__db_sequence_number__\0", header, value: &1u64.to_ne_bytes() },
    ];
    let commit = Control::Commit { database: PERSISTENT, records: &records };
    assert_eq!(ask("commit", &commit), Ok(Answer::Done));
    let number = ask("sequence_number", &Control::SequenceNumber(PERSISTENT));
    assert_eq!(number, Ok(Answer::SequenceNumber(1)));
}

#[test]
fn services_and_connections_are_told() {
    assert_eq!(ask("register", &Control::Register(TOOL_SERVICE)), Ok(Answer::Done));
    assert_eq!(ask("deregister", &Control::Deregister(TOOL_SERVICE)), Ok(Answer::Done));
    let notify = Control::Notify { service: SERVICE + 1, data: b"bye!" };
    assert_eq!(ask("notify", &notify), Ok(Answer::Done));
    let [client, server]: [SocketAddr; 2] =
        ["10.98.0.50:1234", "10.98.0.103:445"].map(|text| text.parse().expect("an address"));
    let begun = Control::ConnectionBegun { client, server };
    assert_eq!(ask("connection_begun", &begun), Ok(Answer::Done));
    let rest = [
        ("connection_ended", Control::ConnectionEnded { client, server }),
        ("connection_passed", Control::ConnectionPassed { client, server }),
    ];
    for (name, control) in rest {
        let mut exchange = Exchange::default();
        exchange.tell(Destination::Own, &control).expect("it is short");
        assert_sent(name, &mut exchange, &recorded()[name]);
        assert_eq!(exchange.next_deadline(), None, "no reply is expected");
    }
}

#[test]
fn the_service_of_a_living_process_is_registered() {
    let sent = &recorded()["check_service"].sent[0];
    let process = u32::from_ne_bytes(sent[60..64].try_into().expect("four bytes"));
    let check = Control::CheckService { process, service: SERVICE };
    assert_eq!(ask("check_service", &check), Ok(Answer::IsRegistered(true)));
}

#[test]
fn refusals_have_their_status() {
    let refused = |result: Result<Answer, Failure>| match result {
        Err(Failure::Refused(refusal)) => refusal.status,
        other => panic!("{other:?}"),
    };
    let path = ask("database_path_unknown", &Control::DatabasePath(0x1234_5678));
    assert_eq!(refused(path), -1);
    assert_eq!(refused(ask("tunable_unknown", &Control::Tunable("Nope"))), -22);
}

#[test]
fn messages_arrive_as_they_were_sent() {
    let recorded = &recorded()["message"];
    let mut exchange = Exchange::default();
    exchange.send_message(Destination::Node(0), SERVICE, b"hello").expect("it is short");
    assert_eq!(exchange.output()[..16], recorded.sent[0][..16], "generation 1");
    assert_sent("message", &mut exchange, recorded);
    // In pieces, as a socket may bring it.
    let (first, rest) = recorded.received[0].split_at(40);
    exchange.receive(first);
    assert_eq!(exchange.next_event(Instant::now()), Ok(None));
    exchange.receive(rest);
    let data = b"hello".to_vec();
    let message = Message { service: SERVICE, generation: GENERATION, data };
    assert_eq!(exchange.next_event(Instant::now()), Ok(Some(Event::Message(message))));
}

#[test]
fn a_traverse_ends_with_an_empty_record() {
    let recorded = &recorded()["traverse"];
    let mut exchange = Exchange::default();
    let traverse = Control::Traverse { database: DATABASE, traverse: 7, service: SERVICE };
    exchange.ask(Destination::Own, &traverse, Instant::now()).expect("it is short");
    assert_sent("traverse", &mut exchange, recorded);
    let mut messages = Vec::new();
    for packet in &recorded.received[1..] {
        exchange.receive(packet);
        match exchange.next_event(Instant::now()) {
            Ok(Some(Event::Message(message))) => messages.push(message.data),
            other => panic!("{other:?}"),
        }
    }
    let header = RecordHeader { sequence: 5, dmaster: 0, flags: 0 };
    let record = Record { header, value: Some(b"two") };
    let first = TraversedRecord { traverse: 7, key: b"k2", record };
    assert_eq!(TraversedRecord::decode(&messages[0]), Ok(Some(first)));
    assert_eq!(TraversedRecord::decode(&messages[1]), Ok(None));
}
