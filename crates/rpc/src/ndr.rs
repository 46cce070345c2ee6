//! NDR, transfer syntax version 2: C706 chapter 14.
//!
//! Integers lie at multiples of their size from the beginning of the stub. A pointer within a
//! structure is a referent id; its target follows after the outermost structure or array, in the
//! order of the pointers. Only the types of this crate's interfaces are supported: integers, SIDs,
//! strings of UTF-16, arrays of structures of those.

use crate::win32::Win32Error;
use dtyp::{NtStatus, Sid, utf16};
use std::borrow::Cow;

/// The stub data is malformed: RPC_X_BAD_STUB_DATA.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BadStub;

/// Decodes parameters from a stub.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    stub: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(stub: &'a [u8]) -> Self {
        Self { stub, at: 0 }
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BadStub> {
        self.at = self.at.next_multiple_of(4);
        let bytes = self.stub.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(BadStub)?;
        self.at += 4;
        Ok(u32::from_le_bytes(*bytes))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, BadStub> {
        self.at = self.at.next_multiple_of(2);
        let bytes = self.stub.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(BadStub)?;
        self.at += 2;
        Ok(u16::from_le_bytes(*bytes))
    }

    /// Reads a context handle: C706 appendix N.
    pub(crate) fn handle(&mut self) -> Result<[u8; 20], BadStub> {
        self.aligned_bytes()
    }

    /// Reads a UUID: C706 appendix A.
    pub(crate) fn uuid(&mut self) -> Result<[u8; 16], BadStub> {
        self.aligned_bytes()
    }

    fn aligned_bytes<const LEN: usize>(&mut self) -> Result<[u8; LEN], BadStub> {
        self.at = self.at.next_multiple_of(4);
        let bytes = self.stub.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(BadStub)?;
        self.at += LEN;
        Ok(*bytes)
    }

    /// Reads a pointer. Returns false for a null pointer.
    pub(crate) fn pointer(&mut self) -> Result<bool, BadStub> {
        Ok(self.u32()? != 0)
    }

    /// Reads the fixed part of an RPC_UNICODE_STRING ([MS-DTYP] 2.3.10). Returns whether its buffer
    /// follows.
    pub(crate) fn unicode_string(&mut self) -> Result<bool, BadStub> {
        let (_length, _maximum_length) = (self.u16()?, self.u16()?);
        self.pointer()
    }

    /// Reads a number of elements, at most `max`. Each element has at least four bytes, so the
    /// length of the stub limits it as well.
    pub(crate) fn count(&mut self, max: usize) -> Result<usize, BadStub> {
        let count = self.len()?;
        if count > max || count > self.stub.len() / 4 { Err(BadStub) } else { Ok(count) }
    }

    /// Reads a SID: [MS-DTYP] 2.4.2.3.
    pub(crate) fn sid(&mut self) -> Result<Sid, BadStub> {
        let count = self.len()?;
        let sid = Sid::decode(self.stub.get(self.at..).ok_or(BadStub)?).ok_or(BadStub)?;
        if sid.subauthorities().len() != count {
            return Err(BadStub);
        }
        self.at += sid.encoded_len();
        Ok(sid)
    }

    fn len(&mut self) -> Result<usize, BadStub> {
        usize::try_from(self.u32()?).map_err(|_| BadStub)
    }

    /// Reads `max` SIDs at most: SAMPR_PSID_ARRAY ([MS-SAMR] 2.2.9.6), or LSAPR_SID_ENUM_BUFFER
    /// ([MS-LSAT] 2.2.18).
    pub(crate) fn sids(&mut self, max: usize) -> Result<Vec<Sid>, BadStub> {
        let count = self.count(max)?;
        if !self.pointer()? {
            return if count == 0 { Ok(Vec::new()) } else { Err(BadStub) };
        }
        if self.count(max)? != count {
            return Err(BadStub);
        }
        for _ in 0..count {
            if !self.pointer()? {
                return Err(BadStub);
            }
        }
        (0..count).map(|_| self.sid()).collect()
    }

    /// Reads names: an array of RPC_UNICODE_STRING that may be conformant alone, or varying as well
    /// (`is_varying`), of `count` elements.
    pub(crate) fn names(&mut self, count: usize, is_varying: bool) -> Result<Vec<String>, BadStub> {
        let announced = self.len()?;
        let (offset, actual) = if is_varying { (self.len()?, self.len()?) } else { (0, announced) };
        if offset != 0 || actual != count || actual > announced {
            return Err(BadStub);
        }
        let mut present = Vec::with_capacity(count);
        for _ in 0..count {
            present.push(self.unicode_string()?);
        }
        let names =
            present.into_iter().map(|it| if it { self.string() } else { Ok(String::new()) });
        names.collect()
    }

    /// Reads a conformant array of bytes behind its pointer, of `len` bytes.
    pub(crate) fn bytes(&mut self, len: u32) -> Result<Vec<u8>, BadStub> {
        if self.u32()? != len {
            return Err(BadStub);
        }
        let len = usize::try_from(len).map_err(|_| BadStub)?;
        let rest = self.stub.get(self.at..).ok_or(BadStub)?;
        let bytes = rest.get(..len).ok_or(BadStub)?.to_vec();
        self.at += len;
        Ok(bytes)
    }

    /// Reads a mandatory string: `[string] wchar_t *` as a reference. Ends at its first NUL.
    pub(crate) fn string(&mut self) -> Result<String, BadStub> {
        let (max_count, offset, actual_count) = (self.len()?, self.len()?, self.len()?);
        if offset != 0 || actual_count > max_count {
            return Err(BadStub);
        }
        let rest = self.stub.get(self.at..).ok_or(BadStub)?;
        let bytes = actual_count.checked_mul(2).and_then(|len| rest.get(..len)).ok_or(BadStub)?;
        self.at += bytes.len();
        let mut text = utf16::decode(bytes).map_err(|_| BadStub)?;
        text.truncate(text.find('\0').unwrap_or(text.len()));
        Ok(text)
    }

    /// Reads an optional string: `[string, unique] wchar_t *` as a parameter.
    pub(crate) fn unique_string(&mut self) -> Result<Option<String>, BadStub> {
        if self.u32()? == 0 { Ok(None) } else { self.string().map(Some) }
    }

    /// Reads an optional integer: `[unique] DWORD *` as a parameter.
    pub(crate) fn unique_u32(&mut self) -> Result<Option<u32>, BadStub> {
        if self.u32()? == 0 { Ok(None) } else { self.u32().map(Some) }
    }

    /// Reads an enumeration structure of a request: a level and a union of pointers to containers,
    /// which must be empty. Returns the level.
    pub(crate) fn empty_container(&mut self) -> Result<u32, BadStub> {
        let (level, tag) = (self.u32()?, self.u32()?);
        if level != tag {
            return Err(BadStub);
        }
        if self.u32()? != 0 {
            let (_entries_read, buffer) = (self.u32()?, self.u32()?);
            // A filled container has no meaning in a request, and its form depends on the level.
            if buffer != 0 {
                return Err(BadStub);
            }
        }
        Ok(level)
    }
}

