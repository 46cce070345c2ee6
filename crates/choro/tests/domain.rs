//! A member of a domain of Active Directory, and a server of a plain Kerberos realm, with real
//! controllers and Debian's clients.
//!
//! All is in namespaces over an overlay, which `scripts/domain_lab.sh` makes; so it takes root, and
//! some minutes. `make test` and `make domain-test` run it; without root it is left out, in words.

#![expect(clippy::print_stderr, reason = "each check is told, and why all are left out")]

#[path = "domain/attacks.rs"]
mod attacks;
#[path = "domain/check.rs"]
mod check;
mod harness;
#[path = "domain/kernel.rs"]
mod kernel;
#[path = "domain/keys.rs"]
mod keys;
#[path = "domain/moving.rs"]
mod moving;
#[path = "domain/names.rs"]
mod names;
#[path = "domain/torture.rs"]
mod torture;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Exit code of the script where a machine cannot have a domain.
const CANNOT: i32 = 77;

/// The domain, its realm, a member and a client. Removed when dropped.
struct Lab {
    folder: PathBuf,
}

impl Lab {
    /// Builds it. `None` if this machine cannot have one; the reason is on standard error.
    fn build() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("CHORO_DOMAIN_LAB")?);
        fs::create_dir_all(&folder).expect("a folder for the domain");
        let lab = Self { folder };
        let output = lab.script(&["up"]).output().expect("bash is installed");
        match output.status.code() {
            Some(0) => Some(lab),
            Some(CANNOT) => {
                eprintln!("left out: {}", String::from_utf8_lossy(&output.stderr).trim());
                std::mem::forget(lab);
                None
            }
            _ => panic!("the domain does not start: {}", shown(&output)),
        }
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/domain_lab.sh");
        let mut command = Command::new("bash");
        command.arg(script).arg(&self.folder).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a line of the shell in one of the namespaces: `dc`, `mb` or `cl`.
    fn run(&self, name: &str, line: &str) -> Output {
        self.script(&["run", name, "sh", "-c", line]).output().expect("bash is installed")
    }

    #[track_caller]
    fn ok(&self, name: &str, line: &str) -> String {
        let output = self.run(name, line);
        assert!(output.status.success(), "{name}: {line}: {}", shown(&output));
        text(&output)
    }

    /// Cuts the member off from the controller (`down`), or connects it again (`up`).
    fn link(&self, state: &str) {
        let set = ["-n", "lab-dc", "link", "set", "vmb", state];
        assert!(Command::new("ip").args(set).status().expect("iproute2").success());
    }

    /// A file or folder of the lab, from outside.
    fn path(&self, path: &str) -> PathBuf {
        self.folder.join("root").join(path)
    }

    /// Runs commands of smbclient, which the options begin with.
    fn smbclient(&self, options: &str, commands: &str) -> Output {
        self.run("cl", &format!("timeout 90 {options} {SHARE} -c '{commands}'"))
    }

    #[track_caller]
    fn reaches(&self, options: &str, commands: &str) -> String {
        let output = self.smbclient(options, commands);
        assert!(output.status.success(), "{options}: {}", shown(&output));
        text(&output)
    }

    #[track_caller]
    fn is_refused(&self, options: &str, status: &str) {
        let output = self.smbclient(options, "ls");
        let text = text(&output);
        assert!(!output.status.success() && text.contains(status), "{options}: {text}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.script(&["down"]).status();
    }
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned()).concat()
}

fn shown(output: &Output) -> String {
    format!("{:?}: {}", output.status.code(), text(output))
}

/// A server in the namespace of the member. Ended when dropped.
struct Server<'a> {
    lab: &'a Lab,
    starter: Child,
}

