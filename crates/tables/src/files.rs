//! `files.tdb`: every file that is open anywhere, with its opens, leases and locks; and
//! `disconnected.tdb`: where the opens are that nobody has a connection for.
//!
//! One record a file holds everything that is judged together, so opening a file that nobody else
//! uses is one store, and closing it one delete. A disconnected open is looked for by its FileId;
//! its entry in the second table is made when it is disconnected, and costs an ordinary open
//! nothing. Those of the second version of durable handles are looked for by their CreateGuid, too.

mod codec;
mod disconnected;
mod persistent;
mod room;
mod words;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{
    FileKey, FileRecord, FileRecords, FileWord, Look, OpenEntry, RecordsError, Standing,
};
use dtyp::{Guid, ServerId};
use tdb::{Change, Tdb};

use crate::memory::MemoryTable;
use crate::registry::RegistryError;
use crate::table::{Table, TableError, TableMended};

use disconnected::{Due, Limits};
use persistent::{PERSISTENT, PERSISTENT_HASH_SIZE};
use room::Room;
use words::Words;

pub use disconnected::Scavenged;
pub use persistent::Restored;

/// Hash chains of the table of files, of which a busy server has a hundred thousand. A prime.
///
/// Every chain is visited when a worker has died, so more of them is not always better.
const FILES_HASH_SIZE: u16 = 20_011;

/// Hash chains of the table of disconnected opens. A prime.
const DISCONNECTED_HASH_SIZE: u16 = 1_009;

/// All files that are open anywhere, as one process sees them.
#[derive(Debug)]
pub struct FileTable<T = Tdb> {
    files: T,
    disconnected: T,
    /// Where persistent opens outlive the server; nothing in a process that keeps none.
    persistent: Option<T>,
    /// What was there could not be opened, and was put aside.
    is_damaged: bool,
    words: Words,
    room: Room,
    /// The record that this process has read or kept last.
    last: RefCell<Option<Last>>,
    /// Disconnected opens whose time is up, at whose files nobody has looked yet.
    due: RefCell<Due>,
}

/// A record, and its bytes: as long as they are in the table, it need not be read from them again.
/// A CREATE, what follows it and its CLOSE look at the same one.
#[derive(Debug)]
struct Last {
    key: FileKey,
    bytes: Vec<u8>,
    record: FileRecord,
}

impl Last {
    /// Bytes of a record that is worth keeping: that of a file which few have open.
    const BYTES_MAX: usize = 4_096;

    fn is(&self, key: FileKey, bytes: &[u8]) -> bool {
        self.key == key && self.bytes == bytes
    }
}

/// Whether what a decision leaves is to be kept beyond the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Judged {
    /// It comes from there.
    AsKept,
    /// As far as it is persistent.
    Anew,
}

/// The table of a simulated server; each of its processes makes its own handle.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: MemoryTable,
    disconnected: MemoryTable,
    persistent: MemoryTable,
    words: Words,
    room: Room,
}

impl MemoryFiles {
    /// How often a record of the tables was stored or deleted: what opening and closing cost.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.files.updates() + self.disconnected.updates()
    }

    /// Returns the number of walks through the records of all files.
    #[must_use]
    pub fn walks(&self) -> u64 {
        self.files.walks()
    }

    /// The table as one process of the simulation sees it.
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

    /// The tables of the server that is started after this one was stopped; nothing is brought back
    /// yet.
    #[must_use]
    pub fn after_restart(&self) -> Self {
        Self { persistent: self.persistent.clone(), ..Self::default() }
    }
}

