//! Pending deletions are carried out, also if the last open ends without its worker: [MS-FSA]
//! 2.1.5.5.

use std::sync::Arc;
use std::time::Duration;

use arbitration::{
    Admission, AdmissionRequest, Caching, DeletionProgress, Durability, DurabilityKind, FileRecord,
    Holding, HostPath, LockSequences, OpenFacts, OpenId, Refusal, RequestedCaching, RequestingUser,
    ShareMode, Standing, WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId};

const DEAD: ServerId = ServerId { pid: 1, unique_id: 1 };
const OWNER: ServerId = ServerId { pid: 2, unique_id: 2 };
const OTHER: ServerId = ServerId { pid: 3, unique_id: 3 };
const KEPT: Duration = Duration::from_secs(60);
const LINK: u64 = 100;

fn ask(server: ServerId, number: u64, delete_on_close: bool) -> AdmissionRequest {
    let all = AccessMask::READ_DATA | AccessMask::DELETE;
    AdmissionRequest {
        id: OpenId { worker: server, number },
        standing: Standing::User,
        stream: 0,
        mode: ShareMode {
            granted_access: all,
            share_read: true,
            share_write: true,
            share_delete: true,
        },
        overwrites: false,
        is_new: false,
        size: 100,
        is_directory: false,
        delete_on_close,
        caching: RequestedCaching::Oplock(Caching::BATCH),
        caching_max: Caching::all(),
        shared_reading: true,
        has_waited: false,
        now: Duration::ZERO,
        deadline: Duration::from_secs(35),
        facts: OpenFacts {
            link: LINK,
            share: "data".to_owned(),
            folder: "srv/data".to_owned(),
            path: "folder\\file".to_owned(),
            ..OpenFacts::default()
        },
    }
}

fn durability() -> Durability {
    Durability {
        expires_at: None,
        timeout: KEPT,
        kind: DurabilityKind::DurableV2,
        create_guid: Guid([1; 16]),
        owner: "S-1-5-21-1".to_owned(),
        position: 0,
        lock_sequences: LockSequences::default(),
    }
}

/// Creates a record with one open that deletes the file on close.
fn record(durability: Option<Durability>) -> FileRecord {
    let mut record = FileRecord::default();
    let (admission, _) =
        record.admit(&mut ask(DEAD, 1, true), durability, &mut WorkersToNotify::default());
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
    record
}

fn admit(record: &mut FileRecord) -> Admission {
    record.admit(&mut ask(OTHER, 9, false), None, &mut WorkersToNotify::default()).0
}

/// Asserts that `deletion_owner` is notified and deletes.
#[track_caller]
fn check_deleted_by(record: &mut FileRecord, notify: WorkersToNotify, deletion_owner: ServerId) {
    assert!(notify.into_workers().contains(&deletion_owner), "it has to check the file");
    assert_eq!(admit(record), Admission::Wait, "it is as good as gone");
    let [deleter] = &record.take_delegated(deletion_owner)[..] else { panic!("{record:?}") };
    assert_eq!((deleter.mark, deleter.worker), (LINK, deletion_owner));
    assert_eq!(deleter.progress, DeletionProgress::Accepted);
    let by = &deleter.requester;
    let place = (&*by.share, &*by.folder, &*by.path);
    assert_eq!(place, ("data", "srv/data", "folder\\file"));
    assert_eq!(record.take_delegated(deletion_owner), [], "it is done once");
    assert_eq!(admit(record), Admission::Wait, "it is not done yet");
    let mut notify = WorkersToNotify::default();
    record.end_deletion(LINK, &mut notify);
    assert_eq!(notify.into_workers(), [OTHER], "who waits goes on");
    assert!(record.is_empty(), "{record:?}");
}

#[test]
fn an_expired_open_deletes_its_file() {
    let mut record = record(Some(durability()));
    let mut notify = WorkersToNotify::default();
    assert!(record.disconnect(OpenId { worker: DEAD, number: 1 }, 0, Duration::ZERO, &mut notify));
    assert_eq!(record.scavenge(KEPT, OWNER, &mut notify).len(), 1);
    check_deleted_by(&mut record, notify, OWNER);
}

#[test]
fn a_file_goes_with_an_open_that_gives_way() {
    let mut record = record(Some(durability()));
    let mut notify = WorkersToNotify::default();
    assert!(record.disconnect(OpenId { worker: DEAD, number: 1 }, 0, Duration::ZERO, &mut notify));
    let (admission, purged) = record.admit(&mut ask(OTHER, 2, false), None, &mut notify);
    assert_eq!((admission, purged.len()), (Admission::Wait, 1));
    check_deleted_by(&mut record, notify, OTHER);
}

