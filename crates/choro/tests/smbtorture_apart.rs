//! Tests of smbtorture that need another server than the rest (see `smbtorture.rs`): in a network
//! of their own, with a free port 445, or with other parameters.
//!
//! They need root, iproute2 and Debian's samba-testsuite. `SMBTORTURE_ALL=1` runs those that mostly
//! wait as well.

mod harness;

use std::env;

use harness::PASSWORD;
use harness::choro::text;
use harness::smbtorture::{progress, site_in_network};

/// Runs tests against a server with these lines in `[global]`. All of them must pass.
#[track_caller]
fn check(global: &str, tests: &[&str]) {
    let Some((network, site)) = site_in_network() else { return };
    let data = text(&site.path("data"));
    // Three addresses, each fit for several channels.
    let addresses = "\"127.0.0.1;capability=RSS\" \"127.0.0.2;capability=RSS\" \
                     \"127.0.0.3;capability=RSS\"";
    site.write_config_with(
        &format!("smb ports = 445\ninterfaces = {addresses}\n{global}"),
        &format!("[data]\npath = {data}\nread only = no\n"),
    );
    // Bursts of messages between workers are to fill their queues.
    let shorten = "echo 1 >/proc/sys/net/unix/max_dgram_qlen";
    let shortened = network.command("sh").args(["-c", shorten]).status();
    assert!(shortened.expect("there is a shell").success());
    let server = site.serve();
    let own = text(&site.path("own"));
    for test in tests {
        let output = network
            .command("timeout")
            .args(["200", "smbtorture", "//127.0.0.1/data"])
            .args(["-U", &format!("root%{PASSWORD}"), "--option=torture:progress=no"])
            .args(["lock", "state", "cache"].map(|kind| format!("--option={kind} directory={own}")))
            .args(["--target=samba3", "--option=torture:use_ioctl_block_smb2_transport=yes", test])
            .output()
            .expect("util-linux is installed");
        let printed = String::from_utf8_lossy(&output.stdout);
        let name = test.rsplit('.').next().expect("names have parts");
        assert!(printed.contains(&format!("success: {name}")), "{printed}\n{}", server.log());
    }
    server.stop();
}

/// It connects to port 445 whatever port it is given.
#[test]
fn connections_that_come_all_at_once_become_channels_of_one_session() {
    check("", &["smb2.multichannel.bugs.bug_15346"]);
}

/// Samba, too, passes them only with this parameter. They expect the behaviour of Windows: the
/// break of an oplock is sent once, on the newest channel.
#[test]
fn without_retry_oplocks_are_broken_as_by_windows() {
    if env::var("SMBTORTURE_ALL").unwrap_or_default().is_empty() {
        return progress("left out: it waits for two minutes, and SMBTORTURE_ALL is not set");
    }
    let global = "smbd:FSCTL_SMBTORTURE = yes\nsmb2 disable oplock break retry = yes\n";
    let tests = ["smb2.multichannel.oplocks.test2", "smb2.multichannel.oplocks.test3_windows"];
    check(global, &tests);
}

#[test]
fn sessions_of_a_server_that_requires_signing_are_signed() {
    check("server signing = required\n", &["smb2.session-require-signing.bug15397"]);
}

#[test]
fn watches_are_refused_where_change_notify_is_off() {
    check("change notify = no\n", &["smb2.change_notify_disabled.notfiy_disabled"]);
}
