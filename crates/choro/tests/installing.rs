//! The scripts that install packages, on a machine whose `/usr/sbin` is a folder of the test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const NEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/needs.sh");

/// Returns Debian's policy for starting services after a run of `apt-get`. `None`: the test may not
/// make a namespace.
fn policy_after(apt_get: &str, before: Option<&str>) -> Option<String> {
    let folder = tempfile::tempdir().expect("there is space");
    let programs = folder.path().join("programs");
    let sbin = folder.path().join("sbin");
    fs::create_dir(&programs).expect("it is new");
    fs::create_dir(&sbin).expect("it is new");
    if let Some(text) = before {
        fs::write(sbin.join("policy-rc.d"), text).expect("there is space");
    }
    let program = programs.join("apt-get");
    fs::write(&program, format!("#!/bin/sh\n{apt_get}\n")).expect("there is space");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
    let script = format!(
        "mount --bind '{}' /usr/sbin || exit 77
         PATH='{}':$PATH bash -c '. {NEEDS}; install_quietly something' && exit 0 || exit 1",
        sbin.display(),
        programs.display(),
    );
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "bash", "-c", &script])
        .output()
        .expect("there is util-linux");
    let refused = String::from_utf8_lossy(&output.stderr).contains("unshare failed");
    if refused || output.status.code() == Some(77) {
        return None;
    }
    Some(fs::read_to_string(sbin.join("policy-rc.d")).unwrap_or_default())
}

#[test]
fn services_are_held_back_only_while_packages_are_installed() {
    // Succeeds only where the policy is in force.
    let Some(left) = policy_after("test -x /usr/sbin/policy-rc.d", None) else { return };
    assert_eq!(left, "");
    assert_eq!(policy_after("exit 100", None).as_deref(), Some(""), "after a failure");
    for signal in ["INT", "TERM", "HUP"] {
        // The parent of apt-get is the waiting shell.
        let kills = format!("kill -{signal} $PPID");
        assert_eq!(policy_after(&kills, None).as_deref(), Some(""), "after SIG{signal}");
    }
}

#[test]
fn a_policy_that_a_killed_run_left_goes_and_one_of_the_administrator_stays() {
    let kills_at_once = "kill -KILL $PPID";
    let Some(left) = policy_after(kills_at_once, None) else { return };
    assert!(!left.is_empty(), "nothing can be done after SIGKILL");
    assert_eq!(policy_after("exit 0", Some(&left)).as_deref(), Some(""));
    let own = "#!/bin/sh\nexit 101\n";
    assert_eq!(policy_after("exit 0", Some(own)).as_deref(), Some(own));
}
