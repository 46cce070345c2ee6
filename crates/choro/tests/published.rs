//! Configurations of the kinds that guides for Samba publish, taken over unchanged: the server is
//! started with each on a machine of its own, at the default places. Debian's smbclient and, in a
//! guest, the Linux kernel's client use its shares. `choro check` says in words what has no effect.
//!
//! The files in tests/published have parameters and values of such guides, and other words.
//!
//! It needs root, for a machine of its own.

mod harness;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use harness::choro::{built_executable, wait_until};
use harness::guest::{Guest, has_guest, tap_device};
use harness::namespace::Namespace;
use harness::{OTHER_USER, PASSWORD, USER, runs_as_root};
use rustix::process::{Pid, Signal, kill_process};

/// Files and users of the machine, for all configurations.
const SETUP: &str = r#"
    # A cable, whose other end goes to a network later.
    if [ "$3" != 0 ]; then
        ip link add dev lan0 type veth peer name lan1
        ip addr add "192.168.0.$3/24" dev lan0
        ip link set lan0 up
        ip link set lan1 up
    fi
    touch "$root/usr/bin/choro"
    mount --bind "$2" "$root/usr/bin/choro"
    mkdir -p "$root/etc/choro" "$root/etc/samba" "$root/var/log/samba"
    cp "$1"/* "$root/etc/samba/"
    mv "$root/etc/samba/choro.conf" "$root/etc/choro/smb.conf"
    {
        echo tester:x:61001:61001::/home/tester:/bin/sh
        echo tester2:x:61002:61002::/home/tester2:/bin/sh
        echo keeper:x:61003:61003::/nonexistent:/bin/false
    } >> "$root/etc/passwd"
    sed -i 's/^users:.*/users:x:100:tester/' "$root/etc/group"
    for group in tester:x:61001: tester2:x:61002: keepers:x:61003: auditors:x:61004:tester2; do
        echo "$group" >> "$root/etc/group"
    done
    # A dataset is a file system of its own.
    mkdir -p "$root/nas/family"
    mount -t tmpfs tmpfs "$root/nas/family"
    for folder in /home/tester /home/tester2 /nas/homes/tester /mnt/manuals /mnt/temp \
        /var/spool/samba /data/timemachine /opt/timemachine /nas/family /srv/files/share \
        /mnt/storage/films /srv/accounts /srv/drop /mount /share/public_files \
        /share/private_files; do
        mkdir -p "$root$folder"
        chown 61001:100 "$root$folder"
        chmod 2775 "$root$folder"
    done
    chown 61002:61002 "$root/home/tester2"
    chmod 0777 "$root/mnt/temp"
    chown -R 61003:61003 "$root/share"
    mkdir -p "$root/mnt/backup/snapshots/snapshot@2026.01.02-03.04.05"
    echo old > "$root/mnt/backup/snapshots/snapshot@2026.01.02-03.04.05/kept"
    mkdir -p "$root/nas/family/.zfs/snapshot/autosnap_2026-01-02_03:04:05"
    echo old > "$root/nas/family/.zfs/snapshot/autosnap_2026-01-02_03:04:05/kept""#;

/// A machine with a server that has one of the configurations.
struct Published {
    machine: Namespace,
    server: Child,
    _files: tempfile::TempDir,
}

impl Published {
    /// Starts the server with a configuration; further files are beside that of Samba.
    fn start(name: &str, files: &[(&str, &str)]) -> Option<Self> {
        runs_as_root().then(|| Self::start_at(0, name, files))
    }

    /// The same on a machine with this number in the network; 0 has no network but its own.
    fn start_at(number: u8, name: &str, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("there is space");
        let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/published");
        let copy = |from: &str, to: &str| {
            fs::copy(published.join(from), folder.path().join(to)).expect("it is in the tree");
        };
        copy(&format!("{name}.conf"), "choro.conf");
        if name == "included_shares" {
            copy("included_shares.shares.conf", "shares.conf");
        }
        for (file, text) in files {
            fs::write(folder.path().join(file), text).expect("there is space");
        }
        let executable = built_executable();
        let number = number.to_string();
        let arguments = [folder.path(), executable.as_path(), Path::new(&number)];
        let machine = Namespace::of_machine(SETUP, &arguments).expect("we are root");
        for user in [USER, OTHER_USER] {
            let added = with_input(
                machine.command("choro").args(["user", "add", user, "--password-stdin"]),
                &format!("{PASSWORD}\n"),
            );
            assert!(added.status.success(), "{}", text_of(&added));
        }
        let mut command = machine.command("choro");
        let server = command.arg("serve").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut published = Self { machine, server: server.expect("it is built"), _files: folder };
        published.wait();
        published
    }

