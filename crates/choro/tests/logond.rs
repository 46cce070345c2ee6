//! Passwords of the server's users: `logond` checks them, and no worker holds a hash.

mod harness;

use std::thread;
use std::time::Duration;

use bench::client::Protection;
use harness::choro::signal_process;
use harness::process_memory::{forms_of_hash, memory_holds};
use harness::{OTHER_USER, PASSWORD, Setup, TestServer};
use rustix::process::Signal;

/// Clients that log on without a pause while `logond` is replaced.
const CLIENTS: usize = 12;

/// Times that `logond` is killed.
const DEATHS: usize = 3;

/// The attack: a process that a client has taken over looks for hashes in its memory.
#[test]
fn no_process_that_reads_bytes_of_clients_holds_a_password_hash() {
    let server = TestServer::start();
    let client = server.connect("data", Protection::Signed);
    let texts = forms_of_hash(PASSWORD);
    let worker = server.worker_of(&client);
    let logond = server.server().logond().expect("it runs");
    assert!(memory_holds(logond, &texts), "it has the hash in a place that is not searched");
    assert!(!memory_holds(worker, &texts), "the worker of a client that has logged on");
    for pid in server.server().idle_workers().into_iter().chain([server.server().pid()]) {
        assert!(!memory_holds(pid, &texts), "process {pid}");
    }
}

#[test]
fn logons_wait_for_the_successor_of_a_logond_that_dies() {
    let server = Setup::new().share("data", "").start();
    drop(server.connect("data", Protection::Signed));
    for _ in 0..DEATHS {
        let logond = server.server().logond().expect("it runs");
        let is_replaced = || server.server().logond().is_some_and(|pid| pid != logond);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_replaced() {
                        drop(server.connect("data", Protection::Signed));
                    }
                });
            }
            signal_process(logond, Signal::KILL);
        });
    }
    server.stop();
}

/// The question is in the queue of a process that never answers it.
#[test]
fn a_logon_that_a_dead_logond_was_asked_about_is_answered_by_its_successor() {
    let server = TestServer::start();
    drop(server.connect("data", Protection::Signed));
    let logond = server.server().logond().expect("it runs");
    signal_process(logond, Signal::STOP);
    thread::scope(|scope| {
        let client = scope.spawn(|| drop(server.connect("data", Protection::Signed)));
        thread::sleep(Duration::from_millis(300));
        assert!(!client.is_finished(), "somebody else has checked the password");
        signal_process(logond, Signal::KILL);
        client.join().expect("it is let in");
    });
    server.stop();
}

#[test]
fn a_user_that_is_added_while_the_server_runs_can_log_on_at_once() {
    let server = TestServer::start();
    server.client().user("late", PASSWORD).run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    server.add_user("late");
    server.client().user("late", PASSWORD).run("data", &["ls"]).succeeds();
    server.site().run(&["user", "disable", OTHER_USER]).succeeds();
    let disabled = server.client().user(OTHER_USER, PASSWORD).run("data", &["ls"]);
    disabled.fails("NT_STATUS_ACCOUNT_DISABLED");
    server.site().run(&["user", "remove", "late"]).succeeds();
    server.client().user("late", PASSWORD).run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    server.stop();
}
