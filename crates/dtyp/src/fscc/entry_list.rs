//! Lists of entries that begin with NextEntryOffset.

/// Writes entries that are chained by NextEntryOffset, up to a number of bytes.
///
/// Every entry begins with four bytes of zero; a following entry turns them into the distance to
/// it. The last entry is not padded.
#[derive(Debug)]
pub struct EntryListWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    limit: usize,
    alignment: usize,
    last: Option<usize>,
    entries: usize,
}

impl<'a> EntryListWriter<'a> {
    /// Appends to `out` at most `limit` bytes, in entries that begin at a multiple of `alignment`
    /// (4 for extended attributes, 8 for all others) from the start of the list.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, limit: usize, alignment: usize) -> Self {
        debug_assert!(alignment.is_power_of_two(), "a mask rounds up to it");
        let start = out.len();
        Self { out, start, limit, alignment, last: None, entries: 0 }
    }

    /// Appends the output of `write` as one entry. Returns false, with nothing written, if it does
    /// not fit.
    #[must_use]
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.out.len();
        let mask = self.alignment - 1;
        let at = self.start + ((before - self.start + mask) & !mask);
        if at - self.start >= self.limit {
            return false;
        }
        self.out.resize(at, 0);
        write(self.out);
        if self.out.len() - self.start > self.limit {
            self.out.truncate(before);
            return false;
        }
        if let Some(last) = self.last {
            let distance = u32::try_from(at - last).expect("an entry is far below 4 GiB");
            self.out[last..last + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.last = Some(at);
        self.entries += 1;
        true
    }

    /// Number of entries written so far.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.out.len() - self.start
    }
}

/// The entries of a list, each from its beginning to the next entry or to the end of the list.
///
/// `Err` has the offset of an entry whose NextEntryOffset leads backwards, into its own first
/// bytes, or beyond the end; it ends the iteration.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, &[u8]), usize>> {
    let mut at = if bytes.is_empty() { None } else { Some(0) };
    std::iter::from_fn(move || {
        let here = at.take()?;
        let rest = &bytes[here..];
        let Some(next) = rest.first_chunk::<4>() else { return Some(Err(here)) };
        match usize::try_from(u32::from_le_bytes(*next)) {
            Ok(0) => Some(Ok((here, rest))),
            Ok(next) if next >= 4 && next < rest.len() => {
                at = Some(here + next);
                Some(Ok((here, &rest[..next])))
            }
            _ => Some(Err(here)),
        }
    })
}
