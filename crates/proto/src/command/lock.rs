//! SMB2 LOCK: [MS-SMB2] 3.3.5.14.
//!
//! `arbitration` decides on conflicts between clients; this module decides on waiting, and on the
//! responses to repeated requests. With `posix locking` the kernel, by way of the store, decides on
//! conflicts with local programs. The record gets its locks first and loses them last: clients find
//! the locks of each other there, and not in the kernel.

#[cfg(test)]
mod tests;

use arbitration::{
    ByteRange, ByteRangeLock, FileKey, LOCK_SEQUENCES_MAX, LockError, LockSequence, OpenId,
    Standing,
};
use dtyp::{AccessMask, NtStatus};
use engine::effect::{Effect, Reply};
use engine::files::{Files, LOCK_BYTES, memory_of_locks};
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InOpen;
use model::file_key::key;
use model::memory_account::Charge;
use model::open::Open;
use model::reject::Reject;
use model::session::SessionState;
use object::{FileRange, ObjectOp, RangeLock};
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

/// State of a pending LOCK.
#[derive(Debug)]
pub enum Pending {
    /// Waits for conflicting locks to be released.
    Waiting(Waiting),
    /// The store takes the locks for local programs, which the record has already.
    Taking(Box<Request>),
    /// The store takes the locks for local programs, before the record: a local program held a
    /// conflicting one before. As long as it does, no record changes.
    TryingAgain(Box<Request>),
    /// The store releases locks that the record does not permit by now.
    GivingBack(Box<Request>),
    /// The store releases locks. Those of the record follow, so that no other client finds the
    /// kernel's in its way.
    Releasing(Box<Releasing>),
}

/// A single lock that waits.
#[derive(Debug)]
pub struct Waiting {
    file: FileKey,
    lock: ByteRangeLock,
    sequence: Option<LockSequence>,
    /// True if a local program has a conflicting lock. It notifies nobody of the release.
    is_local: bool,
}

/// Locks that one request asks for.
#[derive(Debug)]
pub struct Request {
    file: FileKey,
    locks: Vec<ByteRangeLock>,
    conditions: LockConditions,
}

/// Ranges of one request to unlock.
#[derive(Debug)]
pub struct Releasing {
    file: FileKey,
    ranges: Vec<ByteRange>,
    /// Flags of the first malformed element: the request fails after the unlocks before it.
    malformed: Option<LockFlags>,
    sequence: Option<LockSequence>,
}

impl Pending {
    fn sequence(&self) -> Option<LockSequence> {
        match self {
            Self::Waiting(it) => it.sequence,
            Self::Taking(it) | Self::TryingAgain(it) | Self::GivingBack(it) => {
                it.conditions.sequence
            }
            Self::Releasing(it) => it.sequence,
        }
    }

    /// True if a client that loses the channel can repeat the request without taking a second lock.
    fn may_be_repeated(&self) -> bool {
        self.sequence().is_some()
    }

    /// Returns the file and the open of locks that are requested.
    fn target(&self) -> Option<(FileKey, OpenId)> {
        match self {
            Self::Waiting(it) => Some((it.file, it.lock.open)),
            Self::Taking(it) | Self::TryingAgain(it) | Self::GivingBack(it) => {
                Some((it.file, it.locks[0].open))
            }
            Self::Releasing(_) => None,
        }
    }
}

impl PendingCommand for Pending {
    fn waits_for(&self) -> Option<FileKey> {
        match self {
            Self::Waiting(it) => Some(it.file),
            _ => None,
        }
    }

    fn waits_for_program(&self) -> bool {
        matches!(self, Self::Waiting(it) if it.is_local)
    }

    /// Keeps a LOCK with a sequence number, because its repetition needs the result.
    fn ends_with_connection(&self, is_suspended: bool) -> bool {
        is_suspended && !self.may_be_repeated()
    }

