//! Users who own a part of a depot of streams, and try to have the server's rights work for them.
//! The tests need root, because they are about several users, and end at once without it.

mod support;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use dtyp::{AccessMask, NtStatus, SecurityDescriptor, SecurityInformation, Sid};
use object::{Disposition, ObjectPath};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::thread::{
    CapabilitySet, Uid, capabilities, set_capabilities, set_thread_groups, set_thread_res_uid,
};
use support::depot::{self, below, folders, get, listed, put};
use support::posix_acl::{self, Entry};
use support::{DELETE, READ, Share, WRITE, account, is_root};

const OWNER: u32 = 70_001;
const MALLORY: u32 = 70_002;

/// Directories that are made, until one is put in the place of another at the right moment.
const ATTEMPTS_MAX: u32 = 600;

/// A share with a depot beside it.
fn share() -> Share {
    Share::with(|root| {
        depot::beside(root);
    })
}

/// A file of somebody's with the stream `s`, and the folder of its streams.
fn with_stream(share: &mut Share, name: &str, owner: u32, mode: u32) -> PathBuf {
    let before = folders(share);
    share.local(name, "base");
    share.mode(name, mode);
    chown(share.host(name), Some(owner), Some(owner)).expect("root");
    act_as(share, owner);
    put(share, &format!("{}:s", name.replace('/', "\\")), b"stream").expect("its owner may");
    let new = folders(share).into_iter().find(|folder| !before.contains(folder));
    new.expect("it has a folder")
}

fn act_as(share: &mut Share, uid: u32) {
    share.user = share.store.register_user(account(uid, &[]));
}

/// A file that only its owner may read, put in place of a stream.
fn plant(share: &mut Share, folder: &Path, owner: u32) -> PathBuf {
    share.store.revert_to_server();
    let secret = share.folder.path().join("secret");
    fs::write(&secret, "secret").expect("there is space");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("root");
    chown(&secret, Some(owner), Some(owner)).expect("root");
    let planted = folder.join(":x:$DATA");
    fs::rename(secret, &planted).expect("root");
    planted
}

#[track_caller]
fn assert_closed(share: &mut Share, planted: &Path) {
    act_as(share, MALLORY);
    assert_eq!(get(share, "f:x"), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(put(share, "f:x", b"pwned!"), Err(NtStatus::ACCESS_DENIED));
    assert!(listed(share, "f").iter().all(|(name, _)| name != "x"), "nor is its length told");
    share.store.revert_to_server();
    assert_eq!(fs::read(planted).expect("root"), b"secret");
}

#[test]
fn a_file_of_somebody_else_that_was_moved_to_ones_streams_stays_closed() {
    if !is_root() {
        return;
    }
    for owner in [0, OWNER] {
        let mut share = share();
        let folder = with_stream(&mut share, "f", MALLORY, 0o600);
        let planted = plant(&mut share, &folder, owner);
        assert_closed(&mut share, &planted);
        assert_eq!(get(&mut share, "f:s"), Ok(b"stream".to_vec()));
        share.store.revert_to_server();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o644)).expect("root");
        assert_eq!(get(&mut share, "f:x"), Ok(b"secret".to_vec()), "a right of one's own");
    }
}

/// A share with a file that all may write, and the owner's closed file among its streams. In a
/// folder of Samba's or of an earlier version whoever may write a file may write the folder of its
/// streams, too.
fn planted_among_writers() -> (Share, PathBuf) {
    let mut share = share();
    let folder = with_stream(&mut share, "f", OWNER, 0o666);
    share.store.revert_to_server();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("root");
    let stream = folder.join(":s:$DATA");
    fs::set_permissions(stream, fs::Permissions::from_mode(0o666)).expect("root");
    let planted = plant(&mut share, &folder, OWNER);
    (share, planted)
}

#[test]
fn a_closed_file_of_the_owner_in_a_shared_folder_of_streams_stays_closed() {
    if !is_root() {
        return;
    }
    let (mut share, planted) = planted_among_writers();
    assert_closed(&mut share, &planted);
    assert_eq!(get(&mut share, "f:s"), Ok(b"stream".to_vec()), "a right of one's own");
    put(&mut share, "f:new", b"n").expect("as with Samba");
    act_as(&mut share, OWNER);
    assert_eq!(get(&mut share, "f:x"), Ok(b"secret".to_vec()));
}

