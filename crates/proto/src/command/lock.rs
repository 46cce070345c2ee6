//! SMB2 LOCK: [MS-SMB2] 3.3.5.14.
//!
//! What conflicts with what is `arbitration`'s to say; this module says who waits, and what a
//! client that repeats itself is told.

mod sequence;
#[cfg(test)]
mod tests;

use arbitration::{ByteRange, ByteRangeLock, LockError};
use dtyp::{AccessMask, NtStatus};
use wire::lock::{LockElement, LockFlags, LockRequest, LockResponse, Locks};

use crate::command::{Abandoned, Command};
use crate::effect::Reply;
use crate::file_table::FileRecord;
use crate::open::{Open, OpenFile};
use crate::reject::Reject;
use crate::request::{Incoming, RequestId};
use crate::response::{Response, Step};
use crate::scope::InOpen;
use crate::server::Globals;

pub use sequence::LockSequences;

use sequence::LockSequence;

/// Locks and unlocks ranges of bytes.
#[derive(Debug)]
pub struct Lock;

/// A lock that waits for others to go.
#[derive(Debug)]
pub struct Pending {
    lock: ByteRangeLock,
    sequence: Option<LockSequence>,
}

/// Waiters of a file among which those are looked for that were cancelled meanwhile. A connection
/// cannot have more requests that wait, so a list this long has some of them.
const WAITERS_SWEEP: usize = 1_024;

impl Command for Lock {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = LockRequest<'a>;
    type Pending = Pending;

