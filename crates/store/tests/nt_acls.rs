//! NT security descriptors that are kept: what is stored, what it grants, what is inherited. As
//! root the tests are another user, because nothing is refused to root.

mod support;

use bytes::Bytes;
use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, AceType, Acl, NtStatus, SecurityDescriptor, SecurityInformation, Sid,
};
use object::{Disposition, EntryDetail, LocalOpen, ObjectOp, ObjectReply, RequestedKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use store::{DefaultStyle, Hide, InheritOwner, NtAclSettings, RootSettings};
use support::{DELETE, READ, Share, WRITE, is_root};

const NONE: AceFlags = AceFlags::empty();
const ALL: AccessMask = AccessMask::FILE_ALL;
const CONTROL: AccessMask = AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC);
const DACL: SecurityInformation = SecurityInformation::DACL;

/// Of files that are tested with the server's own attribute, whoever runs the tests.
fn settings() -> NtAclSettings {
    NtAclSettings::new(is_root())
}

fn share_with(change: impl FnOnce(&mut RootSettings)) -> Share {
    let mut share = Share::with(|root| {
        root.nt_acls = Some(settings());
        change(root);
    });
    if let Some(stranger) = share.stranger() {
        share.user = stranger;
    }
    share
}

fn share() -> Share {
    share_with(|_| {})
}

/// SID of the user that the tests run as.
fn me() -> Sid {
    Sid::unix_user(if is_root() { 12_345 } else { support::me().uid })
}

fn dacl(aces: Vec<Ace>) -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(aces)),
        ..SecurityDescriptor::default()
    }
}

fn allow(sid: Sid, mask: AccessMask) -> Ace {
    Ace::allow(sid, mask, NONE)
}

fn set(
    share: &mut Share,
    open: LocalOpen,
    information: SecurityInformation,
    descriptor: &SecurityDescriptor,
) -> Result<(), NtStatus> {
    let descriptor = Bytes::from(descriptor.to_bytes());
    let information = information.bits();
    share
        .run(ObjectOp::WriteSecurity { open, information, descriptor, nfs_entries: false })
        .map(drop)
}

#[track_caller]
fn get(share: &mut Share, open: LocalOpen) -> SecurityDescriptor {
    match share.run(ObjectOp::ReadSecurity { open, information: 0xF, nfs_entries: false }) {
        Ok(ObjectReply::Security(bytes)) => SecurityDescriptor::decode(&bytes).expect("ours"),
        other => panic!("{other:?}"),
    }
}

/// Returns the entries of the DACL of `path`.
#[track_caller]
fn aces(share: &mut Share, path: &str) -> Vec<Ace> {
    let open = share.open_for(path, AccessMask::READ_CONTROL);
    let found = get(share, open);
    share.close(open);
    found.dacl.expect("a list").aces
}

/// Makes `path` with this list.
#[track_caller]
fn make(share: &mut Share, path: &str, kind: RequestedKind, aces: Vec<Ace>) {
    let created = share.try_open(path, |request| {
        request.disposition = Disposition::Create;
        request.kind = kind;
        request.desired_access = CONTROL;
    });
    let open = created.expect("it can be created").open;
    set(share, open, DACL, &dacl(aces)).expect("it is ours");
    share.close(open);
}

#[track_caller]
fn check(share: &mut Share, path: &str, wanted: AccessMask, want: NtStatus) {
    let status = share.status_of(path, |request| request.desired_access = wanted);
    assert_eq!(status, want, "{path}: {wanted:?}");
}

fn mode(share: &mut Share, path: &str) -> u32 {
    share.store.revert_to_server();
    std::fs::metadata(share.host(path)).expect("there").permissions().mode() & 0o7777
}

