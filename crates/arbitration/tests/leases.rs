//! Caching of several clients: the rules of oplocks and leases, one claim each.

use std::time::Duration;

use arbitration::{
    AckError, Admission, AdmissionRequest, ByteRange, ByteRangeLock, Cache, Caching, Durability,
    DurabilityKind, FileRecord, Granted, LeaseId, LockSequences, OpenFacts, OpenId, OutgoingBreak,
    Refusal, RequestedCaching, ShareMode, Standing, WorkersToNotify,
};
use dtyp::{AccessMask, Guid, ServerId};

const R: Caching = Caching::READ;
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RW: Caching = Caching::EXCLUSIVE;
const RWH: Caching = Caching::BATCH;
const NONE: Caching = Caching::empty();

/// Time for an acknowledgment of a break.
const TIMEOUT: Duration = Duration::from_secs(35);

const READ_WRITE: AccessMask = AccessMask::READ_DATA.union(AccessMask::WRITE_DATA);

/// A record with opens of a few workers.
#[derive(Default)]
struct File {
    record: FileRecord,
    opens: u64,
    now: Duration,
}

fn server(number: u32) -> ServerId {
    ServerId { pid: number, unique_id: number.into() }
}

fn lease(server: u32, key: u8) -> LeaseId {
    let client = Guid([u8::try_from(server).expect("a few workers"); 16]);
    LeaseId { client, key: [key; 16] }
}

fn lease_wish(server: u32, key: u8, state: Caching) -> RequestedCaching {
    RequestedCaching::Lease { id: lease(server, key), state, epoch: 0, is_v2: true, parent: None }
}

/// Requests an open of a worker that shares everything.
fn ask(worker: u32, caching: RequestedCaching) -> AdmissionRequest {
    let mode = ShareMode {
        granted_access: READ_WRITE,
        share_read: true,
        share_write: true,
        share_delete: true,
    };
    AdmissionRequest {
        id: OpenId { worker: server(worker), number: 0 },
        standing: Standing::User,
        stream: 0,
        mode,
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
        deadline: TIMEOUT,
        facts: OpenFacts::default(),
    }
}

fn durability(kind: DurabilityKind) -> Durability {
    Durability {
        expires_at: None,
        timeout: Duration::from_secs(60),
        kind,
        create_guid: Guid::ZERO,
        owner: String::new(),
        position: 0,
        lock_sequences: LockSequences::default(),
    }
}

impl File {
    fn admit_with(
        &mut self,
        ask: AdmissionRequest,
        durability: Option<Durability>,
    ) -> (Admission, OpenId) {
        self.opens += 1;
        let id = OpenId { number: self.opens, ..ask.id };
        let mut facts = ask.facts.clone();
        facts.persistent = self.opens;
        let mut ask =
            AdmissionRequest { id, now: self.now, deadline: self.now + TIMEOUT, facts, ..ask };
        (self.record.admit(&mut ask, durability, &mut WorkersToNotify::default()).0, id)
    }

    fn admit(&mut self, ask: AdmissionRequest) -> Admission {
        self.admit_with(ask, None).0
    }

