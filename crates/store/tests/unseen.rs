//! Objects that get a descriptor have their name last, so nobody opens them by their mode before;
//! and directories that have a temporary name until then are nobody's.

mod support;

use std::ffi::CString;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Ace, AceFlags, Acl, NtStatus, SecurityDescriptor, Sid};
use object::{Disposition, LocalOpen, ObjectOp, ObjectPath, ObjectReply, RequestedKind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use slow_fs::SlowFs;
use store::{CharacterMappings, InheritOwner, NtAclSettings, RootSettings};
use support::posix_acl::{self, Entry::*};
use support::{DELETE, READ, Share, WRITE, account, is_root};

/// Name of a directory that another worker is making, or has left.
const TEMPORARY: &str = ".::TMPNAME:D:1:2";

/// The short name that hash2 makes of it.
const SHORT: &str = "_16TM6~0";

/// Reports of the kernel about a directory.
struct Reports(OwnedFd);

impl Reports {
    fn of(directory: &Path) -> Self {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("there are");
        let wanted = WatchFlags::CREATE
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB
            | WatchFlags::MODIFY;
        inotify::add_watch(&fd, directory, wanted).expect("there is room");
        Self(fd)
    }

    /// The reports about an entry so far.
    fn take(&self, wanted: &str) -> Vec<ReadFlags> {
        let wanted = CString::new(wanted).expect("no zero");
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut found = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.file_name() == Some(&wanted) => {
                    found.push(event.events() & !ReadFlags::ISDIR);
                }
                Ok(_) => {}
                Err(Errno::AGAIN) => return found,
                Err(errno) => panic!("{errno}"),
            }
        }
    }
}

fn descriptor() -> Bytes {
    let everyone = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty());
    let descriptor = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![everyone])),
        ..SecurityDescriptor::default()
    };
    descriptor.to_bytes().into()
}

fn nt_acls(settings: &mut RootSettings) {
    settings.nt_acls = Some(NtAclSettings::new(is_root()));
}

/// Makes a file and a directory, and compares the reports about them after their name.
#[track_caller]
fn check_named_last(share: &mut Share, security: Option<&Bytes>) {
    share.store.revert_to_server();
    let reports = Reports::of(&share.host(""));
    for (name, kind, named) in [
        ("f", RequestedKind::File, ReadFlags::CREATE),
        ("d", RequestedKind::Directory, ReadFlags::MOVED_TO),
    ] {
        let made = share.try_open(name, |request| {
            request.disposition = Disposition::Create;
            request.kind = kind;
            request.desired_access = READ | WRITE;
            request.security = security.cloned();
            request.allocation_size = 4_096;
        });
        assert_eq!(reports.take(name), [named], "{name}");
        share.close(made.expect("made").open);
    }
}

#[test]
fn an_object_has_its_given_descriptor_before_its_name() {
    check_named_last(&mut Share::with(nt_acls), Some(&descriptor()));
}

#[test]
fn an_object_has_its_inherited_descriptor_before_its_name() {
    let mut share = Share::with(nt_acls);
    let root = share.open_for("", AccessMask::WRITE_DAC);
    let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let everyone = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, flags);
    let descriptor = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![everyone])),
        ..SecurityDescriptor::default()
    };
    share.write_security(root, dtyp::SecurityInformation::DACL, &descriptor).expect("ours");
    check_named_last(&mut share, None);
}

#[test]
fn an_object_has_the_mode_of_its_given_descriptor_before_its_name() {
    check_named_last(&mut Share::new(), Some(&descriptor()));
}

/// Needs root, to be another user.
#[test]
fn an_object_has_its_inherited_owner_before_its_name() {
    if !is_root() {
        return;
    }
    for sticky in [0, 0o1000] {
        let mut share = Share::with(|settings| settings.inherit_owner = InheritOwner::UnixOnly);
        share.user = share.store.register_user(account(70_001, &[]));
        share.mode("", 0o777 | sticky);
        std::os::unix::fs::chown(share.host(""), Some(70_002), None).expect("root");
        check_named_last(&mut share, None);
        for name in ["f", "d"] {
            let found = std::fs::metadata(share.host(name)).expect("there");
            assert_eq!(found.uid(), 70_002, "{name}");
        }
    }
}

/// Group, mode, and ACLs of an object: for access, and for what is made in it.
type Inherited = (u32, u32, [Option<Vec<u8>>; 2]);