#[test]
fn a_descriptor_reads_as_it_was_written() {
    let mut share = share();
    let domain = Sid::new(5, &[21, 1, 2, 3, 1_104]);
    let entries = vec![
        Ace::deny(domain.clone(), AccessMask::WRITE_DATA, NONE),
        Ace::allow(me(), ALL, AceFlags::INHERITED),
        allow(domain, AccessMask::READ_EA | AccessMask::SYNCHRONIZE),
    ];
    make(&mut share, "f", RequestedKind::File, entries.clone());
    assert_eq!(aces(&mut share, "f"), entries);
    let open = share.open_for("f", CONTROL);
    assert_eq!(get(&mut share, open).owner, Some(me()));
}

#[test]
fn each_right_is_granted_by_itself() {
    let mut share = share();
    let granted = AccessMask::WRITE_DATA | AccessMask::READ_EA;
    make(&mut share, "f", RequestedKind::File, vec![allow(me(), granted)]);
    // The owner's in any case, or anyone's who reaches the file; and DELETE by the directory.
    let implied = CONTROL | AccessMask::READ_ATTRIBUTES | DELETE;
    for bit in ALL.iter() {
        let has = (granted | implied).contains(bit);
        let want = if has { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED };
        if bit != AccessMask::SYNCHRONIZE {
            check(&mut share, "f", bit, want);
        }
    }
    let opened =
        share.try_open("f", |request| request.desired_access = AccessMask::MAXIMUM_ALLOWED);
    assert_eq!(opened.expect("opened").granted_access, granted | implied);
}

#[test]
fn the_first_entry_that_names_a_right_decides() {
    let mut share = share();
    let deny = || Ace::deny(Sid::everyone(), AccessMask::WRITE_DATA, NONE);
    make(&mut share, "denied", RequestedKind::File, vec![deny(), allow(me(), READ | WRITE)]);
    make(&mut share, "granted", RequestedKind::File, vec![allow(me(), READ | WRITE), deny()]);
    check(&mut share, "denied", AccessMask::WRITE_DATA, NtStatus::ACCESS_DENIED);
    check(&mut share, "denied", AccessMask::READ_DATA, NtStatus::SUCCESS);
    check(&mut share, "granted", AccessMask::WRITE_DATA, NtStatus::SUCCESS);
}

#[test]
fn the_null_list_grants_everything_and_the_empty_one_nothing() {
    let mut share = share();
    make(&mut share, "f", RequestedKind::File, Vec::new());
    check(&mut share, "f", AccessMask::READ_DATA, NtStatus::ACCESS_DENIED);
    let open = share.open_for("f", CONTROL);
    let null =
        SecurityDescriptor { control: Control::DACL_PRESENT, ..SecurityDescriptor::default() };
    set(&mut share, open, DACL, &null).expect("the owner may");
    let found = get(&mut share, open);
    assert!(found.dacl.is_none() && found.control.contains(Control::DACL_PRESENT));
    check(&mut share, "f", ALL, NtStatus::SUCCESS);
}

#[test]
fn rights_granted_to_another_user_are_granted_by_the_kernel_too() {
    let Some(stranger) = share().stranger() else { return };
    let mut share = share();
    assert_eq!(share.user, stranger);
    let credentials = store::Credentials { uid: 23_456, gid: 23_456, ..Default::default() };
    let other = share.store.register_user(credentials);
    let entries = vec![
        allow(me(), ALL),
        allow(Sid::unix_user(23_456), READ),
        allow(Sid::unix_group(23_456), AccessMask::WRITE_DATA),
    ];
    make(&mut share, "f", RequestedKind::File, entries);
    share.user = other;
    check(&mut share, "f", AccessMask::READ_DATA, NtStatus::SUCCESS);
    check(&mut share, "f", AccessMask::WRITE_DATA, NtStatus::SUCCESS);
    check(&mut share, "f", AccessMask::WRITE_DAC, NtStatus::ACCESS_DENIED);
    let open = share.open_for("f", AccessMask::READ_DATA | AccessMask::READ_CONTROL);
    assert_eq!(get(&mut share, open).dacl.expect("a list").aces.len(), 3);
}

