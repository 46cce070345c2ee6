//! The lock directory is memory of the machine as a rule: clients must not fill it, and what others
//! put there must end no process of the server.

mod harness;

use std::fs;
use std::io::Write;
use std::path::Path;

use dtyp::NtStatus;
use harness::choro::wait_until;
use harness::namespace::Namespace;
use harness::session::{EVERYTHING, Session};
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER};
use wire::FileId;
use wire::create::{CreateDisposition, CreateOptions};

/// The server's first files take two thirds of it.
const SETUP: &str = r#"
    mkdir "$1"
    mount -t tmpfs -o size=6m,mode=755 none "$1""#;

/// Clients that come when there is no room: more than workers wait for them, so that some are
/// served by workers that began without room.
const LATE_CLIENTS: usize = 6;

/// More than anybody gets: with so many records there is no room for anything else.
const OPENS_MAX: usize = 20_000;

fn connect(server: &TestServer) -> Session {
    Session::new(server.site().address(), "data", USER, PASSWORD)
}

fn create(session: &mut Session, name: &str) -> Result<FileId, NtStatus> {
    session.open(name, EVERYTHING, CreateDisposition::OPEN_IF, CreateOptions::default())
}

/// Leaves no room at all.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("the namespace is there");
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

#[test]
fn clients_leave_room_in_the_lock_directory_and_a_full_one_ends_no_worker() {
    let setup = Setup::new().share("data", "");
    let lock = setup.path("lock");
    let namespace = match Namespace::of_mounts(SETUP, &[&lock]) {
        Ok(namespace) => namespace,
        Err(reason) => return progress(&format!("no file system of its own: {reason}")),
    };
    let server = setup.launch_with(&namespace.launcher()).start();

    let mut greedy = connect(&server);
    let mut results = (0..OPENS_MAX).map(|number| create(&mut greedy, &format!("file{number}")));
    let refused = results.position(|it| it == Err(NtStatus::INSUFFICIENT_RESOURCES));
    assert!(refused.is_some_and(|it| it > 50), "{refused:?}");
    let mut other = connect(&server);
    for number in 0..50 {
        create(&mut other, &format!("other{number}")).expect("there is room for another client");
    }

    let outside = Path::new("/proc").join(namespace.id().to_string()).join("root");
    let filler = outside.join(lock.strip_prefix("/").expect("it is absolute")).join("filler");
    fill(&filler);
    let late: Vec<Session> = (0..LATE_CLIENTS).map(|_| connect(&server)).collect();
    let began_without_room = || server.log().contains("cannot create the page for tracing");
    wait_until(began_without_room, || server.log());
    drop(late);
    let answers = [NtStatus::SUCCESS, NtStatus::INSUFFICIENT_RESOURCES];
    assert!(answers.contains(&other.try_access("other0", EVERYTHING)));
    fs::remove_file(&filler).expect("it is ours");
    create(&mut connect(&server), "late").expect("there is room again");
    assert!(!server.log().contains("signal"), "{}", server.log());
    server.stop();
}
