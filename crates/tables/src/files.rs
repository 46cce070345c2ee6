//! `files.tdb`: every open file of the server, with its opens, leases and locks; and
//! `disconnected.tdb`: the files of disconnected opens.
//!
//! One record per file has everything that is decided together, so opening a file that no other
//! client uses is one store, and closing it one delete. A disconnected open is looked up by its
//! FileId; its entry in the second table is written when it is disconnected, and costs an ordinary
//! open nothing. Opens with durable handles of the second version are looked up by their CreateGuid
//! as well.
//!
//! [`FileTable`] implements `arbitration::FileRecords`, which `engine::files` calls;
//! `decide_under_lock` is the way of each change. Invariant, under the lock of the record: record,
//! shared word (`words`) and persistent table (`persistent`) agree. The size of all records
//! (`room`) follows without the lock. The supervisor calls `remove_dead`, `scavenge` and `mend`.

mod codec;
mod deaths;
mod disconnected;
mod persistent;
mod requester;
mod room;
mod words;

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{
    FILE_BYTES_MAX, FileKey, FileRecord, FileRecords, FileWord, REQUESTER_BYTES_MAX, RecordsError,
    Standing,
};
use dtyp::Guid;
use tdb::{Change, Tdb};

use crate::memory::MemoryTable;
use crate::registry::RegistryError;
use crate::table::{Table, TableError, TableMended};

use disconnected::{Due, Limits};
use persistent::{PERSISTENT, PERSISTENT_HASH_SIZE};
use room::Room;
use words::Words;

pub use deaths::DeadWorkers;
pub use disconnected::Scavenged;
pub use persistent::Restored;

/// Hash chains of the table of files, which has a hundred thousand entries on a busy server. A
/// prime.
///
/// The death of a worker visits every chain, so more chains are not always better.
const FILES_HASH_SIZE: u16 = 20_011;

/// Hash chains of the table of disconnected opens. A prime.
const DISCONNECTED_HASH_SIZE: u16 = 1_009;

/// All open files of the server, as one process accesses them.
#[derive(Debug)]
pub struct FileTable<T = Tdb> {
    files: T,
    disconnected: T,
    /// Table of persistent opens, which outlive the server; `None` in a process without any.
    persistent: Option<T>,
    /// True if an existing table could not be opened, and was put aside.
    is_damaged: bool,
    words: Words,
    room: Room,
    /// The last record that this process read or wrote.
    last: RefCell<Option<Box<Last>>>,
    /// Files with expired disconnected opens that were not checked yet.
    due: RefCell<Due>,
}

/// A record, and its bytes: while the table has the same bytes, they need not be decoded again. A
/// CREATE, its followers and its CLOSE access the same record.
#[derive(Debug)]
struct Last {
    key: FileKey,
    bytes: Vec<u8>,
    record: FileRecord,
}

impl Last {
    /// Highest number of bytes of a cached record: of a file with few opens.
    const BYTES_MAX: usize = 4_096;

    fn new(key: FileKey) -> Box<Self> {
        Box::new(Self { key, bytes: Vec::new(), record: FileRecord::default() })
    }

    fn is(&self, key: FileKey, bytes: &[u8]) -> bool {
        self.key == key && self.bytes == bytes
    }
}

/// Whether the result of a decision goes to the table of persistent opens, on stable storage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Persistence {
    /// No: the open is being restored from there.
    Stored,
    /// Yes, as far as it is persistent.
    Update,
}

/// The table of a simulated server; each of its processes has a handle.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: MemoryTable,
    disconnected: MemoryTable,
    persistent: MemoryTable,
    words: Words,
    room: Room,
}

