//! A member that moves from Samba's smbd to this server, with its smb.conf as it is, and back.

use crate::{Lab, await_true, choro, shown, text};
use std::fs;
use std::process::{Child, Command, Output, Stdio};

/// A server that is started by the configuration of both, and ended by its file of the pid.
struct Running<'a> {
    lab: &'a Lab,
    pid_file: &'static str,
    starter: Child,
}

impl<'a> Running<'a> {
    fn start(lab: &'a Lab, pid_file: &'static str, command: &[&str]) -> Self {
        let _ = fs::remove_file(lab.path(pid_file));
        let mut starter = lab.script(&[&["run", "mb"], command].concat());
        starter.stdout(Stdio::null()).stderr(Stdio::null());
        let starter = starter.spawn().expect("bash is installed");
        await_true("a port", || {
            let probe = lab.run("mb", "ss -Hltn 'sport = :445'");
            !text(&probe).is_empty() && pid(lab, pid_file).is_some()
        });
        Self { lab, pid_file, starter }
    }

    fn smbd(lab: &'a Lab) -> Self {
        let conf = "--configfile=/srv/move.conf";
        // It ends its whole process group with itself.
        let command = ["setsid", "-w", "smbd", "-F", "--no-process-group", conf];
        Self::start(lab, "srv/mb/run/smbd.pid", &command)
    }

    fn choro(lab: &'a Lab) -> Self {
        let choro = choro();
        Self::start(lab, "srv/mb/run/choro.pid", &[&choro, "serve", "--config", "/srv/move.conf"])
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(pid) = pid(self.lab, self.pid_file) {
            let _ = Command::new("kill").arg(pid.to_string()).status();
            let _ = self.starter.wait();
        }
    }
}

/// The pid in a file; none while it is being written, since 0 would be a whole group.
fn pid(lab: &Lab, file: &str) -> Option<u32> {
    let text = fs::read_to_string(lab.path(file)).ok()?;
    text.trim_matches(|it: char| it.is_whitespace() || it == '\0')
        .parse()
        .ok()
        .filter(|pid| *pid > 1)
}

fn run(lab: &Lab, user: &str, commands: &str) -> Output {
    let options = format!(r"smbclient -U ADLAB\\{user}%Passw0rd-{user} --use-kerberos=off");
    lab.smbclient(&options, commands)
}

fn descriptor(lab: &Lab, path: &str, rest: &str) -> String {
    let options = format!("{path} -U ADLAB\\\\alice%Passw0rd-alice --use-kerberos=off {rest}");
    text(&lab.run("cl", &format!("timeout 60 smbcacls {} {options}", crate::SHARE)))
}

/// The name service shows users of the domain, as smbd demands it.
pub(crate) fn a_member_of_samba_moves_here_and_back(lab: &Lab) {
    lab.ok("mb", r"sed -i -E '/^(passwd|group):/s/$/ winbind/' /etc/nsswitch.conf");
    let conf = fs::read_to_string(lab.path("srv/mb/smb.conf")).expect("the member's");
    let share = "[data]\npath = /srv/moved\nread only = no\nvfs objects = acl_xattr\n";
    fs::write(lab.path("srv/move.conf"), format!("{conf}\n{share}")).expect("there is space");
    lab.ok("mb", "install -d -m 777 /srv/moved");
    let member = |change: &str| {
        let line = format!("samba-tool group {change} engineers carl");
        lab.ok("dc", &format!("{line} --configfile=/srv/ad/etc/smb.conf"));
    };
    member("addmembers");
    let list = r"ACL:ADLAB\\alice:ALLOWED/OI|CI/FULL,ACL:ADLAB\\engineers:ALLOWED/OI|CI/FULL";
    let samba = Running::smbd(lab);
    let made = run(lab, "alice", "mkdir plans; put /etc/hostname plans/note");
    assert!(made.status.success(), "{}", shown(&made));
    descriptor(lab, "plans", &format!("--set \"{list}\""));
    let before = ["plans", "plans/note"].map(|path| descriptor(lab, path, ""));
    drop(samba);
    let visits = |server: &str| {
        for user in ["alice", "carl"] {
            let output = run(lab, user, &format!("cd plans; mkdir {server}_{user}"));
            assert!(!text(&output).contains("NT_STATUS"), "{server}: {}", shown(&output));
        }
        let output = run(lab, "bob", &format!("cd plans; mkdir {server}_bob"));
        assert!(text(&output).contains("NT_STATUS_ACCESS_DENIED"), "{server}: {}", shown(&output));
    };
    let here = Running::choro(lab);
    let during = ["plans", "plans/note"].map(|path| descriptor(lab, path, ""));
    visits("choro");
    let by_carl = descriptor(lab, "plans/choro_carl", "");
    drop(here);
    let _samba = Running::smbd(lab);
    let after = ["plans", "plans/note"].map(|path| descriptor(lab, path, ""));
    let by_carl_after = descriptor(lab, "plans/choro_carl", "");
    visits("samba");
    member("removemembers");
    let owners = lab.ok("mb", "cd /srv/moved/plans; stat -c %u:%g *_alice *_carl | sort -u");
    assert!(before[0].contains(r"ACL:ADLAB\engineers:ALLOWED/OI|CI/FULL"), "{}", before[0]);
    assert_eq!((&before, &before), (&during, &after));
    assert_eq!(by_carl, by_carl_after);
    assert_eq!(owners.lines().count(), 2, "the same ids from both: {owners}");
}
