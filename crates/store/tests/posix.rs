//! Opens of clients with the POSIX extensions.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{
    Disposition, ObjectKind, ObjectOp, ObjectPath, ObjectReply, OpenRequest, RequestedKind,
};
use support::{DELETE, READ, Share, WRITE};

fn posix(path: &str) -> ObjectPath {
    ObjectPath::parse_posix(path).expect("a path")
}

/// An open with the extensions.
fn open(
    share: &mut Share,
    path: &str,
    change: impl FnOnce(&mut OpenRequest),
) -> Result<object::Opened, NtStatus> {
    let path = posix(path);
    share.try_open("", |request| {
        request.path = path;
        change(request);
    })
}

fn create(share: &mut Share, path: &str, mode: u32) -> object::Opened {
    let created = open(share, path, |request| {
        request.disposition = Disposition::Create;
        request.desired_access = READ | WRITE | DELETE;
        request.posix_mode = Some(mode);
    });
    created.expect("created")
}

#[test]
fn names_are_meant_as_they_are() {
    let mut share = Share::new();
    for name in ["File", "file", "a:b", "q?*|\"<>", "trail. ", "back\\slash/x", "con"] {
        if let Some((directory, _)) = name.split_once('/') {
            share.local_directory(directory);
        }
        let opened = create(&mut share, name, 0o644);
        assert!(opened.path.is_posix());
        assert_eq!(opened.path.as_str(), name);
        share.close(opened.open);
        assert!(share.host(name).exists(), "{name}");
    }
    for name in ["FILE", "A4WTMA~A", "BACK\\SLASH/x"] {
        let missing = open(&mut share, name, |_| {}).expect_err("no such name");
        let want = [NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::OBJECT_PATH_NOT_FOUND];
        assert!(want.contains(&missing), "{name}: {missing}");
    }
    // Other clients see the same files by what they can use.
    assert_eq!(share.status_of("FILE", |_| {}), NtStatus::SUCCESS);
    assert_eq!(share.status_of("A4WTMA~A", |_| {}), NtStatus::SUCCESS);
    let directory = open(&mut share, "", |_| {}).expect("the root").open;
    let mut names: Vec<_> =
        share.entries(directory, false, 100).into_iter().map(|entry| entry.name).collect();
    names.sort();
    let want = [".", "..", "File", "a:b", "back\\slash", "con", "file", "q?*|\"<>", "trail. "];
    assert_eq!(names, want);
}

#[test]
fn the_mode_is_the_clients_without_the_masks() {
    let mut share = Share::with(|settings| settings.force_create_mode = 0o111);
    for mode in [0o600, 0o755, 0o000] {
        let opened = create(&mut share, &format!("{mode:o}"), mode);
        assert_eq!(opened.metadata.mode & 0o7777, mode);
        let host = share.host(&format!("{mode:o}"));
        assert_eq!(std::fs::metadata(host).expect("there").mode() & 0o7777, mode);
    }
    let made = open(&mut share, "directory", |request| {
        request.disposition = Disposition::Create;
        request.kind = RequestedKind::Directory;
        request.posix_mode = Some(0o1777);
    });
    assert_eq!(made.expect("made").metadata.mode & 0o7777, 0o1777);
}

/// Git makes its objects so, and Linux since 6.13 sets the attribute with the mode.
#[test]
fn a_read_only_file_has_its_attributes_too() {
    let mut share = Share::new();
    if let Some(stranger) = share.stranger() {
        share.user = stranger;
    }
    for (name, kind) in [("file", RequestedKind::File), ("directory", RequestedKind::Directory)] {
        let made = open(&mut share, name, |request| {
            request.disposition = Disposition::Create;
            request.kind = kind;
            request.attributes = FileAttributes::READONLY;
            request.posix_mode = Some(0o444);
        });
        let metadata = made.expect("made").metadata;
        assert_eq!(metadata.mode & 0o7777, 0o444, "{name}");
        assert!(metadata.attributes.contains(FileAttributes::READONLY), "{name}");
    }
}

