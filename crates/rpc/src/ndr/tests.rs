use super::{BadStub, Field, Reader, Writer};
use crate::win32::Win32Error;
use proptest::prelude::*;

#[test]
fn strings_are_conformant_and_varying_and_end_with_nul() {
    let mut writer = Writer::default();
    writer.structures(&[vec![Field::text("ab"), Field::Value(7), Field::Null]]);
    let stub = writer.finish(Win32Error::ACCESS_DENIED);
    #[rustfmt::skip]
    let bytes = [
        0, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0,
        3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, b'a', 0, b'b', 0, 0, 0,
        0, 0, // Alignment.
        5, 0, 0, 0,
    ];
    assert_eq!(stub, bytes);
    let mut reader = Reader::new(&stub[12..]);
    assert_eq!(reader.string().as_deref(), Ok("ab"));
    assert_eq!(reader.u32(), Ok(5));
    assert_eq!(reader.u32(), Err(BadStub));
}

#[test]
fn targets_of_pointers_follow_the_whole_array() {
    let mut writer = Writer::default();
    writer.structures(&[vec![Field::text("a")], vec![Field::text("b")]]);
    let stub = writer.finish(Win32Error::SUCCESS);
    #[rustfmt::skip]
    let bytes = [
        0, 0, 2, 0, 4, 0, 2, 0,
        2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'b', 0, 0, 0,
        0, 0, 0, 0,
    ];
    assert_eq!(stub, bytes);
}

#[test]
fn absent_parameters_are_null_pointers() {
    let stub = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0];
    let mut reader = Reader::new(&stub);
    assert_eq!(reader.unique_string(), Ok(None));
    assert_eq!(reader.unique_u32(), Ok(None));
    assert_eq!(reader.unique_u32(), Ok(Some(9)));
}

#[test]
fn counts_that_contradict_each_other_or_the_length_are_refused() {
    let string = |max_count: u32, offset: u32, actual_count: u32| {
        let mut stub = Vec::new();
        for value in [max_count, offset, actual_count] {
            stub.extend_from_slice(&value.to_le_bytes());
        }
        stub.extend_from_slice(&[b'a', 0, 0, 0]);
        Reader::new(&stub).string()
    };
    assert_eq!(string(2, 0, 2).as_deref(), Ok("a"));
    assert_eq!(string(9, 0, 2).as_deref(), Ok("a"));
    assert_eq!(string(1, 0, 2), Err(BadStub));
    assert_eq!(string(2, 1, 2), Err(BadStub));
    assert_eq!(string(3, 0, 3), Err(BadStub));
    assert_eq!(string(u32::MAX, 0, u32::MAX), Err(BadStub));
}

#[test]
fn bytes_behind_a_pointer_leave_the_next_string_aligned() {
    let mut writer = Writer::default();
    let bytes = Field::Bytes(b"abc".to_vec());
    writer.structures(&[vec![bytes, Field::Value(3), Field::text("d")]]);
    #[rustfmt::skip]
    let wanted = [
        0, 0, 2, 0, 3, 0, 0, 0, 4, 0, 2, 0,
        3, 0, 0, 0, b'a', b'b', b'c', 0,
        2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'd', 0, 0, 0,
        0, 0, 0, 0,
    ];
    assert_eq!(writer.finish(Win32Error::SUCCESS), wanted);
}

#[test]
fn bytes_behind_a_pointer_have_the_length_of_their_array() {
    let stub = |count: u32| {
        let mut stub = count.to_le_bytes().to_vec();
        stub.extend_from_slice(b"abc");
        stub
    };
    assert_eq!(Reader::new(&stub(3)).bytes(3).as_deref(), Ok(&b"abc"[..]));
    for (count, len) in [(3, 2), (2, 3), (4, 4), (u32::MAX, u32::MAX), (0, u32::MAX)] {
        assert_eq!(Reader::new(&stub(count)).bytes(len), Err(BadStub), "{count} {len}");
    }
    assert_eq!(Reader::new(&[0; 15]).uuid(), Err(BadStub));
    assert_eq!(Reader::new(&[7; 16]).uuid(), Ok([7; 16]));
}

#[test]
fn a_buffer_for_text_has_the_length_that_the_caller_wants() {
    let buffer = |len, unit, text: &str| {
        let mut writer = Writer::default();
        writer.text_buffer(len, unit, text);
        writer.finish(Win32Error::SUCCESS)
    };
    assert_eq!(buffer(3, 2, "a"), [3, 0, 0, 0, b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(buffer(3, 1, "a"), [3, 0, 0, 0, b'a', 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(buffer(0, 2, ""), [0; 8]);
}

#[test]
fn a_container_on_its_way_in_is_empty() {
    let container = |values: &[u32]| {
        let stub: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Reader::new(&stub).empty_container()
    };
    assert_eq!(container(&[1, 1, 0]), Ok(1));
    assert_eq!(container(&[2, 2, 5, 0, 0]), Ok(2));
    assert_eq!(container(&[1, 2, 0]), Err(BadStub));
    assert_eq!(container(&[1, 1, 5, 1, 7]), Err(BadStub));
    assert_eq!(container(&[1, 1, 5, 0]), Err(BadStub));
}

proptest! {
    #[test]
    fn hostile_stubs_never_panic(stub in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut reader = Reader::new(&stub);
        let _ = reader.unique_string();
        let _ = reader.empty_container();
        let _ = reader.unique_u32();
        let _ = Reader::new(&stub).string();
        let _ = Reader::new(&stub).uuid();
        let _ = Reader::new(&stub).u32().and_then(|len| Reader::new(&stub).bytes(len));
    }
}
