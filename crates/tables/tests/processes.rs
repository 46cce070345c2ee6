//! The tables between real processes.
//!
//! A test starts this test binary again, with the name of a role, which the test `role` plays.

#![expect(clippy::print_stdout, reason = "a child talks to its test through standard output")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use dtyp::{FileTime, ServerId};
use tables::{Change, Registry, RegistryError, SessionRecord, Tdb, TreeConnectRecord};
use tempfile::TempDir;

const ROLE: &str = "TABLES_TEST_ROLE";
const LOCK_DIR: &str = "TABLES_TEST_LOCK_DIR";

/// A process with a role; it is killed when dropped.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    fn start(role: &str, lock_dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(LOCK_DIR, lock_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdin, stdout }
    }

    /// Waits for a line `said: …`, and returns the rest of it.
    fn wait_for(&mut self, said: &str) -> String {
        for line in (&mut self.stdout).lines() {
            if let Some((_, rest)) = line.expect("text").split_once(&format!("{said}:")) {
                return rest.trim().to_owned();
            }
        }
        panic!("it ended without saying {said:?}");
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL, and waits for the end.
    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("ours");
    }

    /// Lets the process continue, and waits for its successful end.
    fn finish(mut self) {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        assert!(self.child.wait().expect("ours").success(), "{rest}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays the role in the environment; without one, checks that an unknown role fails.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        let dir = tempfile::tempdir().expect("a folder");
        let mut process = Process::start("unknown", dir.path());
        assert!(!process.child.wait().expect("ours").success());
        return;
    };
    // The death of the test kills its processes.
    // SAFETY: changes only the signal that this process gets then.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }, 0);
    let lock_dir = std::env::var(LOCK_DIR).expect("given with the role");
    let lock_dir = Path::new(&lock_dir);
    match role.as_str() {
        "adder" => add(&Tdb::join(&lock_dir.join("counters.tdb")).expect("created")),
        "churner" => churn(&Registry::join(lock_dir).expect("running")),
        "lock holder" => hold_lock(&Tdb::join(&lock_dir.join("counters.tdb")).expect("created")),
        "observer" => observe(lock_dir),
        "supervisor" => supervise(lock_dir),
        "worker" => work(&Registry::join(lock_dir).expect("running")),
        other => panic!("unknown role {other}"),
    }
}

const ADDITIONS: u64 = 20_000;
const COUNTERS: u64 = 5;

/// Adds one to each of some counters, many times.
fn add(table: &Tdb) {
    println!("ready:");
    wait_for_end_of_stdin();
    for addition in 0..ADDITIONS {
        let key = (addition % COUNTERS).to_le_bytes();
        table.with_record(&key, |found| (Change::Store(plus_one(found)), ())).expect("room");
    }
}

fn plus_one(found: Option<&[u8]>) -> Vec<u8> {
    let count = found.map_or(0, |count| u64::from_le_bytes(count.try_into().expect("a counter")));
    (count + 1).to_le_bytes().to_vec()
}

/// Takes the lock of counter 0 and keeps it.
fn hold_lock(table: &Tdb) {
    let _ = table.with_record(&0_u64.to_le_bytes(), |_| {
        println!("held:");
        wait_for_end_of_stdin();
        (Change::Keep, ())
    });
}

/// Connects and disconnects shares without end.
fn churn(registry: &Registry) {
    println!("id:{}", registry.server_id().unique_id);
    let me = registry.server_id();
    let mut tree_id = 0;
    loop {
        registry.put_tree_connect(&tree_connect(me, tree_id)).expect("room");
        if tree_id >= 100 {
            assert_eq!(registry.remove_tree_connect(me.unique_id, tree_id - 100), Ok(true));
        }
        tree_id += 1;
    }
}

/// Keeps one session and some tree connects until the end of standard input.
fn work(registry: &Registry) {
    let me = registry.server_id();
    registry.put_session(&session(me)).expect("room");
    for tree_id in 0..1_000 {
        registry.put_tree_connect(&tree_connect(me, tree_id)).expect("room");
    }
    println!("id:{}", me.unique_id);
    wait_for_end_of_stdin();
}

/// Lists the tree connects repeatedly, then prints the number of sessions, and the supervisor.
fn observe(lock_dir: &Path) {
    let registry = match Registry::observe(lock_dir) {
        Err(RegistryError::NotRunning) => return println!("seen:not running"),
        registry => registry.expect("running"),
    };
    for _ in 0..20 {
        for record in registry.list_tree_connects().expect("readable").records {
            let whole = tree_connect(record.server_id, record.tree_id);
            assert_eq!(record, whole, "no half-changed record");
        }
    }
    let sessions = registry.list_sessions().expect("readable");
    println!("seen:{} {}", sessions.records.len(), registry.supervisor().pid);
}

fn supervise(lock_dir: &Path) {
    let registry = Registry::create(lock_dir).expect("nothing runs there");
    registry.put_session(&session(registry.server_id())).expect("room");
    println!("id:{}", registry.server_id().unique_id);
    wait_for_end_of_stdin();
}

fn wait_for_end_of_stdin() {
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("readable");
}

