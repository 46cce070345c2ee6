//! Identifiers that do not reveal their source.

use aws_lc_rs::digest;

/// Bytes of a fingerprint, the size of a GUID.
pub const FINGERPRINT_LEN: usize = 16;

/// Returns the beginning of the SHA-256 hash of `purpose` and `value`. Equal arguments have equal
/// fingerprints; a fingerprint reveals neither the value nor its fingerprint for another purpose.
#[must_use]
pub fn fingerprint(purpose: &'static str, value: &[u8]) -> [u8; FINGERPRINT_LEN] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(purpose.as_bytes());
    // Ends the purpose: no purpose has a zero byte.
    context.update(&[0]);
    context.update(value);
    let hash = context.finish();
    *hash.as_ref().first_chunk().expect("a SHA-256 hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn it_is_the_beginning_of_the_hash_of_purpose_and_value() {
        // printf 'a\0bc' | sha256sum
        let want = [
            0x40, 0xbb, 0x54, 0x7d, 0x93, 0x6b, 0xbd, 0x31, 0x31, 0x8e, 0xe3, 0x7a, 0xc8, 0x79,
            0x9e, 0x7e,
        ];
        assert_eq!(fingerprint("a", b"bc"), want);
        assert_ne!(fingerprint("ab", b"c"), want);
    }
}
