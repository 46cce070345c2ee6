//! One directory under two servers: Choro reads the metadata that Samba stored, and Samba that of
//! Choro. Streams, DOS attributes and birth time, extended attributes, NT ACLs.
//!
//! Samba's server needs root, and so do these tests; without root there is nothing to compare.

mod harness;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, FileAttributes, NtStatus, SecurityDescriptor,
    SecurityInformation, Sid,
};
use harness::samba::{KEEPS_EVERYTHING, SAMBA_USER, Samba};
use harness::session::{EVERYTHING, Session};
use harness::{PASSWORD, Setup, TestServer, USER, runs_as_root};
use wire::FileId;
use wire::create::{CreateDisposition, CreateOptions};

/// 2019-07-04 in 100 ns since 1601: a time that no server makes up.
const BORN: u64 = 132_067_584_000_000_000;

/// Everything that the tests compare of one object.
#[derive(Debug, PartialEq)]
struct Kept {
    path: &'static str,
    born: u64,
    written: u64,
    attributes: FileAttributes,
    streams: Vec<(String, u64)>,
    stream: Vec<u8>,
    extended_attributes: Vec<(String, Vec<u8>)>,
    descriptor: Option<SecurityDescriptor>,
}

/// Both servers on one folder, with a client of each.
struct Both {
    server: TestServer,
    /// Dropped first: it uses the server's folder.
    _samba: Samba,
    ours: Session,
    theirs: Session,
}

impl Both {
    fn start() -> Option<Self> {
        if !runs_as_root() {
            return None;
        }
        let server = Setup::new().share("data", KEEPS_EVERYTHING).start();
        let samba = Samba::start(&server, "data");
        let ours = Session::new(server.site().address(), "data", USER, PASSWORD);
        let theirs = Session::new(samba.address(), "data", SAMBA_USER, PASSWORD);
        Some(Self { server, _samba: samba, ours, theirs })
    }
}

const DIRECTORY: CreateOptions = CreateOptions::DIRECTORY_FILE;

#[track_caller]
fn make(session: &mut Session, path: &str, options: CreateOptions) -> FileId {
    let made = session.open(path, EVERYTHING, CreateDisposition::CREATE, options);
    made.expect("it can be created")
}

#[track_caller]
fn open(session: &mut Session, path: &str, access: AccessMask) -> FileId {
    let options = CreateOptions::default();
    session.open(path, access, CreateDisposition::OPEN, options).expect("it can be opened")
}

/// A list that no mode amounts to: denials, masks of single bits, SIDs of nobody here.
fn list(owner: &Sid, directory: bool) -> SecurityDescriptor {
    let passed_on = if directory {
        AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT
    } else {
        AceFlags::empty()
    };
    let domain = Sid::new(5, &[21, 1_111, 2_222, 3_333, 1_104]);
    let mut aces = vec![
        Ace::deny(domain, AccessMask::WRITE_DATA | AccessMask::DELETE, passed_on),
        Ace::allow(owner.clone(), EVERYTHING, passed_on),
        Ace::allow(Sid::users(), AccessMask::READ_EA, AceFlags::empty()),
    ];
    if directory {
        let only = passed_on | AceFlags::INHERIT_ONLY;
        aces.push(Ace::allow(Sid::creator_owner(), EVERYTHING, only));
    }
    SecurityDescriptor {
        control: Control::DACL_PRESENT | Control::DACL_PROTECTED,
        dacl: Some(Acl::new(aces)),
        ..SecurityDescriptor::default()
    }
}

#[track_caller]
fn restrict(session: &mut Session, file_id: FileId, directory: bool) {
    let owner = session.descriptor(file_id).owner.expect("it has one");
    session.set_descriptor(file_id, SecurityInformation::DACL, &list(&owner, directory));
}

/// The tree whose objects [`Kept`] are compared.
#[track_caller]
fn make_tree(session: &mut Session) {
    let file = make(session, "file", CreateOptions::default());
    session.write(file, b"main");
    session.set_extended_attribute(file, "Author", b"somebody");
    session.set_extended_attribute(file, "LONG", &[7; 500]);
    restrict(session, file, false);
    // Before the attributes: Samba gives the file those of a stream that it makes.
    let stream = make(session, "file:side", CreateOptions::default());
    session.write(stream, b"beside it");
    session.close(stream);
    let attributes = FileAttributes::HIDDEN | FileAttributes::SYSTEM | FileAttributes::ARCHIVE;
    session.set_basic(file, BORN, attributes);
    session.close(file);
    let directory = make(session, "folder", DIRECTORY);
    restrict(session, directory, true);
    session.set_basic(directory, BORN, FileAttributes::HIDDEN | FileAttributes::DIRECTORY);
    session.close(directory);
    for (path, options) in [("folder\\inner", CreateOptions::default()), ("folder\\sub", DIRECTORY)]
    {
        let inherits = make(session, path, options);
        session.close(inherits);
    }
    // Read-only last: it could not be opened for writing again.
    let read_only = make(session, "read only", CreateOptions::default());
    session.set_basic(read_only, BORN, FileAttributes::READONLY);
    session.close(read_only);
}