    #[track_caller]
    fn granted(&mut self, ask: AdmissionRequest) -> (Granted, OpenId) {
        match self.admit_with(ask, None) {
            (Admission::Granted(granted), id) => (granted, id),
            (other, _) => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn durable(&mut self, ask: AdmissionRequest, kind: DurabilityKind) -> OpenId {
        let (admission, id) = self.admit_with(ask, Some(durability(kind)));
        let Admission::Granted(granted) = admission else { panic!("{admission:?}") };
        assert!(granted.is_durable);
        id
    }

    /// Has an open lock the first ten bytes for itself.
    fn lock(&mut self, open: OpenId) {
        let range = ByteRange { offset: 0, length: 10 };
        let lock = ByteRangeLock { open, stream: 0, range, exclusive: true };
        self.record.acquire_locks(&[lock], Standing::User).expect("nobody else has it");
    }

    /// Asserts a worker's only break notification: from, to, and whether an acknowledgment is
    /// required.
    #[track_caller]
    fn notice(&mut self, worker: u32) -> (Caching, Caching, bool) {
        let sent = self.record.take_notices(server(worker), |_| true);
        let [OutgoingBreak { notice, .. }] = sent[..] else { panic!("one notice: {sent:?}") };
        (notice.from, notice.to, notice.ack_required)
    }

    fn acknowledge(&mut self, id: LeaseId, kept: Caching) -> Result<(), AckError> {
        let deadline = self.now + TIMEOUT;
        self.record.acknowledge_lease(id, kept, deadline, &mut WorkersToNotify::default())
    }

    #[track_caller]
    fn state(&self, id: LeaseId) -> Caching {
        self.record.lease(id).expect("a lease that is held").cache.state
    }
}

#[test]
fn a_lone_client_is_granted_its_requested_caching() {
    for state in [R, RH, RW, RWH] {
        let (granted, _) = File::default().granted(ask(1, lease_wish(1, 1, state)));
        assert_eq!(granted.caching, state);
    }
}

#[test]
fn nothing_is_kept_without_reading() {
    for state in [Caching::HANDLE, Caching::WRITE, Caching::HANDLE | Caching::WRITE] {
        let (granted, _) = File::default().granted(ask(1, lease_wish(1, 1, state)));
        assert_eq!(granted.caching, NONE);
    }
}

#[test]
fn the_same_lease_is_never_broken_by_its_own_opens() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    let (granted, _) = file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(granted.caching, RWH);
    assert_eq!(file.record.take_notices(server(1), |_| true), []);
}

#[test]
fn another_client_waits_until_writes_are_given_back() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, lease_wish(2, 1, RWH))), Admission::Wait);
    assert_eq!(file.notice(1), (RWH, RH, true));
    assert_eq!(file.acknowledge(lease(1, 1), RH), Ok(()));
    let (granted, _) = file.granted(ask(2, lease_wish(2, 1, RWH)));
    assert_eq!((granted.caching, file.state(lease(1, 1))), (RH, RH));
}

#[test]
fn a_client_may_give_back_more_than_it_was_told() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.acknowledge(lease(1, 1), NONE), Ok(()));
    assert_eq!(file.state(lease(1, 1)), NONE);
}

#[test]
fn a_client_may_not_keep_more_than_it_was_told() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.acknowledge(lease(1, 1), RWH), Err(AckError::TooMuch));
    assert_eq!(file.acknowledge(lease(1, 1), RW), Err(AckError::TooMuch));
    assert_eq!(file.acknowledge(lease(1, 1), RH), Ok(()));
    assert_eq!(file.acknowledge(lease(1, 1), RH), Err(AckError::NotBreaking));
}

#[test]
fn a_sharing_conflict_waits_for_the_break_of_handle_caching_only() {
    let mut file = File::default();
    let mut alone = ask(1, lease_wish(1, 1, RWH));
    alone.mode.share_write = false;
    file.granted(alone);
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.notice(1), (RWH, RW, true));
    // The application really has the file open.
    assert_eq!(file.acknowledge(lease(1, 1), RW), Ok(()));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Refused(Refusal::Sharing));
}

#[test]
fn emptying_a_file_takes_everything() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    let empties =
        AdmissionRequest { overwrites: true, is_new: true, ..ask(2, RequestedCaching::Nothing) };
    assert_eq!(file.admit(empties), Admission::Wait);
    assert_eq!(file.notice(1), (RWH, NONE, true));
}

#[test]
fn readers_keep_handle_caching_until_the_file_is_emptied() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RH)));
    file.granted(ask(2, RequestedCaching::Nothing));
    assert_eq!(file.record.take_notices(server(1), |_| true), []);
}

#[test]
fn a_break_that_gets_harder_is_sent_in_steps() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    let writer = OpenId { worker: server(2), number: 99 };
    assert_eq!(file.notice(1), (RWH, RH, true));
    file.record.break_reading(writer, 0, TIMEOUT, &mut WorkersToNotify::default());
    // One break at a time: the next follows its acknowledgment.
    assert_eq!(file.record.take_notices(server(1), |_| true), []);
    assert_eq!(file.acknowledge(lease(1, 1), RH), Ok(()));
    assert_eq!(file.notice(1), (RH, R, true));
    assert_eq!(file.acknowledge(lease(1, 1), R), Ok(()));
    // Reading is broken last, without an acknowledgment.
    assert_eq!(file.notice(1), (R, NONE, false));
    assert_eq!(file.state(lease(1, 1)), NONE);
}

