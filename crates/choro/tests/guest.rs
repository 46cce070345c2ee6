//! The Linux kernel's own client against the real server: a small guest mounts a share in every
//! dialect and protection, and does with it what people do; and copies over two links while one of
//! them is taken down. See `tests/guest/`.
//!
//! It needs root, `/dev/net/tun` and `debootstrap`. Where one is missing the test says so and does
//! nothing: no other client would be a replacement.

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use harness::choro::signal_process;
use harness::guest::{Guest, has_guest, script, tap_device};
use harness::namespace::Namespace;
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER};
use rustix::process::Signal;

/// Mount options of each variant.
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

/// Number of mounts, times the connections beyond the first of each.
const FURTHER_CHANNELS: usize = 2 * 3;

/// Seconds for all of them; a fast machine needs a quarter.
const LIMIT_SECONDS: u64 = 900;

/// Seconds for the copies over two links, which take thirty.
const LINKS_LIMIT_SECONDS: u64 = 300;

/// KiB that are written and read at 100 KiB/s. Clients that do not wait give up within a minute at
/// most, so more of it tells no more; `CHORO_SLOW_KIB=30000` is ten minutes' worth.
const SLOW_KIB: &str = match option_env!("CHORO_SLOW_KIB") {
    Some(kib) => kib,
    None => "1000",
};

/// Seconds for both copies, which take a quarter of a minute.
const SLOW_LIMIT_SECONDS: u64 = 900;

/// Checks of one variant, for the display of progress and to notice a script that ends early.
const CHECKS: usize = 40;

/// A network of its own with the tap devices of the guest in it.
#[derive(Debug)]
struct Network {
    namespace: Namespace,
    links: usize,
}

impl Network {
    fn new(links: usize) -> Self {
        let setup: String = (0..links).map(tap_device).collect();
        let namespace = Namespace::of_network(&setup).expect("root may make a network");
        Self { namespace, links }
    }

    /// Takes the host's end of a link down, or up again.
    fn set_up(&self, link: usize, is_up: bool) {
        let device = format!("guest{link}");
        let state = if is_up { "up" } else { "down" };
        let set = ["ip", "link", "set", &device, state];
        assert_eq!(self.namespace.run(&set), Ok(()), "{device} is not {state}");
    }
}

/// Boots a guest that runs a script with the share's name and user in its environment.
fn boot(server: &TestServer, network: &Network, program: (&str, u64), more: &str) -> Guest {
    let environment = format!(
        "PORT={}\nSHARE=data\nACCOUNT={USER}\nPASSWORD='{PASSWORD}'\n{more}\n",
        server.port()
    );
    let job = server.client_folder("guest");
    Guest::boot((&network.namespace, network.links), program, &job, &environment)
}

/// Boots the guest and runs the checks, showing progress; returns the folder with what it left.
fn run_checks(server: &TestServer, network: &Network) -> PathBuf {
    let variants = format!("VARIANTS='{}'", VARIANTS.join(" "));
    let mut guest = boot(server, network, ("check.sh", LIMIT_SECONDS), &variants);
    let mut shown = 0;
    let job = guest.wait(|job| {
        let printed = fs::read_to_string(job.join("stdout")).unwrap_or_default();
        let variants = printed.lines().filter(|line| line.contains("\tdelete_rest\t")).count();
        if variants > shown {
            shown = variants;
            progress(&format!("kernel client: {shown} of {} mounts", VARIANTS.len()));
        }
    });
    job.to_owned()
}

/// Does with the links what the guest asks for.
fn serve_links(network: &Network, job: &Path) {
    for link in 0..network.links {
        for (wish, is_up, done) in [("lose", false, "lost"), ("heal", true, "healed")] {
            let has = |what: &str| job.join(format!("{what}{link}"));
            if has(wish).exists() && !has(done).exists() {
                network.set_up(link, is_up);
                fs::write(has(done), "").expect("there is space");
                progress(&format!("kernel client: link {link} is {done}"));
            }
        }
    }
}