impl MemoryFiles {
    /// Number of records stored or deleted, as the cost of opening and closing.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.files.updates() + self.disconnected.updates()
    }

    /// Number of iterations over the records of all files.
    #[must_use]
    pub fn walks(&self) -> u64 {
        self.files.walks()
    }

    /// Sets the highest size of all records in bytes.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.room.set_max(bytes_max);
    }

    /// Returns the handle of one process of the simulation.
    #[must_use]
    pub fn handle(&self) -> FileTable<MemoryTable> {
        FileTable {
            files: self.files.clone(),
            disconnected: self.disconnected.clone(),
            persistent: Some(self.persistent.clone()),
            is_damaged: false,
            words: self.words.clone(),
            room: self.room.clone(),
            last: RefCell::default(),
            due: RefCell::default(),
        }
    }

    /// Returns the tables of the next server after a stop of this one, before any open is restored.
    #[must_use]
    pub fn after_restart(&self) -> Self {
        Self { persistent: self.persistent.clone(), ..Self::default() }
    }
}

impl FileTable {
    /// Creates tables in `lock_dir`, and opens the persistent one in `state_dir`: for the
    /// supervisor, once it has the server's lock.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(lock_dir: &Path, state_dir: &Path) -> Result<Self, RegistryError> {
        let words = Words::create(&lock_dir.join(WORDS)).map_err(file_error(lock_dir, WORDS))?;
        let (persistent, is_damaged) = match Self::open_persistent(state_dir) {
            Ok(table) => (table, false),
            // A server without its persistent opens is better than none.
            Err(RegistryError::File { source, .. }) if is_damage(&source) => {
                let path = state_dir.join(PERSISTENT);
                std::fs::rename(&path, path.with_extension("damaged"))
                    .map_err(file_error(state_dir, PERSISTENT))?;
                (Self::open_persistent(state_dir)?, true)
            }
            Err(error) => return Err(error),
        };
        let tables = Self::open(lock_dir, words, Tdb::create)?;
        // Last, when the tables have their initial size.
        let room = Room::create(&lock_dir.join(ROOM)).map_err(file_error(lock_dir, ROOM))?;
        Ok(Self { persistent: Some(persistent), is_damaged, room, ..tables })
    }

    /// Opens the tables of the running server in a process that was started by exec, so it inherits
    /// none. Workers that may have persistent opens pass the state directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn join(lock_dir: &Path, state_dir: Option<&Path>) -> Result<Self, RegistryError> {
        let words = Words::join(&lock_dir.join(WORDS)).map_err(file_error(lock_dir, WORDS))?;
        let room = Room::join(&lock_dir.join(ROOM)).map_err(file_error(lock_dir, ROOM))?;
        let persistent = state_dir.map(Self::open_persistent).transpose()?;
        Ok(Self { persistent, room, ..Self::open(lock_dir, words, |path, _| Tdb::join(path))? })
    }

    /// File descriptors of the open tables.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.files, &self.disconnected].into_iter().chain(&self.persistent).map(Tdb::descriptor)
    }

    /// Takes over the supervisor's tables in a worker, after a fork; the persistent one only if
    /// `keeps_persistent`. Else its mapping stays: to give it back would write to memory that all
    /// workers share. The caller closes the descriptor.
    ///
    /// # Errors
    /// [`RegistryError::Inherited`].
    pub fn inherit(self, keeps_persistent: bool) -> Result<Self, RegistryError> {
        let inherit = |table: Tdb| table.inherit().map_err(RegistryError::Inherited);
        let mut persistent = self.persistent;
        if !keeps_persistent {
            std::mem::forget(persistent.take());
        }
        Ok(Self {
            files: inherit(self.files)?,
            disconnected: inherit(self.disconnected)?,
            persistent: persistent.map(inherit).transpose()?,
            is_damaged: false,
            words: self.words,
            room: self.room.clone(),
            last: RefCell::default(),
            due: RefCell::default(),
        })
    }

    fn open_persistent(state_dir: &Path) -> Result<Tdb, RegistryError> {
        Tdb::stable(&state_dir.join(PERSISTENT), PERSISTENT_HASH_SIZE)
            .map_err(file_error(state_dir, PERSISTENT))
    }

    /// Opens the tables of the running server for reading, without the shared words: for a tool
    /// like `choro status`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn observe(lock_dir: &Path) -> Result<Self, RegistryError> {
        Self::open(lock_dir, Words::default(), |path, _| Tdb::observe(path))
    }

    fn open(
        lock_dir: &Path,
        words: Words,
        open: impl Fn(&Path, u16) -> io::Result<Tdb>,
    ) -> Result<Self, RegistryError> {
        let open =
            |name: &str, size| open(&lock_dir.join(name), size).map_err(file_error(lock_dir, name));
        Ok(Self {
            files: open("files.tdb", FILES_HASH_SIZE)?,
            disconnected: open("disconnected.tdb", DISCONNECTED_HASH_SIZE)?,
            persistent: None,
            is_damaged: false,
            words,
            room: Room::default(),
            last: RefCell::default(),
            due: RefCell::default(),
        })
    }
}

