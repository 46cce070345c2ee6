//! Limits of one client's opens of a file.

use std::time::Duration;

use arbitration::{
    Admission, AdmissionRequest, Caching, Durability, DurabilityKind, FILE_OPENS_MAX, FileRecord,
    LockSequences, OpenFacts, OpenId, REQUESTER_BYTES_MAX, Refusal, RequestedCaching, ShareMode,
    Standing, WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId};

/// Request of a client whose user has no other one, or of a guest.
fn ask(client: u32, number: u64, standing: Standing) -> AdmissionRequest {
    let user = if standing == Standing::User { u64::from(client) } else { 0 };
    let guid = Guid(u128::from(client).to_le_bytes());
    AdmissionRequest {
        id: OpenId { worker: ServerId { pid: client, unique_id: 1 }, number },
        standing,
        stream: 0,
        mode: ShareMode {
            granted_access: AccessMask::READ_DATA,
            share_read: true,
            share_write: true,
            share_delete: true,
        },
        overwrites: false,
        is_new: false,
        size: 100,
        is_directory: true,
        delete_on_close: false,
        caching: RequestedCaching::Nothing,
        caching_max: Caching::all(),
        shared_reading: true,
        has_waited: false,
        now: Duration::ZERO,
        deadline: Duration::from_secs(35),
        facts: OpenFacts { client: guid, user, persistent: number, ..OpenFacts::default() },
    }
}

fn admit(record: &mut FileRecord, ask: &AdmissionRequest) -> Admission {
    record.admit(&mut ask.clone(), None, &mut WorkersToNotify::default()).0
}

/// Opens the file until it is refused, and returns the number of opens.
fn fill(record: &mut FileRecord, client: u32, standing: Standing) -> usize {
    fill_as(record, ask(client, 0, standing));
    record.opens.len()
}

/// Opens the file by such a request until it is refused, and returns the number of new opens.
fn fill_as(record: &mut FileRecord, mut request: AdmissionRequest) -> u64 {
    for number in 0.. {
        request.id.number = number;
        match admit(record, &request) {
            Admission::Granted(_) => {}
            Admission::Refused(Refusal::TooManyOpens) => return number,
            other => panic!("{other:?}"),
        }
    }
    unreachable!("a file has an end of opens");
}

#[test]
fn one_client_leaves_the_other_opens_of_a_file_to_others() {
    for (standing, most) in [(Standing::User, 1_024), (Standing::Guest, 256)] {
        let mut record = FileRecord::default();
        assert_eq!(fill(&mut record, 1, standing), most, "{standing:?}");
        let other = admit(&mut record, &ask(2, 0, standing));
        assert!(matches!(other, Admission::Granted(_)), "{other:?}");
    }
}

#[test]
fn all_clients_of_a_user_take_the_part_of_two_and_then_eight_opens_each() {
    let mut record = FileRecord::default();
    let of_user = |client: u32| {
        let mut request = ask(client, 0, Standing::User);
        request.facts.user = 7;
        request
    };
    let opens: Vec<u64> = (100..148).map(|it| fill_as(&mut record, of_user(it))).collect();
    assert_eq!(opens, [&[1_024, 960, 64][..], &[8; 45]].concat());
    // Another one has a part of what this one has left.
    assert_eq!(fill_as(&mut record, ask(1, 0, Standing::User)), 873);
}

#[test]
fn all_guests_take_the_part_of_two_clients_and_then_eight_opens_each() {
    let mut record = FileRecord::default();
    let fill = |client: u32| fill_as(&mut record, ask(client, 0, Standing::Guest));
    let opens: Vec<u64> = (100..148).map(fill).collect();
    assert_eq!(opens[..4], [256, 252, 248, 244]);
    let first = opens.iter().position(|it| *it == 8).expect("the part is full");
    assert_eq!(opens[..first].iter().sum::<u64>(), 2_048);
    assert!(opens[first..].iter().all(|it| *it == 8), "{opens:?}");
}

#[test]
fn one_account_serves_a_file_to_three_thousand_machines() {
    let mut record = FileRecord::default();
    admit(&mut record, &ask(1, 0, Standing::User));
    let entry = record.opens[0].clone();
    for number in 0..3_000 {
        let AdmissionRequest { id, .. } = ask(100 + number, 0, Standing::User);
        record.opens.push(arbitration::OpenEntry { id, ..entry.clone() });
    }
    let mut request = ask(9_999, 0, Standing::User);
    request.facts.user = entry.facts.user;
    assert_eq!(fill_as(&mut record, request), 8);
}

#[test]
fn users_of_many_names_fill_a_file() {
    let mut record = FileRecord::default();
    admit(&mut record, &ask(1, 0, Standing::User));
    let entry = record.opens[0].clone();
    for client in 2..16_000 {
        let AdmissionRequest { id, facts, .. } = ask(client, 0, Standing::User);
        record.opens.push(arbitration::OpenEntry { id, facts, ..entry.clone() });
    }
    let other = admit(&mut record, &ask(16_000, 0, Standing::User));
    assert!(matches!(other, Admission::Granted(_)), "{other:?}");
}

