//! `files.tdb`: every file that is open anywhere, with its opens, leases and locks; and
//! `disconnected.tdb`: where the opens are that nobody has a connection for.
//!
//! One record a file holds everything that is judged together, so opening a file that nobody else
//! uses is one store, and closing it one delete. A disconnected open is looked for by its FileId;
//! its entry in the second table is made when it is disconnected, and costs an ordinary open
//! nothing.

mod codec;
mod words;

use std::io;
use std::path::Path;

use arbitration::records::Disconnected;
use arbitration::{FileKey, FileRecord, FileRecords, FileWord, RecordsError};
use dtyp::ServerId;

use crate::memory::MemoryTable;
use crate::registry::RegistryError;
use crate::table::{Change, Table, TableError};
use crate::tdb::Tdb;

use words::Words;

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
    words: Words,
}

/// The table of a simulated server; each of its processes makes its own handle.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: MemoryTable,
    disconnected: MemoryTable,
    words: Words,
}

impl MemoryFiles {
    /// How often a record of the tables was stored or deleted: what opening and closing cost.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.files.updates() + self.disconnected.updates()
    }

    /// The table as one process of the simulation sees it.
    #[must_use]
    pub fn handle(&self) -> FileTable<MemoryTable> {
        FileTable {
            files: self.files.clone(),
            disconnected: self.disconnected.clone(),
            words: self.words.clone(),
        }
    }
}

impl FileTable {
    /// Makes new tables in `lock_dir`: for the supervisor, once it has the server's lock.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(lock_dir: &Path) -> Result<Self, RegistryError> {
        let words = Words::create(&lock_dir.join(WORDS)).map_err(at(lock_dir, WORDS))?;
        Self::open(lock_dir, words, Tdb::create)
    }

    /// Opens the tables of the server that runs: for a worker.
    ///
    /// # Errors
    /// What the file system says.
    pub fn join(lock_dir: &Path) -> Result<Self, RegistryError> {
        let words = Words::join(&lock_dir.join(WORDS)).map_err(at(lock_dir, WORDS))?;
        Self::open(lock_dir, words, |path, _| Tdb::join(path))
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
            words,
        })
    }
}

fn at(lock_dir: &Path, name: &str) -> impl Fn(io::Error) -> RegistryError {
    let path = lock_dir.join(name);
    move |source| RegistryError::File { path: path.clone(), source }
}

/// The file of the shared words.
const WORDS: &str = "file_words";

impl<T: Table + std::fmt::Debug> FileTable<T> {
    /// Takes everything of a worker out that is dead; what is durable stays, disconnected. Says
    /// who has to look at which file.
    ///
    /// # Errors
    /// What stopped it; calling again goes on from there.
    pub fn bury(
        &self,
        server: ServerId,
        now: std::time::Duration,
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
            let mut look = arbitration::Look::default();
            let mut away = Vec::new();
            let buried = self.change(key, &mut |record| {
                look = arbitration::Look::default();
                record.bury(server, now, &mut look);
                away = disconnected_of(record, server);
                true
            });
            match buried {
                Ok(()) => {}
                // Nobody can use it, and nothing in it can be believed.
                Err(RecordsError::Damaged) => drop(self.files.delete(&codec::key_of(key))?),
                Err(RecordsError::Full) => return Err(TableError::Full),
            }
            for persistent in away {
                // One that is not noted is found all the same, by a longer search.
                let _ = self.put_disconnected(Disconnected { persistent, file: key });
            }
            looks.push((key, std::mem::take(&mut look).into_servers()));
        }
        Ok(looks)
    }

    /// Closes the disconnected opens whose time is up. Says who has to look at which file.
    ///
    /// # Errors
    /// What stopped it.
    pub fn scavenge(
        &self,
        now: std::time::Duration,
    ) -> Result<Vec<(FileKey, Vec<ServerId>)>, TableError> {
        let mut noted = Vec::new();
        self.disconnected.for_each(|key, value| {
            if let (Ok(persistent), Some(file)) = (key.try_into(), codec::key_from(value)) {
                noted.push((u64::from_le_bytes(persistent), file));
            }
        })?;
        let mut looks = Vec::new();
        for (persistent, file) in noted {
            let mut look = arbitration::Look::default();
            let mut is_there = false;
            let changed = self.change(file, &mut |record| {
                look = arbitration::Look::default();
                let gone = record.scavenge(now, &mut look);
                is_there = record
                    .opens
                    .iter()
                    .any(|it| it.facts.persistent == persistent && it.is_disconnected());
                !gone.is_empty()
            });
            if changed.is_err() || !is_there {
                self.remove_disconnected(persistent);
            }
            looks.push((file, look.into_servers()));
        }
        Ok(looks)
    }

    fn judge(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
    ) -> Result<Result<(), RecordsError>, TableError> {
        self.files.with_record(&codec::key_of(key), |found| {
            let mut record = match found.map(codec::decode).transpose() {
                Ok(record) => record.unwrap_or_default(),
                Err(_) => return (Change::Keep, Err(RecordsError::Damaged)),
            };
            let before = record.word();
            if !decide(&mut record) {
                return (Change::Keep, Ok(()));
            }
            let after = record.word();
            let change = match record.is_empty() {
                true => Change::Delete,
                false => match codec::encode(&record) {
                    Ok(bytes) => Change::Store(bytes),
                    Err(_) => return (Change::Keep, Err(RecordsError::Full)),
                },
            };
            // Under the lock of the record, and more before less: whoever reads the word between
            // the two sees too much at worst, and looks at the record.
            self.words.change(key, before, after);
            (change, Ok(()))
        })
    }
}

impl<T: Table + std::fmt::Debug> FileRecords for FileTable<T> {
    fn change(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
    ) -> Result<(), RecordsError> {
        self.judge(key, decide).map_err(failure)?
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

    fn put_disconnected(&self, at: Disconnected) -> Result<(), RecordsError> {
        let value = codec::key_of(at.file);
        self.disconnected
            .with_record(&at.persistent.to_le_bytes(), |_| (Change::Store(value.to_vec()), ()))
            .map_err(failure)
    }

    fn remove_disconnected(&self, persistent: u64) {
        // One that stays is found to be wrong when it is followed.
        let _ = self.disconnected.delete(&persistent.to_le_bytes());
    }

    fn find_disconnected(&self, persistent: u64) -> Option<FileKey> {
        let found = self.disconnected.get(&persistent.to_le_bytes(), codec::key_from);
        found.ok().flatten().flatten()
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

fn failure(error: TableError) -> RecordsError {
    match error {
        TableError::Full | TableError::RecordTooLarge(_) => RecordsError::Full,
        _ => RecordsError::Damaged,
    }
}

/// The disconnected opens that a worker had.
fn disconnected_of(record: &FileRecord, server: ServerId) -> Vec<u64> {
    let of_server = record.opens.iter().filter(|it| it.id.server == server);
    of_server.filter(|it| it.is_disconnected()).map(|it| it.facts.persistent).collect()
}

#[cfg(test)]
mod tests;
