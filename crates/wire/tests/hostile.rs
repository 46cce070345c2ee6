//! Every decoder returns a value or an error, whatever the bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::change_notify::{ChangeNotifyRequest, ChangeNotifyResponse, NotifyInformation};
use wire::close::{CloseRequest, CloseResponse};
use wire::compound::Compound;
use wire::create::{CreateRequest, CreateResponse};
use wire::create_context::{CreateContexts, LeaseContext, PosixResponse};
use wire::error_response::{ErrorContext, ErrorResponse, SymbolicLinkError};
use wire::flush::FlushRequest;
use wire::header::Header;
use wire::ioctl::{
    CopyChunkCopy, DfsReferralRequest, DfsReferralResponse, IoctlRequest, IoctlResponse,
    NetworkInterfaces, PipeWait, ValidateNegotiateInfoRequest,
};
use wire::lock::LockRequest;
use wire::negotiate::{NegotiateRequest, NegotiateResponse};
use wire::negotiate_context::{
    CompressionCapabilities, EncryptionCapabilities, PreauthIntegrityCapabilities,
    RdmaTransformCapabilities, SigningCapabilities,
};
use wire::oplock_break::{BreakAcknowledgment, BreakNotification};
use wire::query_directory::{QueryDirectoryRequest, QueryDirectoryResponse};
use wire::query_info::{QueryInfoRequest, QueryInfoResponse};
use wire::read::{ReadRequest, ReadResponse};
use wire::session_setup::{SessionSetupRequest, SessionSetupResponse};
use wire::set_info::{SetInfoRequest, SetInfoResponse};
use wire::smb1_negotiate::Smb1Negotiate;
use wire::transform::{CompressionTransformHeader, Protocol, TransformHeader};
use wire::tree_connect::{TreeConnectRequest, TreeConnectResponse};
use wire::write::{WriteRequest, WriteResponse};
use wire::{Decode, DecodeError};

/// StructureSize of every body, so that random bytes pass the first check.
const STRUCTURE_SIZES: [u16; 19] =
    [2, 4, 9, 16, 17, 24, 25, 32, 33, 36, 41, 44, 48, 49, 57, 60, 65, 89, 0xFFFF];

/// Decodes `message` as a `T`; formatting with `Debug` visits all borrowed parts.
fn decode<'a, T: Decode<'a> + std::fmt::Debug>(message: &'a [u8]) -> Option<T> {
    let decoded = T::decode(message).ok()?;
    assert!(!format!("{decoded:?}").is_empty());
    Some(decoded)
}

fn decode_requests(message: &[u8]) {
    decode::<SessionSetupRequest<'_>>(message);
    decode::<TreeConnectRequest<'_>>(message);
    decode::<CloseRequest>(message);
    decode::<FlushRequest>(message);
    decode::<ReadRequest<'_>>(message);
    decode::<LockRequest<'_>>(message);
    decode::<IoctlRequest<'_>>(message);
    decode::<QueryDirectoryRequest<'_>>(message);
    decode::<ChangeNotifyRequest>(message);
    decode::<QueryInfoRequest<'_>>(message);
    decode::<SetInfoRequest<'_>>(message);
    decode::<BreakAcknowledgment>(message);
    if let Some(write) = decode::<WriteRequest<'_>>(message) {
        assert_eq!(message[write.data_range.clone()], *write.data());
    }
    if let Some(create) = decode::<CreateRequest<'_>>(message) {
        assert!(create.create_contexts.iter().count() <= message.len() / 16);
    }
    if let Some(negotiate) = decode::<NegotiateRequest<'_>>(message) {
        let contexts = negotiate.negotiate_contexts;
        assert_eq!(contexts.iter().count(), usize::from(contexts.len()));
    }
}

fn decode_responses(message: &[u8]) {
    decode::<NegotiateResponse<'_>>(message);
    decode::<SessionSetupResponse<'_>>(message);
    decode::<TreeConnectResponse>(message);
    decode::<CreateResponse<'_>>(message);
    decode::<CloseResponse>(message);
    decode::<ReadResponse<'_>>(message);
    decode::<WriteResponse>(message);
    decode::<IoctlResponse<'_>>(message);
    decode::<QueryDirectoryResponse<'_>>(message);
    decode::<ChangeNotifyResponse<'_>>(message);
    decode::<QueryInfoResponse<'_>>(message);
    decode::<SetInfoResponse>(message);
    decode::<BreakNotification>(message);
    decode::<ErrorResponse<'_>>(message);
}

