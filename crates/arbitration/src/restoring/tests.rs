use dtyp::{AccessMask, FileTime, Guid};

use super::*;
use crate::{
    AdmissionRequest, ByteRange, ByteRangeLock, Durability, DurabilityKind, LeaseId, LockSequences,
    OpenFacts, RequestedCaching, ShareMode, Standing, WorkersToNotify,
};

const SERVER: ServerId = ServerId { pid: 1, unique_id: 2 };
const NOW: Duration = Duration::from_secs(100);

fn lease_of(client: u8) -> LeaseId {
    LeaseId { client: Guid([client; 16]), key: [client; 16] }
}

/// Admits an open of a client that shares everything, with its own lease.
fn enter(record: &mut FileRecord, client: u8, state: Caching, kind: DurabilityKind) -> OpenId {
    let id = OpenId { worker: SERVER, number: client.into() };
    let lease = lease_of(client);
    let mut ask = AdmissionRequest {
        id,
        standing: Standing::User,
        stream: 0,
        mode: ShareMode {
            granted_access: AccessMask::READ_DATA | AccessMask::WRITE_DATA,
            share_read: true,
            share_write: true,
            share_delete: true,
        },
        overwrites: false,
        is_new: false,
        size: 100,
        is_directory: false,
        delete_on_close: false,
        caching: RequestedCaching::Lease { id: lease, state, epoch: 1, is_v2: true, parent: None },
        caching_max: Caching::all(),
        shared_reading: true,
        has_waited: false,
        now: NOW,
        deadline: NOW + Duration::from_secs(35),
        facts: OpenFacts {
            client: lease.client,
            session_id: 7,
            tree_id: 8,
            persistent: u64::from(client) << 32,
            opened_at: FileTime(9),
            ..OpenFacts::default()
        },
    };
    let durability = Durability {
        expires_at: None,
        timeout: Duration::from_secs(60),
        kind,
        create_guid: Guid([client; 16]),
        owner: "S-1-5-21-1".to_owned(),
        position: 0,
        lock_sequences: LockSequences::default(),
    };
    record.admit(&mut ask, Some(durability), &mut WorkersToNotify::default());
    id
}

fn lock(record: &mut FileRecord, open: OpenId) {
    let range = ByteRange { offset: 5, length: 6 };
    let lock = ByteRangeLock { open, stream: 0, range, exclusive: true };
    record.acquire_locks(&[lock], Standing::User).expect("nothing is locked there");
}

fn restored(record: &FileRecord) -> FileRecord {
    let mut after = FileRecord::default();
    for (_, part) in record.persistent_parts() {
        after.restore(part, NOW);
    }
    after
}

#[test]
fn persistent_opens_come_back_disconnected_with_lease_and_locks() {
    let mut record = FileRecord::default();
    let id = enter(&mut record, 3, Caching::all(), DurabilityKind::Persistent);
    lock(&mut record, id);
    let after = restored(&record);
    let [open] = &after.opens[..] else { panic!("{after:?}") };
    assert!(open.is_disconnected());
    assert_eq!((open.facts.persistent, open.facts.session_id), (3 << 32, 0));
    let until = open.durability.as_ref().and_then(|it| it.expires_at);
    assert_eq!(until, Some(NOW + Duration::from_secs(60)), "the deadline starts anew");
    assert_eq!(after.cache_of(open), Cache::granted(Caching::all()));
    assert_eq!(after.locks.len(), 1);
    assert_eq!(after.locks.iter().next().map(|it| it.open), Some(open.id));
}

#[test]
fn other_opens_and_their_locks_do_not_come_back() {
    let mut record = FileRecord::default();
    for (client, kind) in [(1, DurabilityKind::DurableV2), (2, DurabilityKind::Resilient)] {
        let id = enter(&mut record, client, Caching::READ | Caching::HANDLE, kind);
        record.open_mut(id).expect("entered").durability.as_mut().expect("it has one").kind = kind;
    }
    lock(&mut record, OpenId { worker: SERVER, number: 1 });
    assert_eq!(record.persistent_parts(), Vec::new());
}

#[test]
fn restoring_a_record_twice_or_by_another_owner_changes_nothing() {
    let mut record = FileRecord::default();
    enter(&mut record, 3, Caching::all(), DurabilityKind::Persistent);
    let parts = record.persistent_parts();
    let mut after = restored(&record);
    assert_eq!(after.persistent_parts(), parts);
    after.restore(parts[0].1.clone(), NOW);
    assert_eq!(after.opens.len(), 1);
    let id = OpenId { worker: ServerId { pid: 9, unique_id: 9 }, number: 1 };
    after.reconnect(3 << 32, id, &mut WorkersToNotify::default()).expect("it waits");
    assert_eq!(after.persistent_parts(), parts);
}

#[test]
fn caching_that_is_being_broken_is_restored_as_broken() {
    let mut record = FileRecord::default();
    enter(&mut record, 3, Caching::all(), DurabilityKind::Persistent);
    enter(&mut record, 4, Caching::READ, DurabilityKind::Durable);
    assert!(record.lease(lease_of(3)).expect("it is there").cache.breaking.is_some());
    let after = restored(&record);
    let kept = after.lease(lease_of(3)).expect("it came back").cache;
    assert_eq!(kept, Cache::granted(Caching::READ | Caching::HANDLE));
}

/// The parts are saved one by one, so an older one may claim rights that have ended.
#[test]
fn two_clients_never_come_back_with_the_right_to_write_alone() {
    let alone = |client| {
        let mut record = FileRecord::default();
        enter(&mut record, client, Caching::all(), DurabilityKind::Persistent);
        record.persistent_parts().remove(0).1
    };
    let mut after = FileRecord::default();
    after.restore(alone(3), NOW);
    after.restore(alone(4), NOW);
    for client in [3, 4] {
        let state = after.lease(lease_of(client)).expect("it came back").cache.state;
        assert_eq!(state, Caching::READ | Caching::HANDLE);
    }
}
