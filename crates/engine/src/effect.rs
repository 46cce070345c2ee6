//! Requests of the engine to the worker, and the replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitration::{FileKey, LeaseKey, RequestingUser};
use auth::{LateMic, NtlmResponse, SessionBaseKey, Ticket, TicketAccepted, TicketRefused};
use bytes::Bytes;
use crypto::{Cipher, SigningKey};
use dtyp::{Guid, NtStatus, ServerId};
use model::account::{Account, ProvenUsers, TicketOwner};
use model::audit::Audit;
use model::connection::ConnectionId;
use model::file_key;
use model::reject::Reject;
use model::request_id::RequestId;
use model::share::Share;
use model::traversals::Traversal;
use object::{
    FileIdentity, FreeSpace, ObjectOp, ObjectPath, ObjectReply, ObjectResult, Opened, QuotaChange,
    QuotaSubject, RootId, StoreNumber, SymbolicLink, ToldQuota, UserId,
};
use rpc::{NameQuestion, Outcome, Principal, Task};
use trace::Phase;
use wire::Dialect;
use wire::ioctl::NetworkInterface;

/// A request to the worker. Each one with a request id gets exactly one [`Reply`].
#[derive(Debug)]
pub enum Effect {
    /// Carries out a task over srvsvc, once the engine has verified the requester's rights. Reply:
    /// `Outcome`.
    CarryOut {
        /// The task to carry out.
        task: Box<Task>,
        /// Session of the requester, which stays open.
        session_id: u64,
    },
    /// Has the command of a share change a quota. Reply: `QuotaChanged`.
    ChangeQuota {
        /// Root of the share with the command.
        root: RootId,
        /// User and limits, or the state of all quotas.
        change: QuotaChange,
    },
    /// Has a mechListMIC checked that came after its ticket. Reply: `Mic`.
    CheckMic(Box<LateMic>),
    /// Has an NTLM response checked, and does nothing else before the proof was right: a slow
    /// look-up would reveal the names of users. Reply: `Response`.
    CheckResponse {
        /// The response, with the names as the client sent them.
        response: Box<NtlmResponse>,
        /// Holder of the user's password.
        authority: Authority,
    },
    /// Has a Kerberos ticket checked. Reply: `Ticket`.
    CheckTicket(Box<Ticket>),
    /// Claims a client with all its connections for this worker. If another worker has it, the
    /// connection is handed over to that one, and `Server::handle_passed_on` is called instead of a
    /// reply. Reply: `ClientClaimed`, if the connection stays here.
    ClaimClient {
        connection: ConnectionId,
        /// ClientGuid of the connection's NEGOTIATE.
        client_guid: Guid,
        /// The NEGOTIATE with its header.
        message: Bytes,
        /// True if it follows an SMB1 NEGOTIATE.
        after_smb1: bool,
    },
    /// Ends the previous session that the client names, if it is of the same user: [MS-SMB2]
    /// 3.3.5.5.3. Reply: `PreviousSessionClosed`.
    ClosePreviousSession {
        /// Id of the previous session.
        session_id: u64,
        /// The [`Account::identity`] of its user.
        user: String,
    },
    /// Looks a share up for a user and opens its root. Reply: `Share`.
    ConnectShare(Box<ConnectShare>),
    /// Releases a share's root at the end of a tree connect. No reply.
    DisconnectShare(RootId),
    /// Looks up the account of a user with the right password. Reply: `Account`.
    FindAccount {
        /// Users whose password was right: [`ProvenUsers::users`]. Where there are several, or
        /// could have been, groups decide now which one is meant.
        users: Vec<String>,
        /// Name that the client gave, in lower case.
        requested_user: String,
    },
    /// Looks up the account of guests and anonymous users. Reply: `Account`.
    FindGuest,
    /// Reports that a file was deleted, once the earlier operations of its store are done: calls
    /// [`Server::handle_deleted`](crate::Server::handle_deleted). No reply.
    FileDeleted(Deletion),
    /// Reports that a file was closed whose open had byte-range locks, once the earlier operations
    /// of its store are done: calls
    /// [`Server::handle_unlocked`](crate::Server::handle_unlocked). No reply.
    FileUnlocked(Unlocked),
    /// Removes a file, with the server's rights, if the worker of the open to delete it is dead or
    /// its client did not come back: calls
    /// [`Server::handle_removed`](crate::Server::handle_removed) afterwards. No reply.
    Remove(Box<Removal>),
    /// Checks that a user may list a directory, and enter each one on the way to it: calls
    /// [`Server::handle_traversed`](crate::Server::handle_traversed) with the result. No reply.
    Traverse(Box<Traversal>),
    /// Tells another worker to check a file's record:
    /// [`Server::handle_file_changed`](crate::Server::handle_file_changed) there. No reply.
    NotifyFileChanged {
        /// Process id of the worker.
        worker: ServerId,
        /// Key of the file's record.
        file: FileKey,
    },
    /// Tells another worker that its turn at the storage has come:
    /// [`Server::handle_turn`](crate::Server::handle_turn) there. No reply.
    NotifyTurn {
        /// Process id of the worker.
        worker: ServerId,
    },
    /// Asks the domain for names and SIDs. Reply: `Names`.
    FindNames(Vec<NameQuestion>),
    /// Has the command of a share print its free space. Reply: `FreeSpace`.
    FindFreeSpace {
        /// Root of the share with the command.
        root: RootId,
        /// Path of the open that the client asks with.
        path: ObjectPath,
    },
    /// Has the command of a share print a quota. Reply: `Quota`.
    FindQuota {
        /// Root of the share with the command.
        root: RootId,
        /// User whose quota the command prints.
        subject: QuotaSubject,
    },
    /// Finds the target of a path in a DFS namespace: [MS-DFSC] 3.2.5.5. Reply: `Referral`.
    FindReferral(Box<FindReferral>),
    /// Asks the worker that has a session whether its key has signed a message: [MS-SMB2] 3.3.5.5
    /// looks in the GlobalSessionTable. Reply: `Session`.
    FindSession {
        /// Id of the other worker's session.
        session_id: u64,
        /// The whole message, as it was signed.
        message: Bytes,
    },
    /// Checks whether the client's service name means this server. Reply: `OwnName`.
    IsOwnName {
        /// Service name as the client gave it, such as `cifs/server`.
        target_name: String,
        /// Local address that the client connected to.
        server: SocketAddr,
    },
    /// Waits for this time. Reply: `Woken`.
    Sleep(Duration),
    /// Lists the addresses of this machine for clients. Reply: `NetworkInterfaces`.
    ListNetworkInterfaces,
    /// Ends the operation of a canceled request with CANCELLED, if the store has not begun it. No
    /// reply of its own.
    Withdraw(RequestId),
    /// Runs an operation of the store. Reply: `Object`.
    Object {
        /// User whose rights the kernel checks.
        user: UserId,
        /// Operation for the store to run.
        op: ObjectOp,
    },
}

