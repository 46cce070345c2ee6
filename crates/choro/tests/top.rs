//! `choro top` and `choro metrics`: slow clients, and the reasons, against a running server.

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use harness::choro::{children, is_alive, signal_process, wait_until};
use harness::metrics::Metrics;
use harness::slow_clients::{
    BLOCK, LARGE, SlowStorage, ask, connect, has_strace, name_of, receive, start,
};
use harness::smbtorture::progress;
use harness::{TestServer, runs_as_root};
use rustix::process::Signal;
use serde_json::Value;

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

/// Adds what a row says of where the time of its requests went.
fn add_phases(sums: &mut BTreeMap<String, u64>, row: &Value) {
    for (phase, ns) in row["phases_ns"].as_object().expect("an object") {
        *sums.entry(phase.clone()).or_default() += ns.as_u64().expect("a number");
    }
}

#[test]
fn it_ends_when_its_terminal_is_closed() {
    let server = start();
    let top = server.site().command(&["top"]);
    let words = std::iter::once(top.get_program()).chain(top.get_args());
    let words: Vec<_> = words.map(|it| it.to_str().expect("UTF-8")).collect();
    let line = format!("exec {}", words.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = command.spawn().expect("it is part of every Debian");
    let mut screen = script.stdout.take().expect("it is piped");
    let mut shown = Vec::new();
    while !shown.windows(5).any(|it| it == b"CLIEN") {
        let mut bytes = [0; 4_096];
        let len = screen.read(&mut bytes).expect("it is open");
        assert!(len > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&bytes[..len]);
    }
    let top = children(script.id()).pop().expect("it runs");
    script.kill().expect("it runs");
    script.wait().expect("it ends");
    wait_until(|| !is_alive(top), || format!("process {top} goes on without a terminal"));
    server.stop();
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
            let printed = row["time_goes_to"].as_str().map(str::to_owned);
            words.entry(name.clone()).or_default().extend(printed);
            add_phases(phases.entry(name).or_default(), row);
        }
    }
    let slowest = names.clone().map(|name| {
        let most = phases[&name].iter().max_by_key(|(_, ns)| **ns).expect("it did something");
        (most.0.clone(), format!("{:?}", phases[&name]))
    });
    for ((phase, all), expected) in slowest.iter().zip(["sending", "storage", "throttled"]) {
        assert_eq!(phase, expected, "{all}");
    }
    // And in words, whenever it was seen.
    let expected = ["network or client (sending) ", "storage ", "QoS limit (throttled) "];
    for (name, expected) in names.iter().zip(expected) {
        assert!(words[name].iter().any(|it| it.starts_with(expected)), "{name}: {words:?}");
    }
    let storage_ns = |name: &String| phases[name].get("storage").copied().unwrap_or(0);
    assert!(storage_ns(&names[1]) >= 10 * 40_000_000, "each of them was delayed: {phases:?}");
    top.end();
    server.stop();
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
    if confinement::unavailable().is_none() {
        assert_eq!(of("Seccomp:"), "2");
    }
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
