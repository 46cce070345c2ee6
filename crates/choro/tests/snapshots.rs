//! Earlier versions of files: for Samba's smbtorture, whose tests need the names of snapshots that
//! are prepared here; for its smbclient; and beside its server.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::choro::Site;
use harness::samba::{SAMBA_USER, Samba};
use harness::smbclient::Smbclient;
use harness::{PASSWORD, Setup, TestServer, USER, give_to_server, runs_as_root};
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

/// Tokens of the snapshots of a file, as smbclient shows them.
#[track_caller]
fn versions(client: &Smbclient, file: &str) -> Vec<String> {
    let said = client.run("data", &[&format!("allinfo {file}")]).succeeds();
    said.lines().filter(|line| line.starts_with("@GMT-")).map(str::to_owned).collect()
}

/// The content of a file, as smbclient gets it.
#[track_caller]
fn content(client: &Smbclient, server: &TestServer, path: &str) -> String {
    client.run("data", &[&format!("get {path} got")]).succeeds();
    let got = server.client_folder("work").join("got");
    let content = fs::read_to_string(&got).expect("it was got");
    fs::remove_file(got).expect("it is ours");
    content
}

/// The token of a local time, as date(1) has it.
fn token_of_local(time: &str) -> String {
    let date = |arguments: &[&str]| {
        let output = Command::new("date").args(arguments).output().expect("every system has it");
        String::from_utf8(output.stdout).expect("a date").trim().to_owned()
    };
    let seconds = date(&["--date", time, "+@%s"]);
    date(&["--utc", "--date", &seconds, "+@GMT-%Y.%m.%d-%H.%M.%S"])
}

/// A file of the host, with the directories above it.
fn make(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("there is space");
    fs::write(path, content).expect("there is space");
}

#[test]
fn snapshots_with_names_of_tools_are_found() {
    let lines = "vfs objects = shadow_copy2\nshadow:auto = yes\nshadow:mountpoint = %FOLDER";
    let server = Setup::new().share("data", lines).start();
    let folder = server.share_path("data");
    let (first, second) = (token_of_local("2025-01-31 12:30"), token_of_local("2025-07-31 12:30"));
    make(&folder.join("sub/f"), "now");
    for (name, token) in [
        ("GMT-2020.01.01-00.00.00", None),
        ("@GMT-2021.01.01-00.00.00", Some("@GMT-2021.01.01-00.00.00")),
        ("zfs-auto-snap_daily-2022-01-31-1230", Some("@GMT-2022.01.31-12.30.00")),
        ("autosnap_2023-01-31_12:30:15_daily", Some("@GMT-2023.01.31-12.30.15")),
        ("zrepl_20240131_123015_000", Some("@GMT-2024.01.31-12.30.15")),
        ("auto-2025-01-31_12-30", Some(&first)),
        ("data.20250731T1230", Some(&second)),
        ("other.20250731T1231", None),
        ("before-upgrade", None),
    ] {
        make(&folder.join(".zfs/snapshot").join(name).join("sub/f"), token.unwrap_or("none"));
    }
    let client = server.client();
    let tokens = [
        &second,
        &first,
        "@GMT-2024.01.31-12.30.15",
        "@GMT-2023.01.31-12.30.15",
        "@GMT-2022.01.31-12.30.00",
        "@GMT-2021.01.01-00.00.00",
    ];
    assert_eq!(versions(&client, "sub/f"), tokens);
    for token in tokens {
        assert_eq!(content(&client, &server, &format!("{token}/sub/f")), token);
    }
    let listed = client.run("data", &[&format!("ls {}/sub/*", tokens[2])]).succeeds();
    assert!(listed.contains(" f "), "{listed}");
    let remove = format!("del {}/sub/f", tokens[2]);
    client.run("data", &[&remove]).fails("NT_STATUS_MEDIA_WRITE_PROTECTED");
    assert!(folder.join(".zfs/snapshot/zrepl_20240131_123015_000/sub/f").exists());
    server.stop();
}

#[test]
fn snapshots_of_snapper_are_found_and_each_user_sees_those_that_may_be_read() {
    let server =
        Setup::new().share("data", "vfs objects = shadow_copy2\nshadow:auto = yes").start();
    let folder = server.share_path("data");
    make(&folder.join("f"), "now");
    for (number, date) in [("1", "2024-01-31 12:30:15"), ("2", "2024-02-29 00:00:00")] {
        let directory = folder.join(".snapshots").join(number);
        make(&directory.join("snapshot/f"), number);
        make(&directory.join("info.xml"), &format!("<snapshot><date>{date}</date></snapshot>"));
        let mode = Permissions::from_mode(0o600);
        fs::set_permissions(directory.join("info.xml"), mode).expect("it is ours");
    }
    let client = server.client();
    let tokens = ["@GMT-2024.02.29-00.00.00", "@GMT-2024.01.31-12.30.15"];
    assert_eq!(versions(&client, "f"), tokens);
    assert_eq!(content(&client, &server, &format!("{}/f", tokens[1])), "1");
    if runs_as_root() {
        let mode = Permissions::from_mode(0o700);
        fs::set_permissions(folder.join(".snapshots/2/snapshot"), mode).expect("it is ours");
        assert_eq!(versions(&client, "f"), tokens[1..]);
        client.run("data", &[&format!("get {}/f got", tokens[0])]).fails("NT_STATUS_ACCESS_DENIED");
    }
    server.stop();
}