#[test]
fn a_local_change_of_the_mode_outweighs_the_stored_descriptor() {
    let mut share = share();
    make(&mut share, "f", RequestedKind::File, vec![allow(me(), READ | WRITE)]);
    assert_eq!(mode(&mut share, "f") & 0o700, 0o600);
    share.mode("f", 0o400);
    check(&mut share, "f", AccessMask::WRITE_DATA, NtStatus::ACCESS_DENIED);
    let found = aces(&mut share, "f");
    assert!(found.len() == 3 && found[0].mask().contains(AccessMask::READ_DATA), "{found:?}");
    // Put back as it was, it holds again.
    share.mode("f", 0o600);
    assert_eq!(aces(&mut share, "f").len(), 1);
}

#[test]
fn a_damaged_value_leaves_it_to_the_mode() {
    let mut share = share();
    make(&mut share, "f", RequestedKind::File, Vec::new());
    share.mode("f", 0o600);
    share.store.revert_to_server();
    let name = settings().attribute;
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(share.host("f"), &name, &[4, 0, 4, 0, 9], flags).expect("as the server");
    check(&mut share, "f", AccessMask::READ_DATA, NtStatus::SUCCESS);
    assert_eq!(aces(&mut share, "f").len(), 3);
}

#[test]
fn deleting_takes_the_files_right_or_the_directorys() {
    let mut share = share();
    let list = AccessMask::READ_DATA | AccessMask::EXECUTE | AccessMask::WRITE_DATA;
    make(&mut share, "d", RequestedKind::Directory, vec![allow(me(), list | CONTROL)]);
    make(&mut share, "d\\kept", RequestedKind::File, vec![allow(me(), READ)]);
    make(&mut share, "d\\own", RequestedKind::File, vec![allow(me(), DELETE)]);
    check(&mut share, "d\\kept", DELETE, NtStatus::ACCESS_DENIED);
    let own = share.open_for("d\\own", DELETE);
    share.unlink(own).expect("granted by itself");
    let open = share.open_for("d", CONTROL);
    let may = dacl(vec![allow(me(), list | CONTROL | AccessMask::DELETE_CHILD)]);
    set(&mut share, open, DACL, &may).expect("ours");
    let kept = share.open_for("d\\kept", DELETE);
    share.unlink(kept).expect("granted by the directory");
}

#[test]
fn creating_takes_the_right_to_add_it() {
    let mut share = share();
    let list = AccessMask::READ_DATA | AccessMask::EXECUTE;
    make(
        &mut share,
        "d",
        RequestedKind::Directory,
        vec![allow(me(), list | AccessMask::APPEND_DATA)],
    );
    let file = share.status_of("d\\f", |request| request.disposition = Disposition::Create);
    assert_eq!(file, NtStatus::ACCESS_DENIED);
    share.create_directory("d\\sub");
}

#[test]
fn new_objects_inherit_and_without_anything_to_inherit_the_mode_decides() {
    let mut share = share();
    let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let entries = vec![
        Ace::allow(Sid::creator_owner(), READ | WRITE, flags | AceFlags::INHERIT_ONLY),
        allow(me(), ALL),
    ];
    make(&mut share, "d", RequestedKind::Directory, entries);
    let open = share.create("d\\f");
    share.close(open);
    assert_eq!(aces(&mut share, "d\\f"), [allow(me(), READ | WRITE)]);
    let open = share.create_directory("d\\sub");
    share.close(open);
    assert_eq!(aces(&mut share, "d\\sub").len(), 2);
    let open = share.create("plain");
    let found = get(&mut share, open);
    assert_eq!(found.dacl.expect("a list").aces.len(), 3, "owner, group, everyone");
}

#[test]
fn a_descriptor_that_comes_with_the_request_outweighs_the_directorys() {
    let mut share = share();
    let flags = AceFlags::OBJECT_INHERIT;
    let entries = vec![Ace::allow(Sid::everyone(), READ, flags), allow(me(), ALL)];
    make(&mut share, "d", RequestedKind::Directory, entries);
    let given = dacl(vec![allow(me(), AccessMask::GENERIC_READ)]);
    let created = share.try_open("d\\f", |request| {
        request.disposition = Disposition::Create;
        request.security = Some(Bytes::from(given.to_bytes()));
        request.desired_access = ALL;
    });
    // The creator gets the requested access with this open only.
    let created = created.expect("created");
    assert_eq!(created.granted_access, ALL);
    share.close(created.open);
    assert_eq!(aces(&mut share, "d\\f"), [allow(me(), READ)]);
    check(&mut share, "d\\f", AccessMask::WRITE_DATA, NtStatus::ACCESS_DENIED);
}

