//! SESSION_SETUP with NTLM and TREE_CONNECT, as a client: [MS-SMB2] 3.2.4.2.3, 3.2.4.2.4.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use auth::{Credentials, Framing, Initiator, Randomness, SessionKey};
use crypto::{KeyMaterial, PreauthHash, Role, SessionKeys};
use dtyp::{FileTime, NtStatus, utf16};
use wire::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::tree_connect::TreeConnectRequest;
use wire::{Command, Decode, Dialect};

use super::Destination;
use super::connection::Client;
use super::negotiate::{random, security_mode};
use super::protection::{Keys, Protection};

/// Exchanges after which an authentication is given up; NTLM takes two.
const EXCHANGES_MAX: u32 = 4;

/// Logs in. The keys are there at the end; only `protection` says whether they are used.
pub(super) fn session_setup(
    client: &mut Client,
    destination: &Destination,
    protection: Protection,
) -> Result<()> {
    let keys = authenticate(client, destination, protection, SessionSetupFlags::empty())?;
    client.keys = Some(Keys::new(&keys, Role::Client));
    Ok(())
}

/// Binds the session of `first` to the connection: it is signed with that session's key, and the
/// server shows with the last answer that it has the channel's.
pub(super) fn bind(
    client: &mut Client,
    first: &Client,
    destination: &Destination,
    protection: Protection,
    number: u8,
) -> Result<()> {
    let keys = first.keys.as_ref().context("a session to bind to")?;
    client.session_id = first.session_id;
    client.keys = Some(keys.of_channel(keys.signing.clone(), number));
    client.signs = true;
    let own = authenticate(client, destination, protection, SessionSetupFlags::BINDING)?;
    client.keys = Some(keys.of_channel(own.signing_key(), number));
    client.tree_id = first.tree_id;
    client.protect(protection);
    Ok(())
}

fn authenticate(
    client: &mut Client,
    destination: &Destination,
    protection: Protection,
    flags: SessionSetupFlags,
) -> Result<SessionKeys> {
    let randomness = Randomness { client_challenge: random()?, session_key: random()? };
    let credentials = Credentials::password(&destination.user, "", &destination.password);
    let mut initiator = Initiator::new(credentials, randomness, now()?, Framing::Spnego);
    let mut token = initiator.start()?;
    let mut session_key = None;
    let mut preauth = client.negotiated.preauth;
    for _ in 0..EXCHANGES_MAX {
        let request = SessionSetupRequest {
            flags,
            security_mode: security_mode(protection),
            security_buffer: &token,
            ..SessionSetupRequest::default()
        };
        // The last answer of a binding is signed with a key that is made of it.
        let reply = client.call_unverified(Command::SESSION_SETUP, 0, &request)?;
        preauth.update(client.sent());
        client.session_id = reply.header.session_id;
        let message = client.message(&reply);
        match reply.header.status {
            NtStatus::MORE_PROCESSING_REQUIRED => {
                preauth.update(message);
                let step =
                    initiator.step(SessionSetupResponse::decode(message)?.security_buffer)?;
                session_key = step.session_key.or(session_key);
                token = step.token;
            }
            NtStatus::SUCCESS => {
                initiator.finish(SessionSetupResponse::decode(message)?.security_buffer)?;
                let mut message = message.to_vec();
                let key = session_key.context("a session without a key")?;
                let keys = derive(client, &key, &preauth);
                if reply.header.is_signed() {
                    keys.signing_key().verify(&mut message)?;
                }
                return Ok(keys);
            }
            status => bail!("SESSION_SETUP was answered with {status:?}"),
        }
    }
    bail!("the authentication does not come to an end")
}

fn derive(client: &Client, key: &SessionKey, preauth: &PreauthHash) -> SessionKeys {
    let negotiated = &client.negotiated;
    SessionKeys::derive(KeyMaterial {
        dialect: negotiated.dialect.0,
        session_key: key.as_bytes(),
        full_session_key: key.as_bytes(),
        preauth_hash: Some(preauth),
        cipher: negotiated.cipher,
        signing_algorithm: negotiated.signing_algorithm,
    })
}

/// Connects to the share.
///
/// In 3.1.1 this request is signed whatever was agreed, so that a changed NEGOTIATE is found out:
/// [MS-SMB2] 3.2.4.1.1.
pub(super) fn tree_connect(
    client: &mut Client,
    destination: &Destination,
    protection: Protection,
) -> Result<()> {
    client.protect(protection);
    client.signs |= client.negotiated.dialect == Dialect::SMB_3_1_1;
    let path = format!(r"\\{}\{}", destination.address.ip(), destination.share);
    let path = utf16::to_bytes(&path);
    let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
    let reply = client.call(Command::TREE_CONNECT, 0, &request)?.succeeded()?;
    client.protect(protection);
    client.tree_id = reply.header.tree_id;
    ensure!(
        protection != Protection::Sealed || client.negotiated.cipher.is_some(),
        "no cipher was agreed"
    );
    Ok(())
}

fn now() -> Result<FileTime> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(FileTime::from_unix(i64::try_from(now.as_secs())?, now.subsec_nanos()))
}
