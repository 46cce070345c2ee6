//! Births of workers: early enough, complete, free of the supervisor's descriptors, and repeated
//! after a death.

mod choro;

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use choro::{
    Server, Site, is_alive, signal_process, text, under_unit, wait_until, without_io_uring,
};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn each_client_gets_a_worker_of_its_own_and_the_pool_is_refilled() {
    let site = Site::new();
    let server = site.serve();
    let idle = server.idle_workers();
    let clients: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    wait_until(|| server.workers().len() == 8, || format!("{:?}", server.workers()));
    assert!(idle.iter().all(|&worker| is_alive(worker)));
    drop(clients);
    wait_until(|| server.workers().len() == 3, || format!("{:?}", server.workers()));
}

#[test]
fn a_worker_killed_while_idle_is_replaced_and_the_supervisor_does_not_spin() {
    let site = Site::new();
    let server = site.serve();
    let workers = server.idle_workers();
    signal_process(workers[0], Signal::KILL);
    server.wait_for_log(&format!("worker {} was killed by signal 9", workers[0]));
    wait_until(|| server.workers().len() == 3, || format!("{:?}", server.workers()));
    for _ in 0..4 {
        let workers = server.idle_workers();
        for &worker in &workers {
            signal_process(worker, Signal::KILL);
        }
        wait_until(|| server.workers().iter().all(|pid| !workers.contains(pid)), String::new);
    }
    server.connect();
    server.idle_workers();
}

/// Returns the kinds of open descriptors of a process, beside standard input and output.
fn open_in(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let others = entries.filter(|it| !["0", "1", "2"].map(Into::into).contains(&it.file_name()));
    let targets = others.filter_map(|it| fs::read_link(it.path()).ok());
    targets.map(|it| it.to_string_lossy().into_owned()).collect()
}

#[test]
fn workers_are_forked_off_a_supervisor_of_one_thread_and_keep_nothing_that_it_has_open() {
    let site = Site::new();
    let server = site.serve();
    let workers = server.idle_workers();
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it lives").count();
    assert_eq!(threads, 1);
    for &worker in &workers {
        let command_line = fs::read_to_string(format!("/proc/{worker}/cmdline")).expect("it lives");
        assert_eq!(command_line.split('\0').nth(3), Some("serve"), "{command_line}");
    }
    if !rustix::process::geteuid().is_root() {
        return; // Nobody else may see what a worker has open.
    }
    // Tables are for both; what has no name cannot be told apart.
    let is_own = |it: &String| !it.ends_with(".tdb") && !it.starts_with("anon_inode:");
    let of_supervisor = || open_in(server.pid()).into_iter().filter(is_own).collect::<Vec<_>>();
    for sample in ["/choro.pid", "/server.lock", "socket:"] {
        assert!(of_supervisor().iter().any(|it| it.contains(sample)), "{:?}", of_supervisor());
    }
    for worker in workers {
        let kept = || {
            let of_supervisor = of_supervisor();
            // The list of mounts is opened before the fork, once for each process.
            let has_own = |it: &String| ["/msg", "/mountinfo"].iter().any(|own| it.ends_with(own));
            let is_kept = |it: &String| of_supervisor.contains(it) && !has_own(it);
            open_in(worker).into_iter().filter(is_kept).collect::<Vec<_>>()
        };
        // One that was made just now has neither let go of what is not its own nor opened what is.
        let has_started = || open_in(worker).iter().any(|it| it.ends_with("/msg"));
        wait_until(|| has_started() && kept().is_empty(), || format!("{:?}", kept()));
    }
}

/// Asserts what the log says that workers wait with, and that they do.
#[track_caller]
fn assert_waits_with(server: &Server, has_ring: bool) {
    let output = if has_ring { "io_uring" } else { "epoll and threads: io_uring: " };
    let output = format!("clients are served through {output}");
    wait_until(|| server.log().contains(&output), || server.log());
    if !rustix::process::geteuid().is_root() {
        return; // Nobody else may see what a worker has open.
    }
    for worker in server.idle_workers() {
        // The worker has closed the supervisor's descriptors and created its event loop: the
        // eventfd of its lanes comes last.
        let open = || open_in(worker);
        let has = |what: &str| open().iter().any(|it| it.ends_with(what));
        wait_until(|| has("/msg") && has("[eventfd]"), || format!("{:?}", open()));
        assert_eq!(has("[io_uring]"), has_ring, "{:?}", open());
        assert!(has_ring || has("[eventpoll]"), "{:?}", open());
    }
}

#[test]
fn workers_use_a_ring_unless_it_is_forbidden() {
    let site = Site::new();
    let has_ring = uring::Backend::available().contains(&uring::Backend::Ring);
    assert_waits_with(&site.serve(), has_ring);
}

#[test]
fn workers_run_without_a_ring_if_it_is_forbidden() {
    let mut site = Site::new();
    site.launch_with(&without_io_uring());
    let server = site.serve();
    assert_waits_with(&server, false);
    server.connect();
}

