//! Binding a session to a further connection: [MS-SMB2] 3.3.5.5, with SMB2_SESSION_FLAG_BINDING.
//!
//! The client signs with the session's key, and authenticates as the session's user once more. Then
//! the connection is a channel of the session, with a signing key of its own.

use std::sync::Arc;

use crypto::{Cipher, KeyMaterial, SessionKeys, SigningAlgorithm, SigningKey};
use engine::effect::{Effect, SessionElsewhere};
use engine::request::Incoming;
use engine::response::Response;
use engine::scope::InConnection;
use model::connection::Negotiated;
use model::logon_throttle::Admission;
use model::reject::Reject;
use model::session::{AUTHENTICATION_BYTES, CHANNELS_MAX, Channel, Session, SessionState};
use wire::Dialect;
use wire::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupResponse};

use super::{Established, SETUPS_MAX, new_authentication};

/// Highest number of bytes of a message that another worker verifies: its token has at most 64 KiB.
const QUESTION_BYTES_MAX: usize = 72 << 10;

/// Highest number of pending questions of a connection. A client binds one connection to one
/// session.
const QUESTIONS_MAX: u8 = 4;

/// Parameters in which the connection and the session must agree.
struct Agreed {
    dialect: Dialect,
    cipher: Option<Cipher>,
    signing_algorithm: SigningAlgorithm,
}

/// Begins or continues a binding. The connection is not a bound channel of the session yet. Returns
/// [`Authentication::began_with`](model::session::Authentication::began_with).
pub(super) fn begin(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    flags: SessionSetupFlags,
) -> Result<u64, Reject> {
    let InConnection { connection, sessions, globals } = scope;
    let session_id = incoming.header.session_id;
    let session = sessions.get_mut(&session_id).expect("found by the caller");
    if session.state == SessionState::Ended {
        return Err(Reject::NoSuchSession);
    }
    if let Some(key) = &session.signing_key
        && is_signed_with(incoming, key)?
    {
        connection.binding_key = Some((session_id, Arc::clone(key)));
    }
    if !flags.contains(SessionSetupFlags::BINDING) {
        return Err(Reject::NoSuchSession);
    }
    let negotiated = &session.negotiated;
    let agreed = Agreed {
        dialect: negotiated.dialect,
        cipher: negotiated.cipher,
        signing_algorithm: negotiated.signing_algorithm,
    };
    let ours = connection.negotiated();
    verify_agreement(ours, globals.settings.multi_channel, incoming, &agreed)?;
    verify_session(session)?;
    let channel = session.channel_mut(incoming.connection);
    if let Some(authentication) = channel.and_then(|it| it.authentication.as_ref()) {
        // A further step. A failed authentication would have removed the channel.
        return Ok(authentication.began_with);
    }
    if session.channels.len() >= CHANNELS_MAX {
        return Err(Reject::TooManyChannels);
    }
    if connection.preauth_sessions.len() >= SETUPS_MAX {
        return Err(Reject::TooManySessions);
    }
    let memory = globals.memory.keep(AUTHENTICATION_BYTES)?;
    let authentication = new_authentication(globals, incoming, memory);
    let began_with = authentication.began_with;
    session.channels.push(Channel::new(incoming.connection, authentication, false));
    connection.preauth_sessions.insert(session_id, connection.preauth);
    Ok(began_with)
}

/// Asks the worker that has a session whether its key has signed the request: a session of another
/// worker is revealed only to the holder of its key. Wrong signatures count like wrong tickets, so
/// that strangers cannot keep the workers of users busy with them.
pub(super) fn ask_elsewhere(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
) -> Result<Effect, Reject> {
    let InConnection { connection, globals, .. } = scope;
    let is_short = incoming.message.len() <= QUESTION_BYTES_MAX;
    if !incoming.header.is_signed() || !is_short || connection.session_questions >= QUESTIONS_MAX {
        return Err(Reject::NoSuchSession);
    }
    let settings = &globals.settings.logon_throttle;
    let (now, client) = (incoming.now.monotonic, connection.client);
    match globals.logon_throttle.begin_ticket(settings, now, client) {
        Admission::Now => {}
        Admission::After(_) => {
            // Counted as failed, but nobody will verify it.
            globals.logon_throttle.excuse_ticket(now, client);
            return Err(Reject::NoSuchSession);
        }
        Admission::Refused => return Err(Reject::NoSuchSession),
    }
    connection.session_questions += 1;
    let session_id = incoming.header.session_id;
    Ok(Effect::FindSession { session_id, message: incoming.message.clone() })
}

