//! Tests of smbtorture that need another server than the rest (see `smbtorture.rs`): in a network of
//! its own, where port 445 is free, or with other parameters.
//!
//! It needs root, iproute2 and Debian's samba-testsuite. `SMBTORTURE_ALL=1` runs those that mostly
//! wait as well.

mod choro;

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use choro::Site;

const PASSWORD: &str = "Passw0rd";

/// A network with nothing but the loopback. It lives as long as the process in it, which ends when
/// its standard input is closed.
struct Network(Child);

impl Network {
    fn new() -> Option<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("util-linux is installed");
        let mut line = String::new();
        let stdout = holder.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it can be read");
        if line == "ready\n" {
            return Some(Self(holder));
        }
        progress("left out: this machine allows no network of its own");
        let _ = holder.wait();
        None
    }

    /// A command and its arguments that start others in it.
    fn launcher(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.0.id())]
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A line that is shown at once.
fn progress(line: &str) {
    // Nobody may be reading; the test goes on.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Runs tests against a server with these lines in `[global]`. All of them must pass.
#[track_caller]
fn check(global: &str, tests: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        return progress("left out: it needs root");
    }
    let Some(network) = Network::new() else { return };
    let mut site = Site::new();
    site.launch_with(&network.launcher());
    site.run_with_input(&["user", "add", "root", "--password-stdin"], PASSWORD).succeeds();
    let data = choro::text(&site.path("data"));
    // Three addresses, each fit for several channels.
    let addresses = "\"127.0.0.1;capability=RSS\" \"127.0.0.2;capability=RSS\" \
                     \"127.0.0.3;capability=RSS\"";
    site.write_config_with(
        &format!("smb ports = 445\ninterfaces = {addresses}\n{global}"),
        &format!("[data]\npath = {data}\nread only = no\n"),
    );
    let server = site.serve();
    let [program, argument] = network.launcher();
    let own = choro::text(&site.path("own"));
    for test in tests {
        let output = Command::new(&program)
            .args([argument.as_str(), "timeout", "200", "smbtorture", "//127.0.0.1/data"])
            .args(["-U", &format!("root%{PASSWORD}"), "--option=torture:progress=no"])
            .args(["lock", "state", "cache"].map(|kind| format!("--option={kind} directory={own}")))
            .args(["--target=samba3", "--option=torture:use_ioctl_block_smb2_transport=yes", test])
            .stdin(Stdio::null())
            .output()
            .expect("util-linux is installed");
        let said = String::from_utf8_lossy(&output.stdout);
        let name = test.rsplit('.').next().expect("names have parts");
        assert!(said.contains(&format!("success: {name}")), "{said}\n{}", server.log());
    }
    server.stop();
}

/// It connects to port 445 whatever port it is given.
#[test]
fn connections_that_come_all_at_once_become_channels_of_one_session() {
    check("", &["smb2.multichannel.bugs.bug_15346"]);
}

/// Samba passes them with this parameter only, too. They want what Windows does: a break of an oplock
/// is told once, on the newest channel.
#[test]
fn without_retry_oplocks_are_broken_as_by_windows() {
    if env::var("SMBTORTURE_ALL").unwrap_or_default().is_empty() {
        return progress("left out: it waits for two minutes, and SMBTORTURE_ALL is not set");
    }
    let global = "smbd:FSCTL_SMBTORTURE = yes\nsmb2 disable oplock break retry = yes\n";
    let tests = ["smb2.multichannel.oplocks.test2", "smb2.multichannel.oplocks.test3_windows"];
    check(global, &tests);
}
