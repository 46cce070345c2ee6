use dtyp::{FileTime, Guid, ServerId};

use super::{ClientRecord, Record, SessionRecord, TreeConnectRecord};
use crate::codec::{self, RecordError, TEXT_BYTES_MAX};

const WORKER: ServerId = ServerId { pid: 4711, unique_id: 0x1122_3344_5566_7788 };

fn client() -> ClientRecord {
    ClientRecord {
        is_claim: false,
        has_user: false,
        server_id: WORKER,
        client_guid: Guid([7; 16]),
        client_address: "[::1]:50000".to_owned(),
        local_address: "[::1]:445".to_owned(),
        dialect: 0x0311,
        connected_at: FileTime(1),
        signing_algorithm: Some(0),
        signing_required: true,
        cipher: None,
    }
}

fn session() -> SessionRecord {
    SessionRecord {
        session_id: 0x0102_0304_0506_0708,
        server_id: WORKER,
        user: "Zoë".to_owned(),
        domain: String::new(),
        user_sid: "S-1-22-1-1000".to_owned(),
        client_address: "127.0.0.1:50000".to_owned(),
        dialect: 0x0302,
        signing_algorithm: None,
        signing_required: false,
        cipher: Some(2),
        encrypted: true,
        created_at: FileTime(u64::MAX),
    }
}

fn tree_connect() -> TreeConnectRecord {
    TreeConnectRecord {
        session_id: 1,
        tree_id: 2,
        share: "data".to_owned(),
        server_id: WORKER,
        encrypted: false,
        connected_at: FileTime(3),
        read_only: true,
    }
}

/// A record round-trips; truncated, extended, or of another version it is an error; and any single
/// changed byte decodes without a panic.
#[track_caller]
fn check<R: Record + PartialEq + std::fmt::Debug>(record: &R) {
    let mut bytes = Vec::new();
    record.encode(&mut bytes).expect("texts are short");
    assert_eq!(R::decode(&bytes).as_ref(), Ok(record));
    assert_eq!(codec::owner(&bytes), Some(WORKER));
    for len in 0..bytes.len() {
        assert!(matches!(R::decode(&bytes[..len]), Err(RecordError::Short { .. })), "cut to {len}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(R::decode(&longer).err(), Some(RecordError::TrailingBytes(1)));
    for at in 0..bytes.len() {
        for value in 0..=u8::MAX {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            assert_eq!(R::decode(&damaged).as_ref() == Ok(record), value == bytes[at]);
        }
    }
    bytes[0] = R::VERSION + 1;
    assert_eq!(R::decode(&bytes).err(), Some(RecordError::Version(R::VERSION + 1)));
}

#[test]
fn clients_round_trip_and_damage_is_an_error() {
    check(&client());
}

#[test]
fn sessions_round_trip_and_damage_is_an_error() {
    check(&session());
}

#[test]
fn tree_connects_round_trip_and_damage_is_an_error() {
    check(&tree_connect());
}

#[test]
fn the_longest_text_fits_and_one_byte_more_is_refused() {
    let mut bytes = Vec::new();
    let longest = TreeConnectRecord { share: "x".repeat(TEXT_BYTES_MAX), ..tree_connect() };
    longest.encode(&mut bytes).expect("at the limit");
    assert_eq!(TreeConnectRecord::decode(&bytes), Ok(longest));
    let longer = TreeConnectRecord { share: "x".repeat(TEXT_BYTES_MAX + 1), ..tree_connect() };
    assert_eq!(longer.encode(&mut bytes), Err(RecordError::TextTooLong(TEXT_BYTES_MAX + 1)));
}

#[test]
fn a_text_that_is_not_utf8_is_refused() {
    let mut bytes = Vec::new();
    let record = TreeConnectRecord { share: "xyz".to_owned(), ..tree_connect() };
    record.encode(&mut bytes).expect("short");
    let at = bytes.windows(3).position(|window| window == b"xyz").expect("the share");
    bytes[at] = 0xff;
    assert_eq!(TreeConnectRecord::decode(&bytes).err(), Some(RecordError::TextNotUtf8));
}
