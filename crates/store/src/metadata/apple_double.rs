//! AppleDouble, the form of the Finder's information and the resource fork outside of streams.
//!
//! Netatalk, and Samba by default, keep it in the attribute `org.netatalk.Metadata`; and macOS, on
//! file systems without streams, in a file `._NAME` beside the file `NAME`. The latter may have the
//! extended attributes of macOS in it, behind the Finder's information.
//!
//! A header of 26 bytes (magic, version, filler, number of entries) precedes entries of 12 (kind,
//! offset, length), all numbers with the high byte first.

use crate::metadata::afp_info::AfpInfo;

/// Number that an AppleDouble begins with, and the only version.
const MAGIC: u32 = 0x0005_1607;
const VERSION: u32 = 0x0002_0000;

/// Kinds of entries that are read.
const RESOURCE_FORK: u32 = 2;
const FINDER_INFO: u32 = 9;

/// Entries of a header. There are two as a rule, and eight by Netatalk.
const ENTRIES_MAX: u16 = 16;

/// Number that the list of extended attributes begins with: "ATTR".
const ATTRIBUTES_MAGIC: u32 = 0x4154_5452;

/// Bytes before the first extended attribute of the list.
const ATTRIBUTES_HEADER_LEN: usize = 36;

/// Extended attributes of a file that are read.
const ATTRIBUTES_MAX: u16 = 64;

/// Text in a resource fork that macOS writes where there is none.
const LEFT_BLANK: &[u8] = b"This resource fork intentionally left blank";

/// Length of such a fork.
const LEFT_BLANK_LEN: usize = 286;

/// Contents that an AppleDouble can have.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct AppleDouble<'a> {
    pub(crate) finder_info: Option<[u8; 32]>,
    /// Names and values of extended attributes.
    pub(crate) attributes: Vec<(&'a str, &'a [u8])>,
    pub(crate) resource_fork: &'a [u8],
}

impl<'a> AppleDouble<'a> {
    /// Reads one; `None` if these bytes are none, or a damaged one.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        if number(bytes, 0)? != MAGIC || number(bytes, 4)? != VERSION {
            return None;
        }
        let count = short(bytes, 24)?.min(ENTRIES_MAX);
        let mut found = Self::default();
        for entry in 0..usize::from(count) {
            let at = 26 + 12 * entry;
            let (offset, length) = (index(number(bytes, at + 4)?), index(number(bytes, at + 8)?));
            let data = || bytes.get(offset..offset.checked_add(length)?);
            match number(bytes, at)? {
                FINDER_INFO => {
                    let finder_info = data()?.first_chunk::<32>()?;
                    found.finder_info = (*finder_info != [0; 32]).then_some(*finder_info);
                    // Two bytes of padding precede the list.
                    found.attributes = attributes(bytes, offset.checked_add(34)?, length);
                }
                RESOURCE_FORK => found.resource_fork = data()?,
                _ => {}
            }
        }
        let is_blank = found.resource_fork.len() == LEFT_BLANK_LEN
            && found.resource_fork.windows(LEFT_BLANK.len()).any(|it| it == LEFT_BLANK);
        if is_blank {
            found.resource_fork = &[];
        }
        Some(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn afp_info(&self) -> Option<AfpInfo> {
        self.finder_info.map(AfpInfo::of)
    }

    /// Makes the bytes of one without contents.
    pub(crate) fn empty() -> Vec<u8> {
        let mut bytes = Vec::with_capacity(82);
        for number in [MAGIC, VERSION, 0, 0, 0, 0] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(2_u16.to_be_bytes());
        for number in [FINDER_INFO, 50, 32, RESOURCE_FORK, 82, 0] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend([0; 32]);
        bytes
    }
}

/// Reads the list at `at`, if the Finder's information is longer than itself: magic, tag, total
/// size, start and length of the data, 12 bytes of nothing, flags, number; then offset, length,
/// flags, length of the name and name of each, at multiples of four. Damaged ones are left out.
fn attributes(bytes: &[u8], at: usize, length: usize) -> Vec<(&str, &[u8])> {
    let mut found = Vec::new();
    if length <= 34 || number(bytes, at) != Some(ATTRIBUTES_MAGIC) {
        return found;
    }
    let count = short(bytes, at + 34).unwrap_or(0).min(ATTRIBUTES_MAX);
    let mut entry = at + ATTRIBUTES_HEADER_LEN;
    for _ in 0..count {
        entry = entry.next_multiple_of(4);
        let Some((name, value, end)) = attribute(bytes, entry) else { break };
        found.extend(stream_name(name).map(|name| (name, value)));
        entry = end;
    }
    found
}

/// Reads one extended attribute, and tells the end of its entry.
fn attribute(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8], usize)> {
    let (offset, length) = (index(number(bytes, at)?), index(number(bytes, at + 4)?));
    let name_len = usize::from(*bytes.get(at + 10)?);
    let end = at + 11 + name_len;
    let name = bytes.get(at + 11..end)?;
    let value = bytes.get(offset..offset.checked_add(length)?)?;
    Some((name.strip_suffix(&[0]).unwrap_or(name), value, end))
}

/// The name of an extended attribute, if a stream can have it: no path, and none of its parts.
fn stream_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    (!matches!(name, "" | "." | "..") && !name.contains(['\0', '/'])).then_some(name)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit memory")
}

#[cfg(test)]
mod tests {
    use super::AppleDouble;

    #[test]
    fn an_empty_one_has_nothing() {
        let bytes = AppleDouble::empty();
        let read = AppleDouble::read(&bytes).expect("well-formed");
        assert!(read.is_empty());
        assert_eq!(read.afp_info(), None);
    }

    #[test]
    fn no_path_and_no_part_of_one_is_the_name_of_a_stream() {
        for name in [&b""[..], b".", b"..", b"a/b", b"../x", b"/", b"a\0b", b"\xFF"] {
            assert_eq!(super::stream_name(name), None, "{name:?}");
        }
        assert_eq!(super::stream_name("a.ä:b".as_bytes()), Some("a.ä:b"));
    }

    #[test]
    fn no_beginning_and_no_wrong_number_is_read_beyond_the_bytes() {
        let mut bytes = AppleDouble::empty();
        bytes.extend(b"a fork");
        bytes[81 - 32 - 3..50].copy_from_slice(&6_u32.to_be_bytes());
        for length in 0..bytes.len() {
            let _ = AppleDouble::read(&bytes[..length]);
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] = 0xFF;
            let _ = AppleDouble::read(&wrong);
        }
        let read = AppleDouble::read(&bytes).expect("well-formed");
        assert_eq!(read.resource_fork, b"a fork");
    }
}