    /// True if one of them repeats the other.
    fn is_same(&self, other: &dyn PendingCommand) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        let is_of_open = self.target().is_some() && self.target() == other.target();
        is_of_open && self.may_be_repeated() && self.sequence() == other.sequence()
    }

    /// Gives a waiting lock up; it holds nothing. A canceled waiter stays in its list, and is
    /// skipped at its turn. A lock that the store takes or releases goes with its open.
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
        // [MS-SMB2] 3.3.5.2.9 leaves LOCK to an expired session, and means that it can unlock: by
        // smbtorture's tests, and in Samba, it takes no further lock.
        let locks = |element: LockElement| !element.flags.contains(LockFlags::UNLOCK);
        if session.state == SessionState::Expired && request.locks.iter().any(locks) {
            return Err(Reject::SessionExpired);
        }
        let checks = globals.settings.lock_sequence_checking;
        let sequence = sequence_of(&request, connection.negotiated().dialect).filter(|_| checks);
        let sequences = &mut open.file_mut()?.lock_sequences;
        if sequence.is_some_and(|it| sequences.is_repetition(it)) {
            return Ok(done());
        }
        let freed = sequence.map(|it| it.index).filter(|index| sequences.forget(*index));
        let standing = session.standing;
        let step = begin(open, &mut globals.files, request, sequence, standing);
        // A successful lock reuses the entry. Otherwise the entry must be free in the record, too,
        // for a worker that reconnects the open. `resume` knows that of a lock in the store.
        let is_open = matches!(step, Ok(Step::Done(_) | Step::Wait(..)));
        if let (Some(index), false) = (freed, is_open) {
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
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let files = &mut globals.files;
        match pending {
            Pending::Waiting(waiting) => try_again(open, files, waiting, session.standing),
            Pending::Taking(request) => match reply.object() {
                Ok(_) => granted(open, files, &request),
                Err(reject) => refused_by_store(open, files, *request, reject),
            },
            Pending::TryingAgain(request) => match reply.object() {
                Ok(_) => enter(open, files, *request),
                Err(reject) => wait_or_refuse(*request, true, reject),
            },
            Pending::GivingBack(request) => wait_or_refuse(*request, false, Reject::LockNotGranted),
            Pending::Releasing(releasing) => {
                reply.object()?;
                let Releasing { file, ranges, malformed, sequence } = *releasing;
                unlock(open, files, file, &ranges, malformed, sequence)
            }
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
    let identity = open.file()?.identity;
    let file = key(identity);
    if first.flags.contains(LockFlags::UNLOCK) {
        return begin_unlock(open, files, file, request.locks, sequence);
    }
    let may_wait = verify_lock_elements(request.locks)?;
    let locks: Vec<_> =
        request.locks.iter().map(|it| byte_range_lock(id, identity.stream, it)).collect();
    let conditions = LockConditions { may_wait, sequence, standing };
    lock(open, files, Request { file, locks, conditions })
}

/// Takes the locks in the file's record, and then for local programs.
fn lock(open: &mut Open, files: &mut Files, request: Request) -> Result<Step<Pending>, Reject> {
    let memory = &mut open.file_mut()?.locks;
    match lock_all(files, request.file, &request.locks, memory, request.conditions) {
        Ok(()) if open.shows_locks() => {
            let effect = take_in_store(open, &request)?;
            Ok(Step::Wait(effect, Pending::Taking(Box::new(request))))
        }
        Ok(()) => granted(open, files, &request),
        Err(reject) => wait_or_refuse(request, false, reject),
    }
}

/// Suspends a request whose lock conflicts with another one, if it may wait.
fn wait_or_refuse(
    request: Request,
    is_local: bool,
    reject: Reject,
) -> Result<Step<Pending>, Reject> {
    let is_conflict = match is_local {
        true => reject == Reject::Object(NtStatus::FILE_LOCK_CONFLICT),
        false => reject == Reject::LockNotGranted,
    };
    let Request { file, locks, conditions } = request;
    if is_conflict && conditions.may_wait {
        let (lock, sequence) = (locks[0], conditions.sequence);
        return Ok(Step::Suspend(Pending::Waiting(Waiting { file, lock, sequence, is_local })));
    }
    Err(if is_conflict && is_local { Reject::LockedByProgram } else { reject })
}

/// Handles an event that a waiting lock may have waited for.
fn try_again(
    open: &mut Open,
    files: &mut Files,
    waiting: Waiting,
    standing: Standing,
) -> Result<Step<Pending>, Reject> {
    let Waiting { file, lock: wanted, sequence, is_local } = waiting;
    // A repetition was granted while this request waited, or the other way round.
    let sequences = &open.file()?.lock_sequences;
    if sequence.is_some_and(|it| sequences.is_repetition(it)) {
        return Ok(done());
    }
    let conditions = LockConditions { may_wait: true, sequence, standing };
    let request = Request { file, locks: vec![wanted], conditions };
    if is_local {
        let effect = take_in_store(open, &request)?;
        return Ok(Step::Wait(effect, Pending::TryingAgain(Box::new(request))));
    }
    lock(open, files, request)
}

/// Enters locks into the record that local programs see already.
fn enter(open: &mut Open, files: &mut Files, request: Request) -> Result<Step<Pending>, Reject> {
    let memory = &mut open.file_mut()?.locks;
    match lock_all(files, request.file, &request.locks, memory, request.conditions) {
        Ok(()) => granted(open, files, &request),
        Err(Reject::LockNotGranted) => {
            let ranges = request.locks.iter().map(|it| it.range);
            let effect = release_in_store(open, ranges)?;
            Ok(Step::Wait(effect, Pending::GivingBack(Box::new(request))))
        }
        Err(reject) => Err(reject),
    }
}

/// Ends a request whose locks are taken. Breaks other clients' read caching, which a lock makes
/// stale: [MS-FSA] 2.1.5.8.
fn granted(open: &mut Open, files: &mut Files, request: &Request) -> Result<Step<Pending>, Reject> {
    let file = open.file_mut()?;
    request.conditions.sequence.into_iter().for_each(|it| file.lock_sequences.keep(it));
    files.break_before_change(file.identity, open.file_id.volatile)?;
    Ok(done())
}

/// Removes locks from the record that the store could not take.
fn refused_by_store(
    open: &mut Open,
    files: &mut Files,
    request: Request,
    reject: Reject,
) -> Result<Step<Pending>, Reject> {
    let id = files.open_id(open.file_id.volatile);
    let left = files.change(request.file, |record, notify| {
        record.withdraw_locks(&request.locks, notify);
        if let Some(sequence) = request.conditions.sequence {
            record.forget_lock(id, sequence.index);
        }
        (memory_of_locks(record, id), true)
    })?;
    open.file_mut()?.locks.set(left);
    wait_or_refuse(request, true, reject)
}

/// Makes the operation of the store that takes locks for local programs.
fn take_in_store(open: &Open, request: &Request) -> Result<Effect, Reject> {
    let lock =
        |it: &ByteRangeLock| RangeLock { range: file_range(it.range), exclusive: it.exclusive };
    let locks = request.locks.iter().map(lock).collect();
    let op = ObjectOp::Lock { open: open.file()?.local_open, locks };
    Ok(Effect::Object { user: open.user, op })
}

/// Makes the operation of the store that releases locks for local programs.
fn release_in_store(
    open: &Open,
    ranges: impl Iterator<Item = ByteRange>,
) -> Result<Effect, Reject> {
    let ranges = ranges.map(file_range).collect();
    let op = ObjectOp::Unlock { open: open.file()?.local_open, ranges };
    Ok(Effect::Object { user: open.user, op })
}

fn file_range(ByteRange { offset, length }: ByteRange) -> FileRange {
    FileRange { offset, length }
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
fn begin_unlock(
    open: &mut Open,
    files: &mut Files,
    file: FileKey,
    locks: Locks<'_>,
    sequence: Option<LockSequence>,
) -> Result<Step<Pending>, Reject> {
    // The specification lets a server ignore FAIL_IMMEDIATELY here; Windows does not.
    let is_well_formed = |element: &LockElement| element.flags == LockFlags::UNLOCK;
    let ranges: Vec<_> = locks.iter().take_while(is_well_formed).map(range).collect();
    let malformed = locks.iter().nth(ranges.len()).map(|bad| bad.flags);
    if open.shows_locks() {
        let effect = release_in_store(open, ranges.iter().copied())?;
        let releasing = Releasing { file, ranges, malformed, sequence };
        return Ok(Step::Wait(effect, Pending::Releasing(Box::new(releasing))));
    }
    unlock(open, files, file, &ranges, malformed, sequence)
}

/// Unlocks ranges in the file's record.
fn unlock(
    open: &mut Open,
    files: &mut Files,
    file: FileKey,
    ranges: &[ByteRange],
    malformed: Option<LockFlags>,
    sequence: Option<LockSequence>,
) -> Result<Step<Pending>, Reject> {
    let id = files.open_id(open.file_id.volatile);
    let (released, left) = files.change(file, |record, notify| {
        let released = record.release_locks(id, ranges.iter().copied(), notify);
        match sequence {
            Some(sequence) if released.is_ok() && malformed.is_none() => {
                record.remember_lock(id, sequence);
            }
            Some(sequence) => drop(record.forget_lock(id, sequence.index)),
            None => {}
        }
        ((released, memory_of_locks(record, id)), true)
    })?;
    let opened = open.file_mut()?;
    opened.locks.set(left);
    released.map_err(reject)?;
    if let Some(flags) = malformed {
        return Err(Reject::LockFlags(flags));
    }
    sequence.into_iter().for_each(|it| opened.lock_sequences.keep(it));
    Ok(done())
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

/// Takes all of the locks in the file's record, or none; then registers the request as waiting, if
/// permitted.
fn lock_all(
    files: &mut Files,
    file: FileKey,
    locks: &[ByteRangeLock],
    memory: &mut Charge,
    LockConditions { may_wait, sequence, standing }: LockConditions,
) -> Result<(), Reject> {
    memory.account().verify_room(locks.len() * LOCK_BYTES)?;
    let server = files.worker();
    let (result, held) =
        files.change(file, |record, _| match record.acquire_locks(locks, standing) {
            Ok(()) => {
                let open = locks[0].open;
                sequence.into_iter().for_each(|it| record.remember_lock(open, it));
                ((Ok(()), Some(memory_of_locks(record, open))), true)
            }
            Err(error) => {
                let waits = error == LockError::Conflict && may_wait;
                if waits {
                    record.wait(server);
                }
                ((Err(error), None), waits)
            }
        })?;
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
        LockError::TooManyLocks => Reject::TooManyLocks,
    }
}