/// If a supervisor cannot be forked, workers are exec'ed like `notifyd`.
#[test]
fn a_worker_that_is_execed_serves_as_well() {
    assert_execed_worker_is_ready(&[]);
}

#[test]
fn a_worker_started_by_exec_in_a_confined_service_serves_too() {
    if rustix::process::geteuid().is_root() {
        assert_execed_worker_is_ready(&under_unit());
    }
}

/// Starts a worker by this launcher as a supervisor would that cannot be forked.
fn assert_execed_worker_is_ready(launcher: &[String]) {
    let site = Site::new();
    let server = site.serve();
    wait_until(|| server.notifyd().is_some(), || "no notifyd".to_owned());
    let command_line = || {
        let notifyd = server.notifyd()?;
        let line = fs::read_to_string(format!("/proc/{notifyd}/cmdline")).ok()?;
        Some(line.split_terminator('\0').map(str::to_owned).collect::<Vec<_>>())
    };
    let mut arguments = command_line().expect("it lives");
    let mut set = |name: &str, value: String| {
        let at = arguments.iter().position(|it| it == name).expect("it is told");
        arguments[at + 1] = value;
    };
    set("--supervisor-pid", std::process::id().to_string());
    set("--unique-id", "00000000000000aa".to_owned());
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .expect("there are descriptors");
    let line = [launcher, &[text(&choro::built_executable()), "worker".to_owned()]].concat();
    let mut worker = Command::new(&line[0])
        .args(&line[1..])
        .args(&arguments[2..])
        .stdin(Stdio::from(theirs))
        .spawn()
        .expect("it starts");
    let mut message = [0; 25];
    let (length, _) = rustix::net::recv(&ours, &mut message, rustix::net::RecvFlags::empty())
        .expect("it speaks or ends");
    assert_eq!((length, &message[8..24]), (24, &0xaa_u128.to_le_bytes()[..]), "it is not ready");
    drop(ours);
    assert!(worker.wait().expect("it is our child").success());
}

/// Without the supervisor there is no server; a worker serves one client only, and `notifyd` is
/// started again.
#[test]
fn the_kernel_ends_any_other_process_of_a_server_before_the_supervisor_for_want_of_memory() {
    let site = Site::new();
    let server = site.serve();
    let preference = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap_or_default();
        text.trim().parse::<i32>().unwrap_or(i32::MIN)
    };
    let of_supervisor = preference(server.pid());
    wait_until(|| server.notifyd().is_some(), || "no notifyd".to_owned());
    for pid in server.idle_workers().into_iter().chain(server.notifyd()) {
        wait_until(|| preference(pid) > of_supervisor, || format!("{pid}: {}", preference(pid)));
    }
}

#[test]
fn a_worker_logs_under_its_own_pid() {
    let site = Site::new();
    site.write_config_with(
        &format!("log file = {}.%d\nlog level = 3\n", text(&site.path("log"))),
        "",
    );
    let mut child = site.command(&["serve"]).stderr(Stdio::null()).spawn().expect("it starts");
    let log = |pid: u32| fs::read_to_string(site.path(&format!("log.{pid}"))).unwrap_or_default();
    wait_until(|| log(child.id()).contains("listening on"), || "it does not listen".to_owned());
    let _client = TcpStream::connect(site.address()).expect("it listens");
    let logs = || {
        let entries = fs::read_dir(site.path("")).expect("it is ours").flatten();
        entries.filter_map(|it| it.file_name().to_str()?.strip_prefix("log.")?.parse().ok())
    };
    wait_until(
        || logs().any(|pid| pid != child.id() && log(pid).contains(" connected")),
        || "no worker says that a client came".to_owned(),
    );
    assert!(!log(child.id()).contains(" connected"));
    signal_process(child.id(), Signal::TERM);
    assert!(child.wait().expect("it is our child").success());
}

/// Workers that cannot start must neither keep the processor busy nor cost clients their
/// connection: those wait until workers start again.
#[test]
fn workers_that_cannot_start_are_not_started_in_a_loop() {
    let site = Site::new();
    let server = site.serve();
    let workers = server.idle_workers();
    // Directory that every worker has to join.
    let (folder, aside) = (site.path("lock/msg"), site.path("lock/aside"));
    fs::rename(&folder, &aside).expect("it is ours");
    fs::write(&folder, "").expect("its name is free");
    for worker in workers.into_iter().filter(|it| is_alive(*it)) {
        // One that has not joined yet may end by itself at any time.
        let worker = Pid::from_raw(worker.cast_signed()).expect("it is a pid");
        let _ = kill_process(worker, Signal::KILL);
    }
    server.wait_for_log("failed with status 1 before it had a client");
    server.wait_for_log("next worker starts in 1.6s");
    let started = server.log().matches("before it had a client").count();
    assert!(started < 20, "{}", server.log());
    let client = server.connect();
    fs::remove_file(&folder).expect("it is ours");
    fs::rename(&aside, &folder).expect("it is ours");
    wait_until(|| server.workers().len() == 4, || server.log());
    client.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a socket");
    assert!((&client).read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
}