/// Returns a conversion of errors of the file `name`.
fn file_error(directory: &Path, name: &str) -> impl Fn(io::Error) -> RegistryError {
    let path = directory.join(name);
    move |source| RegistryError::File { path: path.clone(), source }
}

/// True if libtdb cannot interpret an existing file.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// Name of the file with the shared words.
const WORDS: &str = "file_words";

/// Name of the file with the size of all records.
const ROOM: &str = "file_room";

const _: () = assert!(
    2 * FILE_BYTES_MAX <= tdb::RECORD_BYTES_MAX && 4 * REQUESTER_BYTES_MAX <= FILE_BYTES_MAX,
    "a record that is there can always change"
);

impl<T: Table + std::fmt::Debug> FileTable<T> {
    /// As [`Registry::mend`](crate::Registry::mend), for the tables of files.
    pub fn mend(&self) -> Vec<TableMended> {
        let tables = [
            ("files.tdb", Some(&self.files)),
            ("disconnected.tdb", Some(&self.disconnected)),
            (PERSISTENT, self.persistent.as_ref()),
        ];
        tables.into_iter().filter_map(|(name, table)| Some((name, table?.mend()))).collect()
    }

    /// Locks and decodes a record, has it changed, and stores the result, with all that depends on
    /// it. The outer error is the table's; the inner one leaves the record as it was.
    fn decide_under_lock(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
        persistence: Persistence,
    ) -> Result<Result<(), RecordsError>, TableError> {
        let persistent = self.persistent.as_ref().filter(|_| persistence == Persistence::Update);
        let mut must_sync = false;
        let mut last = self.last.take().unwrap_or_else(|| Last::new(key));
        let mut words = None;
        let mut growth = None;
        let outcome = self.files.with_record(&codec::key_of(key), |found| {
            match found {
                None => last.record = FileRecord::default(),
                Some(bytes) if last.is(key, bytes) => {}
                Some(bytes) => match codec::decode(bytes) {
                    Ok(record) => last.record = record,
                    Err(_) => return (Change::Keep, Err(RecordsError::Damaged)),
                },
            }
            let record = &mut last.record;
            let (before, opens) = (record.word(), record.opens.len());
            let parts = persistent.map(|_| persistent::parts(key, record));
            if !decide(record) {
                return (Change::Keep, Ok(()));
            }
            let after = record.word();
            let Some((change, bytes)) = change_to(record, opens) else {
                return (Change::Keep, Err(RecordsError::Full));
            };
            if let (Some(table), Some(parts)) = (persistent, parts) {
                match persistent::update(table, &parts, &persistent::parts(key, record)) {
                    Ok(stored) => must_sync = stored,
                    Err(_) => return (Change::Keep, Err(RecordsError::Full)),
                }
            }
            // Under the lock of the record, and increments before decrements: a process that reads
            // the word in between sees too much at worst, and reads the record.
            if before != after {
                self.words.change(key, before, after);
            }
            words = Some((before, after));
            growth = Some(bytes - room::bytes_of(found.map(<[u8]>::len)));
            last.key = key;
            match &change {
                Change::Store(bytes) => bytes.clone_into(&mut last.bytes),
                // The bytes of no record. The memory serves the next one.
                Change::Delete | Change::Erase(_) | Change::Keep => last.bytes.clear(),
            }
            self.keep(last);
            (change, Ok(()))
        });
        match (outcome.is_ok(), words, growth) {
            (true, _, Some(bytes)) => self.room.add(bytes),
            // The record is unchanged, so the word must be as well.
            (false, Some((before, after)), _) => self.words.change(key, after, before),
            _ => {}
        }
        let result = outcome?;
        // Only this process waits for the disk, and not those that wait for the lock.
        if let (true, Some(table)) = (must_sync, persistent) {
            table.sync()?;
        }
        Ok(result)
    }
}