#[test]
fn reading_is_taken_without_an_answer() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, R)));
    let (_, writer) = file.granted(ask(2, RequestedCaching::Nothing));
    file.record.break_reading(writer, 0, TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(file.notice(1), (R, NONE, false));
    assert_eq!(file.acknowledge(lease(1, 1), NONE), Err(AckError::NotBreaking));
}

#[test]
fn a_lease_grows_if_all_that_is_asked_for_can_be_had() {
    for (has, wants, gets) in
        [(R, RH, RH), (R, RWH, RWH), (RH, RWH, RWH), (RW, RWH, RWH), (RH, RW, RH), (RWH, R, RWH)]
    {
        let mut file = File::default();
        file.granted(ask(1, lease_wish(1, 1, has)));
        let (granted, _) = file.granted(ask(1, lease_wish(1, 1, wants)));
        assert_eq!(granted.caching, gets, "{has:?} and {wants:?}");
    }
}

#[test]
fn a_lease_does_not_grow_by_a_part_of_the_requested_caching() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, R)));
    file.granted(ask(2, RequestedCaching::Nothing));
    let (granted, _) = file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(granted.caching, R);
}

#[test]
fn a_lease_does_not_grow_while_it_is_broken() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RH)));
    let writer = OpenId { worker: server(2), number: 99 };
    file.record.break_reading(writer, 0, TIMEOUT, &mut WorkersToNotify::default());
    let (granted, _) = file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(granted.caching, RH);
    let lease = granted.lease.expect("a lease");
    assert!(lease.cache.breaking.is_some(), "BREAK_IN_PROGRESS is told");
}

#[test]
fn the_epoch_counts_grants_and_breaks() {
    let mut file = File::default();
    let epoch = |file: &File| file.record.lease(lease(1, 1)).expect("held").epoch;
    let first = RequestedCaching::Lease {
        id: lease(1, 1),
        state: R,
        epoch: 0x4711,
        is_v2: true,
        parent: None,
    };
    file.granted(ask(1, first));
    assert_eq!(epoch(&file), 0x4712);
    file.granted(ask(1, lease_wish(1, 1, R)));
    assert_eq!(epoch(&file), 0x4712, "nothing changed");
    file.granted(ask(1, lease_wish(1, 1, RH)));
    assert_eq!(epoch(&file), 0x4713);
    let writer = OpenId { worker: server(2), number: 99 };
    file.record.break_reading(writer, 0, TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(epoch(&file), 0x4714);
}

#[test]
fn the_first_version_of_leases_has_no_epoch() {
    let mut file = File::default();
    let wish = RequestedCaching::Lease {
        id: lease(1, 1),
        state: RWH,
        epoch: 7,
        is_v2: false,
        parent: None,
    };
    let (granted, _) = file.granted(ask(1, wish));
    assert_eq!(granted.lease.map(|it| it.epoch), Some(0));
}

#[test]
fn beside_an_oplock_a_lease_keeps_no_handle() {
    let mut file = File::default();
    let (granted, _) = file.granted(ask(1, RequestedCaching::Oplock(R)));
    assert_eq!(granted.caching, R);
    let (granted, _) = file.granted(ask(2, lease_wish(2, 1, RWH)));
    assert_eq!(granted.caching, R);
}

#[test]
fn beside_a_lease_that_keeps_handles_there_is_no_oplock() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RH)));
    let (granted, _) = file.granted(ask(2, RequestedCaching::Oplock(RWH)));
    assert_eq!(granted.caching, NONE);
}

#[test]
fn beside_a_lease_that_reads_an_oplock_reads_too() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, R)));
    let (granted, _) = file.granted(ask(2, RequestedCaching::Oplock(RWH)));
    assert_eq!(granted.caching, R);
}

