//! POSIX ACLs in the form in which the kernel has them, in an extended attribute.

use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

/// Version of the form that all kernels have.
const VERSION: u32 = 2;

/// Entry of an ACL, with its permissions as three bits.
#[derive(Clone, Copy)]
pub enum Entry {
    Owner(u16),
    User(u32, u16),
    OwningGroup(u16),
    Group(u32, u16),
    Mask(u16),
    Others(u16),
}

/// Gives a file an ACL, whose entries are in the kernel's order.
#[track_caller]
pub fn set(path: &Path, entries: &[Entry]) {
    set_as(path, "system.posix_acl_access", entries);
}

/// Gives a directory an ACL that new entries begin with.
#[track_caller]
pub fn set_default(path: &Path, entries: &[Entry]) {
    set_as(path, "system.posix_acl_default", entries);
}

#[track_caller]
fn set_as(path: &Path, attribute: &str, entries: &[Entry]) {
    const NO_ID: u32 = u32::MAX;
    let mut value = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        let (tag, permissions, id) = match *entry {
            Entry::Owner(permissions) => (0x01_u16, permissions, NO_ID),
            Entry::User(uid, permissions) => (0x02, permissions, uid),
            Entry::OwningGroup(permissions) => (0x04, permissions, NO_ID),
            Entry::Group(gid, permissions) => (0x08, permissions, gid),
            Entry::Mask(permissions) => (0x10, permissions, NO_ID),
            Entry::Others(permissions) => (0x20, permissions, NO_ID),
        };
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    setxattr(path, attribute, &value, XattrFlags::empty()).expect("ACLs");
}
