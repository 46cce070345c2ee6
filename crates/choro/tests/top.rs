//! `choro top` and `choro metrics`: who is slow, and why, against a running server.

mod harness;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bench::client::requests::{Purpose, open, push_read};
use bench::client::{Client, Protection, Reply, Slot};
use harness::choro::{children, is_alive, signal_process, wait_until};
use harness::smbtorture::progress;
use harness::{Setup, TestServer, runs_as_root};
use rustix::process::Signal;
use serde_json::Value;
use wire::FileId;

const BLOCK: usize = 64 * 1024;
const LARGE: usize = 1024 * 1024;

fn start() -> TestServer {
    let setup = Setup::new().share("data", "").share("slow", "");
    let setup = setup.global("[qos:gold]\nmatch = share slow\nmax bandwidth = 1M\n[global]\n");
    let server = setup.start();
    for share in ["data", "slow"] {
        let path = server.share_path(share).join("file");
        fs::write(&path, vec![b'x'; 24 * LARGE]).expect("the share is there");
        harness::give_to_server(&path);
    }
    server
}

fn connect(server: &TestServer, share: &str) -> (Client, FileId) {
    let mut client = server.connect(share, Protection::Plain);
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    (client, file_id)
}

fn name_of(client: &Client) -> String {
    format!("127.0.0.1:{}", client.local_port().expect("it is connected"))
}

/// Asks for so many blocks, and reads no answers.
fn ask(client: &mut Client, file_id: FileId, blocks: usize, length: usize) {
    client.gather_credits(blocks, length).expect("there are credits");
    for at in 0..blocks {
        let offset = u64::try_from(at * length).expect("a small file");
        push_read(client, file_id, offset, length);
        client.flush(Slot(at)).expect("it is connected");
    }
}

fn receive(client: &mut Client, blocks: usize) {
    for _ in 0..blocks {
        client.receive().and_then(Reply::succeeded).expect("it is answered");
    }
}

/// Process `choro top --json` in the background.
struct Top {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Top {
    fn begin(server: &TestServer) -> Self {
        let mut command = server.site().command(&["top", "--json", "--interval", "0.2"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut top = Self { child, lines };
        top.next(); // From here on it looks.
        top
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it is text");
        serde_json::from_str(&line).expect("an object a line")
    }

    fn end(mut self) {
        signal_process(self.child.id(), Signal::INT);
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Slows a worker's reads of files down, until it is dropped.
struct SlowStorage(Child);

impl SlowStorage {
    fn begin(pid: u32) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &pid.to_string(), "-e", "trace=preadv2"]);
        command.args(["-e", "inject=preadv2:delay_enter=40ms", "-o", "/dev/null"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it is text");
        assert!(line.contains("attached"), "{line}");
        Self(child)
    }
}

impl Drop for SlowStorage {
    fn drop(&mut self) {
        signal_process(self.0.id(), Signal::INT);
        self.0.wait().expect("it ends");
    }
}

fn has_strace() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|it| it.success())
}

/// Adds what a row says of where the time of its requests went.
fn add_phases(sums: &mut BTreeMap<String, u64>, row: &Value) {
    for (phase, ns) in row["phases_ns"].as_object().expect("an object") {
        *sums.entry(phase.clone()).or_default() += ns.as_u64().expect("a number");
    }
}

#[test]
fn three_slow_clients_are_shown_with_their_three_causes() {
    if !has_strace() {
        return progress("strace is not installed, and nothing else makes storage slow");
    }
    let server = start();
    let (mut network, of_network) = connect(&server, "data");
    let (mut storage, of_storage) = connect(&server, "data");
    let (mut limited, of_limited) = connect(&server, "slow");
    let names = [&network, &storage, &limited].map(name_of);
    let slow_storage = SlowStorage::begin(server.worker_of(&storage));
    let mut top = Top::begin(&server);
    // It has asked, and does not read while the other two are served.
    ask(&mut network, of_network, 24, LARGE);
    ask(&mut limited, of_limited, 8, BLOCK);
    for _ in 0..10 {
        ask(&mut storage, of_storage, 1, BLOCK);
        receive(&mut storage, 1);
    }
    receive(&mut limited, 8);
    receive(&mut network, 24);
    drop(slow_storage);
    let mut phases: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut requests: BTreeMap<String, u64> = BTreeMap::new();
    let mut words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let wanted = [24, 10, 8];
    let is_complete = |requests: &BTreeMap<String, u64>| {
        names.iter().zip(wanted).all(|(name, count)| requests.get(name) >= Some(&count))
    };
    while !is_complete(&requests) {
        for row in top.next()["clients"].as_array().expect("an array") {
            let name = row["client"].as_str().expect("text").to_owned();
            *requests.entry(name.clone()).or_default() +=
                row["requests"].as_u64().expect("a number");
            let said = row["time_goes_to"].as_str().map(str::to_owned);
            words.entry(name.clone()).or_default().extend(said);
            add_phases(phases.entry(name).or_default(), row);
        }
    }
    let slowest = names.clone().map(|name| {
        let most = phases[&name].iter().max_by_key(|(_, ns)| **ns).expect("it did something");
        (most.0.clone(), format!("{:?}", phases[&name]))
    });
    for ((phase, all), expected) in slowest.iter().zip(["sending", "storage", "held"]) {
        assert_eq!(phase, expected, "{all}");
    }
    // And in words, whenever it was seen.
    let expected = ["network or client (sending) ", "storage ", "QoS limit (held) "];
    for (name, expected) in names.iter().zip(expected) {
        assert!(words[name].iter().any(|it| it.starts_with(expected)), "{name}: {words:?}");
    }
    let storage_ns = |name: &String| phases[name].get("storage").copied().unwrap_or(0);
    assert!(storage_ns(&names[1]) >= 10 * 40_000_000, "each of them was delayed: {phases:?}");
    top.end();
    server.stop();
}

/// A client that does the same until this is dropped.
struct Busy {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn begin((mut client, file_id): (Client, FileId), work: fn(&mut Client, FileId)) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                work(&mut client, file_id);
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "a client failed");
    }
}

