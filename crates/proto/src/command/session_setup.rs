//! SMB2 SESSION_SETUP: [MS-SMB2] 3.3.5.5.

mod binding;
mod domain;
mod logon;

use std::sync::Arc;
use std::time::Duration;

use arbitration::Standing;
use auth::{Acceptor, AcceptorSettings, AuthError, IdentityKind, Outcome};
use crypto::{KeyMaterial, NonceCounter, Role, SessionKeys};
use dtyp::NtStatus;
use engine::effect::{Effect, Reply};
use engine::globals::Globals;
use engine::notice::{Notice, SessionOpened};
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InConnection;
use model::account::{Account, GUESTS_NUMBER, ProvenUsers};
use model::connection::Connection;
use model::memory_account::Charge;
use model::reject::Reject;
use model::session::{
    AUTHENTICATION_BYTES, Authentication, SESSION_BYTES, Sealing, Session, SessionState,
};
use model::settings::{MapToGuest, Policy, ServerSettings};
use rustc_hash::FxHashMap;
use trace::LogonOutcome;
use wire::negotiate::SecurityMode;
use wire::session_setup::{
    SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use wire::{Decode, Dialect};

use crate::command::Command;

/// Highest number of sessions of users on a client, and as many of guests and anonymous users.
/// Anybody can reach a client's worker by naming its ClientGuid, so sessions without a proof have a
/// limit of their own.
const SESSIONS_MAX: usize = 1_024;

/// Highest number of sessions that are being set up or bound over one connection. The limit is per
/// connection, so that none can exhaust another's.
const SETUPS_MAX: usize = 16;

/// Highest number of characters of a host's name: RFC 1035.
const HOST_NAME_MAX: usize = 255;

/// Authenticates a user, in as many steps as the mechanism takes.
#[derive(Debug)]
pub struct SessionSetup;

/// State of a pending SESSION_SETUP.
#[derive(Debug)]
pub struct Pending {
    session_id: u64,
    /// [`Authentication::began_with`] of the authentication that the request is a part of.
    began_with: u64,
    previous_session_id: u64,
    client_requires_signing: bool,
    /// True if the connection is being bound to an existing session.
    binds: bool,
    waits_for: LogonStep,
}

/// Event or reply that a SESSION_SETUP waits for.
#[derive(Debug)]
enum LogonStep {
    /// End of the delay that earlier failed logons cause.
    Turn,
    /// End of the same delay of a ticket.
    TicketTurn(Box<auth::Ticket>),
    /// Answer to the question whether this is the server that the client means.
    OwnName(Box<Proven>),
    /// Account of a user whose proof was right.
    Account(Box<Proven>),
    /// Check of a Kerberos ticket, which may be counted as failed already.
    Ticket { is_counted: bool },
    /// Check of a mechListMIC that came after its ticket.
    Mic,
    /// Check of an NTLM response.
    Response,
    /// Account of guests, for a logon without a proof. Anonymous users have a key: [MS-NLMP]
    /// 3.2.5.1.2, with a SessionBaseKey of zeros.
    Guest { token: Vec<u8>, anonymous_key: Option<auth::SessionKey> },
    /// End of the client's previous session.
    PreviousSession(Box<Established>),
    /// Session that another worker may have.
    Session,
}

/// A proof that was right.
#[derive(Debug)]
struct Proven {
    token: Vec<u8>,
    session_key: auth::SessionKey,
    source: Source,
    target_name: Option<String>,
}

/// Owner of a right proof.
#[derive(Debug)]
enum Source {
    /// Users in the database of this server.
    Database(ProvenUsers),
    /// A user of the domain.
    Domain(Box<Account>),
}

impl Source {
    /// True if groups have to decide which user the name means.
    fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Database(proven) if proven.is_ambiguous)
    }
}

/// A successful authentication, before the session has its keys.
#[derive(Debug)]
struct Established {
    token: Vec<u8>,
    account: Arc<Account>,
    is_anonymous: bool,
    session_key: Option<auth::SessionKey>,
    /// Time until the user must authenticate again.
    lifetime: Option<Duration>,
}

impl PendingCommand for Pending {
    /// Ends a delayed logon with its connection. It still counts as failed.
    fn ends_with_connection(&self, _: bool) -> bool {
        matches!(self.waits_for, LogonStep::Turn | LogonStep::TicketTurn(_))
    }
}

impl Command for SessionSetup {
    type Scope<'s> = InConnection<'s>;
    type Request<'a> = SessionSetupRequest<'a>;
    type Pending = Pending;

