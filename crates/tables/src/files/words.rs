//! A word per file in memory that all workers share: whether a READ or WRITE has to read the file's
//! record at all.
//!
//! Files share words by hash, so a word is at least as strict as each of its files needs. It
//! changes only under the lock of a record. A worker that dies between the changes of word and
//! record leaves a word that is too strict, which costs only unnecessary reads.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbitration::{FileKey, FileWord};

use crate::shared_memory::{Shared, SharedMemory};

/// Number of words. A busy server has some thousand files with locks or leases open at once.
const WORDS_COUNT: usize = 1 << 16;

/// Words of files, and one more that counts deletions in `locks`.
const SLOTS: usize = WORDS_COUNT + 1;

#[derive(Debug)]
#[repr(C)]
struct Word {
    locks: AtomicU32,
    readers: AtomicU32,
}

// SAFETY: atomics, which have no invalid bytes.
unsafe impl Shared for Word {}

/// The words of all files, shared by the processes of a server, or the threads of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Words(Arc<SharedMemory<[Word; SLOTS]>>);

impl Default for Words {
    fn default() -> Self {
        Self(Arc::new(SharedMemory::private().expect("there is half a megabyte")))
    }
}

impl Words {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(SharedMemory::create(path)?)))
    }

    pub(super) fn join(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(SharedMemory::join(path)?)))
    }

    fn word(&self, key: FileKey) -> &Word {
        &self.0[slot(key)]
    }

    /// Number of deletions so far: see [`arbitration::FileRecords::deletion_count`].
    pub(super) fn deletion_count(&self) -> u32 {
        self.0[WORDS_COUNT].locks.load(Ordering::Acquire)
    }

    pub(super) fn count_deletion(&self) {
        self.0[WORDS_COUNT].locks.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the word of a file.
    pub(super) fn get(&self, key: FileKey) -> FileWord {
        let word = self.word(key);
        FileWord {
            locks: word.locks.load(Ordering::Acquire),
            readers: word.readers.load(Ordering::Acquire),
        }
    }

    /// Applies a change of a file's record to its word.
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

/// Index of a file's word. Inodes are often consecutive, so they are mixed first.
fn slot(key: FileKey) -> usize {
    let mixed = (key.inode ^ key.device.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 48).expect("16 bits")
}
