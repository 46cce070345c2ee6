//! What is counted by share and by user: a few named places, and one for all the others.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::series::add;

/// Words of a name: longer ones are cut.
const NAME_WORDS: usize = 16;

/// Places for shares, or for users.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Parties<const N: usize> {
    places: [Place; N],
    others: Place,
}

#[derive(Debug)]
#[repr(C)]
struct Place {
    /// Its first word is written last.
    name: [AtomicU64; NAME_WORDS],
    requests: AtomicU64,
    ns: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

/// Where something is counted; by default with all others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PartyId(u8);

impl Default for PartyId {
    fn default() -> Self {
        Self(u8::MAX)
    }
}

/// What one share, or one user, has had.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartyValue {
    /// Requests that have ended.
    pub requests: u64,
    /// How long they took, added up.
    pub ns: u64,
    /// Bytes of files that were read.
    pub read_bytes: u64,
    /// Bytes of files that were written.
    pub written_bytes: u64,
}

/// What one request adds.
pub(crate) struct Use {
    pub(crate) ns: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl<const N: usize> Parties<N> {
    /// The place of a name: the one that it has, or a new one if there is room.
    pub(crate) fn find(&self, name: &str) -> PartyId {
        let words = words(name);
        let place = self.places.iter().position(|place| {
            let first = place.name[0].load(Ordering::Relaxed);
            first == 0 || place.name.iter().zip(words).all(|(a, b)| a.load(Ordering::Relaxed) == b)
        });
        let Some(index) = place.filter(|_| words[0] != 0) else { return PartyId::default() };
        let name = &self.places[index].name;
        for (word, value) in name.iter().zip(words).rev() {
            word.store(value, Ordering::Release);
        }
        PartyId(u8::try_from(index).unwrap_or(u8::MAX))
    }

    #[inline]
    pub(crate) fn add(&self, party: PartyId, used: &Use) {
        let place = self.places.get(usize::from(party.0)).unwrap_or(&self.others);
        add(&place.requests, 1);
        add(&place.ns, used.ns);
        add(&place.read_bytes, used.read_bytes);
        add(&place.written_bytes, used.written_bytes);
    }

    /// The name of a place; the others have none.
    pub(crate) fn name(&self, party: PartyId) -> String {
        self.places.get(usize::from(party.0)).map(|place| place.read().0).unwrap_or_default()
    }

    /// Each with its name; the others have none.
    pub(crate) fn read(&self) -> Vec<(String, PartyValue)> {
        let places = self.places.iter().chain([&self.others]).map(Place::read);
        places.filter(|(name, value)| !name.is_empty() || value.requests != 0).collect()
    }
}

impl Place {
    fn read(&self) -> (String, PartyValue) {
        let bytes: Vec<u8> =
            self.name.iter().flat_map(|it| it.load(Ordering::Acquire).to_ne_bytes()).collect();
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let name = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let value = PartyValue {
            requests: get(&self.requests),
            ns: get(&self.ns),
            read_bytes: get(&self.read_bytes),
            written_bytes: get(&self.written_bytes),
        };
        (name, value)
    }
}

impl PartyValue {
    /// What has come since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests.wrapping_sub(earlier.requests),
            ns: self.ns.wrapping_sub(earlier.ns),
            read_bytes: self.read_bytes.wrapping_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.wrapping_sub(earlier.written_bytes),
        }
    }

    /// The same of another worker added.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.ns += other.ns;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
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
