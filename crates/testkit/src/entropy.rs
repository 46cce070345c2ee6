//! Reproducible randomness from a seed.

use proto::entropy::Entropy;

/// SplitMix64: a seed gives the same sequence everywhere. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a bound of a test");
        usize::try_from(self.next_u64() % bound).expect("below a usize")
    }

    /// Returns one of several values, which must not be none.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns true in that many of 100 cases.
    pub fn percent(&mut self, cases: usize) -> bool {
        self.below(100) < cases
    }

    /// Fills a buffer with the next bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Returns the next `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns a source of randomness for a server.
    #[must_use]
    pub fn into_entropy(mut self) -> Entropy {
        Entropy::new(Box::new(move |bytes: &mut [u8]| self.fill(bytes)))
    }
}