    fn start(
        mut scope: InConnection<'_>,
        incoming: &Incoming,
        request: SessionSetupRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = scope.connection.negotiated();
        if scope.globals.settings.encryption == Policy::Required && negotiated.cipher.is_none() {
            return Err(Reject::NotEncrypted);
        }
        scope.connection.binding_key = None;
        scope.connection.progress.token_came();
        let mut pending = Pending {
            session_id: incoming.header.session_id,
            began_with: incoming.header.message_id,
            previous_session_id: request.previous_session_id,
            client_requires_signing: request.security_mode.contains(SecurityMode::SIGNING_REQUIRED),
            binds: false,
            waits_for: LogonStep::Response,
        };
        if pending.session_id == 0 {
            pending.session_id = begin(&mut scope, incoming)?;
        } else if !scope.sessions.contains_key(&pending.session_id) {
            let effect = binding::ask_elsewhere(&mut scope, incoming)?;
            pending.waits_for = LogonStep::Session;
            return Ok(Step::Wait(effect, pending));
        } else if is_bound(&scope, pending.session_id, incoming) {
            pending.began_with = reauthenticate(&mut scope, incoming, &request)?;
        } else {
            pending.began_with = binding::begin(&mut scope, incoming, request.flags)?;
            pending.binds = true;
        }
        let session_id = pending.session_id;
        let is_3_1_1 = scope.connection.negotiated().dialect == Dialect::SMB_3_1_1;
        if let Some(hash) = scope.connection.preauth_sessions.get_mut(&session_id)
            && is_3_1_1
        {
            hash.update(&incoming.message);
        }
        let step = acceptor(&mut scope, incoming, &pending)?.step(request.security_buffer);
        authenticate(scope, incoming, pending, step, None)
    }

    fn resume(
        mut scope: InConnection<'_>,
        incoming: &Incoming,
        mut pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        if let (LogonStep::Session, Reply::Session(answer)) = (&pending.waits_for, &reply) {
            let request =
                SessionSetupRequest::decode(&incoming.message).map_err(Reject::Malformed)?;
            return Err(binding::refuse_elsewhere(&mut scope, incoming, request.flags, answer));
        }
        // Another connection may have ended the session meanwhile, and another request of this one
        // the authentication.
        acceptor(&mut scope, incoming, &pending)?;
        let wanted = std::mem::replace(&mut pending.waits_for, LogonStep::Response);
        match (wanted, reply) {
            (LogonStep::Turn, Reply::Woken) => logon::check_response(&mut scope, incoming, pending),
            (LogonStep::TicketTurn(ticket), Reply::Woken) => {
                Ok(domain::check(pending, ticket, true))
            }
            (LogonStep::OwnName(proven), Reply::OwnName(is_own)) => {
                logon::find_account(scope, incoming, pending, *proven, is_own)
            }
            (LogonStep::Account(proven), Reply::Account(account)) => {
                let Some(account) = account else {
                    return Err(fail(&mut scope, incoming, &pending, Reject::AccountUnavailable));
                };
                if proven.source.is_ambiguous() {
                    logon::succeed(&mut scope, incoming, &pending);
                }
                let Proven { token, session_key, .. } = *proven;
                let done = Established::of_user(token, *account, session_key);
                conclude(scope, incoming, pending, done)
            }
            (LogonStep::Guest { token, anonymous_key }, Reply::Account(account)) => {
                let Some(account) = account else {
                    return Err(fail(&mut scope, incoming, &pending, Reject::LogonFailure));
                };
                let (account, is_anonymous) = (Arc::new(*account), anonymous_key.is_some());
                let (session_key, lifetime) = (anonymous_key, None);
                let done = Established { token, account, is_anonymous, session_key, lifetime };
                conclude(scope, incoming, pending, done)
            }
            (LogonStep::Ticket { is_counted }, Reply::Ticket(result)) => {
                domain::take_ticket(scope, incoming, pending, result, is_counted)
            }
            (LogonStep::Mic, Reply::Mic(is_right)) => {
                let step = acceptor(&mut scope, incoming, &pending)?.resume_mic(is_right);
                authenticate(scope, incoming, pending, step, None)
            }
            (LogonStep::Response, Reply::Response(result)) => {
                logon::take_response(scope, incoming, pending, result)
            }
            (LogonStep::PreviousSession(done), Reply::PreviousSessionClosed) => {
                establish(scope, incoming, &pending, *done)
            }
            (wanted, reply) => panic!("{reply:?} does not answer {wanted:?}"),
        }
    }
}

