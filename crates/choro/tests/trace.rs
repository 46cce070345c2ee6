//! `choro trace` and the probes, against a running server.

mod harness;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::client::requests::{Purpose, close, open, push_read, push_write};
use bench::client::{Client, Protection, Slot};
use harness::choro::{Server, Site, built_executable, signal_process, text, wait_until};
use harness::smbtorture::progress;
use harness::{Setup, TestServer, USER, runs_as_root};
use rustix::process::Signal;
use serde_json::Value;
use trace::Kind as _;

fn connect(server: &TestServer) -> Client {
    server.connect("data", Protection::Signed)
}

/// A few files, each made, written, read and closed.
fn work(client: &mut Client, files: usize) {
    for number in 0..files {
        let name = format!("file{number}");
        let file_id = open(client, Purpose::NewFile, &name).expect("it may be made");
        push_write(client, file_id, 0, &[7; 10_240]);
        client.flush(Slot(0)).expect("it is connected");
        client.receive().and_then(|it| it.succeeded()).expect("it may be written");
        push_read(client, file_id, 0, 4_096);
        client.flush(Slot(0)).expect("it is connected");
        client.receive().and_then(|it| it.succeeded()).expect("it may be read");
        close(client, file_id).expect("it is open");
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("an object")
}

/// Counts of a worker since its start.
fn so_far(site: &Site, target: &str) -> Value {
    let arguments = ["trace", target, "--since-start", "--seconds", "0", "--json"];
    json(&site.run(&arguments).succeeds())
}

fn row<'a>(rows: &'a Value, key: &str, name: &str) -> Option<&'a Value> {
    rows.as_array().expect("an array").iter().find(|row| row[key] == name)
}

