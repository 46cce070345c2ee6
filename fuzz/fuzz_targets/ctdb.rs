//! Bytes of ctdbd's socket, with a request of each kind pending.
#![no_main]

use std::time::{Duration, Instant};

use ctdb::{
    Answer, Call, ClusterState, Control, DATABASES_MAX, DatabaseKind, Destination, Event, Exchange,
    Function, NODES_MAX, PUBLIC_ADDRESSES_MAX, Record, TraversedRecord,
};
use libfuzzer_sys::fuzz_target;

/// Controls whose answers have fields, in the order of their requests' numbers, from 1.
const CONTROLS: [Control<'static>; 17] = [
    Control::OwnNumber,
    Control::Nodes,
    Control::VnnMap,
    Control::RecoveryMode,
    Control::RunState,
    Control::Attach { name: "x.tdb", kind: DatabaseKind::Volatile },
    Control::Attach { name: "p.tdb", kind: DatabaseKind::Persistent },
    Control::DatabasePath(1),
    Control::DatabaseName(1),
    Control::DatabaseFlags(1),
    Control::Databases,
    Control::PublicAddresses,
    Control::SequenceNumber(1),
    Control::Tunable("KeepaliveInterval"),
    Control::Uptime,
    Control::CheckService { process: 1, service: 2 },
    Control::Register(1),
];

fuzz_target!(|input: &[u8]| {
    let now = Instant::now();
    let mut exchange = Exchange::default();
    for control in &CONTROLS {
        exchange.ask(Destination::Own, control, now).expect("there is room");
    }
    for function in [Function::Migrate, Function::Fetch] {
        let call = Call { database: 1, function, key: b"k" };
        exchange.call(call, now + Duration::from_secs(1)).expect("there is room");
    }
    let mut pending = CONTROLS.len() + 2;
    let mut state = ClusterState::default();
    // The first byte says in which pieces the socket brings the rest.
    let Some((piece, input)) = input.split_first() else { return };
    for bytes in input.chunks(usize::from(*piece).max(1)) {
        exchange.receive(bytes);
        loop {
            let event = match exchange.next_event(now) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => return,
            };
            match event {
                Event::Answered(_, result) => {
                    pending -= 1;
                    if let Ok(answer) = result {
                        verify(&answer);
                        state.learn(&answer);
                    }
                }
                Event::Called(_, result) => {
                    pending -= 1;
                    _ = result.map(|data| Record::decode(&data).is_ok());
                }
                Event::Message(message) => {
                    state.hear(&message);
                    if let Ok(Some(found)) = TraversedRecord::decode(&message.data) {
                        assert!(found.key.len() < message.data.len());
                    }
                }
            }
            _ = state.standing();
        }
    }
    while exchange.expire(now + Duration::from_secs(1)).is_some() {
        pending -= 1;
    }
    assert_eq!(pending, 0, "each request ends once");
    assert_eq!(exchange.next_deadline(), None);
});

/// Checks that an answer keeps its limits.
fn verify(answer: &Answer) {
    match answer {
        Answer::Nodes(nodes) => assert!(nodes.len() <= NODES_MAX),
        Answer::Databases(databases) => assert!(databases.len() <= DATABASES_MAX),
        Answer::PublicAddresses(all) => assert!(all.len() <= PUBLIC_ADDRESSES_MAX),
        Answer::Text(text) => assert!(!text.contains('\0')),
        _ => {}
    }
}
