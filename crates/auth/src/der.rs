//! The part of ASN.1 that SPNEGO needs: encodes DER, decodes BER with definite lengths.
//!
//! No function recurses: a reader exists for each level of a token's syntax, so the nesting of a
//! token does not matter.

use crate::error::AuthError;

pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0A;
pub(crate) const GENERAL_STRING: u8 = 0x1B;
pub(crate) const SEQUENCE: u8 = 0x30;
/// [APPLICATION 0], constructed: the frame of an initial token, RFC 2743 3.1.
pub(crate) const APPLICATION_0: u8 = 0x60;

/// Returns the tag of a context-specific, constructed element.
pub(crate) const fn context(number: u8) -> u8 {
    0xA0 | number
}

/// Reads the elements of one level in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// An element: tag and content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next element. Lengths may be longer than necessary, which BER allows and some
    /// clients do; SPNEGO has neither indefinite lengths nor tags of several bytes.
    pub(crate) fn element(&mut self) -> Result<Element<'a>, AuthError> {
        const TRUNCATED: AuthError = AuthError::Malformed("an ASN.1 element is cut off");
        let (&tag, rest) = self.rest.split_first().ok_or(TRUNCATED)?;
        if tag & 0x1F == 0x1F {
            return Err(AuthError::Malformed("an ASN.1 tag of several bytes"));
        }
        let (&first, mut rest) = rest.split_first().ok_or(TRUNCATED)?;
        let mut len = usize::from(first & 0x7F);
        if first & 0x80 != 0 {
            let count = len;
            if !(1..=LENGTH_BYTES_MAX).contains(&count) {
                return Err(AuthError::Malformed("an ASN.1 length"));
            }
            let (bytes, after) = rest.split_at_checked(count).ok_or(TRUNCATED)?;
            len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(Element { tag, content })
    }

    /// Reads the next element, which must have this tag, and returns its content.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], AuthError> {
        let element = self.element()?;
        if element.tag != tag {
            return Err(AuthError::Malformed("another ASN.1 element was expected"));
        }
        Ok(element.content)
    }
}

/// Returns the content of the first element of `bytes`, which must have this tag. Further ones are
/// ignored.
pub(crate) fn expect(bytes: &[u8], tag: u8) -> Result<&[u8], AuthError> {
    Reader::new(bytes).expect(tag)
}

/// Encodes an element with the shortest length, as DER requires.
pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 2 + size_of::<usize>());
    bytes.push(tag);
    let len = content.len().to_be_bytes();
    let significant = &len[len.iter().take_while(|byte| **byte == 0).count()..];
    match (significant, significant.len()) {
        ([], _) => bytes.push(0),
        ([short], _) if *short < 0x80 => bytes.push(*short),
        (_, count) => {
            bytes.push(0x80 | u8::try_from(count).expect("a usize has few bytes"));
            bytes.extend_from_slice(significant);
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

/// Bytes of a length, enough for any token: four allow 4 GiB.
const LENGTH_BYTES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Element, OCTET_STRING, Reader, SEQUENCE, element};
    use crate::error::AuthError;

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        for (len, want) in [
            (0, &[0x04, 0x00][..]),
            (0x7F, &[0x04, 0x7F]),
            (0x80, &[0x04, 0x81, 0x80]),
            (0xFF, &[0x04, 0x81, 0xFF]),
            (0x100, &[0x04, 0x82, 0x01, 0x00]),
            (0x1_0000, &[0x04, 0x83, 0x01, 0x00, 0x00]),
        ] {
            let bytes = element(OCTET_STRING, &vec![0; len]);
            assert_eq!(&bytes[..want.len()], want);
            assert_eq!(bytes.len(), want.len() + len);
        }
    }

    #[test]
    fn longer_lengths_than_needed_are_read() {
        for bytes in [
            &[0x04, 0x02, 0xAA, 0xBB][..],
            &[0x04, 0x81, 0x02, 0xAA, 0xBB],
            &[0x04, 0x84, 0x00, 0x00, 0x00, 0x02, 0xAA, 0xBB],
        ] {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.expect(OCTET_STRING), Ok(&[0xAA, 0xBB][..]));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn malformed_and_unsupported_elements_are_refused() {
        for bytes in [
            &[][..],
            &[0x04],
            &[0x04, 0x80, 0x00, 0x00],
            &[0x04, 0x85, 0, 0, 0, 0, 0],
            &[0x04, 0x84, 0xFF, 0xFF, 0xFF, 0xFF],
            &[0x04, 0x82, 0x01],
            &[0x04, 0x02, 0x00],
            &[0x1F, 0x01, 0x00],
        ] {
            let error = Reader::new(bytes).element().expect_err("refused");
            assert!(matches!(error, AuthError::Malformed(_)), "{bytes:x?}");
        }
        let error = Reader::new(&[0x04, 0x00]).expect(SEQUENCE).expect_err("refused");
        assert_eq!(error, AuthError::Malformed("another ASN.1 element was expected"));
    }

    proptest! {
        #[test]
        fn written_elements_are_read_back(tag in 0_u8..0x1F, content: Vec<u8>) {
            let bytes = element(tag, &content);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.element(), Ok(Element { tag, content: &content }));
            prop_assert!(reader.is_empty());
        }
    }
}
