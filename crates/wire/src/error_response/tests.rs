use super::{
    ErrorContext, ErrorId, ErrorResponse, SymbolicLinkError, SymbolicLinkFlags, is_error_response,
};
use crate::check::{hostile, message, round_trip};
use crate::close::CloseResponse;
use crate::error::DecodeError;

#[test]
fn bodies_round_trip() {
    let with_data = ErrorResponse { error_context_count: 1, error_data: &[7; 24] };
    round_trip!(ErrorResponse<'_>, with_data, ErrorResponse::default());
}

#[test]
fn an_error_without_data_has_one_byte_of_it() {
    let bytes = message(&ErrorResponse::default());
    assert_eq!(bytes[64..], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(is_error_response(&bytes));
    assert!(!is_error_response(&message(&CloseResponse::default())));
    assert!(!is_error_response(&bytes[..65]));
}

#[test]
fn contexts_begin_8_byte_aligned() {
    let first = ErrorContext { error_id: ErrorId::DEFAULT, error_context_data: &[1, 2, 3] };
    let second = ErrorContext { error_id: ErrorId::SHARE_REDIRECT, error_context_data: &[4] };
    let mut out = vec![0xEE; 5];
    first.encode(&mut out, 5);
    second.encode(&mut out, 5);
    let want = [
        &[3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0][..],
        &[1, 0, 0, 0, b'S', b'R', b'd', b'r', 4],
    ];
    assert_eq!(out[5..], want.concat());
    let read: Vec<_> = ErrorContext::iter(&out[5..], 2).collect();
    assert_eq!(read, [Ok(first), Ok(second)]);
    let too_many: Vec<_> = ErrorContext::iter(&out[5..], 9).collect();
    assert_eq!(too_many.len(), 3, "the first missing one ends it");
    assert_eq!(too_many[2], Err(DecodeError::Short { need: 8, have: 0 }));
}

const LINK: SymbolicLinkError<'_> = SymbolicLinkError {
    unparsed_path_length: 8,
    flags: SymbolicLinkFlags::RELATIVE,
    substitute_name: b"x\0y\0",
    print_name: b"z\0",
};

#[test]
fn the_bytes_of_a_symbolic_link() {
    let want = [
        &[30, 0, 0, 0, b'S', b'Y', b'M', b'L', 0x0C, 0, 0, 0xA0][..],
        &[18, 0, 8, 0, 0, 0, 4, 0, 4, 0, 2, 0, 1, 0, 0, 0],
        b"x\0y\0z\0",
    ];
    let mut out = Vec::new();
    LINK.encode(&mut out);
    assert_eq!(out, want.concat());
    assert_eq!(SymbolicLinkError::decode(&out), Ok(LINK));
    hostile(&out, |bytes| {
        if let Ok(link) = SymbolicLinkError::decode(bytes) {
            assert!(link.substitute_name.len() <= bytes.len());
        }
    });
}

#[test]
fn another_reparse_tag_is_an_error() {
    let mut out = Vec::new();
    LINK.encode(&mut out);
    out[8] = 0x03;
    let want = DecodeError::BadValue { field: "ReparseTag", value: 0xA000_0003 };
    assert_eq!(SymbolicLinkError::decode(&out), Err(want));
}
