//! One directory under two servers: Choro reads the metadata that Samba stored, and Samba that of
//! Choro. Streams (also in a depot), DOS attributes and birth time, extended attributes, NT ACLs.
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
        Some(Self::of(Setup::new(), KEEPS_EVERYTHING))
    }

    /// The same with these lines in the section of the share, for both servers.
    fn of(setup: Setup, lines: &str) -> Self {
        let server = setup.share("data", lines).start();
        let samba = Samba::start_with(&server, "data", lines);
        let ours = Session::new(server.site().address(), "data", USER, PASSWORD);
        let theirs = Session::new(samba.address(), "data", SAMBA_USER, PASSWORD);
        Self { server, _samba: samba, ours, theirs }
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

/// Length of a stream that no extended attribute could hold.
const LONG: usize = 200_000;

/// Bytes of a single WRITE request.
const PIECE: usize = 50_000;

/// Both servers with named streams in a depot, which is in the share or beside it.
fn with_depot(is_in_share: bool) -> Option<Both> {
    if !runs_as_root() {
        return None;
    }
    let setup = Setup::new();
    let mut lines = "vfs objects = streams_depot\nforce user = daemon".to_owned();
    if !is_in_share {
        let depot = setup.path("depot");
        std::fs::create_dir(&depot).expect("there is space");
        std::os::unix::fs::chown(&depot, Some(1), Some(1)).expect("we are root");
        lines += &format!("\nstreams_depot:directory = {}", depot.display());
    }
    let both = Both::of(setup, &lines);
    if is_in_share {
        make_depot_for_users(&both);
    }
    Some(both)
}

/// Makes the depot of the share `data` so that Samba's users can add to it.
fn make_depot_for_users(both: &Both) {
    let depot = both.server.share_path("data").join(".streams");
    std::fs::create_dir(&depot).expect("there is space");
    let mode = PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(depot, mode).expect("we are root");
}

fn long() -> Vec<u8> {
    (0..LONG).map(|at| u8::try_from(at % 251).expect("small")).collect()
}

#[track_caller]
fn put(session: &mut Session, path: &str, data: &[u8]) {
    let options = CreateOptions::default();
    let access = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    let made = session.open(path, access, CreateDisposition::OPEN_IF, options);
    let file = made.expect("it can be made");
    for (offset, piece) in (0..).step_by(PIECE).zip(data.chunks(PIECE)) {
        session.try_write(file, offset, piece).expect("it may write");
    }
    session.close(file);
}

/// Names, sizes and contents of the streams of a file.
#[track_caller]
fn streams(session: &mut Session, path: &str) -> Vec<(String, u64, Vec<u8>)> {
    let file = open(session, path, AccessMask::FILE_GENERIC_READ);
    let list = session.streams(file);
    session.close(file);
    let named = list.into_iter().filter(|(name, _)| name != "::$DATA");
    let read = |(name, size): (String, u64)| {
        let stream = open(session, &format!("{path}{name}"), AccessMask::FILE_GENERIC_READ);
        let data = session.read(stream);
        session.close(stream);
        (name, size, data)
    };
    named.map(read).collect()
}

#[track_caller]
fn delete(session: &mut Session, path: &str) {
    let file = open(session, path, AccessMask::DELETE);
    session.delete_on_close(file);
    session.close(file);
}

fn check_depot(theirs_makes: bool, is_in_share: bool) {
    let Some(mut both) = with_depot(is_in_share) else { return };
    let Both { ours, theirs, .. } = &mut both;
    let (maker, other) = if theirs_makes { (theirs, ours) } else { (ours, theirs) };
    put(maker, "file", b"main");
    put(maker, "file:long", &long());
    put(maker, "file:Zwölf", b"short");
    let folder = make(maker, "folder", DIRECTORY);
    maker.close(folder);
    put(maker, "folder:side", b"of a directory");
    let known = streams(maker, "file");
    let names: Vec<_> = known.iter().map(|(name, size, _)| (name.as_str(), *size)).collect();
    assert_eq!(names, [(":Zwölf:$DATA", 5), (":long:$DATA", 200_000)]);
    for path in ["file", "folder"] {
        assert_eq!(streams(other, path), streams(maker, path), "{path}");
    }
    // The other one adds to them.
    put(other, "file:added", b"added");
    put(other, "file:long", b"changed");
    delete(other, "file:Zwölf");
    put(other, "second", b"main");
    put(other, "second:own", &long());
    for path in ["file", "second"] {
        assert_eq!(streams(maker, path), streams(other, path), "{path}");
    }
    let changed = streams(maker, "file");
    let long = changed.iter().find(|(name, ..)| name == ":long:$DATA").expect("it is there");
    assert!(long.2.starts_with(b"changed\x07\x08"), "the rest is as before");
    // A file of a deleted one's name has none of its streams.
    delete(maker, "file");
    put(other, "file", b"again");
    assert_eq!(streams(maker, "file"), []);
    delete(other, "second");
    put(maker, "second", b"again");
    assert_eq!(streams(other, "second"), []);
    both.server.stop();
}

#[test]
fn streams_of_samba_in_a_depot_are_the_same_here() {
    check_depot(true, true);
    check_depot(true, false);
}

#[test]
fn streams_of_choro_in_a_depot_are_the_same_in_samba() {
    check_depot(false, true);
    check_depot(false, false);
}

#[test]
fn no_client_sees_a_depot_in_its_share() {
    let Some(mut both) = with_depot(true) else { return };
    put(&mut both.ours, "file:side", b"stream");
    assert!(both.server.share_path("data").join(".streams").is_dir());
    let seen = both.ours.try_access(".streams", AccessMask::READ_DATA);
    assert_eq!(seen, NtStatus::OBJECT_NAME_NOT_FOUND);
    let listed = both.server.client().run("data", &["ls"]).succeeds();
    assert!(listed.contains("file") && !listed.contains(".streams"), "{listed}");
    let (source, copy) = (both.server.site().path("source"), both.server.site().path("copy"));
    std::fs::write(&source, long()).expect("there is space");
    let put = format!("put {} file:long", source.display());
    let get = format!("get file:long {}", copy.display());
    both.server.client().run("data", &[&put, &get]).succeeds();
    assert!(std::fs::read(&copy).expect("it was got") == long(), "every byte");
    both.server.stop();
}

/// Of a Mac: the Finder's information, and a resource fork that no extended attribute could hold.
#[test]
fn a_long_resource_fork_in_a_depot_is_the_same_in_samba() {
    if !runs_as_root() {
        return;
    }
    let lines = "vfs objects = fruit streams_depot\nfruit:metadata = stream\n\
                 fruit:resource = stream\nforce user = daemon";
    let mut both = Both::of(Setup::new(), lines);
    make_depot_for_users(&both);
    let Both { ours, theirs, .. } = &mut both;
    let mut information = b"AFP\0\0\x01\0\0\0\0\0\0\x80\0\0\0TEXTttxt".to_vec();
    information.resize(60, 0);
    put(ours, "of choro", b"main");
    put(ours, "of choro:AFP_Resource", &long());
    put(ours, "of choro:AFP_AfpInfo", &information);
    let seen = streams(theirs, "of choro");
    let names: Vec<_> = seen.iter().map(|(name, size, _)| (name.as_str(), *size)).collect();
    assert_eq!(names, [(":AFP_AfpInfo:$DATA", 60), (":AFP_Resource:$DATA", 200_000)]);
    assert_eq!(seen[0].2, information);
    assert_eq!(seen, streams(ours, "of choro"));
    // Samba writes no Finder's information into a depot: it answers NOT_SUPPORTED.
    put(theirs, "of samba", b"main");
    put(theirs, "of samba:AFP_Resource", &long());
    let seen = streams(ours, "of samba");
    assert_eq!((seen.len(), &*seen[0].0, seen[0].1), (1, ":AFP_Resource:$DATA", 200_000));
    assert_eq!(seen, streams(theirs, "of samba"));
    both.server.stop();
}
