//! Records of processes: the thread to wake (4 bytes), and packets, each after its length. A second
//! record holds the ids of processes that wait for room in the first, if any.

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

/// The table of records and this process's state in it.
#[derive(Debug)]
pub(super) struct Records {
    tdb: Tdb,
    members: Members,
    server_id: ServerId,
    owner: Owner,
    signal: Signal,
    uid: u32,
    /// Full receivers, and the time since when there are some.
    waiting: HashSet<ServerId>,
    waiting_since: Instant,
    /// Time to read the own record again, after another process held its lock.
    look_at: Option<Instant>,
}

/// Line to one living process.
#[derive(Debug)]
pub(super) struct Line {
    to: ServerId,
    key: [u8; ServerId::ENCODED_LEN],
    /// Pidfd, readable once the process has ended. Until then its pid is not used again.
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

    /// Takes pending signals. Returns true if there were any.
    pub(super) fn take_signals(&mut self) -> bool {
        self.signal.take()
    }

    /// Takes the packets in the own record, after the thread. Returns true if there were any.
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
            // Another process took this one for dead and removed its record.
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

    /// Schedules a read of the own record.
    pub(super) fn look_by(&mut self, time: Instant) {
        self.look_at = Some(time);
    }

    /// Time to read the own record even without a signal.
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

    /// Removes the records of a dead process, after repair of an unfinished change.
    pub(super) fn remove(&mut self, dead: ServerId) {
        // On failure the records cost some room in a file that the next server empties.
        let _ = self.tdb.mend();
        let _ = self.tdb.delete(&dead.to_bytes());
        let _ = self.tdb.delete(&room_key(dead));
    }

    /// Wakes processes that wait for room in the own record.
    fn wake_waiting(&mut self) {
        let key = room_key(self.server_id);
        let waiting = self.with_record(&key, |found| match found {
            Some(ids) => (Change::Delete, ids.to_vec()),
            None => (Change::Keep, Vec::new()),
        });
        // A process that is not woken tries again by itself.
        for id in waiting.unwrap_or_default().chunks_exact(ServerId::ENCODED_LEN) {
            let id = ServerId::from_bytes(id.first_chunk().expect("chunks of this size"));
            if let Ok(line) = self.connect(id)
                && let Ok(Some(Some(thread))) = self.tdb.get(&line.key, thread_of_record)
            {
                let _ = signal::wake(id.pid, thread);
            }
        }
    }

    /// As `Tdb::with_record`, with a bounded number of attempts.
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

    /// Room for a message of 64 KiB with its headers.
    const PACKET_BYTES_MAX: usize = 64 * 1024 + 64;

    const DESCRIPTORS_MAX: usize = 0;

    fn connect(&mut self, to: ServerId) -> Result<Line, Errno> {
        let pid = i32::try_from(to.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        // Open the pidfd before the check: so it belongs to that process and not to a later one.
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
            // The lock's holder is stopped, or the file system is full: both pass.
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
        // On failure the periodic attempts suffice.
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

/// Returns a record without packets.
fn empty(thread: i32) -> Vec<u8> {
    thread.to_le_bytes().to_vec()
}

/// Thread to wake, from a record.
fn thread_of_record(record: &[u8]) -> Option<i32> {
    record.first_chunk().map(|thread| i32::from_le_bytes(*thread))
}

fn room_key(process: ServerId) -> Vec<u8> {
    [&b"room"[..], &process.to_bytes()].concat()
}

/// Number of hash chains, a prime.
const HASH_SIZE: u16 = 1_009;

/// Bytes of the thread id in a record.
const THREAD_BYTES: usize = 4;

/// Highest number of bytes of a record, pending for a process that does not take them. The file
/// keeps the room of each record that was ever so large.
const RECORD_BYTES_MAX: usize = 256 * 1024;

/// Bytes for the ids of processes that wait for room; others try again by themselves.
const WAITING_BYTES_MAX: usize = 1_024 * ServerId::ENCODED_LEN;

/// Attempts to get a lock. It is held for the time of a copy, longer only by a process that was
/// stopped meanwhile.
const LOCK_ATTEMPTS: usize = 64;

/// Pause before another read of a locked record.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(1);
