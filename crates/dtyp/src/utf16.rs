//! UTF-16LE, the encoding of every name on the wire, to and from `String`.
//!
//! Windows allows unpaired surrogates in names; this server does not, because a name must reach a
//! Linux file system as UTF-8 and return unchanged.

use std::fmt;

/// Reason why bytes are not a string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Utf16Error {
    /// The bytes are no whole number of code units, of two bytes each.
    OddLength {
        /// Length of the input in bytes.
        bytes: usize,
    },
    /// A surrogate without its other half.
    UnpairedSurrogate {
        /// Position of the surrogate, in code units.
        index: usize,
    },
}

impl fmt::Display for Utf16Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OddLength { bytes } => write!(f, "{bytes} bytes are not whole UTF-16 units"),
            Self::UnpairedSurrogate { index } => write!(f, "unpaired surrogate at unit {index}"),
        }
    }
}

impl std::error::Error for Utf16Error {}

/// Decodes all of `bytes` as UTF-16LE.
///
/// # Errors
/// If the length is odd or a surrogate is unpaired.
pub fn decode(bytes: &[u8]) -> Result<String, Utf16Error> {
    let (units, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Utf16Error::OddLength { bytes: bytes.len() });
    }
    // Most names are ASCII, and most of the work is the test for it.
    if units.iter().all(|[low, high]| *high == 0 && low.is_ascii()) {
        let text = units.iter().map(|[low, _]| *low).collect();
        return Ok(String::from_utf8(text).expect("it is ASCII"));
    }
    let mut text = String::with_capacity(units.len());
    let mut index = 0;
    for unit in char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit))) {
        let unit = unit.map_err(|_| Utf16Error::UnpairedSurrogate { index })?;
        index += unit.len_utf16();
        text.push(unit);
    }
    Ok(text)
}

/// Appends `text` as UTF-16LE, without a terminator.
pub fn encode(text: &str, out: &mut Vec<u8>) {
    if text.is_ascii() {
        let start = out.len();
        out.resize(start + 2 * text.len(), 0);
        let (units, _) = out[start..].as_chunks_mut::<2>();
        widen(text.as_bytes(), units);
        return;
    }
    out.reserve(2 * text.len());
    for unit in text.encode_utf16() {
        out.extend_from_slice(&unit.to_le_bytes());
    }
}

/// Writes ASCII as UTF-16LE in blocks that the processor widens at once. The last block overlaps
/// the one before it, because names are short and a rest of single bytes takes the longest.
fn widen(text: &[u8], units: &mut [[u8; 2]]) {
    fn block<const LEN: usize>(text: &[u8; LEN], units: &mut [[u8; 2]; LEN]) {
        *units = text.map(|byte| u16::from(byte).to_le_bytes());
    }
    if let Some(last) = text.last_chunk::<16>() {
        let (blocks, _) = text.as_chunks::<16>();
        let (places, _) = units.as_chunks_mut::<16>();
        places.iter_mut().zip(blocks).for_each(|(place, text)| block(text, place));
        block(last, units.last_chunk_mut::<16>().expect("as long as the text"));
    } else if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        block(first, units.first_chunk_mut::<8>().expect("as long as the text"));
        block(last, units.last_chunk_mut::<8>().expect("as long as the text"));
    } else {
        units.iter_mut().zip(text).for_each(|(unit, byte)| *unit = u16::from(*byte).to_le_bytes());
    }
}

/// Returns `text` as UTF-16LE, without a terminator.
#[must_use]
pub fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(text, &mut bytes);
    bytes
}

/// Length of the result of [`encode`] in bytes.
#[must_use]
pub fn encoded_len(text: &str) -> usize {
    2 * units(text)
}

/// Number of UTF-16 code units of `text`, the length of a name in Windows.
#[must_use]
pub fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

#[cfg(test)]
mod tests {
    use super::{Utf16Error, decode, encoded_len, to_bytes, units};

    #[test]
    fn text_round_trips_beyond_the_basic_plane() {
        for text in ["", "abc", "\0~\u{7f}", "\u{80}\u{ff}", "ä\u{20ac}", "a\u{1F600}b"] {
            let bytes = to_bytes(text);
            assert_eq!(bytes.len(), encoded_len(text));
            assert_eq!(decode(&bytes).as_deref(), Ok(text));
        }
        assert_eq!(to_bytes("a\u{1F600}"), [0x61, 0, 0x3D, 0xD8, 0x00, 0xDE]);
        assert_eq!(units("a\u{1F600}"), 3);
    }

    #[test]
    fn an_odd_length_is_an_error() {
        assert_eq!(decode(&[0x61, 0, 0x62]), Err(Utf16Error::OddLength { bytes: 3 }));
    }

    #[test]
    fn unpaired_surrogates_are_errors_at_their_unit() {
        let lone_high = [0x3D, 0xD8, 0x00, 0xDE, 0x3D, 0xD8];
        assert_eq!(decode(&lone_high), Err(Utf16Error::UnpairedSurrogate { index: 2 }));
        let lone_low = [0x61, 0, 0x00, 0xDE];
        assert_eq!(decode(&lone_low), Err(Utf16Error::UnpairedSurrogate { index: 1 }));
    }
}
