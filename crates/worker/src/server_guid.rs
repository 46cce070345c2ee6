//! ServerGuid: [MS-SMB2] 3.3.1.5.

use dtyp::Guid;

/// Returns the GUID of the server whose supervisor has this id. All workers of a server have the
/// same one, and other servers have others: clients tell servers apart by it.
///
/// The id also names sockets and pages of the server, so the GUID, which is public, contains only
/// its hash.
pub(super) fn of(unique_id: u64) -> Guid {
    Guid(crypto::fingerprint("choro ServerGuid", &unique_id.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_guid_does_not_tell_the_id_that_it_is_made_from() {
        let id = 0x1122_3344_5566_7788_u64;
        let guid = of(id).0;
        assert_eq!(guid, of(id).0);
        assert_ne!(guid, of(id + 1).0);
        let is_part = |part: &[u8]| guid.windows(part.len()).any(|it| it == part);
        for half in id.to_le_bytes().chunks(4).chain(id.to_be_bytes().chunks(4)) {
            assert!(!is_part(half), "{guid:x?}");
        }
    }
}