impl<'a> Server<'a> {
    fn start(lab: &'a Lab, global: &str, share: &str) -> Self {
        let base = lab.path("srv/choro");
        let _ = fs::remove_dir_all(&base);
        for folder in ["data", "private", "lock", "state", "cache", "run"] {
            fs::create_dir_all(base.join(folder)).expect("there is space");
        }
        fs::set_permissions(base.join("data"), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("ours");
        let conf = format!(
            "[global]\nnetbios name = MB\nworkgroup = ADLAB\nlog level = 10\n\
             private dir = /srv/choro/private\nlock directory = /srv/choro/lock\n\
             state directory = /srv/choro/state\ncache directory = /srv/choro/cache\n\
             pid directory = /srv/choro/run\nlog file = /srv/choro/log\n{global}\n\
             [data]\npath = /srv/choro/data\nread only = no\n{share}\n"
        );
        fs::write(base.join("smb.conf"), conf).expect("there is space");
        let starter = lab
            .script(&["run", "mb", &choro(), "serve", "--config", "/srv/choro/smb.conf"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash is installed");
        let server = Self { lab, starter };
        server.await_line("listening on");
        await_true("logond", || lab.path("srv/choro/lock/logond").exists());
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.lab.path("srv/choro/log")).unwrap_or_default()
    }

    #[track_caller]
    fn await_line(&self, line: &str) {
        await_true(line, || self.log().contains(line));
    }

    fn pid(&self) -> String {
        let pid = fs::read_to_string(self.lab.path("srv/choro/run/choro.pid")).unwrap_or_default();
        pid.trim().to_owned()
    }

    /// The pid of its `logond`.
    fn logond(&self) -> Option<String> {
        let children = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = fs::read_to_string(children).ok()?;
        let is_logond = |pid: &&str| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|it| it.trim() == "choro-logond")
        };
        children.split_whitespace().find(is_logond).map(str::to_owned)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.pid()).status();
        let _ = self.starter.wait();
    }
}

/// Path of the program to test.
fn choro() -> String {
    let choro = std::env::var("CHORO_BIN");
    let choro = choro.unwrap_or_else(|_| env!("CARGO_BIN_EXE_choro").into());
    let choro = fs::canonicalize(choro).expect("it was built");
    choro.into_os_string().into_string().expect("UTF-8")
}

#[track_caller]
fn await_true(what: &str, is_true: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < until, "waited for {what}");
        sleep(Duration::from_millis(50));
    }
}

const SHARE: &str = "//mb.ad.lab.test/data";
const ADS: &str = "security = ads\nrealm = AD.LAB.TEST\nkerberos method = system keytab";
const TICKET_OF_ALICE: &str = "env KRB5CCNAME=/tmp/cc.alice smbclient -N --use-kerberos=required";
const PASSWORD_OF_ALICE: &str = r"smbclient -U ADLAB\\alice%Passw0rd-alice --use-kerberos=off";

fn kinit(lab: &Lab, user: &str) {
    lab.ok("cl", &format!("echo Passw0rd-{user} | kinit -c /tmp/cc.{user} {user}@AD.LAB.TEST"));
}

/// The environment of clients of the plain realm.
const REALM: &str = "export KRB5_CONFIG=/srv/realm/krb5.conf KRB5CCNAME=/tmp/cc.realm;";

fn tickets_and_passwords_of_the_domain_make_one_user(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "mkdir by_ticket");
    lab.reaches(PASSWORD_OF_ALICE, "mkdir by_password");
    lab.reaches(
        r"smbclient -U alice@ad.lab.test%Passw0rd-alice --use-kerberos=off",
        "mkdir by_principal",
    );
    let owner = lab.ok("mb", "stat -c '%u %g' /srv/choro/data/by_ticket /srv/choro/data/by_p*");
    let ids = lab.ok("mb", "wbinfo -i 'ADLAB\\alice' | cut -d: -f3,4 | tr : ' '");
    assert_eq!(owner, ids.repeat(3), "{}", server.log());
}

fn every_protection_and_dialect_works_with_a_ticket(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    for protection in ["sign", "encrypt"] {
        for dialect in ["SMB2_02", "SMB3_02", "SMB3_11"] {
            if protection == "encrypt" && dialect == "SMB2_02" {
                continue;
            }
            let protection = format!("--client-protection={protection} -m {dialect}");
            lab.reaches(&format!("{TICKET_OF_ALICE} {protection}"), "ls");
        }
    }
    let aes_256 = "--option=clientsmb3encryptionalgorithms=AES-256-GCM --client-protection=encrypt";
    drop(_server);
    let strong = "server smb3 encryption algorithms = AES-256-GCM\nserver smb encrypt = required";
    let _server = Server::start(lab, &format!("{ADS}\n{strong}"), "");
    lab.reaches(&format!("{TICKET_OF_ALICE} {aes_256}"), "ls");
}

