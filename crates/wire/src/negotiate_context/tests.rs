use std::fmt::Debug;

use super::{
    CipherId, CompressionAlgorithmId, CompressionCapabilities, CompressionCapabilityFlags,
    EncryptionCapabilities, HashAlgorithmId, NegotiateContextData, NegotiateContextList,
    NegotiateContextType, NetnameNegotiateContextId, PosixExtensions, PreauthIntegrityCapabilities,
    RdmaTransformCapabilities, RdmaTransformId, SigningAlgorithmId, SigningCapabilities,
    TransportCapabilities, TransportCapabilityFlags,
};
use crate::codes::Codes;
use crate::error::DecodeError;

/// Asserts that `value` has these bytes, and that every prefix that cuts a list is an error.
#[track_caller]
fn check<'a, T>(value: &T, bytes: &'a [u8])
where
    T: NegotiateContextData<'a> + Debug + PartialEq,
{
    let mut encoded = Vec::new();
    value.encode(&mut encoded);
    assert_eq!(encoded, bytes);
    assert_eq!(T::decode(bytes).as_ref(), Ok(value));
    for end in 0..bytes.len() {
        assert!(T::decode(&bytes[..end]).is_err(), "{end} bytes are no {value:?}");
    }
}

#[test]
fn the_bytes_of_each_context() {
    let hash_algorithms = Codes::new(&[HashAlgorithmId::SHA_512]);
    check(
        &PreauthIntegrityCapabilities { hash_algorithms, salt: &[9, 8, 7] },
        &[1, 0, 3, 0, 1, 0, 9, 8, 7],
    );
    let ciphers = Codes::new(&[CipherId::AES_256_GCM, CipherId::AES_128_CCM]);
    check(&EncryptionCapabilities { ciphers }, &[2, 0, 4, 0, 1, 0]);
    let compression_algorithms =
        Codes::new(&[CompressionAlgorithmId::LZ77, CompressionAlgorithmId::LZ4]);
    let flags = CompressionCapabilityFlags::CHAINED;
    check(
        &CompressionCapabilities { flags, compression_algorithms },
        &[2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 5, 0],
    );
    let flags = TransportCapabilityFlags::ACCEPT_TRANSPORT_LEVEL_SECURITY;
    check(&TransportCapabilities { flags }, &[1, 0, 0, 0]);
    let rdma_transform_ids = Codes::new(&[RdmaTransformId::ENCRYPTION]);
    check(&RdmaTransformCapabilities { rdma_transform_ids }, &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    let signing_algorithms =
        Codes::new(&[SigningAlgorithmId::AES_GMAC, SigningAlgorithmId::AES_CMAC]);
    check(&SigningCapabilities { signing_algorithms }, &[2, 0, 2, 0, 1, 0]);
    check(&PosixExtensions::VERSION_1, &PosixExtensions::VERSION_1.version);
}

#[test]
fn the_list_finds_by_type_and_keeps_unknown_ones() {
    let mut list = NegotiateContextList::new();
    list.push_raw(NegotiateContextType(0x7777), &[1, 2, 3]);
    let net_name = &b"s\0r\0v\0"[..];
    list.push(&NetnameNegotiateContextId { net_name });
    let contexts = list.contexts();
    assert_eq!(contexts.len(), 2);
    let types: Vec<_> = contexts.iter().map(|context| context.context_type.0).collect();
    assert_eq!(types, [0x7777, 0x0005]);
    assert_eq!(contexts.find(), Ok(Some(NetnameNegotiateContextId { net_name })));
    assert_eq!(contexts.find::<SigningCapabilities<'_>>(), Ok(None));
    assert_eq!(contexts.as_bytes()[16..20], [5, 0, 6, 0], "the second begins aligned");
}

#[test]
fn a_known_context_with_bad_data_is_an_error() {
    let mut list = NegotiateContextList::new();
    list.push_raw(NegotiateContextType::SIGNING_CAPABILITIES, &[2, 0, 1, 0]);
    let want = DecodeError::Offset { offset: 0, length: 4, have: 2 };
    assert_eq!(list.contexts().find::<SigningCapabilities<'_>>(), Err(want));
}

#[test]
fn codes_show_their_names() {
    assert_eq!(format!("{:?}", CipherId::AES_128_GCM), "AES_128_GCM");
    assert_eq!(format!("{:?}", CipherId(0x99)), "CipherId(0x99)");
}