impl<T> FileTable<T> {
    fn keep(&self, last: Box<Last>) {
        if last.bytes.len() <= Last::BYTES_MAX {
            self.last.replace(Some(last));
        }
    }
}

impl<T: Table + std::fmt::Debug> FileRecords for FileTable<T> {
    fn change(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
    ) -> Result<(), RecordsError> {
        self.decide_under_lock(key, decide, Persistence::Update).map_err(failure)?
    }

    fn view(&self, key: FileKey, see: &mut dyn FnMut(&FileRecord)) -> Result<(), RecordsError> {
        let last = self.last.take();
        let read = |bytes: &[u8]| match last {
            Some(last) if last.is(key, bytes) => Ok(last),
            _ => codec::decode(bytes)
                .map(|record| Box::new(Last { key, bytes: bytes.to_vec(), record })),
        };
        match self.files.get(&codec::key_of(key), read).map_err(failure)? {
            None => see(&FileRecord::default()),
            Some(found) => {
                let found = found.map_err(|_| RecordsError::Damaged)?;
                see(&found.record);
                self.keep(found);
            }
        }
        Ok(())
    }

    fn permits_open(&self, standing: Standing) -> bool {
        self.room.is_plentiful() || self.room.permits_open(standing)
    }

    fn word(&self, key: FileKey) -> FileWord {
        self.words.get(key)
    }

    fn deletion_count(&self) -> u32 {
        self.words.deletion_count()
    }

    fn count_deletion(&self) {
        self.words.count_deletion();
    }

    fn note_delegated(&self, key: FileKey) -> Result<(), RecordsError> {
        self.note_delegated_deletions(key).map_err(failure)
    }

    fn put_disconnected(&self, at: &Disconnected, until: Duration) -> Result<(), RecordsError> {
        self.note_disconnected(at, until, Limits::Apply).map_err(failure)
    }

    fn remove_disconnected(&self, at: &Disconnected) {
        self.forget_disconnected(at);
    }

    fn find_disconnected(&self, persistent: u64) -> Option<FileKey> {
        self.find_note(persistent).map(|(_, file)| file)
    }

    fn find_create_guid(&self, client: Guid, create_guid: Guid) -> Option<(u64, FileKey)> {
        self.find_note_by_create_guid((client, create_guid))
    }

    fn for_each(&self, visit: &mut dyn FnMut(FileKey, FileRecord)) -> Result<(), RecordsError> {
        let visited = self.files.for_each(|key, value| {
            if let (Some(key), Ok(record)) = (codec::key_from(key), codec::decode(value)) {
                visit(key, record);
            }
        });
        visited.map(drop).map_err(failure)
    }
}

/// Returns the change that stores a record, which had `opens` opens before, and the bytes that it
/// takes then; `None` if it is too long.
fn change_to(record: &FileRecord, opens: usize) -> Option<(Change, i64)> {
    if record.is_empty() {
        return Some((Change::Delete, 0));
    }
    let bytes = codec::encode(record).ok()?;
    let length = bytes.len();
    let is_grown = record.opens.len() > opens && length > FILE_BYTES_MAX;
    (!is_grown).then_some((Change::Store(bytes), room::bytes_of(Some(length))))
}

fn failure(error: TableError) -> RecordsError {
    match error {
        TableError::Full | TableError::RecordTooLarge(_) => RecordsError::Full,
        _ => RecordsError::Damaged,
    }
}

#[cfg(test)]
mod tests;
