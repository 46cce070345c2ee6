//! The records, one for each process: the thread to wake (4 bytes), and packets, each after its
//! length. Beside it lies, while there are some, the record of those that wait for room: their ids.

use std::collections::HashSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use dtyp::ServerId;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use tdb::{Change, Mapping, Tdb, TdbError};

use super::signal::{self, Signal};
use crate::transport::members::Members;
use crate::transport::outgoing::Carrier;
use crate::transport::owner::Owner;
use crate::transport::{InitError, TDB_FILE};

/// The records as this process sees them.
#[derive(Debug)]
pub(super) struct Records {
    tdb: Tdb,
    members: Members,
    server_id: ServerId,
    owner: Owner,
    signal: Signal,
    uid: u32,
    /// Processes without room, and since when there are some.
    waiting: HashSet<ServerId>,
    waiting_since: Instant,
    /// The own record was locked by another process: when to look again.
    look_at: Option<Instant>,
}

/// The way to one process.
#[derive(Debug)]
pub(super) struct Line {
    to: ServerId,
    key: [u8; ServerId::ENCODED_LEN],
    /// Becomes readable when it ends. While it has not, its pid is nobody else's.
    life: OwnedFd,
}

impl Records {
    pub(super) fn open(
        lock_dir: &Path,
        server_id: ServerId,
        use_mmap: bool,
    ) -> Result<Self, InitError> {
        let members = Members::open(lock_dir)?;
        let path = lock_dir.join(TDB_FILE);
        let system = |source| InitError::System { path: path.clone(), source };
        let signal = Signal::open().map_err(system)?;
        let mapping = if use_mmap { Mapping::Mapped } else { Mapping::Unmapped };
        let tdb = Tdb::shared(&path, HASH_SIZE, mapping).map_err(system)?;
        let store = |_: Option<&[u8]>| (Change::Store(empty(signal.thread())), ());
        tdb.with_record(&server_id.to_bytes(), store)
            .map_err(|error| system(std::io::Error::other(error)))?;
        Ok(Self {
            tdb,
            members,
            server_id,
            owner: Owner::here(),
            signal,
            uid: rustix::process::geteuid().as_raw(),
            waiting: HashSet::new(),
            waiting_since: Instant::now(),
            look_at: None,
        })
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Takes the signals that have come; whether there were any.
    pub(super) fn take_signals(&mut self) -> bool {
        self.signal.take()
    }

    /// Takes what lies in the own record, after the thread; whether there was something.
    pub(super) fn take(&mut self, taken: &mut Vec<u8>) -> bool {
        let thread = self.signal.thread();
        let key = self.server_id.to_bytes();
        let split = |record: &[u8]| record.len().checked_sub(THREAD_BYTES);
        let result = self.with_record(&key, |found| match found.map(|it| (it, split(it))) {
            Some((_, Some(0))) => (Change::Keep, false),
            Some((record, Some(_))) => {
                let packets = &record[THREAD_BYTES..];
                taken.extend_from_slice(packets);
                (Change::Store(empty(thread)), true)
            }
            // Removed by somebody who took this process for dead.
            _ => (Change::Store(empty(thread)), false),
        });
        self.look_at = match result {
            Ok(_) => None,
            Err(_) => Some(Instant::now() + LOOK_AGAIN),
        };
        let any = result.unwrap_or(false);
        if any && taken.len() > RECORD_BYTES_MAX / 2 {
            self.wake_waiting();
        }
        any
    }

    /// The own record is to be looked at.
    pub(super) fn look_by(&mut self, time: Instant) {
        self.look_at = Some(time);
    }

    /// When to look at the own record, although no signal comes.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn waiting(&self) -> Vec<ServerId> {
        self.waiting.iter().copied().collect()
    }

    pub(super) fn waiting_since(&self) -> Instant {
        self.waiting_since
    }

    /// Removes what a dead process left, also of changes that it was in the middle of.
    pub(super) fn remove(&mut self, dead: ServerId) {
        // What stays costs some room in a file that the next server empties.
        let _ = self.tdb.mend();
        let _ = self.tdb.delete(&dead.to_bytes());
        let _ = self.tdb.delete(&room_key(dead));
    }

    /// Wakes those that wait for room in the own record.
    fn wake_waiting(&mut self) {
        let key = room_key(self.server_id);
        let waiting = self.with_record(&key, |found| match found {
            Some(ids) => (Change::Delete, ids.to_vec()),
            None => (Change::Keep, Vec::new()),
        });
        // Whoever is not woken tries again by itself.
        for id in waiting.unwrap_or_default().chunks_exact(ServerId::ENCODED_LEN) {
            let id = ServerId::from_bytes(id.first_chunk().expect("chunks of this size"));
            if let Ok(line) = self.connect(id)
                && let Ok(Some(Some(thread))) = self.tdb.get(&line.key, thread_of_record)
            {
                let _ = signal::wake(id.pid, thread);
            }
        }
    }