/// The group's bits of the mode are the mask of the ACL, and give the group nothing.
#[test]
fn a_file_that_its_acl_closes_stays_closed_in_a_shared_folder_of_streams() {
    if !is_root() {
        return;
    }
    let (mut share, planted) = planted_among_writers();
    // What the mode says of everybody does not hold for Mallory, whom the ACL names.
    let entries = [
        Entry::Owner(6),
        Entry::User(OWNER, 6),
        Entry::User(MALLORY, 0),
        Entry::OwningGroup(0),
        Entry::Mask(6),
        Entry::Others(6),
    ];
    posix_acl::set(&planted, &entries);
    share.mode("f", 0o666);
    assert_closed(&mut share, &planted);
}

/// By the mode that it has, or a copy of it, everybody could read the stream.
#[test]
fn nobody_reads_a_stream_in_the_depot_without_a_right_to_its_file() {
    if !is_root() {
        return;
    }
    let mut share = share();
    share.local_directory("private");
    chown(share.host("private"), Some(OWNER), Some(OWNER)).expect("root");
    let folder = with_stream(&mut share, "private/f", OWNER, 0o666);
    share.mode("private", 0o700);
    let stream = folder.join(":s:$DATA");
    let mallory = account(MALLORY, &[]);
    let local = share.locally(&mallory, || fs::read(&stream).map_err(|it| it.kind()));
    assert_eq!(local, Err(std::io::ErrorKind::PermissionDenied));
    // Also where the depot can be entered, as one of Samba's.
    depot::give(&mut share, 0, 0o1777);
    let local = share.locally(&mallory, || fs::read(&stream).map_err(|it| it.kind()));
    assert_eq!(local, Err(std::io::ErrorKind::PermissionDenied));
    act_as(&mut share, OWNER);
    assert_eq!(get(&mut share, "private\\f:s"), Ok(b"stream".to_vec()));
}