/// A file that an operation of the store deletes.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    /// Key of the file's record.
    pub file: FileKey,
    /// Mark of the deleted stream or name in the file's record: [`arbitration::mark`].
    pub mark: u64,
    /// Store that deletes it, perhaps on a thread.
    pub store: StoreNumber,
    /// Directory whose listing changes by it, and the key of the lease that survives that.
    pub directory: Option<(FileIdentity, Option<LeaseKey>)>,
    /// Rights and share by which it is deleted.
    pub remover: Remover,
}

/// Rights and share by which a file is deleted whose last open was closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Remover {
    /// Those of the closed open alone.
    Closer,
    /// Those of the closed open, and if they do not suffice, the server's: the open belonged to the
    /// user who has marked the file, in the same share, and had no right to delete by itself.
    CloserFirst,
    /// Those of the open that has marked the file: another user's, or of another share. The closed
    /// one removes nothing.
    Requester,
}

/// An open whose byte-range locks stay in the record until the store has closed its file. Before
/// that the kernel has its locks, too, and would refuse those of other clients.
#[derive(Clone, Copy, Debug)]
pub struct Unlocked {
    /// Key of the file's record.
    pub file: FileKey,
    /// Volatile id of the open.
    pub volatile: u64,
    /// Store that closes it, perhaps on a thread.
    pub store: StoreNumber,
}