#[test]
fn a_batch_oplock_is_broken_to_level_ii() {
    let mut file = File::default();
    let (_, id) = file.granted(ask(1, RequestedCaching::Oplock(RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Oplock(RWH))), Admission::Wait);
    assert_eq!(file.notice(1), (RWH, R, true));
    let kept = file.record.acknowledge_oplock(id, R, TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(kept, Ok(()));
    let (granted, _) = file.granted(ask(2, RequestedCaching::Oplock(RWH)));
    assert_eq!(granted.caching, R);
}

#[test]
fn attributes_disturb_nobody() {
    let mut file = File::default();
    file.granted(ask(1, RequestedCaching::Oplock(RWH)));
    let mut looks = ask(2, RequestedCaching::Oplock(RWH));
    looks.mode.granted_access = AccessMask::READ_ATTRIBUTES | AccessMask::SYNCHRONIZE;
    let (granted, _) = file.granted(looks);
    assert_eq!(granted.caching, NONE);
    assert_eq!(file.record.take_notices(server(1), |_| true), []);
}

#[test]
fn reading_the_descriptor_disturbs_an_oplock_and_no_lease() {
    let mut looks = ask(2, RequestedCaching::Nothing);
    looks.mode.granted_access = AccessMask::READ_ATTRIBUTES | AccessMask::READ_CONTROL;
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    file.granted(looks.clone());
    let mut file = File::default();
    file.granted(ask(1, RequestedCaching::Oplock(RWH)));
    assert_eq!(file.admit(looks), Admission::Wait);
}

#[test]
fn nobody_keeps_writes_of_a_directory() {
    let mut file = File::default();
    let directory = AdmissionRequest { is_directory: true, ..ask(1, lease_wish(1, 1, RWH)) };
    let (granted, _) = file.granted(directory);
    assert_eq!(granted.caching, RH);
}

#[test]
fn a_directory_has_no_oplock() {
    let mut file = File::default();
    let directory =
        AdmissionRequest { is_directory: true, ..ask(1, RequestedCaching::Oplock(RWH)) };
    let (granted, _) = file.granted(directory);
    assert_eq!(granted.caching, NONE);
}

#[test]
fn a_changed_listing_breaks_all_leases_but_that_of_the_changing_client() {
    let mut file = File::default();
    for (worker, key) in [(1, 1), (2, 2), (3, 1)] {
        let wish = lease_wish(worker, key, RH);
        file.granted(AdmissionRequest { is_directory: true, ..ask(worker, wish) });
    }
    file.record.break_listing(Some([1; 16]), TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(file.record.take_notices(server(1), |_| true), []);
    assert_eq!(file.notice(2), (RH, NONE, true));
    assert_eq!(file.record.take_notices(server(3), |_| true), [], "keys alone are compared");
}

#[test]
fn an_unanswered_break_ends_all_caching_and_all_waiting() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    file.now = TIMEOUT;
    let mut notify = WorkersToNotify::default();
    assert!(file.record.expire(file.now, &mut notify));
    assert_eq!(notify.into_workers(), [server(2)]);
    assert_eq!(file.state(lease(1, 1)), NONE);
    file.granted(ask(2, RequestedCaching::Nothing));
}

#[test]
fn beside_a_lock_of_existing_bytes_nobody_caches_reads() {
    let mut file = File::default();
    let (_, id) = file.granted(ask(1, RequestedCaching::Nothing));
    file.lock(id);
    let (granted, _) = file.granted(ask(2, lease_wish(2, 1, RWH)));
    assert_eq!(granted.caching, NONE);
    // The file is empty.
    let (granted, _) = file.granted(AdmissionRequest { size: 0, ..ask(3, lease_wish(3, 1, RWH)) });
    assert_eq!(granted.caching, RH);
}

#[test]
fn a_durable_open_with_locks_stays_only_while_it_caches_writes() {
    for (state, stays) in [(RWH, true), (RH, false)] {
        let mut file = File::default();
        let id = file.durable(ask(1, lease_wish(1, 1, state)), DurabilityKind::DurableV2);
        file.lock(id);
        let now = file.now;
        assert_eq!(file.record.disconnect(id, 0, now, &mut WorkersToNotify::default()), stays);
    }
}

#[test]
fn a_disconnected_durable_open_is_closed_by_a_conflict_at_once() {
    let mut file = File::default();
    let id = file.durable(ask(1, RequestedCaching::Oplock(RWH)), DurabilityKind::DurableV2);
    assert!(file.record.disconnect(id, 0, file.now, &mut WorkersToNotify::default()));
    file.granted(ask(2, RequestedCaching::Nothing));
    let back = OpenId { worker: server(3), number: 1 };
    assert_eq!(file.record.reconnect(id.number, back, &mut WorkersToNotify::default()), None);
}

#[test]
fn a_disconnected_durable_open_survives_opens_without_a_conflict() {
    let mut file = File::default();
    let id = file.durable(ask(1, lease_wish(1, 1, RH)), DurabilityKind::DurableV2);
    assert!(file.record.disconnect(id, 0, file.now, &mut WorkersToNotify::default()));
    file.granted(ask(2, RequestedCaching::Nothing));
    let back = OpenId { worker: server(3), number: 1 };
    let taken =
        file.record.reconnect(id.number, back, &mut WorkersToNotify::default()).map(|it| it.id);
    assert_eq!(taken, Some(back));
}

#[test]
fn a_persistent_open_excludes_others_while_its_client_is_away() {
    let mut file = File::default();
    let mut alone = ask(1, lease_wish(1, 1, RH));
    alone.mode.share_write = false;
    let id = file.durable(alone, DurabilityKind::Persistent);
    assert!(file.record.disconnect(id, 0, file.now, &mut WorkersToNotify::default()));
    // The disconnected client has the same time to return as to answer.
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    file.now = TIMEOUT;
    let refused = Admission::Refused(Refusal::NotAvailable);
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), refused);
    let back = OpenId { worker: server(3), number: 1 };
    assert!(file.record.reconnect(id.number, back, &mut WorkersToNotify::default()).is_some());
}