#[test]
fn streams_of_a_gone_file_stay_closed_to_the_next_owner_of_its_number() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let former = with_stream(&mut share, "former", OWNER, 0o600);
    // A file that got the number, and the mark from its owner.
    let new = with_stream(&mut share, "f", MALLORY, 0o600);
    share.store.revert_to_server();
    fs::remove_dir_all(&new).expect("root");
    fs::rename(&former, &new).expect("root");
    act_as(&mut share, MALLORY);
    assert_eq!(listed(&mut share, "f"), []);
    assert_eq!(get(&mut share, "f:s"), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    assert_eq!(put(&mut share, "f:s", b"pwned!"), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(put(&mut share, "f:new", b"pwned!"), Err(NtStatus::ACCESS_DENIED));
    share.store.revert_to_server();
    assert_eq!(fs::read(new.join(":s:$DATA")).expect("root"), b"stream");
}

/// Makes the depot before the server does, and tries to add a stream as the owner of a file.
fn put_in(owner: u32, mode: u32, prepare: impl FnOnce(&Path)) -> Result<(), NtStatus> {
    let mut share = share();
    share.local("f", "base");
    chown(share.host("f"), Some(OWNER), Some(OWNER)).expect("root");
    let depot = depot::depot(&share);
    fs::create_dir(&depot).expect("root");
    chown(&depot, Some(owner), None).expect("root");
    fs::set_permissions(&depot, fs::Permissions::from_mode(mode)).expect("root");
    prepare(&depot);
    act_as(&mut share, OWNER);
    put(&mut share, "f:s", b"stream")
}

#[test]
fn a_depot_that_others_can_have_prepared_is_refused() {
    if !is_root() {
        return;
    }
    assert_eq!(put_in(0, 0o755, |_| ()), Ok(()));
    assert_eq!(put_in(0, 0o1777, |_| ()), Ok(()), "sticky");
    assert_eq!(put_in(OWNER, 0o755, |_| ()), Ok(()), "the user of the request");
    assert_eq!(put_in(MALLORY, 0o777, |_| ()), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(put_in(MALLORY, 0o755, |_| ()), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(put_in(0, 0o777, |_| ()), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(put_in(0, 0o775, |_| ()), Err(NtStatus::ACCESS_DENIED), "a right of the group's");
}

/// As with a depot of Samba's and `force user`.
#[test]
fn a_depot_of_the_user_of_the_request_has_streams_with_the_rights_of_that_user() {
    if !is_root() {
        return;
    }
    let mut share = share();
    with_stream(&mut share, "f", OWNER, 0o600);
    depot::give(&mut share, OWNER, 0o755);
    for name in ["g", "closed"] {
        share.local(name, "base");
        chown(share.host(name), Some(OWNER), Some(OWNER)).expect("root");
    }
    act_as(&mut share, OWNER);
    put(&mut share, "f:t", b"t").expect("a further stream");
    put(&mut share, "g:s", b"of g").expect("of a further file");
    assert_eq!(get(&mut share, "g:s"), Ok(b"of g".to_vec()));
    assert_eq!(listed(&mut share, "f"), [("s".to_owned(), 6), ("t".to_owned(), 1)]);
    for path in ["f:t", "f", "g"] {
        let open = share.open_for(path, DELETE);
        share.unlink(open).expect("removed");
    }
    assert_eq!(folders(&mut share), Vec::<PathBuf>::new());
    // The server's rights would do this.
    depot::give(&mut share, OWNER, 0o555);
    act_as(&mut share, OWNER);
    assert_eq!(put(&mut share, "closed:s", b"s"), Err(NtStatus::ACCESS_DENIED));
}

/// A closed directory of somebody's with files, in the place of the streams of `f`.
fn put_in_place(share: &mut Share, folder: &Path, owner: u32, names: &[&str]) -> Vec<PathBuf> {
    share.store.revert_to_server();
    let theirs = share.folder.path().join("theirs");
    fs::create_dir(&theirs).expect("root");
    names.iter().for_each(|name| fs::write(theirs.join(name), "kept").expect("root"));
    chown(&theirs, Some(owner), Some(owner)).expect("root");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).expect("root");
    if folder.exists() {
        fs::remove_dir_all(folder).expect("root");
    }
    fs::rename(&theirs, folder).expect("root");
    names.iter().map(|name| folder.join(name)).collect()
}

/// Mallory makes the depot, and renames a directory of somebody's to the place of own streams.
#[test]
fn a_directory_of_somebody_else_is_not_emptied_as_the_streams_of_a_deleted_file() {
    if !is_root() {
        return;
    }
    let depots = [(OWNER, MALLORY, 0o755), (0, MALLORY, 0o755), (OWNER, 0, 0o1777), (0, 0, 0o755)];
    // Root carries out a deletion for a worker that has ended.
    let of_users = [MALLORY, 0].into_iter().flat_map(|user| depots.map(|depot| (user, depot)));
    for (user, (owner, keeper, mode)) in of_users {
        let mut share = share();
        let folder = with_stream(&mut share, "f", MALLORY, 0o600);
        depot::give(&mut share, keeper, mode);
        chown(share.folder.path(), Some(keeper), None).expect("root");
        let kept = put_in_place(&mut share, &folder, owner, &[":a:$DATA", ":b:$DATA"]);
        act_as(&mut share, user);
        let open = share.open_for("f", DELETE);
        share.unlink(open).expect("it is Mallory's");
        share.store.revert_to_server();
        for file in kept {
            assert!(file.exists(), "{user} {owner} {keeper} {mode:o} {file:?}");
        }
    }
}

/// The owner of the depot can move files and directories of root's there.
#[test]
fn root_uses_no_depot_of_a_users() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let folder = with_stream(&mut share, "f", MALLORY, 0o600);
    depot::give(&mut share, MALLORY, 0o755);
    chown(share.folder.path(), Some(MALLORY), None).expect("root");
    let planted = plant(&mut share, &folder, 0);
    act_as(&mut share, 0);
    assert_eq!(put(&mut share, "f:x", b"pwned!"), Err(NtStatus::ACCESS_DENIED));
    let open = share.open_for("f", DELETE);
    share.unlink(open).expect("root may");
    share.store.revert_to_server();
    assert_eq!(fs::read(planted).expect("root"), b"secret");
}

#[test]
fn a_directory_of_somebody_else_is_not_emptied_as_lost_streams() {
    if !is_root() {
        return;
    }
    for (keeper, is_moved) in [(MALLORY, false), (0, true)] {
        let mut share = Share::with(|root| depot::beside(root).delete_lost = true);
        let folder = with_stream(&mut share, "f", MALLORY, 0o600);
        depot::give(&mut share, keeper, 0o755);
        let kept = put_in_place(&mut share, &folder, OWNER, &[":a:$DATA"]);
        rustix::fs::removexattr(share.host("f"), "user.SAMBA_STREAMS").expect("it has it");
        act_as(&mut share, MALLORY);
        assert_eq!(put(&mut share, "f:s", b"stream").is_ok(), is_moved);
        let lost = depot::lost(&mut share);
        assert_eq!(lost.len(), usize::from(is_moved), "{lost:?}");
        let kept = if is_moved { vec![lost[0].join(":a:$DATA")] } else { kept };
        assert_eq!(fs::read(&kept[0]).expect("it is kept"), b"kept");
    }
}

#[test]
fn nothing_is_removed_of_a_folder_with_anything_but_streams() {
    if !is_root() {
        return;
    }
    for is_directory in [false, true] {
        let mut share = share();
        let folder = with_stream(&mut share, "f", OWNER, 0o600);
        share.store.revert_to_server();
        let other = folder.join(if is_directory { ":z" } else { "letter" });
        if is_directory {
            fs::create_dir(&other).expect("root");
        } else {
            fs::write(&other, "").expect("root");
        }
        act_as(&mut share, OWNER);
        let open = share.open_for("f", DELETE);
        share.unlink(open).expect("removed");
        share.store.revert_to_server();
        assert!(other.exists() && folder.join(":s:$DATA").exists());
    }
}

/// Who owns a folder of streams can fill it, and would keep a worker that removes all of it.
#[test]
fn streams_of_a_deleted_file_beyond_a_limit_are_set_aside() {
    const STREAMS: usize = 5_000;
    let mut share = share();
    share.local("f", "base");
    put(&mut share, "f:s", b"stream").expect("it is ours");
    let folder = folders(&mut share).pop().expect("it has a folder");
    for number in 1..STREAMS {
        fs::write(folder.join(format!(":{number}:$DATA")), "").expect("it is ours");
    }
    let open = share.open_for("f", DELETE);
    share.unlink(open).expect("removed");
    assert!(folders(&mut share).is_empty());
    let left: Vec<_> = depot::lost(&mut share).iter().map(|lost| below(lost).len()).collect();
    assert_eq!(left, [STREAMS - 4_096]);
}

/// The owner of the share's folder has made the depot, and puts the streams of one file in the
/// place of those of another.
#[test]
fn streams_of_a_closed_file_stay_closed_to_the_owner_of_the_depot() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let open = with_stream(&mut share, "open", OWNER, 0o666);
    let closed = with_stream(&mut share, "closed", OWNER, 0o600);
    depot::give(&mut share, MALLORY, 0o1777);
    renameat_with(CWD, &open, CWD, &closed, RenameFlags::EXCHANGE).expect("root");
    act_as(&mut share, MALLORY);
    assert_eq!(listed(&mut share, "open"), []);
    let read = share.status_of("open:s", |_| {});
    assert_ne!(read, NtStatus::SUCCESS, "its content");
    assert!(put(&mut share, "open:s", b"pwned!").is_err());
    share.store.revert_to_server();
    assert_eq!(fs::read(open.join(":s:$DATA")).expect("root"), b"stream");
}

/// The attack: the owner of the depot puts a folder and a stream there for another's closed file.
#[test]
fn streams_that_the_owner_of_the_depot_puts_there_are_not_those_of_others() {
    if !is_root() {
        return;
    }
    for is_owners_folder in [false, true] {
        let mut share = share();
        let folder = with_stream(&mut share, "closed", OWNER, 0o600);
        depot::give(&mut share, MALLORY, 0o755);
        // The depot is in the folder of the share.
        let around = share.host("closed").parent().expect("it has one").to_owned();
        chown(around, Some(MALLORY), None).expect("root");
        let forged = folder.join(":s:$DATA");
        fs::write(&forged, "forged").expect("root");
        fs::set_permissions(&forged, fs::Permissions::from_mode(0o666)).expect("root");
        chown(&forged, Some(MALLORY), None).expect("root");
        if !is_owners_folder {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("root");
            chown(&folder, Some(MALLORY), None).expect("root");
        }
        act_as(&mut share, OWNER);
        let read = share.status_of("closed:s", |_| {});
        assert_ne!(read, NtStatus::SUCCESS, "its content");
        assert!(put(&mut share, "closed:s", b"secret").is_err());
        share.store.revert_to_server();
        assert_eq!(fs::read(&forged).expect("root"), b"forged");
    }
}

/// Names of streams come from clients without a slash, but others can ask for them, too.
#[test]
fn a_stream_with_a_slash_in_its_name_is_no_path_in_the_depot() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let folder = with_stream(&mut share, "f", OWNER, 0o600);
    share.store.revert_to_server();
    fs::create_dir(folder.join(":a")).expect("root");
    act_as(&mut share, OWNER);
    let made = share.try_open("f", |request| {
        request.path = ObjectPath::from_stored("f".to_owned(), Some("a/b".to_owned()));
        request.disposition = Disposition::OpenIf;
        request.desired_access = READ | WRITE;
    });
    assert_eq!(made.err(), Some(NtStatus::INVALID_PARAMETER));
    share.store.revert_to_server();
    assert!(below(&folder.join(":a")).is_empty());
}

