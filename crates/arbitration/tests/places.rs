//! Limits of one client's opens of a file.

use std::time::Duration;

use arbitration::{
    Admission, AdmissionRequest, Caching, Durability, DurabilityKind, FILE_OPENS_MAX, FileRecord,
    LockSequences, OpenFacts, OpenId, Refusal, RequestedCaching, ShareMode, Standing,
    WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId};

fn ask(client: u32, number: u64, standing: Standing) -> AdmissionRequest {
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
        facts: OpenFacts { client: guid, persistent: number, ..OpenFacts::default() },
    }
}

fn admit(record: &mut FileRecord, ask: &AdmissionRequest) -> Admission {
    record.admit(&mut ask.clone(), None, &mut WorkersToNotify::default()).0
}

/// Opens the file until it is refused, and returns the number of opens.
fn fill(record: &mut FileRecord, client: u32, standing: Standing) -> usize {
    for number in 0.. {
        match admit(record, &ask(client, number, standing)) {
            Admission::Granted(_) => {}
            Admission::Refused(Refusal::TooManyOpens) => return record.opens.len(),
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
