//! `choro check --domain`: the membership of a domain, from the join to one user's groups.

use std::fs::DirBuilder;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::bail;
use config::Global;
use logon::gss::Gss;
use logon::winbind::{Connection, Winbind, WinbindError};
use logond::OwnKeytab;
use observe::report;
use settings::Settings;
use shares::host_names::{netbios_name, server_dns_names};

use super::controller_time::seconds_ahead;

/// Difference of clocks that Kerberos tolerates, in seconds.
const SKEW_MAX: u64 = 300;

/// Highest number of names whose tickets are checked.
const NAMES_MAX: usize = 64;

/// Remedy where the controller has another key of the machine than this server.
const OTHER_KEY: &str = "the controller has another key than this server: join again (`net ads \
                         join`), or renew the keytab (`net ads keytab create`)";

/// One line of the report.
#[derive(Debug)]
struct Finding {
    subject: &'static str,
    message: String,
    /// Remedy of a fault; none if all is well.
    remedy: Option<String>,
}

/// Checks the membership and prints what was found.
///
/// # Errors
/// If the configuration is not that of a member, or there is a fault.
pub(super) fn show(settings: &Settings, user: Option<&str>, json: bool) -> anyhow::Result<()> {
    if !settings.config.global.is_member() {
        bail!("this server is not a member of a domain: set `security = ads`");
    }
    let mut findings = Findings::default();
    findings.check(settings, user);
    let Findings(findings) = findings;
    let faults = findings.iter().filter(|it| it.remedy.is_some()).count();
    if json {
        report::print_json(findings.iter().map(row).collect())?;
    } else {
        report::print(&findings.iter().map(line).collect::<String>())?;
    }
    match faults {
        0 => Ok(()),
        1 => bail!("1 fault"),
        _ => bail!("{faults} faults"),
    }
}

fn line(finding: &Finding) -> String {
    let Finding { subject, message, remedy } = finding;
    match remedy {
        None => format!("ok     {subject}: {message}\n"),
        Some(remedy) => format!("FAULT  {subject}: {message}\n       To do: {remedy}\n"),
    }
}

