use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{
    AdmissionRequest, ByteRange, ByteRangeLock, Caching, Deleter, DeletionProgress, Durability,
    DurabilityKind, FileKey, FileRecord, FileRecords, FileWord, LeaseId, LockSequence,
    LockSequences, OpenFacts, OpenId, RecordsError, RequestedCaching, Requester, RequestingUser,
    ShareMode, Standing, UserRights, WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId, Sid};
use tdb::Tdb;

use super::{DeadWorkers, FileTable, MemoryFiles, Restored, Scavenged, codec};
use crate::memory::MemoryTable;
use crate::table::{Table, TableError};

pub(super) const KEY: FileKey = FileKey { device: 1, inode: 2 };
pub(super) const WORKER: ServerId = ServerId { pid: 10, unique_id: 11 };
pub(super) const OTHER: ServerId = ServerId { pid: 20, unique_id: 21 };
const THIRD: ServerId = ServerId { pid: 30, unique_id: 31 };

pub(super) fn ask(worker: ServerId, number: u64, caching: RequestedCaching) -> AdmissionRequest {
    AdmissionRequest {
        id: OpenId { worker, number },
        standing: Standing::User,
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
        is_directory: false,
        delete_on_close: false,
        caching,
        caching_max: Caching::all(),
        shared_reading: true,
        has_waited: false,
        now: Duration::ZERO,
        deadline: Duration::from_secs(35),
        facts: OpenFacts {
            persistent: number << 32,
            share: "data".to_owned(),
            folder: "srv/data".to_owned(),
            path: "dir\\file".to_owned(),
            ..OpenFacts::default()
        },
    }
}

pub(super) fn durability() -> Durability {
    Durability {
        expires_at: None,
        timeout: Duration::from_secs(60),
        kind: DurabilityKind::Persistent,
        create_guid: Guid([1; 16]),
        owner: "S-1-5-21-1".to_owned(),
        position: 9,
        lock_sequences: LockSequences::from_entries([LockSequence { index: 3, number: 15 }]),
    }
}

fn lease(key: u8) -> RequestedCaching {
    let id = LeaseId { client: Guid([2; 16]), key: [key; 16] };
    RequestedCaching::Lease {
        id,
        state: Caching::all(),
        epoch: 7,
        is_v2: true,
        parent: Some([9; 16]),
    }
}

/// A user with content in every field.
fn user() -> RequestingUser {
    RequestingUser {
        name: "anna".to_owned(),
        domain: "LAB".to_owned(),
        is_guest: false,
        client: "[fe80::1%2]:50000".parse().expect("an address and a port"),
        client_name: "laptop".to_owned(),
        server: "192.0.2.9:445".parse().expect("an address and a port"),
        dialect: 0x0311,
        recycle_bin: ".recycle/anna".to_owned(),
        rights: Some(Arc::new(UserRights {
            uid: 2_001,
            gid: 100,
            groups: vec![7, 8],
            sid: Some(Sid::new(5, &[21, 1, 2, 3, 1_000])),
            sids: vec![Sid::everyone(), Sid::users()],
        })),
    }
}

/// A record with content in every field.
fn full() -> FileRecord {
    let mut record = FileRecord::default();
    let mut notify = WorkersToNotify::default();
    let mut holder = ask(WORKER, 1, lease(3));
    holder.facts.path_on_disk = Some("d:r/file".to_owned());
    record.admit(&mut holder, Some(durability()), &mut notify);
    let mut writer = ask(OTHER, 2, RequestedCaching::Oplock(Caching::BATCH));
    writer.facts.path_on_disk = Some("d:r/file".to_owned());
    writer.stream = 5;
    record.admit(&mut writer, None, &mut notify);
    record.admit(&mut ask(OTHER, 3, RequestedCaching::Nothing), None, &mut notify);
    let range = ByteRange { offset: 1, length: u64::MAX };
    let open = OpenId { worker: WORKER, number: 1 };
    let lock = ByteRangeLock { open, stream: 0, range, exclusive: true };
    record.acquire_locks(&[lock], Standing::User).expect("nothing is locked");
    record.set_delete_pending(5, true, Some([7; 16]));
    record.request_deletion(open, Some([8; 16]), Some(Arc::new(user())));
    record.deleters.push(Deleter {
        mark: 7,
        worker: OTHER,
        progress: DeletionProgress::Delegated,
        requester: Requester {
            link: 8,
            share: "data".to_owned(),
            folder: "srv/data".to_owned(),
            path: "dir\\gone".to_owned(),
            path_on_disk: Some("d:r/gone".to_owned()),
            is_posix: true,
            user: None,
        },
    });
    record
}

