//! Hostile tokens, and a winbindd that is gone.

use crate::{ADS, Lab, REPLAY, Server, TICKET_OF_ALICE, await_true, kinit};
use std::fs;
use std::time::{Duration, Instant};

const ATTACKS: &str = include_str!("attacks.py");

/// The statuses that the program prints.
fn attack(lab: &Lab, kind: &str) -> Vec<String> {
    fs::write(lab.path("srv/choro/replay.py"), REPLAY).expect("there is space");
    fs::write(lab.path("srv/choro/attacks.py"), ATTACKS).expect("there is space");
    let run = format!("KRB5CCNAME=/tmp/cc.alice /usr/bin/python3 /srv/choro/attacks.py {kind}");
    lab.ok("cl", &run).lines().map(str::to_owned).collect()
}

/// winbindd itself would answer for both.
pub(crate) fn a_pac_that_the_controller_has_not_signed_is_refused(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    assert_eq!(attack(lab, "pac"), ["0", "c000006d", "c000006d"], "{}", server.log());
    server.await_line("no PAC");
}

pub(crate) fn logond_survives_tokens_of_all_kinds(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
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