impl FileTable {
    /// Makes new tables in `lock_dir`, and opens what is kept in `state_dir`: for the supervisor, once
    /// it has the server's lock.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(lock_dir: &Path, state_dir: &Path) -> Result<Self, RegistryError> {
        let words = Words::create(&lock_dir.join(WORDS)).map_err(at(lock_dir, WORDS))?;
        let (persistent, is_damaged) = match Self::open_persistent(state_dir) {
            Ok(table) => (table, false),
            // A server that has lost what it kept is worth more than none.
            Err(RegistryError::File { source, .. }) if is_damage(&source) => {
                let path = state_dir.join(PERSISTENT);
                std::fs::rename(&path, path.with_extension("damaged"))
                    .map_err(at(state_dir, PERSISTENT))?;
                (Self::open_persistent(state_dir)?, true)
            }
            Err(error) => return Err(error),
        };
        let tables = Self::open(lock_dir, words, Tdb::create)?;
        // Last, when the tables have the room that they begin with.
        let room = Room::create(&lock_dir.join(ROOM)).map_err(at(lock_dir, ROOM))?;
        Ok(Self { persistent: Some(persistent), is_damaged, room, ..tables })
    }

    /// Opens the tables of the server that runs: for a worker, which names the state directory if it
    /// may have persistent opens.
    ///
    /// # Errors
    /// What the file system says.
    pub fn join(lock_dir: &Path, state_dir: Option<&Path>) -> Result<Self, RegistryError> {
        let words = Words::join(&lock_dir.join(WORDS)).map_err(at(lock_dir, WORDS))?;
        let room = Room::join(&lock_dir.join(ROOM)).map_err(at(lock_dir, ROOM))?;
        let persistent = state_dir.map(Self::open_persistent).transpose()?;
        Ok(Self { persistent, room, ..Self::open(lock_dir, words, |path, _| Tdb::join(path))? })
    }

    /// What the tables are open by.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.files, &self.disconnected].into_iter().chain(&self.persistent).map(Tdb::descriptor)
    }

    /// The tables of the supervisor that this process was forked off, for it as a worker; those that are
    /// kept in the state directory if it may have persistent opens.
    ///
    /// # Errors
    /// [`RegistryError::Inherited`].
    pub fn inherit(self, keeps_persistent: bool) -> Result<Self, RegistryError> {
        let inherit = |table: Tdb| table.inherit().map_err(RegistryError::Inherited);
        let persistent = self.persistent.filter(|_| keeps_persistent);
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
            .map_err(at(state_dir, PERSISTENT))
    }

    /// Opens the tables of the server that runs for reading: for a tool like `choro status`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn observe(lock_dir: &Path) -> Result<Self, RegistryError> {
        Self::open(lock_dir, Words::default(), |path, _| Tdb::observe(path))
    }

    fn open(
        lock_dir: &Path,
        words: Words,
        open: impl Fn(&Path, u16) -> io::Result<Tdb>,
    ) -> Result<Self, RegistryError> {
        let open = |name: &str, size| open(&lock_dir.join(name), size).map_err(at(lock_dir, name));
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

fn at(lock_dir: &Path, name: &str) -> impl Fn(io::Error) -> RegistryError {
    let path = lock_dir.join(name);
    move |source| RegistryError::File { path: path.clone(), source }
}

/// Whether libtdb makes nothing of a file that is there.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// The file of the shared words.
const WORDS: &str = "file_words";

/// The file of the figures of what the records take.
const ROOM: &str = "file_room";

/// Bytes of a record to which an open may be added. More than
/// [`FILE_OPENS_MAX`](arbitration::FILE_OPENS_MAX) opens by one path have; and half of what a
/// record may have at all, so that one that is there can always change.
const GROWN_BYTES_MAX: usize = tdb::RECORD_BYTES_MAX / 2;

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

    /// Takes everything of a worker out that is dead; what is durable stays, disconnected. What it
    /// was to delete is deleted by `heir`. Says who has to look at which file.
    ///
    /// # Errors
    /// What stopped it; calling again goes on from there.
    pub fn bury(
        &self,
        server: ServerId,
        heir: ServerId,
        now: Duration,
    ) -> Result<Vec<(FileKey, Vec<ServerId>)>, TableError> {
        let mut concerned = Vec::new();
        self.files.for_each(|key, value| {
            let of_server = match codec::decode(value) {
                Ok(record) => record.concerns(server),
                Err(_) => true,
            };
            if let Some(key) = codec::key_from(key).filter(|_| of_server) {
                concerned.push(key);
            }
        })?;
        let mut looks = Vec::new();
        for key in concerned {
            let mut look = Look::default();
            let mut away = Vec::new();
            let mut has_inheritance = false;
            let buried = self.change(key, &mut |record| {
                look = Look::default();
                record.bury(server, heir, now, &mut look);
                away = disconnected_of(record, server);
                has_inheritance = record.has_inheritance();
                true
            });
            match buried {
                Ok(()) => {}
                // Nobody can use it, and nothing in it can be believed.
                Err(RecordsError::Damaged) => drop(self.files.delete(&codec::key_of(key))?),
                Err(RecordsError::Full) => return Err(TableError::Full),
            }
            self.note_away(key, &away, heir, &mut look)?;
            if has_inheritance {
                self.note_inheritance(key)?;
            }
            looks.push((key, std::mem::take(&mut look).into_servers()));
        }
        Ok(looks)
    }

    /// Notes the opens that a dead worker leaves. Those for which there is no room end with it.
    fn note_away(
        &self,
        file: FileKey,
        away: &[OpenEntry],
        heir: ServerId,
        look: &mut Look,
    ) -> Result<(), TableError> {
        let is_noted = |entry: &&OpenEntry| {
            let Some(until) = entry.disconnected_until() else { return true };
            let at = Disconnected::of(entry, file);
            self.note_disconnected(&at, until, Limits::Apply).is_ok()
        };
        let refused = away.iter().filter(|it| !is_noted(it)).map(|it| it.facts.persistent);
        let refused: BTreeSet<u64> = refused.collect();
        if refused.is_empty() {
            return Ok(());
        }
        let end = &mut |record: &mut FileRecord| {
            let is_refused =
                |it: &OpenEntry| it.is_disconnected() && refused.contains(&it.facts.persistent);
            record.evict(&is_refused, heir, look);
            true
        };
        match self.change(file, end) {
            Err(RecordsError::Full) => Err(TableError::Full),
            // A record that cannot be read has no opens.
            Ok(()) | Err(RecordsError::Damaged) => Ok(()),
        }
    }

    fn judge(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
        judged: Judged,
    ) -> Result<Result<(), RecordsError>, TableError> {
        let kept = self.persistent.as_ref().filter(|_| judged == Judged::Anew);
        let mut must_sync = false;
        let last = self.last.take();
        let mut words = None;
        let mut lengths = None;
        let judged = self.files.with_record(&codec::key_of(key), |found| {
            let mut record = match (found, last) {
                (None, _) => FileRecord::default(),
                (Some(bytes), Some(last)) if last.is(key, bytes) => last.record,
                (Some(bytes), _) => match codec::decode(bytes) {
                    Ok(record) => record,
                    Err(_) => return (Change::Keep, Err(RecordsError::Damaged)),
                },
            };
            let (before, opens) = (record.word(), record.opens.len());
            let parts = kept.map(|_| persistent::parts(key, &record));
            if !decide(&mut record) {
                return (Change::Keep, Ok(()));
            }
            let after = record.word();
            let Some(change) = change_to(&record, opens) else {
                return (Change::Keep, Err(RecordsError::Full));
            };
            if let (Some(table), Some(parts)) = (kept, parts) {
                match persistent::update(table, &parts, &persistent::parts(key, &record)) {
                    Ok(stored) => must_sync = stored,
                    Err(_) => return (Change::Keep, Err(RecordsError::Full)),
                }
            }
            // Under the lock of the record, and more before less: whoever reads the word between
            // the two sees too much at worst, and looks at the record.
            self.words.change(key, before, after);
            words = Some((before, after));
            lengths = Some((found.map(<[u8]>::len), length_of(&change)));
            if let Change::Store(bytes) = &change {
                self.keep(Last { key, bytes: bytes.clone(), record });
            }
            (change, Ok(()))
        });
        match (judged.is_ok(), words, lengths) {
            (true, _, Some((before, after))) => self.room.change(before, after),
            // The record is what it was, and so is its word.
            (false, Some((before, after)), _) => self.words.change(key, after, before),
            _ => {}
        }
        let result = judged?;
        // Others need not wait for the disk; whoever asked must.
        if let (true, Some(table)) = (must_sync, kept) {
            table.sync()?;
        }
        Ok(result)
    }
}