    fn wait(&mut self) {
        let connect = r#"exec 3<> /dev/tcp/127.0.0.1/445"#;
        wait_until(
            || {
                if let Some(status) = self.server.try_wait().expect("it is ours") {
                    let check = self.machine.command("choro").arg("check").output();
                    panic!("{status}: {}", text_of(&check.expect("it starts")));
                }
                let command = self.machine.command("bash").args(["-c", connect]).output();
                command.expect("there is a bash").status.success()
            },
            || "nothing listens on port 445".to_owned(),
        );
    }

    /// Remarks of `choro check -v` on the configuration.
    fn remarks(&self) -> String {
        let output = self.machine.command("choro").args(["check", "-v"]).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", text_of(&output));
        String::from_utf8(output.stderr).expect("it is UTF-8")
    }

    #[track_caller]
    fn says(&self, words: &[&str]) {
        let remarks = self.remarks();
        for word in words {
            assert!(remarks.contains(word), "nothing about {word:?}: {remarks}");
        }
    }

    /// Runs commands of smbclient on a share; `None` is a guest.
    fn client(&self, user: Option<&str>, share: &str, commands: &str) -> (bool, String) {
        let mut client = self.machine.command("smbclient");
        client.args([
            "--configfile=/dev/null",
            "--option=netbios name=pc-1",
            "--command",
            commands,
        ]);
        match user {
            Some(user) => client.arg(format!("--user={user}%{PASSWORD}")),
            None => client.args(["--user=%", "--no-pass"]),
        };
        let output = client.arg(format!("//127.0.0.1/{share}")).current_dir("/").output();
        let output = output.expect("the package smbclient is installed");
        let text = text_of(&output);
        (output.status.success() && !text.contains("NT_STATUS_"), text)
    }

    #[track_caller]
    fn works(&self, user: Option<&str>, share: &str, commands: &str) -> String {
        let (success, text) = self.client(user, share, commands);
        assert!(success, "{user:?} in {share}: {commands}: {text}");
        text
    }

    #[track_caller]
    fn refuses(&self, user: Option<&str>, share: &str, commands: &str, status: &str) {
        let (success, text) = self.client(user, share, commands);
        assert!(!success && text.contains(status), "{user:?} in {share}: {commands}: {text}");
    }

    /// Runs a command of the machine, and returns its output.
    #[track_caller]
    fn output(&self, command: &[&str]) -> String {
        let output = self.machine.command(command[0]).args(&command[1..]).output();
        let output = output.expect("it is installed");
        assert!(output.status.success(), "{command:?}: {}", text_of(&output));
        String::from_utf8(output.stdout).expect("it is UTF-8").trim().to_owned()
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has noticed.
        let _ = kill_process(Pid::from_child(&self.server), Signal::TERM);
        let _ = self.server.wait();
    }
}