#[test]
fn a_directory_of_a_hash_that_belongs_to_somebody_else_is_refused() {
    if !is_root() {
        return;
    }
    let prepared = put_in(0, 0o1777, |depot| {
        for hash in 0..=u8::MAX {
            let hash = depot.join(format!("{hash:02X}"));
            fs::create_dir(&hash).expect("root");
            chown(&hash, Some(MALLORY), None).expect("root");
        }
    });
    assert_eq!(prepared, Err(NtStatus::ACCESS_DENIED));
}

/// Exchanges two names as often as it can, as a local process of Mallory's, until told to stop.
fn exchange(ours: &Path, theirs: &Path, stop: &AtomicBool) {
    let uid = Uid::from_raw(MALLORY);
    set_thread_groups(&[]).expect("root");
    set_thread_res_uid(uid, uid, uid).expect("root");
    while !stop.load(Ordering::Relaxed) {
        let _ = renameat_with(CWD, theirs, CWD, ours, RenameFlags::EXCHANGE);
    }
}

/// Stops the thread also when the attack has succeeded, which is a panic.
struct StopAtTheEnd<'a>(&'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_directory_that_somebody_put_in_the_place_of_a_new_depot_stays_its_owners() {
    if !is_root() {
        return;
    }
    let mut share = share();
    share.local("f", "base");
    let (ours, theirs) = (depot::depot(&share), share.folder.path().join("theirs"));
    fs::create_dir(&theirs).expect("root");
    fs::write(theirs.join("file"), "").expect("root");
    chown(&theirs, Some(OWNER), Some(OWNER)).expect("root");
    chown(share.folder.path(), Some(MALLORY), None).expect("root");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&ours, &theirs, &stop));
        let _stop = StopAtTheEnd(&stop);
        for _ in 0..ATTEMPTS_MAX {
            let _ = put(&mut share, "f:s", b"stream");
            share.store.revert_to_server();
            for name in [&ours, &theirs, &ours, &theirs] {
                if let Ok(directory) = fs::File::open(name) {
                    assert_kept(&directory);
                }
                // Not that of the victim, which has a file.
                let _ = fs::remove_dir(name);
            }
            if !theirs.exists() {
                fs::rename(&ours, &theirs).expect("nobody has anything to exchange");
            }
        }
    });
}