#[test]
fn a_folder_that_root_preexec_makes_has_previous_versions_at_once() {
    let lines = "path = %FOLDER/%U\nvfs objects = shadow_copy2\nshadow:snapdir = %FOLDER/snaps\n\
                 shadow:mountpoint = %FOLDER\nroot preexec = mkdir -p %P && touch %P/f";
    let server = Setup::new().share("data", lines).start();
    let folder = server.share_path("data");
    make(&folder.join("snaps").join(TOKEN).join(USER).join("f"), "then");
    assert!(!folder.join(USER).exists());
    assert_eq!(content(&server.client(), &server, &format!("{TOKEN}/f")), "then");
    assert!(folder.join(USER).join("f").exists());
    server.stop();
}

/// Samba's server needs root; without root there is nothing to compare.
#[test]
fn samba_lists_the_same_snapshots_with_the_same_lines() {
    if !runs_as_root() {
        return;
    }
    let prefix = "shadow:snapprefix = ^auto\\(snap\\)\\{0,1\\}$\nshadow:delimiter = _\n\
                  shadow:format = _%Y-%m-%d_%H:%M:%S\n";
    for (lines, files) in [
        ("shadow:snapdir = snaps\nshadow:sort = asc\n", ["f", "sub/f", "sub/deep/f"].as_slice()),
        (
            "shadow:snapdir = snaps\nshadow:snapdirseverywhere = yes\n",
            &["f", "sub/f", "sub/deep/f"],
        ),
        (&format!("shadow:snapdir = named\n{prefix}"), &["f"]),
        ("shadow:snapdir = seconds\nshadow:sscanf = yes\nshadow:format = at-%lu\n", &["f"]),
    ] {
        let mut lines = format!("vfs objects = shadow_copy2\nforce user = daemon\n{lines}");
        let setup = Setup::new();
        let folder = setup.path("shares/data");
        lines += &format!("shadow:mountpoint = {}\n", folder.display());
        let server = setup.share("data", &lines).start();
        for path in [
            "f",
            "sub/f",
            "sub/deep/f",
            "snaps/@GMT-2020.01.01-00.00.00/f",
            "snaps/@GMT-2020.01.01-00.00.00/sub/f",
            "snaps/@GMT-2020.01.01-00.00.00/sub/deep/f",
            "sub/snaps/@GMT-2021.01.01-00.00.00/f",
            "sub/snaps/@GMT-2021.01.01-00.00.00/deep/f",
            "sub/snaps/@GMT-2022.01.01-00.00.00/f",
            "sub/snaps/@GMT-2022.01.01-00.00.00/deep/f",
            "named/autosnap_2020-01-01_12:30:00_daily/f",
            "named/auto_2021-01-01_12:30:00/f",
            "named/autos_2022-01-01_12:30:00/f",
            "named/other/f",
            "seconds/at-1706704205/f",
        ] {
            make(&folder.join(path), path);
        }
        let samba = Samba::start_with(&server, "data", &lines);
        let choro = server.client();
        let port = samba.address().port();
        let other = server.client().port(port).user(SAMBA_USER, PASSWORD);
        for file in files {
            let found = versions(&choro, file);
            assert_eq!(found, versions(&other, file), "{lines} {file}");
            assert!(!found.is_empty(), "{lines} {file}");
            for token in found {
                let path = format!("{token}/{file}");
                let text = content(&choro, &server, &path);
                assert_eq!(text, content(&other, &server, &path), "{lines} {path}");
            }
        }
        drop(samba);
        server.stop();
    }
}

#[test]
fn an_option_that_is_not_understood_is_told() {
    let site = Site::new();
    site.write_config(
        "[data]\npath = /tmp\nvfs objects = shadow_copy2\nshadow:snapprefix = ^auto\n\
         shadow:delimiter = _\nshadow:snapdirseverywhere = yes\n\
         shadow:crossmountpoints = yes\nshadow:atuo = yes\n",
    );
    let said = site.run(&["check"]).error();
    let want = "unknown parameter `shadow:atuo`, did you mean `shadow:auto`?";
    assert!(said.contains(want), "{said}");
    assert_eq!(said.lines().filter(|it| it.contains("shadow:")).count(), 1, "{said}");
}
