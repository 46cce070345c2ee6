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
use crate::message;
use crate::transport::members::Members;
use crate::transport::outgoing::Carrier;
use crate::transport::owner::Owner;
use crate::transport::packet::Header;
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
                let empty = empty(thread);
                let is_secret = holds_secret(packets);
                (if is_secret { Change::erase(empty) } else { Change::Store(empty) }, true)
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
        self.delete(dead);
        let _ = self.tdb.delete(&room_key(dead));
    }

    /// Deletes the record of a process. Nothing of it stays in the file's free space.
    fn delete(&self, process: ServerId) {
        let key = process.to_bytes();
        let _ = self.with_record(&key, |found| match found {
            Some(_) => (Change::erase(Vec::new()), ()),
            None => (Change::Keep, ()),
        });
        let _ = self.tdb.delete(&key);
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
            // A record that grows may move, and leave its bytes behind.
            let is_secret = holds_secret(&record[THREAD_BYTES..]) || is_secret(parts);
            let new = [record, &prefix, parts[0], parts[1]].concat();
            (if is_secret { Change::erase(new) } else { Change::Store(new) }, Ok(()))
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
            self.delete(self.server_id);
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

/// Whether packets of a record may hold keys or proofs of users.
fn holds_secret(mut packets: &[u8]) -> bool {
    while let Some((prefix, rest)) = packets.split_first_chunk() {
        let len = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        let Some((packet, rest)) = rest.split_at_checked(len) else { return true };
        if is_secret([packet, &[]]) {
            return true;
        }
        packets = rest;
    }
    false
}

/// Whether a packet in two parts may hold keys or proofs of users. The kind of a frame is at its
/// end, so a part of one may.
fn is_secret([head, body]: [&[u8]; 2]) -> bool {
    let decoded = match (body.is_empty(), head.first_chunk()) {
        (false, Some(first)) if head.len() == first.len() => Header::decode_parts(first, body),
        (true, _) => Header::decode(head),
        _ => return true,
    };
    let Ok((_, mut entries)) = decoded else { return true };
    entries.any(|entry| match entry {
        Ok((entry, bytes)) => bytes.len() != entry.total as usize || message::is_secret(bytes),
        Err(_) => true,
    })
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::kind::MessageKind;
    use crate::message::Content;
    use crate::transport::packet::Entry;

    const KEY: &[u8] = b"session key of a user";

    /// A table with this process in it.
    struct Bench {
        _folder: tempfile::TempDir,
        file: PathBuf,
        me: ServerId,
        records: Records,
        /// Its socket is the sign of life.
        _side: crate::transport::dgram::Dgram,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let me = ServerId { pid: std::process::id(), unique_id: 77 };
            let side = crate::transport::dgram::Dgram::open(folder.path(), me, "tdb");
            let records = Records::open(folder.path(), me, true).expect("it is new");
            let file = folder.path().join(TDB_FILE);
            Self { _folder: folder, file, me, records, _side: side.expect("it is new") }
        }

        /// Sends a message with a key to this process, by a packet in two parts.
        fn send(&mut self, kind: MessageKind) {
            let mut frame = Vec::new();
            Content::new(kind, KEY).encode(&mut frame).expect("it is short");
            let header = Header { descriptors: 0, sender: self.me, receiver: self.me };
            let total = u32::try_from(frame.len()).expect("it is short");
            let entry = Entry { total, offset: 0, message_id: 1, sent_at: 0 };
            let head = [&header.encode()[..], &entry.encode()].concat();
            let mut line = self.records.connect(self.me).expect("alive");
            self.records.push(&mut line, [&head, &frame], &[]).expect("there is room");
        }

        fn has_key(&self) -> bool {
            let file = std::fs::read(&self.file).expect("it is open");
            file.windows(KEY.len()).any(|it| it == KEY)
        }
    }

    #[test]
    fn keys_leave_the_file_with_their_message() {
        let mut bench = Bench::new();
        for _ in 0..20 {
            bench.send(MessageKind::LOGON_CHECKED);
            bench.send(MessageKind::PING);
        }
        assert!(bench.has_key());
        let mut taken = Vec::new();
        assert!(bench.records.take(&mut taken));
        assert!(taken.windows(KEY.len()).any(|it| it == KEY));
        assert!(!bench.has_key(), "neither in the record, nor where it was before it grew");
    }

    #[test]
    fn keys_for_a_process_that_dies_leave_the_file_with_its_record() {
        let mut bench = Bench::new();
        bench.send(MessageKind::SESSION_FOUND);
        assert!(bench.has_key());
        bench.records.remove(bench.me);
        assert!(!bench.has_key());
    }
}