impl Established {
    /// True for a user that was proven, whose keys nobody else knows.
    fn is_users(&self) -> bool {
        !self.is_anonymous && !self.account.is_guest
    }

    /// Makes the result for a user with a right proof, which does not expire.
    fn of_user(token: Vec<u8>, account: Account, session_key: auth::SessionKey) -> Self {
        let (account, session_key) = (Arc::new(account), Some(session_key));
        Self { token, account, is_anonymous: false, session_key, lifetime: None }
    }
}

/// Returns whether the request came over a channel of the session.
fn is_bound(scope: &InConnection<'_>, session_id: u64, incoming: &Incoming) -> bool {
    let session = scope.sessions.get(&session_id);
    session.is_some_and(|session| session.channel(incoming.connection).is_some())
}

/// Returns the unfinished authentication that a request is a part of.
fn authentication<'a>(
    scope: &'a mut InConnection<'_>,
    incoming: &Incoming,
    pending: &Pending,
) -> Result<&'a mut Authentication, Reject> {
    let session = scope.sessions.get_mut(&pending.session_id).ok_or(Reject::NoSuchSession)?;
    let channel = session.channel_mut(incoming.connection).ok_or(Reject::NoSuchSession)?;
    let authentication = channel.authentication.as_deref_mut();
    let own = authentication.filter(|it| it.began_with == pending.began_with);
    own.ok_or(Reject::NoSuchSession)
}

fn acceptor<'a>(
    scope: &'a mut InConnection<'_>,
    incoming: &Incoming,
    pending: &Pending,
) -> Result<&'a mut Acceptor, Reject> {
    authentication(scope, incoming, pending).map(|it| &mut it.acceptor)
}

/// Returns the names of this server for NTLM.
fn acceptor_settings(settings: &ServerSettings) -> AcceptorSettings {
    AcceptorSettings {
        mechanisms: settings.mechanisms,
        is_member: settings.is_member,
        netbios_name: settings.netbios_name.clone(),
        netbios_domain: settings.workgroup.clone(),
        dns_name: settings.dns_name.clone(),
        dns_domain: settings.dns_domain.clone(),
    }
}

fn new_authentication(
    globals: &mut Globals,
    incoming: &Incoming,
    memory: Charge,
) -> Box<Authentication> {
    let settings = acceptor_settings(&globals.settings);
    Box::new(Authentication {
        began_with: incoming.header.message_id,
        acceptor: Acceptor::new(&settings, globals.entropy.bytes(), incoming.now.wall),
        ticket_owner: None,
        memory,
    })
}

/// Begins a session: [MS-SMB2] 3.3.5.5.1 Authenticating a New Session.
fn begin(scope: &mut InConnection<'_>, incoming: &Incoming) -> Result<u64, Reject> {
    if scope.connection.preauth_sessions.len() >= SETUPS_MAX {
        return Err(Reject::TooManySessions);
    }
    // Charged beyond the limit, so that guests who have exhausted theirs keep no user out.
    let memory = scope.globals.memory.keep_beyond_limit(SESSION_BYTES);
    let of_authentication = scope.globals.memory.keep_beyond_limit(AUTHENTICATION_BYTES);
    // Random, so that ids of different workers do not collide; 32 bits, as in Samba, because some
    // clients keep no more. Among 10,000 sessions one new id in 400,000 is taken already, and then
    // the tables report only one of the two.
    let session_id = loop {
        let id = u64::from(u32::from_le_bytes(scope.globals.entropy.bytes()));
        if id != 0 && id != u64::from(u32::MAX) && !scope.sessions.contains_key(&id) {
            break id;
        }
    };
    let authentication = new_authentication(scope.globals, incoming, of_authentication);
    let negotiated = Arc::clone(scope.connection.negotiated());
    let session = Session::new(session_id, incoming.connection, negotiated, authentication, memory);
    scope.sessions.insert(session_id, session);
    scope.connection.preauth_sessions.insert(session_id, scope.connection.preauth);
    Ok(session_id)
}

