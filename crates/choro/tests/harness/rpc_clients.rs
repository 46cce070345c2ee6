//! Debian's clients of RPC pipes: `rpcclient`, `net rpc` and `sharesec`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::choro::text;
use super::{PASSWORD, TestServer, USER};

/// Seconds after which a client is ended.
const LIMIT: &str = "60";

/// Returns rpcclient's output of commands as [`USER`], whatever their result.
pub fn rpcclient(server: &TestServer, commands: &str) -> String {
    rpcclient_as(server, USER, commands)
}

/// Returns rpcclient's output of commands as another user, whatever their result.
pub fn rpcclient_as(server: &TestServer, user: &str, commands: &str) -> String {
    let arguments = ["127.0.0.1".to_owned(), format!("--command={commands}")];
    let (printed, _) = run(server, "rpcclient", user, &arguments);
    printed
}

/// Returns the output of `net rpc` as this user, and whether it says that it succeeded.
pub fn net_rpc(server: &TestServer, user: &str, arguments: &[&str]) -> (String, bool) {
    let words = ["rpc", "--server=127.0.0.1"].into_iter().chain(arguments.iter().copied());
    run(server, "net", user, &words.map(str::to_owned).collect::<Vec<_>>())
}

/// Returns the output of Samba's `sharesec` on the descriptors of a server, and whether it says
/// that it succeeded.
pub fn sharesec(server: &TestServer, share: &str, arguments: &[&str]) -> (String, bool) {
    let state = server.site().path("state");
    let config = server.client_folder("sharesec").join("smb.conf");
    let section = format!("[{share}]\npath = {}\n", text(&server.share_path(share)));
    write_config(&config, &state, &section);
    let output = Command::new("sharesec")
        .arg(format!("--configfile={}", config.display()))
        .arg(share)
        .args(arguments)
        .output();
    finished(&output.expect("Debian's samba is installed"))
}

fn run(server: &TestServer, program: &str, user: &str, arguments: &[String]) -> (String, bool) {
    let own = server.client_folder(program);
    let config = own.join("smb.conf");
    write_config(&config, &own, "");
    let output = Command::new("timeout")
        .args([LIMIT, program])
        .args(arguments)
        .arg(format!("--configfile={}", config.display()))
        .arg(format!("--port={}", server.port()))
        .arg(format!("--user={user}%{PASSWORD}"))
        .env("LC_ALL", "C.UTF-8")
        .output();
    finished(&output.expect("Debian's samba-common-bin is installed"))
}

fn finished(output: &Output) -> (String, bool) {
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
    (printed, output.status.success())
}

/// Writes the client's configuration, with its files in `folder`.
fn write_config(config: &Path, folder: &Path, sections: &str) {
    let state = ["lock directory", "state directory", "cache directory", "private dir"]
        .map(|name| format!("{name} = {}\n", folder.display()));
    let content = format!("[global]\n{}{sections}", state.concat());
    fs::write(config, content).expect("there is space");
}