#[test]
fn a_worker_that_dies_while_deleting_leaves_the_deletion_to_another() {
    let mut file = File::default();
    let (_, id) = file.granted(ask(1, RequestedCaching::Nothing));
    assert_eq!(file.record.close(id, true, None, &mut WorkersToNotify::default()).unlink, Some(0));
    let pending = Admission::Refused(Refusal::DeletePending);
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), pending);
    assert!(file.record.concerns(server(1)), "or it would not be removed");
    file.record.remove_worker(server(1), server(3), file.now, &mut WorkersToNotify::default());
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.record.take_delegated(server(3)).len(), 1);
    file.record.end_deletion(0, &mut WorkersToNotify::default());
    file.granted(ask(2, RequestedCaching::Nothing));
}

#[test]
fn a_worker_that_dies_while_deleting_a_stream_leaves_the_others() {
    let mut file = File::default();
    file.granted(ask(2, RequestedCaching::Nothing));
    let stream = AdmissionRequest { stream: 7, ..ask(1, RequestedCaching::Nothing) };
    let (_, id) = file.granted(stream);
    assert_eq!(file.record.close(id, true, None, &mut WorkersToNotify::default()).unlink, Some(7));
    file.record.remove_worker(server(1), server(3), file.now, &mut WorkersToNotify::default());
    assert_eq!(file.record.take_delegated(server(3)).len(), 1);
    file.record.end_deletion(7, &mut WorkersToNotify::default());
    file.granted(AdmissionRequest { stream: 7, ..ask(2, RequestedCaching::Nothing) });
}

#[test]
fn a_death_does_not_disturb_the_deletions_of_other_workers() {
    let mut file = File::default();
    let (_, id) = file.granted(ask(1, RequestedCaching::Nothing));
    assert_eq!(file.record.close(id, true, None, &mut WorkersToNotify::default()).unlink, Some(0));
    file.record.remove_worker(server(2), server(3), file.now, &mut WorkersToNotify::default());
    let pending = Admission::Refused(Refusal::DeletePending);
    assert_eq!(file.admit(ask(3, RequestedCaching::Nothing)), pending);
    file.record.end_deletion(0, &mut WorkersToNotify::default());
    assert!(file.record.is_empty());
}

#[test]
fn a_file_goes_with_the_last_open_of_any_of_its_streams() {
    let mut file = File::default();
    let (_, id) = file.granted(ask(1, RequestedCaching::Nothing));
    let (_, stream) =
        file.granted(AdmissionRequest { stream: 7, ..ask(2, RequestedCaching::Nothing) });
    assert_eq!(file.record.close(id, true, None, &mut WorkersToNotify::default()).unlink, None);
    let pending = Admission::Refused(Refusal::DeletePending);
    assert_eq!(file.admit(ask(3, RequestedCaching::Nothing)), pending);
    assert_eq!(
        file.record.close(stream, false, None, &mut WorkersToNotify::default()).unlink,
        Some(0)
    );
}