fn row(finding: &Finding) -> report::Row {
    vec![
        ("kind", "domain".into()),
        ("subject", finding.subject.into()),
        ("ok", finding.remedy.is_none().into()),
        ("message", finding.message.clone().into()),
        ("remedy", finding.remedy.clone().into()),
    ]
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, subject: &'static str, found: Result<String, (String, String)>) {
        let (message, remedy) = match found {
            Ok(message) => (message, None),
            Err((message, remedy)) => (message, Some(remedy)),
        };
        self.0.push(Finding { subject, message, remedy });
    }

    fn check(&mut self, settings: &Settings, user: Option<&str>) {
        let config = &settings.config;
        let global = &config.global;
        let (dns_name, dns_domain) = server_dns_names(config);
        let mut winbind = connect().map_err(|fault| self.add("winbindd", Err(fault))).ok();
        let has_controller =
            winbind.as_mut().is_some_and(|connection| self.membership(connection, settings));
        self.add("DNS", own_address(&dns_name));
        let mut names = vec![dns_name, netbios_name(config).to_lowercase()];
        let aliases = global.netbios_aliases.iter().map(|it| it.to_lowercase());
        names.extend(aliases.chain(global.additional_dns_hostnames.iter().cloned()));
        names.retain(|name| name != "*");
        names.truncate(NAMES_MAX);
        // Each question would wait for a minute.
        if !has_controller {
            return self.add("tickets", Ok("not checked: no controller can be asked".to_owned()));
        }
        self.tickets(settings, &names, &dns_domain);
        if let Some(connection) = &mut winbind {
            match user {
                Some(user) => self.add("user", seen(connection, global, user)),
                None => {
                    self.add("user", Ok("not checked: --domain-user NAME names one".to_owned()))
                }
            }
        }
    }

    /// Checks the join and what a controller says of it. Returns whether one answers.
    fn membership(&mut self, connection: &mut Connection, settings: &Settings) -> bool {
        let config = &settings.config;
        let joined = joined(connection, &config.global, &netbios_name(config));
        let details = connection.details().is_ok();
        self.add("join", joined);
        if !details {
            return false;
        }
        let controller = connection.controller().map_err(|error| {
            let remedy = "check that DNS leads to the domain (`/etc/resolv.conf`) and that a \
                          controller runs";
            (format!("none answers: {error}"), remedy.to_owned())
        });
        self.add("controller", controller.clone());
        let Ok(controller) = controller else { return false };
        self.add("clock", clock(&controller, seconds_ahead(&controller)));
        self.add("password of the machine", trust(connection));
        true
    }

    /// Fetches a ticket for each name and has it checked, as a client's.
    fn tickets(&mut self, settings: &Settings, names: &[String], domain: &str) {
        let global = &settings.config.global;
        let prepared = OwnKeytab::of(global)
            .and_then(|keytab| Ok((keytab, Gss::open().map_err(|error| error.to_string())?)));
        let (keytab, gss) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let remedy = "run this as root; join (`net ads join`), or let `domain secrets` or \
                              `kerberos method` name the keys";
                return self.add("keys", Err((error, remedy.to_owned())));
            }
        };
        let place = match keytab.name() {
            None => "those of the keytab of the system",
            Some(name) if name.starts_with("FILE:/proc/self/fd/") => "those of winbindd's database",
            Some(name) => name,
        };
        self.add("keys", Ok(place.to_owned()));
        let realm = domain.to_uppercase();
        let machine = netbios_name(&settings.config);
        let client = format!("{machine}$@{realm}");
        for name in names {
            let service = format!("cifs/{name}@{realm}");
            let token = gss.ticket_for(keytab.name(), &client, &service);
            let found = match token {
                Ok(token) => {
                    accepts(gss, &keytab, &token).map_err(|error| (error, OTHER_KEY.into()))
                }
                Err(error) => {
                    let remedy = remedy_of(&error, name, &machine);
                    Err((error, remedy))
                }
            };
            let fault = |(error, remedy): (String, String)| {
                (format!("{service}: {}", brief(&error)), remedy)
            };
            self.add("ticket", found.map(|()| service.clone()).map_err(fault));
        }
    }
}

/// Judges the seconds by which the controller's clock is ahead.
fn clock(controller: &str, ahead: anyhow::Result<i64>) -> Result<String, (String, String)> {
    match ahead {
        Ok(ahead) if ahead.unsigned_abs() < SKEW_MAX => {
            Ok(format!("{} s from that of {controller}", ahead.unsigned_abs()))
        }
        Ok(ahead) => {
            let way = if ahead < 0 { "ahead of" } else { "behind" };
            let seconds = ahead.unsigned_abs();
            Err((
                format!("{seconds} s {way} that of {controller}; tickets allow {SKEW_MAX} s"),
                "synchronize this machine's time (chrony, systemd-timesyncd)".to_owned(),
            ))
        }
        Err(error) => Err((
            format!("{controller}: {error:#}"),
            "let this machine reach port 389 of the controller".to_owned(),
        )),
    }
}

fn connect() -> Result<Connection, (String, String)> {
    let winbind = Winbind::open();
    let winbind = winbind.map_err(|error| (error.to_string(), "install it".to_owned()))?;
    let connection = winbind.connection();
    connection.map_err(|error| (error.to_string(), "start winbindd".to_owned()))
}

