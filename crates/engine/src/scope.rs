//! Objects that a command may access, looked up before it runs; and the operation of the store that
//! a request needs, if the store can answer it at once ([`StorageAccess::ask_at_once`]).
//!
//! Each command names one of the four scopes below as its `proto::command::Command::Scope`.
//! `proto::dispatch` resolves it from the ids in the header before `start`, and again before
//! `resume`: session, tree connect or open may have ended meanwhile, and the response says so then.
//! A scope borrows the parts of the `Server` that the command may touch, and nothing else. `lend`
//! gives a shorter borrow, so that `dispatch` keeps the scope over several steps.

use model::connection::Connection;
use model::open::Open;
use model::reject::Reject;
use model::session::{Session, SessionState};
use model::tree_connect::TreeConnect;
use object::{ObjectOp, ObjectResult};
use rustc_hash::FxHashMap;
use trace::Phase;
use wire::{Command, FileId, Header};

use crate::effect::Effect;
use crate::globals::Globals;
use crate::in_flight::RequestsInFlight;
use crate::pending_command::PendingCommand;
use crate::request::Incoming;
use crate::response::Step;
use crate::server::Server;
use crate::storage::{Requester, Storage};

/// Names the same scope with another lifetime, for [`Scope::lend`].
pub trait Shorten: Sized {
    /// The scope with the lifetime `'a`.
    type Shorter<'a>: Scope<'a>;
}

/// A scope that can be resolved from a request's identifiers.
pub trait Scope<'s>: Shorten {
    /// Looks the identifiers up, in the order of [MS-SMB2] 3.3.5.2.9 to 3.3.5.2.11.
    ///
    /// # Errors
    /// If one of them names nothing, if the state of the session excludes the command, or if the
    /// request had to be encrypted.
    fn resolve(
        server: &'s mut Server,
        incoming: &Incoming,
        file_id: Option<FileId>,
    ) -> Result<Self, Reject>;

    /// Lends the scope to one step of a command.
    fn lend(&mut self) -> Self::Shorter<'_>;

    /// Returns the share and user whose counters count the request.
    fn party(&self, header: &Header) -> trace::PartyId;

    /// Returns the parts of the scope that an operation of the store needs; `None` if commands with
    /// this scope use no store.
    fn storage(&mut self) -> Option<StorageAccess<'_>>;

    /// Returns whether the request has the channel sequence number of the one before it and is no
    /// replay, as nearly always. [`Self::verify_channel_sequence`] is not necessary then.
    fn continues_sequence(&self, _: &Header) -> bool {
        true
    }

    /// [MS-SMB2] 3.3.5.2.10 Verifying the Channel Sequence Number, for requests that name an open.
    ///
    /// # Errors
    /// If the request would change something, and its number is an earlier one, or it is a replay
    /// while requests of earlier numbers are outstanding.
    fn verify_channel_sequence(&mut self, incoming: &Incoming) -> Result<(), Reject> {
        let _ = incoming;
        Ok(())
    }
}

/// Scope with a connection alone: NEGOTIATE, SESSION_SETUP, ECHO.
#[derive(Debug)]
pub struct InConnection<'s> {
    pub connection: &'s mut Connection,
    /// All sessions of the worker.
    pub sessions: &'s mut FxHashMap<u64, Session>,
    /// Settings, file records, limits, and queues of work.
    pub globals: &'s mut Globals,
}

/// Scope with a session: LOGOFF, TREE_CONNECT, TREE_DISCONNECT.
#[derive(Debug)]
pub struct InSession<'s> {
    pub connection: &'s mut Connection,
    pub session: &'s mut Session,
    /// All opens of the worker.
    pub opens: &'s mut FxHashMap<u64, Open>,
    /// Pending requests of the worker.
    pub in_flight: &'s RequestsInFlight,
    /// Settings, file records, limits, and queues of work.
    pub globals: &'s mut Globals,
}

/// Scope with a tree connect: CREATE, and the commands that look their open up themselves: CLOSE,
/// SET_INFO, IOCTL, OPLOCK_BREAK.
#[derive(Debug)]
pub struct InTree<'s> {
    pub connection: &'s mut Connection,
    pub session: &'s Session,
    pub tree: &'s TreeConnect,
    /// All opens of the worker, by volatile id.
    pub opens: &'s mut FxHashMap<u64, Open>,
    /// The open that the request names, if any; not looked up yet.
    pub file_id: Option<FileId>,
    /// Pending requests of the worker.
    pub in_flight: &'s RequestsInFlight,
    /// Settings, file records, limits, and queues of work.
    pub globals: &'s mut Globals,
}

