//! One open of a file, as the others must know it.

use std::time::Duration;

use dtyp::{FileTime, Guid, ServerId};

use crate::caching::{Cache, Caching};
use crate::lock_sequences::LockSequences;
use crate::share_mode::ShareMode;

/// Names an open in the whole server.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OpenId {
    /// The worker that serves it.
    pub server: ServerId,
    /// Its number there: FileId.Volatile.
    pub number: u64,
}

/// Names a lease: [MS-SMB2] 3.3.1.12. The same key from another client is another lease.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseId {
    /// The client that gave the key.
    pub client: Guid,
    /// The key.
    pub key: [u8; 16],
}

/// What stands for a stream, or for a name of the file itself, among the marks for deletion.
#[must_use]
pub fn mark(stream: u64, link: u64) -> u64 {
    if stream == 0 { link } else { stream }
}

/// What an open holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holding {
    /// Nothing, and never did.
    Nothing,
    /// An oplock, which may be broken down to nothing.
    Oplock(Cache),
    /// A share in a lease of this record.
    Lease(LeaseId),
}

/// A lease: [MS-SMB2] 3.3.1.12.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// The stream that it is on.
    pub stream: u64,
    /// What it allows.
    pub cache: Cache,
    /// Counts the changes of the state.
    pub epoch: u16,
    /// It was asked for in the second version of the context.
    pub is_v2: bool,
    /// The lease on the directory that the file is in, of the same client.
    pub parent: Option<[u8; 16]>,
}

/// How an open can be taken up again after its connection or its worker is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Durability {
    /// Until when it is kept, once it is disconnected. On the clock of the machine.
    pub disconnected_until: Option<Duration>,
    /// How long it is kept.
    pub timeout: Duration,
    /// How it was asked for.
    pub kind: DurabilityKind,
    /// `Open.CreateGuid`; zeros for the first version.
    pub create_guid: Guid,
    /// `Open.DurableOwner`: who the user is.
    pub owner: String,
    /// CurrentByteOffset when it was disconnected: [MS-FSCC] 2.4.35.
    pub position: u64,
    /// `Open.LockSequenceArray`: the client repeats what it got no answer to once it is back.
    pub lock_sequences: LockSequences,
}

/// What makes an open survive its connection: [MS-SMB2] 3.3.1.10.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DurabilityKind {
    /// `Open.IsDurable`, asked for by DHnQ.
    Durable,
    /// `Open.IsDurable`, asked for by DH2Q.
    DurableV2,
    /// `Open.IsPersistent`: it survives the server, too.
    Persistent,
    /// `Open.IsResilient`.
    Resilient,
}

/// What of an open is not judged, but shown, and needed to take it up again.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OpenFacts {
    /// The name that the file was opened by: directory and name in it, hashed. A file with several
    /// names loses the one by which it was deleted, and no other.
    pub link: u64,
    /// `Open.ClientGuid`.
    pub client: Guid,
    /// `Open.AppInstanceId`; zeros for none.
    pub app_instance_id: Guid,
    /// The session.
    pub session_id: u64,
    /// The tree connect.
    pub tree_id: u32,
    /// FileId.Persistent.
    pub persistent: u64,
    /// The share.
    pub share: String,
    /// Where the share's root is on the host.
    pub folder: String,
    /// The path beneath the share, with `\`.
    pub path: String,
    /// Its names are meant exactly as they are, and have no stream behind them: a client with the
    /// POSIX extensions gave them.
    pub is_posix: bool,
    /// CreateOptions.
    pub create_options: u32,
    /// CreateAction of the response.
    pub create_action: u32,
    /// When it was opened.
    pub opened_at: FileTime,
}

/// One open of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenEntry {
    /// Its name.
    pub id: OpenId,
    /// The stream that is open; 0 is the unnamed one.
    pub stream: u64,
    /// How it is used and shared.
    pub mode: ShareMode,
    /// What it holds.
    pub holding: Holding,
    /// Its end marks the file for deletion.
    pub delete_on_close: bool,
    /// How it can be taken up again, if it can.
    pub durability: Option<Durability>,
    /// It is to be closed by its worker: another application instance took over.
    pub evicted: bool,
    /// The rest.
    pub facts: OpenFacts,
}

impl OpenEntry {
    /// What stands for this open's stream, or its name of the file, among the marks for deletion.
    #[must_use]
    pub fn mark(&self) -> u64 {
        mark(self.stream, self.facts.link)
    }

    /// The lease that it shares in.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self.holding {
            Holding::Lease(id) => Some(id),
            Holding::Nothing | Holding::Oplock(_) => None,
        }
    }

    /// Whether nobody is there who could answer for it.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.disconnected_until().is_some()
    }

    /// Until when it is kept, if it is disconnected. On the clock of the machine.
    #[must_use]
    pub fn disconnected_until(&self) -> Option<Duration> {
        self.durability.as_ref()?.disconnected_until
    }

    /// Whether it can stand in the way of others. A durable open whose client is away gives way
    /// instead; one that is kept does not.
    pub(crate) fn excludes(&self) -> bool {
        !self.is_disconnected() || self.is_kept()
    }

    /// Whether it stays when another open wants its place while its client is away.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let kind = self.durability.as_ref().map(|it| it.kind);
        matches!(kind, Some(DurabilityKind::Persistent | DurabilityKind::Resilient))
    }

    /// Whether it outlives everything but its own end.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.durability.as_ref().is_some_and(|it| it.kind == DurabilityKind::Persistent)
    }
}

/// What a CREATE asks to keep at the client's side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    /// Nothing.
    Nothing,
    /// An oplock.
    Oplock(Caching),
    /// A lease.
    Lease {
        /// Its name.
        id: LeaseId,
        /// What it should allow.
        state: Caching,
        /// The client's count of changes.
        epoch: u16,
        /// Asked for in the second version of the context.
        is_v2: bool,
        /// The lease on the directory.
        parent: Option<[u8; 16]>,
    },
}

impl Wish {
    /// The lease that is named.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Lease { id, .. } => Some(*id),
            _ => None,
        }
    }
}