/// A member of an information structure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Field<'a> {
    /// A null pointer, four bytes long.
    Null,
    /// A pointer to bytes, whose number is another member.
    Bytes(Vec<u8>),
    /// A pointer to a string.
    Text(Cow<'a, str>),
    /// An integer, not a pointer.
    Value(u32),
}

impl<'a> Field<'a> {
    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// Bytes of the member and its target, near enough for the limit on a response.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Null | Self::Value(_) => 4,
            Self::Bytes(bytes) => 4 + 4 + bytes.len(),
            Self::Text(text) => 4 + 12 + 2 + utf16::encoded_len(text),
        }
    }
}

/// Encodes results into a stub.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    stub: Vec<u8>,
    referents: u32,
}

impl Writer {
    pub(crate) fn u32(&mut self, value: u32) {
        self.stub.resize(self.stub.len().next_multiple_of(4), 0);
        self.stub.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.stub.resize(self.stub.len().next_multiple_of(2), 0);
        self.stub.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends an OLD_LARGE_INTEGER ([MS-SAMR] 2.2.2.2), which is aligned as its halves are.
    pub(crate) fn old_large_integer(&mut self, value: i64) {
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        self.u32(u32::from_le_bytes([a, b, c, d]));
        self.u32(u32::from_le_bytes([e, f, g, h]));
    }

    /// Appends a 64-bit integer, aligned to eight bytes.
    pub(crate) fn i64(&mut self, value: i64) {
        self.stub.resize(self.stub.len().next_multiple_of(8), 0);
        self.stub.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends bytes without alignment, as given.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.stub.extend_from_slice(bytes);
    }

    /// Appends the fixed part of an RPC_UNICODE_STRING: [MS-DTYP] 2.3.10. Its buffer, by
    /// [`Writer::unicode_buffer`], follows after the outermost structure.
    pub(crate) fn unicode_string(&mut self, text: &str) {
        // The field allows no longer ones; all texts here are far shorter.
        let len = u16::try_from(utf16::encoded_len(text)).unwrap_or(0);
        self.u32(u32::from(len) | u32::from(len) << 16);
        self.referent();
    }

    pub(crate) fn unicode_buffer(&mut self, text: &str) {
        let fits = u16::try_from(utf16::encoded_len(text)).is_ok();
        let text = if fits { text } else { "" };
        let count = utf16::units(text);
        self.count(count);
        self.u32(0);
        self.count(count);
        utf16::encode(text, &mut self.stub);
    }

    /// Appends a SID behind its pointer: [MS-DTYP] 2.4.2.3.
    pub(crate) fn sid(&mut self, sid: &Sid) {
        self.count(sid.subauthorities().len());
        sid.encode(&mut self.stub);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("counts of shares and letters are far below 2^32"));
    }

