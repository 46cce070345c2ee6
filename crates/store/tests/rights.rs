//! Rights of impersonated users, and their security descriptors. As root the tests impersonate
//! other users; without root the tests about strangers end at once.

mod support;

use bytes::Bytes;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, FileTime, NtStatus, SecurityDescriptor, SecurityInformation,
    Sid,
};
use object::{BasicChange, Disposition, LocalOpen, ObjectOp, ObjectReply};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use store::{Credentials, Started, Store, StoreSettings};
use support::{DELETE, READ, Share, WRITE, is_root};

const STRANGER: u32 = 12_345;

/// A share whose requests come from a user other than the server's, if that can be.
fn share_of_stranger() -> Option<Share> {
    let mut share = Share::new();
    share.user = share.stranger()?;
    Some(share)
}

#[test]
fn files_belong_to_their_creator() {
    let Some(mut share) = share_of_stranger() else { return };
    share.create("f");
    share.create_directory("d");
    share.store.revert_to_server();
    for name in ["f", "d"] {
        let metadata = std::fs::metadata(share.host(name)).expect("there");
        assert_eq!((metadata.uid(), metadata.gid()), (STRANGER, STRANGER), "{name}");
    }
}

#[test]
fn asking_for_the_maximum_deletes_nothing_that_the_user_may_not() {
    let Some(mut share) = share_of_stranger() else { return };
    for (mode, want) in [(0o755, NtStatus::ACCESS_DENIED), (0o777, NtStatus::SUCCESS)] {
        share.local_directory("d");
        share.mode("d", mode);
        share.local("d/f", "root's");
        let status = share.status_of("d\\f", |request| {
            request.desired_access = AccessMask::MAXIMUM_ALLOWED;
            request.delete_on_close = true;
        });
        assert_eq!(status, want, "{mode:o}");
        share.store.revert_to_server();
        std::fs::remove_dir_all(share.host("d")).expect("it is there");
    }
}

#[test]
fn the_mode_decides_on_the_rights_of_a_stranger() {
    let Some(mut share) = share_of_stranger() else { return };
    let data = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    for (mode, granted) in [
        (0o600, AccessMask::empty()),
        (0o604, AccessMask::READ_DATA),
        (0o602, AccessMask::WRITE_DATA),
        (0o606, data),
    ] {
        share.local("f", "secret");
        share.mode("f", mode);
        let maximum = share.try_open("f", |r| r.desired_access = AccessMask::MAXIMUM_ALLOWED);
        let maximum = maximum.expect("attributes are everyone's");
        assert_eq!(maximum.granted_access & data, granted, "{mode:o}");
        assert!(!maximum.granted_access.contains(AccessMask::WRITE_DAC));
        share.close(maximum.open);
        for right in [AccessMask::READ_DATA, AccessMask::WRITE_DATA] {
            let status = share.status_of("f", |request| request.desired_access = right);
            let want =
                if granted.contains(right) { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED };
            assert_eq!(status, want, "{mode:o} {right:?}");
        }
    }
}

#[test]
fn groups_count() {
    let Some(mut share) = share_of_stranger() else { return };
    share.local("f", "x");
    share.mode("f", 0o640);
    std::os::unix::fs::chown(share.host("f"), None, Some(12_346)).expect("root");
    assert_eq!(share.status_of("f", |r| r.desired_access = READ), NtStatus::SUCCESS);
    assert_eq!(share.status_of("f", |r| r.desired_access = WRITE), NtStatus::ACCESS_DENIED);
}

#[test]
fn deleting_is_a_right_on_the_directory() {
    let Some(mut share) = share_of_stranger() else { return };
    share.local_directory("closed");
    share.local("closed/f", "x");
    share.mode("closed/f", 0o666);
    share.mode("closed", 0o755);
    let access = READ | WRITE | DELETE;
    assert_eq!(
        share.status_of("closed\\f", |r| r.desired_access = DELETE),
        NtStatus::ACCESS_DENIED
    );
    share.mode("closed", 0o777);
    assert_eq!(share.status_of("closed\\f", |r| r.desired_access = access), NtStatus::SUCCESS);
    // In a sticky directory only the owners may.
    share.mode("closed", 0o1777);
    assert_eq!(
        share.status_of("closed\\f", |r| r.desired_access = DELETE),
        NtStatus::ACCESS_DENIED
    );
    let own = share.create("closed\\own");
    share.unlink(own).expect("its own");
}

