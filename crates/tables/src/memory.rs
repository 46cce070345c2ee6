//! A table in memory, for simulations.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tdb::{Change, RECORD_BYTES_MAX};

use crate::table::{Table, TableError};

/// A table in memory. Clones share it, as the processes of a server share a file.
#[derive(Clone, Debug, Default)]
pub struct MemoryTable {
    records: Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>,
    updates: Rc<Cell<u64>>,
    walks: Rc<Cell<u64>>,
    visits: Rc<Cell<u64>>,
}

impl MemoryTable {
    fn store(&self, key: &[u8], value: Vec<u8>) -> Result<(), TableError> {
        if value.len() > RECORD_BYTES_MAX {
            return Err(TableError::RecordTooLarge(value.len()));
        }
        self.records.borrow_mut().insert(key.to_vec(), value);
        self.updates.set(self.updates.get() + 1);
        Ok(())
    }

    /// Number of records read for a decision.
    #[cfg(test)]
    pub(crate) fn visits(&self) -> u64 {
        self.visits.get()
    }

    /// Number of records in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.records.borrow().len()
    }

    /// Number of records stored or deleted.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.get()
    }

    /// Number of iterations over all records.
    pub(crate) fn walks(&self) -> u64 {
        self.walks.get()
    }
}

impl Table for MemoryTable {
    fn with_record<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TableError> {
        self.visits.set(self.visits.get() + 1);
        // Borrowed while `decide` runs: a nested access of the table panics here, and would
        // deadlock in a file.
        let records = self.records.borrow_mut();
        let (change, result) = decide(records.get(key).map(Vec::as_slice));
        drop(records);
        match change {
            Change::Delete => _ = self.delete(key)?,
            Change::Erase(mut value) => self.store(key, std::mem::take(&mut *value))?,
            Change::Keep => {}
            Change::Store(value) => self.store(key, value)?,
        }
        Ok(result)
    }

    fn get<R>(&self, key: &[u8], parse: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, TableError> {
        Ok(self.records.borrow_mut().get(key).map(|value| parse(value)))
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        if self.records.borrow().contains_key(key) {
            return Err(TableError::Exists);
        }
        self.store(key, value.to_vec())
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TableError> {
        let was_there = self.records.borrow_mut().remove(key).is_some();
        self.updates.set(self.updates.get() + u64::from(was_there));
        Ok(was_there)
    }

    fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<u64, TableError> {
        self.walks.set(self.walks.get() + 1);
        let records = self.records.borrow().clone();
        records.iter().for_each(|(key, value)| visit(key, value));
        Ok(0)
    }

    /// All of it is one part.
    fn for_each_of_part(
        &self,
        part: u32,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<bool, TableError> {
        if part == 0 {
            self.for_each(visit)?;
        }
        Ok(false)
    }
}