impl Effect {
    /// Returns the phase of a request that waits for this.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            Self::CarryOut { .. }
            | Self::CheckMic(_)
            | Self::CheckResponse { .. }
            | Self::CheckTicket(_)
            | Self::ClaimClient { .. }
            | Self::ClosePreviousSession { .. }
            | Self::FindNames(_)
            | Self::FindSession { .. }
            | Self::NotifyFileChanged { .. }
            | Self::NotifyTurn { .. } => Phase::Peer,
            Self::ChangeQuota { .. }
            | Self::ConnectShare(_)
            | Self::DisconnectShare(_)
            | Self::FileDeleted(_)
            | Self::FileUnlocked(_)
            | Self::FindFreeSpace { .. }
            | Self::FindQuota { .. }
            | Self::FindReferral(_)
            | Self::Object { .. }
            | Self::Remove(_)
            | Self::Traverse(_)
            | Self::Withdraw(_) => Phase::Storage,
            Self::FindAccount { .. }
            | Self::FindGuest
            | Self::IsOwnName { .. }
            | Self::ListNetworkInterfaces
            | Self::Sleep(_) => Phase::Running,
        }
    }
}

/// Pending deletion of a file without opens.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Key that the file must still have.
    pub file: FileKey,
    /// Mark of the file in its record.
    pub mark: u64,
    /// Name of the file by which that open had it: a hash, as `OpenFacts::link`.
    pub link: u64,
    /// Name of the share of the open that has marked the file.
    pub share: String,
    /// Path of the share's root, from the root of the host's file system.
    pub folder: ObjectPath,
    /// Path of the file in the share.
    pub path: ObjectPath,
    /// User who has marked the file, if that is known.
    pub user: Option<Arc<RequestingUser>>,
    /// Part of it that a close has done already.
    pub close: ByClose,
    /// Audit of the user's share, for the record of the deletion, unless a close has recorded it.
    pub audit: Option<Arc<Audit>>,
}

/// Part of a deletion that the close of the last open has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ByClose {
    /// The last open has ended without its worker.
    Nothing,
    /// The close has reported the change, and removed nothing.
    Reported,
    /// The close has reported and recorded the deletion, and has tried it, perhaps with success.
    Tried,
}

impl Removal {
    /// Returns whether another worker may succeed where a removal has failed with this status: this
    /// one has no descriptors or memory left, or no answer of the name service, which may be its
    /// client's doing. Without that a client could undo deletions by others.
    #[must_use]
    pub fn is_for_another_worker(status: NtStatus) -> bool {
        matches!(
            status,
            NtStatus::TOO_MANY_OPENED_FILES
                | NtStatus::INSUFFICIENT_RESOURCES
                | NtStatus::INSUFF_SERVER_RESOURCES
        )
    }

    /// Returns whether `opened` is the file to remove: the same file and not a newer one with its
    /// number, by the same name in the same directory, wherever the path leads by now. On file
    /// systems without birth times nothing is removed.
    #[must_use]
    pub fn is_of(&self, opened: &Opened) -> bool {
        let identity = opened.metadata.identity;
        let link = opened.path.link(opened.parent, identity);
        file_key::key(identity) == self.file
            && identity.birth != 0
            && link == self.link
            && self.mark == arbitration::mark(identity.stream, link)
    }
}

/// A share to connect, and the requester.
#[derive(Debug)]
pub struct ConnectShare {
    /// The share's name: the part after the last `\` of the path.
    pub name: String,
    /// The server's name as the client typed it.
    pub server: String,
    /// Account of the session's user.
    pub account: Arc<Account>,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Name of the client machine, as the client gave it; unproven.
    pub client_name: String,
    /// Address and port that the client connected to.
    pub server_address: SocketAddr,
    /// Dialect that the connection has negotiated.
    pub dialect: Dialect,
    /// True if the session is encrypted already.
    pub encrypted: bool,
    /// Id of the session that connects.
    pub session_id: u64,
}