/// Anybody can put a link to somebody else's file into an own directory.
#[test]
fn a_link_gives_no_right_to_delete_its_target() {
    let Some(mut share) = share_of_stranger() else { return };
    share.local_directory("closed");
    share.local("closed/f", "x");
    share.mode("closed", 0o711);
    let writer = share.create("f2:notes");
    share.write(writer, 0, b"notes");
    share.close(writer);
    share.store.revert_to_server();
    std::fs::rename(share.host("f2"), share.host("closed/f")).expect("root");
    std::os::unix::fs::chown(share.host("closed/f"), Some(0), Some(0)).expect("root");
    std::os::unix::fs::symlink("closed/f", share.host("link")).expect("root");
    for mode in [0o600, 0o644] {
        share.mode("closed/f", mode);
        for path in ["link", "link:notes", "closed\\f", "closed\\f:notes"] {
            for access in [DELETE, AccessMask::READ_ATTRIBUTES | DELETE] {
                let status = share.status_of(path, |request| request.desired_access = access);
                assert_ne!(status, NtStatus::SUCCESS, "{path} {mode:o}");
            }
        }
    }
    let link = share.try_open("link", |request| {
        request.desired_access = DELETE;
        request.open_reparse_point = true;
    });
    share.unlink(link.expect("the link itself").open).expect("the directory's right");
    share.store.revert_to_server();
    assert!(!share.host("link").is_symlink());
    assert_eq!(share.content("closed/f"), "");
    // Whoever may change the target has a right to it anyway.
    std::os::unix::fs::symlink("closed/f", share.host("link")).expect("root");
    share.mode("closed/f", 0o666);
    let link = share.open_for("link", DELETE);
    share.unlink(link).expect("the directory's right");
    share.store.revert_to_server();
    assert!(!share.host("link").is_symlink() && share.host("closed/f").exists());
}

/// Its removal is a change of the file, which another worker may carry out as root.
#[test]
fn a_user_without_the_right_to_write_a_file_deletes_no_stream_of_it() {
    let Some(mut share) = share_of_stranger() else { return };
    for (mode, want) in [
        (0o444, NtStatus::ACCESS_DENIED),
        (0o644, NtStatus::ACCESS_DENIED),
        (0o646, NtStatus::SUCCESS),
    ] {
        let writer = share.create("f:notes");
        share.close(writer);
        share.store.revert_to_server();
        std::os::unix::fs::chown(share.host("f"), Some(0), Some(0)).expect("root");
        share.mode("f", mode);
        let status = share.status_of("f:notes", |request| {
            request.desired_access = DELETE;
            request.delete_on_close = true;
        });
        assert_eq!(status, want, "{mode:o}");
        assert_eq!(
            share.status_of("f", |request| request.desired_access = DELETE),
            NtStatus::SUCCESS
        );
        share.store.revert_to_server();
        std::fs::remove_file(share.host("f")).expect("root");
    }
}

