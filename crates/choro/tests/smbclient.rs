//! Debian's smbclient against the real server: what people do with a share.

mod harness;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use harness::content::{assert_same_file, assert_same_tree, write_file};
use harness::smbclient::{DIALECTS, Protection};
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, USER, give_to_server};

/// Enough for several messages of every dialect, and no multiple of a block.
const FEW_MEBIBYTES: u64 = (5 << 20) + 12_345;

const GIBIBYTE: u64 = 1 << 30;

/// For tests that move gigabytes or ten thousands of files, on a slow machine without optimization.
const LONG: Duration = Duration::from_secs(300);

/// Empty files with these names.
fn touch(folder: &Path, names: impl IntoIterator<Item = impl AsRef<str>>) {
    for name in names {
        let path = folder.join(name.as_ref());
        fs::write(&path, "").expect("there is space");
        give_to_server(&path);
    }
}

/// The names below a folder of the machine.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("it exists");
    entries
        .map(|entry| entry.expect("it can be listed").file_name().into_string().expect("UTF-8"))
        .collect()
}

/// Names in the output of smbclient's `ls`; they have no spaces in these tests.
fn listed_names(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("  "));
    lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

fn names_of<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

// Data.

#[test]
fn a_file_goes_there_and_back_in_every_dialect_and_protection() {
    let server = TestServer::start();
    let folder = server.client_folder("work");
    write_file(&folder.join("source"), FEW_MEBIBYTES, 1);
    write_file(&folder.join("empty"), 0, 1);
    write_file(&folder.join("byte"), 1, 1);
    for dialect in DIALECTS {
        for protection in Protection::of_dialect(dialect) {
            let client = server.client().dialect(dialect).protection(*protection);
            for source in ["source", "empty", "byte"] {
                let put = format!("put {source} there");
                client.run("data", &[&put, "get there back"]).succeeds();
                assert_same_file(&folder.join(source), &server.share_path("data").join("there"));
                assert_same_file(&folder.join(source), &folder.join("back"));
            }
        }
    }
    server.stop();
}

#[test]
fn every_signing_algorithm_and_cipher_carries_data() {
    let server = TestServer::start();
    let folder = server.client_folder("work");
    write_file(&folder.join("source"), FEW_MEBIBYTES, 2);
    let signed = ["AES-128-GMAC", "AES-128-CMAC", "HMAC-SHA256"]
        .map(|name| ("client smb3 signing algorithms", name, Protection::Signed));
    let sealed = ["AES-128-GCM", "AES-128-CCM", "AES-256-GCM", "AES-256-CCM"]
        .map(|name| ("client smb3 encryption algorithms", name, Protection::Sealed));
    for (parameter, algorithm, protection) in signed.into_iter().chain(sealed) {
        let option = format!("{parameter}={algorithm}");
        let client = server.client().dialect("SMB3_11").protection(protection).option(&option);
        client.run("data", &["put source there", "get there back"]).succeeds();
        assert_same_file(&folder.join("source"), &server.share_path("data").join("there"));
        assert_same_file(&folder.join("source"), &folder.join("back"));
    }
    server.stop();
}

#[test]
fn a_gibibyte_goes_there_and_back_plain_signed_and_sealed() {
    let server = TestServer::start();
    let folder = server.client_folder("work");
    write_file(&folder.join("source"), GIBIBYTE, 3);
    for protection in [Protection::Plain, Protection::Signed, Protection::Sealed] {
        let client = server.client().protection(protection).limit(LONG);
        let there = server.share_path("data").join("there");
        client.run("data", &["put source there"]).succeeds();
        assert_same_file(&folder.join("source"), &there);
        client.run("data", &["get there back"]).succeeds();
        assert_same_file(&folder.join("source"), &folder.join("back"));
        fs::remove_file(&there).expect("it is there");
    }
    server.stop();
}

#[test]
fn a_broken_off_download_can_be_continued() {
    let server = TestServer::start();
    let folder = server.client_folder("work");
    let there = server.share_path("data").join("there");
    write_file(&there, FEW_MEBIBYTES, 4);
    give_to_server(&there);
    write_file(&folder.join("back"), FEW_MEBIBYTES / 5, 4);
    server.client().run("data", &["reget there back"]).succeeds();
    assert_same_file(&there, &folder.join("back"));
    server.stop();
}

