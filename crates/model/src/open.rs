//! [MS-SMB2] 3.3.1.10 Per Open.

use std::sync::Arc;

use arbitration::{Caching, LeaseId, LeaseKey};
use dtyp::{AccessMask, Guid};
use object::{FileIdentity, LocalOpen, ObjectPath, UserId};
use wire::FileId;
use wire::create::{CreateAction, CreateOptions, ShareAccess};

use crate::audit::AuditedOpen;
use crate::channel_sequence::ChannelSequence;
use crate::enumeration::Enumeration;
use crate::memory_account::Charge;
use crate::pipe::Pipe;
use crate::reject::Reject;
use crate::share::{CheckedAccess, Share};
use crate::watch::Watch;

/// Highest number of opens of a client.
pub const OPENS_MAX: usize = 65_536;

/// Memory of an open without its path, in bytes: both structures, its entries in tables, and the
/// store's part.
pub const OPEN_BYTES: usize = size_of::<Open>() + size_of::<OpenFile>() + 512;

/// `Open` of [MS-SMB2] 3.3.1.10.
#[derive(Debug)]
pub struct Open {
    /// `Open.DurableFileId` and `Open.FileId`.
    pub file_id: FileId,
    /// `Open.Session`.
    pub session_id: u64,
    /// `Open.TreeConnect`.
    pub tree_id: u32,
    /// The share, which an open keeps beyond its tree connect.
    pub share: Arc<Share>,
    /// User whose rights the kernel checks.
    pub user: UserId,
    /// File, directory or pipe that is open.
    pub target: Target,
    /// `Open.GrantedAccess`.
    pub granted_access: AccessMask,
    /// All rights of the user, within the share's limits.
    pub maximal_access: AccessMask,
    /// `Open.ChannelSequence`, and the outstanding requests of the open.
    pub channel_sequence: ChannelSequence,
    /// Classes of its requests, if any.
    pub classes: Option<qos::Classes>,
    /// True while a CLOSE waits for pending requests of the open.
    pub is_closing: bool,
    /// Memory charged for the open, without that of its enumeration, watch and locks.
    pub memory: Charge,
}

/// Object that an open leads to.
#[derive(Debug)]
pub enum Target {
    File(Box<OpenFile>),
    Pipe(Box<Pipe>),
}

/// An open file or directory.
#[derive(Debug)]
pub struct OpenFile {
    /// `Open.LocalOpen`.
    pub local_open: LocalOpen,
    /// Device and inode of the file, its birth time and stream.
    pub identity: FileIdentity,
    /// Path of the file as stored.
    pub path: ObjectPath,
    /// True for a directory itself, not for its streams.
    pub is_directory: bool,
    /// Access that other opens may have.
    pub share_access: ShareAccess,
    /// `Open.CreateOptions`.
    pub create_options: CreateOptions,
    /// True if FILE_DELETE_ON_CLOSE was given: closing this open sets delete pending.
    pub delete_on_close: bool,
    /// `Open.Lease`.
    pub lease: Option<LeaseId>,
    /// True until CREATE is answered, while the store truncates the file or looks its name up
    /// again. The client does not know the open yet, so breaks of its caching are sent after the
    /// response.
    pub is_being_made: bool,
    /// Hash of the name that CREATE resolved, by which this one of the file's hard links is
    /// deleted: see [`arbitration::OpenFacts`].
    pub link: u64,
    /// Directory that contains the file.
    pub parent: Option<FileIdentity>,
    /// Lease of the same client on that directory.
    pub parent_lease: Option<LeaseKey>,
    /// True once data was written: closing the open then breaks other clients' leases on the
    /// directory.
    pub is_modified: bool,
    /// `Open.CreateGuid`.
    pub create_id: Option<CreateId>,
    /// `Open.IsReplayEligible`: the CREATE may be replayed, and the response then has this action
    /// again.
    pub replay: Option<CreateAction>,
    /// State of a durable open; none for others.
    pub durable: Option<DurableState>,
    /// CurrentByteOffset: [MS-FSCC] 2.4.35.
    pub position: u64,
    /// Mode flags that SET_INFO changed: [MS-FSCC] 2.4.26.
    pub mode: u32,
    /// Enumeration of a directory, once QUERY_DIRECTORY has begun one.
    pub enumeration: Option<Box<Enumeration>>,
    /// Number of extended attributes listed by queries so far; the next query begins behind them.
    pub attributes_listed: usize,
    /// User with whom the next query of quotas goes on: its id, or one above all ids at the end.
    pub next_quota_user: u64,
    /// Changes in the directory for the next CHANGE_NOTIFY.
    pub watch: Option<Box<Watch>>,
    /// Memory charged for its byte-range locks in the file's record.
    pub locks: Charge,
    /// READs and WRITEs to check for byte-range locks of local programs.
    pub checked_access: CheckedAccess,
    /// True while the store holds a lease for its oplock: see `kernel oplocks`.
    pub has_kernel_lease: bool,
    /// `Open.LockSequenceArray`.
    pub lock_sequences: arbitration::LockSequences,
    /// Audit of the open, if its share is audited.
    pub audit: Option<Box<AuditedOpen>>,
}

