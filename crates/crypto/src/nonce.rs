//! Nonces of encrypted messages: [MS-SMB2] 2.2.41, 3.1.4.3.

use std::fmt;

/// Highest number of messages that one key encrypts.
///
/// Far below the 2^64 of the counter, so that it cannot wrap, and above the number of messages of
/// any session: at a million messages a second it lasts nine years.
const MESSAGES_PER_KEY_MAX: u64 = 1 << 48;

/// A nonce, used once with one key. CCM uses its first 11 bytes, GCM all 12.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Nonce(pub [u8; 12]);

/// Generator of the nonces of one key.
///
/// Invariant: no two nonces of a counter are equal in their first 11 bytes, so they differ under
/// every cipher. Bytes 0 to 7 count; the prefix in bytes 8 to 10 separates counters that share a
/// key, as do channels of one session with a counter each.
#[derive(Debug)]
pub struct NonceCounter {
    next: u64,
    prefix: [u8; 3],
}

/// The key has encrypted its highest number of messages; the session needs new keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoncesExhausted;

impl NonceCounter {
    /// Starts a counter. Two counters of one key need different prefixes.
    #[must_use]
    pub fn new(prefix: [u8; 3]) -> Self {
        Self { next: 0, prefix }
    }

    /// Returns the next nonce.
    ///
    /// # Errors
    ///
    /// [`NoncesExhausted`] after 2^48 messages, permanently.
    pub fn advance(&mut self) -> Result<Nonce, NoncesExhausted> {
        if self.next >= MESSAGES_PER_KEY_MAX {
            return Err(NoncesExhausted);
        }
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.next.to_le_bytes());
        nonce[8..11].copy_from_slice(&self.prefix);
        self.next += 1;
        Ok(Nonce(nonce))
    }
}

impl fmt::Display for NoncesExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key has encrypted its highest number of messages")
    }
}

impl std::error::Error for NoncesExhausted {}

#[cfg(test)]
mod tests {
    use super::{MESSAGES_PER_KEY_MAX, Nonce, NonceCounter, NoncesExhausted};

    #[test]
    fn nonces_differ_in_the_11_bytes_that_ccm_takes() {
        let mut one = NonceCounter::new([0; 3]);
        let mut other = NonceCounter::new([1, 0, 0]);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1_000 {
            for counter in [&mut one, &mut other] {
                let nonce = counter.advance().expect("far from the limit");
                assert!(seen.insert(nonce.0[..11].to_vec()));
            }
        }
    }

    #[test]
    fn the_last_nonce_is_given_once() {
        let mut counter = NonceCounter { next: MESSAGES_PER_KEY_MAX - 1, prefix: [7, 8, 9] };
        let last = Nonce([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 7, 8, 9, 0]);
        assert_eq!(counter.advance(), Ok(last));
        assert_eq!(counter.advance(), Err(NoncesExhausted));
        assert_eq!(counter.advance(), Err(NoncesExhausted));
    }
}