/// A browser without a window: what it makes of the page, as HTML, and what it says.
fn browse(metrics: &Metrics, scheme: &str, picture: &Path) -> Option<(String, String)> {
    let profile = tempfile::tempdir().expect("there is space");
    let mut command = Command::new("chromium");
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"]);
    // Time goes faster for the page than for its server, so it asks several times.
    command.args(["--window-size=1280,1500", "--virtual-time-budget=8000"]);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--screenshot={}", picture.display()));
    command.args(["--dump-dom", &format!("http://{}/", metrics.address)]);
    let done = command.env("HOME", profile.path()).output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}", text(&done.stderr));
    Some((text(&done.stdout), text(&done.stderr)))
}

/// A browser's dark and light colour schemes.
const SCHEMES: [&str; 2] = ["0", "1"];

#[test]
fn the_page_shows_in_a_browser_why_each_of_three_clients_is_slow() {
    if !has_strace() {
        return progress("strace is not installed, and nothing else makes storage slow");
    }
    let server = start();
    let metrics = Metrics::begin(&server);
    let [network, storage, limited] = ["data", "data", "slow"].map(|it| connect(&server, it));
    let names = [&network, &storage, &limited].map(|(client, _)| name_of(client));
    let _slow_storage = SlowStorage::begin(server.worker_of(&storage.0));
    let _busy = [
        // It asks, and takes its time to read.
        Busy::begin(network, |client, file_id| {
            ask(client, file_id, 24, LARGE);
            thread::sleep(Duration::from_millis(300));
            receive(client, 24);
        }),
        Busy::begin(storage, |client, file_id| {
            ask(client, file_id, 1, BLOCK);
            receive(client, 1);
        }),
        Busy::begin(limited, |client, file_id| {
            ask(client, file_id, 4, BLOCK);
            receive(client, 4);
        }),
    ];
    let pictures = tempfile::tempdir().expect("there is space");
    let kept = std::env::var_os("CHORO_PICTURES").map(PathBuf::from);
    let pictures = kept.as_deref().unwrap_or_else(|| pictures.path());
    for scheme in SCHEMES {
        let picture = pictures.join(format!("page{scheme}.png"));
        let seen = RefCell::new(String::new());
        let mut is_here = true;
        wait_until(
            || {
                let Some((page, said)) = browse(&metrics, scheme, &picture) else {
                    is_here = false;
                    return true;
                };
                for complaint in ["Uncaught", "Refused to", "SyntaxError"] {
                    assert!(!said.contains(complaint), "{said}");
                }
                let row = |name: &str| {
                    let cells = format!("<td>{name}</td>");
                    let row = page.split("<tr>").find(|row| row.contains(&cells));
                    row.unwrap_or_default().to_owned()
                };
                let reasons = ["network or client (sending)", "storage", "QoS limit (held)"];
                let is_told = names.iter().zip(reasons).all(|(name, why)| row(name).contains(why));
                seen.replace(page);
                is_told
            },
            || seen.borrow().clone(),
        );
        let seen = seen.take();
        if !is_here {
            return progress("chromium is not installed: the page is seen by nobody");
        }
        for part in [
            "p50",
            "p99",
            "<td>data</td>",
            "<td>gold</td>",
            "READ</li>",
            "held</li>",
            "storage</li>",
            "sending</li>",
            "<polygon",
            "<polyline",
        ] {
            assert!(seen.contains(part), "no {part} in {seen}");
        }
        let bytes = fs::read(&picture).expect("the browser has drawn it");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
    }
}

