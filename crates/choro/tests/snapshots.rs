//! Samba's smbtorture on earlier versions of files. Its tests need the names of snapshots that are
//! prepared here, so they are separate from the other ones.

mod harness;

use std::fs;
use std::process::{Command, Stdio};

use harness::{PASSWORD, Setup, TestServer, USER, give_to_server};
use rustix::fs::XattrFlags;

/// Token of the snapshot, in UTC.
const TOKEN: &str = "@GMT-2015.10.31-19.40.30";

/// A share with the file `foo`, and a snapshot of it in which `foo` has the stream `bar`.
fn server() -> TestServer {
    let setup = Setup::new();
    let snapshots = setup.path("snapshots");
    let lines = format!(
        "vfs objects = shadow_copy2\nshadow:snapdir = {}\nshadow:snapsharepath = data\n",
        snapshots.display(),
    );
    let server = setup.share("data", &lines).start();
    let folder = snapshots.join(TOKEN).join("data");
    fs::create_dir_all(&folder).expect("there is space");
    let (then, now) = (folder.join("foo"), server.share_path("data").join("foo"));
    for (path, text) in [(&then, "then"), (&now, "now")] {
        fs::write(path, text).expect("there is space");
        give_to_server(path);
    }
    // A stream as Samba keeps it: its bytes and one of zero.
    let flags = XattrFlags::empty();
    rustix::fs::setxattr(&then, "user.DosStream.bar:$DATA", b"abc\0", flags)
        .expect("the file system has extended attributes");
    server
}

#[test]
fn smbtorture_opens_reads_and_cannot_change_an_earlier_version() {
    let server = server();
    for test in ["openroot", "stream", "write"] {
        let output = Command::new("smbtorture")
            .arg("//127.0.0.1/data")
            .args(["-p", &server.port().to_string(), "-U", &format!("{USER}%{PASSWORD}")])
            .args(["--option=torture:twrp_file=foo", "--option=torture:twrp_stream=bar"])
            .arg("--option=torture:twrp_stream_size=3")
            .arg(format!("--option=torture:twrp_snapshot={TOKEN}"))
            .arg(format!("smb2.twrp.{test}"))
            .stdin(Stdio::null())
            .output()
            .expect("Debian's samba-testsuite is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("success: {test}")), "{test}: {text}");
    }
    server.stop();
}