/// Continues an authentication, or begins [MS-SMB2] 3.3.5.5.2 Reauthenticating, over any channel of
/// the session. Returns its [`Authentication::began_with`].
fn reauthenticate(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    request: &SessionSetupRequest<'_>,
) -> Result<u64, Reject> {
    let session = scope.sessions.get_mut(&incoming.header.session_id).expect("found by the caller");
    if session.state == SessionState::Ended {
        return Err(Reject::NoSuchSession);
    }
    if request.flags.contains(SessionSetupFlags::BINDING) {
        return Err(Reject::AlreadyBound);
    }
    if session.state != SessionState::InProgress && !incoming.sealed {
        if session.encrypt_data {
            return Err(Reject::NotEncrypted);
        }
        // [MS-SMB2] 3.3.5.2.4 makes no exception for a session that has its keys.
        if session.signing_required && !incoming.header.is_signed() {
            return Err(Reject::NotSigned);
        }
    }
    let channel = session.channel_mut(incoming.connection).expect("found by the caller");
    if let Some(authentication) = &channel.authentication {
        return Ok(authentication.began_with);
    }
    let memory = scope.globals.memory.keep(AUTHENTICATION_BYTES)?;
    let authentication = new_authentication(scope.globals, incoming, memory);
    Ok(channel.authentication.insert(authentication).began_with)
}

/// Handles the result of the mechanism's step: [MS-SMB2] 3.3.5.5.3 Handling GSS-API Authentication.
/// `source` is the owner of the proof, after its check.
fn authenticate(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    step: Result<auth::Step, AuthError>,
    source: Option<Source>,
) -> Result<Step<Pending>, Reject> {
    let session_id = pending.session_id;
    match step {
        Ok(auth::Step::Continue(token)) => {
            let flags = SessionFlags::empty();
            let body = SessionSetupResponse { session_flags: flags, security_buffer: &token };
            let status = NtStatus::MORE_PROCESSING_REQUIRED;
            let mut response = Response::with_status(status, &body);
            response.session_id = Some(session_id);
            Ok(Step::Done(response))
        }
        Ok(auth::Step::Account { user, .. }) => {
            logon::wait_for_turn(&mut scope, incoming, pending, &user)
        }
        Ok(auth::Step::Ticket(ticket)) => {
            domain::wait_for_turn(&mut scope, incoming, pending, Box::new(ticket))
        }
        Ok(auth::Step::Mic(mic)) => {
            pending.waits_for = LogonStep::Mic;
            Ok(Step::Wait(Effect::CheckMic(Box::new(mic)), pending))
        }
        Ok(auth::Step::Done(outcome)) if is_kerberos(&mut scope, incoming, &pending) => {
            domain::accept_ticket(scope, incoming, pending, outcome)
        }
        Ok(auth::Step::Done(Outcome { token, identity, session_key, target_name })) => {
            if identity.kind == IdentityKind::Anonymous {
                pending.waits_for = LogonStep::Guest { token, anonymous_key: Some(session_key) };
                return Ok(Step::Wait(Effect::FindGuest, pending));
            }
            let source = source.expect("a user is proven with the owner of the proof");
            let proven = Proven { token, session_key, source, target_name };
            logon::accept_proof(scope, incoming, pending, proven)
        }
        Err(error) if becomes_guest(scope.globals.settings.map_to_guest, error) => {
            if error == AuthError::NoSuchUser {
                logon::excuse(&mut scope, incoming, &pending);
            } else {
                // A guess, although its client goes on as a guest.
                logon::refuse(&mut scope, incoming, &pending, Reject::Authentication(error));
            }
            let token = acceptor(&mut scope, incoming, &pending)?.guest_token();
            pending.waits_for = LogonStep::Guest { token, anonymous_key: None };
            Ok(Step::Wait(Effect::FindGuest, pending))
        }
        Err(error) => Err(fail(&mut scope, incoming, &pending, Reject::Authentication(error))),
    }
}

fn is_kerberos(scope: &mut InConnection<'_>, incoming: &Incoming, pending: &Pending) -> bool {
    acceptor(scope, incoming, pending).is_ok_and(|acceptor| acceptor.is_kerberos())
}

fn becomes_guest(map: MapToGuest, error: AuthError) -> bool {
    match error {
        AuthError::NoSuchUser => map != MapToGuest::Never,
        AuthError::WrongPassword => map == MapToGuest::BadPassword,
        _ => false,
    }
}

/// Ends the session after a failed authentication, even a later one: a client without a proof keeps
/// nothing. A failed binding ends only the binding.
fn fail(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    pending: &Pending,
    reject: Reject,
) -> Reject {
    logon::refuse(scope, incoming, pending, reject);
    if pending.binds {
        binding::give_up(scope, incoming, pending.session_id);
    } else {
        scope.globals.outbox.ending_sessions.push(pending.session_id);
        scope.connection.preauth_sessions.remove(&pending.session_id);
    }
    reject
}

