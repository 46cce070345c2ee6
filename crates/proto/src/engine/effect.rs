//! What the engine asks of the world around it, and what it is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitration::FileKey;
use bytes::Bytes;
use crypto::{Cipher, SigningKey};
use dtyp::{Guid, NtStatus, ServerId};
use object::{
    ObjectOp, ObjectPath, ObjectReply, ObjectResult, Opened, RootId, SymbolicLink, UserId,
};
use trace::Phase;
use wire::Dialect;
use wire::ioctl::NetworkInterface;

use crate::model::account::{Account, Credential};
use crate::model::connection::ConnectionId;
use crate::model::file_key;
use crate::model::passages::Passage;
use crate::model::reject::Reject;
use crate::model::share::Share;

/// A question to the world. Exactly one [`Reply`] comes back for each that carries a request.
#[derive(Debug)]
pub enum Effect {
    /// Enters this worker as the one that serves a client, for all its connections. If another one
    /// does that already, the connection is passed on to it, and `Server::handle_passed_on` is called
    /// instead of an answer. Reply: `ClientClaimed`, if the connection stays here.
    ClaimClient {
        /// The connection.
        connection: ConnectionId,
        /// Whose it is.
        client_guid: Guid,
        /// Its NEGOTIATE, the header included.
        message: Bytes,
        /// An SMB1 NEGOTIATE came before it.
        after_smb1: bool,
    },
    /// Ends the sessions of the same user that the client says it had before: [MS-SMB2]
    /// 3.3.5.5.3. Reply: `PreviousSessionClosed`.
    ClosePreviousSession {
        /// The session that was given up.
        session_id: u64,
        /// Whose it must be: an [`Account::identity`].
        user: String,
    },
    /// Looks a share up for a user and opens its root. Reply: `Share`.
    ConnectShare(Box<ConnectShare>),
    /// A share's root is not used any more by this tree connect. No reply.
    DisconnectShare(RootId),
    /// Looks up the account of a user who has proven the password. Reply: `Account`.
    FindAccount {
        /// [`Credential::user`].
        user: String,
        /// [`Credential::requested_user`].
        requested_user: String,
    },
    /// Looks up what a user's proof is checked with. Nothing else of the user is looked up before the
    /// proof was right, so that the time it takes tells nobody who is a user. Reply: `Credential`.
    FindCredential {
        /// The user's name as the client gave it.
        user: String,
        /// The domain as the client gave it.
        domain: String,
    },
    /// The account to use for guests and anonymous users. Reply: `Account`.
    FindGuest,
    /// What was marked for deletion is gone once the effects before this one are done: to be
    /// followed by [`Server::handle_deleted`](crate::Server::handle_deleted). No reply.
    FileDeleted {
        /// The file.
        file: FileKey,
        /// What stands for it in the file's record: [`arbitration::mark`].
        stream: u64,
    },
    /// Removes, with the server's rights, what an open was to delete whose own worker is dead or
    /// whose client did not come back: to be followed by
    /// [`Server::handle_removed`](crate::Server::handle_removed). No reply.
    Remove(Box<Removal>),
    /// Checks that a user may enter a directory, and each one on the way to it: to be followed by
    /// [`Server::handle_traversed`](crate::Server::handle_traversed). No reply.
    Traverse(Box<Passage>),
    /// Another worker has to look at a file:
    /// [`Server::handle_file_changed`](crate::Server::handle_file_changed) there. No reply.
    TellFileChanged {
        /// The worker.
        server: ServerId,
        /// The file.
        file: FileKey,
    },
    /// It is another worker's turn at the storage:
    /// [`Server::handle_turn`](crate::Server::handle_turn) there. No reply.
    TellTurn {
        /// The worker.
        server: ServerId,
    },
    /// Where a path of a DFS namespace leads: [MS-DFSC] 3.2.5.5. Reply: `Referral`.
    FindReferral(Box<FindReferral>),
    /// Asks the other workers for a session: [MS-SMB2] 3.3.5.5 looks in the GlobalSessionTable.
    /// Reply: `Session`.
    FindSession {
        /// Which.
        session_id: u64,
    },
    /// Whether a client that means this service means this server. Reply: `OwnName`.
    IsOwnName {
        /// As the client gave it: `cifs/server`, say.
        target_name: String,
        /// The address of this server to which the client came.
        server: SocketAddr,
    },
    /// Nothing, for this time. Reply: `Woken`.
    Sleep(Duration),
    /// The addresses of this machine that clients may come to. Reply: `NetworkInterfaces`.
    ListNetworkInterfaces,
    /// Something for the store. Reply: `Object`.
    Object {
        /// On whose behalf.
        user: UserId,
        /// What.
        op: ObjectOp,
    },
}

impl Effect {
    /// What a request goes through that waits for this.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            Self::ClaimClient { .. }
            | Self::ClosePreviousSession { .. }
            | Self::FindSession { .. }
            | Self::TellFileChanged { .. }
            | Self::TellTurn { .. } => Phase::Peer,
            Self::ConnectShare(_)
            | Self::DisconnectShare(_)
            | Self::FileDeleted { .. }
            | Self::FindReferral(_)
            | Self::Object { .. }
            | Self::Remove(_)
            | Self::Traverse(_) => Phase::Storage,
            Self::FindAccount { .. }
            | Self::FindCredential { .. }
            | Self::FindGuest
            | Self::IsOwnName { .. }
            | Self::ListNetworkInterfaces
            | Self::Sleep(_) => Phase::Running,
        }
    }
}

