//! Caching of several clients: the rules of oplocks and leases, one claim each.

mod attributes;
mod file;

use arbitration::{
    AckError, Admission, AdmissionRequest, Caching, DurabilityKind, OpenId, Refusal,
    RequestedCaching, WorkersToNotify,
};
use dtyp::AccessMask;

use file::{File, NONE, R, RH, RW, RWH, TIMEOUT, ask, lease, lease_wish, server};

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

/// A client that may only read would keep others out for 35 s with each change, by leaving the
/// breaks of its lease without an answer.
#[test]
fn an_open_of_a_directory_waits_for_no_break_of_its_listing() {
    let mut file = File::default();
    let directory = |worker| {
        let wish = lease_wish(worker, 1, RH);
        AdmissionRequest { is_directory: true, ..ask(worker, wish) }
    };
    file.granted(directory(1));
    file.record.break_listing(None, TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(file.notice(1), (RH, NONE, true));
    let (granted, _) = file.granted(directory(3));
    assert!(granted.caching.contains(R), "{granted:?}");
    let kept = file.acknowledge(lease(1, 1), NONE);
    assert_eq!(kept, Ok(()), "nobody had acknowledged it");
}

/// The behavior of Windows, by smb2.lease.breaking3.
#[test]
fn an_open_of_a_file_waits_for_a_break_that_is_under_way() {
    let mut file = File::default();
    file.granted(ask(1, lease_wish(1, 1, RH)));
    let (_, writer) = file.granted(ask(2, RequestedCaching::Nothing));
    file.record.break_reading(writer, 0, TIMEOUT, &mut WorkersToNotify::default());
    assert_eq!(file.notice(1), (RH, NONE, true));
    assert_eq!(file.admit(ask(3, RequestedCaching::Nothing)), Admission::Wait);
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