#[test]
fn the_server_copies_a_file_by_itself() {
    let server = TestServer::start();
    let folder = server.share_path("data");
    write_file(&folder.join("one"), 3 * FEW_MEBIBYTES, 5);
    give_to_server(&folder.join("one"));
    server.client().run("data", &["scopy one two"]).succeeds();
    assert_same_file(&folder.join("one"), &folder.join("two"));
    server.stop();
}

#[test]
fn a_stream_has_bytes_of_its_own() {
    let server = TestServer::start();
    let folder = server.client_folder("work");
    write_file(&folder.join("main"), 1_000, 6);
    write_file(&folder.join("side"), 2_000, 7);
    let commands = ["put main f", "put side f:side", "get f main2", "get f:side side2"];
    server.client().run("data", &commands).succeeds();
    assert_same_file(&folder.join("main"), &folder.join("main2"));
    assert_same_file(&folder.join("side"), &folder.join("side2"));
    let text = server.client().run("data", &["allinfo f"]).succeeds();
    assert!(text.contains("[:side:$DATA], 2000 bytes"), "{text}");
    assert!(text.contains("[::$DATA], 1000 bytes"), "{text}");
    assert_eq!(names(&server.share_path("data")), names_of(["f"]));
    server.stop();
}

#[test]
fn clients_at_the_same_time_do_not_mix_their_data() {
    let server = TestServer::start();
    let folders: Vec<_> = (0..8).map(|index| server.client_folder(&format!("c{index}"))).collect();
    thread::scope(|scope| {
        for (index, folder) in folders.iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let seed = 100 + u64::try_from(index).expect("it is small");
                write_file(&folder.join("source"), FEW_MEBIBYTES, seed);
                let put = format!("put source f{index}");
                let get = format!("get f{index} back");
                let protections = Protection::of_dialect("SMB3_11");
                let client = server.client().protection(protections[index % protections.len()]);
                client.folder(folder.clone()).run("data", &[&put, &get]).succeeds();
                assert_same_file(&folder.join("source"), &folder.join("back"));
            });
        }
    });
    server.stop();
}

// Many files.

#[test]
fn ten_thousand_files_in_a_hundred_folders_go_there_and_back() {
    let server = TestServer::start();
    let tree = server.client_folder("work").join("tree");
    for folder in 0..100 {
        let folder_path = tree.join(format!("d{folder}"));
        fs::create_dir_all(&folder_path).expect("there is space");
        for file in 0..100 {
            let seed = folder * 100 + file;
            write_file(&folder_path.join(format!("f{file}")), seed % 3_000, seed);
        }
    }
    let client = server.client().limit(LONG);
    client.run("data", &["prompt", "recurse", "mput tree"]).succeeds();
    assert_same_tree(&tree, &server.share_path("data").join("tree"));
    let back = server.client_folder("back");
    client.folder(back.clone()).run("data", &["prompt", "recurse", "mget tree"]).succeeds();
    assert_same_tree(&tree, &back.join("tree"));
    server.stop();
}

#[test]
fn a_listing_of_fifty_thousand_entries_is_complete() {
    let server = TestServer::start();
    let wanted: Vec<String> = (0..50_000).map(|index| format!("entry-{index:05}.txt")).collect();
    touch(&server.share_path("data"), &wanted);
    for dialect in ["SMB2_02", "SMB3_11"] {
        let client = server.client().dialect(dialect).limit(LONG);
        let text = client.run("data", &["ls"]).succeeds();
        let mut listed = listed_names(&text);
        listed.retain(|name| name.starts_with("entry-"));
        listed.sort_unstable();
        assert!(listed == wanted, "{} of {} are listed", listed.len(), wanted.len());
    }
    let text = server.client().limit(LONG).run("data", &["ls *99.txt"]).succeeds();
    assert_eq!(listed_names(&text).iter().filter(|name| name.ends_with("99.txt")).count(), 500);
    server.stop();
}

// Names and attributes.

