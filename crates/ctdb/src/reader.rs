//! Fields of a packet, read from the front. Numbers have the byte order of the machine, because
//! both ends of the socket are on it.

use crate::malformed::Malformed;

/// The bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes that are left.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes whose count was a field of its own.
    pub(crate) fn counted(&mut self, count: u32) -> Result<&'a [u8], Malformed> {
        self.bytes(usize::try_from(count).map_err(|_| Malformed::Short)?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Reads a count, and that many entries, which must not be more than `max`.
    pub(crate) fn list<T>(
        &mut self,
        max: usize,
        entry: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        if usize::try_from(count).map_or(true, |count| count > max) {
            return Err(Malformed::Count(count));
        }
        // Not allocated by the claimed count.
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(entry(self)?);
        }
        Ok(entries)
    }

    /// Reads the text that is left, up to its NUL.
    pub(crate) fn text(self, bytes_max: usize) -> Result<String, Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed::Text)?;
        if end > bytes_max {
            return Err(Malformed::Text);
        }
        String::from_utf8(self.0[..end].to_vec()).map_err(|_| Malformed::Text)
    }
}