/// Scope with an open: READ, WRITE, FLUSH, LOCK, QUERY_INFO, QUERY_DIRECTORY, CHANGE_NOTIFY, and
/// most control codes of IOCTL.
#[derive(Debug)]
pub struct InOpen<'s> {
    pub connection: &'s mut Connection,
    pub session: &'s Session,
    pub tree: &'s TreeConnect,
    pub open: &'s mut Open,
    /// Settings, file records, limits, and queues of work.
    pub globals: &'s mut Globals,
}

/// The parts of a scope that an operation of the store needs.
#[derive(Debug)]
pub struct StorageAccess<'s> {
    /// The open that the request names, if any. Found by its volatile id alone: `start` has
    /// verified the others.
    pub open: Option<&'s Open>,
    /// The tree connect of the request.
    pub tree: &'s TreeConnect,
    /// Settings, file records, limits, and queues of work.
    pub globals: &'s mut Globals,
}

/// Result of an operation of the store: see [`StorageAccess::ask_at_once`].
#[derive(Debug)]
pub enum StorageOutcome<P> {
    /// The store has answered the operation.
    Answered(ObjectResult, P),
    /// The request has to wait.
    Waits(Step<P>),
}

impl StorageAccess<'_> {
    /// Asks the store at once, if the request overtakes nothing: no effect waits before this one,
    /// handlers have deferred no work (`Globals::has_no_deferred_work` has `is_alone`), and no
    /// class of service limits the request.
    #[inline]
    pub fn ask_at_once<P: PendingCommand>(
        self,
        incoming: &Incoming,
        is_alone: bool,
        effect: Effect,
        pending: P,
        storage: &mut dyn Storage,
    ) -> StorageOutcome<P> {
        let Self { open, tree, globals } = self;
        let classes = open.map_or(&tree.classes.always, |open| &open.classes);
        // A CLOSE is never throttled.
        let is_free = classes.is_none() || incoming.header.command == Command::CLOSE;
        let is_next = globals.outbox.effects.is_empty() && globals.has_no_deferred_work(is_alone);
        let begins_now = is_free && is_next && storage.may_begin_now(&effect);
        let (user, op) = match effect {
            Effect::Object { user, op } if begins_now => (user, op),
            effect => return StorageOutcome::Waits(Step::Wait(effect, pending)),
        };
        // The two most frequent ones, without the list of `changes_contents`.
        let keeps_contents = matches!(op, ObjectOp::Open(_) | ObjectOp::Read { .. });
        let changed =
            open.filter(|_| !keeps_contents && op.changes_contents()).and_then(Open::identity);
        // A CREATE that overwrites names no open yet.
        let changed = changed.or_else(|| pending.file_being_changed());
        incoming.trace.wait(Phase::Storage);
        let requester = Requester { request: incoming.id, connection: incoming.connection };
        let Some(result) = storage.begin(requester, user, op) else {
            return StorageOutcome::Waits(Step::Begun { pending, changed });
        };
        incoming.trace.resume();
        if let Some((identity, volatile)) = changed {
            globals.files.break_granted_during_change(identity, volatile);
        }
        StorageOutcome::Answered(result, pending)
    }
}

impl Globals {
    /// Returns whether handlers have deferred no work that must precede an operation of the store.
    /// If no other request is in flight (`is_alone`), it clears the list of closed opens first:
    /// nobody waits for their end.
    #[inline]
    pub(crate) fn has_no_deferred_work(&mut self, is_alone: bool) -> bool {
        let Self { outbox, files, throttle, .. } = self;
        if is_alone {
            outbox.closed_opens.clear();
        }
        outbox.closed_opens.is_empty()
            && outbox.requests_to_wake.is_empty()
            && outbox.changes.is_empty()
            && outbox.ending_sessions.is_empty()
            && !files.has_files_to_check()
            && throttle.is_idle()
    }
}

impl Shorten for InConnection<'_> {
    type Shorter<'a> = InConnection<'a>;
}

