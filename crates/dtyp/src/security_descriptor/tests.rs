use super::{Control, SecurityDescriptor};
use crate::ace::AceBody;
use crate::{AccessMask, Ace, AceFlags, AceType, Acl, SecurityInformation, Sid};
use proptest::prelude::*;

fn full() -> SecurityDescriptor {
    let inherit = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    SecurityDescriptor {
        control: Control::SELF_RELATIVE
            | Control::DACL_PRESENT
            | Control::SACL_PRESENT
            | Control::DACL_PROTECTED,
        owner: Some(Sid::unix_user(1000)),
        group: Some(Sid::unix_group(100)),
        sacl: Some(Acl::new(vec![
            Ace::simple(
                AceType::SYSTEM_AUDIT,
                Sid::everyone(),
                AccessMask::WRITE_DATA,
                AceFlags::SUCCESSFUL_ACCESS,
            ),
            Ace::simple(
                AceType::SYSTEM_MANDATORY_LABEL,
                Sid::new(16, &[0x2000]),
                AccessMask::READ_DATA,
                AceFlags::empty(),
            ),
        ])),
        dacl: Some(Acl::new(vec![
            Ace::deny(Sid::anonymous(), AccessMask::FILE_ALL, AceFlags::empty()),
            Ace::allow(Sid::everyone(), AccessMask::FILE_GENERIC_READ, inherit),
            Ace {
                ace_type: AceType::ACCESS_ALLOWED_OBJECT,
                flags: AceFlags::empty(),
                body: AceBody::Opaque((0..36).collect()),
            },
        ])),
    }
}

/// The descriptor of Windows for a file with all rights for everyone.
#[test]
fn vector_decodes_and_encodes() {
    #[rustfmt::skip]
    let bytes = [
        1, 0, 0x04, 0x80, 20, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0,
        1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
        1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
        2, 0, 28, 0, 1, 0, 0, 0,
        0, 3, 20, 0, 0xFF, 0x01, 0x1F, 0x00, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
    ];
    let descriptor = SecurityDescriptor::decode(&bytes).expect("a valid descriptor");
    assert_eq!(descriptor.owner, Some(Sid::administrators()));
    assert_eq!(descriptor.sacl, None);
    let inherit = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    assert_eq!(
        descriptor.dacl,
        Some(Acl::new(vec![Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, inherit)]))
    );
    assert_eq!(descriptor.to_bytes(), bytes);
}

#[test]
fn all_parts_round_trip_and_every_prefix_is_refused() {
    let bytes = full().to_bytes();
    assert_eq!(bytes.len(), full().encoded_len());
    assert_eq!(SecurityDescriptor::decode(&bytes), Some(full()));
    for cut in 0..bytes.len() {
        assert_eq!(SecurityDescriptor::decode(&bytes[..cut]), None, "{cut}");
    }
}

#[test]
fn offsets_into_the_header_or_beyond_the_end_are_refused() {
    let bytes = full().to_bytes();
    for field in [4, 8, 12, 16] {
        for offset in [1, 19, u32::try_from(bytes.len()).expect("small"), u32::MAX] {
            let mut bad = bytes.clone();
            bad[field..field + 4].copy_from_slice(&offset.to_le_bytes());
            assert_eq!(SecurityDescriptor::decode(&bad), None, "{field} {offset}");
        }
    }
}

#[test]
fn a_null_dacl_is_not_an_empty_one() {
    let null = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        ..SecurityDescriptor::default()
    };
    assert_eq!(SecurityDescriptor::decode(&null.to_bytes()), Some(null.clone()));
    let empty = SecurityDescriptor { dacl: Some(Acl::new(Vec::new())), ..null };
    assert_eq!(SecurityDescriptor::decode(&empty.to_bytes()), Some(empty));
}

#[test]
fn an_acl_that_is_not_marked_present_is_left_out() {
    let mut bytes = full().to_bytes();
    bytes[2] &= !4;
    let descriptor = SecurityDescriptor::decode(&bytes).expect("valid without its DACL");
    assert_eq!(descriptor.dacl, None);
    assert!(descriptor.sacl.is_some());
}

#[test]
fn a_query_selects_parts() {
    let owner = full().select(SecurityInformation::OWNER);
    assert_eq!((&owner.owner, &owner.group), (&full().owner, &None));
    assert!(owner.dacl.is_none() && !owner.control.contains(Control::DACL_PRESENT));
    let dacl = full().select(SecurityInformation::DACL);
    assert_eq!((&dacl.dacl, &dacl.sacl), (&full().dacl, &None));
    assert!(dacl.control.contains(Control::DACL_PROTECTED));
    let label = full().select(SecurityInformation::LABEL).sacl.expect("the SACL's label");
    assert_eq!(label.aces.len(), 1);
    assert_eq!(label.aces[0].ace_type, AceType::SYSTEM_MANDATORY_LABEL);
    let audit = full().select(SecurityInformation::SACL).sacl.expect("the SACL's audit");
    assert_eq!(audit.aces[0].ace_type, AceType::SYSTEM_AUDIT);
    assert_eq!(full().select(SecurityInformation::BACKUP), full());
}

#[test]
fn a_set_replaces_parts_and_leaves_the_others() {
    let mut descriptor = full();
    let new = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        owner: Some(Sid::system()),
        dacl: Some(Acl::new(Vec::new())),
        ..SecurityDescriptor::default()
    };
    descriptor.replace(SecurityInformation::DACL, new.clone());
    assert_eq!(descriptor.owner, full().owner);
    assert_eq!(descriptor.dacl, Some(Acl::new(Vec::new())));
    assert!(!descriptor.control.contains(Control::DACL_PROTECTED));
    descriptor.replace(SecurityInformation::OWNER | SecurityInformation::LABEL, new);
    assert_eq!(descriptor.owner, Some(Sid::system()));
    let audit = descriptor.sacl.expect("audit entries stay");
    assert_eq!(audit.aces.len(), 1);
    assert_eq!(audit.aces[0].ace_type, AceType::SYSTEM_AUDIT);
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = SecurityDescriptor::decode(&bytes);
        let _ = Acl::decode(&bytes);
    }

    #[test]
    fn a_decoded_descriptor_round_trips(position in 0_usize..200, value in any::<u8>()) {
        let mut bytes = full().to_bytes();
        let position = position % bytes.len();
        bytes[position] = value;
        if let Some(descriptor) = SecurityDescriptor::decode(&bytes) {
            let again = SecurityDescriptor::decode(&descriptor.to_bytes()).expect("its own form");
            prop_assert_eq!(again.dacl, descriptor.dacl);
            prop_assert_eq!(again.sacl, descriptor.sacl);
        }
    }
}
