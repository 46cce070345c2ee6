//! Test vectors in hexadecimal digits.

/// Decodes `text`, and ignores white space.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| u8::try_from(c.to_digit(16).expect("a hexadecimal digit")).expect("below 16"))
        .collect();
    assert!(digits.len().is_multiple_of(2), "whole bytes");
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Decodes `text` into `N` bytes.
pub(crate) fn array<const N: usize>(text: &str) -> [u8; N] {
    bytes(text).try_into().expect("the length of the array")
}
