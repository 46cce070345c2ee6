use super::{
    CompressionFlags, CompressionTransformHeader, Protocol, TransformFlags, TransformHeader,
};
use crate::error::DecodeError;
use crate::negotiate_context::CompressionAlgorithmId;

const TRANSFORM: TransformHeader = TransformHeader {
    signature: [1; 16],
    nonce: [2; 16],
    original_message_size: 0x0304,
    flags: TransformFlags::ENCRYPTED,
    session_id: 0x0B0A_0908_0706_0504,
};

fn transform() -> Vec<u8> {
    let mut bytes = Vec::new();
    TRANSFORM.encode(&mut bytes);
    bytes
}

#[test]
fn the_bytes_of_a_transform_header() {
    let bytes = transform();
    let want = [
        &[0xFD, b'S', b'M', b'B'][..],
        &[1; 16],
        &[2; 16],
        &[4, 3, 0, 0, 0, 0, 1, 0, 4, 5, 6, 7, 8, 9, 10, 11],
    ];
    assert_eq!(bytes, want.concat());
    assert_eq!(bytes.len(), TransformHeader::SIZE);
    assert_eq!(bytes[TransformHeader::SIGNATURE], [1; 16]);
    assert_eq!(bytes[TransformHeader::AUTHENTICATED][..16], [2; 16]);
    assert_eq!(TransformHeader::AUTHENTICATED.len(), 32);
    assert_eq!(TransformHeader::decode(&bytes), Ok(TRANSFORM));
}

#[test]
fn every_prefix_of_a_transform_header_is_an_error() {
    let bytes = transform();
    for end in 0..bytes.len() {
        let want = DecodeError::Short { need: 52, have: end };
        assert_eq!(TransformHeader::decode(&bytes[..end]), Err(want));
    }
}

#[test]
fn compression_headers_round_trip() {
    let header = CompressionTransformHeader {
        original_compressed_segment_size: 0x0102,
        compression_algorithm: CompressionAlgorithmId::LZ77,
        flags: CompressionFlags::CHAINED,
        offset_or_length: 0x0304,
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    let want = [0xFC, b'S', b'M', b'B', 2, 1, 0, 0, 2, 0, 1, 0, 4, 3, 0, 0];
    assert_eq!(bytes, want);
    assert_eq!(CompressionTransformHeader::decode(&bytes), Ok(header));
    let want = DecodeError::NotSmb2 { protocol_id: 0x424D_53FC };
    assert_eq!(TransformHeader::decode(&[bytes, vec![0; 64]].concat()), Err(want));
}

#[test]
fn a_frame_is_recognized_by_its_first_four_bytes() {
    assert_eq!(Protocol::of(b"\xFESMB"), Ok(Protocol::Smb2));
    assert_eq!(Protocol::of(b"\xFDSMB"), Ok(Protocol::Encrypted));
    assert_eq!(Protocol::of(b"\xFCSMB"), Ok(Protocol::Compressed));
    assert_eq!(Protocol::of(b"\xFFSMB"), Ok(Protocol::Smb1));
    assert_eq!(Protocol::of(b"\xFBSMB"), Err(DecodeError::NotSmb2 { protocol_id: 0x424D_53FB }));
    assert_eq!(Protocol::of(b"\xFES"), Err(DecodeError::Short { need: 4, have: 2 }));
}