/// Binds the connection or sets the session up, once the user is authenticated.
fn conclude(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
    done: Established,
) -> Result<Step<Pending>, Reject> {
    if pending.binds {
        return match binding::conclude(&mut scope, incoming, pending.session_id, &done) {
            Ok(response) => Ok(Step::Done(response)),
            Err(reject) => Err(fail(&mut scope, incoming, &pending, reject)),
        };
    }
    replace_previous(scope, incoming, pending, done)
}

/// Ends the session that the client had before it lost its connection, so that its opens do not
/// conflict with those of the new session: [MS-SMB2] 3.3.5.5.3.
fn replace_previous(
    scope: InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    done: Established,
) -> Result<Step<Pending>, Reject> {
    let previous = pending.previous_session_id;
    if previous == 0 || previous == pending.session_id || !done.is_users() {
        return establish(scope, incoming, &pending, done);
    }
    if let Some(session) = scope.sessions.get(&previous) {
        if session.identity() == Some(&done.account.identity) {
            scope.globals.outbox.ending_sessions.push(previous);
            scope.globals.outbox.replaced_sessions.push(previous);
        }
        return establish(scope, incoming, &pending, done);
    }
    let user = done.account.identity.clone();
    pending.waits_for = LogonStep::PreviousSession(done.into());
    Ok(Step::Wait(Effect::ClosePreviousSession { session_id: previous, user }, pending))
}

/// Returns whether one more session of a user, or of another client, stays within the limit.
fn has_place(sessions: &FxHashMap<u64, Session>, is_users: bool) -> bool {
    let is_alike =
        |it: &&Session| it.state != SessionState::InProgress && it.is_users() == is_users;
    sessions.values().filter(is_alike).count() < SESSIONS_MAX
}

/// Checks whether a session may become this user's.
fn verify_establishment(
    scope: &InConnection<'_>,
    pending: &Pending,
    done: &Established,
) -> Result<(), Reject> {
    let session = &scope.sessions[&pending.session_id];
    let is_users = done.is_users();
    if !is_users && scope.globals.settings.encryption == Policy::Required {
        return Err(Reject::NotEncrypted);
    }
    if session.state == SessionState::InProgress {
        let has_place = has_place(scope.sessions, is_users);
        return if has_place { Ok(()) } else { Err(Reject::TooManySessions) };
    }
    // Keys are made once, when the session is set up: a guest's session has none, and those of an
    // anonymous one are no secret, so it could neither sign nor encrypt for a user. The opposite
    // is possible: a user's session keeps its keys.
    if is_users && !session.is_users() {
        return Err(Reject::GuestBecameUser);
    }
    // The session's opens have the first user's rights, and its keys are that user's.
    if is_users && session.owner.as_ref() != Some(&done.account.identity) {
        return Err(Reject::UserChanged);
    }
    // Without a proof nobody prolongs the time of the first user's ticket.
    if !is_users && session.state == SessionState::Expired {
        return Err(Reject::UserChanged);
    }
    Ok(())
}