#[test]
fn a_directory_that_may_not_be_searched_hides_its_files() {
    let Some(mut share) = share_of_stranger() else { return };
    share.local_directory("d");
    share.local("d/f", "x");
    share.mode("d", 0o700);
    assert_eq!(share.status_of("d\\f", |_| {}), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("d", |r| r.desired_access = READ), NtStatus::ACCESS_DENIED);
    let create = share.status_of("d\\new", |r| r.disposition = Disposition::Create);
    assert_eq!(create, NtStatus::ACCESS_DENIED);
    // May be passed, though not read: names must be exact then.
    share.mode("d", 0o711);
    assert_eq!(share.status_of("d\\f", |_| {}), NtStatus::SUCCESS);
    assert_eq!(share.status_of("d\\F", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn requests_of_two_users_keep_their_rights_apart() {
    let Some(mut share) = share_of_stranger() else { return };
    let stranger = share.user;
    let server = share.store.register_user(support::me());
    share.local("f", "secret");
    share.mode("f", 0o600);
    for _ in 0..3 {
        share.user = stranger;
        assert_eq!(share.status_of("f", |_| {}), NtStatus::ACCESS_DENIED);
        share.user = server;
        assert_eq!(share.status_of("f", |_| {}), NtStatus::SUCCESS);
    }
}

#[test]
fn nothing_runs_for_a_user_that_cannot_be_impersonated() {
    let mut share = Share::new();
    share.local("f", "x");
    let unknown = object::UserId(1_000);
    let request = share.request("f");
    let started = share.store.start(unknown, ObjectOp::Open(Box::new(request)));
    assert!(matches!(started, Started::Done(Err(NtStatus::ACCESS_DENIED))));
    // For the kernel minus one means "keep the present id", root's.
    let nobody = Credentials { uid: u32::MAX, gid: u32::MAX, ..Credentials::default() };
    let settings = StoreSettings { impersonate_users: true, ..StoreSettings::default() };
    let mut store = Store::new(settings);
    let nobody = store.register_user(nobody);
    let root = store.open_root(store::RootSettings::new(share.host("")), nobody);
    assert_eq!(root, Err(NtStatus::ACCESS_DENIED));
}

/// The rights of a share let a user connect to it, whatever those of its folder are.
#[test]
fn a_root_that_may_not_be_entered_is_opened_and_nothing_in_it() {
    let mut share = Share::new();
    let Some(stranger) = share.stranger() else { return };
    share.local("f", "");
    share.mode("", 0o700);
    let settings = store::RootSettings::new(share.host(""));
    share.root = share.store.open_root(settings, stranger).expect("the folder is there");
    share.user = stranger;
    assert_eq!(share.status_of("f", |_| {}), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("", |_| {}), NtStatus::ACCESS_DENIED);
}

#[test]
fn a_store_that_may_not_change_users_denies_instead_of_ignoring() {
    if is_root() {
        return;
    }
    let share = Share::new();
    let mut store =
        Store::new(StoreSettings { impersonate_users: true, ..StoreSettings::default() });
    let other = store.register_user(Credentials { uid: 1, gid: 1, ..Credentials::default() });
    let root = store.open_root(store::RootSettings::new(share.host("")), other);
    assert_eq!(root, Err(NtStatus::ACCESS_DENIED));
}

#[test]
fn the_right_to_write_a_file_permits_setting_its_times() {
    let Some(mut share) = share_of_stranger() else { return };
    share.local("f", "x");
    share.mode("f", 0o666);
    let open = share.open_for("f", AccessMask::WRITE_ATTRIBUTES);
    let time = FileTime(131_000_000_000_000_000);
    share.set(open, BasicChange { last_write_time: Some(time), ..BasicChange::default() });
    assert_eq!(share.metadata(open).last_write_time, time);
    // The rights of the server are put down again.
    share.local("g", "x");
    share.mode("g", 0o600);
    assert_eq!(share.status_of("g", |_| {}), NtStatus::ACCESS_DENIED);
}

#[test]
fn an_owner_has_full_control_of_a_file() {
    let Some(mut share) = share_of_stranger() else { return };
    let open = share.create("f");
    share.close(open);
    let all = AccessMask::FILE_ALL;
    assert_eq!(share.status_of("f", |request| request.desired_access = all), NtStatus::SUCCESS);
    let opened = share.try_open("f", |_| {}).expect("opened");
    assert_eq!(opened.maximal_access, all);
}

#[track_caller]
fn descriptor(share: &mut Share, open: LocalOpen) -> SecurityDescriptor {
    let op = ObjectOp::ReadSecurity { open, information: 7, nfs_entries: false };
    match share.run(op) {
        Ok(ObjectReply::Security(bytes)) => SecurityDescriptor::decode(&bytes).expect("ours"),
        other => panic!("{other:?}"),
    }
}

fn write(
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

fn mode(share: &mut Share, name: &str) -> u32 {
    share.store.revert_to_server();
    std::fs::metadata(share.host(name)).expect("there").permissions().mode() & 0o7777
}

#[test]
fn a_mode_reads_as_three_entries() {
    let mut share = Share::new();
    share.local("f", "x");
    share.mode("f", 0o640);
    let open = share.open("f");
    let me = support::me();
    let found = descriptor(&mut share, open);
    assert_eq!(found.owner, Some(Sid::unix_user(me.uid)));
    assert_eq!(found.group, Some(Sid::unix_group(me.gid)));
    let dacl = found.dacl.expect("a list");
    let masks: Vec<_> = dacl.aces.iter().map(Ace::mask).collect();
    assert_eq!(masks[0], AccessMask::FILE_ALL);
    assert!(masks[1].contains(READ) && !masks[1].contains(AccessMask::WRITE_DATA));
    assert!(!masks[2].contains(AccessMask::READ_DATA));
    assert_eq!(dacl.aces[2].sid(), Some(&Sid::everyone()));
}

#[test]
fn a_descriptor_that_was_read_can_be_written_back_without_change() {
    let mut share = Share::new();
    for bits in [0o644, 0o640, 0o600, 0o755, 0o666] {
        share.local("f", "x");
        share.mode("f", bits);
        let open = share.open_for("f", READ | AccessMask::WRITE_DAC);
        let found = descriptor(&mut share, open);
        let all = SecurityInformation::from_bits_retain(7);
        write(&mut share, open, all, &found).expect("nothing new");
        let want = if bits & 0o111 != 0 { 0o755 } else { bits };
        assert_eq!(mode(&mut share, "f"), want);
        share.close(open);
    }
}

#[test]
fn a_list_becomes_a_mode_or_is_refused() {
    let mut share = Share::new();
    share.local("f", "x");
    let open = share.open_for("f", READ | AccessMask::WRITE_DAC);
    let me = support::me();
    let (owner, group) = (Sid::unix_user(me.uid), Sid::unix_group(me.gid));
    let flags = AceFlags::empty();
    let list = |aces: Vec<Ace>| SecurityDescriptor {
        dacl: Some(Acl::new(aces)),
        ..SecurityDescriptor::default()
    };
    let dacl = SecurityInformation::DACL;
    let given = list(vec![
        Ace::deny(group.clone(), AccessMask::WRITE_DATA, flags),
        Ace::allow(owner, READ | WRITE, flags),
        Ace::allow(Sid::everyone(), READ | WRITE, flags),
        Ace::allow(Sid::administrators(), AccessMask::FILE_ALL, flags),
    ]);
    write(&mut share, open, dacl, &given).expect("a mode says this");
    assert_eq!(mode(&mut share, "f"), 0o646);
    let other = Sid::new(5, &[21, 1, 2, 3, 1_000]);
    let refused = list(vec![Ace::allow(other.clone(), READ, flags)]);
    assert_eq!(write(&mut share, open, dacl, &refused), Err(NtStatus::INVALID_ACL));
    let owner = SecurityDescriptor { owner: Some(other), ..SecurityDescriptor::default() };
    let part = SecurityInformation::OWNER;
    assert_eq!(write(&mut share, open, part, &owner), Err(NtStatus::INVALID_OWNER));
    assert_eq!(mode(&mut share, "f"), 0o646, "what is refused changes nothing");
    let empty = list(Vec::new());
    write(&mut share, open, dacl, &empty).expect("nobody");
    assert_eq!(mode(&mut share, "f"), 0);
}

#[test]
fn files_are_not_given_away() {
    let Some(mut share) = share_of_stranger() else { return };
    share.create("f");
    let open = share.open_for("f", READ | AccessMask::WRITE_OWNER);
    let owner = Some(Sid::unix_user(0));
    let descriptor = SecurityDescriptor { owner, ..SecurityDescriptor::default() };
    let result = write(&mut share, open, SecurityInformation::OWNER, &descriptor);
    assert_eq!(result, Err(NtStatus::ACCESS_DENIED));
}

#[test]
fn a_file_is_created_with_the_descriptor_that_is_given() {
    let mut share = Share::new();
    let owner = Sid::unix_user(support::me().uid);
    let entry = Ace::allow(owner, AccessMask::FILE_ALL, AceFlags::empty());
    let descriptor =
        SecurityDescriptor { dacl: Some(Acl::new(vec![entry])), ..SecurityDescriptor::default() };
    let created = share.try_open("f", |request| {
        request.disposition = Disposition::Create;
        request.security = Some(Bytes::from(descriptor.to_bytes()));
    });
    let metadata = created.expect("created").metadata;
    assert_eq!(metadata.mode & 0o7777, 0o600);
    assert_eq!(mode(&mut share, "f"), 0o600);
}

/// EXECUTE without READ_DATA reads nothing: the kernel runs such a file, and does not show it.
#[test]
fn a_file_that_may_be_executed_and_not_read_shows_nothing() {
    let Some(mut share) = share_of_stranger() else { return };
    share.local("f", "secret");
    // Others may write and execute.
    share.mode("f", 0o713);
    for access in [
        AccessMask::EXECUTE,
        AccessMask::EXECUTE | AccessMask::WRITE_DATA,
        AccessMask::MAXIMUM_ALLOWED,
        AccessMask::MAXIMUM_ALLOWED | AccessMask::EXECUTE,
    ] {
        let opened = share.try_open("f", |request| request.desired_access = access);
        let opened = opened.expect("the mode permits it");
        // Either of them would let the client send a READ.
        let reads = AccessMask::READ_DATA | AccessMask::EXECUTE;
        assert!(!opened.granted_access.intersects(reads), "{access:?}");
        let writes = opened.granted_access.contains(AccessMask::WRITE_DATA);
        assert_eq!(writes, access != AccessMask::EXECUTE, "{access:?}");
        let read = ObjectOp::Read {
            open: opened.open,
            offset: 0,
            length: 6,
            buffer: bytes::BytesMut::with_capacity(6),
            may_pipe: false,
            verify_locks: false,
        };
        assert!(share.run(read).is_err(), "the kernel refuses it");
    }
    for access in [AccessMask::READ_DATA, AccessMask::READ_DATA | AccessMask::EXECUTE] {
        let status = share.status_of("f", |request| request.desired_access = access);
        assert_eq!(status, NtStatus::ACCESS_DENIED);
    }
}