/// Empties a directory but for the victim's file, whose directory must still be the victim's.
#[track_caller]
fn assert_kept(directory: &fs::File) {
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let owner = directory.metadata().expect("open").uid();
    for entry in below(&path) {
        if entry.ends_with("file") {
            assert_eq!(owner, OWNER, "taken");
        } else {
            fs::remove_dir_all(entry).expect("root");
        }
    }
}

/// The capability is missing as the space of a quota would be: the kernel refuses the new owner.
#[test]
fn nothing_is_left_of_a_stream_that_its_owner_cannot_get() {
    if !is_root() {
        return;
    }
    let test = std::thread::spawn(|| {
        let mut share = share();
        let folder = with_stream(&mut share, "f", OWNER, 0o600);
        share.local("g", "base");
        chown(share.host("g"), Some(OWNER), Some(OWNER)).expect("root");
        act_as(&mut share, OWNER);
        share.store.revert_to_server();
        let mut sets = capabilities(None).expect("our own");
        sets.effective.remove(CapabilitySet::CHOWN);
        sets.permitted.remove(CapabilitySet::CHOWN);
        sets.inheritable.remove(CapabilitySet::CHOWN);
        set_capabilities(None, sets).expect("fewer");
        assert!(put(&mut share, "f:new", b"n").is_err());
        assert!(put(&mut share, "g:new", b"n").is_err());
        share.store.revert_to_server();
        assert_eq!(below(&folder), [folder.join(":s:$DATA")]);
        assert_eq!(folders(&mut share), [folder]);
    });
    test.join().expect("no panic");
}