fn with_input(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is built");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text_of(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Commands that write a file, read it back, and remove it.
const USE: &str = "put /etc/hostname file; ls; get file /dev/null; del file";

const ANNA: Option<&str> = Some(USER);
const OTHER: Option<&str> = Some(OTHER_USER);

#[test]
fn a_home_server() {
    let Some(home) = Published::start("home", &[]) else { return };
    home.works(ANNA, "Home", USE);
    home.refuses(OTHER, "Home", "ls", "NT_STATUS_ACCESS_DENIED");
    home.works(ANNA, "Manuals", USE);
    home.refuses(OTHER, "Manuals", "put /etc/hostname file", "NT_STATUS_ACCESS_DENIED");
    home.works(None, "Temp", "put /etc/hostname file");
    assert_eq!(home.output(&["stat", "-c", "%a", "/mnt/temp/file"]), "777");
    home.says(&[
        "[printers] is ignored, printers are not served",
        "`socket options` has no effect",
    ]);
}

#[test]
fn the_example_of_a_distribution() {
    let Some(debian) = Published::start("debian", &[]) else { return };
    debian.works(ANNA, USER, "ls");
    debian.refuses(ANNA, USER, "put /etc/hostname file", "NT_STATUS_ACCESS_DENIED");
    debian.refuses(OTHER, USER, "ls", "NT_STATUS_ACCESS_DENIED");
    debian.says(&[
        "[printers] is ignored, printers are not served",
        "PAM is not asked",
        "`unix password sync` is accepted and has no effect",
    ]);
}

#[test]
fn backups_of_macs() {
    let Some(disk) = Published::start("time_machine", &[]) else { return };
    disk.works(ANNA, "timemachine", "put /etc/hostname file; mkdir bands");
    let modes =
        disk.output(&["stat", "-c", "%a", "/data/timemachine/file", "/data/timemachine/bands"]);
    assert_eq!(modes, "600\n2700");
    disk.refuses(OTHER, "timemachine", "ls", "NT_STATUS_ACCESS_DENIED");
    disk.says(&["`spotlight` is accepted and has no effect"]);
}

#[test]
fn an_image_for_backups_of_macs() {
    let Some(image) = Published::start("time_machine_image", &[]) else { return };
    image.works(ANNA, "TimeMachine", USE);
    image.refuses(OTHER, "TimeMachine", "ls", "NT_STATUS_ACCESS_DENIED");
    image.says(&["`unix password sync` is accepted and has no effect"]);
}

#[test]
fn snapshots_of_zfs() {
    let Some(zfs) = Published::start("zfs", &[]) else { return };
    zfs.works(ANNA, USER, USE);
    zfs.refuses(OTHER, USER, "ls", "NT_STATUS_ACCESS_DENIED");
    zfs.works(ANNA, "family", USE);
    let versions = zfs.works(ANNA, "family", "get \"@GMT-2026.01.02-03.04.05\\kept\" /dev/null");
    assert!(versions.contains("getting file"), "{versions}");
    zfs.refuses(OTHER, "family", "ls", "NT_STATUS_ACCESS_DENIED");
    zfs.says(&["PAM is not asked", "`map acl inherit` is accepted and has no effect"]);
}

#[test]
fn copies_of_a_script_as_previous_versions() {
    let Some(copies) = Published::start("snapshots", &[]) else { return };
    copies.works(ANNA, "share", USE);
    copies.works(ANNA, "share", "get \"@GMT-2026.01.02-03.04.05\\kept\" /dev/null");
    copies.says(&["`allow insecure wide links` is accepted and has no effect"]);
}

#[test]
fn films_with_a_recycle_bin() {
    let Some(media) = Published::start("media", &[]) else { return };
    media.works(
        ANNA,
        "films",
        "put /etc/hostname file; del file; put /etc/hostname a.mkv; del a.mkv",
    );
    assert_eq!(media.output(&["ls", "/mnt/storage/films/.bin"]), "file");
    media.works(None, "films", "ls");
    media.refuses(OTHER, "films", "get .DS_Store", "NT_STATUS_OBJECT_NAME_NOT_FOUND");
    media.says(&["`wins support` is accepted", "`strict allocate` has no effect yet"]);
}

/// Files beside the configuration of the office.
const OF_OFFICE: [(&str, &str); 3] = [
    ("smbusers", "tester = boss\n"),
    ("smb.conf.pc-1", "[machine]\npath = /srv/drop\n"),
    ("drop.conf.tester2", "read only = yes\n"),
];

#[test]
fn an_office_without_a_domain() {
    let Some(office) = Published::start("office", &OF_OFFICE) else { return };
    office.works(Some("boss"), "accounts", "put /etc/hostname file; ls");
    // `inherit permissions` outweighs the masks, as in Samba.
    assert_eq!(
        office.output(&["stat", "-c", "%U:%G %a", "/srv/accounts/file"]),
        "tester:users 664"
    );
    office.works(OTHER, "accounts", "ls");
    office.refuses(OTHER, "accounts", "mkdir refused", "NT_STATUS_ACCESS_DENIED");
    office.works(ANNA, "machine", "ls");
    office.works(ANNA, "drop", USE);
    office.refuses(OTHER, "drop", "mkdir refused", "NT_STATUS_ACCESS_DENIED");
    office.says(&[
        "/etc/samba/smb.conf.%m is read for each client when it connects a share; 1 such files",
        "`logon script` is accepted and has no effect",
        "`veto oplock files` has no effect yet",
    ]);
}

#[test]
fn an_image_with_modes_for_a_group() {
    let Some(image) = Published::start("container", &[]) else { return };
    image.works(ANNA, "Mount", "put /etc/hostname file; mkdir folder");
    let modes = image.output(&["stat", "-c", "%a", "/mount/file", "/mount/folder"]);
    assert_eq!(modes, "664\n2775");
    image.works(None, "Mount", "ls");
    image.refuses(ANNA, "Mount", "put /etc/hostname ._x", "NT_STATUS_OBJECT_NAME_NOT_FOUND");
    image.says(&["`server services` is accepted and has no effect"]);
}

#[test]
fn shares_in_another_file() {
    let Some(server) = Published::start("included_shares", &[]) else { return };
    server.works(None, "Public Files", "put /etc/hostname file");
    let file = server.output(&["stat", "-c", "%U:%G %a", "/share/public_files/file"]);
    assert_eq!(file, "keeper:keepers 664");
    server.works(None, "Protected Files", "ls");
    server.refuses(ANNA, "Protected Files", "mkdir x", "NT_STATUS_ACCESS_DENIED");
}

/// Shares for the kernel's client: configuration, share, user (`-` for a guest), access.
const MOUNTED: [(&str, &str, &str, &str); 12] = [
    ("home", "Home", USER, "rw"),
    ("home", "Temp", "-", "rw"),
    ("debian", USER, USER, "ro"),
    ("time_machine", "timemachine", USER, "rw"),
    ("time_machine_image", "TimeMachine", USER, "rw"),
    ("zfs", USER, USER, "rw"),
    ("zfs", "family", USER, "rw"),
    ("snapshots", "share", USER, "rw"),
    ("media", "films", USER, "rw"),
    ("office", "drop", USER, "rw"),
    ("container", "Mount", USER, "rw"),
    ("included_shares", "Public Files", "-", "rw"),
];

/// Seconds for all mounts together; a fast machine needs a tenth.
const LIMIT_SECONDS: u64 = 600;

/// Bridge between the guest and all machines.
const BRIDGE: &str = "
    ip link add dev lan type bridge
    ip link set lan up
    ip link set guest0 master lan";

#[test]
fn the_linux_kernel_uses_the_shares_of_all_configurations() {
    if !has_guest() {
        return;
    }
    let setup = format!("{}{BRIDGE}", tap_device(0));
    let network = Namespace::of_network(&setup).expect("root may make a network");
    let mut machines: Vec<(&str, u8, Published)> = Vec::new();
    let mut shares = String::new();
    for (name, share, user, access) in MOUNTED {
        if machines.last().is_none_or(|(last, ..)| *last != name) {
            let number = 10 + u8::try_from(machines.len()).expect("a few");
            let files: &[(&str, &str)] = if name == "office" { &OF_OFFICE } else { &[] };
            let published = Published::start_at(number, name, files);
            let (link, holder) = (format!("m{number}"), network.id().to_string());
            let move_end = ["ip", "link", "set", "dev", "lan1", "netns", &holder, "name", &link];
            assert_eq!(published.machine.run(&move_end), Ok(()), "{name}");
            let plug = ["ip", "link", "set", "dev", &link, "master", "lan", "up"];
            assert_eq!(network.run(&plug), Ok(()), "{name}");
            machines.push((name, number, published));
        }
        let (_, number, _) = machines.last().expect("one was just started");
        shares += &format!("192.168.0.{number}\t{share}\t{user}\t{access}\n");
    }
    let job = tempfile::tempdir().expect("there is space");
    fs::write(job.path().join("shares"), &shares).expect("there is space");
    let environment = format!("PASSWORD='{PASSWORD}'\n");
    let program = ("published.sh", LIMIT_SECONDS);
    let mut guest = Guest::boot((&network, 1), program, job.path(), &environment);
    let job = guest.wait(|_| ());
    let results = fs::read_to_string(job.join("stdout")).expect("the guest wrote it");
    let failed: Vec<&str> = results.lines().filter(|line| !line.ends_with("\tok")).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(results.lines().count(), MOUNTED.len(), "{results}");
}
