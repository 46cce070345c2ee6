//! The Linux kernel's own client against the real server: a small guest mounts a share in every
//! dialect and protection, and does with it what people do. See `tests/guest/`.
//!
//! It needs root, `/dev/net/tun` and `debootstrap`. Where one is missing the test says so and does
//! nothing: no other client would be a replacement.

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER, runs_as_root};

/// Options of the mounts.
const VARIANTS: [&str; 10] = [
    "vers=2.1",
    "vers=3.0",
    "vers=3.0.2",
    "vers=3.1.1",
    "vers=2.1,sign",
    "vers=3.1.1,sign",
    "vers=3.0,seal",
    "vers=3.1.1,seal",
    MULTICHANNEL,
    POSIX,
];

/// The mount that uses the POSIX extensions.
const POSIX: &str = "vers=3.1.1,posix";

/// The mount that uses four connections.
const MULTICHANNEL: &str = "vers=3.1.1,multichannel,max_channels=4";

/// How often it is mounted, and connections beyond the first each time.
const FURTHER_CHANNELS: usize = 2 * 3;

/// Seconds for all of them; a fast machine needs a quarter.
const LIMIT_SECONDS: u32 = 900;

/// Checks of one variant, for the display of progress and to notice a script that ends early.
const CHECKS: usize = 40;

/// A network of its own with the tap device of the guest in it. It lives as long as the process in
/// it, which ends when its standard input is closed: nothing is left behind.
#[derive(Debug)]
struct Network {
    holder: Child,
}

impl Network {
    fn new() -> Self {
        let setup = "ip link set lo up && ip tuntap add dev guest mode tap &&
            ip addr add 10.99.0.1/24 dev guest && ip link set guest up && echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", setup])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is installed");
        let mut line = String::new();
        let stdout = holder.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it can be read");
        assert_eq!(line, "ready\n", "a network of its own cannot be made");
        Self { holder }
    }

    /// The command that runs another one in this network, without a process of its own.
    fn launcher(&self) -> Vec<String> {
        let network = format!("--net=/proc/{}/ns/net", self.holder.id());
        vec!["nsenter".to_owned(), network, "--".to_owned()]
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Why there cannot be a guest on this machine.
fn obstacle() -> Option<&'static str> {
    let has = |path: &str| Path::new(path).exists();
    if !runs_as_root() {
        Some("it needs root")
    } else if !has("/dev/net/tun") {
        Some("there is no /dev/net/tun")
    } else if !has("/usr/sbin/debootstrap") {
        Some("debootstrap is not installed")
    } else if cfg!(not(target_arch = "x86_64")) {
        Some("User-Mode Linux is for x86-64 only")
    } else {
        None
    }
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest").join(name)
}

/// Boots the guest and runs the checks, showing progress; returns the folder with what it left.
fn run_checks(server: &TestServer, network: &Network) -> PathBuf {
    let job = server.client_folder("guest");
    let variants = VARIANTS.join(" ");
    let environment = format!(
        "PORT={}\nSHARE=data\nACCOUNT={USER}\nPASSWORD='{PASSWORD}'\nVARIANTS='{variants}'\n",
        server.port()
    );
    fs::write(job.join("env"), environment).expect("there is space");
    let launcher = network.launcher();
    let mut guest = Command::new(&launcher[0])
        .args(&launcher[1..])
        .arg(script("run.sh"))
        .arg(script("check.sh"))
        .arg(LIMIT_SECONDS.to_string())
        .arg(&job)
        .stdin(Stdio::null())
        .spawn()
        .expect("it can be run");
    let mut shown = 0;
    let status = loop {
        if let Some(status) = guest.try_wait().expect("it is our child") {
            break status;
        }
        let said = fs::read_to_string(job.join("stdout")).unwrap_or_default();
        let variants = said.lines().filter(|line| line.contains("\tdelete_rest\t")).count();
        if variants > shown {
            shown = variants;
            progress(&format!("kernel client: {shown} of {} mounts", VARIANTS.len()));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    };
    let console = fs::read_to_string(job.join("console")).unwrap_or_default();
    assert!(status.success(), "the guest ended with {status}; its console:\n{console}");
    job
}

/// From (variant, check) to the last words of those that failed.
fn parse_results(said: &str) -> BTreeMap<(String, String), Option<String>> {
    let rows = said.lines().map(|line| {
        let mut cells = line.splitn(4, '\t').map(str::to_owned);
        let mut cell = || cells.next().unwrap_or_default();
        let (key, verdict) = ((cell(), cell()), cell());
        match verdict.as_str() {
            "ok" => (key, None),
            "failed" => (key, Some(cell())),
            _ => panic!("no verdict in the line '{line}'"),
        }
    });
    rows.collect()
}

/// The checks that are known to fail, as (variant or `*`, check).
fn expected_failures() -> Vec<(String, String)> {
    let list = fs::read_to_string(script("expected.tsv")).expect("the list is checked in");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        assert!(cells.len() == 3 && !cells[2].is_empty(), "no reason in the line '{line}'");
        (cells[0].to_owned(), cells[1].to_owned())
    });
    rows.collect()
}

