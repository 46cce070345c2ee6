//! What is counted by share and user: a few named places, and one for all the others.
//!
//! A request is counted once, under its share, its user and what it is; what one of these had is
//! added up by whoever reads.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::clock::Clock;
use crate::names::{Kind as _, Operation};
use crate::page::populate;
use crate::series::{Histogram, Series as _, SeriesValue, add};

/// There is a bit for each operation.
const _: () = assert!(Operation::NAMES.len() <= 64);

/// Words of a name: longer ones are cut.
const NAME_WORDS: usize = 16;

/// Places for shares with their users.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Parties<const N: usize> {
    /// How many of the places are somebody's. No other is touched, not even to be read: there may
    /// be no memory for it, and a process that touches it is killed then.
    taken: AtomicUsize,
    others: Place,
    pub(crate) places: [Place; N],
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Place {
    share: Name,
    user: Name,
    /// A bit for each operation that was counted.
    operations: AtomicU64,
    bytes: [AtomicU64; Operation::NAMES.len()],
    times: [Histogram; Operation::NAMES.len()],
}

type Name = [AtomicU64; NAME_WORDS];

/// Where something is counted; by default with all others.
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

/// What one share, or one user, has had.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartyValue {
    /// Requests that have ended and how long they took, by operation.
    pub operations: Vec<SeriesValue>,
    /// Bytes of files that were read.
    pub read_bytes: u64,
    /// Bytes of files that were written.
    pub written_bytes: u64,
}

/// What was counted in one place.
#[derive(Debug)]
pub(crate) struct PlaceValue {
    pub(crate) share: String,
    pub(crate) user: String,
    pub(crate) value: PartyValue,
}

impl PartyId {
    /// The names of a place, share and user; the others have none.
    pub(crate) fn names(self) -> (String, String) {
        self.0.map(|place| (text(&place.share), text(&place.user))).unwrap_or_default()
    }
}

impl<const N: usize> Parties<N> {
    /// The place of a user in a share, or outside of any: the one that there is, or a new one if
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

    /// A new place, if there is one, and memory for it.
    fn take(&self, names: &[[u64; NAME_WORDS]; 2]) -> Option<&Place> {
        let count = self.taken().len();
        let place = self.places.get(count).filter(|place| populate(*place))?;
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
        if !place.times[index].add_among(ticks, clock) {
            place.add_beyond(index, ticks, clock);
        }
    }

    /// Each place where something was counted.
    pub(crate) fn read(&self, clock: &Clock) -> impl Iterator<Item = PlaceValue> {
        let places = self.taken().iter().chain([&self.others]);
        places.map(move |it| it.read(clock)).filter(|it| !it.value.is_nothing())
    }
}

impl Place {
    #[cold]
    #[inline(never)]
    fn add_beyond(&self, index: usize, ticks: u64, clock: &Clock) {
        if self.times[index].add_any(ticks, clock) {
            let counted = self.operations.load(Ordering::Relaxed);
            self.operations.store(counted | 1 << index, Ordering::Relaxed);
        }
    }

    fn has_names(&self, names: &[[u64; NAME_WORDS]; 2]) -> bool {
        let is = |name: &Name, words: &[u64; NAME_WORDS]| {
            name.iter().zip(words).all(|(one, other)| one.load(Ordering::Relaxed) == *other)
        };
        is(&self.share, &names[0]) && is(&self.user, &names[1])
    }

    fn read(&self, clock: &Clock) -> PlaceValue {
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let counted = get(&self.operations);
        let read = |(index, times): (usize, &Histogram)| match counted >> index & 1 {
            0 => SeriesValue::default(),
            _ => times.read(clock),
        };
        let (mut read_bytes, mut written_bytes) = (0_u64, 0_u64);
        for (operation, bytes) in Operation::ALL.iter().zip(&self.bytes) {
            let sum = match operation {
                Operation::Read => &mut read_bytes,
                _ => &mut written_bytes,
            };
            *sum = sum.wrapping_add(get(bytes));
        }
        let operations = self.times.iter().enumerate().map(read).collect();
        let value = PartyValue { operations, read_bytes, written_bytes };
        PlaceValue { share: text(&self.share), user: text(&self.user), value }
    }
}

impl PartyValue {
    /// All requests together.
    #[must_use]
    pub fn times(&self) -> SeriesValue {
        crate::figures::all(&self.operations)
    }

    /// How many requests have ended.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.operations.iter().fold(0, |sum: u64, it| sum.wrapping_add(it.count))
    }

    /// Whether nothing was counted.
    pub(crate) fn is_nothing(&self) -> bool {
        self.operations.iter().all(|it| it.count == 0)
    }

    /// What has come since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            operations: crate::schema::since(&self.operations, &earlier.operations),
            read_bytes: self.read_bytes.wrapping_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.wrapping_sub(earlier.written_bytes),
        }
    }

    /// The same of another worker added.
    pub fn merge(&mut self, other: &Self) {
        crate::schema::merge(&mut self.operations, &other.operations);
        self.read_bytes = self.read_bytes.wrapping_add(other.read_bytes);
        self.written_bytes = self.written_bytes.wrapping_add(other.written_bytes);
    }
}

/// A name as words, cut where a character ends.
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

/// A name as text.
fn text(name: &Name) -> String {
    let bytes: Vec<u8> =
        name.iter().flat_map(|it| it.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