fn nested_groups_of_the_domain_count(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    kinit(lab, "bob");
    let gid = lab.ok("mb", "wbinfo --name-to-sid='ADLAB\\engineers' | cut -d' ' -f1");
    let gid = lab.ok("mb", &format!("wbinfo --sid-to-gid={}", gid.trim()));
    let folder = "/srv/choro/data/team";
    lab.ok("mb", &format!("install -d -m 2770 -g {} {folder}", gid.trim()));
    lab.reaches(TICKET_OF_ALICE, "cd team; mkdir inside");
    lab.reaches(PASSWORD_OF_ALICE, "cd team; mkdir inside2");
    let bob = "env KRB5CCNAME=/tmp/cc.bob smbclient -N --use-kerberos=required";
    let refused = text(&lab.smbclient(bob, "cd team; mkdir no"));
    assert!(refused.contains("NT_STATUS_ACCESS_DENIED"), "{refused}");
}

fn wrong_passwords_and_accounts_are_refused_with_the_domain_s_reason(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    lab.is_refused(
        r"smbclient -U ADLAB\\alice%wrong --use-kerberos=off",
        "NT_STATUS_LOGON_FAILURE",
    );
    lab.is_refused(
        r"smbclient -U ADLAB\\nobody%wrong --use-kerberos=off",
        "NT_STATUS_LOGON_FAILURE",
    );
    lab.ok("dc", "samba-tool user disable carl --configfile=/srv/ad/etc/smb.conf");
    let carl = r"smbclient -U ADLAB\\carl%Passw0rd-carl --use-kerberos=off";
    lab.is_refused(carl, "NT_STATUS_ACCOUNT_DISABLED");
    lab.ok("dc", "samba-tool user enable carl --configfile=/srv/ad/etc/smb.conf");
}

fn a_uid_below_the_minimum_is_refused(lab: &Lab) {
    let server = Server::start(lab, &format!("{ADS}\nmin domain uid = 1900000"), "");
    kinit(lab, "alice");
    lab.is_refused(TICKET_OF_ALICE, "NT_STATUS_LOGON_FAILURE");
    lab.is_refused(PASSWORD_OF_ALICE, "NT_STATUS_LOGON_FAILURE");
    server.await_line("min domain uid");
}

fn without_ntlm_only_tickets_are_accepted(lab: &Lab) {
    let _server = Server::start(lab, &format!("{ADS}\nntlm auth = disabled"), "");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
    // The client finds no mechanism that it could use.
    let output = lab.smbclient(PASSWORD_OF_ALICE, "ls");
    assert!(!output.status.success(), "{}", shown(&output));
}

fn lists_name_users_of_the_domain(lab: &Lab) {
    let _server = Server::start(lab, ADS, r"valid users = ADLAB\alice");
    kinit(lab, "alice");
    kinit(lab, "bob");
    lab.reaches(TICKET_OF_ALICE, "ls");
    let bob = "env KRB5CCNAME=/tmp/cc.bob smbclient -N --use-kerberos=required";
    lab.is_refused(bob, "NT_STATUS_ACCESS_DENIED");
}

/// Sends tokens of MIT Kerberos to a session of their own, without SMB: what `logond` says of them
/// is in the log.
fn a_replayed_ticket_and_a_changed_one_are_refused(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    fs::write(lab.path("srv/choro/replay.py"), REPLAY).expect("there is space");
    let run = "KRB5CCNAME=/tmp/cc.alice /usr/bin/python3 /srv/choro/replay.py";
    let text = lab.ok("cl", run);
    let want = ["0", "c0000016", "c000006d", "c0000016", "c000006d"];
    assert_eq!(text.lines().collect::<Vec<_>>(), want, "{text}");
    server.await_line("replay");
}

/// A client that prints the status of each token: a KRB-ERROR comes with MORE_PROCESSING_REQUIRED.
const REPLAY: &str = include_str!("domain/replay.py");

/// A program that changes an object in the controller's directory.
const EDIT: &str = r#"
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

parameters = LoadParm()
parameters.load("/srv/ad/etc/smb.conf")
url = "/srv/ad/private/sam.ldb"
database = SamDB(url=url, session_info=system_session(), lp=parameters)
database.modify_ldif(open("/srv/edit.ldif").read())
"#;

