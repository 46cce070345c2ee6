//! Caching of opens for attributes alone: nobody waits for a client that may have no right to the
//! data.

use std::time::Duration;

use arbitration::{
    AckError, Admission, AdmissionRequest, Cache, Caching, DurabilityKind, OpenId,
    RequestedCaching, WorkersToNotify,
};
use dtyp::AccessMask;

use crate::file::{File, NONE, R, RH, RWH, TIMEOUT, ask, lease, lease_wish, server};

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

/// Rights of an open that stays.
fn state(file: &File, open: OpenId) -> Caching {
    file.record.cache_of(file.record.open(open).expect("it stays")).state
}

/// Acknowledges the break of an open's lease or oplock.
fn acknowledge(file: &mut File, open: OpenId, kept: Caching) -> Result<(), AckError> {
    match file.record.open(open).expect("it stays").lease() {
        Some(id) => file.acknowledge(id, kept),
        None => {
            let notify = &mut WorkersToNotify::default();
            file.record.acknowledge_oplock(open, kept, TIMEOUT, notify)
        }
    }
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
        assert_eq!(acknowledge(&mut file, holder, if is_lease { RH } else { R }), Ok(()));
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
        assert_eq!(state(&file, holder), NONE);
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
    assert_eq!(state(&file, holder), NONE);
    assert_eq!(file.notice(1), (RWH, NONE, true));
    assert_eq!(acknowledge(&mut file, holder, NONE), Ok(()));
    assert_eq!(acknowledge(&mut file, holder, NONE), Err(AckError::NotHeld));
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
        assert_eq!(state(&file, holder), NONE);
        assert!(acknowledge(&mut file, holder, R).is_err());
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
