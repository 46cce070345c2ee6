//! Copies of the records of one hash chain.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use super::{bytes, ffi};

/// Keys and values, one after the other in one buffer.
#[derive(Debug, Default)]
pub(super) struct Collected {
    bytes: Vec<u8>,
    records: Vec<(Range<usize>, Range<usize>)>,
}

impl Collected {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let record = |(key, value): &(Range<usize>, Range<usize>)| {
            (&self.bytes[key.clone()], &self.bytes[value.clone()])
        };
        self.records.iter().map(record)
    }

    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

/// Adds a record to the [`Collected`] that `private_data` points to. Does not panic; running out of
/// memory ends the process, as everywhere.
pub(super) unsafe extern "C" fn collect(
    _context: *mut ffi::TdbContext,
    key: ffi::TdbData,
    value: ffi::TdbData,
    private_data: *mut c_void,
) -> c_int {
    // SAFETY: the caller of the traverse passes a `Collected` and leaves it alone meanwhile.
    let collected = unsafe { &mut *private_data.cast::<Collected>() };
    // SAFETY: libtdb passes a copy of key and value that stays valid until this function returns.
    let (key, value) = unsafe { (bytes(key), bytes(value)) };
    let record = (collected.push(key), collected.push(value));
    collected.records.push(record);
    0
}
