//! Clients and programs of the server's machine on the same files: `posix locking`, `strict
//! locking`, `kernel share modes`, `kernel oplocks`.
//!
//! The program is `local_programs/program.py`, or `flock` of util-linux: what any program does that
//! knows nothing of SMB.

mod harness;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command as Program, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;

use dtyp::{AccessMask, Guid, NtStatus, utf16};
use harness::choro::{PATIENCE, signal_process, wait_until};
use harness::file_client::{ALL, Client};
use harness::smbclient::lines_of;
use harness::{Setup, TestServer, give_to_server};
use rustix::process::Signal;
use wire::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use wire::create_context::{CreateContextList, DurableFlags, DurableHandleRequestV2};
use wire::header::HeaderFlags;
use wire::lock::LockFlags;
use wire::oplock_break::OplockBreak;
use wire::{Command, Decode, OplockLevel};

const NOTHING: ShareAccess = ShareAccess::empty();
const READING: ShareAccess = ShareAccess::READ;
const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE_LOCK;
const SHARED: LockFlags = LockFlags::SHARED_LOCK;
const AT_ONCE: LockFlags = LockFlags::FAIL_IMMEDIATELY;

/// The places where a share's operations run: the loop of the worker, and a thread for its storage.
const PLACES: [&str; 2] = ["", "choro:storage path = threads"];

/// A program that is told line by line what to do with a file. It ends with this.
struct LocalProgram {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl LocalProgram {
    fn start(file: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/local_programs/program.py");
        let mut child = Program::new("/usr/bin/python3")
            .arg(script)
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let answers = lines_of(child.stdout.take().expect("it is piped"));
        let stdin = child.stdin.take();
        let program = Self { child, stdin, answers };
        assert_eq!(program.answer(), "ready");
        program
    }

    fn begin(&mut self, command: &str) {
        let stdin = self.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{command}").expect("it reads");
    }

    #[track_caller]
    fn answer(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the program answers")
    }

    /// Has it do something; false if another lock conflicts.
    #[track_caller]
    fn may(&mut self, command: &str) -> bool {
        self.begin(command);
        self.answer() == "yes"
    }