impl<'s> Scope<'s> for InConnection<'s> {
    fn resolve(
        server: &'s mut Server,
        incoming: &Incoming,
        _: Option<FileId>,
    ) -> Result<Self, Reject> {
        let Server { connections, sessions, globals, .. } = server;
        // Without its connection, a request that was pending has no recipient of this reason.
        let connection = connections.get_mut(&incoming.connection).ok_or(Reject::NoSuchSession)?;
        Ok(Self { connection, sessions, globals })
    }

    fn lend(&mut self) -> InConnection<'_> {
        let Self { connection, sessions, globals } = self;
        InConnection { connection, sessions, globals }
    }

    fn party(&self, header: &Header) -> trace::PartyId {
        party(self.sessions, header)
    }

    fn storage(&mut self) -> Option<StorageAccess<'_>> {
        None
    }
}

impl Shorten for InSession<'_> {
    type Shorter<'a> = InSession<'a>;
}

impl<'s> Scope<'s> for InSession<'s> {
    #[inline(always)]
    fn resolve(
        server: &'s mut Server,
        incoming: &Incoming,
        _: Option<FileId>,
    ) -> Result<Self, Reject> {
        let Server { connections, sessions, opens, in_flight, globals, .. } = server;
        // [MS-SMB2] 3.3.5.2.9 Verifying the Session.
        let session = sessions.get_mut(&incoming.header.session_id);
        let session = session.filter(|it| it.channel(incoming.connection).is_some());
        let session = session.ok_or(Reject::NoSuchSession)?;
        if session.state != SessionState::Valid {
            verify_session_state(session.state, incoming.header.command)?;
        }
        if session.encrypt_data && !incoming.sealed {
            return Err(Reject::NotEncrypted);
        }
        let connection = connections.get_mut(&incoming.connection).ok_or(Reject::NoSuchSession)?;
        Ok(Self { connection, session, opens, in_flight, globals })
    }

    fn lend(&mut self) -> InSession<'_> {
        let Self { connection, session, opens, in_flight, globals } = self;
        InSession { connection, session, opens, in_flight, globals }
    }

    fn party(&self, _: &Header) -> trace::PartyId {
        self.session.party
    }

    fn storage(&mut self) -> Option<StorageAccess<'_>> {
        None
    }
}

impl Shorten for InTree<'_> {
    type Shorter<'a> = InTree<'a>;
}

impl<'s> Scope<'s> for InTree<'s> {
    #[inline(always)]
    fn resolve(
        server: &'s mut Server,
        incoming: &Incoming,
        file_id: Option<FileId>,
    ) -> Result<Self, Reject> {
        let InSession { connection, session, opens, in_flight, globals } =
            InSession::resolve(server, incoming, file_id)?;
        // [MS-SMB2] 3.3.5.2.11 Verifying the Tree Connect.
        let tree_id = incoming.header.tree_id;
        let tree = session.tree_connects.get(&tree_id).ok_or(Reject::NoSuchTreeConnect)?;
        if tree.encrypt_data && !incoming.sealed {
            return Err(Reject::NotEncrypted);
        }
        Ok(Self { connection, session, tree, opens, file_id, in_flight, globals })
    }

    fn lend(&mut self) -> InTree<'_> {
        let Self { connection, session, tree, opens, file_id, in_flight, globals } = self;
        InTree { connection, session, tree, opens, file_id: *file_id, in_flight, globals }
    }

    fn party(&self, _: &Header) -> trace::PartyId {
        self.tree.party
    }

    fn storage(&mut self) -> Option<StorageAccess<'_>> {
        let open = self.file_id.and_then(|file_id| self.opens.get(&file_id.volatile));
        Some(StorageAccess { open, tree: self.tree, globals: self.globals })
    }

    fn continues_sequence(&self, _: &Header) -> bool {
        self.file_id.is_none()
    }

    fn verify_channel_sequence(&mut self, incoming: &Incoming) -> Result<(), Reject> {
        let is_verified = verifies_channel_sequences(self.connection, self.globals);
        match is_verified.then(|| self.open()) {
            // The command decides whether the open must exist.
            Some(Ok(open)) => open.channel_sequence.verify(&incoming.header),
            Some(Err(_)) | None => Ok(()),
        }
    }
}

