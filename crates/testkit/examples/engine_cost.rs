//! Runs the engine for callgrind to count its instructions: see `scripts/instructions.sh`.
//!
//! `engine_cost read|write|open|list COUNT [RULES]`: a signed client repeats an operation COUNT
//! times. If `trace` is built in, requests are counted as in a server. RULES is a number of classes
//! of service, whose conditions hold for the client's share but not for its files.

use dtyp::utf16;
use qos::class::{InterimResponses, Limits, Match};
use qos::{Class, Membership, Meter, Slot, Subject};
use testkit::{Create, Peer, World};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use wire::{Command, Dialect, FileId};

/// Bytes of each READ and WRITE.
const LENGTH: usize = 4_096;

/// Entries of the directory that is listed with each QUERY_DIRECTORY, "." and ".." left out.
const ENTRIES: usize = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (operation, count, rules) = match &arguments[..] {
        [operation, count] => (operation, count, 0),
        [operation, count, rules] => (operation, count, rules.parse().expect("a number")),
        _ => panic!("engine_cost read|write|open|list COUNT [RULES]"),
    };
    let count: usize = count.parse().expect("a number");
    let world = World::new();
    world.serve_at_once();
    let tracer = trace::Tracer::private(trace::Clock::measure()).expect("there is memory");
    world.set_tracer(tracer);
    world.add_file("data", "file", &[7; LENGTH]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file_id = peer.create(&Create::open("file")).file_id;
    world.add_directory("data", "directory");
    for number in 0..ENTRIES {
        world.add_file("data", &format!("directory/File number {number:03}.txt"), b"");
    }
    let directory = peer.create(&Create::directory("directory")).file_id;
    if rules > 0 {
        set_rules(&world, rules);
    }
    for _ in 0..count {
        match operation.as_str() {
            "read" => assert_eq!(peer.read(file_id, 0, 4_096).len(), LENGTH),
            "write" => drop(peer.write(file_id, 0, &[7; LENGTH]).ok()),
            "open" => {
                let created = peer.create(&Create::open("file"));
                assert!(peer.close(created.file_id).header.status.is_success());
            }
            "list" => list(&mut peer, directory),
            other => panic!("{other} is nothing that is counted"),
        }
    }
    if tracer.is_on() {
        let requests = trace::all(&tracer.figures().events.request_end).count;
        assert!(requests >= u64::try_from(count).expect("64 bits"), "{requests} were traced");
    }
}

/// Sets classes of files that the client does not use.
fn set_rules(world: &World, rules: u16) {
    let class = |number: u16| {
        let files = vec![format!("*.no{number}")];
        let mut limits = Limits::default();
        limits.numbers[Meter::Bandwidth as usize] = Some(1 << 20);
        Class {
            name: number.to_string(),
            matches: vec![Match { files, ..Match::default() }],
            limits,
            interim_responses: InterimResponses::Auto,
        }
    };
    let classes: Vec<Class> = (0..rules).map(class).collect();
    let slots: Vec<Slot> = classes.iter().map(|_| Slot::default()).collect();
    slots.iter().zip(&classes).for_each(|(slot, class)| slot.configure(&class.limits));
    world.set_slots(Box::new(slots));
    world.set_classes(|user, share| {
        let client = "192.0.2.1".parse().expect("an address");
        let subject = Subject { client, user, is_in_group: &|_| false, share };
        Membership::of((0..).zip(&classes), subject)
    });
}

/// Lists the whole directory from its beginning, with one request.
fn list(peer: &mut Peer, directory: FileId) {
    let body = QueryDirectoryRequest {
        // FileIdBothDirectoryInformation
        file_information_class: dtyp::FileInformationClass(37),
        flags: QueryDirectoryFlags::RESTART_SCANS,
        file_index: 0,
        file_id: directory,
        output_buffer_length: 65_536,
        file_name: &utf16::to_bytes("*"),
    };
    let request = peer.request(Command::QUERY_DIRECTORY, &body);
    drop(peer.call(request).ok());
}
