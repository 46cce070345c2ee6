use std::fs;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::thread;

use confinement::priority::{
    Priority, is_idle_priority, is_normal_priority, set_thread_priority, take_idle_priority,
};
use dtyp::ServerId;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::SocketType;
use tempfile::TempDir;

use super::{InitError, Member, Members, id_of, name_of};
use crate::transport::{TDB_FILE, TransportKind, remove_stale};

const ME: ServerId = ServerId { pid: 7, unique_id: 0x1_0000_0001 };
const OTHER: ServerId = ServerId { pid: 7, unique_id: 2 };
const DEAD: ServerId = ServerId { pid: 7, unique_id: 3 };

fn join(dir: &TempDir, id: ServerId, kind: SocketType) -> Result<Member, InitError> {
    let name = if kind == SocketType::STREAM { "stream" } else { "dgram" };
    Members::open(dir.path())?.join(id, kind, name)
}

#[test]
fn names_are_those_of_processes_and_no_others() {
    assert_eq!(name_of(ME), "7-0000000100000001");
    assert_eq!(id_of(&name_of(ME)), Some(ME));
    for name in ["7", "7-1", "07-0000000100000001", "7-000000010000000A", "-1", "transport", ""] {
        assert_eq!(id_of(name), None, "{name}");
    }
}

/// Also if a living process has this pid: it has another name.
#[test]
fn a_live_process_is_listed_and_a_dead_one_is_removed() {
    for kind in [SocketType::DGRAM, SocketType::STREAM] {
        let dir = tempfile::tempdir().expect("a folder");
        let me = join(&dir, ME, kind).expect("the first");
        let other = join(&dir, OTHER, kind).expect("another");
        let path = dir.path().join("msg");
        if kind == SocketType::STREAM {
            drop(UnixListener::bind(path.join(name_of(DEAD))).expect("the name is free"));
        } else {
            drop(UnixDatagram::bind(path.join(name_of(DEAD))).expect("the name is free"));
        }
        drop(UnixDatagram::bind(path.join("not-a-process")).expect("the name is free"));
        fs::write(path.join("888888-0000000000000001"), b"").expect("written");
        assert_eq!(me.members().list().expect("readable").living, [OTHER, ME]);
        assert!(!me.members().is_alive(DEAD));
        assert_eq!(me.members().connect(DEAD, kind).err(), Some(Errno::CONNREFUSED));
        let remove = |kind| remove_stale(dir.path(), kind).expect("readable");
        fs::write(dir.path().join(TDB_FILE), b"").expect("written");
        assert_eq!(remove(TransportKind::Tdb), 1);
        assert!(dir.path().join(TDB_FILE).exists());
        assert_eq!(remove(TransportKind::Dgram), 0);
        assert!(!dir.path().join(TDB_FILE).exists());
        assert!(!path.join(name_of(DEAD)).exists());
        assert!(path.join("not-a-process").exists());
        assert!(path.join("888888-0000000000000001").exists());
        drop(other);
        assert_eq!(me.members().list().expect("readable").living, [ME]);
    }
}

#[test]
fn all_talk_in_one_way_until_nobody_is_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = join(&dir, ME, SocketType::DGRAM).expect("the first");
    match join(&dir, OTHER, SocketType::STREAM) {
        Err(InitError::OtherTransport { running, asked: "stream" }) => assert_eq!(running, "dgram"),
        other => panic!("{other:?}"),
    }
    let second = join(&dir, OTHER, SocketType::DGRAM).expect("the same way");
    drop((first, second));
    let _third = join(&dir, OTHER, SocketType::STREAM).expect("nobody is left");
    let members = Members::open_existing(dir.path()).expect("there");
    assert_eq!(members.transport().expect("readable"), Some("stream".to_owned()));
}

#[test]
fn a_newborn_of_idle_priority_holds_the_lock_of_the_directory_at_normal_priority() {
    let dir = tempfile::tempdir().expect("a folder");
    let members = Members::open(dir.path()).expect("a new folder");
    let join = move || {
        take_idle_priority().expect("less is always allowed");
        if set_thread_priority(0, Priority::Normal).is_err() {
            // It may not return here.
            return None;
        }
        take_idle_priority().expect("less is always allowed");
        let within = members.with_lock(FlockOperation::LockExclusive, is_normal_priority);
        let member = members.join(ME, SocketType::DGRAM, "dgram").expect("the first");
        let after_joining = is_idle_priority();
        drop(member);
        Some((within, after_joining, is_idle_priority()))
    };
    let seen = thread::spawn(join).join().expect("it ends");
    assert!(seen.is_none_or(|seen| seen == (Ok(true), true, true)), "{seen:?}");
}
