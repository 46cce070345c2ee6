//! The Linux kernel's client with a ticket and with a password of the domain.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::guest::{has_guest, script, tap_device};
use crate::{ADS, Lab, Server, kinit, shown};

/// Mount options, separated by blanks.
const VARIANTS: &str = "sec=krb5 sec=krb5i sec=krb5,seal sec=ntlmssp sec=ntlmsspi sec=ntlmssp,seal";

/// Seconds for the guest, which takes twenty.
const LIMIT_SECONDS: &str = "300";

/// The guest is alone with the member at the two ends of a network device, without the controller;
/// so its ticket is fetched for it.
pub(crate) fn the_linux_kernel_mounts_with_tickets_and_passwords(lab: &Lab) {
    if !has_guest() {
        return;
    }
    lab.ok("mb", &format!("ip link show guest0 >/dev/null 2>&1 || {{ {} }}", tap_device(0)));
    let _server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    lab.ok("cl", "KRB5CCNAME=/tmp/cc.alice kvno cifs/mb.ad.lab.test");
    let job = tempfile::tempdir().expect("there is space");
    let put = |from: &str, name: &str| {
        fs::copy(lab.path(from), job.path().join(name)).expect("there is space");
    };
    put("tmp/cc.alice", "ticket");
    put("etc/krb5.conf", "krb5.conf");
    let environment = format!(
        "SERVER=mb.ad.lab.test\nSHARE=data\nACCOUNT=alice\nDOMAIN=ADLAB\n\
         PASSWORD=Passw0rd-alice\nVARIANTS='{VARIANTS}'\n"
    );
    fs::write(job.path().join("env"), environment).expect("there is space");
    let printed = boot(job.path());
    for variant in VARIANTS.split(' ') {
        assert!(printed.contains(&format!("{variant}\tok\n")), "{variant}: {printed}");
        let name = variant.replace(|it: char| !it.is_ascii_alphanumeric(), "_");
        let owner = lab.ok("mb", &format!("stat -c %u /srv/choro/data/{name}"));
        assert_eq!(owner.trim(), "1001103", "{variant}");
    }
}

/// Returns what the script in the guest has printed.
fn boot(job: &Path) -> String {
    let output = Command::new("ip")
        .args(["netns", "exec", "lab-mb"])
        .arg(script("run.sh"))
        .arg(script("domain.sh"))
        .arg(LIMIT_SECONDS)
        .arg(job)
        .output()
        .expect("iproute2 is installed");
    let left = |name| fs::read_to_string(job.join(name)).unwrap_or_default();
    assert!(output.status.success(), "{}\n{}", shown(&output), left("stderr"));
    left("stdout")
}
