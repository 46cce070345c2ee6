use dtyp::NtStatus;

use super::{
    Command, Header, HeaderFlags, set_credits, set_flags, set_next_command, set_signature,
    signature,
};
use crate::error::DecodeError;

const HEADER: Header = Header {
    credit_charge: 1,
    status: NtStatus::PENDING,
    command: Command::CHANGE_NOTIFY,
    credits: 0x0102,
    flags: HeaderFlags::SERVER_TO_REDIR,
    next_command: 0x48,
    message_id: 0x0807_0605_0403_0201,
    async_id: None,
    tree_id: 0x0A0B_0C0D,
    session_id: 0x1817_1615_1413_1211,
    signature: [0x55; 16],
};

fn encoded(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    bytes
}

#[test]
fn the_bytes_of_a_synchronous_header() {
    let want = [
        &[0xFE, b'S', b'M', b'B', 0x40, 0, 1, 0, 3, 1, 0, 0, 0x0F, 0, 2, 1][..],
        &[1, 0, 0, 0, 0x48, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0, 0, 0, 0, 0x0D, 0x0C, 0x0B, 0x0A, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        &[0x55; 16],
    ];
    let want = want.concat();
    assert_eq!(encoded(&HEADER), want);
    assert_eq!(Header::decode(&want), Ok(HEADER));
}

#[test]
fn an_asynchronous_header_has_an_id_in_place_of_the_tree() {
    let header = Header {
        flags: HeaderFlags::SERVER_TO_REDIR | HeaderFlags::ASYNC_COMMAND,
        async_id: Some(0x0102_0304_0506_0708),
        tree_id: 0,
        ..HEADER
    };
    let bytes = encoded(&header);
    assert_eq!(bytes[0x10], 3);
    assert_eq!(bytes[0x20..0x28], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(Header::decode(&bytes), Ok(header));
}

/// The field decides, and not the flag.
#[test]
fn the_async_flag_follows_the_async_id() {
    let with_flag = Header { flags: HeaderFlags::ASYNC_COMMAND, async_id: None, ..HEADER };
    assert_eq!(encoded(&with_flag)[0x10], 0);
    let without = Header { flags: HeaderFlags::empty(), async_id: Some(1), ..HEADER };
    assert_eq!(encoded(&without)[0x10], 2);
}

#[test]
fn the_channel_sequence_is_the_low_half_of_the_status() {
    let mut header = Header { status: NtStatus(0xAAAA_0102), ..HEADER };
    assert_eq!(header.channel_sequence(), 0x0102);
    header.set_channel_sequence(7);
    assert_eq!(header.status, NtStatus(7));
}

#[test]
fn every_prefix_is_an_error() {
    let bytes = encoded(&HEADER);
    for end in 0..64 {
        let want = DecodeError::Short { need: 64, have: end };
        assert_eq!(Header::decode(&bytes[..end]), Err(want));
    }
}

#[test]
fn other_protocols_and_sizes_are_errors() {
    let mut bytes = encoded(&HEADER);
    bytes[4] = 0x41;
    let want = DecodeError::StructureSize { want: 0x40, got: 0x41 };
    assert_eq!(Header::decode(&bytes), Err(want));
    bytes[0] = 0xFF;
    let want = DecodeError::NotSmb2 { protocol_id: 0x424D_53FF };
    assert_eq!(Header::decode(&bytes), Err(want));
}

#[test]
fn fields_of_a_laid_out_message_can_be_set() {
    let mut bytes = encoded(&HEADER);
    bytes.extend([0xEE; 8]);
    let flags = HeaderFlags::SERVER_TO_REDIR | HeaderFlags::SIGNED;
    set_next_command(&mut bytes, 0x1234);
    set_credits(&mut bytes, 9);
    set_flags(&mut bytes, flags);
    set_signature(&mut bytes, [0x77; 16]);
    let want = Header { next_command: 0x1234, credits: 9, flags, signature: [0x77; 16], ..HEADER };
    assert_eq!(Header::decode(&bytes), Ok(want));
    assert_eq!(signature(&bytes), [0x77; 16]);
    assert_eq!(bytes[64..], [0xEE; 8]);
}
