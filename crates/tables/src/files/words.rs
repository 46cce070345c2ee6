//! A word per file in memory that all workers share: whether a READ or WRITE has to look at the
//! file's record at all.
//!
//! Files share words by hash, so a word says at least what is true of each of its files. It is
//! changed under the lock of a record only. A worker that dies between changing the word and the
//! record leaves a word that says too much, which costs looks and nothing else.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbitration::{FileKey, FileWord};

use crate::shared_memory::{Shared, SharedMemory};

/// Words. A busy server has some thousand files with locks or leases open at once.
const WORDS_COUNT: usize = 1 << 16;

/// Words of files, and behind them one whose `locks` counts deletions.
const SLOTS: usize = WORDS_COUNT + 1;

#[derive(Debug, Default)]
#[repr(C)]
struct Word {
    locks: AtomicU32,
    readers: AtomicU32,
}

// SAFETY: atomics, for which any bytes are a value.
unsafe impl Shared for Word {}

/// The words of all files.
#[derive(Clone, Debug)]
pub(super) struct Words(Memory);

#[derive(Clone, Debug)]
enum Memory {
    /// Shared by the threads of a simulation, or by nobody.
    Own(Arc<[Word]>),
    /// Shared by the processes of a server.
    Mapped(Arc<SharedMemory<[Word; SLOTS]>>),
}

impl Default for Words {
    fn default() -> Self {
        Self(Memory::Own((0..SLOTS).map(|_| Word::default()).collect()))
    }
}

impl Words {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Memory::Mapped(Arc::new(SharedMemory::create(path)?))))
    }

    pub(super) fn join(path: &Path) -> io::Result<Self> {
        Ok(Self(Memory::Mapped(Arc::new(SharedMemory::join(path)?))))
    }

    fn word(&self, key: FileKey) -> &Word {
        self.at(slot(key))
    }

    /// See [`arbitration::FileRecords::deletions`].
    pub(super) fn deletions(&self) -> u32 {
        self.at(WORDS_COUNT).locks.load(Ordering::Acquire)
    }

    pub(super) fn count_deletion(&self) {
        self.at(WORDS_COUNT).locks.fetch_add(1, Ordering::AcqRel);
    }

    fn at(&self, at: usize) -> &Word {
        match &self.0 {
            Memory::Own(words) => &words[at],
            Memory::Mapped(words) => &words[at],
        }
    }

    /// What the word says of a file.
    pub(super) fn get(&self, key: FileKey) -> FileWord {
        let word = self.word(key);
        FileWord {
            locks: word.locks.load(Ordering::Acquire),
            readers: word.readers.load(Ordering::Acquire),
        }
    }

    /// The record of a file changes.
    pub(super) fn change(&self, key: FileKey, before: FileWord, after: FileWord) {
        let word = self.word(key);
        adjust(&word.locks, before.locks, after.locks);
        adjust(&word.readers, before.readers, after.readers);
    }
}

fn adjust(counter: &AtomicU32, before: u32, after: u32) {
    if after >= before {
        counter.fetch_add(after - before, Ordering::AcqRel);
    } else {
        counter.fetch_sub(before - after, Ordering::AcqRel);
    }
}

/// The word of a file. Inodes are often given out in a row, so they are mixed first.
fn slot(key: FileKey) -> usize {
    let mixed = (key.inode ^ key.device.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 48).expect("16 bits")
}