#[test]
fn phases_explain_a_workers_time_under_load() {
    let server = start();
    let (mut client, file_id) = connect(&server, "data");
    let target = server.worker_of(&client).to_string();
    let read = || -> Value {
        let arguments = ["trace", &target, "--since-start", "--seconds", "0", "--json"];
        serde_json::from_str(&server.site().run(&arguments).succeeds()).expect("an object")
    };
    let number = |value: &Value| value.as_u64().expect("a number");
    let phase = |snapshot: &Value, name: &str| {
        let phases = snapshot["phases"].as_array().expect("an array");
        number(&phases.iter().find(|it| it["phase"] == name).expect("a phase")["ns"])
    };
    let before_all = Instant::now();
    let before = read();
    let began = Instant::now();
    for _ in 0..200 {
        ask(&mut client, file_id, 16, BLOCK);
        receive(&mut client, 16);
    }
    let inner = began.elapsed();
    let after = read();
    let outer = before_all.elapsed();
    let since = |of: &dyn Fn(&Value) -> u64| u128::from(of(&after) - of(&before));
    let sum = since(&|snapshot| number(&snapshot["phases_sum_ns"]));
    // Two clocks, which agree to one part in some ten thousands.
    assert!(sum * 1_000 >= inner.as_nanos() * 999, "{sum} ns explain {inner:?}");
    assert!(sum * 999 <= outer.as_nanos() * 1_000, "{sum} ns are more than {outer:?}");
    let unexplained = since(&|snapshot| phase(snapshot, "other work"));
    assert!(unexplained * 100 <= sum * 2, "{unexplained} of {sum} ns are of no phase");
    server.stop();
}

/// Process `choro metrics` in the background.
struct Metrics {
    child: Child,
    address: String,
}

impl Metrics {
    fn begin(server: &TestServer) -> Self {
        Self::start(server.site().command(&["metrics", "--listen", "127.0.0.1:0"]))
    }

    /// With so few descriptors for each of its processes.
    fn begin_with_descriptors(server: &TestServer, count: u32) -> Self {
        let own = server.site().command(&["metrics", "--listen", "127.0.0.1:0"]);
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$@\"");
        command.args(["-c", &script, "sh"]).arg(own.get_program()).args(own.get_args());
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it is text");
        let address = line.trim().strip_prefix("http://").and_then(|it| it.strip_suffix('/'));
        Self { child, address: address.expect("where it listens").to_owned() }
    }

    /// The process that reads what HTTP clients send.
    fn web(&self) -> u32 {
        let children = children(self.child.id());
        assert_eq!(children.len(), 1, "{children:?}");
        children[0]
    }

    /// The head and the body of an answer.
    fn get(&self, path: &str) -> (String, String) {
        self.get_as(&self.address, path)
    }

    /// The same for who asks for `host`.
    fn get_as(&self, host: &str, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        signal_process(self.child.id(), Signal::TERM);
        self.child.wait().expect("it ends");
    }
}

#[test]
fn metrics_count_operations_of_clients() {
    let server = start();
    let metrics = Metrics::begin(&server);
    let (mut client, file_id) = connect(&server, "data");
    ask(&mut client, file_id, 5, BLOCK);
    receive(&mut client, 5);
    let mut text = String::new();
    wait_until(
        || {
            text = metrics.get("/metrics").1;
            let has = |line: &str| text.lines().any(|it| it == line);
            has("choro_request_duration_seconds_count{operation=\"READ\"} 5")
                && has("choro_storage_bytes_total{operation=\"read\"} 327680")
                && has("choro_share_read_bytes_total{share=\"data\"} 327680")
                && has("choro_sessions 1")
                && has("choro_channels 1")
        },
        || metrics.get("/metrics").1,
    );
    assert!(text.contains("choro_class_requests_total{class=\"gold\"} 0"), "{text}");
    wait_until(
        || {
            let data: Value = serde_json::from_str(&metrics.get("/data.json").1).expect("JSON");
            let points = data["points"].as_array().expect("an array");
            let reads = points.iter().flat_map(|it| it["operations"].as_array().expect("an array"));
            let reads = reads.filter(|it| it["operation"] == "READ");
            reads.filter_map(|it| it["requests"].as_u64()).sum::<u64>() == 5
        },
        || metrics.get("/data.json").1,
    );
    // Counts of an ended worker remain.
    drop(client);
    wait_until(
        || metrics.get("/metrics").1.lines().any(|it| it == "choro_sessions 0"),
        || metrics.get("/metrics").1,
    );
    let text = metrics.get("/metrics").1;
    assert!(text.contains("choro_storage_bytes_total{operation=\"read\"} 327680\n"), "{text}");
    server.stop();
}

