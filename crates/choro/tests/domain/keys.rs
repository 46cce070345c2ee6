//! Keys out of winbindd's own database: a member without a keytab.

use crate::{Lab, Server, TICKET_OF_ALICE, await_true, kinit, shown, text};
use std::fs;
use std::process::Stdio;

/// A member as most are: no word about keys. The lab's winbindd has folders of its own.
pub(crate) const BY_SECRETS: &str =
    "security = ads\nrealm = AD.LAB.TEST\ndomain secrets = /srv/mb/private/secrets.tdb";

/// Changes of the password, each beside logons.
const CHANGES: usize = 8;

pub(crate) fn no_ticket_fails_while_the_machine_s_password_changes(lab: &Lab) {
    let server = Server::start(lab, BY_SECRETS, "");
    lab.ok("mb", "mv /etc/krb5.keytab /etc/krb5.keytab.away");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
    // Each logon has a ticket of its own, for the key that the controller has at this moment.
    let _ = fs::remove_file(lab.path("srv/choro/stop"));
    let _ = fs::remove_file(lab.path("srv/choro/count"));
    let logon = "echo Passw0rd-bob | kinit -c /tmp/cc.fresh bob@AD.LAB.TEST >/dev/null && \
                 KRB5CCNAME=/tmp/cc.fresh smbclient -N --use-kerberos=required \
                 //mb.ad.lab.test/data -c ls >/tmp/fresh 2>&1 || cat /tmp/fresh";
    let line = format!(
        "while [ ! -e /srv/choro/stop ]; do {logon}; echo >>/srv/choro/count; done; rm /tmp/fresh"
    );
    let logons = lab
        .script(&["run", "cl", "sh", "-c", &line])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash is installed");
    let count = || fs::read(lab.path("srv/choro/count")).map_or(0, |it| it.len());
    for _ in 0..CHANGES {
        let before = count();
        lab.ok("mb", "wbinfo -c");
        await_true("a logon with the new key", || count() > before + 1);
    }
    fs::write(lab.path("srv/choro/stop"), "").expect("there is space");
    let output = logons.wait_with_output().expect("it ends");
    lab.ok("mb", "net ads keytab create -P --configfile=/srv/mb/smb.conf");
    assert_eq!(text(&output), "", "of {} logons", count());
    assert!(!server.log().contains("tickets cannot be checked"));
}

pub(crate) fn a_ticket_for_the_former_password_stays_good(lab: &Lab) {
    let _server = Server::start(lab, BY_SECRETS, "");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
    lab.ok("mb", "wbinfo -c");
    lab.ok("mb", "wbinfo -c");
    let old = lab.smbclient(TICKET_OF_ALICE, "ls");
    lab.ok("mb", "net ads keytab create -P --configfile=/srv/mb/smb.conf");
    assert!(old.status.success(), "{}", shown(&old));
}

pub(crate) fn without_winbindd_s_database_the_log_says_which_parameter_names_it(lab: &Lab) {
    let missing = "security = ads\nrealm = AD.LAB.TEST\ndomain secrets = /srv/choro/none.tdb";
    let server = Server::start(lab, missing, "");
    kinit(lab, "alice");
    lab.is_refused(TICKET_OF_ALICE, "NT_STATUS_LOGON_FAILURE");
    server.await_line("`domain secrets`");
}
