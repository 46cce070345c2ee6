//! [MS-SMB2] 3.3.1.10 Per Open.

use std::sync::Arc;

use arbitration::LeaseId;
use dtyp::{AccessMask, Guid};
use object::{FileIdentity, LocalOpen, ObjectPath, UserId};
use wire::FileId;
use wire::create::{CreateAction, CreateOptions, ShareAccess};

use crate::model::channel_sequence::ChannelSequence;
use crate::model::enumeration::Enumeration;
use crate::model::memory_account::Charge;
use crate::model::pipe::Pipe;
use crate::model::reject::Reject;
use crate::model::share::Share;
use crate::model::watch::Watch;

/// Opens that a client may have.
pub const OPENS_MAX: usize = 65_536;

/// Bytes that an open takes, without those of its path: the two records, its place in the tables,
/// and what the store keeps of it.
pub(crate) const OPEN_BYTES: usize = size_of::<Open>() + size_of::<OpenFile>() + 512;

/// `Open`.
#[derive(Debug)]
pub struct Open {
    /// `Open.DurableFileId` and `Open.FileId`.
    pub file_id: FileId,
    /// `Open.Session`.
    pub session_id: u64,
    /// `Open.TreeConnect`.
    pub tree_id: u32,
    /// The share, which outlives its tree connect here.
    pub share: Arc<Share>,
    /// On whose behalf the store acts.
    pub user: UserId,
    /// What was opened.
    pub target: Target,
    /// `Open.GrantedAccess`.
    pub granted_access: AccessMask,
    /// All that the user may do, within the share's limits.
    pub maximal_access: AccessMask,
    /// `Open.ChannelSequence`, and the requests that are outstanding.
    pub channel_sequence: ChannelSequence,
    /// The classes of its requests, if they have any.
    pub classes: Option<qos::Classes>,
    /// A CLOSE waits for the requests that are under way in it.
    pub is_closing: bool,
    /// The memory that it takes, without what it keeps for requests to come.
    pub memory: Charge,
}

/// What an open leads to.
#[derive(Debug)]
pub enum Target {
    /// A file or directory.
    File(Box<OpenFile>),
    /// A named pipe.
    Pipe(Box<Pipe>),
}

/// An open file or directory.
#[derive(Debug)]
pub struct OpenFile {
    /// `Open.LocalOpen`.
    pub local_open: LocalOpen,
    /// Which file.
    pub identity: FileIdentity,
    /// Its path as stored.
    pub path: ObjectPath,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// What others may do.
    pub share_access: ShareAccess,
    /// `Open.CreateOptions`.
    pub create_options: CreateOptions,
    /// FILE_DELETE_ON_CLOSE was given: closing this open marks the file for deletion.
    pub delete_on_close: bool,
    /// `Open.Lease`.
    pub lease: Option<LeaseId>,
    /// Its CREATE is not answered yet: the file is being emptied.
    pub is_being_made: bool,
    /// The name that it was opened by: see [`arbitration::OpenFacts`].
    pub link: u64,
    /// The directory that it is in.
    pub parent: Option<FileIdentity>,
    /// The lease on that directory which the client holds, too.
    pub parent_lease: Option<LeaseId>,
    /// Data was written: what others know of the directory's listing is not true any more once
    /// it is closed.
    pub is_modified: bool,
    /// `Open.CreateGuid`.
    pub create_name: Option<CreateName>,
    /// `Open.IsReplayEligible`: the request that made the open may be repeated, and is answered
    /// with this action again.
    pub replay: Option<CreateAction>,
    /// How it survives its connection, if it does.
    pub durable: Option<Held>,
    /// CurrentByteOffset: [MS-FSCC] 2.4.35.
    pub position: u64,
    /// Mode flags that SET_INFO changed: [MS-FSCC] 2.4.26.
    pub mode: u32,
    /// The enumeration of a directory.
    pub enumeration: Option<Box<Enumeration>>,
    /// How many extended attributes a query has listed: the next one begins behind them.
    pub attributes_listed: usize,
    /// The changes that wait for a CHANGE_NOTIFY.
    pub watch: Option<Box<Watch>>,
    /// The memory that its byte-range locks take, in the file's record.
    pub locks: Charge,
    /// `Open.LockSequenceArray`.
    pub lock_sequences: arbitration::LockSequences,
}

/// What an open remembers of how it survives its connection; the rest is in the file's record.
#[derive(Clone, Debug)]
pub struct Held {
    /// `Open.IsPersistent`.
    pub is_persistent: bool,
}

/// What a client calls a CREATE that it may repeat.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CreateName {
    /// ClientGuid.
    pub client: Guid,
    /// CreateGuid.
    pub create_guid: Guid,
}

impl Open {
    /// The open file.
    ///
    /// # Errors
    /// If this is a pipe.
    pub fn file(&self) -> Result<&OpenFile, Reject> {
        match &self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) => Err(Reject::NotOnPipes),
        }
    }

    /// The open file, to change it.
    ///
    /// # Errors
    /// If this is a pipe.
    pub fn file_mut(&mut self) -> Result<&mut OpenFile, Reject> {
        match &mut self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) => Err(Reject::NotOnPipes),
        }
    }

    /// The open was named by a request: [MS-SMB2] ends `IsReplayEligible` there, in the section of
    /// each command, unless the open is persistent.
    pub(crate) fn end_replay(&mut self) {
        if let Target::File(file) = &mut self.target
            && file.replay.is_some()
            && !file.durable.as_ref().is_some_and(|it| it.is_persistent)
        {
            file.replay = None;
        }
    }

    /// Refuses what the open was not granted.
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