#[test]
fn a_directory_passes_its_group_on_with_any_mode() {
    let mut share = Share::new();
    share.local_directory("parent");
    let setgid = std::fs::Permissions::from_mode(0o2777);
    std::fs::set_permissions(share.host("parent"), setgid).expect("ours");
    for (mode, kind, want) in [
        (0o755, RequestedKind::Directory, 0o2755),
        (0o555, RequestedKind::Directory, 0o2555),
        (0o555, RequestedKind::File, 0o555),
    ] {
        let made = open(&mut share, &format!("parent/{mode:o} {kind:?}"), |request| {
            request.disposition = Disposition::Create;
            request.kind = kind;
            request.posix_mode = Some(mode);
        });
        assert_eq!(made.expect("made").metadata.mode & 0o7777, want, "{kind:?}");
    }
}

#[test]
fn links_are_things_of_their_own() {
    let mut share = Share::new();
    share.local("file", "x");
    symlink("file", share.host("link")).expect("a link");
    let stopped = share
        .run(ObjectOp::Open(Box::new(OpenRequest { path: posix("link"), ..share.request("") })));
    let Ok(ObjectReply::Stopped(link)) = stopped else { panic!("followed: {stopped:?}") };
    assert_eq!(link.unparsed_path, "");
    let itself = open(&mut share, "link", |request| {
        request.open_reparse_point = true;
        request.desired_access = AccessMask::READ_ATTRIBUTES;
    });
    let metadata = itself.expect("opened").metadata;
    assert_eq!((metadata.kind, metadata.mode & 0o170_000), (ObjectKind::SymbolicLink, 0o120_000));
    let directory = open(&mut share, "", |_| {}).expect("the root").open;
    let entries = share.entries(directory, false, 100);
    let link = entries.iter().find(|entry| entry.name == "link").expect("listed");
    assert_eq!(link.metadata.as_ref().map(|it| it.kind), Some(ObjectKind::SymbolicLink));
    // Everybody else is led on.
    let opened = share.try_open("link", |_| {}).expect("followed");
    assert_eq!(opened.metadata.kind, ObjectKind::File);
}

#[test]
fn renames_tell_names_apart_by_case() {
    let mut share = Share::new();
    share.local("Name", "old");
    let opened = create(&mut share, "other", 0o644);
    let rename = |share: &mut Share, target: &str| {
        let target = posix(target);
        share.run(ObjectOp::Rename { open: opened.open, target: target.into(), replace: false })
    };
    let Ok(ObjectReply::Renamed(path, None)) = rename(&mut share, "name") else {
        panic!("not renamed")
    };
    assert!(path.is_posix() && path.as_str() == "name");
    assert_eq!(share.content("Name"), "old");
    let Ok(ObjectReply::Renamed(path, None)) = rename(&mut share, "a:b") else {
        panic!("not renamed")
    };
    assert_eq!(path.as_str(), "a:b");
    assert!(share.host("a:b").exists());
}

/// In the record of a file `\` separates names: a deletion by that path would find nothing.
#[test]
fn an_open_by_a_name_with_a_backslash_has_its_path_on_disk() {
    let mut share = Share::new();
    share.local_directory("back\\slash");
    for (name, is_other) in [("a:b", false), ("back\\slash/x", true)] {
        let opened = create(&mut share, name, 0o644);
        assert_eq!(opened.path_on_disk.as_deref(), is_other.then_some(name), "{name}");
    }
}

/// As the Linux client sends `chmod`: a list with one entry, S-1-5-88-3-MODE.
#[test]
fn an_entry_may_say_the_mode_outright() {
    use dtyp::{Ace, AceFlags, Acl, SecurityDescriptor, SecurityInformation, Sid};
    let mut share = Share::new();
    let opened = create(&mut share, "file", 0o644).open;
    let sid = Sid::new(5, &[88, 3, 0o750]);
    let ace = Ace::allow(sid, AccessMask::empty(), AceFlags::empty());
    let descriptor = SecurityDescriptor {
        owner: None,
        group: None,
        sacl: None,
        control: dtyp::security_descriptor::Control::SELF_RELATIVE
            | dtyp::security_descriptor::Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![ace])),
    };
    let information = SecurityInformation::DACL.bits();
    let descriptor = descriptor.to_bytes().into();
    share.done(ObjectOp::WriteSecurity {
        open: opened,
        information,
        descriptor,
        nfs_entries: false,
    });
    let mode = share.metadata(opened).mode & 0o7777;
    assert_eq!(mode, 0o750);
}