    /// The checks stand in the order of the section.
    fn start(
        InOpen { connection, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: LockRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let sequence = LockSequence::of(&request, connection.negotiated().dialect);
        if open.file_mut()?.lock_sequences.is_repetition(sequence) {
            return Ok(done());
        }
        let first = request.locks.iter().next().ok_or(Reject::NoLocks)?;
        verify_open(open)?;
        let volatile = open.file_id.volatile;
        let file = open.file_mut()?;
        if first.flags.contains(LockFlags::UNLOCK) {
            unlock(globals, file, volatile, request.locks)?;
            file.lock_sequences.remember(sequence);
            return Ok(done());
        }
        let may_wait = verify_lock_elements(request.locks)?;
        match lock_all(record(globals, file), volatile, request.locks) {
            Ok(()) => {
                file.lock_sequences.remember(sequence);
                Ok(done())
            }
            Err(Reject::LockNotGranted) if may_wait => {
                let waiters = &mut record(globals, file).lock_waiters;
                if waiters.len() >= WAITERS_SWEEP {
                    let swept = std::mem::take(waiters);
                    globals.outbox.wakes.extend(swept);
                }
                let lock = byte_range_lock(volatile, first);
                Ok(wait(globals, file, incoming.id, Pending { lock, sequence }))
            }
            Err(reject) => Err(reject),
        }
    }

    fn resume(
        InOpen { open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        pending: Pending,
        _: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let file = open.file_mut()?;
        match acquire(record(globals, file), pending.lock) {
            Ok(()) => {
                file.lock_sequences.remember(pending.sequence);
                Ok(done())
            }
            Err(Reject::LockNotGranted) => Ok(wait(globals, file, incoming.id, pending)),
            Err(reject) => Err(reject),
        }
    }

    /// Nothing is held while waiting. A waiter that was cancelled stays in its list, and is passed
    /// over when its turn comes.
    fn abandon(_: Pending, _: Option<Reply>) -> Abandoned {
        // What Windows answers when the open is closed.
        Abandoned { reject: Some(Reject::RangeNotLocked), ..Abandoned::default() }
    }

    /// With its session or tree connect, Windows lets a lock go that was never taken as if it had
    /// been: whatever stood in its way is gone with them, and so is the lock.
    fn outlived() -> Option<Response> {
        Some(Response::new(&LockResponse))
    }
}

fn done() -> Step<Pending> {
    Step::Done(Response::new(&LockResponse))
}

/// [MS-FSA] 2.1.5.8.
fn verify_open(open: &Open) -> Result<(), Reject> {
    if open.file()?.is_directory {
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    let wanted = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    if !open.granted_access.intersects(wanted) {
        return Err(Reject::AccessNotGranted { wanted, granted: open.granted_access });
    }
    Ok(())
}

/// [MS-SMB2] 3.3.5.14.1 Processing Unlocks: one after the other, and what was unlocked before one
/// fails stays unlocked.
fn unlock(
    globals: &mut Globals,
    file: &OpenFile,
    volatile: u64,
    locks: Locks<'_>,
) -> Result<(), Reject> {
    let record = record(globals, file);
    let unlock_one = |element: LockElement| {
        // The section lets a server ignore FAIL_IMMEDIATELY here; Windows does not.
        if element.flags != LockFlags::UNLOCK {
            return Err(Reject::LockFlags(element.flags));
        }
        record.locks.release(volatile, range(element)).map_err(reject)
    };
    let result = locks.iter().try_for_each(unlock_one);
    let waiters = std::mem::take(&mut record.lock_waiters);
    globals.outbox.wakes.extend(waiters);
    result
}

/// [MS-SMB2] 3.3.5.14.2 Processing Locks, as far as it is about the request alone. Says whether the
/// client wants to wait.
///
/// All elements are judged before the first is locked. The section has locks stay that were taken
/// before an element turns out to be malformed; a client that is told of an error could not know.
fn verify_lock_elements(locks: Locks<'_>) -> Result<bool, Reject> {
    for element in locks.iter() {
        let immediately = element.flags.contains(LockFlags::FAIL_IMMEDIATELY);
        let kind = element.flags - LockFlags::FAIL_IMMEDIATELY;
        let is_one_kind = kind == LockFlags::SHARED_LOCK || kind == LockFlags::EXCLUSIVE_LOCK;
        if !is_one_kind || (locks.len() > 1 && !immediately) {
            return Err(Reject::LockFlags(element.flags));
        }
        if !range(element).is_valid() {
            return Err(Reject::LockRange);
        }
    }
    Ok(locks.iter().all(|element| !element.flags.contains(LockFlags::FAIL_IMMEDIATELY)))
}

/// Takes all of the locks, or none.
fn lock_all(record: &mut FileRecord, volatile: u64, locks: Locks<'_>) -> Result<(), Reject> {
    for (taken, element) in locks.iter().enumerate() {
        if let Err(reject) = acquire(record, byte_range_lock(volatile, element)) {
            for element in locks.iter().take(taken) {
                record.locks.undo(byte_range_lock(volatile, element));
            }
            return Err(reject);
        }
    }
    Ok(())
}

fn acquire(record: &mut FileRecord, lock: ByteRangeLock) -> Result<(), Reject> {
    record.locks.acquire(lock).map_err(reject)
}

fn wait(globals: &mut Globals, file: &OpenFile, id: RequestId, pending: Pending) -> Step<Pending> {
    record(globals, file).lock_waiters.push(id);
    Step::Suspend(pending)
}

fn record<'g>(globals: &'g mut Globals, file: &OpenFile) -> &'g mut FileRecord {
    globals.files.get_mut(file.identity).expect("an open file is in the table")
}

fn range(element: LockElement) -> ByteRange {
    ByteRange { offset: element.offset, length: element.length }
}

fn byte_range_lock(open: u64, element: LockElement) -> ByteRangeLock {
    let exclusive = element.flags.contains(LockFlags::EXCLUSIVE_LOCK);
    ByteRangeLock { open, range: range(element), exclusive }
}

fn reject(error: LockError) -> Reject {
    match error {
        LockError::Conflict => Reject::LockNotGranted,
        LockError::NotLocked => Reject::RangeNotLocked,
        LockError::RangeTooLong => Reject::LockRange,
        LockError::TooMany => Reject::TooManyLocks,
    }
}