#[test]
fn an_open_that_is_to_be_closed_does_not_outlive_its_connection() {
    let mut file = File::default();
    let id = file.durable(ask(1, RequestedCaching::Oplock(RWH)), DurabilityKind::DurableV2);
    file.record.evict(&|it| it.id == id, server(1), &mut WorkersToNotify::default());
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    file.record.remove_worker(server(1), server(3), file.now, &mut WorkersToNotify::default());
    file.granted(ask(2, RequestedCaching::Nothing));
}

#[test]
fn a_reconnected_open_is_told_of_the_break_it_missed() {
    let mut file = File::default();
    let id = file.durable(ask(1, RequestedCaching::Oplock(RWH)), DurabilityKind::Persistent);
    assert!(file.record.disconnect(id, 0, file.now, &mut WorkersToNotify::default()));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.record.take_notices(server(1), |_| true), []);
    let mut notify = WorkersToNotify::default();
    let back = OpenId { worker: server(3), number: 1 };
    assert!(file.record.reconnect(id.number, back, &mut notify).is_some());
    assert_eq!(notify.into_workers(), [server(3)]);
    assert_eq!(file.notice(3), (RWH, R, true));
}

#[test]
fn a_lease_does_not_grow_before_its_client_is_told_of_the_break() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, R)));
    let writer = OpenId { worker: server(2), number: 99 };
    file.record.break_reading(writer, 0, TIMEOUT, &mut WorkersToNotify::default());
    let (granted, _) = file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(granted.caching, NONE);
    assert_eq!(file.notice(1), (R, NONE, false));
    let (granted, _) = file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(granted.caching, RWH);
}

#[test]
fn a_break_notice_after_the_timeout_says_that_all_caching_is_lost() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    file.now = TIMEOUT;
    file.granted(ask(2, RequestedCaching::Nothing));
    assert_eq!(file.notice(1), (RWH, NONE, false));
}

#[test]
fn a_client_that_left_without_an_acknowledgment_is_notified_again() {
    let mut file = File::default();
    let id = file.durable(ask(1, RequestedCaching::Oplock(RWH)), DurabilityKind::Persistent);
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.notice(1), (RWH, R, true));
    assert!(file.record.disconnect(id, 0, file.now, &mut WorkersToNotify::default()));
    let back = OpenId { worker: server(3), number: 1 };
    assert!(file.record.reconnect(id.number, back, &mut WorkersToNotify::default()).is_some());
    assert_eq!(file.notice(3), (RWH, R, true));
}

/// As with the parameter `level2 oplocks = no`.
#[test]
fn without_shared_reading_only_one_client_keeps_caching() {
    for wish in [|worker| lease_wish(worker, 1, RWH), |_| RequestedCaching::Oplock(RWH)] {
        let mut file = File::default();
        let unshared =
            |worker| AdmissionRequest { shared_reading: false, ..ask(worker, wish(worker)) };
        let (granted, holder) = file.granted(unshared(1));
        assert_eq!(granted.caching, RWH, "it has the file for itself");
        assert_eq!(file.admit(unshared(2)), Admission::Wait);
        let sent = file.record.take_notices(server(1), |_| true);
        assert_eq!(sent.iter().map(|it| it.notice.to).collect::<Vec<_>>(), [Caching::empty()]);
        file.record.close(holder, false, None, &mut WorkersToNotify::default());
        file.granted(ask(3, RequestedCaching::Nothing));
        let (granted, _) = file.granted(unshared(2));
        assert_eq!(granted.caching, Caching::empty(), "somebody else has it open");
    }
}

/// Requests an open with the rights that everybody has who can look up a file.
fn ask_for_attributes(worker: u32, caching: RequestedCaching) -> AdmissionRequest {
    let mut ask = ask(worker, caching);
    ask.mode.granted_access = AccessMask::READ_ATTRIBUTES
        | AccessMask::READ_EA
        | AccessMask::READ_CONTROL
        | AccessMask::SYNCHRONIZE;
    ask
}

/// A file that worker 1 has open for its attributes, with all caching.
fn with_caching_of_attributes(caching: RequestedCaching) -> (File, OpenId) {
    let mut file = File::default();
    let (granted, id) = file.granted(ask_for_attributes(1, caching));
    assert_eq!(granted.caching, RWH);
    (file, id)
}

/// Caching that opens for attributes request in these tests, of worker 1.
fn cachings_of_attributes() -> [RequestedCaching; 2] {
    [lease_wish(1, 1, RWH), RequestedCaching::Oplock(RWH)]
}

