//! Objects that a command may access, looked up once before it runs.

use model::connection::Connection;
use model::open::Open;
use model::reject::Reject;
use model::session::{Session, SessionState};
use model::tree_connect::TreeConnect;
use rustc_hash::FxHashMap;
use wire::{Command, FileId, Header};

use crate::globals::Globals;
use crate::in_flight::RequestsInFlight;
use crate::request::Incoming;
use crate::server::Server;
use crate::storage::InStorage;

/// A type that exists for any time.
pub trait Shorten: Sized {
    /// The same type for another time.
    type Shorter<'a>: Scope<'a>;
}

/// A scope that can be resolved from a request's identifiers.
pub trait Scope<'s>: Shorten {
    /// Looks the identifiers up, in the order of [MS-SMB2] 3.3.5.2.9 to 3.3.5.2.11.
    ///
    /// # Errors
    /// If one of them names nothing.
    fn resolve(
        server: &'s mut Server,
        incoming: &Incoming,
        file_id: Option<FileId>,
    ) -> Result<Self, Reject>;

    /// Lends the scope to one step of a command.
    fn lend(&mut self) -> Self::Shorter<'_>;

    /// Where the request is counted.
    fn counted(&self, header: &Header) -> trace::PartyId;

    /// Returns what a request of the store needs from its scope. Nothing if the command asks the
    /// store for nothing.
    fn storage(&mut self) -> Option<InStorage<'_>>;

    /// [MS-SMB2] 3.3.5.2.10 Verifying the Channel Sequence Number, for requests that name an open.
    ///
    /// # Errors
    /// If the request came too late to change anything.
    fn verify_channel_sequence(&mut self, incoming: &Incoming) -> Result<(), Reject> {
        let _ = incoming;
        Ok(())
    }
}

/// No session is needed: NEGOTIATE, ECHO, SESSION_SETUP.
#[derive(Debug)]
pub struct InConnection<'s> {
    pub connection: &'s mut Connection,
    /// All sessions of the client.
    pub sessions: &'s mut FxHashMap<u64, Session>,
    /// State beyond connections, sessions and opens.
    pub globals: &'s mut Globals,
}

/// Scope with a session: LOGOFF, TREE_CONNECT.
#[derive(Debug)]
pub struct InSession<'s> {
    pub connection: &'s mut Connection,
    pub session: &'s mut Session,
    /// All opens of the client.
    pub opens: &'s mut FxHashMap<u64, Open>,
    /// Requests of the worker that wait.
    pub in_flight: &'s RequestsInFlight,
    /// State beyond connections, sessions and opens.
    pub globals: &'s mut Globals,
}

/// Scope with a tree connect: CREATE, TREE_DISCONNECT, and commands that access several opens.
#[derive(Debug)]
pub struct InTree<'s> {
    pub connection: &'s mut Connection,
    pub session: &'s Session,
    pub tree: &'s TreeConnect,
    /// All opens of the client, by volatile id.
    pub opens: &'s mut FxHashMap<u64, Open>,
    /// The open that the request names, if any; not looked up yet.
    pub file_id: Option<FileId>,
    /// Requests of the worker that wait.
    pub in_flight: &'s RequestsInFlight,
    /// State beyond connections, sessions and opens.
    pub globals: &'s mut Globals,
}