#[test]
fn inherited_counts_only_if_it_was_asked_for() {
    let mut share = share();
    make(&mut share, "f", RequestedKind::File, vec![allow(me(), ALL)]);
    let open = share.open_for("f", CONTROL);
    let mut given = dacl(vec![allow(me(), ALL)]);
    let bits = Control::DACL_AUTO_INHERITED | Control::DACL_PROTECTED;
    for (asked, want) in
        [(bits, Control::DACL_PROTECTED), (bits | Control::DACL_AUTO_INHERIT_REQ, bits)]
    {
        given.control = Control::DACL_PRESENT | asked;
        set(&mut share, open, DACL, &given).expect("ours");
        let found = get(&mut share, open).control;
        assert_eq!(found & (bits | Control::DACL_AUTO_INHERIT_REQ), want);
    }
}

#[test]
fn ownership_is_taken_and_not_given() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let mine = share.user;
    let credentials = store::Credentials { uid: 23_456, gid: 23_456, ..Default::default() };
    let other = share.store.register_user(credentials);
    let entries = vec![allow(me(), ALL), allow(Sid::everyone(), AccessMask::WRITE_OWNER)];
    make(&mut share, "f", RequestedKind::File, entries);
    let owner = SecurityInformation::OWNER;
    let to = |uid| SecurityDescriptor {
        owner: Some(Sid::unix_user(uid)),
        ..SecurityDescriptor::default()
    };
    let open = share.open_for("f", AccessMask::WRITE_OWNER);
    assert_eq!(set(&mut share, open, owner, &to(23_456)), Err(NtStatus::INVALID_OWNER));
    share.user = other;
    let open = share.open_for("f", AccessMask::WRITE_OWNER);
    set(&mut share, open, owner, &to(23_456)).expect("its own");
    share.store.revert_to_server();
    assert_eq!(std::fs::metadata(share.host("f")).expect("there").uid(), 23_456);
    // The list still stands, and grants the first owner what it says.
    share.user = mine;
    check(&mut share, "f", AccessMask::READ_DATA | AccessMask::WRITE_DATA, NtStatus::SUCCESS);
    let open = share.open_for("f", AccessMask::READ_CONTROL);
    assert_eq!(get(&mut share, open).owner, Some(Sid::unix_user(23_456)));
}

#[test]
fn the_owner_by_another_name_is_still_the_owner() {
    // A domain's SID for the user, as another server stores it: the kernel's owner is its owner.
    let mut share = share();
    make(&mut share, "f", RequestedKind::File, vec![allow(Sid::everyone(), AccessMask::READ_EA)]);
    let open = share.open_for("f", CONTROL | AccessMask::READ_EA);
    let everyone =
        SecurityDescriptor { owner: Some(Sid::everyone()), ..SecurityDescriptor::default() };
    set(&mut share, open, SecurityInformation::OWNER, &everyone).expect("in everyone's token");
    assert_eq!(get(&mut share, open).owner, Some(Sid::everyone()));
    share.store.revert_to_server();
    let uid = std::fs::metadata(share.host("f")).expect("there").uid();
    assert_eq!(Sid::unix_user(uid), me(), "stands for nobody in particular");
}

