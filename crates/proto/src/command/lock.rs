//! SMB2 LOCK: [MS-SMB2] 3.3.5.14.
//!
//! `arbitration` decides on conflicts; this module decides on waiting, and on the responses to
//! repeated requests.

#[cfg(test)]
mod tests;

use arbitration::{
    ByteRange, ByteRangeLock, FileKey, LOCK_SEQUENCES_MAX, LockError, LockSequence, OpenId,
    Standing,
};
use dtyp::AccessMask;
use engine::effect::Reply;
use engine::files::{Files, LOCK_BYTES, memory_of_locks};
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InOpen;
use model::file_key::key;
use model::memory_account::Charge;
use model::open::Open;
use model::reject::Reject;
use wire::Dialect;
use wire::lock::{LockElement, LockFlags, LockRequest, LockResponse, Locks};

use crate::command::Command;

/// Highest number of elements of one request. All are checked under the lock of the file's record,
/// for which other workers wait; the Linux kernel's client sends as many as fit 4,096 bytes, which
/// are 170.
///
/// [MS-SMB2] 3.3.5.14 has no limit, so a longer request is refused for resources, not as malformed.
pub const LOCK_ELEMENTS_MAX: usize = 256;

/// Locks and unlocks ranges of bytes.
#[derive(Debug)]
pub struct Lock;

/// A lock that waits for conflicting locks to be released.
#[derive(Debug)]
pub struct Pending {
    file: FileKey,
    lock: ByteRangeLock,
    sequence: Option<LockSequence>,
}

impl Pending {
    /// True if a client that loses the channel can repeat the request without taking a second lock.
    fn may_be_repeated(&self) -> bool {
        self.sequence.is_some()
    }
}

impl PendingCommand for Pending {
    fn waits_for(&self) -> Option<FileKey> {
        Some(self.file)
    }

    /// Keeps a LOCK with a sequence number, because its repetition needs the result.
    fn ends_with_connection(&self, is_suspended: bool) -> bool {
        is_suspended && !self.may_be_repeated()
    }

    /// True if one of them repeats the other.
    fn is_same(&self, other: &dyn PendingCommand) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        let is_of_open = (self.file, self.lock.open) == (other.file, other.lock.open);
        is_of_open && self.may_be_repeated() && self.sequence == other.sequence
    }

    /// Gives a waiting lock up; it holds nothing. A canceled waiter stays in its list, and is
    /// skipped at its turn.
    fn abandon(self: Box<Self>, _: Option<Reply>) -> Abandoned {
        // Windows gives this response when the open is closed.
        Abandoned { reject: Some(Reject::RangeNotLocked), ..Abandoned::default() }
    }
}

impl Command for Lock {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = LockRequest<'a>;
    type Pending = Pending;

