use super::{Creator, inherited_descriptor};
use crate::security_descriptor::Control;
use crate::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};

const NONE: AceFlags = AceFlags::empty();
const FILES: AceFlags = AceFlags::OBJECT_INHERIT;
const FOLDERS: AceFlags = AceFlags::CONTAINER_INHERIT;
const ONLY: AceFlags = AceFlags::INHERIT_ONLY;
const ONCE: AceFlags = AceFlags::NO_PROPAGATE_INHERIT;

fn owner() -> Sid {
    Sid::unix_user(1_000)
}

fn parent(trustee: Sid, flags: AceFlags) -> SecurityDescriptor {
    let inheritable = Ace::allow(trustee, AccessMask::WRITE_DATA, flags);
    let own = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, NONE);
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![inheritable, own])),
        ..SecurityDescriptor::default()
    }
}

/// Trustees and flags of the inherited entries.
fn child(parent: &SecurityDescriptor, container: bool) -> Vec<(Sid, AceFlags)> {
    let (owner, group) = (owner(), Sid::unix_group(1_000));
    let creator = Creator { owner: &owner, group: &group };
    let child = inherited_descriptor(parent, creator, container);
    let aces = child.map(|child| child.dacl.expect("a list").aces).unwrap_or_default();
    aces.into_iter().map(|ace| (ace.sid().expect("simple").clone(), ace.flags)).collect()
}

#[track_caller]
fn check(trustee: &Sid, flags: AceFlags, file: &[(Sid, AceFlags)], folder: &[(Sid, AceFlags)]) {
    let parent = parent(trustee.clone(), flags);
    assert_eq!(child(&parent, false), file, "file, {flags:?}");
    assert_eq!(child(&parent, true), folder, "directory, {flags:?}");
}

#[test]
fn flags_decide_on_inheriting_and_on_passing_on() {
    let sid = Sid::users();
    let here = [(sid.clone(), NONE)];
    check(&sid, NONE, &[], &[]);
    check(&sid, FILES, &here, &[(sid.clone(), FILES | ONLY)]);
    check(&sid, FOLDERS, &[], &[(sid.clone(), FOLDERS)]);
    check(&sid, FILES | FOLDERS, &here, &[(sid.clone(), FILES | FOLDERS)]);
    check(&sid, FILES | FOLDERS | ONLY, &here, &[(sid.clone(), FILES | FOLDERS)]);
    check(&sid, FILES | ONCE, &here, &[]);
    check(&sid, FILES | FOLDERS | ONCE, &here, &here);
    check(&sid, ONLY | ONCE, &[], &[]);
}

#[test]
fn the_creator_takes_the_place_of_creator_owner() {
    let sid = Sid::creator_owner();
    let here = [(owner(), NONE)];
    check(&sid, FILES, &here, &[(sid.clone(), FILES | ONLY)]);
    check(&sid, FOLDERS, &[], &[(owner(), NONE), (sid.clone(), FOLDERS | ONLY)]);
    check(&sid, FOLDERS | ONCE, &[], &here);
}

#[test]
fn entries_are_marked_inherited_if_the_parents_list_was_computed_so() {
    let mut parent = parent(Sid::users(), FILES | AceFlags::INHERITED);
    assert_eq!(child(&parent, false), [(Sid::users(), NONE)]);
    parent.control |= Control::DACL_AUTO_INHERITED;
    assert_eq!(child(&parent, false), [(Sid::users(), AceFlags::INHERITED)]);
}

#[test]
fn an_ace_inherited_twice_is_there_once() {
    let mut parent = parent(Sid::creator_owner(), FILES);
    let named = Ace::allow(owner(), AccessMask::WRITE_DATA, FILES);
    parent.dacl.as_mut().expect("a list").aces.push(named);
    assert_eq!(child(&parent, false), [(owner(), NONE)]);
}

#[test]
fn a_list_that_grows_by_its_creators_keeps_to_its_form() {
    let flags = FILES | FOLDERS;
    let entries = (0..2_500).map(|bit| {
        let mask = AccessMask::from_bits_retain(bit);
        Ace::allow(Sid::creator_owner(), mask, flags)
    });
    let parent = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(entries.collect())),
        ..SecurityDescriptor::default()
    };
    let (owner, group) = (owner(), Sid::unix_group(1));
    let child = inherited_descriptor(&parent, Creator { owner: &owner, group: &group }, true);
    let bytes = child.expect("inherits").to_bytes();
    assert!(SecurityDescriptor::decode(&bytes).is_some());
}