/// Makes the session valid, or keeps it valid with its present keys.
fn establish(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: &Pending,
    done: Established,
) -> Result<Step<Pending>, Reject> {
    if let Err(reject) = verify_establishment(&scope, pending, &done) {
        return Err(fail(&mut scope, incoming, pending, reject));
    }
    let InConnection { connection, sessions, globals } = scope;
    let session =
        sessions.get_mut(&pending.session_id).expect("the session was there a moment ago");
    let is_new = session.state == SessionState::InProgress;
    let was_users = session.is_users();
    if let Some(channel) = session.channel_mut(incoming.connection) {
        let authentication = channel.authentication.take();
        session.client_name = authentication.map(client_name).unwrap_or_default();
    }
    session.state = SessionState::Valid;
    // A guest's logon leaves a user's session its end.
    if done.is_users() || !was_users {
        session.expires = done.lifetime.map(|lifetime| incoming.now.monotonic + lifetime);
    }
    globals.next_expiry = globals.next_expiry.into_iter().chain(session.expires).min();
    session.memory.set(SESSION_BYTES + done.account.group_bytes());
    session.account = Some(Arc::clone(&done.account));
    session.party = globals.trace.party("", &done.account.user);
    incoming.trace.belongs_to(session.party);
    session.is_anonymous = done.is_anonymous;
    (session.standing, session.user_number) = match done.is_users() {
        true => (Standing::User, done.account.number()),
        false => (Standing::Guest, GUESTS_NUMBER),
    };
    if is_new {
        if let Some(session_key) = &done.session_key {
            give_keys(session, connection, globals, incoming, session_key);
        }
        // [MS-SMB2] 3.3.5.5.3: neither is required of anonymous users, whose keys protect nothing.
        if done.is_users() {
            session.owner = Some(done.account.identity.clone());
            session.signing_required = requires_signing(connection, globals, pending);
            session.encrypt_data =
                session.sealing.is_some() && globals.settings.encryption >= Policy::Desired;
            globals.limit_memory(true);
        }
        let notice = describe(session, connection);
        globals.count_logon(notice.outcome);
        globals.outbox.notices.push_back(Notice::SessionOpened(Box::new(notice)));
    }
    connection.preauth_sessions.remove(&pending.session_id);
    let mut flags = SessionFlags::empty();
    // Both flags mean that the session has no keys to sign or encrypt with.
    flags.set(SessionFlags::IS_NULL, done.is_anonymous && !was_users);
    flags.set(SessionFlags::IS_GUEST, done.account.is_guest && !done.is_anonymous && !was_users);
    flags.set(SessionFlags::ENCRYPT_DATA, session.encrypt_data);
    let body = SessionSetupResponse { session_flags: flags, security_buffer: &done.token };
    let mut response = Response::new(&body);
    response.session_id = Some(pending.session_id);
    Ok(Step::Done(response))
}

/// Returns the name of the client machine, shortened to that of a host. A ticket names none.
fn client_name(authentication: Box<Authentication>) -> String {
    let claimed = authentication.acceptor.claimed();
    claimed.map_or("", |it| &it.workstation).chars().take(HOST_NAME_MAX).collect()
}

fn requires_signing(connection: &Connection, globals: &Globals, pending: &Pending) -> bool {
    let required = SecurityMode::SIGNING_REQUIRED;
    globals.settings.signing == Policy::Required
        || pending.client_requires_signing
        || connection.negotiated().client_security_mode.contains(required)
}

/// Makes the keys for signing, and for the negotiated cipher: [MS-SMB2] 3.3.5.5.3.
fn give_keys(
    session: &mut Session,
    connection: &Connection,
    globals: &mut Globals,
    incoming: &Incoming,
    session_key: &auth::SessionKey,
) {
    let negotiated = connection.negotiated();
    let preauth = connection.preauth_sessions.get(&session.session_id);
    let keys = SessionKeys::derive(KeyMaterial {
        dialect: negotiated.dialect.0,
        session_key: session_key.as_bytes(),
        full_session_key: session_key.full(),
        preauth_hash: preauth.filter(|_| negotiated.dialect == Dialect::SMB_3_1_1),
        cipher: negotiated.cipher,
        signing_algorithm: Some(negotiated.signing_algorithm),
    });
    let signing_key = Arc::new(keys.signing_key());
    session.signing_key = Some(Arc::clone(&signing_key));
    if let Some(channel) = session.channel_mut(incoming.connection) {
        channel.signing_key = Some(signing_key);
    }
    let sealing = (keys.encryption_key(Role::Server), keys.decryption_key(Role::Server));
    if let (Some(seal), Some(open)) = sealing {
        let nonces = NonceCounter::new(globals.entropy.bytes());
        let (seal, open) = (Arc::new(seal), Arc::new(open));
        session.sealing = Some(Sealing { seal, open, nonces });
    }
}

fn describe(session: &Session, connection: &Connection) -> SessionOpened {
    let negotiated = connection.negotiated();
    let account = session.account();
    SessionOpened {
        session_id: session.session_id,
        client_guid: negotiated.client_guid,
        user: account.user.clone(),
        domain: account.domain.clone(),
        sid: account.sid.to_string(),
        client: connection.client,
        client_name: session.client_name.clone(),
        dialect: negotiated.dialect,
        signing_algorithm: negotiated.signing_algorithm.id(),
        signing_required: session.signing_required,
        cipher: negotiated.cipher.map_or(0, crypto::Cipher::id),
        encrypted: session.encrypt_data,
        outcome: match () {
            () if session.is_anonymous => LogonOutcome::Anonymous,
            () if account.is_guest => LogonOutcome::Guest,
            () => LogonOutcome::User,
        },
    }
}
