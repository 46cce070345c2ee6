//! Workers that are killed while clients meet on the same files: nothing of the dead is left, and
//! the living go on.

mod harness;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::client::{Client, Protection, requests};
use dtyp::{AccessMask, NtStatus};
use harness::choro::{Over, signal_process, wait_until};
use harness::{TestServer, destination, terms};
use rustix::process::{Pid, Signal, kill_process};
use wire::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId, OplockLevel};

/// Clients that open the same two files at once.
const CLIENTS: usize = 4;

/// Workers that are killed meanwhile.
const KILLS: usize = 12;

/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(150);

/// Much less than the time that the holder of an oplock has to answer.
const SOON: Duration = Duration::from_secs(20);

fn connect(address: SocketAddr) -> Option<Client> {
    // A worker may be killed in the middle of a logon.
    Client::connect(&destination(address, "data"), terms(Protection::Signed)).ok()
}

/// CREATE; nothing if the connection is gone.
fn create(
    client: &mut Client,
    name: &str,
    share_access: ShareAccess,
    requested_oplock_level: OplockLevel,
) -> Option<Result<FileId, NtStatus>> {
    let name = dtyp::utf16::to_bytes(name);
    let request = CreateRequest {
        requested_oplock_level,
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_GENERIC_READ | AccessMask::FILE_GENERIC_WRITE,
        share_access,
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    let reply = client.call(Command::CREATE, 0, &request).ok()?;
    if reply.header.status.is_error() {
        return Some(Err(reply.header.status));
    }
    let response = CreateResponse::decode(client.message(&reply)).expect("well-formed");
    Some(Ok(response.file_id))
}

/// Opens a file alone, writes and closes; nothing if the connection is gone.
fn use_once(client: &mut Client, round: usize) -> Option<()> {
    let name = ["one", "two"][round % 2];
    match create(client, name, ShareAccess::empty(), OplockLevel::NONE)? {
        Ok(file_id) => {
            let write = WriteRequest::new(file_id, 0, b"data");
            client.call(Command::WRITE, 4, &write).ok()?.succeeded().expect("it is open");
            requests::close(client, file_id).ok()
        }
        Err(status) => {
            assert_eq!(status, NtStatus::SHARING_VIOLATION);
            Some(())
        }
    }
}

fn client_pids(server: &TestServer) -> Vec<u32> {
    let status = server.site().run(&["status", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&status).expect("it is JSON");
    let clients = rows.iter().filter(|row| row["kind"] == "client");
    clients.filter_map(|row| row["pid"].as_u64()?.try_into().ok()).collect()
}

#[test]
fn opens_of_killed_workers_are_released_and_the_others_go_on() {
    let server = TestServer::start();
    let address = server.site().address();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut client = None;
                    for round in number.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let Some(here) = &mut client else {
                            client = connect(address);
                            continue;
                        };
                        if use_once(here, round).is_none() {
                            client = None;
                        }
                    }
                    client
                })
            })
            .collect();
        let over = Over(&is_over);
        let mut killed = 0;
        for kill in 0..KILLS {
            thread::sleep(PAUSE);
            let pids = client_pids(&server);
            let chosen = kill.checked_rem(pids.len()).map(|at| pids[at].cast_signed());
            // Of a worker that has just been killed records may be left.
            if chosen
                .and_then(Pid::from_raw)
                .is_some_and(|it| kill_process(it, Signal::KILL).is_ok())
            {
                killed += 1;
            }
        }
        assert!(killed > KILLS / 2, "clients were there: {killed}");
        thread::sleep(PAUSE);
        drop(over);
        for client in clients {
            let client = client.join().expect("no client saw anything that it should not");
            // One whose worker was the last to be killed does not know it yet.
            if let Some(client) = client {
                let _ = client.logoff();
            }
        }
    });
    let status = || server.site().run(&["status", "--json"]).succeeds();
    wait_until(|| status().trim() == "[]", || format!("something is left: {}", status()));
    // After so many crashes the address has to wait a little.
    let mut client = None;
    wait_until(
        || {
            client = connect(address);
            client.is_some()
        },
        || server.server().log(),
    );
    let mut client = client.expect("it was waited for");
    for name in ["one", "two"] {
        let opened = create(&mut client, name, ShareAccess::empty(), OplockLevel::NONE);
        assert!(matches!(opened, Some(Ok(_))), "{name}: {opened:?}");
    }
    client.logoff().expect("it ends well");
    server.stop();
}

#[test]
fn a_request_that_waits_for_a_break_goes_on_when_the_holder_is_killed() {
    let server = TestServer::start();
    let address = server.site().address();
    let everything = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    let mut holder = connect(address).expect("the server is there");
    let opened = create(&mut holder, "file", everything, OplockLevel::BATCH);
    assert!(matches!(opened, Some(Ok(_))), "{opened:?}");
    let [pid] = client_pids(&server)[..] else { panic!("one client is there") };
    let begun = Instant::now();
    let waiter = thread::spawn(move || {
        let mut client = connect(address).expect("the server is there");
        let opened = create(&mut client, "file", everything, OplockLevel::NONE);
        (opened, client)
    });
    wait_until(|| client_pids(&server).len() == 2, || server.log());
    thread::sleep(PAUSE * 4);
    assert!(!waiter.is_finished(), "it waits for the holder");
    signal_process(pid, Signal::KILL);
    let (opened, client) = waiter.join().expect("it goes on");
    assert!(matches!(opened, Some(Ok(_))), "{opened:?}");
    assert!(begun.elapsed() < SOON, "it waited for the time of the break");
    client.logoff().expect("it ends well");
    drop(holder);
    server.stop();
}
