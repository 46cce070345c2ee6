//! [MS-SMB2] 3.3.1.8 Per Session, and 3.3.1.13 Per Channel.

use std::sync::Arc;

use arbitration::Standing;
use crypto::{NonceCounter, SigningKey, TransformKey};
use rustc_hash::FxHashMap;

use crate::model::account::Account;
use crate::model::connection::{ConnectionId, Negotiated};
use crate::model::memory_account::Charge;
use crate::model::reject::Reject;
use crate::model::tree_connect::TreeConnect;

/// Channels that a session may have, those included that are being bound. Windows has the same limit,
/// and more connections between two machines make nothing faster.
pub const CHANNELS_MAX: usize = 32;

/// Tree connects that a session may have.
pub const TREE_CONNECTS_MAX: usize = 4_096;

/// Bytes that a session takes: itself, its account, keys and channels, and its places in the
/// tables.
pub(crate) const SESSION_BYTES: usize = 6 * 1024;

/// Bytes that it takes while its user has not authenticated: what the client has sent is kept until
/// then, for the proof is over all of it.
pub(crate) const SETUP_BYTES: usize = 24 * 1024;

/// `Session.State`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SessionState {
    /// The first authentication is not finished.
    InProgress,
    /// In use.
    Valid,
    /// Must authenticate again before anything else.
    Expired,
    /// Logged off; kept only until the response to that is signed.
    Ended,
}

/// `Session`.
#[derive(Debug)]
pub struct Session {
    /// `Session.SessionId`.
    pub session_id: u64,
    /// `Session.State`.
    pub state: SessionState,
    /// Who it is; nobody before the first authentication is done.
    pub account: Option<Arc<Account>>,
    /// [`Account::identity`] of the user whose keys the session has. It can be nobody's for a while, and is
    /// never another user's.
    pub owner: Option<String>,
    /// `Session.IsAnonymous`.
    pub is_anonymous: bool,
    /// `Session.SigningRequired`.
    pub signing_required: bool,
    /// `Session.EncryptData`.
    pub encrypt_data: bool,
    /// Keys for the cipher, if one was negotiated.
    pub sealing: Option<Sealing>,
    /// What its first connection negotiated: `Session.Connection` may be gone, and further ones must
    /// agree with it.
    pub negotiated: Arc<Negotiated>,
    /// `Session.SigningKey`: that of the first channel, which outlives it; none for guests and
    /// anonymous users.
    pub signing_key: Option<Arc<SigningKey>>,
    /// `Session.ChannelList`, and the connections that are being bound.
    pub channels: Vec<Channel>,
    /// `Session.TreeConnectTable`.
    pub tree_connects: FxHashMap<u32, TreeConnect>,
    /// The next tree id to try.
    pub next_tree_id: u32,
    /// Where its user's requests are counted.
    pub counted: trace::PartyId,
    /// The memory that it takes, without its tree connects and opens.
    pub memory: Charge,
}

/// A session's binding to a connection.
#[derive(Debug)]
pub struct Channel {
    /// `Channel.Connection`.
    pub connection: ConnectionId,
    /// `Channel.SigningKey`; none for guests and anonymous users, and while it is being bound.
    pub signing_key: Option<Arc<SigningKey>>,
    /// The authentication that is going on: the first, or a later one.
    pub acceptor: Option<Box<auth::Acceptor>>,
    /// The user has authenticated on this connection, too. Before that nothing but SESSION_SETUP is
    /// served on it for the session.
    pub is_bound: bool,
}

/// The keys of an encrypted session, in both directions.
#[derive(Debug)]
pub struct Sealing {
    /// `Session.EncryptionKey`: from the server to the client.
    pub seal: Arc<TransformKey>,
    /// `Session.DecryptionKey`: from the client to the server.
    pub open: Arc<TransformKey>,
    /// Nonces for `seal`.
    pub nonces: NonceCounter,
}

impl Session {
    /// A session whose authentication begins on `connection`.
    #[must_use]
    pub fn new(
        session_id: u64,
        connection: ConnectionId,
        negotiated: Arc<Negotiated>,
        acceptor: Box<auth::Acceptor>,
        memory: Charge,
    ) -> Self {
        let acceptor = Some(acceptor);
        Self {
            session_id,
            state: SessionState::InProgress,
            account: None,
            owner: None,
            is_anonymous: false,
            signing_required: false,
            encrypt_data: false,
            sealing: None,
            negotiated,
            signing_key: None,
            channels: vec![Channel { connection, signing_key: None, acceptor, is_bound: true }],
            tree_connects: FxHashMap::default(),
            next_tree_id: 1,
            counted: trace::PartyId::default(),
            memory,
        }
    }

    /// The session's channel on a connection, if it is bound to it.
    #[must_use]
    pub fn channel(&self, connection: ConnectionId) -> Option<&Channel> {
        self.bound_channels().find(|channel| channel.connection == connection)
    }

    /// The channels that requests may come over.
    pub fn bound_channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.iter().filter(|channel| channel.is_bound)
    }

    /// The channel on a connection, also one that is being bound.
    pub fn channel_mut(&mut self, connection: ConnectionId) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.connection == connection)
    }

    /// The key that signs what travels on a connection.
    #[must_use]
    pub fn signing_key(&self, connection: ConnectionId) -> Option<&Arc<SigningKey>> {
        self.channel(connection)?.signing_key.as_ref()
    }

    /// True for a user's session, false for that of a guest or of nobody in particular.
    #[must_use]
    pub fn is_users(&self) -> bool {
        self.signing_key.is_some()
    }

    /// The account.
    ///
    /// # Panics
    /// Before the first authentication: `scope` lets nobody here until then.
    #[must_use]
    pub fn account(&self) -> &Arc<Account> {
        self.account.as_ref().expect("a valid session has an account")
    }

    /// Returns what part of a file's places the user may take.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.is_anonymous || self.account().is_guest {
            true => Standing::Guest,
            false => Standing::User,
        }
    }

    /// A tree id that is not in use.
    ///
    /// # Errors
    /// If the session has [`TREE_CONNECTS_MAX`] already.
    pub fn allocate_tree_id(&mut self) -> Result<u32, Reject> {
        if self.tree_connects.len() >= TREE_CONNECTS_MAX {
            return Err(Reject::TooManyTreeConnects);
        }
        while self.next_tree_id == 0
            || self.next_tree_id == u32::MAX
            || self.tree_connects.contains_key(&self.next_tree_id)
        {
            self.next_tree_id = self.next_tree_id.wrapping_add(1);
        }
        let tree_id = self.next_tree_id;
        self.next_tree_id = self.next_tree_id.wrapping_add(1);
        Ok(tree_id)
    }
}
