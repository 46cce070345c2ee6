//! `choro profile`: flame graphs of a running server.

mod harness;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bench::client::requests::{Purpose, close, open, push_write};
use bench::client::{Client, Protection, Slot};
use harness::choro::{Site, text, wait_until};
use harness::smbtorture::progress;
use harness::{TestServer, runs_as_root};

/// Writes into one file until `is_over`.
fn write(client: &mut Client, is_over: &AtomicBool) {
    let file_id = open(client, Purpose::NewFile, "file").expect("it may be made");
    while !is_over.load(Ordering::Relaxed) {
        push_write(client, file_id, 0, &[7; 65_536]);
        client.flush(Slot(0)).expect("it is connected");
        client.receive().and_then(|it| it.succeeded()).expect("it may be written");
    }
    close(client, file_id).expect("it is open");
}

/// Runs `choro profile` while a client writes. Returns the worker's pid and the result.
fn profile(server: &TestServer, picture: &Path, option: &str) -> (u32, Output) {
    let mut client = server.connect("data", Protection::Signed);
    let pid = server.worker_of(&client);
    let is_over = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        scope.spawn(|| write(&mut client, &is_over));
        let arguments = [&pid.to_string(), option, "--seconds", "1", "-o", &text(picture)];
        let done = server.site().command(&[&["profile"], &arguments[..]].concat()).output();
        is_over.store(true, Ordering::Relaxed);
        done.expect("it starts")
    });
    (pid, done)
}

/// Draws, and returns the names in the picture with their widths in nanoseconds. `None` where the
/// tool is missing or the kernel forbids it, with a line of progress.
fn draw(option: &str, tool: &str, title: &str) -> Option<Vec<(String, u64)>> {
    if !runs_as_root() || Command::new(tool).arg("--version").output().is_err() {
        progress(&format!("{tool} is not here, or we are not root: nothing is drawn"));
        return None;
    }
    let server = TestServer::start();
    let picture = server.site().path("flame.svg");
    let (pid, done) = profile(&server, &picture, option);
    let error = String::from_utf8_lossy(&done.stderr);
    let forbidden = ["the kernel does not let", "finds no tracepoints", "perf_event_open"];
    if let Some(reason) = forbidden.iter().find(|it| error.contains(**it)) {
        progress(&format!("nothing is drawn: {reason}: {error}"));
        return None;
    }
    assert!(done.status.success(), "{error}");
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(printed.starts_with(&format!("{}: ", picture.display())), "{printed}");
    let svg = fs::read_to_string(&picture).expect("it was drawn");
    assert!(svg.contains(&format!("{title}: worker {pid}, 1 s")), "{svg}");
    server.stop();
    Some(frames(&svg))
}

/// Returns the functions of a picture: `<title>NAME (1,234 ns, 5.67%)</title>`.
fn frames(svg: &str) -> Vec<(String, u64)> {
    let titles = svg.split("<title>").skip(1).filter_map(|it| it.split_once("</title>"));
    let frames = titles.filter_map(|(title, _)| {
        let (name, size) = title.rsplit_once(" (")?;
        let ns = size.split_once(" ns")?.0.replace(',', "");
        Some((name.to_owned(), ns.parse().ok()?))
    });
    frames.collect()
}

/// Time of all functions whose names contain `part`; nested ones count more than once.
fn time_in(frames: &[(String, u64)], part: &str) -> u64 {
    frames.iter().filter(|(name, _)| name.contains(part)).map(|(_, ns)| ns).sum()
}

#[test]
fn running_code_is_drawn() {
    let Some(frames) = draw("--frequency=999", "perf", "choro: what ran") else { return };
    // The client keeps its worker busy, and all functions are part of the lowest one.
    let all = frames.iter().find(|(name, _)| name == "all").map_or(0, |(_, ns)| *ns);
    assert!(all > 0 && frames.iter().all(|(_, ns)| *ns <= all), "{all} ns: {frames:?}");
    // Writing is a system call, and its name is the kernel's own.
    let writing = time_in(&frames, "write");
    assert!(writing > 0, "{frames:?}");
}

#[test]
fn waiting_is_drawn() {
    let Some(frames) = draw("--off-cpu", "bpftrace", "choro: what waited") else { return };
    let waiting = time_in(&frames, "schedule");
    assert!(waiting > 10_000_000, "{frames:?}");
    assert!(time_in(&frames, "io_uring_enter") + time_in(&frames, "epoll_wait") > 0, "{frames:?}");
}

#[test]
fn a_profile_without_the_tools_for_it_is_refused_in_words() {
    let site = Site::new();
    let server = site.serve();
    let pages = || trace::workers(&site.path("lock")).map_or(0, |workers| workers.len());
    wait_until(|| pages() == 3, || "three idle workers".to_owned());
    for (option, tool) in [("--off-cpu", "bpftrace"), ("--frequency=99", "perf")] {
        let picture = text(&site.path("flame.svg"));
        let mut command = site.command(&["profile", "all", option, "-o", &picture]);
        let done = command.env("PATH", "/nowhere").output().expect("it starts");
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{error}");
        assert!(error.starts_with(&format!("choro: {tool} is not installed")), "{error}");
    }
    drop(server);
}
