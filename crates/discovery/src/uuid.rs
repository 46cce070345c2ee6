//! UUIDs in their text form: RFC 9562.

/// Returns the UUID of a version whose other bits are those of `bytes`: RFC 9562 4.
pub(crate) fn text(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0F | version << 4;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn version_and_variant_replace_their_bits_and_no_others() {
        assert_eq!(text([0xFF; 16], 4), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(text([0; 16], 8), "00000000-0000-8000-8000-000000000000");
    }
}
