use dtyp::{FileTime, Guid, ServerId};
use tempfile::TempDir;

use super::{Claim, MemoryTables, Registry, RegistryError, Removed};
use crate::record::{ClientRecord, Record, SessionRecord, TreeConnectRecord};
use crate::table::{Table, TableError};
use crate::typed_table::RECORDS_PER_PROCESS_MAX;

const SUPERVISOR: ServerId = ServerId { pid: 1, unique_id: 100 };
const WORKER: ServerId = ServerId { pid: 2, unique_id: 200 };
/// The worker's pid, reused later.
const SUCCESSOR: ServerId = ServerId { pid: 2, unique_id: 300 };
const THIRD: ServerId = ServerId { pid: 3, unique_id: 400 };

fn created() -> (TempDir, Registry) {
    let dir = tempfile::tempdir().expect("a folder");
    let registry = Registry::create(dir.path()).expect("nothing runs there");
    (dir, registry)
}

fn client(server_id: ServerId, guid: u8) -> ClientRecord {
    ClientRecord {
        server_id,
        client_guid: Guid([guid; 16]),
        is_claim: false,
        has_user: false,
        client_address: "127.0.0.1:50000".to_owned(),
        local_address: "127.0.0.1:445".to_owned(),
        dialect: 0x0311,
        connected_at: FileTime(1),
        signing_algorithm: Some(2),
        signing_required: true,
        cipher: Some(2),
    }
}

fn session(server_id: ServerId, session_id: u64) -> SessionRecord {
    SessionRecord {
        session_id,
        server_id,
        user: "user".to_owned(),
        domain: "DOMAIN".to_owned(),
        user_sid: "S-1-22-1-1000".to_owned(),
        client_address: "127.0.0.1:50000".to_owned(),
        dialect: 0x0311,
        signing_algorithm: Some(2),
        signing_required: true,
        cipher: Some(2),
        encrypted: false,
        created_at: FileTime(1),
    }
}

fn tree_connect(server_id: ServerId, session_id: u64, share: &str) -> TreeConnectRecord {
    TreeConnectRecord {
        session_id,
        tree_id: 1,
        share: share.to_owned(),
        server_id,
        encrypted: false,
        connected_at: FileTime(1),
        read_only: false,
    }
}

/// One of many, distinguished by their sessions.
fn tree(server_id: ServerId, session_id: u64) -> TreeConnectRecord {
    tree_connect(server_id, session_id, "other")
}

/// Checks a registry on any kind of table.
fn check_registry<T: Table>(registry: &Registry<T>) {
    let me = registry.server_id();
    registry.put_client(&client(me, 1)).expect("room");
    registry.put_session(&session(me, 10)).expect("room");
    registry.put_tree_connect(&tree_connect(me, 10, "data")).expect("room");

    let reauthenticated = SessionRecord { user: "other".to_owned(), ..session(me, 10) };
    registry.put_session(&reauthenticated).expect("in its place");
    assert_eq!(registry.find_session(10), Ok(Some(reauthenticated.clone())));
    assert_eq!(registry.find_session(11), Ok(None));

    assert_eq!(registry.list_clients().expect("readable").records, [client(me, 1)]);
    assert_eq!(registry.list_sessions().expect("readable").records, [reauthenticated]);
    let tree_connects = registry.list_tree_connects().expect("readable");
    assert_eq!(tree_connects.records, [tree_connect(me, 10, "data")]);
    assert_eq!(registry.count_tree_connects("data"), Ok(1));
    assert_eq!(registry.count_tree_connects("Data"), Ok(0));

    for there in [true, false] {
        assert_eq!(registry.remove_tree_connect(10, 1), Ok(there));
        assert_eq!(registry.remove_session(10), Ok(there));
        assert_eq!(registry.remove_client(Guid([1; 16])), Ok(there));
    }
    assert_eq!(registry.list_tree_connects().expect("readable").records, []);
}

#[test]
fn files_hold_a_registry() {
    let (_dir, registry) = created();
    check_registry(&registry);
}

#[test]
fn memory_holds_a_registry() {
    check_registry(&MemoryTables::default().registry(WORKER, SUPERVISOR));
}

#[test]
fn records_are_seen_by_other_processes_and_removed_by_their_owner_alone() {
    let tables = MemoryTables::default();
    let (worker, other) = (tables.registry(WORKER, SUPERVISOR), tables.registry(SUCCESSOR, WORKER));
    worker.put_session(&session(WORKER, 10)).expect("room");
    worker.put_tree_connect(&tree_connect(WORKER, 10, "data")).expect("room");
    assert_eq!(other.find_session(10), Ok(Some(session(WORKER, 10))));
    assert_eq!(other.count_tree_connects("data"), Ok(1));
    assert_eq!(other.remove_session(10), Ok(false));
    assert_eq!(other.remove_tree_connect(10, 1), Ok(false));
    assert_eq!(worker.remove_session(10), Ok(true));
}