#[test]
fn the_audit_list_takes_a_privilege() {
    let mut share = share();
    share.create("f");
    check(&mut share, "f", AccessMask::ACCESS_SYSTEM_SECURITY, NtStatus::PRIVILEGE_NOT_HELD);
    if !is_root() {
        return;
    }
    share.user = share.store.register_user(support::me());
    let open = share.open_for("f", CONTROL | AccessMask::ACCESS_SYSTEM_SECURITY);
    let flags = AceFlags::SUCCESSFUL_ACCESS;
    let audit = Ace::simple(AceType::SYSTEM_AUDIT, Sid::everyone(), WRITE, flags);
    let given = SecurityDescriptor {
        control: Control::SACL_PRESENT,
        sacl: Some(Acl::new(vec![audit.clone()])),
        ..SecurityDescriptor::default()
    };
    set(&mut share, open, SecurityInformation::SACL, &given).expect("root may");
    assert_eq!(get(&mut share, open).sacl.expect("a list").aces, [audit]);
}

#[test]
fn with_ignored_system_acls_descriptors_alone_decide() {
    for (style, entries) in
        [(DefaultStyle::Everyone, 1), (DefaultStyle::Posix, 4), (DefaultStyle::Windows, 2)]
    {
        let mut share = share_with(|root| {
            let kept =
                NtAclSettings { ignore_system_acls: true, default_style: style, ..settings() };
            root.nt_acls = Some(kept);
            root.create_mask = 0o777;
        });
        if is_root() {
            // So that the directory too is the user's, who may add to it in every style.
            std::os::unix::fs::chown(share.host(""), Some(12_345), None).expect("root");
        }
        let open = share.create("f");
        assert_eq!(get(&mut share, open).dacl.expect("a list").aces.len(), entries, "{style:?}");
        let before = mode(&mut share, "f");
        make(&mut share, "g", RequestedKind::File, vec![allow(me(), READ)]);
        assert_eq!(mode(&mut share, "g"), before, "{style:?}");
        check(&mut share, "g", AccessMask::WRITE_DATA, NtStatus::ACCESS_DENIED);
        share.mode("g", 0o644);
        assert_eq!(aces(&mut share, "g").len(), 1, "the mode says nothing");
    }
}

/// [MS-FSA] 2.1.5.1.1 and 2.1.5.1.2.
#[test]
fn making_or_emptying_a_stream_takes_the_right_to_write_the_file() {
    let mut share = share_with(|root| {
        root.nt_acls = Some(NtAclSettings { ignore_system_acls: true, ..settings() });
        root.create_mask = 0o777;
    });
    for path in ["f", "f:s"] {
        let open = share.create(path);
        share.close(open);
    }
    let open = share.open_for("f", CONTROL);
    set(&mut share, open, DACL, &dacl(vec![allow(me(), READ)])).expect("ours");
    share.close(open);
    for (path, disposition) in [
        ("f:s", Disposition::OverwriteIf),
        ("f:s", Disposition::Supersede),
        ("f:new", Disposition::OpenIf),
        ("f:new", Disposition::Create),
    ] {
        let status = share.status_of(path, |request| {
            request.disposition = disposition;
            request.desired_access = AccessMask::READ_ATTRIBUTES;
        });
        assert_eq!(status, NtStatus::ACCESS_DENIED, "{path}: {disposition:?}");
    }
    check(&mut share, "f:s", READ, NtStatus::SUCCESS);
}

#[test]
fn removing_a_link_takes_the_right_to_change_its_directory() {
    let mut share = share();
    if !is_root() {
        return;
    }
    make(&mut share, "f", RequestedKind::File, vec![allow(me(), ALL)]);
    share.local_directory("d");
    share.mode("d", 0o755);
    std::os::unix::fs::symlink("../f", share.host("d/link")).expect("root");
    let open = share.open_for("d\\link", DELETE);
    assert_eq!(share.unlink(open), Err(NtStatus::ACCESS_DENIED));
    share.store.revert_to_server();
    assert!(std::fs::symlink_metadata(share.host("d/link")).is_ok(), "it stays");
}