    /// Checks the request in the order of [MS-SMB2] 3.3.5.14.
    fn start(
        InOpen { connection, session, open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        request: LockRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        if request.locks.len() > LOCK_ELEMENTS_MAX {
            return Err(Reject::TooManyLocks);
        }
        let checks = globals.settings.lock_sequence_checking;
        let sequence = sequence_of(&request, connection.negotiated().dialect).filter(|_| checks);
        let sequences = &mut open.file_mut()?.lock_sequences;
        if sequence.is_some_and(|it| sequences.is_repetition(it)) {
            return Ok(done());
        }
        let freed = sequence.map(|it| it.index).filter(|index| sequences.forget(*index));
        let standing = session.standing();
        let step = begin(open, &mut globals.files, request, sequence, standing);
        // A successful lock reuses the entry. Otherwise the entry must be free in the record, too,
        // for a worker that reconnects the open.
        if let (Some(index), false) = (freed, matches!(step, Ok(Step::Done(_)))) {
            let id = globals.files.open_id(open.file_id.volatile);
            globals.files.change(key(open.file()?.identity), |record, _| {
                ((), record.forget_lock(id, index))
            })?;
        }
        step
    }

    fn resume(
        InOpen { session, open, globals, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        _: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let waiting = LockConditions {
            may_wait: true,
            sequence: pending.sequence,
            standing: session.standing(),
        };
        let file = open.file_mut()?;
        let Pending { lock, sequence, .. } = pending;
        // A repetition was granted while this request waited, or the other way round.
        if sequence.is_some_and(|it| file.lock_sequences.is_repetition(it)) {
            return Ok(done());
        }
        match lock_all(&mut globals.files, pending.file, &[lock], &mut file.locks, waiting) {
            Ok(()) => {
                sequence.into_iter().for_each(|it| file.lock_sequences.remember(it));
                Ok(done())
            }
            Err(Reject::LockNotGranted) => Ok(Step::Suspend(pending)),
            Err(reject) => Err(reject),
        }
    }

    /// Reports a lock that was never taken as granted at the end of its session or tree connect, as
    /// Windows does: the conflicting locks and this one are gone with it.
    fn outlived() -> Option<Response> {
        Some(Response::new(&LockResponse))
    }
}

/// Locks or unlocks, or begins to wait.
fn begin(
    open: &mut Open,
    files: &mut Files,
    request: LockRequest<'_>,
    sequence: Option<LockSequence>,
    standing: Standing,
) -> Result<Step<Pending>, Reject> {
    let first = request.locks.iter().next().ok_or(Reject::NoLocks)?;
    verify_open(open)?;
    let id = files.open_id(open.file_id.volatile);
    let file = open.file_mut()?;
    let (record, stream) = (key(file.identity), file.identity.stream);
    if first.flags.contains(LockFlags::UNLOCK) {
        unlock(files, record, id, request.locks, &mut file.locks, sequence)?;
        sequence.into_iter().for_each(|it| file.lock_sequences.remember(it));
        return Ok(done());
    }
    let may_wait = verify_lock_elements(request.locks)?;
    let locks: Vec<_> =
        request.locks.iter().map(|element| byte_range_lock(id, stream, element)).collect();
    let wanted = LockConditions { may_wait, sequence, standing };
    match lock_all(files, record, &locks, &mut file.locks, wanted) {
        Ok(()) => {
            sequence.into_iter().for_each(|it| file.lock_sequences.remember(it));
            Ok(done())
        }
        Err(Reject::LockNotGranted) if may_wait => {
            Ok(Step::Suspend(Pending { file: record, lock: locks[0], sequence }))
        }
        Err(reject) => Err(reject),
    }
}

fn done() -> Step<Pending> {
    Step::Done(Response::new(&LockResponse))
}

/// Returns the sequence of a request; none for dialect 2.0.2 and for index 0.
///
/// [MS-SMB2] 3.3.5.14 keeps the sequence for durable opens, and for all opens of a server with
/// multichannel. Here all opens of every server have it at no cost, so that no client locks twice.
///
/// A request over a lost channel whose entry was reused meanwhile is a new one, as far as a server
/// can know: 3.3.5.2.10 refuses no LOCK, and clients would not expect it to.
fn sequence_of(request: &LockRequest<'_>, dialect: Dialect) -> Option<LockSequence> {
    if dialect < Dialect::SMB_2_1 {
        return None;
    }
    let index = u8::try_from(request.lock_sequence_index().checked_sub(1)?).ok()?;
    let number = u8::try_from(request.lock_sequence_number()).expect("it has four bits");
    (index < LOCK_SEQUENCES_MAX).then_some(LockSequence { index, number })
}

/// Checks the open: [MS-FSA] 2.1.5.8.
fn verify_open(open: &Open) -> Result<(), Reject> {
    if open.file()?.is_directory {
        return Err(Reject::NotOnDirectories);
    }
    let wanted = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    if !open.granted_access.intersects(wanted) {
        return Err(Reject::AccessNotGranted { wanted, granted: open.granted_access });
    }
    Ok(())
}

/// Unlocks the ranges one after the other: [MS-SMB2] 3.3.5.14.1. If one fails, the earlier ones
/// stay unlocked.
fn unlock(
    files: &mut Files,
    file: FileKey,
    open: OpenId,
    locks: Locks<'_>,
    memory: &mut Charge,
    sequence: Option<LockSequence>,
) -> Result<(), Reject> {
    // The specification lets a server ignore FAIL_IMMEDIATELY here; Windows does not.
    let is_well_formed = |element: &LockElement| element.flags == LockFlags::UNLOCK;
    let good = locks.iter().take_while(is_well_formed).count();
    let (released, left) = files.change(file, |record, notify| {
        let ranges = locks.iter().take(good).map(range);
        let released = record.release_locks(open, ranges, notify);
        if let (Ok(()), Some(sequence), None) = (released, sequence, locks.iter().nth(good)) {
            record.remember_lock(open, sequence);
        }
        ((released, memory_of_locks(record, open)), true)
    })?;
    memory.set(left);
    released.map_err(reject)?;
    match locks.iter().nth(good) {
        Some(bad) => Err(Reject::LockFlags(bad.flags)),
        None => Ok(()),
    }
}

/// Checks the elements of a lock request, without the file's locks: [MS-SMB2] 3.3.5.14.2. Returns
/// whether the client wants to wait.
///
/// All elements are checked before the first is locked. The specification keeps locks taken before
/// a malformed element; a client that gets an error could not know of them.
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

/// Conditions of a lock request.
#[derive(Clone, Copy, Debug)]
struct LockConditions {
    may_wait: bool,
    sequence: Option<LockSequence>,
    standing: Standing,
}

/// Takes all of the locks, or none; then registers the request as waiting, if permitted. Breaks
/// other clients' read caching, which a lock makes stale: [MS-FSA] 2.1.5.8.
fn lock_all(
    files: &mut Files,
    file: FileKey,
    locks: &[ByteRangeLock],
    memory: &mut Charge,
    LockConditions { may_wait, sequence, standing }: LockConditions,
) -> Result<(), Reject> {
    memory.account().verify_room(locks.len() * LOCK_BYTES)?;
    let (server, deadline) = (files.worker(), files.break_deadline());
    let (result, purged, held) =
        files.change(file, |record, notify| match record.acquire_locks(locks, standing) {
            Ok(()) => {
                let lock = locks[0];
                sequence.into_iter().for_each(|it| record.remember_lock(lock.open, it));
                let purged = record.break_reading(lock.open, lock.stream, deadline, notify);
                ((Ok(()), purged, Some(memory_of_locks(record, lock.open))), true)
            }
            Err(error) => {
                let waits = error == LockError::Conflict && may_wait;
                if waits {
                    record.wait(server);
                }
                ((Err(error), Vec::new(), None), waits)
            }
        })?;
    files.forget_disconnected(file, &purged);
    held.into_iter().for_each(|held| memory.set(held));
    result.map_err(reject)
}

fn range(element: LockElement) -> ByteRange {
    ByteRange { offset: element.offset, length: element.length }
}

fn byte_range_lock(open: OpenId, stream: u64, element: LockElement) -> ByteRangeLock {
    let exclusive = element.flags.contains(LockFlags::EXCLUSIVE_LOCK);
    ByteRangeLock { open, stream, range: range(element), exclusive }
}

fn reject(error: LockError) -> Reject {
    match error {
        LockError::Conflict => Reject::LockNotGranted,
        LockError::NotLocked => Reject::RangeNotLocked,
        LockError::RangeTooLong => Reject::LockRange,
        LockError::TooMany => Reject::TooManyLocks,
    }
}
