//! The part of NDR that the record has: C706 14, little-endian.

/// Reads a record from its begin.
pub(super) struct Reader<'a> {
    record: &'a [u8],
    position: usize,
}

/// Longest text, in characters with the NUL. Names of principals are shorter.
const TEXT_MAX: u32 = 1_024;

impl<'a> Reader<'a> {
    pub(super) fn new(record: &'a [u8]) -> Self {
        Self { record, position: 0 }
    }

    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.record.get(self.position..)?.get(..len)?;
        self.position += len;
        Some(bytes)
    }

    fn aligned<const LEN: usize>(&mut self, alignment: usize) -> Option<[u8; LEN]> {
        self.position = self.position.checked_next_multiple_of(alignment)?;
        self.bytes(LEN)?.first_chunk().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.aligned(2).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.aligned(4).map(u32::from_le_bytes)
    }

    pub(super) fn hyper(&mut self) -> Option<u64> {
        self.aligned(8).map(u64::from_le_bytes)
    }

    /// A time of two halves, each aligned by itself.
    pub(super) fn time(&mut self) -> Option<u64> {
        self.aligned(4).map(u64::from_le_bytes)
    }

    /// Returns whether a pointer has a target, which comes later.
    pub(super) fn pointer(&mut self) -> Option<bool> {
        Some(self.u32()? != 0)
    }

    /// The head of RPC_UNICODE_STRING; true if a text follows later.
    pub(super) fn large_string(&mut self) -> Option<bool> {
        self.aligned::<4>(4)?;
        self.pointer()
    }

    /// A text in UTF-16 with its three counts, without the NUL.
    pub(super) fn string(&mut self) -> Option<String> {
        let (max, offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        if offset != 0 || count > max || count > TEXT_MAX {
            return None;
        }
        let bytes = self.bytes(usize::try_from(count).ok()? * 2)?;
        let units = bytes.chunks_exact(2).map(|it| u16::from_le_bytes([it[0], it[1]]));
        let text: Result<String, _> = char::decode_utf16(units).collect();
        text.ok().map(|it| it.trim_end_matches('\0').to_owned())
    }

    /// Bytes with a count before them.
    pub(super) fn blob(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        self.bytes(len)
    }

    /// Skips a SID, whose count of subauthorities comes twice.
    pub(super) fn sid(&mut self) -> Option<()> {
        let count = usize::try_from(self.u32()?).ok().filter(|count| *count <= 15)?;
        self.bytes(8 + 4 * count).map(|_| ())
    }
}