#[test]
fn records_round_trip() {
    let record = full();
    assert!(!record.waiters.is_empty(), "the last open waits for the lease");
    let bytes = codec::encode(&record).expect("short texts");
    assert_eq!(codec::decode(&bytes), Ok(record));
    for len in 0..bytes.len() {
        assert!(codec::decode(&bytes[..len]).is_err(), "{len} bytes are no record");
    }
}

#[test]
fn a_record_without_opens_is_gone() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    let open = OpenId { worker: WORKER, number: 1 };
    let enter = &mut |record: &mut FileRecord| {
        record.admit(
            &mut ask(WORKER, 1, RequestedCaching::Nothing),
            None,
            &mut WorkersToNotify::default(),
        );
        true
    };
    files.change(KEY, enter).expect("room");
    let mut seen = Vec::new();
    files.for_each(&mut |key, record| seen.push((key, record.opens.len()))).expect("readable");
    assert_eq!(seen, [(KEY, 1)]);
    files
        .change(KEY, &mut |record| {
            record.close(open, false, None, &mut WorkersToNotify::default());
            true
        })
        .expect("room");
    assert_eq!(tables.files.get(&codec::key_of(KEY), |_| ()), Ok(None));
}

#[test]
fn the_shared_word_follows_the_record() {
    let files = MemoryFiles::default().handle();
    assert_eq!(files.word(KEY), FileWord::default());
    files
        .change(KEY, &mut |record| {
            *record = full();
            true
        })
        .expect("room");
    assert_eq!(files.word(KEY), FileWord { locks: 1, readers: 2 });
    files
        .change(KEY, &mut |record| {
            *record = FileRecord::default();
            true
        })
        .expect("room");
    assert_eq!(files.word(KEY), FileWord::default());
}

/// Removes one dead worker from all files.
pub(super) fn remove_worker<T: Table + std::fmt::Debug>(
    files: &FileTable<T>,
    worker: ServerId,
    deletion_owner: ServerId,
    now: Duration,
) -> Result<Vec<(FileKey, Vec<ServerId>)>, TableError> {
    let mut dead = DeadWorkers::default();
    dead.add(worker);
    let mut to_notify = Vec::new();
    while !dead.is_empty() {
        let (part, error) = files.remove_dead(&mut dead, deletion_owner, now);
        to_notify.extend(part);
        if let Some(error) = error {
            return Err(error);
        }
    }
    Ok(to_notify)
}

/// Adds opens of a worker, of files with these inodes.
fn open_each<T: Table + std::fmt::Debug>(
    files: &FileTable<T>,
    worker: ServerId,
    inodes: impl Iterator<Item = u64>,
) {
    for inode in inodes {
        let enter = &mut |record: &mut FileRecord| {
            let mut ask = ask(worker, inode, RequestedCaching::Nothing);
            record.admit(&mut ask, None, &mut WorkersToNotify::default());
            true
        };
        files.change(FileKey { device: 1, inode }, enter).expect("room");
    }
}

