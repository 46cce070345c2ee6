//! Sharing, locking and caching conflicts as pure functions over records.
//!
//! A [`FileRecord`] holds the opens of a file; its functions decide whether one more is possible,
//! which rights must be removed from other holders, and which workers to notify. Notification and
//! storage are elsewhere: [`FileRecords`] stores the records.

#![forbid(unsafe_code)]

pub mod admission;
pub mod breaks;
pub mod byte_range;
pub mod caching;
pub mod deletion;
pub mod file_record;
pub mod host_path;
pub mod lock_list;
pub mod lock_sequences;
pub mod open;
mod open_parts;
pub mod records;
pub mod requester;
mod restoring;
pub mod share_mode;
pub mod standing;

pub use admission::{Admission, AdmissionRequest, Granted, Refusal};
pub use breaks::OutgoingBreak;
pub use byte_range::{ByteRange, ByteRangeLock, LockError, RangeAccess};
pub use caching::{AckError, BreakNotice, Breaking, Cache, Caching};
pub use deletion::{Deleter, DeletionProgress, PendingDeletion, REQUESTER_BYTES_MAX};
pub use file_record::{
    Closed, FILE_BYTES_MAX, FILE_OPENS_MAX, FileRecord, FileWord, WorkersToNotify,
};
pub use host_path::HostPath;
pub use lock_list::{LOCKS_MAX, LOCKS_OF_OPEN_MAX, LockList};
pub use lock_sequences::{LOCK_SEQUENCES_MAX, LockSequence, LockSequences};
pub use open::{
    Durability, DurabilityKind, Holding, Lease, LeaseId, LeaseKey, OpenEntry, OpenFacts, OpenId,
    RequestedCaching, mark,
};
pub use records::{FileKey, FileRecords, RecordsError};
pub use requester::{GROUPS_KEPT_MAX, Requester, RequestingUser, UserRights};
pub use share_mode::{ShareMode, conflict};
pub use standing::Standing;