fn session(server_id: ServerId) -> SessionRecord {
    SessionRecord {
        session_id: server_id.unique_id,
        server_id,
        user: "user".to_owned(),
        domain: "DOMAIN".to_owned(),
        user_sid: "S-1-22-1-1000".to_owned(),
        client_address: "127.0.0.1:50000".to_owned(),
        dialect: 0x0311,
        signing_algorithm: Some(2),
        signing_required: true,
        cipher: Some(2),
        encrypted: false,
        created_at: FileTime(1),
    }
}

/// Its length differs from one to the next.
fn tree_connect(server_id: ServerId, tree_id: u32) -> TreeConnectRecord {
    TreeConnectRecord {
        session_id: server_id.unique_id,
        tree_id,
        share: "x".repeat(usize::try_from(tree_id % 200).expect("small")),
        server_id,
        encrypted: false,
        connected_at: FileTime(u64::from(tree_id)),
        read_only: false,
    }
}

fn lock_dir() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// No addition is lost, though the processes change the same five records.
#[test]
fn changes_of_two_processes_to_one_record_do_not_mix() {
    let dir = lock_dir();
    let table = Tdb::create(&dir.path().join("counters.tdb"), 7).expect("a table");
    let mut adders = [(); 2].map(|()| Process::start("adder", dir.path()));
    adders.iter_mut().for_each(|adder| _ = adder.wait_for("ready"));
    adders.into_iter().for_each(Process::finish);
    for counter in 0..COUNTERS {
        let count = table.get(&counter.to_le_bytes(), <[u8]>::to_vec).expect("readable");
        assert_eq!(count, Some((2 * ADDITIONS / COUNTERS).to_le_bytes().to_vec()));
    }
}

#[test]
fn a_process_killed_under_a_lock_does_not_hold_up_the_others() {
    let dir = lock_dir();
    let table = Tdb::create(&dir.path().join("counters.tdb"), 7).expect("a table");
    for additions in 1..=3_u64 {
        let mut holder = Process::start("lock holder", dir.path());
        holder.wait_for("held");
        holder.kill();
        let add = |found: Option<&[u8]>| (Change::Store(plus_one(found)), ());
        table.with_record(&0_u64.to_le_bytes(), add).expect("the lock is free");
        let count = table.get(&0_u64.to_le_bytes(), <[u8]>::to_vec).expect("readable");
        assert_eq!(count, Some(additions.to_le_bytes().to_vec()));
    }
}

/// Workers are killed at any instruction of a change.
#[test]
fn records_of_killed_workers_are_removed_and_the_others_go_on() {
    let dir = lock_dir();
    let supervisor = Registry::create(dir.path()).expect("nothing runs there");
    let mut lasting = Process::start("worker", dir.path());
    let unique_id = lasting.wait_for("id").parse().expect("a number");
    let lasting_id = ServerId { pid: lasting.pid(), unique_id };
    for _ in 0..10 {
        let mut workers = [(); 2].map(|()| Process::start("churner", dir.path()));
        for worker in &mut workers {
            let unique_id = worker.wait_for("id").parse().expect("a number");
            let id = ServerId { pid: worker.pid(), unique_id };
            worker.child.kill().expect("it runs");
            worker.child.wait().expect("ours");
            // Its last change is half done, while the other process continues.
            let mended = supervisor.mend();
            assert!(mended.iter().all(|(_, mended)| mended.is_ok()), "{mended:?}");
            let removed = supervisor.remove_all_of(&[id]).expect("readable");
            assert!(removed.tree_connects <= 101, "{removed:?}");
        }
    }
    let trees = supervisor.list_tree_connects().expect("readable");
    assert_eq!((trees.records.len(), trees.damaged), (1_000, 0));
    assert!(trees.records.iter().all(|tree| tree.server_id == lasting_id));
    lasting.kill();
    let removed = supervisor.remove_all_of(&[lasting_id]).expect("readable");
    assert_eq!((removed.sessions, removed.tree_connects), (1, 1_000));
    assert_eq!(supervisor.list_tree_connects().expect("readable").records, []);
}

#[test]
fn an_observer_sees_whole_records_while_they_change() {
    let dir = lock_dir();
    let mut supervisor = Process::start("supervisor", dir.path());
    supervisor.wait_for("id");
    let mut churners = [(); 2].map(|()| Process::start("churner", dir.path()));
    churners.iter_mut().for_each(|churner| _ = churner.wait_for("id"));
    let mut observer = Process::start("observer", dir.path());
    assert_eq!(observer.wait_for("seen"), format!("1 {}", supervisor.pid()));
    observer.finish();
}

/// The worker outlives its server; its records have no owner any more.
#[test]
fn a_worker_of_the_server_before_does_not_reach_the_new_one() {
    let dir = lock_dir();
    let mut supervisor = Process::start("supervisor", dir.path());
    supervisor.wait_for("id");
    let mut orphan = Process::start("worker", dir.path());
    orphan.wait_for("id");
    supervisor.kill();

    let mut observer = Process::start("observer", dir.path());
    assert_eq!(observer.wait_for("seen"), "not running");
    let registry = Registry::create(dir.path()).expect("nothing runs there");
    let mut churner = Process::start("churner", dir.path());
    churner.wait_for("id");
    churner.kill();
    assert_eq!(registry.list_sessions().expect("readable").records, []);
    let trees = registry.list_tree_connects().expect("readable").records;
    assert!(trees.iter().all(|tree| tree.server_id.pid != orphan.pid()));
}