#[test]
fn files_are_renamed_replaced_and_deleted() {
    let server = TestServer::start();
    let share = server.share_path("data");
    touch(&share, ["a", "b", "c", "x1.tmp", "x2.tmp", "keep.txt"]);
    fs::write(share.join("a"), "from a").expect("it is ours");
    server.client().run("data", &["rename a d", "rm b", "del x*.tmp"]).succeeds();
    assert_eq!(names(&share), names_of(["c", "d", "keep.txt"]));
    let commands = ["rename d c"];
    server.client().run("data", &commands).fails("NT_STATUS_OBJECT_NAME_COLLISION");
    server.client().run("data", &["rename d c -f"]).succeeds();
    assert_eq!(fs::read(share.join("c")).expect("it is there"), b"from a");
    server.client().run("data", &["rm nothing"]).fails("NT_STATUS_NO_SUCH_FILE");
    server.client().run("data", &["rename nothing n"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    server.client().run("data", &["get nothing"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    server.client().run("data", &["get no/thing"]).fails("NT_STATUS_OBJECT_PATH_NOT_FOUND");
    server.stop();
}

#[test]
fn folders_are_made_renamed_and_removed() {
    let server = TestServer::start();
    let share = server.share_path("data");
    server.client().run("data", &["mkdir d", "mkdir d/e", "rename d f"]).succeeds();
    assert!(share.join("f/e").is_dir());
    server.client().run("data", &["mkdir f"]).fails("NT_STATUS_OBJECT_NAME_COLLISION");
    server.client().run("data", &["rmdir f"]).fails("NT_STATUS_DIRECTORY_NOT_EMPTY");
    server.client().run("data", &["rmdir f/e", "rmdir f"]).succeeds();
    assert_eq!(names(&share), BTreeSet::new());
    fs::create_dir_all(share.join("t/u/v")).expect("there is space");
    for folder in ["t", "t/u", "t/u/v"] {
        give_to_server(&share.join(folder));
        touch(&share.join(folder), ["one", "two"]);
    }
    server.client().run("data", &["deltree t"]).succeeds();
    assert_eq!(names(&share), BTreeSet::new());
    server.stop();
}

#[test]
fn a_hard_link_is_the_same_file() {
    let server = TestServer::start();
    let share = server.share_path("data");
    touch(&share, ["a"]);
    server.client().run("data", &["hardlink a b"]).succeeds();
    fs::write(share.join("a"), "both").expect("it is ours");
    assert_eq!(fs::read(share.join("b")).expect("it is there"), b"both");
    server.client().run("data", &["hardlink a b"]).fails("NT_STATUS_OBJECT_NAME_COLLISION");
    server.stop();
}

#[test]
fn names_beyond_ascii_are_found_in_any_case_and_keep_their_case() {
    let server = TestServer::start();
    let share = server.share_path("data");
    let folder = server.client_folder("work");
    fs::write(folder.join("source"), "naïve").expect("there is space");
    let commands = ["mkdir Straße", "put source Straße/Ünïcödé-Ωμέγα-日本語.txt"];
    server.client().run("data", &commands).succeeds();
    assert_eq!(names(&share), names_of(["Straße"]));
    assert_eq!(names(&share.join("Straße")), names_of(["Ünïcödé-Ωμέγα-日本語.txt"]));
    let get = ["get STRAßE/ÜNÏCÖDÉ-ωΜΈΓΑ-日本語.TXT back"];
    server.client().run("data", &get).succeeds();
    assert_same_file(&folder.join("source"), &folder.join("back"));
    // A name that differs in case only is the same file, and renaming to it changes the case.
    touch(&share, ["ReadMe"]);
    server.client().run("data", &["put source README"]).succeeds();
    assert_eq!(names(&share), names_of(["ReadMe", "Straße"]));
    server.client().run("data", &["rename readme README"]).succeeds();
    assert_eq!(names(&share), names_of(["README", "Straße"]));
    server.stop();
}

#[test]
fn a_case_sensitive_share_tells_names_apart() {
    let server = Setup::new().share("data", "case sensitive = yes").start();
    let share = server.share_path("data");
    let folder = server.client_folder("work");
    fs::write(folder.join("source"), "1").expect("there is space");
    server.client().run("data", &["put source Name", "put source NAME"]).succeeds();
    assert_eq!(names(&share), names_of(["NAME", "Name"]));
    server.client().run("data", &["get name"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    server.stop();
}

#[test]
fn names_are_vetoed_in_any_case_unless_the_share_is_case_sensitive() {
    let veto = "veto files = /Secret*/";
    let sensitive = format!("case sensitive = yes\n{veto}");
    let server = Setup::new().share("data", veto).share("sensitive", &sensitive).start();
    for share in ["data", "sensitive"] {
        touch(&server.share_path(share), ["Secret.a", "secret.b"]);
        let client = server.client();
        let listed = client.run(share, &["ls"]).succeeds();
        assert_eq!(listed.contains("secret.b"), share == "sensitive", "{listed}");
        assert!(!listed.contains("Secret.a"), "{listed}");
        client.run(share, &["get Secret.a"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    }
    server.client().run("sensitive", &["get secret.b"]).succeeds();
    server.client().run("data", &["get secret.b"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    server.stop();
}

#[test]
fn a_folder_is_deleted_with_its_vetoed_files_if_the_share_permits_it() {
    let veto = "veto files = /.DS_Store/._*/";
    let deleted = format!("{veto}\ndelete veto files = yes");
    let server = Setup::new().share("kept", veto).share("deleted", &deleted).start();
    for share in ["kept", "deleted"] {
        server.client().run(share, &["mkdir folder"]).succeeds();
        touch(&server.share_path(share).join("folder"), [".DS_Store", "._resource"]);
    }
    let removed = server.client().run("kept", &["rmdir folder"]).text();
    assert!(removed.contains("NT_STATUS_DIRECTORY_NOT_EMPTY"), "{removed}");
    server.client().run("deleted", &["rmdir folder"]).succeeds();
    assert!(server.share_path("kept").join("folder/.DS_Store").exists());
    assert!(!server.share_path("deleted").join("folder").exists());
    server.stop();
}

#[test]
fn nothing_outside_the_share_can_be_reached() {
    let server = TestServer::start();
    let share = server.share_path("data");
    std::os::unix::fs::symlink("/etc", share.join("link")).expect("there is space");
    std::os::unix::fs::symlink("/etc/passwd", share.join("passwd")).expect("there is space");
    for name in ["link/passwd", "passwd", "../../smb.conf"] {
        let text = server.client().run("data", &[&format!("get {name} stolen")]).text();
        assert!(text.contains("NT_STATUS_"), "{name}: {text}");
        assert!(!server.client_folder("work").join("stolen").exists(), "{name}");
    }
    server.stop();
}

#[test]
fn earlier_versions_are_listed_and_read_and_not_written() {
    let setup = Setup::new();
    let snapshots = setup.path("snapshots");
    let lines = format!(
        "vfs objects = shadow_copy2\nshadow:snapdir = {}\nshadow:basedir = {}\n\
         shadow:format = at-%Y%m%d-%H%M%S\n",
        snapshots.display(),
        setup.path("shares").display(),
    );
    let server = setup.share("data", &lines).start();
    let share = server.share_path("data");
    let tokens = [
        ("@GMT-2020.02.29-01.02.03", "at-20200229-010203"),
        ("@GMT-2021.12.31-23.59.59", "at-20211231-235959"),
    ];
    for (token, name) in tokens {
        let folder = snapshots.join(name).join("data/sub");
        fs::create_dir_all(&folder).expect("there is space");
        fs::write(folder.join("f"), token).expect("there is space");
    }
    fs::create_dir(share.join("sub")).expect("there is space");
    fs::write(share.join("sub/f"), "now").expect("there is space");
    give_to_server(&share.join("sub"));
    give_to_server(&share.join("sub/f"));

    let folder = server.client_folder("work");
    let text = server.client().run("data", &["allinfo sub\\f"]).succeeds();
    let positions = tokens.map(|(token, _)| text.find(token).expect("each is listed"));
    assert!(positions[1] < positions[0], "the newest first: {text}");
    for (token, _) in tokens {
        let get = format!("get {token}\\sub\\f then");
        server.client().run("data", &[&get]).succeeds();
        assert_eq!(fs::read_to_string(folder.join("then")).expect("it came"), token);
        let text = server.client().run("data", &[&format!("ls {token}\\sub\\*")]).succeeds();
        assert_eq!(listed_names(&text), [".", "..", "f"]);
        for refused in [format!("put then {token}\\sub\\f"), format!("put then {token}\\new")] {
            server.client().run("data", &[&refused]).fails("NT_STATUS_MEDIA_WRITE_PROTECTED");
        }
        server.client().run("data", &[&format!("rm {token}\\sub\\f")]).text();
    }
    server
        .client()
        .run("data", &["get @GMT-2021.12.31-23.59.58\\sub\\f never"])
        .fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    for (token, name) in tokens {
        let kept = fs::read_to_string(snapshots.join(name).join("data/sub/f"));
        assert_eq!(kept.expect("it is there still"), token);
    }
    assert_eq!(fs::read_to_string(share.join("sub/f")).expect("it is there still"), "now");
    server.stop();
}

#[test]
fn attributes_and_times_are_kept() {
    let server = TestServer::start();
    let folder = server.client_folder("work");
    write_file(&folder.join("source"), 4_321, 8);
    let set = ["put source f", "setmode f +rhs", "allinfo f"];
    let text = server.client().run("data", &set).succeeds();
    assert!(text.contains("attributes: RHSA (27)"), "{text}");
    server.client().run("data", &["rm f"]).fails("NT_STATUS_CANNOT_DELETE");
    let clear = [
        "setmode f -rhs",
        "utimes f 2001:02:03-04:05:06 2002:02:03-04:05:06 2003:02:03-04:05:06 -1",
        "allinfo f",
    ];
    let text = server.client().run("data", &clear).succeeds();
    assert!(text.contains("attributes: A (20)"), "{text}");
    for year in ["2001", "2002", "2003"] {
        assert!(text.contains(&format!("{year} ")), "{text}");
    }
    server.client().run("data", &["rm f"]).succeeds();
    server.stop();
}

#[test]
fn the_volume_its_size_and_the_use_of_it_are_reported() {
    let server = Setup::new().share("data", "volume = Works").start();
    let share = server.share_path("data");
    fs::write(share.join("f"), vec![1; 100_000]).expect("there is space");
    let text = server.client().run("data", &["volume", "du", "ls"]).succeeds();
    assert!(text.contains("|Works|"), "{text}");
    assert!(text.contains("Total number of bytes: 100000"), "{text}");
    assert!(text.contains("blocks of size"), "{text}");
    server.stop();
}

// Shares, users and what the server demands.

#[test]
fn shares_are_listed_except_the_hidden_ones() {
    let server = Setup::new()
        .share("data", "comment = All of it")
        .share("hidden", "browseable = no")
        .start();
    for dialect in DIALECTS {
        for protection in Protection::of_dialect(dialect) {
            let client = server.client().dialect(dialect).protection(*protection);
            let text = client.list_shares().succeeds();
            assert!(text.contains("Disk|data|All of it"), "{text}");
            assert!(text.contains("IPC|IPC$|"), "{text}");
            assert!(!text.contains("hidden"), "{text}");
        }
    }
    server.client().run("hidden", &["ls"]).succeeds();
    server.stop();
}

#[test]
fn a_wrong_password_user_or_share_is_refused() {
    let server = TestServer::start();
    server.client().user(USER, "wrong").run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    server.client().user("nobody2", "x").run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    server.client().run("nothing", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    server.client().anonymous().run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.stop();
}

#[test]
fn guests_reach_guest_shares_only() {
    let server = Setup::new()
        .global("map to guest = bad user")
        .share("open", "guest ok = yes")
        .share("data", "")
        .start();
    touch(&server.share_path("open"), ["public"]);
    let stranger = server.client().user("stranger", "anything");
    let text = stranger.run("open", &["ls"]).succeeds();
    assert!(text.contains("public"), "{text}");
    stranger.run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().anonymous().run("open", &["ls"]).succeeds();
    server.client().user(USER, "wrong").run("open", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    server.stop();
}

#[test]
fn a_read_only_share_is_for_reading_except_for_its_writers() {
    let server = Setup::new()
        .share("data", &format!("read only = yes\nwrite list = {OTHER_USER}"))
        .share("other", &format!("read list = {OTHER_USER}"))
        .start();
    let folder = server.client_folder("work");
    write_file(&folder.join("source"), 10, 9);
    touch(&server.share_path("data"), ["f"]);
    let other = server.client().user(OTHER_USER, PASSWORD);
    server.client().run("data", &["get f g"]).succeeds();
    for command in ["put source f", "put source new", "mkdir d", "rm f", "rename f g"] {
        let text = server.client().run("data", &[command]).text();
        let refused = text.contains("NT_STATUS_MEDIA_WRITE_PROTECTED")
            || text.contains("NT_STATUS_ACCESS_DENIED");
        assert!(refused, "{command}: {text}");
    }
    assert_eq!(names(&server.share_path("data")), names_of(["f"]));
    other.run("data", &["put source new", "rm new"]).succeeds();
    server.client().run("other", &["put source new"]).succeeds();
    let text = other.run("other", &["rm new"]).text();
    assert!(text.contains("NT_STATUS_"), "{text}");
    assert_eq!(names(&server.share_path("other")), names_of(["new"]));
    server.stop();
}

#[test]
fn users_and_hosts_are_let_in_by_the_lists() {
    let server = Setup::new()
        .share("valid", &format!("valid users = {OTHER_USER}"))
        .share("invalid", &format!("invalid users = {OTHER_USER}"))
        .share(OTHER_USER, "valid users = %S")
        .share("nobody", "invalid users = %U")
        .share("elsewhere", "hosts deny = 127.0.0.0/8")
        .share("here", "hosts allow = 127.0.0.1\nhosts deny = ALL")
        .start();
    let other = server.client().user(OTHER_USER, PASSWORD);
    other.run("valid", &["ls"]).succeeds();
    server.client().run("valid", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    other.run("invalid", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("invalid", &["ls"]).succeeds();
    other.run(OTHER_USER, &["ls"]).succeeds();
    server.client().run(OTHER_USER, &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    other.run("nobody", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("elsewhere", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("here", &["ls"]).succeeds();
    server.stop();
}

#[test]
fn max_connections_bounds_those_at_the_same_time() {
    let server = Setup::new().share("data", "max connections = 1").start();
    let first = server.client().stay("data");
    server.client().run("data", &["ls"]).fails("NT_STATUS_REQUEST_NOT_ACCEPTED");
    drop(first);
    // One after the other they are welcome.
    for _ in 0..3 {
        server.client().run("data", &["ls"]).succeeds();
    }
    server.stop();
}

#[test]
fn a_server_that_demands_signing_or_encryption_refuses_those_without() {
    let signing = Setup::new().global("server signing = mandatory").share("data", "").start();
    for dialect in DIALECTS {
        signing.client().dialect(dialect).run("data", &["ls"]).succeeds();
    }
    signing.stop();

    let sealing = Setup::new().global("server smb encrypt = required").share("data", "").start();
    for (dialect, outcome) in [("SMB2_10", false), ("SMB3_00", true), ("SMB3_11", true)] {
        let client = sealing.client().dialect(dialect).protection(Protection::Plain);
        let result = client.run("data", &["ls"]);
        if outcome {
            result.succeeds();
        } else {
            result.fails("NT_STATUS_ACCESS_DENIED");
        }
    }
    sealing.stop();

    let share =
        Setup::new().share("secret", "server smb encrypt = required").share("data", "").start();
    share.client().dialect("SMB2_10").run("data", &["ls"]).succeeds();
    share.client().dialect("SMB2_10").run("secret", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    share.client().dialect("SMB3_00").run("secret", &["ls"]).succeeds();
    share.client().dialect("SMB3_11").run("secret", &["ls"]).succeeds();
    share.stop();
}

#[test]
fn only_the_dialects_of_the_configuration_are_spoken() {
    let server = Setup::new()
        .global("server min protocol = SMB2_10\nserver max protocol = SMB3_00")
        .share("data", "")
        .start();
    for dialect in DIALECTS {
        let result = server.client().dialect(dialect).run("data", &["ls"]);
        if ["SMB2_10", "SMB3_00"].contains(&dialect) {
            result.succeeds();
        } else {
            result.fails("NT_STATUS_NOT_SUPPORTED");
        }
    }
    // A client that offers all of them gets the highest one of the range.
    server.client().run("data", &["ls"]).succeeds();
    server.stop();
}

#[test]
fn the_negotiation_of_smb1_leads_into_smb2() {
    let server = TestServer::start();
    let client = server.client().option("client min protocol=NT1");
    for dialect in ["SMB2_02", "SMB2_10", "SMB3_11"] {
        client
            .clone()
            .argument(&format!("--max-protocol={dialect}"))
            .run("data", &["ls"])
            .succeeds();
    }
    server.stop();
}

#[test]
fn status_lists_users_and_their_connections() {
    let server = TestServer::start();
    let status = |protection, dialect| {
        let _client = server.client().dialect(dialect).protection(protection).stay("data");
        server.site().run(&["status", "--json"]).succeeds()
    };
    let sealed = status(Protection::Sealed, "SMB3_11");
    for word in [USER, "data", "127.0.0.1", "3.1.1", "AES-128-GCM"] {
        assert!(sealed.contains(word), "no {word}: {sealed}");
    }
    let signed = status(Protection::Signed, "SMB2_10");
    for word in [USER, "2.1", "HMAC-SHA256"] {
        assert!(signed.contains(word), "no {word}: {signed}");
    }
    server.stop();
}