#[test]
fn workers_that_die_together_cost_one_search_of_all_files() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    let mut dead = DeadWorkers::default();
    for pid in 100..150 {
        let worker = ServerId { pid, unique_id: 1 };
        open_each(&files, worker, 1..3);
        dead.add(worker);
    }
    open_each(&files, OTHER, 1..2);
    let before = tables.walks();
    while !dead.is_empty() {
        let (_, error) = files.remove_dead(&mut dead, OTHER, Duration::ZERO);
        assert!(error.is_none(), "{error:?}");
    }
    assert_eq!(tables.walks() - before, 1);
    let mut left = Vec::new();
    files.for_each(&mut |_, record| left.extend(record.opens)).expect("readable");
    assert_eq!(left.iter().map(|it| it.id.worker).collect::<Vec<_>>(), [OTHER]);
}

#[test]
fn a_search_of_all_files_has_parts_and_a_worker_that_dies_meanwhile_has_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = FileTable::create(dir.path(), dir.path()).expect("new tables");
    open_each(&files, WORKER, 1..200);
    open_each(&files, OTHER, 100..300);
    let mut dead = DeadWorkers::default();
    dead.add(WORKER);
    let (mut parts, mut changed) = (0, 0);
    while !dead.is_empty() {
        let (to_notify, error) = files.remove_dead(&mut dead, THIRD, Duration::ZERO);
        assert!(error.is_none(), "{error:?}");
        assert!(to_notify.len() <= 16, "other clients wait meanwhile");
        changed += to_notify.len();
        parts += 1;
        if parts == 40 {
            dead.add(OTHER);
        }
    }
    assert!(parts > 2 * 20_011 / 256, "{parts}");
    assert_eq!(changed, 199 + 200);
    files.for_each(&mut |_, record| panic!("{record:?} is left")).expect("readable");
}

#[test]
fn a_dead_worker_leaves_its_durable_opens_and_wakes_waiting_workers() {
    let files = MemoryFiles::default().handle();
    files
        .change(KEY, &mut |record| {
            *record = full();
            true
        })
        .expect("room");
    let now = Duration::from_secs(1);
    let to_notify = remove_worker(&files, WORKER, OTHER, now).expect("readable");
    assert_eq!(to_notify, [(KEY, vec![OTHER])]);
    assert_eq!(files.find_disconnected(1 << 32), Some(KEY));
    let to_notify = remove_worker(&files, OTHER, THIRD, now).expect("readable");
    assert_eq!(to_notify.len(), 1);
    let mut opens = Vec::new();
    files.for_each(&mut |_, record| opens.extend(record.opens)).expect("readable");
    assert_eq!(opens.len(), 1);
    assert!(opens[0].is_disconnected());
    // Its client does not come back.
    files.scavenge(OTHER, Duration::from_secs(60)).expect("readable");
    assert_eq!(files.find_disconnected(1 << 32), Some(KEY));
    files.scavenge(OTHER, Duration::from_secs(62)).expect("readable");
    files.scavenge(OTHER, Duration::from_secs(62)).expect("readable");
    assert_eq!(files.find_disconnected(1 << 32), None);
    // The deletion owner carries out its pending deletions.
    let delete = &mut |record: &mut FileRecord| {
        for deleter in record.take_delegated(OTHER) {
            record.end_deletion(deleter.mark, &mut WorkersToNotify::default());
        }
        true
    };
    files.change(KEY, delete).expect("room");
    files.for_each(&mut |_, record| panic!("{record:?} is left")).expect("readable");
}

