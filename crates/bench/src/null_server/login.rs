//! Logon of a client: NEGOTIATE and SESSION_SETUP, for the only user.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use auth::{Acceptor, AcceptorSettings, Mechanisms, Step};
use client::{Channel, Negotiated, Session};
use crypto::{Cipher, Role, SigningAlgorithm};
use dtyp::{FileTime, Guid, NtStatus};
use wire::header::Header;
use wire::negotiate::{Capabilities, NegotiateResponse, SecurityMode};
use wire::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList,
    PreauthIntegrityCapabilities, SigningAlgorithmId, SigningCapabilities,
};
use wire::session_setup::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
use wire::{Codes, Decode, Dialect, Encode};

use super::{Connection, PAYLOAD_BYTES_MAX, SESSION_ID};

/// Returns the acceptor for the tokens of a connection.
pub(super) fn acceptor() -> Result<Acceptor> {
    let challenge = crate::client::random()?;
    let name = || "NULL".to_owned();
    let settings = AcceptorSettings {
        netbios_name: name(),
        netbios_domain: name(),
        dns_name: name(),
        dns_domain: name(),
        ..AcceptorSettings::default()
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let now = FileTime::from_unix(i64::try_from(now.as_secs())?, now.subsec_nanos());
    Ok(Acceptor::new(&settings, challenge, now))
}

/// Appends the body of an answer to NEGOTIATE: 3.1.1, one algorithm of each kind.
pub(super) fn negotiate(outbox: &mut Vec<u8>) {
    let mut contexts = NegotiateContextList::new();
    contexts.push(&PreauthIntegrityCapabilities {
        hash_algorithms: Codes::new(&[HashAlgorithmId::SHA_512]),
        salt: &[0; 32],
    });
    contexts.push(&EncryptionCapabilities { ciphers: Codes::new(&[CipherId::AES_128_GCM]) });
    contexts.push(&SigningCapabilities {
        signing_algorithms: Codes::new(&[SigningAlgorithmId::AES_GMAC]),
    });
    let max = u32::try_from(PAYLOAD_BYTES_MAX).expect("8 MiB");
    let body = NegotiateResponse {
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialect_revision: Dialect::SMB_3_1_1,
        server_guid: Guid([1; 16]),
        capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
        max_transact_size: max,
        max_read_size: max,
        max_write_size: max,
        security_buffer: &Acceptor::negotiate_hint(Mechanisms::default()),
        negotiate_contexts: contexts.contexts(),
        ..Default::default()
    };
    body.encode(outbox);
}

impl Connection {
    /// Appends an answer to SESSION_SETUP, and keeps the keys if it is the last.
    pub(super) fn session_setup(&mut self, message: &[u8], mut answer: Header) -> Result<()> {
        let token = SessionSetupRequest::decode(message)?.security_buffer;
        let mut step = self.acceptor.step(token)?;
        if let Step::Account { .. } = step {
            step = self.acceptor.resume(Some(self.account.clone()))?;
        }
        let (token, key) = match step {
            Step::Continue(token) => (token, None),
            Step::Done(outcome) => (outcome.token, Some(outcome.session_key)),
            Step::Account { .. } => bail!("the account was given"),
            Step::Mic(_) | Step::Ticket(_) => bail!("Kerberos is not offered"),
        };
        if key.is_none() {
            answer.status = NtStatus::MORE_PROCESSING_REQUIRED;
        }
        let at = self.outbox.len();
        answer.encode(&mut self.outbox);
        let session_flags = SessionFlags::default();
        SessionSetupResponse { session_flags, security_buffer: &token }.encode(&mut self.outbox);
        let Some(key) = key else {
            self.preauth.update(&self.outbox[at..]);
            return Ok(());
        };
        let negotiated = Negotiated {
            dialect: Dialect::SMB_3_1_1,
            cipher: Some(Cipher::Aes128Gcm),
            signing_algorithm: Some(SigningAlgorithm::AesGmac),
            ..Negotiated::default()
        };
        let keys = negotiated.session_keys(&key, &self.preauth);
        let channel = Channel::first(Session::new(SESSION_ID, &keys, Role::Server), [0; 3]);
        channel.sign(&mut self.outbox[at..]);
        self.channel = Some(channel);
        Ok(())
    }
}
