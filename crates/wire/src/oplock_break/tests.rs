use super::{
    BreakAcknowledgment, BreakNotification, LeaseBreak, LeaseBreakFlags, LeaseBreakNotification,
    OplockBreak,
};
use crate::check::{message, round_trip};
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::lease::{LeaseKey, LeaseState};
use crate::message::Decode;
use crate::oplock_level::OplockLevel;

const OPLOCK: OplockBreak =
    OplockBreak { oplock_level: OplockLevel::II, file_id: FileId { persistent: 1, volatile: 2 } };

const NOTIFICATION: LeaseBreakNotification = LeaseBreakNotification {
    new_epoch: 0x0102,
    flags: LeaseBreakFlags::ACK_REQUIRED,
    lease_key: LeaseKey([9; 16]),
    current_lease_state: LeaseState::all(),
    new_lease_state: LeaseState::READ_CACHING,
};

const LEASE: LeaseBreak =
    LeaseBreak { lease_key: LeaseKey([9; 16]), lease_state: LeaseState::HANDLE_CACHING };

#[test]
fn bodies_round_trip() {
    round_trip!(OplockBreak, OPLOCK);
    round_trip!(LeaseBreakNotification, NOTIFICATION);
    round_trip!(LeaseBreak, LEASE);
    round_trip!(
        BreakAcknowledgment,
        BreakAcknowledgment::Lease(LEASE),
        BreakAcknowledgment::Oplock(OPLOCK),
    );
    round_trip!(
        BreakNotification,
        BreakNotification::Lease(NOTIFICATION),
        BreakNotification::Oplock(OPLOCK),
    );
}

#[test]
fn the_bytes_of_an_oplock_break() {
    let want = [0x18, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(message(&OPLOCK)[64..], want);
}

#[test]
fn the_bytes_of_a_lease_break() {
    let new = LeaseBreakNotification {
        current_lease_state: LeaseState::READ_CACHING | LeaseState::WRITE_CACHING,
        ..NOTIFICATION
    };
    let want = [
        &[0x2C, 0, 2, 1, 1, 0, 0, 0][..],
        &[9; 16],
        &[5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(message(&new)[64..], want.concat());
    let want = [&[0x24, 0, 0, 0, 0, 0, 0, 0][..], &[9; 16], &[2, 0, 0, 0], &[0; 8]];
    assert_eq!(message(&LEASE)[64..], want.concat());
}

#[test]
fn only_an_oplock_names_an_open() {
    assert_eq!(BreakAcknowledgment::Oplock(OPLOCK).file_id(), Some(OPLOCK.file_id));
    assert_eq!(BreakAcknowledgment::Lease(LEASE).file_id(), None);
    assert_eq!(BreakNotification::Lease(NOTIFICATION).file_id(), None);
}

/// An acknowledgment cannot have the form of a notification.
#[test]
fn another_structure_size_is_an_error() {
    let want = DecodeError::StructureSize { want: 24, got: 44 };
    assert_eq!(BreakAcknowledgment::decode(&message(&NOTIFICATION)), Err(want));
}