#[test]
fn parts_of_a_sacl_that_are_too_long_together_are_refused() {
    let mut share = share();
    make(&mut share, "f", RequestedKind::File, vec![allow(me(), ALL)]);
    let open = share.open_for("f", ALL);
    let sacl = |ace_type, count| {
        let ace = Ace::simple(ace_type, Sid::everyone(), READ, NONE);
        let (control, sacl) = (Control::SACL_PRESENT, Some(Acl::new(vec![ace; count])));
        SecurityDescriptor { control, sacl, ..SecurityDescriptor::default() }
    };
    let attributes = sacl(AceType::SYSTEM_RESOURCE_ATTRIBUTE, 100);
    set(&mut share, open, SecurityInformation::ATTRIBUTE, &attributes).expect("ours");
    let labels = sacl(AceType::SYSTEM_MANDATORY_LABEL, 3_200);
    let too_long = set(&mut share, open, SecurityInformation::LABEL, &labels);
    assert_eq!(too_long, Err(NtStatus::INVALID_ACL));
}

#[test]
fn the_owner_can_be_the_directorys() {
    if !is_root() {
        return;
    }
    for (inherit, descriptor_owner) in
        [(InheritOwner::WindowsAndUnix, 0), (InheritOwner::UnixOnly, 12_345)]
    {
        let mut share = share_with(|root| root.inherit_owner = inherit);
        share.local_directory("d");
        share.mode("d", 0o777);
        // As root, so that the directory has a descriptor, and everyone may use it.
        let stranger = share.user;
        share.user = share.store.register_user(support::me());
        let open = share.open_for("d", CONTROL);
        let flags = AceFlags::OBJECT_INHERIT;
        let list = dacl(vec![Ace::allow(Sid::everyone(), ALL, flags)]);
        set(&mut share, open, DACL, &list).expect("root may");
        share.user = stranger;
        let open = share.create("d\\f");
        let found = get(&mut share, open);
        assert_eq!(found.owner, Some(Sid::unix_user(descriptor_owner)), "{inherit:?}");
        share.store.revert_to_server();
        assert_eq!(std::fs::metadata(share.host("d/f")).expect("there").uid(), 0);
    }
}

#[test]
fn listings_leave_out_files_the_user_may_not_read() {
    let mut share = share_with(|root| {
        root.hide = Hide { unreadable: true, ..Hide::default() };
    });
    make(&mut share, "seen", RequestedKind::File, vec![allow(me(), READ)]);
    let partly = READ.difference(AccessMask::READ_EA);
    make(&mut share, "unseen", RequestedKind::File, vec![allow(me(), partly)]);
    let open = share.open("");
    let op = ObjectOp::ReadDirectory {
        open,
        restart: true,
        detail: EntryDetail::Name,
        entries_max: 100,
    };
    let Ok(ObjectReply::Entries(entries)) = share.run(op) else { panic!("a listing") };
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, [".", "..", "seen"]);
}

#[test]
fn the_attribute_is_nobodys_extended_attribute() {
    let mut share = share_with(|root| {
        let attribute = "user.hackme".to_owned();
        root.nt_acls = Some(NtAclSettings { attribute, ..settings() });
    });
    make(&mut share, "f", RequestedKind::File, vec![allow(me(), ALL)]);
    let open = share.open_for("f", ALL);
    match share.run(ObjectOp::ReadExtendedAttributes { open }) {
        Ok(ObjectReply::ExtendedAttributes(found)) => assert!(found.is_empty(), "{found:?}"),
        other => panic!("{other:?}"),
    }
    let attributes = vec![object::ExtendedAttribute {
        flags: 0,
        name: "HackMe".to_owned(),
        value: b"x".to_vec(),
    }];
    let written = share.run(ObjectOp::WriteExtendedAttributes { open, attributes });
    assert_eq!(written.map(drop), Err(NtStatus::ACCESS_DENIED));
}

#[test]
fn a_descriptor_without_listing_hides_the_names_of_its_directory() {
    let mut share = share();
    let path = object::ObjectPath::parse("d").expect("a path");
    for (mask, wanted) in [(ALL - AccessMask::READ_DATA, false), (ALL, true)] {
        make(&mut share, "d", RequestedKind::Directory, vec![allow(me(), mask)]);
        assert_eq!(share.store.may_list(share.user, share.root, &path), Some(wanted));
        share.store.revert_to_server();
        std::fs::remove_dir(share.host("d")).expect("it is empty");
    }
}