fn a_ticket_without_a_signed_pac_is_refused(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    // NO_AUTH_DATA_REQUIRED of the member's account: its tickets have no PAC from then on.
    let edit = |value: &str| {
        let ldif = "dn: CN=MB,CN=Computers,DC=ad,DC=lab,DC=test\nchangetype: modify\n\
                    replace: userAccountControl\nuserAccountControl: ";
        fs::write(lab.path("srv/edit.ldif"), format!("{ldif}{value}\n")).expect("there is space");
        lab.ok("dc", &format!("/usr/bin/python3 -c '{EDIT}'"));
    };
    edit("33558528");
    kinit(lab, "alice");
    lab.is_refused(TICKET_OF_ALICE, "NT_STATUS_LOGON_FAILURE");
    server.await_line("no PAC");
    edit("4096");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
}

fn a_killed_logond_is_replaced_and_sessions_go_on(lab: &Lab) {
    let server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
    let first = server.logond().expect("it runs");
    // A client that stays, with an open session.
    let stays = "(sleep 6; echo ls; echo quit) |";
    let staying = lab
        .script(&["run", "cl", "sh", "-c", &format!("{stays} {TICKET_OF_ALICE} {SHARE}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash is installed");
    sleep(Duration::from_secs(3));
    Command::new("kill").args(["-9", &first]).status().expect("kill is there");
    await_true("another logond", || server.logond().is_some_and(|it| it != first));
    await_true("tickets again", || lab.smbclient(TICKET_OF_ALICE, "ls").status.success());
    let output = staying.wait_with_output().expect("it ends");
    assert!(text(&output).contains("blocks available"), "{}", shown(&output));
}

fn without_a_controller_tickets_work_and_passwords_fail_soon(lab: &Lab) {
    let _server = Server::start(lab, ADS, "");
    kinit(lab, "alice");
    lab.reaches(TICKET_OF_ALICE, "ls");
    lab.reaches(PASSWORD_OF_ALICE, "ls");
    lab.ok("cl", "KRB5CCNAME=/tmp/cc.alice kvno cifs/mb.ad.lab.test");
    lab.link("down");
    // The client is on the other side of the same bridge; from the member itself it is local.
    let local = |options: &str| {
        let line = format!("timeout 90 {options} {SHARE} -c ls");
        lab.run("mb", &format!("cp /tmp/cc.alice /tmp/cc.member; {line}"))
    };
    let password = local(PASSWORD_OF_ALICE);
    let begun = Instant::now();
    let ticket = local("env KRB5CCNAME=/tmp/cc.member smbclient -N --use-kerberos=required");
    let took = begun.elapsed();
    let begun = Instant::now();
    let again = local(PASSWORD_OF_ALICE);
    let refused_after = begun.elapsed();
    lab.link("up");
    assert!(ticket.status.success() && took < Duration::from_secs(10), "{}", shown(&ticket));
    for refused in [&password, &again] {
        assert!(text(refused).contains("NT_STATUS_NO_LOGON_SERVERS"), "{}", shown(refused));
    }
    assert!(refused_after < Duration::from_secs(10), "{refused_after:?}");
    await_true("passwords again", || lab.smbclient(PASSWORD_OF_ALICE, "ls").status.success());
}

fn a_realm_without_a_domain_has_users_of_this_system(lab: &Lab) {
    let realm = "security = user\nrealm = REALM.LAB.TEST\nkerberos method = dedicated keytab\n\
                 dedicated keytab file = /srv/realm/keytab";
    let server = Server::start(lab, realm, "");
    let reaches = |user: &str, password: &str| {
        let kinit = format!("echo Passw0rd-{password} | kinit {user}");
        let client = format!("smbclient -N --use-kerberos=required {SHARE}");
        lab.run("cl", &format!("{REALM} {kinit} && {client} -c 'mkdir by_{password}'"))
    };
    let carol = reaches("carol", "carol");
    assert!(carol.status.success(), "{}\n{}", shown(&carol), server.log());
    let owner = lab.ok("mb", "stat -c %u /srv/choro/data/by_carol");
    assert_eq!(owner.trim(), "4242");
    // Unknown here, an instance of a known user, and root.
    for (user, password) in [("dave", "dave"), ("carol/admin", "carol"), ("root", "root")] {
        let refused = reaches(user, password);
        assert!(text(&refused).contains("NT_STATUS_LOGON_FAILURE"), "{user}: {}", shown(&refused));
    }
}

type Check = fn(&Lab);

/// The checks, in an order that leaves the slow ones to the end.
const CHECKS: &[(&str, Check)] = &[
    ("one user", tickets_and_passwords_of_the_domain_make_one_user),
    ("protections", every_protection_and_dialect_works_with_a_ticket),
    ("groups", nested_groups_of_the_domain_count),
    ("reasons", wrong_passwords_and_accounts_are_refused_with_the_domain_s_reason),
    ("minimum", a_uid_below_the_minimum_is_refused),
    ("no NTLM", without_ntlm_only_tickets_are_accepted),
    ("lists", lists_name_users_of_the_domain),
    ("names", names::sids_and_names_of_the_domain_are_translated),
    ("names: list", names::a_group_of_the_domain_in_a_descriptor_counts_for_its_members),
    ("names: winbindd", names::without_winbindd_names_are_unknown_soon),
    ("replay", a_replayed_ticket_and_a_changed_one_are_refused),
    ("attack: PAC", attacks::a_pac_that_the_controller_has_not_signed_is_refused),
    ("attack: clock", attacks::a_client_with_a_wrong_clock_may_try_once_more),
    ("attack: other server", attacks::a_ticket_for_another_server_is_refused),
    ("attack: root", attacks::a_user_of_the_domain_with_a_local_name_is_the_domain_s),
    ("attack: tokens", attacks::logond_survives_tokens_of_all_kinds),
    ("attack: alone", attacks::without_winbindd_users_of_the_domain_are_refused_at_once),
    ("no PAC", a_ticket_without_a_signed_pac_is_refused),
    ("death", a_killed_logond_is_replaced_and_sessions_go_on),
    ("realm", a_realm_without_a_domain_has_users_of_this_system),
    ("keys: missing", keys::without_winbindd_s_database_the_log_says_which_parameter_names_it),
    ("keys: former", keys::a_ticket_for_the_former_password_stays_good),
    ("keys: change", keys::no_ticket_fails_while_the_machine_s_password_changes),
    ("check", check::a_good_membership_has_no_faults),
    ("check: faults", check::each_fault_comes_with_its_remedy),
    ("check: alone", check::a_missing_winbindd_or_controller_is_a_fault),
    ("check: doctor", check::the_doctor_does_not_guess_the_rights_of_a_user_of_the_domain),
    ("outage", without_a_controller_tickets_work_and_passwords_fail_soon),
    ("smbtorture", torture::smbtorture_s_tests_of_sessions_pass_with_tickets),
    ("kernel", kernel::the_linux_kernel_mounts_with_tickets_and_passwords),
    // Last: it changes the name service of the lab.
    ("moving", moving::a_member_of_samba_moves_here_and_back),
];

/// Lines of the server's log beside a failed check: the reason must not be lost among them.
const LINES_SHOWN: usize = 60;

/// One test, since all checks share one domain, and some change it for a while.
#[test]
fn a_member_of_a_domain_serves_its_users() {
    if std::env::var_os("CHORO_DOMAIN_LAB").is_none() {
        eprintln!("left out here: it takes root and some minutes; `make domain-test` runs it");
        return;
    }
    let Some(lab) = Lab::build() else { return };
    let only = std::env::var("CHORO_DOMAIN_ONLY").unwrap_or_default();
    let is_wanted = |name: &str| only.split(',').any(|word| name.contains(word));
    let mut failed = Vec::new();
    for (name, check) in CHECKS.iter().filter(|(name, _)| is_wanted(name)) {
        let begun = Instant::now();
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&lab))) else {
            eprintln!("{name}: ok in {:?}", begun.elapsed());
            continue;
        };
        eprintln!("{name}: FAILED in {:?}", begun.elapsed());
        let log = fs::read_to_string(lab.path("srv/choro/log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        eprintln!("the end of the server's log:\n{}", end.join("\n"));
        let reason = panic.downcast_ref::<String>().map(String::as_str);
        let reason = reason.or_else(|| panic.downcast_ref::<&str>().copied());
        failed.push(format!("{name}: {}", reason.unwrap_or("no reason in words")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