fn check_remove_all<T: Table>(registry: &Registry<T>) {
    for volatile in 0..10_000 {
        registry.put_tree_connect(&tree(WORKER, 100 + volatile)).expect("room");
    }
    registry.put_client(&client(WORKER, 1)).expect("room");
    registry.put_client(&client(SUCCESSOR, 1)).expect("room");
    registry.put_session(&session(WORKER, 10)).expect("room");
    registry.put_session(&session(SUCCESSOR, 11)).expect("room");
    registry.put_tree_connect(&tree_connect(WORKER, 10, "data")).expect("room");
    registry.put_tree_connect(&tree_connect(SUCCESSOR, 11, "data")).expect("room");
    registry.put_tree_connect(&tree(SUCCESSOR, 5)).expect("room");

    let removed = registry.remove_all_of(&[WORKER]).expect("readable");
    let all = Removed { clients: 1, sessions: 1, tree_connects: 10_001 };
    assert_eq!(removed, all);
    assert_eq!(registry.remove_all_of(&[WORKER]), Ok(Removed::default()));
    assert_eq!(registry.list_clients().expect("readable").records, [client(SUCCESSOR, 1)]);
    assert_eq!(registry.list_sessions().expect("readable").records, [session(SUCCESSOR, 11)]);
    assert_eq!(registry.count_tree_connects("data"), Ok(1));
    assert_eq!(registry.count_tree_connects("other"), Ok(1));
}

/// Above all its successor with the same pid keeps its own.
#[test]
fn removing_all_of_the_dead_leaves_the_living_alone() {
    check_remove_all(&created().1);
    check_remove_all(&MemoryTables::default().registry(SUPERVISOR, SUPERVISOR));
}

#[test]
fn a_damaged_record_is_counted_and_passed_over() {
    let (_dir, registry) = created();
    let me = registry.server_id();
    registry.put_session(&session(me, 10)).expect("room");
    let mut bytes = Vec::new();
    session(WORKER, 11).encode(&mut bytes).expect("short");
    let insert = |id, value: &[u8]| {
        let key = SessionRecord::key_of(id);
        registry.sessions.table().insert(key.as_ref(), value).expect("room");
    };
    insert(11, &bytes[..bytes.len() - 1]);
    insert(12, &bytes);
    insert(13, b"");

    let listing = registry.list_sessions().expect("readable");
    assert_eq!((listing.records, listing.damaged), (vec![session(me, 10)], 3));
    for damaged in [11, 12, 13] {
        let found = registry.find_session(damaged);
        assert!(matches!(found, Err(TableError::Damaged(_))), "{found:?}");
    }
    // Owners of damaged records are still known, except for the empty record.
    assert_eq!(registry.remove_all_of(&[WORKER]).expect("readable").sessions, 2);
    assert_eq!(registry.list_sessions().expect("readable").damaged, 1);
}

#[test]
fn a_process_at_its_limit_gets_no_more_records_until_it_removes_one() {
    let registry = MemoryTables::default().registry(WORKER, SUPERVISOR);
    for session_id in 0..RECORDS_PER_PROCESS_MAX {
        registry.put_tree_connect(&tree(WORKER, session_id)).expect("below the limit");
    }
    let one_more = tree(WORKER, RECORDS_PER_PROCESS_MAX);
    assert_eq!(registry.put_tree_connect(&one_more), Err(TableError::Full));
    registry.put_tree_connect(&tree(WORKER, 0)).expect("not one more");
    assert_eq!(registry.remove_tree_connect(0, 1), Ok(true));
    assert_eq!(registry.remove_tree_connect(0, 1), Ok(false));
    registry.put_tree_connect(&one_more).expect("below the limit again");
    assert_eq!(registry.put_tree_connect(&tree(WORKER, 0)), Err(TableError::Full));
}

#[test]
fn without_a_server_there_is_nothing_to_observe_or_join() {
    let dir = tempfile::tempdir().expect("a folder");
    let check = || {
        let observed = Registry::observe(dir.path());
        assert!(matches!(observed, Err(RegistryError::NotRunning)), "{observed:?}");
        let joined = Registry::join(dir.path());
        assert!(matches!(joined, Err(RegistryError::NotRunning)), "{joined:?}");
    };
    check();
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0, "nothing is made");
    drop(Registry::create(dir.path()).expect("nothing runs there"));
    check();
}