#[test]
fn a_file_goes_with_a_worker() {
    let mut record = record(None);
    let mut notify = WorkersToNotify::default();
    record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut notify);
    check_deleted_by(&mut record, notify, OWNER);
}

#[test]
fn a_worker_without_resources_passes_a_deletion_on_once_it_has_accepted_it() {
    let mut record = record(None);
    let mut notify = WorkersToNotify::default();
    record.remove_worker(DEAD, OTHER, Duration::ZERO, &mut notify);
    assert!(!record.delegate_again(LINK, OTHER), "it has not begun");
    assert_eq!(record.take_delegated(OTHER).len(), 1);
    assert!(!record.delegate_again(LINK, OWNER), "it is another worker's");
    assert!(record.delegate_again(LINK, OTHER));
    let mut notify = WorkersToNotify::default();
    record.scavenge(Duration::ZERO, OWNER, &mut notify);
    check_deleted_by(&mut record, notify, OWNER);
}

#[test]
fn a_file_stays_as_long_as_somebody_has_it_open() {
    let mut record = record(None);
    record.open_mut(OpenId { worker: DEAD, number: 1 }).expect("it is open").holding =
        Holding::Nothing;
    let other = OpenId { worker: OTHER, number: 2 };
    let (admission, _) =
        record.admit(&mut ask(OTHER, 2, false), None, &mut WorkersToNotify::default());
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
    let mut notify = WorkersToNotify::default();
    record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut notify);
    assert_eq!(record.take_delegated(OWNER), []);
    assert_eq!(admit(&mut record), Admission::Refused(Refusal::DeletePending));
    assert_eq!(
        record.close(other, false, None, &mut notify).unlink,
        Some(LINK),
        "its last user deletes it"
    );
}

#[test]
fn a_deletion_owner_that_dies_leaves_its_deletions_to_the_next() {
    for has_begun in [false, true] {
        let mut record = record(None);
        record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut WorkersToNotify::default());
        if has_begun {
            assert_eq!(record.take_delegated(OWNER).len(), 1);
        }
        let mut notify = WorkersToNotify::default();
        record.remove_worker(OWNER, OTHER, Duration::ZERO, &mut notify);
        check_deleted_by(&mut record, notify, OTHER);
    }
    let mut record = record(None);
    record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut WorkersToNotify::default());
    let mut notify = WorkersToNotify::default();
    record.scavenge(Duration::ZERO, OTHER, &mut notify);
    check_deleted_by(&mut record, notify, OTHER);
}

#[test]
fn a_deletion_begun_by_a_dead_worker_is_delegated() {
    let mut record = record(None);
    let id = OpenId { worker: DEAD, number: 1 };
    assert_eq!(record.close(id, true, None, &mut WorkersToNotify::default()).unlink, Some(LINK));
    let mut notify = WorkersToNotify::default();
    record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut notify);
    check_deleted_by(&mut record, notify, OWNER);
}

#[test]
fn a_name_of_posix_is_left_whole_and_a_stream_leaves_the_name_of_its_file() {
    for (stream, path, is_posix, want) in
        [(0, "d\\a:b", true, "d\\a:b"), (7, "d\\a:stream", false, "d\\a")]
    {
        let mut record = FileRecord::default();
        let mut ask = AdmissionRequest { stream, ..ask(DEAD, 1, false) };
        ask.facts = OpenFacts { path: path.to_owned(), is_posix, ..ask.facts };
        let (admission, _) = record.admit(&mut ask, None, &mut WorkersToNotify::default());
        assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
        record.set_delete_pending(LINK, true, None);
        record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut WorkersToNotify::default());
        let [deleter] = &record.take_delegated(OWNER)[..] else { panic!("{record:?}") };
        assert_eq!((&*deleter.requester.path, deleter.requester.is_posix), (want, is_posix));
    }
}

/// Its deletion has the path of the file: after a rename it would find nothing.
#[test]
fn a_stream_that_goes_with_a_disconnected_open_keeps_the_name_of_its_file() {
    for (delete_on_close, want) in [(true, true), (false, false)] {
        let mut record = FileRecord::default();
        let mut ask = AdmissionRequest { stream: 7, ..ask(DEAD, 1, delete_on_close) };
        let mut notify = WorkersToNotify::default();
        record.admit(&mut ask, Some(durability()), &mut notify);
        assert!(record.disconnect(ask.id, 0, Duration::ZERO, &mut notify));
        assert_eq!(record.has_other_streams_open(0), want);
        assert!(!record.has_other_streams_open(7), "itself");
    }
}