/// Durability of an open; the rest of it is in the file's record.
#[derive(Clone, Debug)]
pub struct DurableState {
    /// `Open.IsPersistent`.
    pub is_persistent: bool,
}

/// Identity of a CREATE that its client may replay: its CreateGuid, and the ClientGuid.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CreateId {
    pub client: Guid,
    pub create_guid: Guid,
}

impl Open {
    /// Returns the open file.
    ///
    /// # Errors
    /// If this is a pipe.
    pub fn file(&self) -> Result<&OpenFile, Reject> {
        match &self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) => Err(Reject::NotOnPipes),
        }
    }

    /// Returns the identity of the open file, and the volatile id of this open. `None` for a pipe.
    #[must_use]
    pub fn identity(&self) -> Option<(FileIdentity, u64)> {
        Some((self.file().ok()?.identity, self.file_id.volatile))
    }

    /// Returns the open file, to change it.
    ///
    /// # Errors
    /// If this is a pipe.
    pub fn file_mut(&mut self) -> Result<&mut OpenFile, Reject> {
        match &mut self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) => Err(Reject::NotOnPipes),
        }
    }

    /// True if local programs see its byte-range locks. The kernel has none for streams.
    #[must_use]
    pub fn shows_locks(&self) -> bool {
        let is_plain = |file: &OpenFile| !file.is_directory && file.identity.stream == 0;
        self.share.local_programs.see_locks && self.file().is_ok_and(is_plain)
    }

    /// Takes note of the rights to cache that its client has now.
    pub fn note_caching(&mut self, caching: Caching) {
        if let Target::File(file) = &mut self.target {
            file.checked_access = self.share.local_programs.lock_checks.with_caching(caching);
        }
    }

    /// Returns `Open.IsReplayEligible`, which only opens of files have.
    #[must_use]
    pub fn is_replay_eligible(&self) -> bool {
        matches!(&self.target, Target::File(file) if file.replay.is_some())
    }

    /// Ends `Open.IsReplayEligible`, unless the open is persistent. [MS-SMB2] demands that in the
    /// section of each command, as soon as a request has named the open.
    pub fn end_replay(&mut self) {
        if let Target::File(file) = &mut self.target
            && file.replay.is_some()
            && !file.durable.as_ref().is_some_and(|it| it.is_persistent)
        {
            file.replay = None;
        }
    }

    /// Refuses access that the open was not granted.
    ///
    /// # Errors
    /// If a right is missing.
    pub fn verify_access(&self, wanted: AccessMask) -> Result<(), Reject> {
        if self.granted_access.contains(wanted) {
            return Ok(());
        }
        Err(Reject::AccessNotGranted { wanted, granted: self.granted_access })
    }
}