fn count(report: &Value, operation: &str) -> u64 {
    row(&report["requests"], "operation", operation).map_or(0, |row| number(&row["count"]))
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Waits until a worker has counted so many CLOSE: a client may have its answer before that.
#[track_caller]
fn wait_for_closes(site: &Site, target: &str, closes: u64) -> Value {
    let mut report = Value::Null;
    wait_until(
        || {
            report = so_far(site, target);
            count(&report, "CLOSE") == closes
        },
        || format!("not {closes} CLOSE"),
    );
    report
}

#[test]
fn a_report_counts_the_operations_of_a_client() {
    let server = TestServer::start();
    let mut client = connect(&server);
    work(&mut client, 20);
    let pid = server.worker_of(&client).to_string();
    let report = wait_for_closes(server.site(), &pid, 20);
    for operation in ["CREATE", "WRITE", "READ", "CLOSE"] {
        assert_eq!(count(&report, operation), 20, "{operation}: {report:#}");
    }
    let write = row(&report["storage"], "operation", "write").expect("files were written");
    assert_eq!((number(&write["count"]), number(&write["bytes"])), (20, 204_800));
    let read = row(&report["storage"], "operation", "read").expect("files were read");
    assert_eq!((number(&read["count"]), number(&read["bytes"])), (20, 81_920));
    let share = row(&report["shares"], "share", "data").expect("it was used");
    assert_eq!(number(&share["written_bytes"]), 204_800);
    assert_eq!(number(&share["read_bytes"]), 81_920);
    assert!(row(&report["users"], "user", USER).is_some(), "{report:#}");
    let [received, sent] =
        ["frames_received", "frames_sent"].map(|it| number(&report[it]["count"]));
    assert_eq!(received, sent, "each frame is answered with one");
    // The phases of requests are all of their time, but for what is lost where ticks of the
    // processor are turned into nanoseconds.
    let total = |rows: &Value, key: &str| -> u64 {
        rows.as_array().expect("an array").iter().map(|row| number(&row[key])).sum()
    };
    let [phases, requests] =
        [total(&report["request_phases"], "ns"), total(&report["requests"], "total_ns")];
    assert!(phases.abs_diff(requests) < 64, "{phases} {requests}");
    // And so are those of the worker.
    let [phases, ran] = ["phases_sum_ns", "ran_ns"].map(|it| number(&report[it]));
    assert!(phases.abs_diff(ran) < 64, "{phases} {ran}");
    assert!(number(&report["tables"]["count"]) >= 40, "each open is entered and taken out");
    server.stop();
}

#[test]
fn the_report_of_a_client_is_that_of_its_worker() {
    let server = TestServer::start();
    let mut client = connect(&server);
    work(&mut client, 3);
    let report = wait_for_closes(server.site(), "127.0.0.1", 3);
    let pid = server.worker_of(&client);
    assert_eq!(report["pids"], serde_json::json!([pid]));
    let error = server.site().run(&["trace", "192.0.2.77"]).fails(1);
    assert_eq!(error, "choro: no worker serves a client at 192.0.2.77\n");
    server.stop();
}

#[test]
fn the_text_has_the_lines_of_tsmbd() {
    let server = TestServer::start();
    let mut client = connect(&server);
    work(&mut client, 3);
    let pid = server.worker_of(&client).to_string();
    wait_for_closes(server.site(), &pid, 3);
    let arguments = ["trace", &pid, "--since-start", "--seconds", "0", "-d", "-s"];
    let text = server.site().run(&arguments).succeeds();
    for line in [
        "Ran for:",
        "Time waiting for events:",
        "Time receiving SMB2 packets:",
        "Time parsing SMB2 packets:",
        "Time running SMB2 requests:",
        "Time sending SMB2 packets:",
        "=====",
        "Time sum:",
        "Time in READ disk IO:",
        "Time in WRITE disk IO:",
        "Number of events:",
        "Number of SMB2 requests:",
        "File system ",
        "System call",
        "SMB2_CREATE ",
        "SMB2_CREATE distribution (microseconds)",
        "Storage write distribution (microseconds)",
        "    value |----- count",
    ] {
        assert!(text.contains(line), "no '{line}' in:\n{text}");
    }
    server.stop();
}

/// True with a line of progress if the kernel counts no system calls, for a reason of the machine.
fn is_uncounted(report: &Value) -> bool {
    let reason = report["system_calls_refused"].as_str();
    if let Some(reason) = reason {
        progress(&format!("system calls are not compared: {reason}"));
    }
    reason.is_some()
}

#[test]
fn system_calls_are_counted_by_name() {
    let server = TestServer::start();
    let mut client = connect(&server);
    work(&mut client, 1);
    let pid = server.worker_of(&client).to_string();
    wait_for_closes(server.site(), &pid, 1);
    let tracer = Tracing::begin(server.site(), &[&pid, "-s", "--json"]);
    work(&mut client, 10);
    // The worker's wait is a subject of this test.
    thread::sleep(Duration::from_millis(50));
    work(&mut client, 20);
    wait_for_closes(server.site(), &pid, 31);
    signal_process(tracer.child.id(), Signal::INT);
    let (code, report, error) = tracer.end();
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let report = json(&report);
    if is_uncounted(&report) {
        return;
    }
    let calls = &report["system_calls"];
    assert_eq!((number(&calls["lost_events"]), number(&calls["missed_threads"])), (0, 0));
    for (name, operation, wanted) in [("pwrite64", "write", 30), ("preadv2", "read", 30)] {
        let call = row(&calls["calls"], "name", name).unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!((number(&call["count"]), number(&call["failed"])), (wanted, 0), "{name}");
        let operation = row(&report["storage"], "operation", operation).expect("it was done");
        let [in_call, in_operation] = [call, operation].map(|it| number(&it["total_ns"]));
        assert!((1..=in_operation).contains(&in_call), "{name}: {in_call} ns of {in_operation}");
    }
    // Waiting for the client is part of a call: without io_uring, of epoll_wait.
    let longest = ["io_uring_enter", "epoll_wait", "epoll_pwait", "epoll_pwait2"]
        .into_iter()
        .filter_map(|name| row(&calls["calls"], "name", name))
        .map(|it| number(&it["max_ns"]))
        .max();
    assert!(longest.is_some_and(|it| it >= 50_000_000), "{longest:?}: {report:#}");
    server.stop();
}

#[test]
fn without_the_right_to_count_system_calls_the_report_has_the_rest() {
    if !runs_as_root() {
        return progress("only root can be somebody else");
    }
    let mut site = Site::new();
    site.run_as_somebody();
    let server = site.serve();
    wait_until(|| pages(&site) == 3, || "three idle workers".to_owned());
    let arguments = ["trace", "all", "-s", "--seconds", "0"];
    let text = site.run(&arguments).succeeds();
    let reason = if has_tracepoints() {
        "the kernel does not permit counting them; run this as root.\n"
    } else {
        "there are no tracepoints of system calls; is tracefs mounted? "
    };
    assert!(text.contains(&format!("System calls are not shown: {reason}")), "{text}");
    assert!(text.contains("Time sum:") && text.contains("\nFile system "), "{text}");
    drop(server);
}

fn has_tracepoints() -> bool {
    let tracefs = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    tracefs.iter().any(|it| Path::new(it).join("events/raw_syscalls").exists())
}

/// `choro trace` in the background, once it has begun to collect.
struct Tracing {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Tracing {
    fn begin(site: &Site, arguments: &[&str]) -> Self {
        let mut command = site.command(&[&["trace"], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("it is text");
        assert!(line.starts_with("Collecting data"), "{line}");
        Self { child, errors }
    }

    /// Its exit code, report and errors.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut report, mut error) = (String::new(), String::new());
        let mut stdout = self.child.stdout.take().expect("it is piped");
        stdout.read_to_string(&mut report).expect("it is text");
        self.errors.read_to_string(&mut error).expect("it is text");
        (self.child.wait().expect("it ends").code(), report, error)
    }
}

#[test]
fn two_tracers_at_once_see_the_same_and_end_with_ctrl_c() {
    let server = TestServer::start();
    let mut client = connect(&server);
    work(&mut client, 1);
    let pid = server.worker_of(&client).to_string();
    wait_for_closes(server.site(), &pid, 1);
    let tracers = [(); 2].map(|()| Tracing::begin(server.site(), &[&pid, "--json"]));
    work(&mut client, 5);
    wait_for_closes(server.site(), &pid, 6);
    for tracer in &tracers {
        signal_process(tracer.child.id(), Signal::INT);
    }
    for tracer in tracers {
        let (code, report, error) = tracer.end();
        assert_eq!((code, error.as_str()), (Some(0), ""));
        assert_eq!(count(&json(&report), "CLOSE"), 5);
    }
    server.stop();
}

#[test]
fn intervals_are_lines_of_their_own() {
    let server = TestServer::start();
    let client = connect(&server);
    let pid = server.worker_of(&client).to_string();
    let arguments = ["trace", &pid, "--interval", "0.1", "--seconds", "0.35", "--json"];
    let text = server.site().run(&arguments).succeeds();
    let lines: Vec<Value> = text.lines().map(json).collect();
    assert!((2..=4).contains(&lines.len()), "{text}");
    assert!(lines.iter().all(|line| number(&line["ns"]) > 0 && number(&line["requests"]) == 0));
    server.stop();
}

#[test]
fn a_worker_that_dies_while_it_is_traced_is_reported_up_to_then() {
    let server = TestServer::start();
    let mut client = connect(&server);
    work(&mut client, 2);
    let pid = server.worker_of(&client);
    wait_for_closes(server.site(), &pid.to_string(), 2);
    let arguments = [&pid.to_string(), "--since-start", "--json", "--seconds", "600"];
    let timed = Tracing::begin(server.site(), &arguments);
    let endless = Tracing::begin(server.site(), &arguments[..3]);
    signal_process(pid, Signal::KILL);
    let (code, report, error) = timed.end();
    assert_eq!(code, Some(1));
    assert!(error.starts_with(&format!("choro: worker {pid} ended after ")), "{error}");
    assert_eq!(count(&json(&report), "CLOSE"), 2);
    assert_eq!(json(&report)["ended_pids"], serde_json::json!([pid]));
    let (code, report, error) = endless.end();
    assert_eq!((code, error.as_str()), (Some(0), ""), "it was to go on until the end");
    assert_eq!(count(&json(&report), "CLOSE"), 2);
    let error = server.site().run(&["trace", &pid.to_string()]).fails(1);
    let want = format!("no worker of this server has the pid {pid}");
    assert!(error.contains(&want), "{error}");
    server.stop();
}

#[test]
fn a_pid_that_is_no_workers_is_refused_with_a_reason() {
    let site = Site::new();
    let error = site.run(&["trace"]).fails(1);
    assert!(error.starts_with("choro: no server has run in "), "{error}");
    let server = site.serve();
    let pid = server.pid().to_string();
    let error = site.run(&["trace", &pid]).fails(1);
    assert!(error.contains(&format!("no worker of this server has the pid {pid}")), "{error}");
    let error = site.run(&["trace", "somebody"]).fails(2);
    assert!(error.contains("expected a pid, the address of a client, or `all`"), "{error}");
    let error = site.run(&["trace", "--interval", "0"]).fails(2);
    assert!(error.contains("the shortest interval is 0.1 seconds"), "{error}");
    drop(server);
    let error = {
        wait_until(
            || !site.run(&["trace", "--seconds", "0"]).is_success(),
            || "workers outlive their supervisor".to_owned(),
        );
        site.run(&["trace", "--seconds", "0"]).fails(1)
    };
    assert_eq!(error, "choro: no worker runs; is the server running?\n");
}

#[test]
fn the_page_of_another_version_is_refused_in_words() {
    let site = Site::new();
    let server = site.serve();
    wait_until(|| pages(&site) == 3, || "three idle workers".to_owned());
    let (pid, unique_id) = trace::workers(&site.path("lock")).expect("they are ours")[0];
    let path = trace::path(&site.path("lock"), pid, unique_id);
    let page = fs::OpenOptions::new().read(true).write(true).open(path).expect("it is ours");
    let mut magic = [0; 8];
    // The worker writes it last, after the version.
    let is_written = || page.read_at(&mut magic, 0).is_ok() && magic != [0; 8];
    wait_until(is_written, || "the head of the page".to_owned());
    page.write_all_at(&0_u64.to_ne_bytes(), 8).expect("it is ours");
    let error = site.run(&["trace", &pid.to_string(), "--seconds", "0"]).fails(1);
    let want = format!("choro: worker {pid} cannot be traced: its worker is of another version");
    assert!(error.starts_with(&want), "{error}");
    drop(server);
}

#[test]
fn a_user_that_may_not_read_a_page_gets_the_reason() {
    if !runs_as_root() {
        return progress("only root can be somebody else");
    }
    let mut site = Site::new();
    let server = site.serve();
    wait_until(|| pages(&site) == 3, || "three idle workers".to_owned());
    site.run_as_somebody();
    // The directories stay root's.
    rustix::fs::chown(site.path("lock"), Some(rustix::fs::Uid::ROOT), Some(rustix::fs::Gid::ROOT))
        .expect("we are root");
    let error = site.run(&["trace", "--seconds", "0"]).fails(1);
    assert!(error.starts_with("choro: permission denied for "), "{error}");
    let error = site.run(&["top", "--json", "--count", "1"]).fails(1);
    assert!(error.starts_with("choro: permission denied for "), "{error}");
    // Read permission on the directory does not include the pages.
    let directory = site.path("lock").join(trace::DIRECTORY);
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("we are root");
    let error = site.run(&["trace", "--seconds", "0"]).fails(1);
    assert!(error.contains(" cannot be traced: you may not read it: "), "{error}");
    let error = site.run(&["top", "--json", "--count", "1"]).fails(1);
    assert!(error.contains("cannot read the page of worker "), "{error}");
    drop(server);
}

#[test]
fn a_slow_request_is_logged_with_its_phases() {
    let site = Site::new();
    let share = format!("[data]\npath = {}\n", text(&site.path("data")));
    site.write_config_with("slow operation threshold = 20\n", &share);
    let server = site.serve();
    // NEGOTIATE: [MS-SMB2] 2.2.3, of one dialect, in two pieces.
    let mut message = vec![0; 64 + 36 + 2];
    message[..8].copy_from_slice(b"\xFESMB\x40\0\0\0");
    message[64..70].copy_from_slice(&[36, 0, 1, 0, 1, 0]);
    message[100..].copy_from_slice(&0x0210_u16.to_le_bytes());
    let mut frame = u32::try_from(message.len()).expect("it is short").to_be_bytes().to_vec();
    frame.extend(message);
    // Of one that came at once, receiving took no time.
    let slow = |log: &str| -> Option<String> {
        let mut lines = log.lines().filter(|line| line.contains("slow: NEGOTIATE took "));
        lines.find(|line| line.contains(" ms (receiving ")).map(str::to_owned)
    };
    // A client that has left by then has no address in the line.
    let mut streams = Vec::new();
    // On a machine that has other things to do, a worker may see both pieces at once.
    wait_until(
        || {
            let mut stream = server.connect();
            stream.write_all(&frame[..20]).expect("it is connected");
            // The slow request is the subject of this test.
            thread::sleep(Duration::from_millis(60));
            stream.write_all(&frame[20..]).expect("it is connected");
            stream.read_exact(&mut [0; 4]).expect("an answer");
            streams.push(stream);
            slow(&server.log()).is_some()
        },
        || server.log(),
    );
    let line = slow(&server.log()).expect("it was there");
    assert!(line.contains("client 127.0.0.1, message 0, status 0x00000000"), "{line}");
}

/// Number of workers with a page.
fn pages(site: &Site) -> usize {
    trace::workers(&site.path("lock")).map_or(0, |workers| workers.len())
}

#[test]
fn a_page_goes_with_its_worker() {
    let site = Site::new();
    let server = site.serve();
    wait_until(|| pages(&site) == 3, || "three idle workers".to_owned());
    let of_workers = |server: &Server| -> Vec<u32> {
        let mut workers = server.workers();
        workers.sort_unstable();
        workers
    };
    let pids = || -> Vec<u32> {
        let workers = trace::workers(&site.path("lock")).expect("they are ours");
        workers.into_iter().map(|(pid, _)| pid).collect()
    };
    let dead = of_workers(&server)[0];
    signal_process(dead, Signal::KILL);
    wait_until(
        || !pids().contains(&dead) && pids().len() == 3 && pids() == of_workers(&server),
        || format!("{:?} have pages, {:?} are there", pids(), of_workers(&server)),
    );
    // A server that is killed leaves pages behind; the next one removes them.
    drop(server);
    let left = pids();
    assert!(!left.is_empty());
    let server = site.serve();
    wait_until(
        || pids().len() == 3 && pids() == of_workers(&server),
        || {
            format!(
                "{:?} have pages, {:?} are there; {left:?} were left",
                pids(),
                of_workers(&server)
            )
        },
    );
}

// The probes.

/// The probes of a program: provider, name, number of arguments.
///
/// They are in notes of the section `.note.stapsdt`:
/// <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>.
fn probes(program: &Path) -> Vec<(String, String, usize)> {
    let bytes = fs::read(program).expect("it was built");
    let word = |at: usize, size: usize| -> usize {
        let mut value = [0; 8];
        value[..size].copy_from_slice(&bytes[at..at + size]);
        usize::try_from(u64::from_le_bytes(value)).expect("offsets fit")
    };
    assert_eq!(&bytes[..5], b"\x7FELF\x02", "a program of 64 bits");
    let (table, size, count, names) = (word(40, 8), word(58, 2), word(60, 2), word(62, 2));
    let section = |index: usize| {
        let at = table + index * size;
        (word(at, 4), word(at + 24, 8), word(at + 32, 8))
    };
    let text = |at: usize| -> String {
        let length = bytes[at..].iter().position(|byte| *byte == 0).expect("texts end");
        String::from_utf8(bytes[at..at + length].to_vec()).expect("names are ASCII")
    };
    let (_, strings, _) = section(names);
    let mut probes = Vec::new();
    for (name, offset, length) in (0..count).map(section) {
        if text(strings + name) != ".note.stapsdt" {
            continue;
        }
        let mut at = offset;
        while at < offset + length {
            let (name_bytes, description_bytes) = (word(at, 4), word(at + 4, 4));
            let description = at + 12 + name_bytes.next_multiple_of(4);
            // Behind three addresses: of the probe, nothing, and of its semaphore. A note whose
            // function is not in the program would have none.
            assert_ne!(word(description, 8), 0, "a probe is nowhere");
            assert_ne!(word(description + 16, 8), 0, "a probe has no semaphore");
            let provider = text(description + 24);
            let probe = text(description + 24 + provider.len() + 1);
            let arguments = text(description + 24 + provider.len() + probe.len() + 2);
            probes.push((provider, probe, arguments.split_whitespace().count()));
            at = description + description_bytes.next_multiple_of(4);
        }
    }
    probes.sort();
    probes
}

#[test]
fn the_probes_of_the_program_are_those_of_the_schema() {
    let mut schema: Vec<_> = trace::EVENTS
        .iter()
        .map(|it| (it.provider.to_owned(), it.name.to_owned(), it.arguments.len()))
        .collect();
    schema.sort();
    assert_eq!(probes(&built_executable()), schema);
}

/// A row of the documentation.
fn documented(event: &trace::EventInfo) -> String {
    let per = event.per.map_or_else(String::new, |per| format!(" by {per}"));
    let kept = match event.series {
        "count" => format!("count{per}"),
        series => format!("{series} of {}{per}", event.value),
    };
    let arguments = event.arguments.join(", ");
    format!("| `{}:{}` | {arguments} | {kept} | {} |", event.provider, event.name, event.meaning)
}

/// Names with their numbers, as in the table.
fn numbered(names: &[&str]) -> String {
    let named = names.iter().enumerate().map(|(number, name)| format!("{number} {name}"));
    named.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_documentation_has_every_event_and_every_number() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tracing.md");
    let document = fs::read_to_string(&path).expect("it is there");
    let rows: Vec<String> = trace::EVENTS.iter().map(documented).collect();
    let found: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `smb2:") || line.starts_with("| `choro:"))
        .collect();
    assert_eq!(found, rows, "the table should be:\n{}", rows.join("\n"));
    for names in [trace::Phase::NAMES, trace::Operation::NAMES, trace::StoreOperation::NAMES] {
        let numbers = numbered(names);
        assert!(document.contains(&numbers), "this should be there: {numbers}");
    }
}

/// bpftrace with a script that watches workers.
struct Probes {
    bpftrace: Child,
    output: BufReader<ChildStdout>,
}

/// Returns a command that runs one of the scripts in `tools/trace`.
fn script(name: &str, pids: &str) -> Command {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/trace/run.sh");
    let mut command = Command::new(run);
    command.args([name, pids, &text(&built_executable())]);
    command
}

impl Probes {
    /// Until it has attached. None where bpftrace is not installed, or may not.
    fn attach(server: &TestServer, mut command: Command) -> Option<Self> {
        let found = Command::new("bpftrace").arg("--version").output().is_ok();
        if !found || !runs_as_root() {
            progress("bpftrace is not here, or we are not root: probes are not held against it");
            return None;
        }
        let errors_path = server.site().path("bpftrace");
        // More than a pipe holds that nobody reads.
        let errors = fs::File::create(&errors_path).expect("there is space");
        command.env("BPFTRACE_STRLEN", "64").stdout(Stdio::piped()).stderr(errors);
        let mut bpftrace = command.spawn().expect("it starts");
        let mut output = BufReader::new(bpftrace.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.starts_with("Collecting") {
            line.clear();
            let read = output.read_line(&mut line).expect("it is text");
            assert_ne!(
                read,
                0,
                "bpftrace ended: {}",
                fs::read_to_string(errors_path).unwrap_or_default()
            );
        }
        Some(Self { bpftrace, output })
    }

    /// As ^C does, and what it prints then.
    fn interrupt(self) -> String {
        let Self { mut bpftrace, mut output } = self;
        signal_process(bpftrace.id(), Signal::INT);
        let mut text = String::new();
        thread::scope(|scope| {
            let reading = scope.spawn(|| output.read_to_string(&mut text).expect("it is text"));
            // bpftrace up to 0.17 looks for the signal only where that has interrupted its wait. To
            // be stopped and to go on does so, too, and says nothing else to it.
            let mut nudge_at = Instant::now() + Duration::from_secs(2);
            let has_ended = || {
                if Instant::now() > nudge_at {
                    signal_process(bpftrace.id(), Signal::STOP);
                    signal_process(bpftrace.id(), Signal::CONT);
                    nudge_at += Duration::from_secs(1);
                }
                reading.is_finished()
            };
            wait_until(has_ended, || "bpftrace does not end".to_owned());
        });
        assert!(bpftrace.wait().expect("it ends").success());
        text
    }

    /// Returns the output after the worker's end.
    fn wait(mut self) -> String {
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("it is text");
        assert!(self.bpftrace.wait().expect("it ends").success());
        text
    }
}

/// Returns the value behind a name in a report of `tsmbd`; of times, in microseconds.
#[track_caller]
fn value(report: &str, name: &str) -> u64 {
    let line = report.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no '{name}' in:\n{report}"));
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name}: {line}"))
}

/// Returns count, total, average, minimum and maximum in microseconds, and failures of a command.
fn command_row(report: &str, name: &str) -> [u64; 6] {
    let mut rows = report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.len() == 7 && row[0] == format!("SMB2_{name}"));
    row.map_or([0; 6], |row| [1, 2, 3, 4, 5, 6].map(|it| row[it].parse().expect("a number")))
}

#[test]
fn tsmbd_ends_with_its_worker() {
    let server = TestServer::start();
    let mut client = connect(&server);
    let pid = server.worker_of(&client);
    let Some(probes) = Probes::attach(&server, script("tsmbd", &pid.to_string())) else { return };
    work(&mut client, 1);
    drop(client);
    let report = probes.wait();
    assert_eq!(command_row(&report, "CLOSE")[0], 1, "{report}");
    server.stop();
}

#[test]
fn tsmbd_adds_up_several_workers() {
    let server = TestServer::start();
    let mut client = connect(&server);
    let first = server.worker_of(&client);
    let others = server.server().workers();
    let other = others.into_iter().find(|it| *it != first).expect("some are idle");
    let pids = format!("{first},{other}");
    let Some(probes) = Probes::attach(&server, script("tsmbd", &pids)) else { return };
    work(&mut client, 3);
    wait_for_closes(server.site(), &first.to_string(), 3);
    let report = probes.interrupt();
    assert_eq!(command_row(&report, "CLOSE")[0], 3, "{report}");
    server.stop();
}

#[test]
fn slow_requests_and_storage_have_scripts_of_their_own() {
    let server = Setup::new().share("data", "").global("choro:storage delay = 20000\n").start();
    let mut client = connect(&server);
    let pid = server.worker_of(&client).to_string();
    let Some(slow) = Probes::attach(&server, script("slow", &pid)) else { return };
    let storage = Probes::attach(&server, script("storage", &pid)).expect("the other one has");
    work(&mut client, 2);
    wait_for_closes(server.site(), &pid, 2);
    let slow = slow.interrupt();
    // ECHO and the like do not wait for the storage, unless the machine is busy.
    for operation in ["operation 5, ", "operation 6, ", "operation 8, ", "operation 9, "] {
        let lines: Vec<&str> = slow.lines().filter(|it| it.starts_with(operation)).collect();
        assert_eq!(lines.len(), 2, "{slow}");
        for line in lines {
            assert!(line.contains("status 0, reason 0: "), "{line}");
            let us = line.split_once(" us (receiving ").and_then(|(it, _)| it.rsplit_once(' '));
            let us: u64 = us.and_then(|(_, it)| it.parse().ok()).expect("a time");
            assert!(us >= 20_000, "{line}");
        }
    }
    let storage = storage.interrupt();
    for line in ["@bytes[3]:", "@bytes[4]:", "@us[3]:", "@us[4]:", "@failed[4]: 0"] {
        assert!(storage.contains(line), "no '{line}' in:\n{storage}");
    }
    server.stop();
}

/// Files that both see made: four frames each.
const FILES: usize = 200;

/// Both report the same events. Times are the same but for rounding: the page adds up ticks of the
/// processor's counter, and a probe has its own time in nanoseconds.
#[test]
fn choro_trace_and_tsmbd_agree() {
    let server = TestServer::start();
    let mut client = connect(&server);
    let pid = server.worker_of(&client).to_string();
    work(&mut client, 1);
    wait_for_closes(server.site(), &pid, 1);
    let mut tries = 0;
    let (probes, before) = loop {
        let idle = settled(server.site(), &pid, 1);
        let Some(probes) = Probes::attach(&server, script("tsmbd", &pid)) else { return };
        let before = settled(server.site(), &pid, 1);
        if idle["wakeups"] == before["wakeups"] {
            break (probes, before);
        }
        // A timer woke the worker meanwhile, and the probes may have counted that.
        drop(probes.interrupt());
        tries += 1;
        assert!(tries < 10, "the worker is never idle");
    };
    work(&mut client, FILES);
    // It fails.
    open(&mut client, Purpose::Open, "absent").expect_err("there is none");
    let after = settled(server.site(), &pid, 1 + FILES as u64);
    compare(&before, &after, &probes.interrupt());
    server.stop();
}

/// Counts of a worker after so many CLOSE, when it waits again.
fn settled(site: &Site, target: &str, closes: u64) -> Value {
    let mut report = wait_for_closes(site, target, closes);
    let busy_ns = |report: &Value| {
        let phases = report["phases"].as_array().expect("an array");
        phases.iter().skip(1).map(|it| number(&it["ns"])).sum::<u64>()
    };
    wait_until(
        || {
            let last = std::mem::replace(&mut report, so_far(site, target));
            busy_ns(&last) == busy_ns(&report)
        },
        || "the worker never waits".to_owned(),
    );
    report
}

fn compare(before: &Value, after: &Value, probes: &str) {
    let difference = |of: &dyn Fn(&Value) -> u64| of(after) - of(before);
    let same = |ours: u64, theirs: u64, what: &str| assert_eq!(ours, theirs, "{what}\n{probes}");
    // A time of each event is cut to nanoseconds, and the sum to microseconds.
    let near = |ours_ns: u64, theirs_us: u64, events: u64, what: &str| {
        let off_ns = ours_ns.abs_diff(theirs_us * 1_000);
        assert!(off_ns <= events + 1_000, "{what}: {ours_ns} ns, {theirs_us} us\n{probes}");
    };
    let wakeups = difference(&|it| number(&it["wakeups"]));
    for what in trace::Operation::NAMES.iter().copied() {
        let of = |it: &Value, key: &str| {
            row(&it["requests"], "operation", what).map_or(0, |row| number(&row[key]))
        };
        let [count, total, average, min, max, failed] = command_row(probes, what);
        same(difference(&|it| of(it, "count")), count, what);
        same(difference(&|it| of(it, "failed")), failed, what);
        near(difference(&|it| of(it, "total_ns")), total, count, what);
        assert!(count == 0 || (min <= average && average <= max && max > 0), "{what}\n{probes}");
    }
    assert_eq!(command_row(probes, "CREATE")[5], 1, "{probes}");
    let count = |key: &str, part: &str| difference(&|it| number(&it[key][part]));
    same(count("tables", "count"), value(probes, "Number of table requests:"), "tables");
    same(count("frames_received", "bytes"), value(probes, "Bytes received:"), "received");
    same(count("frames_sent", "bytes"), value(probes, "Bytes sent:"), "sent");
    for (what, time, bytes) in [
        ("read", "Time in READ disk IO:", "Bytes read from files:"),
        ("write", "Time in WRITE disk IO:", "Bytes written to files:"),
    ] {
        let of = |it: &Value, key: &str| {
            row(&it["storage"], "operation", what).map_or(0, |row| number(&row[key]))
        };
        same(difference(&|it| of(it, "bytes")), value(probes, bytes), what);
        let total = difference(&|it| of(it, "total_ns"));
        assert!(total > 0);
        near(total, value(probes, time), FILES as u64, what);
    }
    let mut compared = 0;
    for (what, line) in [
        ("receiving", "receiving SMB2 packets"),
        ("verifying", "verifying and decrypting"),
        ("parsing", "parsing SMB2 packets"),
        ("running", "running SMB2 requests"),
        ("storage", "in the file system"),
        ("tables", "in shared tables"),
        ("signing", "signing and encrypting"),
        ("sending", "sending SMB2 packets"),
    ] {
        let ours =
            difference(&|it| row(&it["phases"], "phase", what).map_or(0, |it| number(&it["ns"])));
        // A request is in each phase a few times.
        near(ours, value(probes, &format!("Time {line}")), wakeups * 8, what);
        compared += u64::from(ours > 0);
    }
    assert_eq!(compared, 8, "{probes}");
}

/// Waits of a worker that both clocks measure.
const WAITS: u64 = 20;

/// Times of the server come from the processor's counter. bpftrace has the kernel's clock. A worker
/// may lose its processor between two looks at them, so a few waits may differ.
#[test]
fn times_of_probes_are_those_of_the_kernel() {
    let server = TestServer::start();
    let mut client = connect(&server);
    let pid = server.worker_of(&client);
    work(&mut client, 1);
    let program = format!(
        "BEGIN {{ printf(\"Collecting\\n\"); }}
        usdt:{choro}:choro:phase /pid == {pid}/ {{
            $ns = nsecs - @since;
            if (@since && arg0 == 0 && $ns > 4000000) {{
                @waits += 1;
                $off = $ns > arg2 ? $ns - arg2 : arg2 - $ns;
                if ($off < $ns / 100 + 50000) {{ @equal += 1; }}
            }}
            @since = nsecs;
        }}
        END {{ printf(\"equal %d of %d\\n\", @equal, @waits); }}",
        choro = built_executable().display(),
    );
    let mut command = Command::new("bpftrace");
    command.args(["-p", &pid.to_string(), "-e", &program]);
    let Some(probes) = Probes::attach(&server, command) else { return };
    for _ in 0..WAITS + 1 {
        // The wait is the subject of this test.
        thread::sleep(Duration::from_millis(5));
        open(&mut client, Purpose::Open, "absent").expect_err("there is none");
    }
    let output = probes.interrupt();
    let (equal, waits) = output
        .lines()
        .find_map(|line| line.strip_prefix("equal ")?.split_once(" of "))
        .unwrap_or_else(|| panic!("{output}"));
    let [equal, waits]: [u64; 2] = [equal, waits].map(|it| it.trim().parse().expect("a number"));
    assert!(waits >= WAITS && equal >= waits * 3 / 4, "{equal} of {waits} waits are equal");
    server.stop();
}
