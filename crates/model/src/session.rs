//! [MS-SMB2] 3.3.1.8 Per Session, and 3.3.1.13 Per Channel.

use std::sync::Arc;
use std::time::Duration;

use arbitration::Standing;
use crypto::{NonceCounter, SigningKey, TransformKey};
use rustc_hash::FxHashMap;

use crate::account::{Account, GUESTS_NUMBER, TicketOwner};
use crate::connection::{ConnectionId, Negotiated};
use crate::memory_account::Charge;
use crate::reject::Reject;
use crate::tree_connect::TreeConnect;

/// Highest number of channels of a session, including those being bound. Windows has the same
/// limit, and more connections between two machines do not increase the throughput.
pub const CHANNELS_MAX: usize = 32;

/// Highest number of tree connects of a session.
pub const TREE_CONNECTS_MAX: usize = 4_096;

/// Memory of a session in bytes: itself, its account without groups, keys and channels, and its
/// entries in tables.
pub const SESSION_BYTES: usize = 6 * 1024;

/// Memory of an unfinished authentication in bytes: the messages of the client are kept until its
/// end, because the proof covers all of them.
pub const AUTHENTICATION_BYTES: usize = 18 * 1024;

/// `Session.State`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SessionState {
    /// The first authentication is not finished.
    InProgress,
    /// Requests of the session are served.
    Valid,
    /// The client must authenticate again before any other request.
    Expired,
    /// Logged off; kept only to sign the response to the LOGOFF.
    Ended,
}

/// `Session` of [MS-SMB2] 3.3.1.8.
#[derive(Debug)]
pub struct Session {
    /// `Session.SessionId`.
    pub session_id: u64,
    /// `Session.State`.
    pub state: SessionState,
    /// Account of the user; none before the first authentication is done.
    pub account: Option<Arc<Account>>,
    /// Time on the monotonic clock at which the user must authenticate again: the end of the
    /// Kerberos ticket. None for other mechanisms.
    pub expires: Option<Duration>,
    /// [`Account::identity`] of the user whose keys the session has; none for a guest's session. A
    /// later authentication may make the user a guest for a while, but never another user.
    pub owner: Option<String>,
    /// Name of the client machine, as the client gave it with its password; unproven.
    pub client_name: String,
    /// `Session.IsAnonymous`.
    pub is_anonymous: bool,
    /// Share of a file's opens and locks that the user may take: decided by each authentication,
    /// since every CREATE and LOCK needs it.
    pub standing: Standing,
    /// Number of the user in the records of files: [`Account::number`], as its standing.
    pub user_number: u64,
    /// `Session.SigningRequired`.
    pub signing_required: bool,
    /// `Session.EncryptData`.
    pub encrypt_data: bool,
    /// Keys for encryption, if a cipher was negotiated.
    pub sealing: Option<Sealing>,
    /// Results of NEGOTIATE on the first connection. `Session.Connection` may be gone, and further
    /// channels must agree with these.
    pub negotiated: Arc<Negotiated>,
    /// `Session.SigningKey`, made for the first channel, which it outlives; none for guests. That
    /// of an anonymous user proves nothing: everybody knows the key that it is derived from.
    pub signing_key: Option<Arc<SigningKey>>,
    /// `Session.ChannelList`, and the connections that are being bound.
    pub channels: Vec<Channel>,
    /// `Session.TreeConnectTable`.
    pub tree_connects: FxHashMap<u32, TreeConnect>,
    /// Next tree id to try.
    pub next_tree_id: u32,
    /// Its user without a share, whose counters count its requests.
    pub party: trace::PartyId,
    /// Memory charged for the session, without its tree connects and opens.
    pub memory: Charge,
}

