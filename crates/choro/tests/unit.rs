//! The service's unit file: how much it confines, and that the server serves all the same.

mod harness;

use std::fs;
use std::path::Path;
use std::process::Command;

use dtyp::AccessMask;
use harness::choro::{text, under_unit, wait_until};
use harness::session::Session;
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, USER, runs_as_root};
use wire::create::{CreateDisposition, CreateOptions};

/// The highest exposure that `systemd-analyze security` may report, in tenths.
const EXPOSURE_MAX: &str = "40";

/// The value of a line of the process's status.
fn status(pid: u32, line: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|it| it.strip_prefix(line)).expect("it is Linux");
    line.trim_start_matches(':').trim().to_owned()
}

#[test]
fn the_service_is_exposed_by_no_more_than_four_of_ten() {
    let unit = tempfile::tempdir().expect("there is space");
    let path = unit.path().join("choro.service");
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/choro.service.in");
    let lines = fs::read_to_string(template).expect("it is in the tree");
    fs::write(&path, lines.replace("@PREFIX@", "/usr")).expect("there is space");
    let arguments = ["security", "--no-pager", "--offline=true", "--threshold", EXPOSURE_MAX];
    let output = Command::new("systemd-analyze").args(arguments).arg(text(&path)).output();
    let output = output.expect("systemd is installed");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("Overall exposure level"), "{output:?}");
    assert!(output.status.success(), "{printed}");
    assert!(lines.contains("\nOOMPolicy=continue\n"), "one client's end would be everybody's");
}

#[test]
fn every_process_of_the_confined_server_has_the_capabilities_and_filters_of_the_unit_alone() {
    if !runs_as_root() {
        return progress("confining a server takes root");
    }
    let server = Setup::new().launch_with(&under_unit()).share("data", "").start();
    let has_ring = uring::Backend::available().contains(&uring::Backend::Ring);
    let log = server.log();
    assert_eq!(log.contains("served through io_uring"), has_ring, "{log}");
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    let options = CreateOptions::default();
    let file = session
        .open("file", AccessMask::FILE_ALL, CreateDisposition::CREATE, options)
        .expect("it may write");
    session.write(file, b"text");
    assert_eq!(session.read(file), b"text");
    wait_until(|| server.server().notifyd().is_some(), || "no notifyd".to_owned());
    let processes = server.server().workers().into_iter().chain(server.server().notifyd());
    for pid in processes.chain([server.server().pid()]) {
        // CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER KILL LEASE SETGID SETUID SETPCAP,
        // NET_BIND_SERVICE, SYS_ADMIN and SYS_RESOURCE; some containers lack a few of them.
        let bounds = u64::from_str_radix(&status(pid, "CapBnd"), 16).expect("a number");
        assert_eq!(bounds & !0x1120_05ef, 0, "{bounds:x}");
        assert_eq!((status(pid, "NoNewPrivs"), status(pid, "Seccomp")), ("1".into(), "2".into()));
    }
    server.stop();
}
