//! Counters by share and user: a limited number of places, and one for all others.
//!
//! A request is counted once, under its share, its user and its operation; readers add up the
//! totals of each.

use std::fmt;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::clock::Clock;
use crate::histograms::Histograms;
use crate::memory::{PAGE_BYTES, populate};
use crate::names::{Kind as _, Operation};
use crate::series::{Histogram, SeriesValue, add};

/// Words of a name, eight bytes each: longer names are cut.
const NAME_WORDS: usize = 16;

/// Places for pairs of share and user.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Parties<const N: usize> {
    /// Number of places in use. Further ones are not even read: without memory for them, the access
    /// would kill the process.
    taken: AtomicUsize,
    others: Place,
    pub(crate) places: [Place; N],
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Place {
    share: Name,
    user: Name,
    bytes: [AtomicU64; Operation::NAMES.len()],
    times: Histograms<{ Operation::NAMES.len() }>,
    /// Has all places begin alike in their pages.
    rest: [AtomicU64; REST_WORDS],
}

const REST_WORDS: usize = {
    let names_and_bytes = 2 * size_of::<Name>() + size_of::<[AtomicU64; Operation::NAMES.len()]>();
    let used = names_and_bytes + size_of::<Histograms<{ Operation::NAMES.len() }>>();
    (PAGE_BYTES - used % PAGE_BYTES) % PAGE_BYTES / size_of::<AtomicU64>()
};
const _: () = assert!(size_of::<Place>().is_multiple_of(PAGE_BYTES));

impl Place {
    /// Bytes at the start to allocate before any use.
    const BYTES_ALLOCATED: usize =
        offset_of!(Self, times) + Histograms::<{ Operation::NAMES.len() }>::BYTES_ALLOCATED;
}

/// Bytes from the start of [`Parties`] that need memory from the start.
pub(crate) const BYTES_ALLOCATED: usize = offset_of!(Parties<1>, others) + Place::BYTES_ALLOCATED;

/// Offset of [`Parties`] in a page of memory. Then the histograms of the first three commands, up
/// to LOGOFF, end with the page in which their place begins: requests outside of any share touch no
/// other page.
pub(crate) const BEGIN: usize = PAGE_BYTES - BYTES_ALLOCATED - 3 * size_of::<Histogram>();

type Name = [AtomicU64; NAME_WORDS];

/// A share and user with counters of their own; by default those of all others.
#[derive(Clone, Copy, Default)]
pub struct PartyId(Option<&'static Place>);

impl PartialEq for PartyId {
    fn eq(&self, other: &Self) -> bool {
        self.0.map(std::ptr::from_ref) == other.0.map(std::ptr::from_ref)
    }
}

impl Eq for PartyId {}

impl fmt::Debug for PartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartyId").field(&self.0.map(std::ptr::from_ref)).finish()
    }
}

/// Requests and bytes of one share or one user.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartyValue {
    /// Ended requests and their latency, by operation.
    pub operations: Vec<SeriesValue>,
    /// Bytes that were read from files.
    pub read_bytes: u64,
    /// Bytes that were written to files.
    pub written_bytes: u64,
}

/// Counters of one place, with its names.
#[derive(Debug)]
pub(crate) struct PlaceValue {
    pub(crate) share: String,
    pub(crate) user: String,
    pub(crate) value: PartyValue,
}

impl PartyId {
    /// Names of the place, share and user; empty for all others.
    pub(crate) fn names(self) -> (String, String) {
        self.0.map(|place| (text(&place.share), text(&place.user))).unwrap_or_default()
    }
}

impl<const N: usize> Parties<N> {
    /// Returns the place of a user in a share, or outside of any: an existing one, or a new one if
    /// there is room.
    pub(crate) fn find(&'static self, share: &str, user: &str) -> PartyId {
        let names = [words(share), words(user)];
        let is_theirs = |place: &&Place| place.has_names(&names);
        let found = self.taken().iter().find(is_theirs).or_else(|| self.take(&names));
        PartyId(found)
    }

