//! Self-relative security descriptors, and access checks against them.
#![no_main]

use dtyp::{AccessMask, Privileges, SecurityDescriptor, SecurityInformation, Sid, Token};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = Sid::decode(input);
    let Some(descriptor) = SecurityDescriptor::decode(input) else { return };
    let bytes = descriptor.to_bytes();
    assert_eq!(bytes.len(), descriptor.encoded_len());
    let again = SecurityDescriptor::decode(&bytes).expect("what we encode decodes");
    assert_eq!(again.to_bytes(), bytes, "understood alike both times");
    let dacl = descriptor.select(SecurityInformation::DACL);
    let mut replaced = descriptor.clone();
    replaced.replace(SecurityInformation::DACL, dacl);
    assert_eq!(replaced.dacl, descriptor.dacl);
    let user = Sid::unix_user(1_000);
    let groups = [Sid::everyone()];
    let token = Token { user: &user, groups: &groups, privileges: Privileges::default() };
    for desired in [AccessMask::FILE_GENERIC_READ, AccessMask::MAXIMUM_ALLOWED] {
        let _ = dtyp::access_check(&descriptor, &token, desired);
    }
});
