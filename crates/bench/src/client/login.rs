//! NEGOTIATE, SESSION_SETUP with NTLM and TREE_CONNECT, as a client: [MS-SMB2] 3.2.4.2.

use std::time::{SystemTime, UNIX_EPOCH};

use ::client::{Logon, LogonState, Offer};
use anyhow::{Context, Result, ensure};
use auth::{Credentials, Framing, Initiator, Randomness};
use dtyp::{FileTime, Guid, utf16};
use wire::negotiate::{Capabilities, SecurityMode};
use wire::negotiate_context::SigningAlgorithmId;
use wire::session_setup::SessionSetupFlags;
use wire::tree_connect::TreeConnectRequest;
use wire::{Command, Dialect};

use super::connection::Client;
use super::protection::Protection;
use super::{Destination, Terms};

/// Negotiates the one dialect of `terms`, as the client `client_guid`.
pub(super) fn negotiate(client: &mut Client, terms: Terms, client_guid: Guid) -> Result<()> {
    let mut offer = Offer {
        client_guid,
        security_mode: security_mode(terms.protection),
        salt: random()?,
        ..Offer::dialects(&[terms.dialect])
    };
    offer.capabilities |= Capabilities::PERSISTENT_HANDLES;
    offer.signing.push(SigningAlgorithmId::HMAC_SHA256);
    let reply = client.call_frame(|connection| connection.negotiate(&offer))?;
    let (connection, message) = client.response_parts(&reply);
    Ok(connection.handle_negotiate(&offer, message)?)
}

/// Logs in. The keys are there at the end; only `protection` says whether they are used.
pub(super) fn log_on(
    client: &mut Client,
    destination: &Destination,
    protection: Protection,
    flags: SessionSetupFlags,
) -> Result<()> {
    let randomness = Randomness { client_challenge: random()?, session_key: random()? };
    let credentials = Credentials::password(&destination.user, "", &destination.password);
    let initiator = Initiator::new(credentials, randomness, now()?, Framing::Spnego);
    let mut logon = Logon::new(initiator, client.connection.preauth())?;
    logon.flags = flags;
    logon.security_mode = security_mode(protection);
    loop {
        let reply = client.call_frame(|connection| connection.session_setup(&mut logon))?;
        let (connection, message) = client.response_parts(&reply);
        if connection.handle_session_setup(&mut logon, message)? != LogonState::More {
            return Ok(());
        }
    }
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
    let channel = first.connection.channel().context("a session to bind to")?;
    client.connection.nonce_prefix = [number, 0, 0];
    client.connection.bind(channel.session().clone());
    log_on(client, destination, protection, SessionSetupFlags::BINDING)?;
    client.connection.tree_id = first.connection.tree_id;
    client.protect(protection);
    Ok(())
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
    client.connection.signs |= client.connection.negotiated.dialect == Dialect::SMB_3_1_1;
    let path = format!(r"\\{}\{}", destination.address.ip(), destination.share);
    let path = utf16::to_bytes(&path);
    let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
    let reply = client.call(Command::TREE_CONNECT, 0, &request)?.succeeded()?;
    client.protect(protection);
    client.connection.tree_id = reply.header.tree_id;
    ensure!(
        protection != Protection::Sealed || client.connection.negotiated.cipher.is_some(),
        "no cipher was agreed"
    );
    Ok(())
}

/// Returns the SecurityMode, which SESSION_SETUP repeats.
fn security_mode(protection: Protection) -> SecurityMode {
    match protection {
        Protection::Signed => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
        Protection::Plain | Protection::Sealed => SecurityMode::SIGNING_ENABLED,
    }
}

/// Returns random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .context("getrandom")?;
    ensure!(count == N, "getrandom gave {count} of {N} bytes");
    Ok(bytes)
}

fn now() -> Result<FileTime> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(FileTime::from_unix(i64::try_from(now.as_secs())?, now.subsec_nanos()))
}
