//! Negotiate contexts: their number, then the list.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Decode;
use wire::negotiate::NegotiateRequest;
use wire::negotiate_context::{
    CompressionCapabilities, EncryptionCapabilities, NegotiateContexts, NetnameNegotiateContextId,
    PosixExtensions, PreauthIntegrityCapabilities, RdmaTransformCapabilities, SigningCapabilities,
    TransportCapabilities,
};

/// A NEGOTIATE that offers 3.1.1; its contexts begin at 0x68.
fn message(count: u8, contexts: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 64];
    message.extend_from_slice(&[36, 0, 1, 0, 1, 0, 0, 0]);
    message.resize(64 + 28, 0);
    message.extend_from_slice(&0x68_u32.to_le_bytes());
    message.extend_from_slice(&[count, 0, 0, 0, 0x11, 0x03, 0, 0]);
    message.resize(0x68, 0);
    message.extend_from_slice(contexts);
    message
}

fn read(contexts: NegotiateContexts<'_>) {
    let _ = contexts.find::<PreauthIntegrityCapabilities<'_>>();
    let _ = contexts.find::<EncryptionCapabilities<'_>>();
    let _ = contexts.find::<CompressionCapabilities<'_>>();
    let _ = contexts.find::<NetnameNegotiateContextId<'_>>();
    let _ = contexts.find::<TransportCapabilities>();
    let _ = contexts.find::<RdmaTransformCapabilities<'_>>();
    let _ = contexts.find::<SigningCapabilities<'_>>();
    let _ = contexts.find::<PosixExtensions>();
}

fuzz_target!(|input: &[u8]| {
    let Some((count, contexts)) = input.split_first() else { return };
    let message = message(*count, contexts);
    if let Ok(request) = NegotiateRequest::decode(&message) {
        let contexts = request.negotiate_contexts;
        assert_eq!(contexts.iter().count(), usize::from(*count));
        read(contexts);
    }
});
