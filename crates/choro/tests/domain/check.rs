//! `choro check --domain`: each fault has a line with its remedy.

use crate::{ADS, Lab, Server, choro, text};
use std::fs;
use std::process::Output;

/// The configuration of a member without faults.
const MEMBER: &str = "netbios name = MB\nworkgroup = ADLAB\nsecurity = ads\nrealm = AD.LAB.TEST\n\
                      domain secrets = /srv/mb/private/secrets.tdb\n";

fn check(lab: &Lab, conf: &str, options: &str) -> Output {
    fs::write(lab.path("srv/check.conf"), format!("[global]\n{conf}")).expect("there is space");
    let line = format!("timeout 120 {} check --domain {options} /srv/check.conf", choro());
    lab.run("mb", &line)
}

/// Asserts that the only faults are those with these subjects, and what the remedies contain.
#[track_caller]
fn has_faults(output: &Output, expected: &[(&str, &str)]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(i32::from(!expected.is_empty())), "{text}");
    let faults = text.split("FAULT  ").skip(1).collect::<Vec<_>>();
    assert_eq!(faults.len(), expected.len(), "{text}");
    for (fault, (subject, remedy)) in faults.iter().zip(expected) {
        let (line, rest) = fault.split_once("To do: ").expect("a remedy");
        let todo = rest.lines().next().unwrap_or_default();
        assert!(line.starts_with(subject) && todo.contains(remedy), "{fault}");
    }
}

pub(crate) fn a_good_membership_has_no_faults(lab: &Lab) {
    let output = check(lab, MEMBER, "--domain-user alice");
    has_faults(&output, &[]);
    let text = text(&output);
    for line in ["ok     join: MB in ADLAB", "ok     clock: 0 s", "user id 1001103"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

pub(crate) fn each_fault_comes_with_its_remedy(lab: &Lab) {
    let changed = |from: &str, to: &str| MEMBER.replace(from, to);
    let more = |line: &str| format!("{MEMBER}{line}\n");
    let alice = "--domain-user alice";
    let dc = check(lab, &changed("= MB", "= DC"), "");
    has_faults(
        &dc,
        &[
            ("join", "netbios name = MB"),
            ("DNS", "net ads dns register"),
            // The key is that of another account.
            ("ticket", "net ads join"),
            ("ticket", "net ads join"),
        ],
    );
    has_faults(
        &check(lab, &more("netbios aliases = OTHER"), ""),
        &[("ticket", "setspn add MB cifs/other")],
    );
    has_faults(&check(lab, &changed("private/", "none/"), ""), &[("keys", "domain secrets")]);
    has_faults(&check(lab, MEMBER, "--domain-user nobody"), &[("user", "wbinfo -n")]);
    has_faults(
        &check(lab, &more("min domain uid = 1900000"), alice),
        &[("user", "min domain uid")],
    );
    lab.ok("mb", "useradd -u 1001103 local");
    let local = check(lab, MEMBER, alice);
    lab.ok("mb", "userdel local");
    has_faults(&local, &[("user", "idmap config")]);
    // Samba 4.17 leaves the keytab behind.
    lab.ok("mb", "wbinfo -c");
    let old = check(lab, &more("kerberos method = system keytab"), "");
    lab.ok("mb", "net ads keytab create -P --configfile=/srv/mb/smb.conf");
    has_faults(&old, &[("ticket", "net ads join"), ("ticket", "net ads join")]);
}

pub(crate) fn a_missing_winbindd_or_controller_is_a_fault(lab: &Lab) {
    lab.ok("mb", "mv /run/samba/winbindd /run/samba/away");
    let gone = check(lab, MEMBER, "");
    lab.ok("mb", "mv /run/samba/away /run/samba/winbindd");
    has_faults(&gone, &[("join", "start winbindd")]);
    lab.link("down");
    let alone = check(lab, MEMBER, "");
    lab.link("up");
    has_faults(&alone, &[("controller", "DNS")]);
}

/// The server has the ids of a user from winbindd, and the lab has no libnss-winbind.
pub(crate) fn the_doctor_does_not_guess_the_rights_of_a_user_of_the_domain(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    let line =
        format!(r"{} doctor access 'ADLAB\alice' data --config /srv/choro/smb.conf", choro());
    let output = lab.run("mb", &line);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("install libnss-winbind"), "{text}");
}