/// The path of the stream may lead to the same file through a link by then.
#[test]
fn a_deletion_of_a_stream_keeps_the_name_of_its_file() {
    let mut record = FileRecord::default();
    let mut ask = AdmissionRequest { stream: 7, ..ask(DEAD, 1, true) };
    record.admit(&mut ask, None, &mut WorkersToNotify::default());
    record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut WorkersToNotify::default());
    let [deleter] = &record.take_delegated(OWNER)[..] else { panic!("{record:?}") };
    assert_eq!((deleter.mark, deleter.requester.link), (7, LINK));
}

fn user(name: &str) -> Arc<RequestingUser> {
    Arc::new(RequestingUser {
        name: name.to_owned(),
        domain: "LAB".to_owned(),
        is_guest: false,
        client: "192.0.2.1:50000".parse().expect("an address and a port"),
        client_name: String::new(),
        server: "192.0.2.9:445".parse().expect("an address and a port"),
        dialect: 0x0311,
        recycle_bin: String::new(),
        rights: None,
    })
}

/// The later one may be an open of attributes, in a share that can only be read.
#[test]
fn a_deletion_has_share_name_and_user_of_the_open_that_marked_the_file() {
    let (marker, last) = (OpenId { worker: OTHER, number: 1 }, OpenId { worker: DEAD, number: 2 });
    for ends_by_a_crash in [false, true] {
        let mut record = FileRecord::default();
        let mut notify = WorkersToNotify::default();
        let mut requests = [ask(OTHER, 1, false), ask(DEAD, 2, false)];
        requests[1].facts.share = "other".to_owned();
        for request in &mut requests {
            request.caching = RequestedCaching::Nothing;
            let (admission, _) = record.admit(request, None, &mut notify);
            assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
        }
        record.request_deletion(marker, None, Some(user("anna")));
        assert_eq!(record.close(marker, false, None, &mut notify).unlink, None);
        let requester = if ends_by_a_crash {
            record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut notify);
            record.take_delegated(OWNER).pop().expect("it is delegated").requester
        } else {
            let closed = record.close(last, false, None, &mut notify);
            assert_eq!(closed.unlink, Some(LINK));
            closed.requester.expect("it is known")
        };
        assert!(requester.deletes_as("data", "srv/data", Some(&user("anna"))));
        assert!(!requester.deletes_as("data", "srv/data", Some(&user("carl"))));
        assert!(!requester.deletes_as("data", "srv/data", None));
        assert!(!requester.deletes_as("other", "srv/data", Some(&user("anna"))));
        assert!(!requester.deletes_as("data", "srv", Some(&user("anna"))));
    }
}

/// Its user is not known. Another user who closes last does not stand for it.
#[test]
fn a_crash_of_the_open_that_deletes_leaves_its_share_to_the_deletion() {
    let mut record = record(None);
    let mut request = ask(OTHER, 2, false);
    request.facts.share = "other".to_owned();
    request.caching = RequestedCaching::Nothing;
    record.opens[0].holding = Holding::Nothing;
    let mut notify = WorkersToNotify::default();
    let (admission, _) = record.admit(&mut request, None, &mut notify);
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
    record.remove_worker(DEAD, OWNER, Duration::ZERO, &mut notify);
    let closed = record.close(OpenId { worker: OTHER, number: 2 }, false, None, &mut notify);
    let requester = closed.requester.expect("its share is known");
    assert_eq!((&*requester.share, requester.user), ("data", None));
}

#[test]
fn a_renamed_file_is_deleted_by_its_new_name() {
    let mut record = record(None);
    let mut notify = WorkersToNotify::default();
    let id = OpenId { worker: DEAD, number: 1 };
    record.request_deletion(id, None, None);
    let at = |folder, path| HostPath { folder, path, on_disk: None };
    let (old, other) = (at("srv/other", "folder\\file"), at("srv/other", "folder\\other"));
    record.renamed(old, other, &mut notify);
    let new = HostPath { on_disk: Some("folder/on disk"), ..at("srv/data", "folder\\new") };
    record.renamed(at("srv/data", "folder\\file"), new, &mut notify);
    record.relinked(LINK, LINK + 1);
    let requester = record.close(id, false, None, &mut notify).requester.expect("it is known");
    assert_eq!((requester.link, &*requester.path), (LINK + 1, "folder\\new"));
    assert_eq!(requester.path_on_disk.as_deref(), Some("folder/on disk"));
}