/// Returns the reason for refusing a session that this worker does not have. If another worker has
/// it, the client gets the same response as from a server of one process, signed with the session's
/// key, which proves that the server sent it. A client without that key learns nothing.
pub(super) fn refuse_elsewhere(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    flags: SessionSetupFlags,
    answer: &SessionElsewhere,
) -> Reject {
    let InConnection { connection, globals, .. } = scope;
    connection.session_questions = connection.session_questions.saturating_sub(1);
    let lent = match answer {
        SessionElsewhere::Proven(lent) => lent,
        SessionElsewhere::Nowhere => return Reject::NoSuchSession,
        SessionElsewhere::Unproven => {
            let settings = &globals.settings.logon_throttle;
            let (now, client) = (incoming.now.monotonic, connection.client);
            globals.logon_throttle.fail_ticket(settings, now, client, false);
            return Reject::NoSuchSession;
        }
    };
    if is_signed_with(incoming, &lent.signing_key) != Ok(true) {
        return Reject::NoSuchSession;
    }
    let key = Arc::clone(&lent.signing_key);
    scope.connection.binding_key = Some((incoming.header.session_id, key));
    if !flags.contains(SessionSetupFlags::BINDING) {
        return Reject::NoSuchSession;
    }
    let agreed = Agreed {
        dialect: lent.dialect,
        cipher: lent.cipher,
        signing_algorithm: lent.signing_key.algorithm(),
    };
    let multi_channel = scope.globals.settings.multi_channel;
    let ours = scope.connection.negotiated();
    match verify_agreement(ours, multi_channel, incoming, &agreed) {
        Ok(()) => Reject::BoundElsewhere,
        Err(reject) => reject,
    }
}

/// Makes the connection a channel, once the user has authenticated: [MS-SMB2] 3.3.5.5.3.
pub(super) fn conclude(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    session_id: u64,
    done: &Established,
) -> Result<Response, Reject> {
    let InConnection { connection, sessions, .. } = scope;
    let session = sessions.get_mut(&session_id).ok_or(Reject::NoSuchSession)?;
    if session.state != SessionState::Valid || session.account().identity != done.account.identity {
        return Err(Reject::BoundByAnotherUser);
    }
    let session_key = done.session_key.as_ref().filter(|_| done.is_users());
    let session_key = session_key.ok_or(Reject::BoundByNobody)?;
    let negotiated = Arc::clone(connection.negotiated());
    let preauth = connection.preauth_sessions.remove(&session_id);
    let keys = SessionKeys::derive(KeyMaterial {
        dialect: negotiated.dialect.0,
        session_key: session_key.as_bytes(),
        full_session_key: session_key.full(),
        preauth_hash: preauth.as_ref().filter(|_| negotiated.dialect == Dialect::SMB_3_1_1),
        // Encryption uses the session's keys on every channel.
        cipher: None,
        signing_algorithm: Some(negotiated.signing_algorithm),
    });
    let channel = session.channel_mut(incoming.connection).ok_or(Reject::NoSuchSession)?;
    channel.signing_key = Some(Arc::new(keys.signing_key()));
    channel.authentication = None;
    channel.is_bound = true;
    connection.binding_key = None;
    let mut flags = SessionFlags::empty();
    flags.set(SessionFlags::ENCRYPT_DATA, session.encrypt_data);
    let body = SessionSetupResponse { session_flags: flags, security_buffer: &done.token };
    Ok(Response::new(&body))
}

/// Gives a binding up. The session keeps its other channels.
pub(super) fn give_up(scope: &mut InConnection<'_>, incoming: &Incoming, session_id: u64) {
    scope.connection.preauth_sessions.remove(&session_id);
    if let Some(session) = scope.sessions.get_mut(&session_id) {
        session.channels.retain(|it| it.connection != incoming.connection || it.is_bound);
    }
}

/// Returns whether the request is signed with `key`, and refuses a wrong signature. This check
/// comes before all others, because only requests of the key's holder may get a signed response:
/// strangers could otherwise have messages of their choice signed.
fn is_signed_with(incoming: &Incoming, key: &SigningKey) -> Result<bool, Reject> {
    if !incoming.header.is_signed() {
        return Ok(false);
    }
    // A copy, since verifying writes into the message.
    let mut message = incoming.message.to_vec();
    key.verify(&mut message).map_err(|_| Reject::BadSignature)?;
    Ok(true)
}

/// Compares the results of NEGOTIATE: [MS-SMB2] 3.3.5.5. AES-GMAC comes first, as in Windows: its
/// nonce is the MessageId, and a key must not use one nonce on two connections.
fn verify_agreement(
    ours: &Negotiated,
    multi_channel: bool,
    incoming: &Incoming,
    session: &Agreed,
) -> Result<(), Reject> {
    if ours.signing_algorithm != session.signing_algorithm {
        if session.signing_algorithm == SigningAlgorithm::AesGmac {
            return Err(Reject::BindingWithoutGmac);
        }
        if ours.signing_algorithm == SigningAlgorithm::AesGmac {
            return Err(Reject::BindingWithGmac);
        }
    }
    if !ours.is_smb3() || !multi_channel {
        return Err(Reject::BindingNotOffered);
    }
    if ours.dialect != session.dialect {
        return Err(Reject::BindingOfOtherDialect);
    }
    if !incoming.header.is_signed() {
        return Err(Reject::BindingNotSigned);
    }
    if ours.cipher != session.cipher {
        return Err(Reject::BindingOfOtherCipher);
    }
    Ok(())
}

/// Checks the state of the session: [MS-SMB2] 3.3.5.5.
fn verify_session(session: &Session) -> Result<(), Reject> {
    match session.state {
        SessionState::InProgress => return Err(Reject::BindingTooEarly),
        SessionState::Expired => return Err(Reject::SessionExpired),
        SessionState::Ended => return Err(Reject::NoSuchSession),
        SessionState::Valid => {}
    }
    if session.is_anonymous || session.account().is_guest || !session.is_users() {
        return Err(Reject::BoundByNobody);
    }
    Ok(())
}