#[test]
fn a_dead_workers_pending_deletion_is_kept_until_it_is_done() {
    let files = MemoryFiles::default().handle();
    let enter = &mut |record: &mut FileRecord| {
        let mut ask =
            AdmissionRequest { delete_on_close: true, ..ask(WORKER, 1, RequestedCaching::Nothing) };
        record.admit(&mut ask, None, &mut WorkersToNotify::default());
        true
    };
    files.change(KEY, enter).expect("room");
    let to_notify = remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    assert_eq!(to_notify, [(KEY, vec![OTHER])]);
    // The message may be lost, more than once.
    for deletion_owner in [WORKER, OTHER] {
        let to_notify = files.scavenge(deletion_owner, Duration::ZERO).expect("readable").to_notify;
        assert_eq!(to_notify, [(KEY, vec![deletion_owner])]);
    }
    let delete = &mut |record: &mut FileRecord| {
        let [deleter] = &record.take_delegated(OTHER)[..] else { panic!("{record:?}") };
        record.end_deletion(deleter.mark, &mut WorkersToNotify::default());
        true
    };
    files.change(KEY, delete).expect("room");
    let scavenge = || files.scavenge(OTHER, Duration::ZERO).expect("readable");
    assert_eq!(scavenge().to_notify, [(KEY, Vec::new())]);
    assert_eq!(scavenge(), Scavenged::default(), "nothing is find_note any more");
}

#[test]
fn a_damaged_record_is_reported_and_goes_with_the_next_dead_worker() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    tables.files.insert(&codec::key_of(KEY), &[77; 40]).expect("room");
    assert_eq!(files.change(KEY, &mut |_| panic!("nothing to decide")), Err(RecordsError::Damaged));
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    files.change(KEY, &mut |_| false).expect("it is gone");
    let create_guid = (Guid([2; 16]), Guid([1; 16]));
    let owner = "S-1-5-21-1".to_owned();
    let at = Disconnected { persistent: 3, file: KEY, create_guid, owner };
    files.put_disconnected(&at, Duration::ZERO).expect("room");
    files.scavenge(OTHER, Duration::ZERO).expect("readable");
    assert_eq!(files.find_disconnected(3), None);
}

/// One persistent open with a lease and a lock, among opens that end with the server.
fn enter_full(files: &impl FileRecords) {
    let enter = &mut |record: &mut FileRecord| {
        *record = full();
        true
    };
    files.change(KEY, enter).expect("room");
}

/// One open, without any damage.
const CAME_BACK: Restored = Restored { opens: 1, damaged: 0, was_mended: false };

#[test]
fn persistent_opens_lie_in_the_state_directory_until_they_are_closed() {
    let dir = tempfile::tempdir().expect("a folder");
    let start = || FileTable::create(dir.path(), dir.path()).expect("our folder");
    let now = Duration::from_secs(9);
    enter_full(&start());
    // Stopped in the middle of a change, and twice.
    assert_eq!(start().restore(now), Ok(CAME_BACK));
    let files = start();
    assert_eq!(files.restore(now), Ok(CAME_BACK));
    assert_eq!(files.find_disconnected(1 << 32), Some(KEY));
    assert_eq!(files.find_create_guid(Guid::ZERO, Guid([1; 16])), Some((1 << 32, KEY)));
    let mut seen = Vec::new();
    files.for_each(&mut |_, record| seen.push(record)).expect("readable");
    let [record] = &seen[..] else { panic!("one file: {seen:?}") };
    assert_eq!((record.opens.len(), record.leases.len()), (1, 1));
    assert_eq!(record.locks.len(), 1);
    assert_eq!(files.word(KEY), FileWord { locks: 1, readers: 1 });
    files.scavenge(OTHER, now + Duration::from_secs(60)).expect("readable");
    drop(files);
    assert_eq!(start().restore(now), Ok(Restored::default()));
}

#[test]
fn damaged_records_are_lost_and_counted() {
    let tables = MemoryFiles::default();
    enter_full(&tables.handle());
    tables.persistent.insert(b"key", &[77; 40]).expect("room");
    let after = tables.after_restart().handle();
    assert_eq!(after.restore(Duration::ZERO), Ok(Restored { damaged: 1, ..CAME_BACK }));
    let again = tables.after_restart().handle();
    assert_eq!(again.restore(Duration::ZERO), Ok(CAME_BACK));
}