#[test]
fn a_second_server_is_refused_with_the_pid_of_the_first() {
    let (dir, registry) = created();
    registry.put_session(&session(WORKER, 10)).expect("room");
    match Registry::create(dir.path()) {
        Err(RegistryError::AlreadyRunning { supervisor }) => {
            assert_eq!(supervisor, registry.server_id());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(registry.find_session(10), Ok(Some(session(WORKER, 10))));
}

#[test]
fn a_new_server_starts_with_empty_tables() {
    let (dir, registry) = created();
    registry.put_session(&session(WORKER, 10)).expect("room");
    drop(registry);
    let registry = Registry::create(dir.path()).expect("nothing runs there");
    assert_eq!(registry.list_sessions().expect("readable").records, []);
}

fn claim(server_id: ServerId) -> ClientRecord {
    ClientRecord { is_claim: true, ..client(server_id, 7) }
}

#[test]
fn a_worker_with_a_user_takes_the_claim_of_one_without() {
    let tables = MemoryTables::default();
    let [stranger, user, other] =
        [WORKER, SUCCESSOR, THIRD].map(|id| tables.registry(id, SUPERVISOR));
    let guid = claim(WORKER).client_guid;
    assert_eq!(stranger.claim_client(&claim(WORKER), None), Ok(Claim::Ours));
    assert_eq!(user.claim_client_of_user(guid), Ok(None), "it does not serve the client");
    for (registry, id) in [(&user, SUCCESSOR), (&other, THIRD)] {
        assert_eq!(registry.claim_client(&claim(id), None), Ok(Claim::Of(WORKER)));
        registry.put_client(&ClientRecord { is_claim: false, ..claim(id) }).expect("there is room");
    }
    assert_eq!(user.claim_client_of_user(guid), Ok(Some(Claim::Ours)));
    assert_eq!(user.find_claim(guid), Ok(Some(SUCCESSOR)));
    // Neither another user nor the stranger gets it back.
    assert_eq!(other.claim_client_of_user(guid), Ok(Some(Claim::Of(SUCCESSOR))));
    assert_eq!(stranger.claim_client(&claim(WORKER), None), Ok(Claim::Of(SUCCESSOR)));
    assert_eq!(stranger.remove_client(guid), Ok(false));
    assert_eq!(user.find_claim(guid), Ok(Some(SUCCESSOR)));
    assert_eq!(user.remove_client(guid), Ok(true));
    assert_eq!(other.claim_client_of_user(guid), Ok(Some(Claim::Ours)));
    let records = other.list_clients().expect("it can be read").records;
    assert_eq!(records.len(), 1, "{records:?}");
}

#[test]
fn a_client_is_claimed_by_one_process_until_that_lets_it_go() {
    let tables = MemoryTables::default();
    let first = tables.registry(WORKER, SUPERVISOR);
    let second = tables.registry(SUCCESSOR, SUPERVISOR);
    let guid = claim(WORKER).client_guid;
    assert_eq!(first.claim_client(&claim(WORKER), None), Ok(Claim::Ours));
    assert_eq!(first.claim_client(&claim(WORKER), None), Ok(Claim::Ours));
    assert_eq!(second.claim_client(&claim(SUCCESSOR), None), Ok(Claim::Of(WORKER)));
    // Serving the client does not change the claim.
    second.put_client(&client(SUCCESSOR, 7)).expect("there is room");
    assert_eq!(second.find_claim(guid), Ok(Some(WORKER)));
    assert_eq!(second.remove_client(guid), Ok(true));
    assert_eq!(second.find_claim(guid), Ok(Some(WORKER)));
    assert_eq!(first.remove_client(guid), Ok(true));
    assert_eq!(second.claim_client(&claim(SUCCESSOR), None), Ok(Claim::Ours));
}

#[test]
fn the_claim_of_a_process_that_is_gone_is_taken_over_once() {
    let tables = MemoryTables::default();
    let registry = |server_id| tables.registry(server_id, SUPERVISOR);
    assert_eq!(registry(WORKER).claim_client(&claim(WORKER), None), Ok(Claim::Ours));
    let taken = registry(SUCCESSOR).claim_client(&claim(SUCCESSOR), Some(WORKER));
    assert_eq!(taken, Ok(Claim::Ours));
    let late = registry(THIRD).claim_client(&claim(THIRD), Some(WORKER));
    assert_eq!(late, Ok(Claim::Of(SUCCESSOR)));
}