fn joined(
    connection: &mut Connection,
    global: &Global,
    own: &str,
) -> Result<String, (String, String)> {
    let details = connection.details().map_err(|error| {
        let remedy = "start winbindd (`systemctl start winbind`), after `net ads join`";
        (error.to_string(), remedy.to_owned())
    })?;
    let expected = [
        ("workgroup", &global.workgroup, &details.netbios_domain),
        ("realm", &global.realm, &details.dns_domain),
        ("netbios name", &own.to_owned(), &details.netbios_name),
    ];
    for (parameter, configured, actual) in expected {
        if !configured.eq_ignore_ascii_case(actual) {
            let remedy = format!(
                "set `{parameter} = {actual}`, or join again with a configuration that agrees"
            );
            return Err((
                format!("winbindd has {actual}, and `{parameter}` is {configured}"),
                remedy,
            ));
        }
    }
    Ok(format!("{} in {} ({})", details.netbios_name, details.netbios_domain, details.dns_domain))
}

fn trust(connection: &mut Connection) -> Result<String, (String, String)> {
    match connection.check_trust() {
        Ok(()) => Ok("the controller accepts it".to_owned()),
        Err(WinbindError::Unavailable(reason)) => {
            let remedy = "see the line about the controller".to_owned();
            Err((format!("it cannot be checked: {reason}"), remedy))
        }
        Err(error) => Err((
            format!("the controller does not accept it: {error}"),
            "join again: `net ads join -U administrator`, then restart winbindd".to_owned(),
        )),
    }
}

/// Clients find the server by its DNS name, which must lead here.
fn own_address(name: &str) -> Result<String, (String, String)> {
    let remedy = || format!("register it with `net ads dns register`, or add {name} to DNS");
    let addresses: Vec<IpAddr> = match (name, 445).to_socket_addrs() {
        Ok(addresses) => addresses.map(|it| it.ip()).collect(),
        Err(error) => return Err((format!("{name} has no address: {error}"), remedy())),
    };
    // Only an own address can be bound.
    let own = addresses.iter().find(|address| UdpSocket::bind((**address, 0)).is_ok());
    match own {
        Some(address) => Ok(format!("{name} is {address}, of this machine")),
        None => Err((format!("{name} leads to another machine: {addresses:?}"), remedy())),
    }
}

/// Has a ticket checked by the own keys.
fn accepts(gss: Gss, keytab: &OwnKeytab, token: &[u8]) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("choro-check-{}", std::process::id()));
    in_new_folder(&folder, |folder| {
        let keys = gss.keys(keytab.name(), &folder.join("replay"))?;
        keys.accept(token).map(|_| ()).map_err(|refusal| refusal.reason)
    })
}

/// Makes a folder for its user alone, and removes it after the work. One that is there already is
/// somebody else's, and stays: anybody may make one in the folder for temporary files.
fn in_new_folder(
    folder: &Path,
    work: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    let result = work(folder);
    drop(std::fs::remove_dir_all(folder));
    result
}

/// The mechanism's own words, without those that the library puts before all of them.
fn brief(error: &str) -> &str {
    error.split_once("more information: ").map_or(error, |(_, own)| own)
}

fn remedy_of(error: &str, name: &str, machine: &str) -> String {
    if error.contains("not found in Kerberos database") {
        format!("`net ads setspn add {machine} cifs/{name} -U administrator`")
    } else if error.contains("reauthentication failed") || error.contains("o credentials") {
        format!(
            "the keys are not the present ones of {machine}: join again (`net ads join`), or renew \
             the keytab"
        )
    } else if error.contains("lock skew") {
        "synchronize this machine's time (chrony, systemd-timesyncd)".to_owned()
    } else {
        "check that DNS leads to the domain, and that krb5.conf names its controllers".to_owned()
    }
}