impl<T> FileTable<T> {
    fn keep(&self, last: Last) {
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
        self.judge(key, decide, Judged::Anew).map_err(failure)?
    }

    fn view(&self, key: FileKey, see: &mut dyn FnMut(&FileRecord)) -> Result<(), RecordsError> {
        let last = self.last.take();
        let read = |bytes: &[u8]| match last {
            Some(last) if last.is(key, bytes) => Ok(last),
            _ => codec::decode(bytes).map(|record| Last { key, bytes: bytes.to_vec(), record }),
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

    fn has_room(&self, standing: Standing) -> bool {
        self.room.has_room(standing)
    }

    fn word(&self, key: FileKey) -> FileWord {
        self.words.get(key)
    }

    fn deletions(&self) -> u32 {
        self.words.deletions()
    }

    fn count_deletion(&self) {
        self.words.count_deletion();
    }

    fn put_disconnected(&self, at: &Disconnected, until: Duration) -> Result<(), RecordsError> {
        self.note_disconnected(at, until, Limits::Apply).map_err(failure)
    }

    fn remove_disconnected(&self, at: &Disconnected) {
        self.forget_disconnected(at);
    }

    fn find_disconnected(&self, persistent: u64) -> Option<FileKey> {
        self.noted(persistent).map(|(_, file)| file)
    }

    fn find_create_guid(&self, client: Guid, create_guid: Guid) -> Option<(u64, FileKey)> {
        self.noted_by_create_guid((client, create_guid))
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

/// What becomes of a record that had so many opens; nothing if it is too long.
fn change_to(record: &FileRecord, opens: usize) -> Option<Change> {
    if record.is_empty() {
        return Some(Change::Delete);
    }
    let bytes = codec::encode(record).ok()?;
    let is_grown = record.opens.len() > opens && bytes.len() > GROWN_BYTES_MAX;
    (!is_grown).then_some(Change::Store(bytes))
}

/// Returns the length of the record that a change leaves.
fn length_of(change: &Change) -> Option<usize> {
    match change {
        Change::Store(bytes) => Some(bytes.len()),
        Change::Delete | Change::Keep => None,
    }
}

fn failure(error: TableError) -> RecordsError {
    match error {
        TableError::Full | TableError::RecordTooLarge(_) => RecordsError::Full,
        _ => RecordsError::Damaged,
    }
}

/// The disconnected opens that a worker had.
fn disconnected_of(record: &FileRecord, server: ServerId) -> Vec<OpenEntry> {
    let of_server = record.opens.iter().filter(|it| it.id.server == server);
    of_server.filter(|it| it.is_disconnected()).cloned().collect()
}

#[cfg(test)]
mod tests;