/// Scope with an open: READ, WRITE, LOCK and the other commands with a FileId.
#[derive(Debug)]
pub struct InOpen<'s> {
    pub connection: &'s mut Connection,
    pub session: &'s Session,
    pub tree: &'s TreeConnect,
    pub open: &'s mut Open,
    /// State beyond connections, sessions and opens.
    pub globals: &'s mut Globals,
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
        let connection = connections.get_mut(&incoming.connection).ok_or(Reject::NoSuchSession)?;
        Ok(Self { connection, sessions, globals })
    }

    fn lend(&mut self) -> InConnection<'_> {
        let Self { connection, sessions, globals } = self;
        InConnection { connection, sessions, globals }
    }

    fn counted(&self, header: &Header) -> trace::PartyId {
        counted(self.sessions, header)
    }

    fn storage(&mut self) -> Option<InStorage<'_>> {
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
        let session = sessions.get_mut(&incoming.header.session_id).ok_or(Reject::NoSuchSession)?;
        // [MS-SMB2] 3.3.5.2.9 Verifying the Session.
        if session.channel(incoming.connection).is_none() {
            return Err(Reject::NoSuchSession);
        }
        match (session.state, incoming.header.command) {
            (SessionState::Valid, _)
            | (SessionState::Expired, Command::LOGOFF | Command::CLOSE | Command::LOCK) => {}
            (SessionState::Expired, _) => return Err(Reject::SessionExpired),
            (SessionState::InProgress | SessionState::Ended, _) => {
                return Err(Reject::NoSuchSession);
            }
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

    fn counted(&self, _: &Header) -> trace::PartyId {
        self.session.counted
    }

    fn storage(&mut self) -> Option<InStorage<'_>> {
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

    fn counted(&self, _: &Header) -> trace::PartyId {
        self.tree.counted
    }

    fn storage(&mut self) -> Option<InStorage<'_>> {
        let open = self.file_id.and_then(|file_id| self.opens.get(&file_id.volatile));
        Some(InStorage::new(open, self.tree, self.globals))
    }

    fn verify_channel_sequence(&mut self, incoming: &Incoming) -> Result<(), Reject> {
        let counts = counts_channels(self.connection, self.globals);
        match (counts && self.file_id.is_some()).then(|| self.open()) {
            // The command decides whether the open must exist.
            Some(Ok(open)) => open.channel_sequence.verify(&incoming.header),
            Some(Err(_)) | None => Ok(()),
        }
    }
}

impl<'s> InTree<'s> {
    /// Returns the open that the request names.
    ///
    /// # Errors
    /// If there is none of this session and tree connect.
    pub fn open(&mut self) -> Result<&mut Open, Reject> {
        let session_id = self.session.session_id;
        find_open(self.opens, self.file_id, session_id, self.tree.tree_id)
    }

    /// Looks up the open that the request names.
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

    fn counted(&self, _: &Header) -> trace::PartyId {
        self.tree.counted
    }

    fn storage(&mut self) -> Option<InStorage<'_>> {
        Some(InStorage::new(Some(self.open), self.tree, self.globals))
    }

    fn verify_channel_sequence(&mut self, incoming: &Incoming) -> Result<(), Reject> {
        let sequence = &mut self.open.channel_sequence;
        if sequence.continues(&incoming.header) || !counts_channels(self.connection, self.globals) {
            return Ok(());
        }
        sequence.verify(&incoming.header)
    }
}

/// Returns the counters of a request without a scope: those of the tree connect or the session in
/// its header, if there is one.
#[cold]
pub(crate) fn counted(sessions: &FxHashMap<u64, Session>, header: &Header) -> trace::PartyId {
    let session = sessions.get(&header.session_id);
    let tree = session.and_then(|session| session.tree_connects.get(&header.tree_id));
    let counted = tree.map(|tree| tree.counted).or_else(|| session.map(|session| session.counted));
    counted.unwrap_or_default()
}

/// Returns whether channel sequence numbers are verified. Before 3.0 the field of the number is a
/// status.
fn counts_channels(connection: &Connection, globals: &Globals) -> bool {
    connection.negotiated().is_smb3() && globals.settings.replay_detection
}

#[inline]
fn find_open(
    opens: &mut FxHashMap<u64, Open>,
    file_id: Option<FileId>,
    session_id: u64,
    tree_id: u32,
) -> Result<&mut Open, Reject> {
    let file_id = file_id.ok_or(Reject::NoSuchOpen)?;
    let open = opens
        .get_mut(&file_id.volatile)
        .filter(|open| open.file_id == file_id)
        .filter(|open| open.session_id == session_id && open.tree_id == tree_id)
        .ok_or(Reject::NoSuchOpen)?;
    // The client has seen the response to its CREATE, and has no reason to replay it.
    open.end_replay();
    Ok(open)
}
