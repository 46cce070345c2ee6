//! Names of the domain over lsarpc, and its groups in descriptors.

use crate::{ADS, Lab, SHARE, Server, await_true, shown, text};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ALICE: &str = r"-U ADLAB\\alice%Passw0rd-alice --use-kerberos=off";

fn sid_of(lab: &Lab, name: &str) -> String {
    let answer = lab.ok("mb", &format!("wbinfo --name-to-sid='{name}'"));
    answer.split_whitespace().next().expect("a SID").to_owned()
}

fn rpcclient(lab: &Lab, commands: &str) -> String {
    text(&lab.run("cl", &format!("timeout 60 rpcclient {ALICE} mb.ad.lab.test -c '{commands}'")))
}

pub(crate) fn sids_and_names_of_the_domain_are_translated(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    let [alice, engineers] = [r"ADLAB\alice", r"ADLAB\engineers"].map(|it| sid_of(lab, it));
    let (domain, _) = alice.rsplit_once('-').expect("a RID");
    let answer = rpcclient(lab, &format!("lookupsids {alice} {engineers} {domain} {domain}-99999"));
    for expected in [
        format!("{alice} ADLAB\\alice (1)"),
        format!("{engineers} ADLAB\\engineers (2)"),
        format!("{domain}-99999 *unknown*\\*unknown* (8)"),
    ] {
        assert!(answer.contains(&expected), "{expected} in {answer}");
    }
    let answer = rpcclient(lab, r"lookupnames ADLAB\\Engineers alice ADLAB\\nobody");
    for expected in [format!("{engineers} (Domain Group: 2)"), format!("{alice} (User: 1)")] {
        assert!(answer.contains(&expected), "{expected} in {answer}");
    }
}

/// Carl is put into the group for this check. His worker has never seen alice, and hers not him.
pub(crate) fn a_group_of_the_domain_in_a_descriptor_counts_for_its_members(lab: &Lab) {
    let server = Server::start(lab, ADS, "vfs objects = acl_xattr");
    let member = |change: &str| {
        let line = format!("samba-tool group {change} engineers carl");
        lab.ok("dc", &format!("{line} --configfile=/srv/ad/etc/smb.conf"));
    };
    member("addmembers");
    let run = |user: &str, commands: &str| {
        let options = format!(r"smbclient -U ADLAB\\{user}%Passw0rd-{user} --use-kerberos=off");
        lab.smbclient(&options, commands)
    };
    run("alice", "mkdir plans");
    let smbcacls =
        |rest: &str| lab.run("cl", &format!("timeout 60 smbcacls {SHARE} plans {ALICE} {rest}"));
    let list = r"ACL:ADLAB\alice:ALLOWED/OI|CI/FULL,ACL:ADLAB\engineers:ALLOWED/OI|CI/FULL";
    let set = smbcacls(&format!("--set \"{}\"", list.replace('\\', r"\\")));
    let descriptor = smbcacls("");
    let carl = run("carl", "cd plans; mkdir by_carl");
    // What carl has made inherits the list, and alice is somebody in it.
    let alice = run("alice", "cd plans/by_carl; mkdir by_alice");
    let bob = run("bob", "cd plans; mkdir by_bob");
    member("removemembers");
    let access = text(&lab.run("mb", "getfacl -pnR /srv/choro/data/plans"));
    assert!(set.status.success(), "{}", shown(&set));
    let entry = r"ACL:ADLAB\engineers:ALLOWED/OI|CI/FULL";
    assert!(text(&descriptor).contains(entry), "{}", shown(&descriptor));
    for made in [&carl, &alice] {
        assert!(!text(made).contains("NT_STATUS"), "{} {access} {}", shown(made), server.log());
    }
    assert!(text(&bob).contains("NT_STATUS_ACCESS_DENIED"), "{}", shown(&bob));
}

/// The session is there when winbindd stops to answer.
pub(crate) fn without_winbindd_names_are_unknown_soon(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    let alice = sid_of(lab, r"ADLAB\alice");
    let (domain, _) = alice.rsplit_once('-').expect("a RID");
    let _ = fs::remove_file(lab.path("srv/choro/go"));
    let wait = "while [ ! -e /srv/choro/go ]; do sleep 0.1; done";
    let lines = [
        format!("echo lookupsids {alice}; echo getusername"),
        format!("touch /srv/choro/asked; {wait}; echo lookupsids {alice}"),
        format!("echo lookupsids {domain}-88888; echo lookupsids {domain}-99999"),
    ];
    let line = format!("({}) | timeout 90 rpcclient {ALICE} mb.ad.lab.test", lines.join("; "));
    let _ = fs::remove_file(lab.path("srv/choro/asked"));
    let asking = lab
        .script(&["run", "cl", "sh", "-c", &line])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash is installed");
    await_true("a question", || lab.path("srv/choro/asked").exists());
    await_true("a logon", || server.log().matches("winbindd answers").count() >= 2);
    let stopped = StoppedWinbindd::new(lab);
    let begun = Instant::now();
    fs::write(lab.path("srv/choro/go"), "").expect("there is space");
    let output = asking.wait_with_output().expect("it ends");
    let took = begun.elapsed();
    drop(stopped);
    let answer = text(&output);
    // Once asked, and once from what is known; the others have no answer in time.
    assert_eq!(answer.matches(&format!("{alice} ADLAB\\alice (1)")).count(), 2, "{answer}");
    assert_eq!(answer.matches("(8)").count(), 2, "{answer}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// winbindd, stopped until this is dropped: it answers nobody, and takes connections.
pub(crate) struct StoppedWinbindd(Vec<String>);

impl StoppedWinbindd {
    pub(crate) fn new(_lab: &Lab) -> Self {
        let pids = Command::new("ip").args(["netns", "pids", "lab-mb"]).output();
        let pids = text(&pids.expect("iproute2 is installed"));
        let is_winbindd = |pid: &&str| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|it| it.starts_with("winbindd"))
        };
        let pids = pids.split_whitespace().filter(is_winbindd).map(str::to_owned).collect();
        let stopped = Self(pids);
        stopped.signal("-STOP");
        stopped
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).args(&self.0).status();
        assert!(status.expect("kill is there").success());
    }
}

impl Drop for StoppedWinbindd {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}