/// Something to be removed that nobody has open any more.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The file that it must still be.
    pub file: FileKey,
    /// What stands for it in the file's record.
    pub mark: u64,
    /// The name of the share by which it was opened.
    pub share: String,
    /// Where the share's root was, from the root of the host's file system.
    pub folder: ObjectPath,
    /// The path beneath it.
    pub path: ObjectPath,
}

impl Removal {
    /// Whether this is what was to be removed: the same file, not one that was given its number
    /// since, and by the same name in the same directory, wherever the path leads by now. Where the
    /// file system does not tell one from the other, nothing is removed.
    #[must_use]
    pub fn is_of(&self, opened: &Opened) -> bool {
        let identity = opened.metadata.identity;
        let link = file_key::link(opened.parent, &opened.path, identity);
        file_key::key(identity) == self.file
            && identity.birth != 0
            && [link, arbitration::mark(identity.stream, link)].contains(&self.mark)
    }
}

/// Who wants which share.
#[derive(Debug)]
pub struct ConnectShare {
    /// The share's name: the part after the last `\` of the path.
    pub name: String,
    /// The server's name as the client typed it.
    pub server: String,
    /// The session's account.
    pub account: Arc<Account>,
    /// Where the client is.
    pub client: SocketAddr,
    /// Whether the session is encrypted already.
    pub encrypted: bool,
    /// The session it is for.
    pub session_id: u64,
}

/// Who wants to know where which path of a DFS namespace leads.
#[derive(Debug)]
pub struct FindReferral {
    /// The share that would be its root, and whoever asks.
    pub connect: ConnectShare,
    /// The path in it.
    pub path: ObjectPath,
}

/// Where a path of a DFS namespace leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Referral {
    /// It is the root of a namespace, which this server has.
    Root,
    /// A link is on it: `msdfs:` and the targets, with commas between them.
    Link(Box<SymbolicLink>),
}

/// A session of another worker, as far as a client that wants to be bound to it must be told why it
/// cannot be.
#[derive(Clone, Debug)]
pub struct LentSession {
    /// The dialect of its connection.
    pub dialect: Dialect,
    /// The cipher of its connection.
    pub cipher: Option<Cipher>,
    /// `Session.SigningKey`, with its algorithm.
    pub signing_key: Arc<SigningKey>,
}

/// Why a share was not connected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShareRefusal {
    /// The user or the client's address may not.
    AccessDenied,
    /// There is no such share, or its folder is missing.
    BadNetworkName,
    /// `max connections` are there already.
    TooManyConnections,
}

/// An answer from the world, or a wake-up from inside.
#[derive(Debug)]
pub enum Reply {
    /// To `FindAccount` and `FindGuest`: nothing, if it cannot be known whose rights it has.
    Account(Option<Box<Account>>),
    /// To `ClaimClient`.
    ClientClaimed,
    /// To `FindCredential`: nothing, if there is no such user.
    Credential(Option<Box<Credential>>),
    /// To `ListNetworkInterfaces`.
    NetworkInterfaces(Vec<NetworkInterface>),
    /// To `Object`.
    Object(ObjectResult),
    /// To `IsOwnName`.
    OwnName(bool),
    /// To `FindReferral`; NOT_FOUND if it leads nowhere else.
    Referral(Result<Referral, NtStatus>),
    /// To `ClosePreviousSession`.
    PreviousSessionClosed,
    /// To `FindSession`: nothing, if there is none that is signed for.
    Session(Option<Box<LentSession>>),
    /// To `ConnectShare`.
    Share(Result<Box<Share>, ShareRefusal>),
    /// What a suspended request waited for may have happened; to `Sleep`, that it is over.
    Woken,
}

impl Reply {
    /// The store's answer.
    ///
    /// # Errors
    /// [`Reject::Object`] with the store's status.
    ///
    /// # Panics
    /// If this is the answer to something else: the worker pairs replies with effects.
    pub fn object(self) -> Result<ObjectReply, Reject> {
        match self {
            Self::Object(result) => result.map_err(Reject::Object),
            other => panic!("the store was asked, and {other:?} came back"),
        }
    }
}

#[cfg(test)]
mod tests {
    use dtyp::AccessMask;
    use object::{FileIdentity, LocalOpen, Metadata};

    use super::*;

    fn opened(parent: u64, name: &str, birth: u64) -> Opened {
        let identity = FileIdentity { device: 1, inode: 2, birth, stream: 0 };
        Opened {
            open: LocalOpen { index: 0, generation: 0 },
            created: false,
            granted_access: AccessMask::empty(),
            maximal_access: AccessMask::empty(),
            path: ObjectPath::parse(name).expect("a path"),
            parent: Some(FileIdentity { device: 1, inode: parent, ..FileIdentity::default() }),
            metadata: Metadata { identity, ..Metadata::default() },
        }
    }

    #[test]
    fn only_the_very_file_is_removed_and_by_its_very_name() {
        let it = opened(7, "folder\\file", 100);
        let identity = it.metadata.identity;
        let removal = Removal {
            file: file_key::key(identity),
            mark: file_key::link(it.parent, &it.path, identity),
            share: "data".to_owned(),
            folder: ObjectPath::root(),
            path: it.path.clone(),
        };
        assert!(removal.is_of(&it));
        assert!(removal.is_of(&opened(7, "renamed\\file", 100)), "the same directory");
        assert!(!removal.is_of(&opened(7, "folder\\file", 101)), "made later");
        assert!(!removal.is_of(&opened(8, "folder\\file", 100)), "another directory");
        assert!(!removal.is_of(&opened(7, "folder\\other", 100)), "another name");
        let untold = opened(7, "folder\\file", 0);
        let mark = file_key::link(untold.parent, &untold.path, untold.metadata.identity);
        assert!(!Removal { mark, ..removal }.is_of(&untold), "nobody can tell");
    }
}