/// Makes free space contradict the rest, as a loss of power does.
fn break_free_space(path: &Path) {
    const FREE: [u8; 4] = 0xD9FE_E666_u32.to_le_bytes();
    let mut bytes = std::fs::read(path).expect("ours");
    let free = bytes.windows(4).rposition(|window| window == FREE).expect("some space is free");
    // The fields before the magic: next, rec_len, key_len, data_len, full_hash.
    bytes[free - 16..free - 12].copy_from_slice(&0x00FF_FFF0_u32.to_le_bytes());
    std::fs::write(path, bytes).expect("ours");
}

#[test]
fn persistent_opens_come_back_from_a_table_in_disorder() {
    let dir = tempfile::tempdir().expect("a folder");
    let start = || FileTable::create(dir.path(), dir.path()).expect("our folder");
    enter_full(&start());
    break_free_space(&dir.path().join("persistent_opens.tdb"));
    let mended = Restored { was_mended: true, ..CAME_BACK };
    assert_eq!(start().restore(Duration::ZERO), Ok(mended));
    assert_eq!(start().restore(Duration::ZERO), Ok(CAME_BACK), "it is whole now");
}

#[test]
fn a_table_that_cannot_be_mended_keeps_no_other_from_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = FileTable::create(dir.path(), dir.path()).expect("our folder");
    enter_full(&files);
    let copy = dir.path().join("copy");
    std::fs::copy(dir.path().join("files.tdb"), &copy).expect("ours");
    break_free_space(&copy);
    // An observer cannot rewrite the table.
    let files = FileTable { files: Tdb::observe(&copy).expect("ours"), ..files };
    let mended = files.mend();
    let is_ok: Vec<_> = mended.iter().map(|(name, mended)| (*name, mended.is_ok())).collect();
    let want = [("files.tdb", false), ("disconnected.tdb", true), ("persistent_opens.tdb", true)];
    assert_eq!(is_ok, want);
}

#[test]
fn a_file_of_something_else_does_not_keep_the_server_from_starting() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("persistent_opens.tdb"), [0x55; 4_000]).expect("our folder");
    let files = FileTable::create(dir.path(), dir.path()).expect("it is put aside");
    assert_eq!(files.restore(Duration::ZERO).expect("readable").opens, 0);
    enter_full(&files);
}

#[test]
fn a_file_without_persistent_opens_leaves_stable_storage_alone() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    let enter = &mut |record: &mut FileRecord| {
        record.admit(
            &mut ask(WORKER, 1, RequestedCaching::Nothing),
            None,
            &mut WorkersToNotify::default(),
        );
        true
    };
    files.change(KEY, enter).expect("room");
    assert_eq!(tables.persistent.updates(), 0);
}

#[test]
fn a_record_that_another_process_has_changed_is_read_anew() {
    let tables = MemoryFiles::default();
    let (ours, theirs) = (tables.handle(), tables.handle());
    let enter = |files: &FileTable<MemoryTable>, number| {
        files
            .change(KEY, &mut |record| {
                let mut ask = ask(WORKER, number, RequestedCaching::Nothing);
                record.admit(&mut ask, None, &mut WorkersToNotify::default());
                true
            })
            .expect("room");
    };
    let opens = |files: &FileTable<MemoryTable>| {
        let mut opens = 0;
        files.view(KEY, &mut |record| opens = record.opens.len()).expect("readable");
        opens
    };
    assert_eq!(opens(&ours), 0);
    enter(&ours, 1);
    assert_eq!((opens(&ours), opens(&theirs)), (1, 1));
    enter(&theirs, 2);
    assert_eq!((opens(&ours), opens(&ours), opens(&theirs)), (2, 2, 2));
    // A decision that is not stored must leave no trace in the cached copy.
    let spoil = &mut |record: &mut FileRecord| {
        record.opens.clear();
        false
    };
    ours.change(KEY, spoil).expect("readable");
    assert_eq!(opens(&ours), 2);
    enter(&ours, 3);
    assert_eq!((opens(&ours), opens(&theirs)), (3, 3));
}