impl<'s> InTree<'s> {
    /// Returns the open that the request names, and ends the replay of its CREATE.
    ///
    /// # Errors
    /// If there is none of this session and tree connect.
    pub fn open(&mut self) -> Result<&mut Open, Reject> {
        let session_id = self.session.session_id;
        find_open(self.opens, self.file_id, session_id, self.tree.tree_id)
    }

    /// As [`Self::open`], with the parts of the scope that the command needs besides.
    ///
    /// # Errors
    /// If there is none of this session and tree connect.
    #[inline(always)]
    pub fn into_open(self) -> Result<InOpen<'s>, Reject> {
        let Self { connection, session, tree, opens, file_id, globals, .. } = self;
        let open = find_open(opens, file_id, session.session_id, tree.tree_id)?;
        Ok(InOpen { connection, session, tree, open, globals })
    }
}

impl Shorten for InOpen<'_> {
    type Shorter<'a> = InOpen<'a>;
}

impl<'s> Scope<'s> for InOpen<'s> {
    #[inline(always)]
    fn resolve(
        server: &'s mut Server,
        incoming: &Incoming,
        file_id: Option<FileId>,
    ) -> Result<Self, Reject> {
        InTree::resolve(server, incoming, file_id)?.into_open()
    }

    fn lend(&mut self) -> InOpen<'_> {
        let Self { connection, session, tree, open, globals } = self;
        InOpen { connection, session, tree, open, globals }
    }

    fn party(&self, _: &Header) -> trace::PartyId {
        self.tree.party
    }

    fn storage(&mut self) -> Option<StorageAccess<'_>> {
        Some(StorageAccess { open: Some(self.open), tree: self.tree, globals: self.globals })
    }

    #[inline(always)]
    fn continues_sequence(&self, header: &Header) -> bool {
        self.open.channel_sequence.continues(header)
    }

    fn verify_channel_sequence(&mut self, incoming: &Incoming) -> Result<(), Reject> {
        match verifies_channel_sequences(self.connection, self.globals) {
            true => self.open.channel_sequence.verify(&incoming.header),
            false => Ok(()),
        }
    }
}

/// Returns the party of a request without a scope: that of the tree connect or the session in its
/// header, if there is one.
#[cold]
pub(crate) fn party(sessions: &FxHashMap<u64, Session>, header: &Header) -> trace::PartyId {
    let session = sessions.get(&header.session_id);
    let tree = session.and_then(|session| session.tree_connects.get(&header.tree_id));
    let party = tree.map(|tree| tree.party).or_else(|| session.map(|session| session.party));
    party.unwrap_or_default()
}

/// Refuses requests that the state of their session excludes: [MS-SMB2] 3.3.5.2.9. An expired
/// session has only three commands left.
#[cold]
fn verify_session_state(state: SessionState, command: Command) -> Result<(), Reject> {
    match (state, command) {
        (SessionState::Valid, _)
        | (SessionState::Expired, Command::LOGOFF | Command::CLOSE | Command::LOCK) => Ok(()),
        (SessionState::Expired, _) => Err(Reject::SessionExpired),
        (SessionState::InProgress | SessionState::Ended, _) => Err(Reject::NoSuchSession),
    }
}

/// Returns whether channel sequence numbers are verified. In dialects before 3.0 the header has a
/// status in the place of the number.
fn verifies_channel_sequences(connection: &Connection, globals: &Globals) -> bool {
    connection.negotiated().is_smb3() && globals.settings.replay_detection
}

/// Looks up an open by all of its ids, and ends the replay of its CREATE.
#[inline]
fn find_open(
    opens: &mut FxHashMap<u64, Open>,
    file_id: Option<FileId>,
    session_id: u64,
    tree_id: u32,
) -> Result<&mut Open, Reject> {
    let is_named = |it: &&mut Open| {
        (Some(it.file_id), it.session_id, it.tree_id) == (file_id, session_id, tree_id)
    };
    let open = file_id.and_then(|it| opens.get_mut(&it.volatile));
    let open = open.filter(is_named).ok_or(Reject::NoSuchOpen)?;
    if open.is_replay_eligible() {
        // The client has seen the response to its CREATE, and has no reason to replay it.
        open.end_replay();
    }
    Ok(open)
}