/// One client finds the folder or the file that the server makes for the other, before it is given
/// to its owner.
#[test]
fn two_clients_that_add_the_first_stream_of_a_file_at_once_both_succeed() {
    const FILES: u32 = 200;
    if !is_root() {
        return;
    }
    let mut first = share();
    for number in 0..FILES {
        let name = format!("f{number}");
        first.local(&name, "base");
        chown(first.host(&name), Some(OWNER), Some(OWNER)).expect("root");
    }
    let (shared, depot) = (first.host(""), depot::depot(&first));
    // Each waits for the other; one that is gone ends the wait, and the test, with a panic.
    let add = |(here, there): (Sender<()>, Receiver<()>)| {
        let mut share = Share::with(|root| {
            root.path.clone_from(&shared);
            root.streams_depot = Some(depot::settings(depot.clone()));
        });
        act_as(&mut share, OWNER);
        let mut added = Ok(());
        for number in 0..FILES {
            here.send(()).expect("the other client is there");
            there.recv().expect("the other client is there");
            added = added.and_then(|()| put(&mut share, &format!("f{number}:s"), b"stream"));
        }
        added
    };
    let (first, second) = (channel(), channel());
    let ends = [(first.0, second.1), (second.0, first.1)];
    let results = std::thread::scope(|scope| {
        let threads = ends.map(|ends| scope.spawn(|| add(ends)));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(results, [Ok(()), Ok(())]);
}

/// Gives a file to another user, as an administrator of the share.
fn give(share: &mut Share, path: &str, uid: u32) {
    act_as(share, 0);
    let open = share.open_for(path, AccessMask::WRITE_OWNER);
    let descriptor =
        SecurityDescriptor { owner: Some(Sid::unix_user(uid)), ..SecurityDescriptor::default() };
    share.write_security(open, SecurityInformation::OWNER, &descriptor).expect("root may");
    share.close(open);
}

#[test]
fn streams_go_along_with_a_file_to_its_new_owner() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let folder = with_stream(&mut share, "f", MALLORY, 0o600);
    give(&mut share, "f", OWNER);
    act_as(&mut share, OWNER);
    assert_eq!(get(&mut share, "f:s"), Ok(b"stream".to_vec()));
    put(&mut share, "f:s", b"later!").expect("its owner may");
    put(&mut share, "f:t", b"second").expect("its owner may");
    act_as(&mut share, MALLORY);
    assert_eq!(get(&mut share, "f:s"), Err(NtStatus::ACCESS_DENIED));
    act_as(&mut share, 0);
    let open = share.open_for("f", DELETE);
    share.unlink(open).expect("root may");
    share.store.revert_to_server();
    assert!(!folder.exists(), "no stream of it stays behind");
}

/// The attack: the former owner has a file of a third user among the streams, or has let others
/// put files there.
#[test]
fn files_of_others_do_not_go_along_with_the_streams_of_a_file() {
    const THIRD: u32 = 70_003;
    if !is_root() {
        return;
    }
    for mode in [0o700, 0o777] {
        let mut share = share();
        let folder = with_stream(&mut share, "f", MALLORY, 0o600);
        let planted = plant(&mut share, &folder, THIRD);
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("root");
        give(&mut share, "f", OWNER);
        share.store.revert_to_server();
        assert_eq!(fs::metadata(&planted).expect("root").uid(), THIRD);
        let is_given = mode == 0o700;
        let owner = if is_given { OWNER } else { MALLORY };
        assert_eq!(fs::metadata(folder.join(":s:$DATA")).expect("root").uid(), owner);
        act_as(&mut share, OWNER);
        assert_eq!(get(&mut share, "f:x"), Err(NtStatus::ACCESS_DENIED));
    }
}
