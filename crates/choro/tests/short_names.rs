//! Debian's smbclient on names that clients cannot use: `mangled names`.

mod harness;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use harness::{Setup, give_to_server};

/// Names as they are on disk, and what Debian's smbd 4.17 calls them.
const NAMES: [(&[u8], &str); 5] = [
    (b"a:b", "A4WTMA~A"),
    (b"back\\slash.c", "BAYTAM~F.C"),
    (b"trail.", "TZHRWN~N"),
    (b"Prn.a.b", "PQWPP9~W.B"),
    ("€:euro.x_y".as_bytes(), "_AS3GD~8.X_Y"),
];

/// A short name can be computed from the long one.
#[test]
fn a_vetoed_name_is_not_found_by_its_short_name_either() {
    let lines = "mangled names = yes\nveto files = /LongFile*/a?b/";
    let server = Setup::new().share("all", "mangled names = yes").share("vetoed", lines).start();
    for share in ["all", "vetoed"] {
        let folder = server.share_path(share);
        fs::create_dir(folder.join("longfilename.txt")).expect("there is space");
        fs::write(folder.join("longfilename.txt/within"), "").expect("there is space");
        fs::write(folder.join("a:b"), "").expect("there is space");
    }
    let client = server.client();
    let listed = client.run("all", &["ls"]).succeeds();
    assert!(listed.contains("  A4WTMA~A "), "{listed}");
    client.run("all", &["get LNHQX6~C.TXT\\within", "get A4WTMA~A"]).succeeds();

    let listed = client.run("vetoed", &["ls"]).succeeds();
    assert!(!listed.contains('~') && !listed.contains("longfile"), "{listed}");
    client.run("vetoed", &["get A4WTMA~A"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    client.run("vetoed", &["get LNHQX6~C.TXT\\within"]).fails("NT_STATUS_OBJECT_PATH_NOT_FOUND");
    server.stop();
}

#[test]
fn names_that_clients_cannot_use_go_by_those_of_samba() {
    let shares = Setup::new()
        .share("illegal", "")
        .share("yes", "mangled names = yes")
        .share("no", "mangled names = no");
    let server = shares.start();
    for share in ["illegal", "yes", "no"] {
        for (name, _) in NAMES {
            let path = server.share_path(share).join(OsStr::from_bytes(name));
            fs::write(&path, name).expect("the file system takes it");
            give_to_server(&path);
        }
        let path = server.share_path(share).join("longfilename.txt");
        fs::write(&path, "").expect("there is space");
        give_to_server(&path);
    }
    let client = server.client();
    for share in ["illegal", "yes"] {
        let listed = client.run(share, &["ls"]).succeeds();
        for (name, short) in NAMES {
            assert!(listed.contains(&format!("  {short} ")), "{short} in {share}:\n{listed}");
            let lower = short.to_lowercase();
            client.run(share, &[&format!("get {lower} back")]).succeeds();
            let back = server.client_folder("work").join("back");
            assert_eq!(fs::read(back).expect("it came"), name);
        }
        let output = client.run(share, &["altname longfilename.txt"]).succeeds();
        assert_eq!(output.trim(), "LNHQX6~C.TXT");
    }
    client.run("illegal", &["del A4WTMA~A", "rename TZHRWN~N usable"]).succeeds();
    let left = |name: &str| server.share_path("illegal").join(name).exists();
    assert!(!left("a:b") && !left("trail.") && left("usable"));
    let found = client.run("yes", &["ls lnhqx6~c.txt"]).succeeds();
    assert!(found.contains("longfilename.txt"), "{found}");

    let listed = client.run("no", &["ls"]).succeeds();
    assert!(listed.contains("trail.") && !listed.contains('~'), "{listed}");
    client.run("no", &["get A4WTMA~A back"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    server.stop();
}