#[test]
fn no_open_waits_for_caching_of_opens_without_access_to_the_data() {
    for caching in cachings_of_attributes() {
        let is_lease = caching.lease().is_some();
        let (mut file, holder) = with_caching_of_attributes(caching);
        let (granted, _) = file.granted(ask(2, lease_wish(2, 1, RWH)));
        assert_eq!(granted.caching, if is_lease { RH } else { R });
        assert_eq!(file.notice(1), (RWH, if is_lease { RH } else { R }, true));
        // A second one waits no more than the first, though the break is still pending.
        let mut again = ask(3, RequestedCaching::Nothing);
        again.has_waited = true;
        file.granted(again);
        let kept = if is_lease { RH } else { R };
        let acknowledged = match caching.lease() {
            Some(id) => file.acknowledge(id, kept),
            None => file.record.acknowledge_oplock(
                holder,
                kept,
                TIMEOUT,
                &mut WorkersToNotify::default(),
            ),
        };
        assert_eq!(acknowledged, Ok(()));
    }
}

#[test]
fn no_deletion_and_truncation_by_a_create_waits_for_caching_of_attributes() {
    for caching in cachings_of_attributes() {
        let (mut file, holder) = with_caching_of_attributes(caching);
        let mut excluding = ask(2, RequestedCaching::Oplock(RWH));
        excluding.delete_on_close = true;
        excluding.overwrites = true;
        file.granted(excluding);
        let holder = file.record.open(holder).expect("it stays").clone();
        assert_eq!(file.record.cache_of(&holder).state, NONE);
        assert_eq!(file.notice(1), (RWH, NONE, true));
    }
}

#[test]
fn no_rename_and_write_waits_for_caching_of_attributes() {
    for caching in cachings_of_attributes() {
        let (mut file, _) = with_caching_of_attributes(caching);
        let (_, renamer) = file.granted(ask(2, RequestedCaching::Nothing));
        let notify = &mut WorkersToNotify::default();
        let (must_wait, _) = file.record.break_handles(renamer, TIMEOUT, Duration::ZERO, notify);
        assert!(!must_wait);
        file.record.break_reading(renamer, 0, TIMEOUT, notify);
        assert_eq!(file.record.word().readers, 0);
    }
}

#[test]
fn no_local_program_waits_for_an_oplock_of_attributes() {
    let (mut file, holder) = with_caching_of_attributes(RequestedCaching::Oplock(RWH));
    let notify = &mut WorkersToNotify::default();
    file.record.break_oplock(holder, TIMEOUT, notify);
    let entry = file.record.open(holder).expect("it stays");
    assert_eq!(file.record.cache_of(entry).state, NONE);
    assert_eq!(file.notice(1), (RWH, NONE, true));
    assert_eq!(file.record.acknowledge_oplock(holder, NONE, TIMEOUT, notify), Ok(()));
    let again = file.record.acknowledge_oplock(holder, NONE, TIMEOUT, notify);
    assert_eq!(again, Err(AckError::NotHeld));
}

#[test]
fn a_rename_that_such_an_open_refuses_gives_its_client_a_moment_to_close() {
    for caching in cachings_of_attributes() {
        let (mut file, _) = with_caching_of_attributes(caching);
        let mut asks = |now| {
            let times = (now + TIMEOUT, now);
            let notify = &mut WorkersToNotify::default();
            file.record.break_handles_of(&|_| true, server(2), times, notify).0
        };
        let moment = Duration::from_secs(1);
        assert!(asks(Duration::ZERO), "an honest client closes");
        assert!(asks(moment / 2));
        assert!(!asks(moment), "the moment is over");
    }
}

#[test]
fn an_unacknowledged_break_of_attributes_ends_at_its_deadline() {
    for caching in cachings_of_attributes() {
        let (mut file, holder) = with_caching_of_attributes(caching);
        file.granted(ask(2, RequestedCaching::Nothing));
        let notify = &mut WorkersToNotify::default();
        assert_eq!(file.record.next_deadline(), Some(TIMEOUT));
        assert!(file.record.expire(TIMEOUT, notify));
        let holder = file.record.open(holder).expect("it stays").clone();
        assert_eq!(file.record.cache_of(&holder).state, NONE);
        let late = match caching.lease() {
            Some(id) => file.acknowledge(id, R),
            None => file.record.acknowledge_oplock(holder.id, R, TIMEOUT, notify),
        };
        assert!(late.is_err());
    }
}