/// Follows a user from the name to the ids of its groups.
fn seen(
    connection: &mut Connection,
    global: &Global,
    user: &str,
) -> Result<String, (String, String)> {
    let fault = |remedy: &str, error: String| (format!("{user}: {error}"), remedy.to_owned());
    let unknown = "check the name (`wbinfo -n`)";
    let found = connection
        .sid_of(&global.workgroup, user)
        .map_err(|error| fault(unknown, error.to_string()))?
        .ok_or_else(|| fault(unknown, "the domain does not know this user".to_owned()))?;
    let ranges = "give the domain a range of ids: `idmap config DOMAIN : range`";
    let ids = connection
        .system_user(&found.sid)
        .map_err(|error| fault(ranges, format!("{} has no user id: {error}", found.sid)))?;
    if ids.uid < global.min_domain_uid {
        let remedy = "move the range of ids (`idmap config`), or lower `min domain uid`";
        let reason = format!("the user id {} is below `min domain uid`", ids.uid);
        return Err(fault(remedy, reason));
    }
    if let Some(local) = local_name(ids.uid).filter(|local| *local != ids.name) {
        let remedy = "move the range of ids (`idmap config`): it has ids of this system";
        return Err(fault(remedy, format!("the user id {} is that of {local}", ids.uid)));
    }
    let groups = connection
        .groups_of(&found.sid)
        .map_err(|error| fault(unknown, format!("its groups are not known: {error}")))?;
    let gids = connection
        .group_ids(&groups)
        .map_err(|error| fault(ranges, format!("its groups have no ids: {error}")))?;
    let with_id = gids.iter().flatten().count();
    Ok(format!(
        "{} is {} here: user id {}, group id {}, {with_id} of {} groups have ids",
        found.sid,
        ids.name,
        ids.uid,
        ids.gid,
        groups.len()
    ))
}

/// The user in /etc/passwd with this id.
fn local_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let has_id = |line: &&str| line.split(':').nth(2) == Some(&*uid.to_string());
    users.lines().find(has_id)?.split(':').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_clock_may_differ_by_less_than_five_minutes() {
        assert_eq!(clock("dc", Ok(-299)), Ok("299 s from that of dc".to_owned()));
        for (ahead, expected) in [(300, "behind"), (-300, "ahead of")] {
            let (message, remedy) = clock("dc", Ok(ahead)).expect_err("tickets are refused");
            assert!(message.contains(expected) && remedy.contains("time"), "{message}");
        }
        let (message, _) = clock("dc", Err(anyhow::anyhow!("no answer"))).expect_err("unknown");
        assert!(message.contains("no answer"), "{message}");
    }

    #[test]
    fn an_error_of_kerberos_has_its_remedy() {
        let before = "Unspecified GSS failure.  Minor code may provide more information: ";
        let unknown = format!("{before}Server not found in Kerberos database");
        assert_eq!(brief(&unknown), "Server not found in Kerberos database");
        let remedy = remedy_of(&unknown, "files.lab", "MB");
        assert!(remedy.starts_with("`net ads setspn add MB cifs/files.lab"), "{remedy}");
        for (error, expected) in [
            ("Preauthentication failed", "net ads join"),
            ("No credentials cache found", "net ads join"),
            ("Clock skew too great", "time"),
            ("Cannot find KDC for realm", "DNS"),
        ] {
            assert!(remedy_of(error, "files", "MB").contains(expected), "{error}");
        }
    }

    #[test]
    fn a_folder_that_somebody_else_has_made_is_neither_used_nor_removed() {
        let folder = tempfile::tempdir().expect("there is space");
        in_new_folder(folder.path(), |_| panic!("it is not new")).expect_err("it is there");
        assert!(folder.path().is_dir());
        let new = folder.path().join("new");
        let refused = in_new_folder(&new, |folder| {
            let mode = std::fs::metadata(folder).expect("it was made").permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
            std::fs::write(folder.join("replay"), "").expect("there is space");
            Err("not valid".to_owned())
        });
        assert_eq!((refused, new.exists()), (Err("not valid".to_owned()), false));
    }

    #[test]
    fn a_fault_is_shown_with_its_remedy() {
        let mut findings = Findings::default();
        findings.add("DNS", Err(("no address".to_owned(), "add one".to_owned())));
        findings.add("clock", Ok("0 s".to_owned()));
        let text: String = findings.0.iter().map(line).collect();
        assert_eq!(text, "FAULT  DNS: no address\n       To do: add one\nok     clock: 0 s\n");
    }
}