#[test]
fn one_client_that_opens_a_file_by_long_paths_leaves_others_the_bytes_for_theirs() {
    for (standing, most) in [(Standing::User, 128), (Standing::Guest, 32)] {
        let mut record = FileRecord::default();
        let paths = ["x".repeat(4_000), "y".repeat(4_000)];
        for (number, path) in (0..).zip(paths.iter().cycle()) {
            let mut request = ask(1, number, standing);
            request.facts.path.clone_from(path);
            match admit(&mut record, &request) {
                Admission::Granted(_) => {}
                Admission::Refused(Refusal::TooManyOpens) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(record.opens.len() < most, "{} {standing:?}", record.opens.len());
        let other = admit(&mut record, &ask(2, 0, standing));
        assert!(matches!(other, Admission::Granted(_)), "{other:?}");
        // By one path they take as many as ever.
        let mut record = FileRecord::default();
        let number = (0..).find(|number| {
            let mut request = ask(1, *number, standing);
            request.facts.path.clone_from(&paths[0]);
            !matches!(admit(&mut record, &request), Admission::Granted(_))
        });
        assert_eq!(number, Some(if standing == Standing::User { 1_024 } else { 256 }));
    }
}

#[test]
fn requesters_of_deletions_leave_a_record_room_and_names_of_the_file_room_beside_streams() {
    let mut record = FileRecord::default();
    let mut mark = |stream: u64, link: u64| {
        let mut request = ask(1, stream + 1, Standing::User);
        (request.stream, request.facts.link) = (stream, link);
        request.facts.path = format!("{}:{stream}", "x".repeat(4_000));
        record.opens.clear();
        admit(&mut record, &request);
        record.request_deletion(request.id, None, None);
        let requesters = record.delete_pending.iter().filter_map(|it| it.requester.as_ref());
        requesters.map(|it| it.path.len()).sum::<usize>()
    };
    let of_streams = (1..1_000).map(|stream| mark(stream, 1 << 40)).last().expect("some");
    assert!(of_streams > REQUESTER_BYTES_MAX / 3, "{of_streams}");
    assert!(of_streams <= REQUESTER_BYTES_MAX / 2, "{of_streams}");
    assert!(mark(0, 1 << 40) > of_streams, "the name of the file");
    let of_all = (1..1_000).map(|link| mark(0, link << 41)).last().expect("some");
    assert!(of_all > REQUESTER_BYTES_MAX / 2 && of_all <= REQUESTER_BYTES_MAX, "{of_all}");
    assert_eq!(record.delete_pending.len(), 999 + 1 + 999, "each is deleted all the same");
}

#[test]
fn opens_of_other_users_under_a_clients_guid_do_not_take_its_places() {
    let mut record = FileRecord::default();
    fill(&mut record, 1, Standing::User);
    let mut victim = ask(2, 0, Standing::User);
    victim.facts.client = ask(1, 0, Standing::User).facts.client;
    let admission = admit(&mut record, &victim);
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[test]
fn there_is_room_for_one_more_beside_many_clients_that_took_all_they_may() {
    let mut record = FileRecord::default();
    admit(&mut record, &ask(1, 0, Standing::User));
    let entry = record.opens[0].clone();
    // The default limit of clients per address, one after the other.
    for client in 2..66 {
        let part = (FILE_OPENS_MAX - record.opens.len()) / 16;
        for number in 0..u64::try_from(part).expect("few") {
            let AdmissionRequest { id, facts, .. } = ask(client, number, Standing::User);
            record.opens.push(arbitration::OpenEntry { id, facts, ..entry.clone() });
        }
        let more = ask(client, u64::MAX, Standing::User);
        assert_eq!(admit(&mut record, &more), Admission::Refused(Refusal::TooManyOpens));
    }
    assert!(matches!(admit(&mut record, &ask(99, 0, Standing::User)), Admission::Granted(_)));
}

#[test]
fn durable_opens_of_clients_that_are_away_give_way_when_a_file_is_full() {
    let mut record = FileRecord::default();
    admit(&mut record, &ask(1, 0, Standing::User));
    let mut entry = record.opens[0].clone();
    entry.durability = Some(Durability {
        expires_at: Some(Duration::from_secs(900)),
        timeout: Duration::from_secs(900),
        kind: DurabilityKind::DurableV2,
        create_guid: Guid([7; 16]),
        owner: String::new(),
        position: 0,
        lock_sequences: LockSequences::default(),
    });
    for number in 1..u64::try_from(FILE_OPENS_MAX).expect("it is small") {
        let AdmissionRequest { id, facts, .. } =
            ask(u32::try_from(number).expect("small") + 10, number, Standing::User);
        record.opens.push(arbitration::OpenEntry { id, facts, ..entry.clone() });
    }
    let (admission, purged) =
        record.admit(&mut ask(2, 0, Standing::User), None, &mut WorkersToNotify::default());
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
    assert_eq!((purged.len(), record.opens.len()), (FILE_OPENS_MAX - 1, 2));
}
