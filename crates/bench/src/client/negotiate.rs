//! NEGOTIATE, as a client: [MS-SMB2] 3.2.4.2.2.

use anyhow::{Context, Result, ensure};
use crypto::{Cipher, PreauthHash, SigningAlgorithm};
use dtyp::Guid;
use wire::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList,
    PreauthIntegrityCapabilities, SigningAlgorithmId, SigningCapabilities,
};
use wire::{Codes, Command, Decode, Dialect};

use super::Terms;
use super::connection::Client;
use super::protection::Protection;

/// Result of the negotiation with the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Negotiated {
    pub(super) dialect: Dialect,
    pub(super) cipher: Option<Cipher>,
    pub(super) signing_algorithm: Option<SigningAlgorithm>,
    pub(super) preauth: PreauthHash,
    pub(super) payload_bytes_max: usize,
    /// `Connection.ClientGuid`, by which the server identifies the client.
    pub(super) client_guid: Guid,
}

/// Negotiates the one dialect of `terms`, as the client `client_guid`.
pub(super) fn negotiate(client: &mut Client, terms: Terms, client_guid: Guid) -> Result<()> {
    let contexts = match terms.dialect {
        Dialect::SMB_3_1_1 => contexts()?,
        _ => NegotiateContextList::new(),
    };
    let dialects = [terms.dialect];
    let request = NegotiateRequest {
        security_mode: security_mode(terms.protection),
        capabilities: Capabilities::LARGE_MTU
            | Capabilities::ENCRYPTION
            | Capabilities::MULTI_CHANNEL
            | Capabilities::PERSISTENT_HANDLES,
        client_guid,
        dialects: Codes::new(&dialects),
        negotiate_contexts: contexts.contexts(),
    };
    let reply = client.call(Command::NEGOTIATE, 0, &request)?.succeeded()?;
    let message = client.message(&reply);
    let response = NegotiateResponse::decode(message)?;
    ensure!(response.dialect_revision == terms.dialect, "got {:?}", response.dialect_revision);
    let mut preauth = PreauthHash::ZERO;
    preauth.update(client.sent());
    preauth.update(message);
    let encryption = response.negotiate_contexts.find::<EncryptionCapabilities<'_>>()?;
    let signing = response.negotiate_contexts.find::<SigningCapabilities<'_>>()?;
    let cipher = match terms.dialect {
        Dialect::SMB_3_0 | Dialect::SMB_3_0_2 => Some(Cipher::Aes128Ccm),
        _ => encryption.and_then(|list| Cipher::from_id(list.ciphers.iter().next()?.0)),
    };
    let signing_algorithm = signing
        .and_then(|list| SigningAlgorithm::from_id(list.signing_algorithms.iter().next()?.0));
    let max = response.max_read_size.min(response.max_write_size).min(response.max_transact_size);
    client.negotiated = Negotiated {
        dialect: terms.dialect,
        cipher,
        signing_algorithm,
        preauth,
        payload_bytes_max: usize::try_from(max)?,
        client_guid,
    };
    Ok(())
}

/// Returns the SecurityMode, which SESSION_SETUP repeats.
pub(super) fn security_mode(protection: Protection) -> SecurityMode {
    match protection {
        Protection::Signed => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
        Protection::Plain | Protection::Sealed => SecurityMode::SIGNING_ENABLED,
    }
}

fn contexts() -> Result<NegotiateContextList> {
    let mut contexts = NegotiateContextList::new();
    contexts.push(&PreauthIntegrityCapabilities {
        hash_algorithms: Codes::new(&[HashAlgorithmId::SHA_512]),
        salt: &random::<32>()?,
    });
    contexts.push(&EncryptionCapabilities {
        ciphers: Codes::new(&[CipherId::AES_128_GCM, CipherId::AES_128_CCM]),
    });
    contexts.push(&SigningCapabilities {
        signing_algorithms: Codes::new(&[
            SigningAlgorithmId::AES_GMAC,
            SigningAlgorithmId::AES_CMAC,
            SigningAlgorithmId::HMAC_SHA256,
        ]),
    });
    Ok(contexts)
}

/// Returns random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .context("getrandom")?;
    ensure!(count == N, "getrandom gave {count} of {N} bytes");
    Ok(bytes)
}