/// Makes a file and a directory in one that has a group, the setgid bit and a default ACL.
fn inherited(change: impl FnOnce(&mut RootSettings)) -> [Inherited; 2] {
    let mut share = Share::with(|settings| {
        settings.inherit_acls = true;
        change(settings);
    });
    share.user = share.stranger().unwrap_or(share.user);
    share.local_directory("in");
    share.mode("in", 0o2777);
    if is_root() {
        std::os::unix::fs::chown(share.host("in"), None, Some(23_456)).expect("root");
        share.mode("in", 0o2777);
    }
    let entries = [Owner(7), User(23_456, 5), OwningGroup(7), Mask(7), Others(0)];
    posix_acl::set_default(&share.host("in"), &entries);
    let opens = [share.create("in\\f"), share.create_directory("in\\d")];
    opens.into_iter().for_each(|open| share.close(open));
    let of = |share: &mut Share, path| {
        share.store.revert_to_server();
        let found = std::fs::metadata(share.host(path)).expect("there");
        let acls = ["system.posix_acl_access", "system.posix_acl_default"];
        (found.gid(), found.mode(), acls.map(|name| share.attribute(path, name)))
    };
    [of(&mut share, "in/f"), of(&mut share, "in/d")]
}

#[test]
fn an_object_inherits_as_one_that_has_its_name_at_once() {
    let with_descriptors = inherited(nt_acls);
    assert!(with_descriptors.iter().all(|(.., acls)| acls[0].is_some()), "{with_descriptors:?}");
    assert_eq!(with_descriptors, inherited(|_| {}));
}

