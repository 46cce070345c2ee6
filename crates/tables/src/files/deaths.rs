//! Dead workers, and the removal of what they have left in the records of files.
//!
//! A search of all files is for many workers that have died before it, and has parts: between them
//! the supervisor does its other work.

use std::collections::BTreeSet;
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{FileKey, FileRecord, FileRecords, OpenEntry, RecordsError, WorkersToNotify};
use dtyp::ServerId;

use super::disconnected::Limits;
use super::{FileTable, codec};
use crate::table::{Table, TableError};

/// Highest number of dead workers in one search, which compares each record with each worker.
const DEAD_PER_SEARCH_MAX: usize = 64;

/// Highest number of files that are changed in one part. The record of a file can take milliseconds
/// to read.
const FILES_PER_PART_MAX: usize = 16;

/// Dead workers that may be in records of files. The next one to be removed is the first that died.
#[derive(Debug, Default)]
pub struct DeadWorkers {
    /// Those that died after the search began.
    waiting: Vec<ServerId>,
    search: Option<Search>,
}

/// A search of all files that has begun.
#[derive(Debug)]
struct Search {
    dead: Vec<ServerId>,
    /// Next part of the table; `None` if all were searched.
    part: Option<u32>,
    /// Files that were found and not changed yet.
    found: Vec<FileKey>,
}

impl DeadWorkers {
    /// Adds a worker that has died. There are at most as many as there were workers.
    pub fn add(&mut self, worker: ServerId) {
        self.waiting.push(worker);
    }

    /// True if all were removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.search.is_none()
    }

    /// Takes the search that has begun, or begins one.
    fn take_search(&mut self) -> Option<Search> {
        self.search.take().or_else(|| {
            let dead = self.waiting.drain(..self.waiting.len().min(DEAD_PER_SEARCH_MAX));
            let dead: Vec<ServerId> = dead.collect();
            (!dead.is_empty()).then_some(Search { dead, part: Some(0), found: Vec::new() })
        })
    }
}

impl<T: Table + std::fmt::Debug> FileTable<T> {
    /// Removes entries of dead workers from a part of the files; durable opens stay, disconnected.
    /// `deletion_owner` carries out their pending deletions. Returns the processes that have to
    /// check each file, and the last error: a file with an error is left as it is, and an error of
    /// the table ends the search. Must be called until `dead` is empty.
    pub fn remove_dead(
        &self,
        dead: &mut DeadWorkers,
        deletion_owner: ServerId,
        now: Duration,
    ) -> (Vec<(FileKey, Vec<ServerId>)>, Option<TableError>) {
        let (mut to_notify, mut error) = (Vec::new(), None);
        let Some(mut search) = dead.take_search() else { return (to_notify, error) };
        if search.found.is_empty()
            && let Some(part) = search.part
        {
            match self.find_files_of(&search.dead, part, &mut search.found) {
                Ok(has_more) => search.part = has_more.then_some(part + 1),
                Err(fault) => (search.part, error) = (None, Some(fault)),
            }
        }
        let first = search.found.len().saturating_sub(FILES_PER_PART_MAX);
        for file in search.found.drain(first..) {
            match self.remove_from(file, &search.dead, deletion_owner, now) {
                Ok(workers) => to_notify.push((file, workers)),
                Err(fault) => error = Some(fault),
            }
        }
        if search.part.is_some() || !search.found.is_empty() {
            dead.search = Some(search);
        }
        (to_notify, error)
    }

    /// Adds the files in a part of the table that are of these workers, and those that cannot be
    /// read. Returns true if there is a further part.
    fn find_files_of(
        &self,
        dead: &[ServerId],
        part: u32,
        found: &mut Vec<FileKey>,
    ) -> Result<bool, TableError> {
        self.files.for_each_of_part(part, |key, value| {
            let is_theirs = match codec::decode(value) {
                Ok(record) => dead.iter().any(|worker| record.concerns(*worker)),
                Err(_) => true,
            };
            found.extend(codec::key_from(key).filter(|_| is_theirs));
        })
    }

    /// Removes dead workers from one file. Returns the processes that have to check it.
    fn remove_from(
        &self,
        file: FileKey,
        dead: &[ServerId],
        deletion_owner: ServerId,
        now: Duration,
    ) -> Result<Vec<ServerId>, TableError> {
        let mut notify = WorkersToNotify::default();
        let mut left_behind = Vec::new();
        let mut has_delegated = false;
        let removed = self.change(file, &mut |record| {
            notify = WorkersToNotify::default();
            for worker in dead {
                record.remove_worker(*worker, deletion_owner, now, &mut notify);
            }
            left_behind = disconnected_of(record, dead);
            has_delegated = record.has_delegated();
            true
        });
        match removed {
            Ok(()) => {}
            // An unreadable record is useless to all processes.
            Err(RecordsError::Damaged) => drop(self.files.delete(&codec::key_of(file))?),
            Err(RecordsError::Full) => return Err(TableError::Full),
        }
        self.note_opens_of_dead(file, &left_behind, deletion_owner, &mut notify)?;
        if has_delegated {
            self.note_delegated_deletions(file)?;
        }
        Ok(notify.into_workers())
    }

    /// Records the opens of dead workers as disconnected. Opens beyond the limits end.
    fn note_opens_of_dead(
        &self,
        file: FileKey,
        left_behind: &[OpenEntry],
        deletion_owner: ServerId,
        notify: &mut WorkersToNotify,
    ) -> Result<(), TableError> {
        let is_noted = |entry: &&OpenEntry| {
            let Some(until) = entry.expires_at() else { return true };
            let at = Disconnected::of(entry, file);
            self.note_disconnected(&at, until, Limits::Apply).is_ok()
        };
        let refused = left_behind.iter().filter(|it| !is_noted(it)).map(|it| it.facts.persistent);
        let refused: BTreeSet<u64> = refused.collect();
        if refused.is_empty() {
            return Ok(());
        }
        let end = &mut |record: &mut FileRecord| {
            let is_refused =
                |it: &OpenEntry| it.is_disconnected() && refused.contains(&it.facts.persistent);
            record.evict(&is_refused, deletion_owner, notify);
            true
        };
        match self.change(file, end) {
            Err(RecordsError::Full) => Err(TableError::Full),
            // An unreadable record has no opens.
            Ok(()) | Err(RecordsError::Damaged) => Ok(()),
        }
    }
}

/// The disconnected opens of these workers.
fn disconnected_of(record: &FileRecord, workers: &[ServerId]) -> Vec<OpenEntry> {
    let of_workers = record.opens.iter().filter(|it| workers.contains(&it.id.worker));
    of_workers.filter(|it| it.is_disconnected()).cloned().collect()
}