/// A server's description of the tree. The descriptor of "read only" is left out: none is stored
/// with it, and each server maps modes in its own way.
#[track_caller]
fn describe(session: &mut Session) -> Vec<Kept> {
    let access = AccessMask::FILE_GENERIC_READ;
    ["file", "folder", "folder\\inner", "folder\\sub", "read only"]
        .map(|path| {
            let file_id = open(session, path, access);
            let (born, written, attributes) = session.basic(file_id);
            let streams = session.streams(file_id);
            let extended_attributes = session.extended_attributes(file_id);
            let descriptor = (path != "read only").then(|| session.descriptor(file_id));
            session.close(file_id);
            let mut stream = Vec::new();
            if path == "file" {
                let side = open(session, "file:side", access);
                stream = session.read(side);
                session.close(side);
            }
            Kept {
                path,
                born,
                written,
                attributes,
                streams,
                stream,
                extended_attributes,
                descriptor,
            }
        })
        .into()
}

#[track_caller]
fn check_whole(tree: &[Kept]) {
    let file = &tree[0];
    assert_eq!(file.born, BORN);
    assert!(file.attributes.contains(FileAttributes::HIDDEN | FileAttributes::SYSTEM));
    assert_eq!(file.streams, [("::$DATA".to_owned(), 4), (":side:$DATA".to_owned(), 9)]);
    assert_eq!(file.stream, b"beside it");
    assert_eq!(file.extended_attributes.len(), 2);
    let descriptor = file.descriptor.as_ref().expect("asked for");
    assert!(descriptor.control.contains(Control::DACL_PROTECTED));
    assert_eq!(descriptor.dacl.as_ref().expect("a list").aces.len(), 3);
    // Two entries for files, one of which the creator takes the place in; the same for directories.
    for inherited in &tree[2..4] {
        let descriptor = inherited.descriptor.as_ref().expect("asked for");
        assert!(descriptor.dacl.as_ref().expect("a list").aces.len() >= 2, "{inherited:?}");
    }
    assert!(tree[4].attributes.contains(FileAttributes::READONLY));
}

#[test]
fn files_of_samba_read_the_same_here() {
    let Some(mut both) = Both::start() else { return };
    make_tree(&mut both.theirs);
    let (theirs, ours) = (describe(&mut both.theirs), describe(&mut both.ours));
    check_whole(&theirs);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(ours, theirs, "{}", theirs.path);
    }
    both.server.stop();
}

#[test]
fn files_of_choro_read_the_same_in_samba() {
    let Some(mut both) = Both::start() else { return };
    make_tree(&mut both.ours);
    let (theirs, ours) = (describe(&mut both.theirs), describe(&mut both.ours));
    check_whole(&ours);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs, ours, "{}", ours.path);
    }
    both.server.stop();
}

#[test]
fn rights_granted_and_denied_by_the_other_server_hold() {
    let Some(mut both) = Both::start() else { return };
    let Both { ours, theirs, .. } = &mut both;
    for (name, theirs_makes) in [("of samba", true), ("of choro", false)] {
        let maker = if theirs_makes { &mut *theirs } else { &mut *ours };
        let file = make(maker, name, CreateOptions::default());
        let owner = maker.descriptor(file).owner.expect("it has one");
        let aces = vec![
            Ace::deny(Sid::everyone(), AccessMask::WRITE_DATA, AceFlags::empty()),
            Ace::allow(owner, EVERYTHING, AceFlags::empty()),
        ];
        let descriptor = SecurityDescriptor {
            control: Control::DACL_PRESENT,
            dacl: Some(Acl::new(aces)),
            ..SecurityDescriptor::default()
        };
        maker.set_descriptor(file, SecurityInformation::DACL, &descriptor);
        maker.close(file);
        for session in [&mut *ours, &mut *theirs] {
            let write = session.try_access(name, AccessMask::WRITE_DATA);
            assert_eq!(write, NtStatus::ACCESS_DENIED, "{name}");
            let read = session.try_access(name, AccessMask::READ_DATA | AccessMask::READ_EA);
            assert_eq!(read, NtStatus::SUCCESS, "{name}");
        }
    }
    both.server.stop();
}

/// Somebody says `chmod`: both servers go by the mode from then on.
#[test]
fn a_local_change_of_the_mode_makes_both_forget_the_list() {
    let Some(mut both) = Both::start() else { return };
    make_tree(&mut both.ours);
    let path = both.server.share_path("data").join("file");
    std::fs::set_permissions(&path, Permissions::from_mode(0o604)).expect("we are root");
    let domain = Sid::new(5, &[21, 1_111, 2_222, 3_333, 1_104]);
    for session in [&mut both.ours, &mut both.theirs] {
        let file = open(session, "file", AccessMask::READ_CONTROL);
        let aces = session.descriptor(file).dacl.expect("a list").aces;
        session.close(file);
        assert!(aces.iter().all(|ace| ace.sid() != Some(&domain)), "{aces:?}");
    }
    both.server.stop();
}