/// From (variant, check) to the last words of those that failed.
fn parse_results(printed: &str) -> BTreeMap<(String, String), Option<String>> {
    let rows = printed.lines().map(|line| {
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

/// True if an entry of the list matches a variant: its name, `*` for all, `-posix` for all but that
/// one.
fn is_on(entry: &str, variant: &str) -> bool {
    entry == "*" || entry == "-posix" && variant != POSIX || entry == variant
}

/// Compares the guest's copy on the host's disk, byte by byte.
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
    if !has_guest() {
        return;
    }
    let network = Network::new(1);
    let server = Setup::new()
        .launch_with(&network.namespace.launcher())
        // The kernel takes further connections to an address only if that spreads them, and makes
        // them to the usual port.
        .global("interfaces = \"10.99.0.1;capability=RSS\"")
        .global("log level = 3")
        .global("smb3 unix extensions = yes")
        .port_too(445)
        .share("data", "")
        .start();
    let job = run_checks(&server, &network);
    let printed = fs::read_to_string(job.join("stdout")).expect("the guest wrote it");
    let results = parse_results(&printed);
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
    assert_eq!(results.len(), VARIANTS.len() * CHECKS, "{printed}");
    assert_tree_on_disk(&server, &job);
    let passed = server.log().matches("was passed here").count();
    assert_eq!(passed, FURTHER_CHANNELS, "channels of {MULTICHANNEL}");
    server.stop();
}

/// The files of a list, as sha256sum writes it, are on the host's disk, byte by byte.
fn assert_copied(server: &TestServer, list: &Path) {
    let output = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet"])
        .arg(list)
        .current_dir(server.share_path("data"))
        .output()
        .expect("coreutils are installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_linux_kernel_waits_for_a_share_of_a_hundred_kibibytes_a_second() {
    if !has_guest() {
        return;
    }
    let network = Network::new(1);
    let server = Setup::new()
        .launch_with(&network.namespace.launcher())
        .global("interfaces = 10.99.0.1")
        .global("[qos:slow]\nmatch = share data\nmax bandwidth = 100K\n[global]\n")
        .port_too(445)
        .share("data", "")
        .start();
    let length = format!("KIB={SLOW_KIB}");
    let mut guest = boot(&server, &network, ("slow.sh", SLOW_LIMIT_SECONDS), &length);
    let job = guest.wait(|_| ());
    let printed = fs::read_to_string(job.join("stdout")).expect("the guest wrote it");
    assert_eq!(printed, "reconnects\t0\n");
    assert_copied(&server, &job.join("copied.sha256"));
    server.stop();
}

#[test]
fn a_copy_over_two_links_outlives_the_loss_of_one() {
    if !has_guest() {
        return;
    }
    let network = Network::new(2);
    let server = Setup::new()
        .launch_with(&network.namespace.launcher())
        .global("interfaces = 10.99.0.1 10.99.1.1")
        .port_too(445)
        .share("data", "")
        .start();
    let mut guest = boot(&server, &network, ("lose_link.sh", LINKS_LIMIT_SECONDS), "");
    let job = guest.wait(|job| serve_links(&network, job));
    let printed = fs::read_to_string(job.join("stdout")).expect("the guest wrote it");
    let count = |what: &str| printed.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("channels\t2"), count("lost\t")), (1, 1), "{printed}");
    assert_copied(&server, &job.join("copied.sha256"));
    server.stop();
}

/// Files of a folder, and folders, whose system calls are counted.
const COUNTED: (u32, u32) = (100, 3);

/// Seconds for counting, which takes twenty.
const CALLS_LIMIT_SECONDS: u64 = 300;

/// `choro trace` while the guest does one thing.
struct Counting {
    name: &'static str,
    tracer: Child,
}

impl Counting {
    fn begin(server: &TestServer, name: &'static str) -> Self {
        let mut command = server.site().command(&["trace", "10.99.0.2", "-s", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut tracer = command.spawn().expect("it starts");
        let mut printed = String::new();
        let mut errors = BufReader::new(tracer.stderr.as_mut().expect("it is piped"));
        errors.read_line(&mut printed).expect("it is text");
        assert!(printed.starts_with("Collecting"), "{printed}");
        Self { name, tracer }
    }

    /// Returns the calls by name, and the number of requests by command.
    fn end(self) -> serde_json::Value {
        signal_process(self.tracer.id(), Signal::INT);
        let output = self.tracer.wait_with_output().expect("it is our child");
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).expect("an object")
    }
}

/// Counts what the guest asks for.
fn count_calls(
    server: &TestServer,
    job: &Path,
    counting: &mut Option<Counting>,
    reports: &mut BTreeMap<&'static str, serde_json::Value>,
) {
    for name in ["cp", "ls", "cat", "rm"] {
        let has = |what: &str| job.join(format!("{what}-{name}")).exists();
        let make = |what: &str| {
            fs::write(job.join(format!("{what}-{name}")), "").expect("there is space");
        };
        if has("begin") && !has("counting") {
            *counting = Some(Counting::begin(server, name));
            make("counting");
        }
        if has("end") && !has("counted") {
            let counted = counting.take().expect("it began");
            assert_eq!(counted.name, name);
            reports.insert(name, counted.end());
            make("counted");
        }
    }
}

/// The figure of docs/system_calls.md for a command of the kernel's client.
fn documented(name: &str) -> f64 {
    let page = include_str!("../../../docs/system_calls.md");
    let line = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
    let figure = line.and_then(|line| line.split('|').nth(2)).expect("the page has the row");
    figure.trim().parse().expect("it is a number")
}

#[test]
fn the_linux_kernel_takes_as_many_system_calls_as_the_page_says() {
    if !has_guest() {
        return;
    }
    if !uring::Backend::available().contains(&uring::Backend::Ring) {
        return progress("NOT RUN: the page is about a server with io_uring");
    }
    let network = Network::new(1);
    let server = Setup::new()
        .launch_with(&network.namespace.launcher())
        .global("interfaces = 10.99.0.1")
        .port_too(445)
        .share("data", "")
        .start();
    let (files, folders) = COUNTED;
    let sizes = format!("FILES={files}\nFOLDERS={folders}");
    let share = fs::File::open(server.share_path("data")).expect("it is there");
    if !store::has_fine_times(share.as_fd()) {
        return progress("NOT RUN: the page is about a later kernel, or another file system");
    }
    // A build for tests checks each descriptor that it closes.
    let more = f64::from(u8::from(std::env::var_os("CHORO_BIN").is_none()));
    let (mut counting, mut reports) = (None, BTreeMap::new());
    let mut guest = boot(&server, &network, ("calls.sh", CALLS_LIMIT_SECONDS), &sizes);
    guest.wait(|job| count_calls(&server, job, &mut counting, &mut reports));
    assert_eq!(reports.len(), 4, "{reports:?}");
    let mut differences = Vec::new();
    for (name, report) in &reports {
        if let Some(reason) = report["system_calls_refused"].as_str() {
            return progress(&format!("NOT RUN: system calls are not counted: {reason}"));
        }
        let calls = report["system_calls"]["calls"].as_array().expect("an array");
        let count = |rows: &[serde_json::Value], key: &str| -> Vec<(String, f64)> {
            let per_file = |row: &serde_json::Value| {
                let count = row["count"].as_f64().expect("a number");
                (row[key].as_str().unwrap_or("?").to_owned(), count / f64::from(files * folders))
            };
            rows.iter().map(per_file).collect()
        };
        let calls = count(calls, "name");
        let all: f64 = calls.iter().map(|(_, count)| count).sum();
        let requests = count(report["requests"].as_array().expect("an array"), "operation");
        progress(&format!("{name}: {all:.2} calls a file: {calls:.2?}; {requests:.2?}"));
        // On a busy machine, requests come together and share the calls that talk to the client.
        let wanted = documented(name) - 1.5..=documented(name) + 0.5 + more;
        if !wanted.contains(&all) {
            differences.push(format!("{name}: {all:.2}, and the page says {}", documented(name)));
        }
    }
    assert!(differences.is_empty(), "{differences:?}");
    server.stop();
}