    /// Appends a non-null pointer. Ids only need to differ; these look like those of Windows.
    pub(crate) fn referent(&mut self) {
        self.u32(0x0002_0000 + 4 * self.referents);
        self.referents += 1;
    }

    pub(crate) fn null(&mut self) {
        self.u32(0);
    }

    /// Appends a string in an array of a fixed size, with a terminating NUL.
    pub(crate) fn varying_string(&mut self, text: &str) {
        self.u32(0);
        self.count(utf16::units(text) + 1);
        utf16::encode(text, &mut self.stub);
        self.stub.extend_from_slice(&[0, 0]);
    }

    /// Appends a string behind its pointer, with a terminating NUL.
    pub(crate) fn string(&mut self, text: &str) {
        let count = utf16::units(text) + 1;
        self.count(count);
        self.u32(0);
        self.count(count);
        utf16::encode(text, &mut self.stub);
        self.stub.extend_from_slice(&[0, 0]);
    }

    /// Appends a conformant array of `len` elements, each of `unit` bytes: `text`, which fits, and
    /// zeros.
    pub(crate) fn text_buffer(&mut self, len: u32, unit: usize, text: &str) {
        self.u32(len);
        let bytes = usize::try_from(len).unwrap_or_default().saturating_mul(unit);
        let mut content = utf16::to_bytes(text);
        content.resize(bytes, 0);
        self.stub.extend_from_slice(&content);
    }

    pub(crate) fn unique_u32(&mut self, value: Option<u32>) {
        match value {
            Some(value) => {
                self.referent();
                self.u32(value);
            }
            None => self.null(),
        }
    }

    /// Appends structures one after the other, then the targets of their pointers.
    pub(crate) fn structures(&mut self, structures: &[Vec<Field<'_>>]) {
        for field in structures.iter().flatten() {
            match field {
                Field::Value(value) => self.u32(*value),
                Field::Bytes(_) | Field::Text(_) => self.referent(),
                Field::Null => self.null(),
            }
        }
        for field in structures.iter().flatten() {
            match field {
                Field::Text(text) => self.string(text),
                Field::Bytes(bytes) => {
                    self.count(bytes.len());
                    self.bytes(bytes);
                }
                Field::Null | Field::Value(_) => {}
            }
        }
    }

    /// Appends the union of information structures of a response: the level, and a pointer to
    /// `info`.
    pub(crate) fn information(&mut self, level: u32, info: Option<Vec<Field<'_>>>) {
        self.u32(level);
        match info {
            Some(info) => {
                self.referent();
                self.structures(&[info]);
            }
            None => self.null(),
        }
    }

    /// Returns the whole response to a query for one level of information; `info` is `None` for an
    /// unknown level.
    pub(crate) fn answer(mut self, level: u32, info: Option<Vec<Field<'_>>>) -> Vec<u8> {
        if info.is_none() {
            return self.without_information(level, false, Win32Error::INVALID_LEVEL);
        }
        self.information(level, info);
        self.finish(Win32Error::SUCCESS)
    }

    /// Returns the whole response that refuses such a query. An arm of the union for its level is a
    /// null pointer.
    pub(crate) fn without_information(
        mut self,
        level: u32,
        has_arm: bool,
        error: Win32Error,
    ) -> Vec<u8> {
        self.u32(level);
        if has_arm {
            self.null();
        }
        self.finish(error)
    }

    /// Appends an enumeration structure of a response: level, union, container, array.
    pub(crate) fn container(&mut self, level: u32, entries: &[Vec<Field<'_>>]) {
        self.u32(level);
        self.u32(level);
        self.referent();
        self.count(entries.len());
        if entries.is_empty() {
            self.null();
        } else {
            self.referent();
            self.count(entries.len());
            self.structures(entries);
        }
    }

    /// Returns the stub, with the NTSTATUS that ends the operations of some interfaces.
    pub(crate) fn finish_status(mut self, status: NtStatus) -> Vec<u8> {
        self.u32(status.0);
        self.stub
    }

    /// Returns the stub, with the return value that ends most operations.
    pub(crate) fn finish(mut self, result: Win32Error) -> Vec<u8> {
        self.u32(result.0);
        self.stub
    }
}

#[cfg(test)]
mod tests;
