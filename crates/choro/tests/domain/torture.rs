//! smbtorture's tests of sessions, with tickets.

use crate::{ADS, Lab, Server, shown};

/// Tests of sessions that begin with a ticket. Those of expiry ask for tickets of a few seconds.
/// Without reauth5, which fails with Samba, too: it deletes a file that is not there any more.
const TESTS: &[&str] = &[
    "smb2.connect",
    "smb2.session.reconnect1",
    "smb2.session.reconnect2",
    "smb2.session.reauth1",
    "smb2.session.reauth2",
    "smb2.session.reauth3",
    "smb2.session.reauth4",
    "smb2.session.reauth6",
    "smb2.session.expire1n",
    "smb2.session.expire1s",
    "smb2.session.expire1e",
    "smb2.session.expire2s",
    "smb2.session.expire2e",
    "smb2.session.expire_disconnect",
    "smb2.session.bind1",
    "smb2.session.bind2",
    "smb2.session.bind_invalid_auth",
];

/// Descriptors are kept, as the tests of reauthentication set some.
pub(crate) fn smbtorture_s_tests_of_sessions_pass_with_tickets(lab: &Lab) {
    let _server = Server::start(lab, ADS, "vfs objects = acl_xattr");
    let mut failed = Vec::new();
    for test in TESTS {
        let line = format!(
            "timeout 120 smbtorture //mb.ad.lab.test/data -U alice@AD.LAB.TEST%Passw0rd-alice \
             --use-kerberos=required {test}"
        );
        let output = lab.run("cl", &line);
        if !output.status.success() {
            failed.push(format!("{test}: {}", shown(&output)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