/// Structures inside of bodies, and frames. An error ends a chain, so chains are finite.
fn decode_parts(bytes: &[u8]) {
    let is_bounded = |count: usize| assert!(count <= bytes.len() + 1);
    is_bounded(Compound::new(bytes).count());
    is_bounded(NotifyInformation::iter(bytes).count());
    is_bounded(NetworkInterfaces::new(bytes).count());
    is_bounded(ErrorContext::iter(bytes, u8::MAX).count());
    let outcomes: [Result<(), DecodeError>; 16] = [
        Header::decode(bytes).map(drop),
        Protocol::of(bytes).map(|_| ()),
        TransformHeader::decode(bytes).map(|_| ()),
        CompressionTransformHeader::decode(bytes).map(|_| ()),
        Smb1Negotiate::decode(bytes).map(|request| is_bounded(request.dialects().count())),
        CreateContexts::parse(bytes).map(|contexts| is_bounded(contexts.iter().count())),
        SymbolicLinkError::decode(bytes).map(|_| ()),
        CopyChunkCopy::decode(bytes).map(|copy| is_bounded(copy.chunks.iter().count())),
        DfsReferralRequest::decode(bytes).map(|_| ()),
        DfsReferralRequest::decode_extended(bytes).map(|_| ()),
        DfsReferralResponse::decode(bytes).map(|it| is_bounded(it.targets.len())),
        PipeWait::decode(bytes).map(|_| ()),
        ValidateNegotiateInfoRequest::decode(bytes).map(|r| is_bounded(r.dialects.iter().count())),
        context::<LeaseContext>(bytes),
        context::<PosixResponse>(bytes),
        negotiate_contexts(bytes),
    ];
    for outcome in outcomes {
        if let Err(error) = outcome {
            assert!(!error.to_string().is_empty());
        }
    }
}

fn context<'a, T: wire::create_context::CreateContextData<'a>>(
    bytes: &'a [u8],
) -> Result<(), DecodeError> {
    T::decode(bytes).map(|_| ())
}

fn negotiate_contexts(bytes: &[u8]) -> Result<(), DecodeError> {
    fn one<'a, T: wire::negotiate_context::NegotiateContextData<'a>>(
        bytes: &'a [u8],
    ) -> Result<(), DecodeError> {
        T::decode(bytes).map(|_| ())
    }
    [
        one::<PreauthIntegrityCapabilities<'_>>(bytes),
        one::<EncryptionCapabilities<'_>>(bytes),
        one::<CompressionCapabilities<'_>>(bytes),
        one::<RdmaTransformCapabilities<'_>>(bytes),
        one::<SigningCapabilities<'_>>(bytes),
    ]
    .into_iter()
    .collect()
}

/// Bytes that are mostly small numbers: offsets and lengths that may fit.
fn plausible_byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0_u8), 3 => 0..0xA0_u8, 1 => any::<u8>()]
}

proptest! {
    #[test]
    fn random_bodies_are_errors_or_values(
        structure_size in prop::sample::select(&STRUCTURE_SIZES[..]),
        bytes in vec(plausible_byte(), 0..0x180),
    ) {
        let mut message = vec![0; 0x40];
        message.extend(structure_size.to_le_bytes());
        message.extend(bytes);
        decode_requests(&message);
        decode_responses(&message);
    }

    /// The dialect 3.1.1, so that contexts are decoded.
    #[test]
    fn random_negotiate_contexts_are_errors_or_values(
        offset in 0x60..0x90_u8,
        count in 0..5_u8,
        bytes in vec(plausible_byte(), 0..0x100),
    ) {
        let mut message = vec![0; 0x40];
        message.extend([36, 0, 1, 0]);
        message.extend([0; 24]);
        message.extend([offset, 0, 0, 0, count, 0, 0, 0, 0x11, 0x03]);
        message.extend(bytes);
        decode_requests(&message);
    }

    #[test]
    fn random_parts_are_errors_or_values(bytes in vec(plausible_byte(), 0..0x180)) {
        decode_parts(&bytes);
        decode_requests(&bytes);
        decode_responses(&bytes);
    }

    #[test]
    fn random_compounds_end(
        elements in vec((0..0x90_u32, 0..0x60_usize), 0..6),
        junk in vec(any::<u8>(), 0..0x50),
    ) {
        let mut frame = Vec::new();
        for (next_command, length) in elements {
            let header = Header { next_command, ..Header::default() };
            header.encode(&mut frame);
            frame.resize(frame.len() + length, 0);
        }
        frame.extend(junk);
        decode_parts(&frame);
        let mut end = 0;
        for range in Compound::new(&frame).ranges().flatten() {
            prop_assert_eq!(range.start, end, "elements follow each other");
            prop_assert!(range.len() >= 0x40);
            end = range.end;
        }
    }
}
