//! CREATE as [MS-FSA] 2.1.5.1 decides it.

mod support;

use std::mem::MaybeUninit;
use std::path::Path;

use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{
    BasicChange, Disposition, ObjectKind, ObjectOp, ObjectPath, ObjectReply, RequestedKind,
};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use store::{Store, StoreSettings};
use support::{DELETE, READ, Share, WRITE};

#[test]
fn a_missing_name_and_a_missing_directory_have_different_statuses() {
    let mut share = Share::new();
    share.local("file", "");
    assert_eq!(share.status_of("none", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(share.status_of("none\\x", |_| {}), NtStatus::OBJECT_PATH_NOT_FOUND);
    assert_eq!(share.status_of("file\\x", |_| {}), NtStatus::OBJECT_PATH_NOT_FOUND);
    assert_eq!(share.status_of("file\\x\\y", |_| {}), NtStatus::OBJECT_PATH_NOT_FOUND);
    let create = |request: &mut object::OpenRequest| request.disposition = Disposition::Create;
    assert_eq!(share.status_of("none\\x", create), NtStatus::OBJECT_PATH_NOT_FOUND);
}

#[test]
fn dispositions_decide_by_whether_the_file_exists() {
    use Disposition::{Create, Open, OpenIf, Overwrite, OverwriteIf, Supersede};
    let missing = NtStatus::OBJECT_NAME_NOT_FOUND;
    let collision = NtStatus::OBJECT_NAME_COLLISION;
    let ok = NtStatus::SUCCESS;
    let cases = [
        (Supersede, ok, ok),
        (Open, missing, ok),
        (Create, ok, collision),
        (OpenIf, ok, ok),
        (Overwrite, missing, ok),
        (OverwriteIf, ok, ok),
    ];
    for (disposition, if_missing, if_there) in cases {
        let mut share = Share::new();
        let open = |request: &mut object::OpenRequest| request.disposition = disposition;
        assert_eq!(share.status_of("f", open), if_missing, "{disposition:?} of a missing file");
        share.local("f", "content");
        assert_eq!(share.status_of("f", open), if_there, "{disposition:?} of a file");
        assert_eq!(share.content("f"), "content", "opening never truncates");
    }
}

#[test]
fn created_says_whether_the_file_was_made_by_this_request() {
    let mut share = Share::new();
    let first = share.try_open("f", |request| request.disposition = Disposition::OpenIf);
    assert!(first.expect("created").created);
    let second = share.try_open("f", |request| request.disposition = Disposition::OpenIf);
    assert!(!second.expect("opened").created);
}

#[test]
fn the_kind_that_the_client_insists_on_is_verified() {
    let mut share = Share::new();
    share.local("file", "");
    share.local_directory("directory");
    let kind = |kind: RequestedKind, disposition: Disposition| {
        move |request: &mut object::OpenRequest| {
            request.kind = kind;
            request.disposition = disposition;
        }
    };
    let file = kind(RequestedKind::File, Disposition::Open);
    let directory = kind(RequestedKind::Directory, Disposition::Open);
    assert_eq!(share.status_of("directory", file), NtStatus::FILE_IS_A_DIRECTORY);
    assert_eq!(share.status_of("file", directory), NtStatus::NOT_A_DIRECTORY);
    let create = kind(RequestedKind::Directory, Disposition::Create);
    assert_eq!(share.status_of("file", create), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(share.status_of("directory", create), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(share.status_of("new", create), NtStatus::SUCCESS);
    assert!(share.host("new").is_dir());
}

/// [MS-FSA] 2.1.5.1, phase 7, which comes before the dispositions.
#[test]
fn to_create_a_file_where_a_directory_is_fails_by_its_kind() {
    let mut share = Share::new();
    share.local("file", "");
    share.local_directory("directory");
    let create = |request: &mut object::OpenRequest| {
        request.kind = RequestedKind::File;
        request.disposition = Disposition::Create;
    };
    assert_eq!(share.status_of("directory", create), NtStatus::FILE_IS_A_DIRECTORY);
    assert_eq!(share.status_of("", create), NtStatus::FILE_IS_A_DIRECTORY);
    assert_eq!(share.status_of("file", create), NtStatus::OBJECT_NAME_COLLISION);
}

#[test]
fn a_new_read_only_file_is_deleted_on_close_where_the_share_permits() {
    for (permits, status) in [(true, NtStatus::SUCCESS), (false, NtStatus::CANNOT_DELETE)] {
        let mut share = Share::with(|settings| settings.delete_readonly = permits);
        let create = |request: &mut object::OpenRequest| {
            request.disposition = Disposition::Create;
            request.attributes = FileAttributes::READONLY;
            request.delete_on_close = true;
        };
        assert_eq!(share.status_of("f", create), status, "delete readonly = {permits}");
    }
}

#[test]
fn forced_bits_of_the_mode_stay_in_a_new_read_only_file() {
    let mut share = Share::with(|settings| {
        settings.store_dos_attributes = false;
        settings.force_create_mode = 0o007;
    });
    let opened = share.try_open("f", |request| {
        request.disposition = Disposition::Create;
        request.attributes = FileAttributes::READONLY;
    });
    opened.expect("nothing prevents it");
    assert_eq!(share.mode_of("f") & 0o227, 0o007);
}

#[test]
fn the_root_opens_as_a_directory_and_cannot_be_deleted() {
    let mut share = Share::new();
    let opened = share.try_open("", |_| {}).expect("the root");
    assert_eq!(opened.metadata.kind, ObjectKind::Directory);
    assert!(opened.path.is_root());
    let delete = share.status_of("", |request| {
        request.delete_on_close = true;
        request.desired_access = DELETE;
    });
    assert_eq!(delete, NtStatus::CANNOT_DELETE);
    assert_eq!(share.unlink(opened.open), Err(NtStatus::CANNOT_DELETE));
}

#[test]
fn nothing_is_deleted_on_close_in_a_share_that_grants_no_deletion() {
    let mut share = Share::new();
    share.local("f", "kept");
    for (disposition, name) in [
        (Disposition::Open, "f"),
        (Disposition::OpenIf, "f"),
        (Disposition::OverwriteIf, "f"),
        (Disposition::Create, "new"),
    ] {
        for access in [AccessMask::MAXIMUM_ALLOWED, AccessMask::MAXIMUM_ALLOWED | READ, DELETE] {
            let status = share.status_of(name, |request| {
                request.disposition = disposition;
                request.desired_access = access;
                request.share_access_max = AccessMask::FILE_ALL.difference(DELETE);
                request.delete_on_close = true;
            });
            assert_eq!(status, NtStatus::ACCESS_DENIED, "{disposition:?} {access:?}");
        }
    }
    assert_eq!(share.content("f"), "kept");
    assert!(!share.host("new").exists());
}

#[test]
fn a_read_only_file_is_neither_written_nor_deleted() {
    let mut share = Share::new();
    let open = share.create("f");
    let attributes = Some(FileAttributes::READONLY);
    share.set(open, BasicChange { attributes, ..BasicChange::default() });
    share.close(open);
    let want = |access: AccessMask| move |r: &mut object::OpenRequest| r.desired_access = access;
    assert_eq!(share.status_of("f", want(AccessMask::WRITE_DATA)), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("f", want(AccessMask::APPEND_DATA)), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("f", want(READ | DELETE)), NtStatus::SUCCESS);
    let delete = share.status_of("f", |request| {
        request.desired_access = DELETE;
        request.delete_on_close = true;
    });
    assert_eq!(delete, NtStatus::CANNOT_DELETE);
    let overwrite = share.status_of("f", |request| request.disposition = Disposition::OverwriteIf);
    assert_eq!(overwrite, NtStatus::ACCESS_DENIED);
    let maximum = share.try_open("f", want(AccessMask::MAXIMUM_ALLOWED)).expect("readable");
    assert!(maximum.granted_access.contains(READ));
    assert!(!maximum.granted_access.intersects(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA));
}

#[test]
fn a_hidden_file_is_overwritten_only_with_that_attribute() {
    let mut share = Share::new();
    let created = share.try_open("f", |request| {
        request.disposition = Disposition::Create;
        request.attributes = FileAttributes::HIDDEN;
    });
    share.close(created.expect("created").open);
    let overwrite = |attributes| {
        move |request: &mut object::OpenRequest| {
            request.disposition = Disposition::Overwrite;
            request.attributes = attributes;
        }
    };
    let without = overwrite(FileAttributes::empty());
    assert_eq!(share.status_of("f", without), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("f", overwrite(FileAttributes::HIDDEN)), NtStatus::SUCCESS);
    // HIDDEN by a name is no mark that anybody set.
    share.local(".dot", "");
    assert_eq!(share.status_of(".dot", without), NtStatus::SUCCESS);
}

#[test]
fn a_host_pipe_shows_its_attributes_and_never_blocks() {
    let mut share = Share::new();
    make_pipe(&share.host("pipe"));
    let attributes = share.try_open("pipe", |r| r.desired_access = AccessMask::READ_ATTRIBUTES);
    assert_eq!(attributes.expect("attributes").metadata.kind, ObjectKind::Fifo);
    assert_eq!(share.status_of("pipe", |r| r.desired_access = READ), NtStatus::ACCESS_DENIED);
    assert_eq!(share.status_of("pipe", |r| r.desired_access = WRITE), NtStatus::ACCESS_DENIED);
    let maximum = share.try_open("pipe", |r| r.desired_access = AccessMask::MAXIMUM_ALLOWED);
    assert!(!maximum.expect("attributes").granted_access.contains(AccessMask::READ_DATA));
}

fn make_pipe(path: &Path) {
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("as the server");
}

#[test]
fn an_object_that_replaces_a_file_is_opened_by_its_own_type() {
    let mut share = Share::new();
    let place = share.host("f");
    let made: [(&str, &dyn Fn(), NtStatus); 3] = [
        ("a pipe", &|| make_pipe(&place), NtStatus::ACCESS_DENIED),
        ("a directory", &|| std::fs::create_dir(&place).expect("made"), NtStatus::SUCCESS),
        (
            "a link",
            &|| std::os::unix::fs::symlink("other", &place).expect("made"),
            NtStatus::SUCCESS,
        ),
    ];
    share.local("other", "of the link");
    let read = |r: &mut object::OpenRequest| r.desired_access = READ;
    for (what, make, status) in made {
        share.local("f", "content");
        for _ in 0..3 {
            assert_eq!(share.status_of("f", read), NtStatus::SUCCESS);
        }
        std::fs::remove_file(&place).expect("as the server");
        make();
        for _ in 0..2 {
            assert_eq!(share.status_of("f", read), status, "{what}");
        }
        if place.is_dir() { std::fs::remove_dir(&place) } else { std::fs::remove_file(&place) }
            .expect("as the server");
    }
}

#[test]
fn a_file_is_opened_with_the_requested_mode_at_each_open() {
    let mut share = Share::new();
    share.local("f", "content");
    let cases = [(READ, OFlags::RDONLY), (WRITE, OFlags::WRONLY), (READ | WRITE, OFlags::RDWR)];
    for (access, mode) in cases.into_iter().chain(cases) {
        let opened = share.try_open("f", |request| request.desired_access = access);
        let how = opened_how(&share.host("f"));
        assert_eq!(how & (OFlags::ACCMODE | OFlags::PATH), mode, "{access:?}");
        share.close(opened.expect("there").open);
    }
}

/// Returns the flags with which this process has a file open, from proc(5).
fn opened_how(path: &Path) -> OFlags {
    let mut found = std::fs::read_dir("/proc/self/fd")
        .expect("proc")
        .flatten()
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|it| it == path));
    let number = found.next().expect("an open file").file_name();
    assert!(found.next().is_none(), "and no second one");
    let fdinfo = Path::new("/proc/self/fdinfo").join(number);
    let fdinfo = std::fs::read_to_string(fdinfo).expect("it is still open");
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:")).expect("proc(5)");
    OFlags::from_bits_retain(u32::from_str_radix(flags.trim(), 8).expect("octal"))
}

#[test]
fn a_share_that_is_read_only_grants_nothing_that_changes() {
    let mut share = Share::with(|settings| settings.read_only = true);
    share.local("f", "x");
    let maximum = share.try_open("f", |r| r.desired_access = AccessMask::MAXIMUM_ALLOWED);
    let granted = maximum.expect("readable").granted_access;
    assert!(granted.contains(READ));
    assert!(!granted.intersects(AccessMask::WRITE_DATA | DELETE | AccessMask::WRITE_ATTRIBUTES));
    assert_eq!(share.status_of("f", |r| r.desired_access = WRITE), NtStatus::ACCESS_DENIED);
    let create = share.status_of("new", |r| r.disposition = Disposition::OpenIf);
    assert_eq!(create, NtStatus::ACCESS_DENIED);
    assert!(!share.host("new").exists());
}

#[test]
fn rights_beyond_those_of_the_share_are_refused() {
    let mut share = Share::new();
    share.local("f", "x");
    let status = share.status_of("f", |request| {
        request.share_access_max = READ;
        request.desired_access = READ | AccessMask::WRITE_DATA;
    });
    assert_eq!(status, NtStatus::ACCESS_DENIED);
    let opened = share.try_open("f", |request| {
        request.share_access_max = READ;
        request.desired_access = AccessMask::MAXIMUM_ALLOWED;
    });
    let opened = opened.expect("readable");
    assert_eq!(opened.granted_access, READ);
    assert_eq!(opened.maximal_access, READ);
    let create = share.status_of("new", |request| {
        request.disposition = Disposition::Create;
        request.share_access_max = READ;
        request.desired_access = WRITE;
    });
    assert_eq!(create, NtStatus::ACCESS_DENIED);
    assert!(!share.host("new").exists());
}

#[test]
fn a_right_the_share_never_grants_opens_no_file_of_the_host() {
    type Change = fn(&mut object::OpenRequest);
    let write: Change = |request| request.desired_access = WRITE;
    let overwrite: Change = |request| request.disposition = Disposition::Overwrite;
    let read_only_user: Change = |request| {
        request.share_access_max = READ;
        request.disposition = Disposition::Overwrite;
    };
    for (read_only, change) in [(true, write), (true, overwrite), (false, read_only_user)] {
        let mut share = Share::with(|settings| settings.read_only = read_only);
        share.local("f", "x");
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
        inotify::add_watch(&watch, share.host("f"), WatchFlags::OPEN).expect("a watch");
        let mut buffer = [MaybeUninit::uninit(); 1_024];
        let mut events = Reader::new(&watch, &mut buffer);
        for _ in 0..2 {
            assert_eq!(share.status_of("f", change), NtStatus::ACCESS_DENIED);
            assert_eq!(events.next().err(), Some(Errno::AGAIN), "nobody notices");
        }
        assert_eq!(share.status_of("f", |_| {}), NtStatus::SUCCESS);
        assert!(events.next().is_ok(), "who may read is noticed");
    }
}

#[test]
fn opens_have_a_limit_and_are_never_confused() {
    let share = Share::new();
    let limits = StoreSettings { opens_max: 2, roots_max: 1, ..StoreSettings::default() };
    let mut store = Store::new(limits);
    let user = store.register_user(support::me());
    assert_eq!(store.register_user(support::me()), user);
    let settings = store::RootSettings::new(share.host(""));
    let root = store.open_root(settings.clone(), user).expect("the first");
    let second = store.open_root(settings.clone(), user);
    assert_eq!(second, Err(NtStatus::INSUFF_SERVER_RESOURCES));
    let mut small = Share { store, root, user, folder: share.folder };
    let first = small.create("a");
    let second = small.create("b");
    assert_eq!(small.status_of("a", |_| {}), NtStatus::TOO_MANY_OPENED_FILES);
    let create = small.status_of("c", |request| request.disposition = Disposition::Create);
    assert_eq!(create, NtStatus::TOO_MANY_OPENED_FILES);
    assert!(!small.host("c").exists());
    small.close(first);
    let third = small.open("b");
    assert_eq!(third.index, first.index);
    assert_ne!(third.generation, first.generation);
    let stale = small.run(ObjectOp::QueryMetadata { open: first, with_ea_size: false });
    assert!(matches!(stale, Err(NtStatus::FILE_CLOSED)));
    assert_eq!(small.store.opens_count(), 2);
    small.close(second);
    small.store.close_root(root);
    assert_eq!(small.metadata(third).end_of_file, 0);
    assert_eq!(small.status_of("a", |_| {}), NtStatus::NETWORK_NAME_DELETED);
    small.store.open_root(settings, user).expect("the slot is free again");
}

#[test]
fn a_share_that_is_not_there_is_a_bad_network_name() {
    let mut share = Share::new();
    let user = share.user;
    let missing = store::RootSettings::new(share.host("none"));
    assert_eq!(share.store.open_root(missing, user), Err(NtStatus::BAD_NETWORK_NAME));
    share.local("file", "");
    let file = store::RootSettings::new(share.host("file"));
    assert_eq!(share.store.open_root(file, user), Err(NtStatus::BAD_NETWORK_NAME));
}

#[test]
fn lookup_answers_without_an_open() {
    let mut share = Share::new();
    share.local("f", "abc");
    let path = ObjectPath::parse("F").expect("a path");
    match share.run(ObjectOp::Lookup { root: share.root, path: path.into() }) {
        Ok(ObjectReply::Metadata(metadata)) => assert_eq!(metadata.end_of_file, 3),
        other => panic!("{other:?}"),
    }
    let path = ObjectPath::parse("g").expect("a path");
    let missing = share.run(ObjectOp::Lookup { root: share.root, path: path.into() });
    assert!(matches!(missing, Err(NtStatus::OBJECT_NAME_NOT_FOUND)));
    assert_eq!(share.store.opens_count(), 0);
}

#[test]
fn modes_come_from_the_masks_of_the_share() {
    let mut share = Share::with(|settings| {
        settings.create_mask = 0o640;
        settings.force_create_mode = 0o020;
        settings.directory_mask = 0o700;
        settings.force_directory_mode = 0o010;
    });
    share.create("f");
    share.create_directory("d");
    assert_eq!(share.mode_of("f"), 0o660);
    assert_eq!(share.mode_of("d"), 0o710);
}

#[test]
fn modes_come_from_the_directory_if_permissions_are_inherited() {
    let mut share = Share::with(|settings| {
        settings.inherit_permissions = true;
        settings.create_mask = 0o600;
        settings.force_directory_mode = 0o007;
    });
    share.create_directory("d");
    share.mode("d", 0o3775);
    share.create("d\\f");
    share.create_directory("d\\e");
    share.create("d\\e\\f");
    assert_eq!(share.mode_of("d/f"), 0o664);
    assert_eq!(share.mode_of("d/e"), 0o3775);
    assert_eq!(share.mode_of("d/e/f"), 0o664);
}

/// Needs root; nobody else makes something where its owner may not write.
#[test]
fn the_creator_of_a_directory_can_write_there_if_permissions_are_inherited() {
    if !support::is_root() {
        return;
    }
    let mut share = Share::with(|settings| settings.inherit_permissions = true);
    share.create_directory("d");
    share.mode("d", 0o575);
    share.create("d\\f");
    share.create_directory("d\\e");
    assert_eq!(share.mode_of("d/f"), 0o464);
    assert_eq!(share.mode_of("d/e"), 0o775);
}

#[test]
fn a_default_acl_decides_the_mode_if_permissions_are_inherited_too() {
    let mut share = Share::with(|settings| {
        settings.inherit_permissions = true;
        settings.inherit_acls = true;
    });
    share.create_directory("d");
    share.mode("d", 0o700);
    // Version 2; the owner rwx, the group rwx, others r: linux/posix_acl_xattr.h.
    let acl = [(0x01, 7), (0x04, 7), (0x20, 4)]
        .map(|(tag, rights)| [tag, 0, rights, 0, 255, 255, 255, 255]);
    let acl = [[2, 0, 0, 0].as_slice(), acl.as_flattened()].concat();
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(share.host("d"), "system.posix_acl_default", &acl, flags).is_err() {
        return;
    }
    share.create("d\\f");
    share.create_directory("d\\e");
    assert_eq!(share.mode_of("d/f"), 0o664);
    assert_eq!(share.mode_of("d/e"), 0o774);
}

#[test]
fn the_parts_of_a_create_that_fail_leave_nothing_behind() {
    let mut share = Share::new();
    let status = share.status_of("f", |request| {
        request.disposition = Disposition::Create;
        let value = vec![0; 60_000 * 2];
        let name = "LARGE".to_owned();
        request.extended_attributes.push(object::ExtendedAttribute { flags: 0, name, value });
    });
    assert_eq!(status, NtStatus::EA_TOO_LARGE);
    assert!(!share.host("f").exists());
    let status = share.status_of("f", |request| {
        request.disposition = Disposition::Create;
        request.security = Some(bytes::Bytes::from_static(b"no descriptor"));
    });
    assert_eq!(status, NtStatus::INVALID_SECURITY_DESCR);
    assert!(!share.host("f").exists());
}

#[test]
fn an_allocation_size_is_reserved() {
    let mut share = Share::new();
    let opened = share.try_open("f", |request| {
        request.disposition = Disposition::Create;
        request.desired_access = READ | WRITE;
        request.allocation_size = 1 << 20;
    });
    let opened = opened.expect("created");
    assert!(opened.metadata.allocation_size >= 1 << 20);
    assert_eq!(opened.metadata.end_of_file, 0);
}

#[test]
fn a_path_leads_to_the_present_file_and_not_to_an_earlier_one() {
    let mut share = Share::new();
    share.local_directory("a/b");
    for name in ["a/b/1", "a/b/2"] {
        let open = share.create(name);
        share.close(open);
    }
    // A local process moves the folder and makes another in its place.
    std::fs::rename(share.host("a"), share.host("moved")).expect("as the server");
    assert_eq!(share.status_of("a/b/1", |_| {}), NtStatus::OBJECT_PATH_NOT_FOUND);
    share.local_directory("a/b");
    assert_eq!(share.status_of("a/b/1", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    let open = share.create("a/b/3");
    share.close(open);
    assert!(share.host("a/b/3").exists() && !share.host("moved/b/3").exists());
    assert_eq!(share.status_of("moved/b/2", |_| {}), NtStatus::SUCCESS);
    // One that was removed takes no new files, though it is still open here.
    std::fs::remove_dir_all(share.host("moved/b")).expect("as the server");
    let create = |request: &mut object::OpenRequest| request.disposition = Disposition::Create;
    assert_eq!(share.status_of("moved/b/4", create), NtStatus::OBJECT_PATH_NOT_FOUND);
    // A link in its place is followed if it stays in the share, and leads nowhere otherwise.
    std::os::unix::fs::symlink("../a/b", share.host("moved/b")).expect("as the server");
    assert_eq!(share.status_of("moved/b/3", |_| {}), NtStatus::SUCCESS);
    let outside = share.folder.path().join("outside");
    std::fs::rename(share.host("a/b"), &outside).expect("as the server");
    std::os::unix::fs::symlink(&outside, share.host("a/b")).expect("as the server");
    assert_ne!(share.status_of("a/b/3", |_| {}), NtStatus::SUCCESS);
    assert_ne!(share.status_of("a/b/5", create), NtStatus::SUCCESS);
    assert!(!outside.join("5").exists());
}

#[test]
fn a_look_up_has_the_identity_of_an_open() {
    let mut share = Share::new();
    share.local_directory("folder");
    share.local("folder/File", "data");
    let stream = |request: &mut object::OpenRequest| request.disposition = Disposition::OpenIf;
    share.try_open("folder\\File:stream", stream).expect("it is created");
    for path in ["folder", "folder\\file", "FOLDER\\FILE:Stream", ""] {
        let opened = share.try_open(path, |_| {}).expect("it is there");
        let op = ObjectOp::Lookup { root: share.root, path: opened.path.into() };
        match share.run(op) {
            Ok(ObjectReply::Metadata(found)) => {
                assert_eq!(found.identity, opened.metadata.identity, "{path}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}
