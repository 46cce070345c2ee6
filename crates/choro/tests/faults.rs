//! Faults of the host: a full disk, a removed directory. Clients get a clear status, and everything
//! else works on.

mod harness;

use std::fs;
use std::process;
use std::time::Instant;

use bench::client::Protection;
use dtyp::NtStatus;
use harness::session::{EVERYTHING, Session};
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER};
use wire::create::{CreateDisposition, CreateOptions};
use wire::tree_connect::TreeConnectRequest;
use wire::{Command, FileId};

const BLOCK: usize = 64 * 1024;

fn connect(server: &TestServer, share: &str) -> Session {
    Session::new(server.site().address(), share, USER, PASSWORD)
}

fn create(session: &mut Session, name: &str) -> Result<FileId, NtStatus> {
    session.open(name, EVERYTHING, CreateDisposition::OPEN_IF, CreateOptions::default())
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let setup = Setup::with_machine().share("small", "").share("other", "");
    let folder = setup.path("shares/small");
    let server = setup.start();
    let launcher = server.launcher();
    let Some((program, arguments)) = launcher.split_first() else {
        return progress("no file system of its own, which could be full");
    };
    let mounted = process::Command::new(program)
        .args(arguments)
        .args(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "none"])
        .arg(folder)
        .status();
    assert!(mounted.expect("it can be run").success());

    let mut session = connect(&server, "small");
    let kept = create(&mut session, "kept").expect("there is space");
    session.write(kept, b"what was there");
    let big = create(&mut session, "big").expect("there is space");
    let block = vec![7; BLOCK];
    let offsets = (0..).step_by(BLOCK);
    let mut results = offsets.take(20).map(|offset| session.try_write(big, offset, &block));
    assert_eq!(results.find(Result::is_err), Some(Err(NtStatus::DISK_FULL)));
    assert_eq!(session.read(kept), b"what was there");

    let mut other = connect(&server, "other");
    let elsewhere = create(&mut other, "file").expect("it is another file system");
    other.write(elsewhere, &block);

    session.close(big);
    fs::remove_file(server.share_path("small").join("big")).expect("it is there");
    session.try_write(kept, 0, &block).expect("there is space again");
    server.stop();
}

#[test]
fn a_folder_removed_on_the_server_is_gone_and_its_open_files_stay() {
    let server = Setup::new().share("gone", "").share("other", "").start();
    let mut session = connect(&server, "gone");
    let folder = server.share_path("gone");
    fs::create_dir(folder.join("folder")).expect("there is space");
    harness::give_to_server(&folder.join("folder"));
    let open = create(&mut session, "folder\\file").expect("there is space");
    session.write(open, b"data");

    fs::remove_dir_all(folder.join("folder")).expect("it is there");
    assert_eq!(session.read(open), b"data", "an open file outlives its name");
    session.write(open, b"more");
    let again = create(&mut session, "folder\\file");
    assert_eq!(again, Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    session.close(open);

    fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!(create(&mut session, "file"), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    let mut other = connect(&server, "other");
    create(&mut other, "file").expect("the other share is there");
    server.stop();
}

/// Each connection with another ClientGuid has a process of its own, with lines of its own.
#[test]
fn one_connection_after_the_other_fills_no_log() {
    let server = Setup::new().share("data", "").share("gone", "").start();
    fs::remove_dir(server.share_path("gone")).expect("it is empty");
    let path = dtyp::utf16::to_bytes("\\\\127.0.0.1\\gone");
    let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
    let begin = Instant::now();
    for _ in 0..3 {
        let mut client = server.connect("data", Protection::Signed);
        for _ in 0..1_000 {
            let reply = client.call(Command::TREE_CONNECT, 0, &request).expect("an answer");
            assert!(reply.header.status.is_error(), "{:?}", reply.header.status);
        }
    }
    let log = server.server().log();
    let lines = log.lines().filter(|line| line.contains("share gone: cannot open")).count();
    let since = usize::try_from(begin.elapsed().as_millis() / 20).expect("a short time");
    assert!((900..=1_010 + since).contains(&lines), "{lines} lines in {since} intervals");
    server.stop();
}