/// Binding of a session to a connection.
#[derive(Debug)]
pub struct Channel {
    /// `Channel.Connection`.
    pub connection: ConnectionId,
    /// `Channel.SigningKey`; none for guests, and while the channel is being bound.
    pub signing_key: Option<Arc<SigningKey>>,
    /// An unfinished authentication, the first or a later one.
    pub authentication: Option<Box<Authentication>>,
    /// True once the user has authenticated on this connection. Until then the session accepts only
    /// SESSION_SETUP on it.
    pub is_bound: bool,
}

/// An unfinished authentication over one channel.
#[derive(Debug)]
pub struct Authentication {
    /// MessageId of the request that began it. The channel may have begun another while a request
    /// of this one waits, and the two must not be taken for each other.
    pub began_with: u64,
    /// State of the authentication mechanism.
    pub acceptor: auth::Acceptor,
    /// Owner of the ticket that the acceptor was given.
    pub ticket_owner: Option<Box<TicketOwner>>,
    /// Memory charged for this authentication.
    pub memory: Charge,
}

/// Keys of a session for encryption in both directions.
#[derive(Debug)]
pub struct Sealing {
    /// `Session.EncryptionKey`: from the server to the client.
    pub seal: Arc<TransformKey>,
    /// `Session.DecryptionKey`: from the client to the server.
    pub open: Arc<TransformKey>,
    /// Nonces for `seal`, each used once.
    pub nonces: NonceCounter,
}

impl Channel {
    /// Makes a channel whose authentication begins.
    #[must_use]
    pub fn new(
        connection: ConnectionId,
        authentication: Box<Authentication>,
        is_bound: bool,
    ) -> Self {
        Self { connection, signing_key: None, authentication: Some(authentication), is_bound }
    }
}

impl Session {
    /// Makes a session whose authentication begins on `connection`.
    #[must_use]
    pub fn new(
        session_id: u64,
        connection: ConnectionId,
        negotiated: Arc<Negotiated>,
        authentication: Box<Authentication>,
        memory: Charge,
    ) -> Self {
        Self {
            session_id,
            state: SessionState::InProgress,
            account: None,
            expires: None,
            owner: None,
            client_name: String::new(),
            is_anonymous: false,
            standing: Standing::Guest,
            user_number: GUESTS_NUMBER,
            signing_required: false,
            encrypt_data: false,
            sealing: None,
            negotiated,
            signing_key: None,
            channels: vec![Channel::new(connection, authentication, true)],
            tree_connects: FxHashMap::default(),
            next_tree_id: 1,
            party: trace::PartyId::default(),
            memory,
        }
    }

    /// Returns the session's channel on a connection, if bound.
    #[must_use]
    pub fn channel(&self, connection: ConnectionId) -> Option<&Channel> {
        self.bound_channels().find(|channel| channel.connection == connection)
    }

    /// Returns the channels that accept requests.
    pub fn bound_channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.iter().filter(|channel| channel.is_bound)
    }

    /// Returns the channel on a connection, bound or being bound.
    pub fn channel_mut(&mut self, connection: ConnectionId) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.connection == connection)
    }

    /// Returns the key that signs messages on a connection.
    #[must_use]
    pub fn signing_key(&self, connection: ConnectionId) -> Option<&Arc<SigningKey>> {
        self.channel(connection)?.signing_key.as_ref()
    }

    /// True for a user's session, false for one of a guest or an anonymous user. Only then its keys
    /// are a secret of client and server.
    #[must_use]
    pub fn is_users(&self) -> bool {
        self.owner.is_some()
    }

    /// Returns the account of the session's user.
    ///
    /// # Panics
    /// Before the first authentication: `scope` admits no request until then.
    #[must_use]
    pub fn account(&self) -> &Arc<Account> {
        self.account.as_ref().expect("a valid session has an account")
    }

    /// Returns [`Account::identity`] of the user that the session and its opens belong to, even
    /// while that user is a guest; none before the first authentication.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        let account = self.account.as_ref().map(|account| account.identity.as_str());
        self.owner.as_deref().or(account)
    }

    /// Returns an unused tree id.
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
