//! Hostile tokens, and a winbindd that is gone.

use crate::{ADS, Lab, REPLAY, Server, TICKET_OF_ALICE, await_true, kinit};
use std::fs;
use std::time::{Duration, Instant};

const ATTACKS: &str = include_str!("attacks.py");

/// The statuses that the program prints.
fn attack(lab: &Lab, kind: &str) -> Vec<String> {
    attack_under(lab, "", kind)
}

/// The same with a launcher before it.
fn attack_under(lab: &Lab, launcher: &str, kind: &str) -> Vec<String> {
    fs::write(lab.path("srv/choro/replay.py"), REPLAY).expect("there is space");
    fs::write(lab.path("srv/choro/attacks.py"), ATTACKS).expect("there is space");
    let program = format!("{launcher} /usr/bin/python3 /srv/choro/attacks.py {kind}");
    let run = format!("export KRB5CCNAME=/tmp/cc.alice; {program}");
    lab.ok("cl", &run).lines().map(str::to_owned).collect()
}

/// [MS-SMB2] 3.3.5.5.3: the client gets a KRB-ERROR, which tells it the time, and one more try.
pub(crate) fn a_client_with_a_wrong_clock_may_try_once_more(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    let own = "valid cifs@mb.ad.lab.test";
    assert_eq!(attack(lab, own)[0], "0", "{}", server.log());
    let statuses = attack_under(lab, "faketime -f +20m", own);
    assert_eq!(statuses, ["c0000016", "c000006d"], "{}", server.log());
    server.await_line("Clock skew too great");
}

/// The ticket is good, but for the controller, whose key the member does not have.
pub(crate) fn a_ticket_for_another_server_is_refused(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    let statuses = attack(lab, "valid cifs@dc.ad.lab.test");
    assert_eq!(statuses, ["c0000016", "c000006d"], "{}", server.log());
    server.await_line("cifs/dc.ad.lab.test@AD.LAB.TEST");
}

/// A user of the domain with the name of a local one, which is root here, is the domain's.
pub(crate) fn a_user_of_the_domain_with_a_local_name_is_the_domain_s(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    let user = "samba-tool user add root Passw0rd-root --configfile=/srv/ad/etc/smb.conf";
    let made = lab.run("dc", user);
    assert!(made.status.success(), "{}", crate::text(&made));
    kinit(lab, "root");
    let client = "env KRB5CCNAME=/tmp/cc.root smbclient -N --use-kerberos=required";
    lab.reaches(client, "mkdir by_root");
    let owner = lab.ok("mb", "stat -c %u /srv/choro/data/by_root");
    let owner: u32 = owner.trim().parse().expect("a number");
    assert!(owner > 1_000_000, "{owner}");
}

/// winbindd itself would answer for both.
pub(crate) fn a_pac_that_the_controller_has_not_signed_is_refused(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    assert_eq!(attack(lab, "pac"), ["0", "c000006d", "c000006d"], "{}", server.log());
    server.await_line("no PAC");
}

pub(crate) fn logond_survives_tokens_of_all_kinds(lab: &Lab) {
    // Otherwise most of them would be refused unchecked, and the right one after them as well.
    let server = Server::start(lab, &format!("{ADS}\nlogon delay = no"), "");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
    let logond = server.logond().expect("it runs");
    let statuses = attack(lab, "garbage");
    assert!(statuses.len() > 50 && !statuses.contains(&"0".to_owned()), "{statuses:?}");
    assert_eq!(server.logond(), Some(logond), "it is the same process: {}", server.log());
    lab.reaches(TICKET_OF_ALICE, "ls");
}

pub(crate) fn without_winbindd_users_of_the_domain_are_refused_at_once(lab: &Lab) {
    lab.ok("mb", "mv /run/samba/winbindd /run/samba/away");
    let _server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    let begun = Instant::now();
    let ticket = lab.smbclient(TICKET_OF_ALICE, "ls");
    let password = lab.smbclient(crate::PASSWORD_OF_ALICE, "ls");
    let took = begun.elapsed();
    lab.ok("mb", "mv /run/samba/away /run/samba/winbindd");
    for refused in [ticket, password] {
        let text = crate::text(&refused);
        assert!(text.contains("NT_STATUS_NO_LOGON_SERVERS"), "{text}");
    }
    assert!(took < Duration::from_secs(8), "{took:?}");
    await_true("tickets again", || lab.smbclient(TICKET_OF_ALICE, "ls").status.success());
}
