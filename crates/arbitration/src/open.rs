//! An open of a file, with the state that other opens depend on.

use std::time::Duration;

use dtyp::{FileTime, Guid, ServerId};

use crate::caching::{Cache, Caching};
use crate::host_path::HostPath;
use crate::lock_sequences::LockSequences;
use crate::share_mode::ShareMode;

/// Id of an open, unique in the whole server.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OpenId {
    /// Worker that serves the open.
    pub worker: ServerId,
    /// Number of the open in its worker: FileId.Volatile.
    pub number: u64,
}

/// Key of a lease, chosen by the client: [MS-SMB2] 2.2.13.2.8.
pub type LeaseKey = [u8; 16];

/// Id of a lease: [MS-SMB2] 3.3.1.12. The same key from another client is another lease.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseId {
    /// ClientGuid of the client with the lease.
    pub client: Guid,
    /// LeaseKey, chosen by the client.
    pub key: LeaseKey,
}

/// Returns the mark of a stream, or of a name of the file itself: the number by which
/// [`crate::FileRecord`] lists what is delete pending. A named stream (id `stream`) is deleted
/// alone; the unnamed one (0) goes with its name (`link`: see [`OpenFacts`]).
#[must_use]
pub fn mark(stream: u64, link: u64) -> u64 {
    if stream == 0 { link } else { stream }
}

/// Caching that an open holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holding {
    /// No caching, and none was ever granted.
    Nothing,
    /// An oplock, which may be broken down to nothing.
    Oplock(Cache),
    /// A lease of this record, shared with other opens.
    Lease(LeaseId),
}

/// A lease: [MS-SMB2] 3.3.1.12.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Id of the lease, unique in the server.
    pub id: LeaseId,
    /// Stream that the lease is for.
    pub stream: u64,
    /// Caching that it allows, and its break.
    pub cache: Cache,
    /// Number of state changes, modulo 2^16.
    pub epoch: u16,
    /// True if requested with the second version of the context.
    pub is_v2: bool,
    /// Key of the same client's lease on the parent directory.
    pub parent: Option<LeaseKey>,
}

/// Conditions for reclaiming an open after its connection or worker is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Durability {
    /// Time at which it ends, on the clock of the machine; `None` while its client is connected.
    pub expires_at: Option<Duration>,
    /// Time for which it is kept once disconnected.
    pub timeout: Duration,
    /// Kind of durability, as requested.
    pub kind: DurabilityKind,
    /// `Open.CreateGuid`; zeros for the first version.
    pub create_guid: Guid,
    /// `Open.DurableOwner`: identity of the user.
    pub owner: String,
    /// CurrentByteOffset when it was disconnected: [MS-FSCC] 2.4.35.
    pub position: u64,
    /// `Open.LockSequenceArray`: on its return the client repeats LOCKs without a response.
    pub lock_sequences: LockSequences,
}

/// Kinds of opens that survive their connection: [MS-SMB2] 3.3.1.10.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DurabilityKind {
    /// `Open.IsDurable`, requested by a DHnQ context.
    Durable,
    /// `Open.IsDurable`, requested by a DH2Q context.
    DurableV2,
    /// `Open.IsPersistent`: it survives the server, too.
    Persistent,
    /// `Open.IsResilient`, requested by FSCTL_LMR_REQUEST_RESILIENCY.
    Resilient,
}

/// Properties of an open that decide nothing here, but are shown, or needed to reclaim it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OpenFacts {
    /// Name that the file was opened by: a hash of the directory, the name in it, and the file's
    /// birth time. A file with several names (hard links) loses only the one by which it was
    /// deleted; and a new file with an old one's inode number has another link.
    pub link: u64,
    /// `Open.ClientGuid` of the client's connection.
    pub client: Guid,
    /// Number of the user, whatever client it is: one for each user, and 0 for all guests and
    /// anonymous users.
    pub user: u64,
    /// `Open.AppInstanceId` of the CREATE; zeros for none.
    pub app_instance_id: Guid,
    /// SessionId of the session that opened it.
    pub session_id: u64,
    /// Id of the tree connect.
    pub tree_id: u32,
    /// FileId.Persistent, unique in the server.
    pub persistent: u64,
    /// Name of the share that it was opened through.
    pub share: String,
    /// Path of the share's root on the host.
    pub folder: String,
    /// The path beneath the share as its clients see it, with `\`.
    pub path: String,
    /// The path beneath the share on disk, with `/`, if that is another: with other characters, or
    /// names that clients see as short ones only.
    pub path_on_disk: Option<String>,
    /// True if a client with the POSIX extensions gave its names: they are literal, and no stream
    /// follows them.
    pub is_posix: bool,
    /// True if its client knows that a file may lose its name while it is open. Between such
    /// clients, directories above it are renamed, and its name is removed at once.
    pub expects_lost_names: bool,
    /// CreateOptions of the CREATE request.
    pub create_options: u32,
    /// CreateAction of the CREATE response.
    pub create_action: u32,
    /// Time at which it was opened.
    pub opened_at: FileTime,
}