#[test]
fn a_lease_of_attributes_is_waited_for_once_one_of_its_opens_may_access_the_data() {
    let (mut file, _) = with_caching_of_attributes(lease_wish(1, 1, RWH));
    let (_, data) = file.granted(ask(1, lease_wish(1, 1, RWH)));
    assert_eq!(file.admit(ask(2, RequestedCaching::Nothing)), Admission::Wait);
    assert_eq!(file.notice(1), (RWH, RH, true));
    // Without that open, there is nothing to write back any more.
    let notify = &mut WorkersToNotify::default();
    file.record.close(data, false, None, notify);
    assert!(notify.clone().into_workers().contains(&server(2)));
    file.granted(ask(2, RequestedCaching::Nothing));
}

#[test]
fn an_open_joins_a_lease_of_attributes_that_is_breaking_with_the_rights_that_are_left() {
    for mut joining in [ask(1, lease_wish(1, 1, RWH)), ask_for_attributes(1, lease_wish(1, 1, RWH))]
    {
        let (mut file, _) = with_caching_of_attributes(lease_wish(1, 1, RWH));
        file.granted(ask(2, RequestedCaching::Nothing));
        joining.mode.share_delete = false;
        let (granted, _) = file.granted(joining);
        assert_eq!(granted.caching, RH);
        assert!(granted.lease.is_some_and(|it| it.cache.breaking.is_some()));
        assert_eq!(file.notice(1), (RWH, RH, true));
        assert_eq!(file.acknowledge(lease(1, 1), RH), Ok(()));
        assert_eq!(file.record.lease(lease(1, 1)).expect("held").cache, Cache::granted(RH));
    }
}

#[test]
fn an_open_with_access_to_the_data_joins_after_an_acknowledgment_if_its_lease_lost_more_since() {
    let (mut file, _) = with_caching_of_attributes(lease_wish(1, 1, RWH));
    let (_, writer) = file.granted(ask(2, RequestedCaching::Nothing));
    assert_eq!(file.notice(1), (RWH, RH, true));
    let notify = &mut WorkersToNotify::default();
    file.record.break_reading(writer, 0, TIMEOUT, notify);
    let joining = || ask(1, lease_wish(1, 1, RWH));
    assert_eq!(file.admit(joining()), Admission::Wait);
    let attributes = ask_for_attributes(1, lease_wish(1, 1, RWH));
    assert_eq!(file.granted(attributes).0.caching, NONE);
    assert_eq!(file.acknowledge(lease(1, 1), RH), Ok(()));
    assert_eq!(file.notice(1), (RH, NONE, true));
    assert_eq!(file.granted(joining()).0.caching, NONE);
    assert_eq!(file.acknowledge(lease(1, 1), NONE), Ok(()));
}

#[test]
fn a_persistent_open_of_attributes_keeps_its_file_from_nobody_while_its_client_is_away() {
    let mut file = File::default();
    let attributes = ask_for_attributes(1, RequestedCaching::Nothing);
    let id = file.durable(attributes, DurabilityKind::Persistent);
    file.record.disconnect(id, 0, Duration::ZERO, &mut WorkersToNotify::default());
    file.granted(ask(2, RequestedCaching::Nothing));
    let mut file = File::default();
    let attributes = ask_for_attributes(1, lease_wish(1, 1, RWH));
    let id = file.durable(attributes, DurabilityKind::Persistent);
    file.record.disconnect(id, 0, Duration::ZERO, &mut WorkersToNotify::default());
    file.granted(ask(2, RequestedCaching::Nothing));
    file.granted(ask(2, RequestedCaching::Nothing));
}

#[test]
fn a_lease_of_attributes_on_a_directory_makes_nobody_wait() {
    let on_directory = |mut ask: AdmissionRequest| {
        ask.is_directory = true;
        ask
    };
    let mut file = File::default();
    let (granted, _) = file.granted(on_directory(ask_for_attributes(1, lease_wish(1, 1, RWH))));
    assert_eq!(granted.caching, RH);
    file.record.break_listing(None, TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(file.notice(1), (RH, NONE, true));
    let mut again = on_directory(ask(2, lease_wish(2, 1, RH)));
    again.has_waited = true;
    assert_eq!(file.granted(again).0.caching, RH);
}