    /// Tries a lock, and releases it again.
    #[track_caller]
    fn could(&mut self, kind: &str, start: u64, length: u64) -> bool {
        let could = self.may(&format!("ofd {kind} {start} {length}"));
        assert!(self.may(&format!("ofd none {start} {length}")));
        could
    }
}

impl Drop for LocalProgram {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A server with a share `data` that has these lines, and a file of 1,000 bytes in it.
fn start(lines: &str) -> (TestServer, PathBuf) {
    let server = Setup::new().share("data", lines).start();
    let file = server.share_path("data").join("file");
    fs::write(&file, [b'x'; 1_000]).expect("there is space");
    give_to_server(&file);
    (server, file)
}

/// Returns the rows of clients, sessions and opens.
fn rows(server: &TestServer) -> Vec<serde_json::Value> {
    let status = server.site().run(&["status", "--json"]).succeeds();
    serde_json::from_str(&status).expect("an array")
}

// posix locking.

#[test]
fn locks_of_clients_and_of_local_programs_exclude_each_other() {
    for place in PLACES {
        let (server, file) = start(place);
        let (mut program, mut client) =
            (LocalProgram::start(&file), Client::new(&server, "data", 1));
        let open = client.open();
        assert_eq!(client.lock(open, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
        assert_eq!(client.lock(open, &[(20, 10, SHARED)]), NtStatus::SUCCESS);
        for kind in ["posix", "ofd"] {
            assert!(!program.may(&format!("{kind} exclusive 9 1")), "{kind} {place}");
            assert!(!program.may(&format!("{kind} shared 9 1")), "{kind} {place}");
            assert!(!program.may(&format!("{kind} exclusive 20 1")), "{kind} {place}");
            assert!(program.may(&format!("{kind} shared 20 1")), "{kind} {place}");
            assert!(program.may(&format!("{kind} exclusive 10 5")), "{kind} {place}");
            let not_granted = client.lock(open, &[(10, 1, EXCLUSIVE | AT_ONCE)]);
            assert_eq!(not_granted, NtStatus::LOCK_NOT_GRANTED, "{kind} {place}");
            // All or nothing: the first of these is free.
            let both = [(40, 1, EXCLUSIVE | AT_ONCE), (14, 1, SHARED | AT_ONCE)];
            assert_eq!(client.lock(open, &both), NtStatus::LOCK_NOT_GRANTED, "{kind} {place}");
            assert!(program.could("exclusive", 40, 1), "{kind} {place}");
            assert!(program.may(&format!("{kind} none 0 0")));
            assert_eq!(client.lock(open, &both), NtStatus::SUCCESS, "{kind} {place}");
            client.unlock(open, 40, 1);
            client.unlock(open, 14, 1);
        }
        client.unlock(open, 0, 10);
        client.unlock(open, 20, 10);
        assert!(program.could("exclusive", 0, 1_000), "{place}");
        drop(client);
        server.stop();
    }
}

#[test]
fn an_unlock_leaves_the_bytes_locked_that_other_locks_cover() {
    let (server, file) = start("");
    let mut program = LocalProgram::start(&file);
    let (mut one, mut other) = (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
    let (first, second) = (one.open(), other.open());
    for (client, open) in [(&mut one, first), (&mut other, second)] {
        assert_eq!(client.lock(open, &[(0, 10, SHARED)]), NtStatus::SUCCESS);
    }
    one.unlock(first, 0, 10);
    assert!(program.could("shared", 0, 10) && !program.could("exclusive", 0, 10));
    other.unlock(second, 0, 10);
    assert!(program.could("exclusive", 0, 10));
    // Of one open, one within the other.
    assert_eq!(one.lock(first, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    assert_eq!(one.lock(first, &[(3, 2, SHARED)]), NtStatus::SUCCESS);
    one.unlock(first, 0, 10);
    assert!(program.could("exclusive", 0, 3) && program.could("exclusive", 5, 5));
    assert!(program.could("shared", 3, 2) && !program.could("exclusive", 3, 2));
    one.unlock(first, 3, 2);
    assert!(program.could("exclusive", 3, 2));
    // A further descriptor of the same file in the same process, and its close.
    assert_eq!(one.lock(first, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    let third = one.open();
    one.close(third);
    assert!(!program.could("shared", 0, 1));
    drop((one, other));
    server.stop();
}

#[test]
fn locks_that_the_kernel_cannot_express_exclude_clients_alone() {
    let (server, file) = start("");
    let mut program = LocalProgram::start(&file);
    let (mut one, mut other) = (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
    let (first, second) = (one.open(), other.open());
    let far = 1 << 63;
    assert_eq!(one.lock(first, &[(far, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    assert_eq!(other.lock(second, &[(far + 9, 1, SHARED | AT_ONCE)]), NtStatus::LOCK_NOT_GRANTED);
    assert!(program.could("exclusive", 0, 0), "all bytes are free for the kernel");
    one.unlock(first, far, 10);
    assert_eq!(one.lock(first, &[(500, u64::MAX - 500, EXCLUSIVE)]), NtStatus::SUCCESS);
    assert!(program.could("exclusive", 0, 500) && !program.could("exclusive", 500, 1));
    assert!(!program.could("shared", i64::MAX.unsigned_abs() - 1, 1));
    one.unlock(first, 500, u64::MAX - 500);
    // An open without the right to write has a shared lock in the kernel, as in Samba.
    one.close(first);
    let reads = AccessMask::READ_DATA;
    let (first, _) = one.try_open(reads, ALL, OplockLevel::NONE).expect("it may read");
    assert_eq!(one.lock(first, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    assert!(program.could("shared", 0, 10) && !program.could("exclusive", 0, 10));
    assert_eq!(other.lock(second, &[(0, 10, SHARED | AT_ONCE)]), NtStatus::LOCK_NOT_GRANTED);
    drop((one, other));
    server.stop();
}

#[test]
fn a_lock_waits_for_a_local_program_without_delaying_other_requests() {
    for place in PLACES {
        let (server, file) = start(place);
        let (mut program, mut client) =
            (LocalProgram::start(&file), Client::new(&server, "data", 1));
        let open = client.open();
        assert!(program.may("posix exclusive 0 10"));
        let waiting = client.begin_lock(open, &[(5, 1, EXCLUSIVE)]);
        let (interim, _) = client.0.receive().expect("the server answers");
        assert_eq!((interim.message_id, interim.status), (waiting, NtStatus::PENDING), "{place}");
        client.echo();
        assert_eq!(client.read(open, 20, 10), NtStatus::SUCCESS, "{place}");
        assert!(program.may("posix none 0 10"));
        assert_eq!(client.final_answer(waiting).0.status, NtStatus::SUCCESS, "{place}");
        assert!(!program.could("shared", 5, 1), "{place}");
        client.unlock(open, 5, 1);
        // One that is canceled takes nothing.
        assert!(program.may("posix exclusive 0 10"));
        let canceled = client.begin_lock(open, &[(5, 1, EXCLUSIVE)]);
        let (interim, _) = client.0.receive().expect("the server answers");
        assert_eq!(interim.status, NtStatus::PENDING);
        client.0.cancel(canceled, interim.async_id).expect("it is connected");
        assert_eq!(client.final_answer(canceled).0.status, NtStatus::CANCELLED, "{place}");
        assert!(program.may("posix none 0 10"));
        client.echo();
        assert!(program.could("exclusive", 0, 10), "{place}");
        drop(client);
        server.stop();
    }
}

#[test]
fn a_lock_waits_for_a_client_and_then_for_a_local_program() {
    let (server, file) = start("");
    let mut program = LocalProgram::start(&file);
    let (mut one, mut other) = (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
    let (first, second) = (one.open(), other.open());
    assert_eq!(one.lock(first, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    let waiting = other.begin_lock(second, &[(0, 20, EXCLUSIVE)]);
    let (interim, _) = other.0.receive().expect("the server answers");
    assert_eq!(interim.status, NtStatus::PENDING);
    assert!(program.may("ofd exclusive 10 10"));
    one.unlock(first, 0, 10);
    other.echo();
    assert!(program.may("ofd none 10 10"));
    assert_eq!(other.final_answer(waiting).0.status, NtStatus::SUCCESS);
    assert!(!program.could("shared", 0, 1) && !program.could("shared", 19, 1));
    drop((one, other));
    server.stop();
}

#[test]
fn locks_end_with_their_open_their_connection_and_their_worker() {
    for place in PLACES {
        let (server, file) = start(place);
        let mut program = LocalProgram::start(&file);
        for end in ["close", "leave", "kill"] {
            let mut client = Client::new(&server, "data", 1);
            let open = client.open();
            assert_eq!(client.lock(open, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
            assert!(!program.could("shared", 0, 1), "{end} {place}");
            match end {
                "close" => {
                    client.close(open);
                    assert!(program.could("exclusive", 0, 10), "{place}");
                }
                "leave" => drop(client),
                _ => {
                    let rows = rows(&server);
                    let row = rows.iter().find(|row| row["kind"] == "client");
                    let pid = row.and_then(|row| row["pid"].as_u64()).expect("a worker");
                    signal_process(u32::try_from(pid).expect("a pid"), Signal::KILL);
                }
            }
            let is_free = || program.could("exclusive", 0, 10);
            wait_until(is_free, || format!("{end} {place}: the lock stays"));
            // Clients see the same.
            let mut next = Client::new(&server, "data", 2);
            let open = next.open();
            assert_eq!(next.lock(open, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS, "{end} {place}");
        }
        server.stop();
    }
}

#[test]
fn a_client_that_takes_a_lock_over_finds_no_rest_of_it_in_the_kernel() {
    for place in PLACES {
        let (server, _) = start(place);
        let (mut one, mut other) =
            (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
        let (first, second) = (one.open(), other.open());
        let wanted = [(0, 10, EXCLUSIVE)];
        for _ in 0..50 {
            assert_eq!(one.lock(first, &wanted), NtStatus::SUCCESS);
            let waiting = other.begin_lock(second, &wanted);
            let (interim, _) = other.0.receive().expect("the server answers");
            assert_eq!(interim.status, NtStatus::PENDING);
            one.unlock(first, 0, 10);
            assert_eq!(other.final_answer(waiting).0.status, NtStatus::SUCCESS, "{place}");
            other.unlock(second, 0, 10);
        }
        drop((one, other));
        server.stop();
    }
}

#[test]
fn a_durable_open_with_locks_that_programs_see_ends_with_its_connection() {
    for (lines, stays) in [("posix locking = no", true), ("", false)] {
        let (server, file) = start(lines);
        let mut program = LocalProgram::start(&file);
        let mut client = Client::new(&server, "data", 1);
        let mut contexts = CreateContextList::new();
        let (flags, create_guid) = (DurableFlags::empty(), Guid([9; 16]));
        contexts.push(&DurableHandleRequestV2 { timeout_ms: 30_000, flags, create_guid });
        let name = utf16::to_bytes("file");
        let request = CreateRequest {
            requested_oplock_level: OplockLevel::BATCH,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: AccessMask::FILE_ALL,
            create_disposition: CreateDisposition::OPEN,
            name: &name,
            create_contexts: contexts.contexts(),
            ..CreateRequest::default()
        };
        let (header, message) = client.call(Command::CREATE, &request);
        assert_eq!(header.status, NtStatus::SUCCESS);
        let open = CreateResponse::decode(&message).expect("well-formed").file_id;
        assert_eq!(client.lock(open, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
        drop(client);
        wait_until(|| program.could("exclusive", 0, 10), || "the lock stays".to_owned());
        let is_there = || rows(&server).iter().any(|row| row["kind"] == "open");
        wait_until(|| is_there() == stays, || format!("{lines}: {:?}", rows(&server)));
        server.stop();
    }
}

#[test]
fn without_posix_locking_neither_side_sees_the_other() {
    let (server, file) = start("posix locking = no\nstrict locking = yes");
    let (mut program, mut client) = (LocalProgram::start(&file), Client::new(&server, "data", 1));
    let open = client.open();
    assert_eq!(client.lock(open, &[(0, 10, EXCLUSIVE)]), NtStatus::SUCCESS);
    assert!(program.may("posix exclusive 0 20"));
    assert_eq!(client.lock(open, &[(10, 10, EXCLUSIVE | AT_ONCE)]), NtStatus::SUCCESS);
    assert_eq!(client.read(open, 0, 20), NtStatus::SUCCESS);
    drop(client);
    server.stop();
}

// strict locking.

#[test]
fn reads_and_writes_respect_locks_of_local_programs_as_strict_locking_says() {
    let conflict = NtStatus::FILE_LOCK_CONFLICT;
    let granted = NtStatus::SUCCESS;
    for place in PLACES {
        // With which caching a READ and a WRITE are refused.
        for (value, uncached, cached) in
            [("auto", conflict, granted), ("yes", conflict, conflict), ("no", granted, granted)]
        {
            let (server, file) = start(&format!("strict locking = {value}\n{place}"));
            let mut program = LocalProgram::start(&file);
            let mut client = Client::new(&server, "data", 1);
            for (oplock, wanted) in [(OplockLevel::NONE, uncached), (OplockLevel::BATCH, cached)] {
                let open = client.open_with(oplock);
                assert!(program.may("posix exclusive 10 10"));
                let of = |it: &str| format!("{it} with {oplock:?}, {value} {place}");
                assert_eq!(client.read(open, 0, 11), wanted, "{}", of("READ"));
                assert_eq!(client.write(open, 19), wanted, "{}", of("WRITE"));
                assert_eq!(client.read(open, 0, 10), granted, "{}", of("READ"));
                assert_eq!(client.write(open, 20), granted, "{}", of("WRITE"));
                assert!(program.may("posix shared 10 10"));
                assert_eq!(client.read(open, 0, 11), granted, "{}", of("READ"));
                assert_eq!(client.write(open, 19), wanted, "{}", of("WRITE"));
                assert!(program.may("posix none 0 0"));
                assert_eq!(client.write(open, 19), granted, "{}", of("WRITE"));
                client.close(open);
            }
            drop(client);
            server.stop();
        }
    }
}

#[test]
fn a_client_that_loses_its_oplock_has_its_reads_checked_from_then_on() {
    let (server, file) = start("");
    let mut program = LocalProgram::start(&file);
    let (mut one, mut other) = (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
    let first = one.open_with(OplockLevel::EXCLUSIVE);
    assert!(program.may("posix exclusive 10 10"));
    assert_eq!(one.read(first, 0, 20), NtStatus::SUCCESS);
    let opening = other.begin_open(AccessMask::FILE_ALL, ALL, OplockLevel::NONE);
    let (header, _) = one.next();
    assert_eq!(header.command, Command::OPLOCK_BREAK);
    one.acknowledge(first);
    other.opened(opening).expect("it may");
    let is_checked = || one.read(first, 0, 20) == NtStatus::FILE_LOCK_CONFLICT;
    wait_until(is_checked, || "the READ is not checked".to_owned());
    drop((one, other));
    server.stop();
}

#[test]
fn a_lock_of_a_program_is_noticed_by_a_client_that_reads_all_the_time() {
    for (value, at_once) in [("auto", false), ("yes", true)] {
        let (server, file) = start(&format!("strict locking = {value}"));
        let mut program = LocalProgram::start(&file);
        let mut client = Client::new(&server, "data", 1);
        let open = client.open();
        assert_eq!(client.read(open, 0, 20), NtStatus::SUCCESS);
        assert!(program.may("posix exclusive 10 10"));
        let mut is_refused = || client.read(open, 0, 20) == NtStatus::FILE_LOCK_CONFLICT;
        match at_once {
            true => assert!(is_refused()),
            false => wait_until(is_refused, || "the lock is not noticed".to_owned()),
        }
        assert_eq!(client.read(open, 0, 10), NtStatus::SUCCESS);
        drop(client);
        server.stop();
    }
}

// kernel share modes.

/// Whether `flock` gets the lock.
fn flock(file: &Path, kind: &str) -> bool {
    let mut command = Program::new("flock");
    let status = command.args([kind, "--nonblock"]).arg(file).arg("true").status();
    status.expect("util-linux is installed").success()
}

#[test]
fn an_open_that_excludes_others_locks_the_file_for_local_programs() {
    for place in PLACES {
        for (value, is_on) in [("yes", true), ("no", false)] {
            let (server, file) = start(&format!("kernel share modes = {value}\n{place}"));
            let mut client = Client::new(&server, "data", 1);
            // The locks that a program can have beside an open that shares this.
            for (shared, lets_read, lets_write) in
                [(ALL, true, true), (READING, true, false), (NOTHING, false, false)]
            {
                let opened = client.try_open(AccessMask::READ_DATA, shared, OplockLevel::NONE);
                let (open, _) = opened.expect("nobody else has it");
                let of = || format!("{value}, {shared:?}, {place}");
                assert_eq!(flock(&file, "--shared"), lets_read || !is_on, "{}", of());
                assert_eq!(flock(&file, "--exclusive"), lets_write || !is_on, "{}", of());
                client.close(open);
                assert!(flock(&file, "--exclusive"), "{}", of());
            }
            let mut program = LocalProgram::start(&file);
            // The opens that are possible beside a lock of a program.
            for (lock, shared, is_possible) in [
                ("exclusive", NOTHING, false),
                ("exclusive", READING, false),
                ("exclusive", ALL, true),
                ("shared", NOTHING, false),
                ("shared", READING, true),
                ("shared", ALL, true),
            ] {
                assert!(program.may(&format!("flock {lock}")));
                let opened = client.try_open(AccessMask::READ_DATA, shared, OplockLevel::NONE);
                let of = || format!("{value}, {lock}, {shared:?}, {place}: {opened:?}");
                match opened {
                    Ok((open, _)) => {
                        assert!(is_possible || !is_on, "{}", of());
                        client.close(open);
                    }
                    Err(status) => {
                        assert!(!is_possible && is_on, "{}", of());
                        assert_eq!(status, NtStatus::SHARING_VIOLATION);
                    }
                }
                assert!(program.may("flock none"));
            }
            drop(client);
            server.stop();
        }
    }
}

// kernel oplocks.

#[test]
fn a_local_program_that_opens_a_file_breaks_the_oplock_of_a_client() {
    for place in PLACES {
        let (server, file) = start(&format!("kernel oplocks = yes\n{place}"));
        for level in [OplockLevel::BATCH, OplockLevel::EXCLUSIVE] {
            let mut client = Client::new(&server, "data", 1);
            let open = client.open_with(level);
            let of_file = file.clone();
            // Opening the file, it waits at once.
            let starting = thread::spawn(move || LocalProgram::start(&of_file));
            client.broken(open);
            client.echo();
            // The client writes what it has cached.
            assert_eq!(client.write(open, 7), NtStatus::SUCCESS);
            assert!(!starting.is_finished(), "the program waits for the client, {place}");
            client.acknowledge(open);
            let mut program = starting.join().expect("it opens the file");
            assert_eq!(fs::read(&file).expect("it is ours")[7], b'w');
            assert!(program.may("open"), "nothing is left to break");
            client.close(open);
        }
        server.stop();
    }
}

#[test]
fn without_kernel_oplocks_a_local_program_breaks_nothing() {
    let (server, file) = start("");
    let mut client = Client::new(&server, "data", 1);
    let open = client.open_with(OplockLevel::BATCH);
    let mut program = LocalProgram::start(&file);
    assert!(program.may("open"));
    // The next message is the answer, and no break.
    client.echo();
    client.close(open);
    drop(client);
    server.stop();
}

#[test]
fn no_oplock_is_granted_where_nobody_could_break_it() {
    let (server, file) = start("kernel oplocks = yes");
    let mut client = Client::new(&server, "data", 1);
    let oplock = |client: &mut Client, level| {
        let opened = client.try_open(AccessMask::FILE_ALL, ALL, level).expect("it may");
        client.close(opened.0);
        opened.1
    };
    assert_eq!(oplock(&mut client, OplockLevel::II), OplockLevel::NONE, "as in Samba");
    let program = LocalProgram::start(&file);
    assert_eq!(oplock(&mut client, OplockLevel::BATCH), OplockLevel::NONE, "a program has it");
    drop(program);
    assert_eq!(oplock(&mut client, OplockLevel::BATCH), OplockLevel::BATCH);
    drop(client);
    server.stop();
}

#[test]
fn clients_break_oplocks_of_each_other_through_the_kernel_as_well() {
    for place in PLACES {
        let (server, _) = start(&format!("kernel oplocks = yes\n{place}"));
        let (mut one, mut other) =
            (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
        let first = one.open_with(OplockLevel::BATCH);
        let opening = other.begin_open(AccessMask::FILE_ALL, ALL, OplockLevel::NONE);
        one.broken(first);
        one.echo();
        one.acknowledge(first);
        let (second, _) = other.opened(opening).expect("it may");
        other.close(second);
        one.close(first);
        // A client that closes the file instead of an acknowledgment.
        let first = one.open_with(OplockLevel::BATCH);
        let opening = other.begin_open(AccessMask::FILE_ALL, ALL, OplockLevel::BATCH);
        one.broken(first);
        one.close(first);
        let (second, level) = other.opened(opening).expect("it may");
        assert_eq!(level, OplockLevel::BATCH, "{place}");
        // A second open of the same client.
        let opening = other.begin_open(AccessMask::FILE_ALL, ALL, OplockLevel::NONE);
        other.broken(second);
        other
            .0
            .send(
                Command::OPLOCK_BREAK,
                HeaderFlags::empty(),
                &OplockBreak { oplock_level: OplockLevel::NONE, file_id: second },
            )
            .expect("it is connected");
        let (acknowledged, _) = other.next();
        assert_eq!(acknowledged.command, Command::OPLOCK_BREAK);
        other.opened(opening).expect("it may");
        drop((one, other));
        server.stop();
    }
}