#[test]
fn metrics_outlive_more_clients_than_there_are_descriptors() {
    let server = start();
    let metrics = Metrics::begin_with_descriptors(&server, 40);
    let pid = metrics.web();
    let connect = |_| TcpStream::connect(&metrics.address).expect("it listens");
    let idle: Vec<TcpStream> = (0..100).map(connect).collect();
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    wait_until(|| descriptors() >= 40, || format!("{} descriptors", descriptors()));
    drop(idle);
    let (head, _) = metrics.get("/metrics");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    server.stop();
}

#[test]
fn requests_for_metrics_are_read_by_a_process_without_rights() {
    let server = start();
    let metrics = Metrics::begin(&server);
    let (head, _) = metrics.get("/metrics");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let web = metrics.web();
    let status = fs::read_to_string(format!("/proc/{web}/status")).expect("it lives");
    let of = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name)).expect("it is Linux");
        line.trim().to_owned()
    };
    assert_eq!(of("NoNewPrivs:"), "1");
    assert_eq!(u64::from_str_radix(&of("CapPrm:"), 16), Ok(0), "{status}");
    if runs_as_root() {
        assert!(of("Uid:").split_whitespace().all(|it| it != "0"), "{status}");
        assert!(of("Gid:").split_whitespace().all(|it| it != "0"), "{status}");
        assert_eq!(of("Groups:"), "");
    }
    // The other one hears of HTTP clients what this one asks, and nothing from them.
    let port: u16 = metrics.address.rsplit(':').next().and_then(|it| it.parse().ok()).expect("one");
    let sockets = |pid: u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let targets = entries.filter_map(|it| fs::read_link(it.path()).ok());
        targets.map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let table = fs::read_to_string("/proc/net/tcp").expect("it is Linux");
    let listener = table.lines().find(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns[1].ends_with(&format!(":{port:04X}")) && columns[3] == "0A"
    });
    let inode = listener.and_then(|it| it.split_whitespace().nth(9)).expect("it listens");
    let listener = format!("socket:[{inode}]");
    assert!(!sockets(metrics.child.id()).contains(&listener));
    if runs_as_root() {
        assert!(sockets(web).contains(&listener));
    }
    // HTTP clients that do not wait for the answer leave nothing behind that another would get.
    for _ in 0..20 {
        let mut hasty = TcpStream::connect(&metrics.address).expect("it listens");
        hasty.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it listens");
    }
    assert!(metrics.get("/metrics").1.contains("choro_sessions"), "not what was asked for");
    assert!(metrics.get("/data.json").1.contains("points"), "not what was asked for");
    // Neither outlives the other.
    signal_process(metrics.child.id(), Signal::KILL);
    wait_until(|| !is_alive(web), || "it goes on alone".to_owned());
    server.stop();
}

#[test]
fn the_page_asks_nobody_but_its_server() {
    let server = start();
    let metrics = Metrics::begin(&server);
    for (path, kind) in
        [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")]
    {
        let (head, body) = metrics.get(path);
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(kind), "{head}");
        assert!(head.contains("default-src 'self'"), "{head}");
        let body = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!body.contains("http://") && !body.contains("https://"), "{body}");
    }
    let (head, body) = metrics.get_as("rebound.example.org", "/data.json");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    assert!(!body.contains("points"), "{body}");
    let (head, _) = metrics.get("/nothing");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    let address = metrics.address.clone();
    let error = server.site().run(&["metrics", "--listen", &address]).fails(1);
    assert!(error.starts_with(&format!("choro: cannot listen on {address}")), "{error}");
    server.stop();
}

#[test]
fn without_a_terminal_the_screen_is_refused_and_without_a_server_all_is() {
    let server = start();
    let error = server.site().run(&["top"]).fails(1);
    assert_eq!(error, "choro: standard output is not a terminal; use `choro top --json`\n");
    let error = server.site().run(&["top", "--interval", "0"]).fails(2);
    assert!(error.contains("expected a number of seconds from 0.1 to 3600"), "{error}");
    server.stop();
    let site = harness::choro::Site::new();
    for command in [&["top", "--json"][..], &["metrics", "--listen", "127.0.0.1:0"]] {
        let error = site.run(command).fails(1);
        assert!(error.starts_with("choro: no server has run in "), "{error}");
    }
}
