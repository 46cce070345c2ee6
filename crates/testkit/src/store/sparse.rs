//! Sparse contents of a file.

use std::collections::BTreeMap;

/// Bytes of a page of storage.
const PAGE: u64 = 4_096;

const PAGE_LEN: usize = 4_096;

/// Contents of up to 2^63 bytes; only written pages take memory.
#[derive(Clone, Debug, Default)]
pub struct SparseBytes {
    len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_LEN]>>,
}

/// Part of one page that a range touches.
struct Part {
    page: u64,
    from: usize,
    to: usize,
}

impl SparseBytes {
    /// Length of the data in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of allocated storage, whole pages.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        u64::try_from(self.pages.len()).expect("pages fit memory") * PAGE
    }

    /// Appends the bytes of `offset..offset + length`, up to the end of the file.
    pub fn read(&self, offset: u64, length: u64, out: &mut impl Extend<u8>) -> u64 {
        let end = self.len.min(offset.saturating_add(length));
        for part in parts(offset, end) {
            match self.pages.get(&part.page) {
                Some(page) => out.extend(page[part.from..part.to].iter().copied()),
                None => out.extend(std::iter::repeat_n(0, part.to - part.from)),
            }
        }
        end.saturating_sub(offset)
    }

    /// Writes data; a hole before it reads as zeros.
    pub fn write(&mut self, offset: u64, mut data: &[u8]) {
        let end = offset + u64::try_from(data.len()).expect("a slice fits");
        for part in parts(offset, end) {
            let (now, rest) = data.split_at(part.to - part.from);
            let page = self.pages.entry(part.page).or_insert_with(|| Box::new([0; PAGE_LEN]));
            page[part.from..part.to].copy_from_slice(now);
            data = rest;
        }
        self.len = self.len.max(end);
    }

    /// Truncates or extends to a length.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, self.len);
        }
        self.len = len;
    }

    /// Zeroes a range and frees its whole pages.
    pub fn zero(&mut self, from: u64, to: u64) {
        let first = from / PAGE;
        let inside: Vec<u64> =
            self.pages.range(first..to.div_ceil(PAGE)).map(|(at, _)| *at).collect();
        for at in inside {
            let start = at * PAGE;
            let cut = |offset: u64| {
                usize::try_from(offset.saturating_sub(start).min(PAGE)).expect("within a page")
            };
            let (cut_from, cut_to) = (cut(from), cut(to));
            if cut_to - cut_from == PAGE_LEN {
                self.pages.remove(&at);
            } else if let Some(page) = self.pages.get_mut(&at) {
                page[cut_from..cut_to].fill(0);
            }
        }
    }

    /// Returns the allocated ranges of `from..to`, as offset and length.
    #[must_use]
    pub fn allocated_ranges(&self, from: u64, to: u64, ranges_max: usize) -> Vec<(u64, u64)> {
        let to = to.min(self.len);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        if from >= to {
            return ranges;
        }
        for at in self.pages.range(from / PAGE..to.div_ceil(PAGE)).map(|(at, _)| at * PAGE) {
            let (start, end) = (at.max(from), (at + PAGE).min(to));
            match ranges.last_mut() {
                Some((offset, length)) if *offset + *length == start => *length += end - start,
                _ => ranges.push((start, end - start)),
            }
        }
        ranges.truncate(ranges_max);
        ranges
    }
}

fn parts(offset: u64, end: u64) -> impl Iterator<Item = Part> {
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let page = at / PAGE;
        let next = end.min((page + 1) * PAGE);
        let inside = |offset: u64| usize::try_from(offset - page * PAGE).expect("within a page");
        let part = Part { page, from: inside(at), to: inside(next) };
        at = next;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::SparseBytes;

    fn all(file: &SparseBytes) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(file.read(0, u64::MAX, &mut out), file.len());
        out
    }

    #[test]
    fn unwritten_ranges_read_as_zeros_and_take_no_storage() {
        let mut file = SparseBytes::default();
        file.write(1 << 40, b"x");
        assert_eq!((file.len(), file.allocated()), ((1 << 40) + 1, 4_096));
        let mut out = Vec::new();
        file.read((1 << 40) - 2, 100, &mut out);
        assert_eq!(out, b"\0\0x");
    }

    #[test]
    fn truncated_data_do_not_come_back() {
        let mut file = SparseBytes::default();
        file.write(0, &[7; 5_000]);
        file.set_len(3);
        file.set_len(6);
        assert_eq!(all(&file), [7, 7, 7, 0, 0, 0]);
    }

    #[test]
    fn ranges_with_storage_are_joined_and_cut() {
        let mut file = SparseBytes::default();
        file.write(4_096, &[1; 8_192]);
        file.write(40_960, &[1; 10]);
        assert_eq!(file.allocated_ranges(5_000, 1 << 60, 9), [(5_000, 7_288), (40_960, 10)]);
        file.zero(4_096, 8_200);
        assert_eq!(file.allocated_ranges(0, 1 << 60, 1), [(8_192, 4_096)]);
        assert_eq!(file.len(), 40_970);
    }
}