/// A path of a DFS namespace to resolve, and the requester.
#[derive(Debug)]
pub struct FindReferral {
    /// Share that should be the namespace's root, and the requester.
    pub connect: ConnectShare,
    /// Path to resolve in the share.
    pub path: ObjectPath,
}

/// Target of a path in a DFS namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Referral {
    /// The root of a namespace on this server.
    Root,
    /// A link on the path: `msdfs:` and the targets, separated by commas.
    Link(Box<SymbolicLink>),
}

/// Parameters of another worker's session, for the response to a client that tries to bind to it.
#[derive(Clone, Debug)]
pub struct LentSession {
    /// Dialect of the session's first connection.
    pub dialect: Dialect,
    /// Cipher of the session's first connection.
    pub cipher: Option<Cipher>,
    /// `Session.SigningKey`, with its algorithm.
    pub signing_key: Arc<SigningKey>,
}

impl LentSession {
    /// Returns whether a message is signed with the session's key. Without that no key leaves the
    /// worker that has the session.
    #[must_use]
    pub fn has_signed(&self, message: &[u8]) -> bool {
        // A copy, since verifying writes into the message.
        self.signing_key.verify(&mut message.to_vec()).is_ok()
    }
}

/// Answer about a session of another worker.
#[derive(Clone, Debug)]
pub enum SessionElsewhere {
    /// No worker has it, or its worker gave no answer.
    Nowhere,
    /// Its key has not signed the message, or it has none.
    Unproven,
    /// Its key has signed the message.
    Proven(Box<LentSession>),
}

/// Reason for refusing a tree connect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShareRefusal {
    /// Neither the user nor the client's address is allowed.
    AccessDenied,
    /// There is no such share, or its folder is missing.
    BadNetworkName,
    /// The share has `max connections` already.
    TooManyConnections,
}

/// A Kerberos ticket that was checked.
#[derive(Debug)]
pub struct CheckedTicket {
    /// Result, for the state machine of the authentication.
    pub accepted: TicketAccepted,
    /// Owner of the ticket, by the signed data in it.
    pub owner: TicketOwner,
}

/// Reason for refusing a Kerberos ticket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TicketFailure {
    /// The ticket is not valid.
    Invalid(TicketRefused),
    /// The ticket is valid, but its owner cannot log on here and now.
    Owner(NtStatus),
}

/// Holder of a user's password.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Authority {
    /// The domain that the server is a member of.
    Domain,
    /// This server, in its user database.
    Server,
}

/// An NTLM response that was right.
#[derive(Debug)]
pub struct CheckedResponse {
    /// Key that only the holder of the password could compute.
    pub session_base_key: SessionBaseKey,
    /// Owner of the password, with or without an account.
    pub owner: ResponseOwner,
}

/// Owner of a proven password.
#[derive(Debug)]
pub enum ResponseOwner {
    /// User of the domain, with its account.
    Account(Box<Account>),
    /// Users of this server, whose account is looked up next.
    Users(ProvenUsers),
}

/// Reason for refusing an NTLM response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponseFailure {
    /// The domain does not know the user, who may be one of this server.
    NotInDomain,
    /// The authority refuses the user.
    Refused(NtStatus),
    /// Nobody could look at the proof: it says nothing about the user, nor about the client.
    Unchecked,
}