    fn taken(&self) -> &[Place] {
        &self.places[..self.taken.load(Ordering::Acquire).min(N)]
    }

    /// Takes a new place, if one is left, and memory for it.
    fn take(&self, names: &[[u64; NAME_WORDS]; 2]) -> Option<&Place> {
        let count = self.taken().len();
        let place =
            self.places.get(count).filter(|place| populate(*place, Place::BYTES_ALLOCATED))?;
        for (name, words) in [&place.share, &place.user].into_iter().zip(names) {
            name.iter().zip(words).for_each(|(word, it)| word.store(*it, Ordering::Relaxed));
        }
        self.taken.store(count + 1, Ordering::Release);
        Some(place)
    }

    /// Counts a request that has ended.
    #[inline(always)]
    pub(crate) fn add(
        &self,
        party: PartyId,
        operation: Operation,
        (ticks, bytes): (u64, u64),
        clock: &Clock,
    ) {
        let place = party.0.unwrap_or(&self.others);
        let index = operation as usize;
        add(&place.bytes[index], bytes);
        place.times.add(index, ticks, clock);
    }

    /// Returns each place in which something was counted.
    pub(crate) fn read(&self, clock: &Clock) -> impl Iterator<Item = PlaceValue> {
        let places = self.taken().iter().chain([&self.others]);
        places.map(move |it| it.read(clock)).filter(|it| !it.value.is_nothing())
    }
}

impl Place {
    fn has_names(&self, names: &[[u64; NAME_WORDS]; 2]) -> bool {
        let is = |name: &Name, words: &[u64; NAME_WORDS]| {
            name.iter().zip(words).all(|(one, other)| one.load(Ordering::Relaxed) == *other)
        };
        is(&self.share, &names[0]) && is(&self.user, &names[1])
    }

    fn read(&self, clock: &Clock) -> PlaceValue {
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (mut read_bytes, mut written_bytes) = (0_u64, 0_u64);
        for (operation, bytes) in Operation::ALL.iter().zip(&self.bytes) {
            let sum = match operation {
                Operation::Read => &mut read_bytes,
                _ => &mut written_bytes,
            };
            *sum = sum.wrapping_add(get(bytes));
        }
        let operations = self.times.read(clock);
        let value = PartyValue { operations, read_bytes, written_bytes };
        PlaceValue { share: text(&self.share), user: text(&self.user), value }
    }
}

impl PartyValue {
    /// All requests together, of every operation.
    #[must_use]
    pub fn times(&self) -> SeriesValue {
        crate::figures::all(&self.operations)
    }

    /// Number of requests that have ended.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.operations.iter().fold(0, |sum: u64, it| sum.wrapping_add(it.count))
    }

    /// True if nothing was counted.
    pub(crate) fn is_nothing(&self) -> bool {
        self.operations.iter().all(|it| it.count == 0)
    }

    /// Returns the difference to an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            operations: crate::schema::since(&self.operations, &earlier.operations),
            read_bytes: self.read_bytes.wrapping_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.wrapping_sub(earlier.written_bytes),
        }
    }

    /// Adds the counters of another worker.
    pub fn merge(&mut self, other: &Self) {
        crate::schema::merge(&mut self.operations, &other.operations);
        self.read_bytes = self.read_bytes.wrapping_add(other.read_bytes);
        self.written_bytes = self.written_bytes.wrapping_add(other.written_bytes);
    }
}

/// Converts a name to words, cut between characters.
fn words(name: &str) -> [u64; NAME_WORDS] {
    let mut bytes = [0; NAME_WORDS * 8];
    let mut length = name.len().min(bytes.len());
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
}

/// Converts words to the name.
fn text(name: &Name) -> String {
    let bytes: Vec<u8> =
        name.iter().flat_map(|it| it.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