    /// As `Tdb::with_record`, for a short while instead of for ever.
    fn with_record<R>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TdbError> {
        for _ in 0..LOCK_ATTEMPTS {
            match self.tdb.try_with_record(key, &mut decide) {
                Err(TdbError::Busy) => std::thread::yield_now(),
                result => return result,
            }
        }
        Err(TdbError::Busy)
    }
}

impl Carrier for Records {
    type Line = Line;

    /// A message of 64 KiB.
    const PACKET_BYTES_MAX: usize = 64 * 1024 + 64;

    const DESCRIPTORS_MAX: usize = 0;

    fn connect(&mut self, to: ServerId) -> Result<Line, Errno> {
        let pid = i32::try_from(to.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        // First its life and then whether it lives: so the life is that of no other process.
        let life = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        match self.members.is_alive(to) {
            true => Ok(Line { to, key: to.to_bytes(), life }),
            false => Err(Errno::SRCH),
        }
    }

    fn push(
        &mut self,
        line: &mut Line,
        parts: [&[u8]; 2],
        _descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        if !signal::is_alive(&line.life) {
            return Err(Errno::SRCH);
        }
        let len = parts[0].len() + parts[1].len();
        let prefix = u32::try_from(len).map_err(|_| Errno::MSGSIZE)?.to_le_bytes();
        let result = self.with_record(&line.key, |found| {
            let Some((record, thread)) = found.and_then(|it| Some((it, thread_of_record(it)?)))
            else {
                return (Change::Keep, Err(Errno::SRCH));
            };
            if record.len() + prefix.len() + len > RECORD_BYTES_MAX {
                return (Change::Keep, Err(Errno::AGAIN));
            }
            if record.len() == THREAD_BYTES
                && let Err(error) = signal::wake(line.to.pid, thread)
            {
                return (Change::Keep, Err(error));
            }
            (Change::Store([record, &prefix, parts[0], parts[1]].concat()), Ok(()))
        });
        match result {
            Ok(pushed) => pushed,
            // Locked by a process that is stopped, or no room in the file system: both pass.
            Err(TdbError::Busy | TdbError::Lock | TdbError::Full) => Err(Errno::AGAIN),
            Err(_) => Err(Errno::IO),
        }
    }

    fn await_room(&mut self, to: ServerId, _line: &mut Line) {
        if self.waiting.is_empty() {
            self.waiting_since = Instant::now();
        }
        self.waiting.insert(to);
        let own = self.server_id.to_bytes();
        // Where this fails, trying again from time to time must do.
        let _ = self.with_record(&room_key(to), |found| {
            let ids = found.unwrap_or_default();
            let is_there = ids.chunks_exact(own.len()).any(|id| id == own);
            match is_there || ids.len() >= WAITING_BYTES_MAX {
                true => (Change::Keep, ()),
                false => (Change::Store([ids, &own].concat()), ()),
            }
        });
    }

    fn stop_awaiting(&mut self, to: ServerId, _line: &mut Line) {
        self.waiting.remove(&to);
    }

    fn disconnect(&mut self, line: Line) {
        self.waiting.remove(&line.to);
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        if self.owner.is_here() {
            let _ = self.tdb.delete(&self.server_id.to_bytes());
            let _ = self.tdb.delete(&room_key(self.server_id));
        }
    }
}

/// A record in which nothing waits.
fn empty(thread: i32) -> Vec<u8> {
    thread.to_le_bytes().to_vec()
}

/// The thread to wake.
fn thread_of_record(record: &[u8]) -> Option<i32> {
    record.first_chunk().map(|thread| i32::from_le_bytes(*thread))
}

fn room_key(process: ServerId) -> Vec<u8> {
    [&b"room"[..], &process.to_bytes()].concat()
}

/// Hash chains. A prime.
const HASH_SIZE: u16 = 1_009;

/// Bytes of the thread in a record.
const THREAD_BYTES: usize = 4;

/// Bytes of a record: what may wait for a process that does not take it. The file keeps the room of
/// each record that once was so large.
const RECORD_BYTES_MAX: usize = 256 * 1024;

/// Bytes of the ids of those that wait for room; those beyond it try again by themselves.
const WAITING_BYTES_MAX: usize = 1_024 * ServerId::ENCODED_LEN;

/// How often a lock is tried. It is held for the time of a copy, and longer only by a process that
/// was stopped meanwhile.
const LOCK_ATTEMPTS: usize = 64;

/// How soon a record that was locked is looked at again.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(1);