/// Needs root, and FUSE for a file system that lacks the flag.
#[test]
fn a_file_system_without_nameless_files_makes_them_with_their_names() {
    let mut share = Share::with(nt_acls);
    share.local_directory("fuse");
    let Ok(_mounted) = SlowFs::mount(&share.host("fuse"), 0, 0) else { return };
    if !is_root() {
        return;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let nameless = rustix::fs::open(share.host("fuse"), flags, Mode::RUSR);
    assert_eq!(nameless.err(), Some(Errno::OPNOTSUPP));
    for (path, kind) in [("f", RequestedKind::File), ("d", RequestedKind::Directory)] {
        let made = share.try_open(&format!("fuse\\{path}"), |request| {
            request.disposition = Disposition::Create;
            request.kind = kind;
            request.security = Some(descriptor());
        });
        share.close(made.expect("made").open);
        assert!(share.attribute(&format!("fuse/{path}"), "security.NTACL").is_some(), "{path}");
    }
    assert_eq!(std::fs::read_dir(share.host("fuse")).expect("there").count(), 2);
}

#[test]
fn writes_to_a_new_file_are_reported_under_its_name() {
    let mut share = Share::with(nt_acls);
    let open = share.create("f");
    let reports = Reports::of(&share.host(""));
    share.write(open, 0, b"data");
    assert!(reports.take("f").contains(&ReadFlags::MODIFY));
    assert_eq!(share.metadata(open).number_of_links, 1);
}

fn entries(share: &mut Share) -> Vec<String> {
    share.store.revert_to_server();
    let entries = std::fs::read_dir(share.host("")).expect("a directory");
    entries.map(|it| it.expect("read").file_name().into_string().expect("UTF-8")).collect()
}

#[test]
fn nothing_is_left_of_an_object_that_is_refused_its_descriptor() {
    let mut share = Share::with(nt_acls);
    for kind in [RequestedKind::File, RequestedKind::Directory] {
        let status = share.status_of("refused", |request| {
            request.disposition = Disposition::Create;
            request.kind = kind;
            request.security = Some(Bytes::from_static(b"none"));
        });
        assert_eq!(status, NtStatus::INVALID_SECURITY_DESCR);
    }
    assert!(entries(&mut share).is_empty());
}

#[test]
fn a_name_that_is_taken_stays_and_nothing_is_left_beside_it() {
    for kind in [RequestedKind::File, RequestedKind::Directory] {
        let mut share = Share::with(nt_acls);
        share.create("first");
        let before = std::fs::metadata(share.host("")).expect("there").modified().expect("kept");
        match kind {
            RequestedKind::Directory => share.local_directory("taken"),
            _ => share.local("taken", ""),
        }
        // The names that the store has read are still believed, as within a tick of the clock.
        File::open(share.host("")).expect("there").set_modified(before).expect("ours");
        let opened = share.try_open("taken", |request| {
            request.disposition = Disposition::OpenIf;
            request.kind = kind;
            request.desired_access = AccessMask::READ_ATTRIBUTES;
        });
        assert!(!opened.expect("there").created);
        let mut found = entries(&mut share);
        found.sort();
        assert_eq!(found, ["first", "taken"]);
    }
}

#[track_caller]
fn check_empty(share: &mut Share, open: LocalOpen, want: bool) {
    match share.run(ObjectOp::IsEmpty { open }) {
        Ok(ObjectReply::Empty(empty)) => assert_eq!(empty, want),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_temporary_directory_keeps_its_parent_while_its_maker_may_live() {
    let mut share = Share::new();
    share.local_directory(&format!("d/{TEMPORARY}"));
    let directory = share.open_for("d", DELETE | READ);
    check_empty(&mut share, directory, false);
    assert_eq!(share.unlink(directory), Err(NtStatus::DIRECTORY_NOT_EMPTY));

    let old = SystemTime::now() - Duration::from_secs(3_600);
    let temporary = share.host("d").join(TEMPORARY);
    File::open(temporary).expect("there").set_modified(old).expect("ours");
    let directory = share.open_for("d", DELETE | READ);
    check_empty(&mut share, directory, true);
    share.unlink(directory).expect("its maker is dead");
    assert!(!share.host("d").exists());
}

#[test]
fn an_old_temporary_directory_with_contents_stays() {
    let mut share = Share::new();
    share.local_directory(&format!("d/{TEMPORARY}"));
    share.local(&format!("d/{TEMPORARY}/f"), "content");
    let old = SystemTime::now() - Duration::from_secs(3_600);
    let temporary = share.host("d").join(TEMPORARY);
    File::open(&temporary).expect("there").set_modified(old).expect("ours");
    let directory = share.open_for("d", DELETE | READ);
    assert_eq!(share.unlink(directory), Err(NtStatus::DIRECTORY_NOT_EMPTY));
    assert!(temporary.join("f").exists());
}

#[test]
fn a_temporary_directory_is_listed_to_nobody_and_has_no_short_name() {
    let mut share = Share::new();
    share.local_directory(&format!("d/{TEMPORARY}"));
    share.local("d/seen", "");
    let status = share.status_of(&format!("d\\{SHORT}"), |_| {});
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
    let names = share.names("d");
    assert_eq!(names, [".", "..", "seen"]);
    let posix = share.try_open("", |request| {
        request.path = ObjectPath::parse_posix("d").expect("a path");
    });
    let open = posix.expect("there").open;
    let entries = share.entries(open, false, 100);
    assert!(entries.iter().all(|it| !it.name.contains("TMPNAME")), "{entries:?}");
}

#[test]
fn no_path_leads_to_a_temporary_directory_or_makes_one() {
    let mut share = Share::with(|settings| {
        settings.character_mappings = CharacterMappings::parse("0x3a:0xf022");
        settings.mangled_names = store::MangledNames::Yes;
    });
    share.local_directory(&format!("{TEMPORARY}/sub"));
    share.local(&format!("{TEMPORARY}/f"), "");
    let mapped = TEMPORARY.replace(':', "\u{f022}");
    let lower = mapped.to_lowercase();
    for (name, below) in [(&mapped, "f"), (&lower, "f"), (&mapped, "sub"), (&lower, "new")] {
        for path in [name.clone(), format!("{name}\\{below}")] {
            for kind in [RequestedKind::Any, RequestedKind::Directory] {
                let status = share.status_of(&path, |request| {
                    request.disposition = Disposition::OpenIf;
                    request.kind = kind;
                });
                assert!(
                    matches!(
                        status,
                        NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::OBJECT_PATH_NOT_FOUND
                    ),
                    "{path}: {status:?}"
                );
            }
        }
    }
    share.local(&format!("{TEMPORARY}:of Samba"), "");
    let file = share.status_of(&format!("{mapped}\u{f022}of Samba"), |_| {});
    assert_eq!(file, NtStatus::OBJECT_NAME_NOT_FOUND);
    let open = share.create("f");
    let renamed = share.rename(open, &mapped, true);
    assert_eq!(renamed, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    let posix = ObjectPath::parse_posix(TEMPORARY).expect("a path");
    assert_eq!(
        share.status_of("", |request| request.path = posix),
        NtStatus::OBJECT_NAME_NOT_FOUND
    );
}