/// Whether an entry of the list is about a variant: its name, `*` for all, `-posix` for all but that one.
fn is_on(entry: &str, variant: &str) -> bool {
    entry == "*" || entry == "-posix" && variant != POSIX || entry == variant
}

/// What the guest copied is on the host's disk, byte by byte.
fn assert_tree_on_disk(server: &TestServer, job: &Path) {
    for variant in VARIANTS {
        let folder: String = variant
            .chars()
            .map(|char| if matches!(char, 'a'..='z' | '0'..='9') { char } else { '_' })
            .collect();
        let output = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet"])
            .arg(job.join("tree.sha256"))
            .current_dir(server.share_path("data").join(folder).join("tree"))
            .output()
            .expect("coreutils are installed");
        assert!(output.status.success(), "{variant}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let sums = fs::read_to_string(job.join("tree.sha256")).expect("the guest wrote it");
    assert!(sums.lines().count() > 100, "the tree is too small to tell much");
}

#[test]
fn the_linux_kernel_works_with_a_share() {
    if let Some(reason) = obstacle() {
        progress(&format!("NOT RUN: the Linux kernel's client, because {reason}"));
        return;
    }
    let built = Command::new(script("build.sh")).status().expect("it can be run");
    assert!(built.success(), "the guest cannot be built");

    let network = Network::new();
    let server = Setup::new()
        .launch_with(&network.launcher())
        // The kernel takes further connections to an address only if that spreads them, and makes
        // them to the usual port.
        .global("interfaces = \"10.99.0.1;capability=RSS\"")
        .global("smb3 unix extensions = yes")
        .port_too(445)
        .share("data", "")
        .start();
    let job = run_checks(&server, &network);
    let said = fs::read_to_string(job.join("stdout")).expect("the guest wrote it");
    let results = parse_results(&said);
    let expected = expected_failures();
    let mut differences = Vec::new();
    for ((variant, check), failure) in &results {
        let is_expected = expected.iter().any(|(on, name)| name == check && is_on(on, variant));
        match failure {
            Some(words) if !is_expected => differences.push(format!("{variant} {check}: {words}")),
            None if is_expected => {
                differences.push(format!("{variant} {check}: works now; remove it from the list"));
            }
            _ => {}
        }
    }
    let dmesg = fs::read_to_string(job.join("dmesg")).unwrap_or_default();
    let kernel: Vec<&str> =
        dmesg.lines().filter(|line| line.contains("CIFS") || line.contains("BUG")).collect();
    assert!(differences.is_empty(), "{}\n{}", differences.join("\n"), kernel.join("\n"));
    assert_eq!(results.len(), VARIANTS.len() * CHECKS, "{said}");
    assert_tree_on_disk(&server, &job);
    let passed = server.log().matches("was passed here").count();
    assert_eq!(passed, FURTHER_CHANNELS, "channels of {MULTICHANNEL}");
    server.stop();
}
