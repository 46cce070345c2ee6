//! Users who own a part of a depot of streams, and try to have the server's rights work for them.
//! The tests need root, because they are about several users, and end at once without it.

mod support;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use dtyp::NtStatus;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::thread::{
    CapabilitySet, Uid, capabilities, set_capabilities, set_thread_groups, set_thread_res_uid,
};
use support::depot::{self, below, folders, get, listed, put};
use support::{Share, account, is_root};

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
    put(share, &format!("{name}:s"), b"stream").expect("its owner may");
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

/// Who may write a file may write the folder of its streams, too.
#[test]
fn a_closed_file_of_the_owner_in_a_shared_folder_of_streams_stays_closed() {
    if !is_root() {
        return;
    }
    let mut share = share();
    let folder = with_stream(&mut share, "f", OWNER, 0o666);
    let planted = plant(&mut share, &folder, OWNER);
    assert_closed(&mut share, &planted);
    assert_eq!(get(&mut share, "f:s"), Ok(b"stream".to_vec()));
    put(&mut share, "f:new", b"n").expect("a right to the file is enough");
    act_as(&mut share, OWNER);
    assert_eq!(get(&mut share, "f:x"), Ok(b"secret".to_vec()));
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