impl OpenFacts {
    /// True if both opens were made by the same path of the same share.
    #[must_use]
    pub fn has_path_of(&self, other: &Self) -> bool {
        self.path == other.path
            && self.share == other.share
            && self.folder == other.folder
            && self.path_on_disk == other.path_on_disk
    }

    /// Path of the file on the host.
    #[must_use]
    pub fn host_path(&self) -> HostPath<'_> {
        let on_disk = self.path_on_disk.as_deref();
        HostPath { folder: &self.folder, path: &self.path, on_disk }
    }
}

/// An open of a file, as part of its record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenEntry {
    /// Id of the open in the whole server.
    pub id: OpenId,
    /// Stream that is open; 0 is the unnamed one.
    pub stream: u64,
    /// Granted access and sharing of the open.
    pub mode: ShareMode,
    /// Caching that it holds: oplock or lease.
    pub holding: Holding,
    /// True if its close marks the file for deletion.
    pub delete_on_close: bool,
    /// Conditions for reclaiming it; `None` if it is not durable.
    pub durability: Option<Durability>,
    /// True if its worker has to close it: another application instance took over.
    pub evicted: bool,
    /// Properties that decide nothing here.
    pub facts: OpenFacts,
}

impl OpenEntry {
    /// Returns the mark of this open's stream, or of its name of the file, among the pending
    /// deletions.
    #[must_use]
    pub fn mark(&self) -> u64 {
        mark(self.stream, self.facts.link)
    }

    /// Lease that the open shares, if any.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self.holding {
            Holding::Lease(id) => Some(id),
            Holding::Nothing | Holding::Oplock(_) => None,
        }
    }

    /// True if its oplock permits to cache reads.
    #[must_use]
    pub fn reads_by_oplock(&self) -> bool {
        matches!(self.holding, Holding::Oplock(cache) if cache.state.contains(Caching::READ))
    }

    /// True while its client is disconnected and cannot answer breaks.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.expires_at().is_some()
    }

    /// Time at which it ends, on the clock of the machine, if its client is disconnected.
    #[must_use]
    pub fn expires_at(&self) -> Option<Duration> {
        self.durability.as_ref()?.expires_at
    }

    /// True if it can conflict with other opens. A disconnected durable open is removed instead,
    /// unless it is kept.
    pub(crate) fn excludes(&self) -> bool {
        !self.is_disconnected() || self.is_kept()
    }

    /// True if it stays while disconnected, even when another open conflicts with it.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let kind = self.durability.as_ref().map(|it| it.kind);
        matches!(kind, Some(DurabilityKind::Persistent | DurabilityKind::Resilient))
    }

    /// True if it survives everything but its own close.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.durability.as_ref().is_some_and(|it| it.kind == DurabilityKind::Persistent)
    }
}

/// Caching that a CREATE requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestedCaching {
    /// No caching is requested, neither oplock nor lease.
    Nothing,
    /// An oplock of this strength.
    Oplock(Caching),
    /// A lease, new or existing.
    Lease {
        /// Id of the lease, new or known.
        id: LeaseId,
        /// Caching that the lease requests.
        state: Caching,
        /// Epoch that the client knows.
        epoch: u16,
        /// True if requested with the second version of the context.
        is_v2: bool,
        /// Key of the lease on the parent directory.
        parent: Option<[u8; 16]>,
    },
}

impl RequestedCaching {
    /// Id of the requested lease, if any.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Lease { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// Key of the lease on the parent directory that the client names as its own.
    #[must_use]
    pub fn parent(&self) -> Option<LeaseKey> {
        let Self::Lease { parent, .. } = self else { return None };
        *parent
    }
}