/// Reply of the worker, or a wake-up from the engine itself.
#[derive(Debug)]
pub enum Reply {
    /// Reply to `FindAccount` and `FindGuest`: none if the name service failed.
    Account(Option<Box<Account>>),
    /// Reply to `ClaimClient`: the connection stays.
    ClientClaimed,
    /// Reply to `FindFreeSpace`: none if the command has printed nothing.
    FreeSpace(Option<FreeSpace>),
    /// Reply to `CheckMic`: true if the MIC is right.
    Mic(bool),
    /// Reply to `FindNames`: one for each question, or none at all.
    Names(Vec<Option<Principal>>),
    /// Reply to `ListNetworkInterfaces`, with all addresses.
    NetworkInterfaces(Vec<NetworkInterface>),
    /// Reply to `Object`, of the store.
    Object(ObjectResult),
    /// Reply to `CarryOut`: result of the task.
    Outcome(Box<Outcome>),
    /// Reply to `IsOwnName`: true for this server.
    OwnName(bool),
    /// Reply to `FindQuota`: none if the command has printed nothing right.
    Quota(Option<ToldQuota>),
    /// Reply to `ChangeQuota`: true if the command has done it.
    QuotaChanged(bool),
    /// Reply to `FindReferral`; NOT_FOUND if the path has no target elsewhere.
    Referral(Result<Referral, NtStatus>),
    /// Reply to `ClosePreviousSession`, without further details.
    PreviousSessionClosed,
    /// Reply to `CheckResponse`: result of the authority.
    Response(Result<Box<CheckedResponse>, ResponseFailure>),
    /// Reply to `FindSession`, by the session's worker.
    Session(SessionElsewhere),
    /// Reply to `ConnectShare`: share or refusal.
    Share(Result<Box<Share>, ShareRefusal>),
    /// Reply to `CheckTicket`, with the owner.
    Ticket(Result<Box<CheckedTicket>, TicketFailure>),
    /// The event that a suspended request waits for may have happened; for `Sleep`, the time is
    /// over.
    Woken,
}

impl Reply {
    /// Returns the store's reply.
    ///
    /// # Errors
    /// [`Reject::Object`] with the store's status.
    ///
    /// # Panics
    /// If this is a reply to another effect: the worker pairs replies with effects.
    pub fn object(self) -> Result<ObjectReply, Reject> {
        let Self::Object(result) = self else { panic!("{self:?} is no reply of the store") };
        result.map_err(Reject::Object)
    }

    /// True if the store has refused an operation to its user.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        matches!(self, Self::Object(Err(NtStatus::ACCESS_DENIED)))
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
            path_on_disk: None,
            parent: Some(FileIdentity { device: 1, inode: parent, ..FileIdentity::default() }),
            metadata: Metadata { identity, ..Metadata::default() },
        }
    }

    #[test]
    fn only_the_very_file_is_removed_and_by_its_very_name() {
        let it = opened(7, "folder\\file", 100);
        let identity = it.metadata.identity;
        let link = it.path.link(it.parent, identity);
        let removal = Removal {
            file: file_key::key(identity),
            mark: link,
            link,
            share: "data".to_owned(),
            folder: ObjectPath::root(),
            path: it.path.clone(),
            user: None,
            close: ByClose::Nothing,
            audit: None,
        };
        assert!(removal.is_of(&it));
        assert!(removal.is_of(&opened(7, "renamed\\file", 100)), "the same directory");
        assert!(!removal.is_of(&opened(7, "folder\\file", 101)), "made later");
        assert!(!removal.is_of(&opened(8, "folder\\file", 100)), "another directory");
        assert!(!removal.is_of(&opened(7, "folder\\other", 100)), "another name");
        let undated = opened(7, "folder\\file", 0);
        let mark = undated.path.link(undated.parent, undated.metadata.identity);
        assert!(!Removal { mark, link: mark, ..removal }.is_of(&undated), "nobody can tell");
    }

    #[test]
    fn a_stream_is_removed_by_the_very_name_of_its_file_only() {
        let stream = |parent, name| {
            let mut it = opened(parent, name, 100);
            it.metadata.identity.stream = 5;
            it
        };
        let it = stream(7, "folder\\file:notes");
        let identity = it.metadata.identity;
        let removal = Removal {
            file: file_key::key(identity),
            mark: arbitration::mark(5, 0),
            link: it.path.link(it.parent, identity),
            share: "data".to_owned(),
            folder: ObjectPath::root(),
            path: it.path.clone(),
            user: None,
            close: ByClose::Nothing,
            audit: None,
        };
        assert!(removal.is_of(&it));
        assert!(!removal.is_of(&stream(8, "folder\\file:notes")), "where a link has led since");
        assert!(!removal.is_of(&stream(7, "folder\\other:notes")), "another name");
        assert!(!removal.is_of(&opened(7, "folder\\file", 100)), "the file itself");
    }
}
