//! `choro doctor network`: why do other machines not list this server, or not reach it?

use anyhow::Error;
use config::interface::InterfaceSpec;
use config::{Global, nearest_of};
use discovery::wsd::HTTP_PORT as WSD_PORT;
use discovery::{MDNS_PORT, Protocols, has_service_file};
use interfaces::{InterfaceAddress, addresses};
use settings::{Settings, Source};
use shares::host_names::{NETBIOS_NAME_LEN, dns_names, netbios_name};

use super::finding::{Change, Finding, word};
use super::ports::{Holder, Protocol, has_process, holders, is_of_server};
use super::user_name::name_of;

/// Port of SMB, the only one that Windows knows.
const SMB_PORT: u16 = 445;

/// Findings about the server, ports, discovery and interfaces. `supervisor` is the pid of the
/// running server, or the reason why there is none.
///
/// # Errors
/// The kernel does not list the addresses.
pub(super) fn examine(
    settings: &Settings,
    supervisor: Result<u32, &Error>,
) -> anyhow::Result<Vec<Finding>> {
    let global = &settings.config.global;
    let protocols = Protocols::of(global)?;
    let mut findings = Vec::from_iter(supervisor.err().map(not_running));
    let supervisor = supervisor.ok();
    findings.extend(ports(global, supervisor));
    findings.extend(switched_off(settings));
    findings.extend(long_name(settings));
    if let Some(protocols) = protocols {
        findings.extend(interfaces(global)?);
        findings.extend(daemon(protocols, supervisor));
    } else if global.bind_interfaces_only {
        findings.push(only_loopback());
    }
    Ok(findings)
}

/// The firewall, of which nothing can be known here.
pub(super) fn firewall(global: &Global) -> Finding {
    let ports: Vec<String> = global.smb_ports.iter().map(u16::to_string).collect();
    let reason = format!(
        "A firewall cannot be examined from here. Clients need TCP {}; to find the server, TCP \
         {WSD_PORT} and UDP {MDNS_PORT}, 3702 and 5355.",
        ports.join(", ")
    );
    let fact = "A firewall of this machine or of the network may exclude clients.";
    Finding::note("firewall", fact, reason).command("nft list ruleset")
}

fn not_running(error: &Error) -> Finding {
    let fact = "The server does not run, or cannot be examined by this user.";
    let finding = Finding::fault("not_running", fact, format!("{error:#}"));
    finding.command("systemctl enable --now choro")
}

fn ports(global: &Global, supervisor: Option<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for port in &global.smb_ports {
        let holders = holders(Protocol::Tcp, *port);
        match (holders, supervisor) {
            (None, Some(_)) => {
                let fact = format!("The server does not listen at TCP port {port}.");
                let reason = "It runs, and the port was not free, or not configured, at its start.";
                let finding = Finding::fault("not_listening", fact, reason);
                findings.push(finding.command("systemctl restart choro"));
            }
            (None, None) => {}
            (Some(holders), supervisor) => {
                let is_other =
                    |it: &&Holder| supervisor.is_none_or(|own| !is_of_server(it.pid, own));
                let others: Vec<&Holder> = holders.iter().filter(is_other).collect();
                // A worker's listener is the supervisor's.
                if let Some(other) = others.first().filter(|_| others.len() == holders.len()) {
                    let fact = format!("The server cannot listen at TCP port {port}.");
                    findings.push(taken("port_taken", fact, other));
                }
            }
        }
    }
    findings
}

fn taken(cause: &'static str, fact: String, holder: &Holder) -> Finding {
    let reason = format!("Another program has the port: {}.", described(holder));
    let finding = Finding::fault(cause, fact, reason);
    match &holder.service {
        Some(service) => finding.command(format!("systemctl disable --now {}", word(service))),
        // Its name is its own choice, so no command may have it.
        None => {
            finding.advice(format!("stop process {} of {}", holder.pid, name_of(holder.user, "")))
        }
    }
}

/// A process and its user, whose name may lie about the program.
fn described(Holder { pid, program, user, .. }: &Holder) -> String {
    format!("{program} (pid {pid}, user {})", name_of(*user, ""))
}

/// Protocols that the configuration switches off.
fn switched_off(settings: &Settings) -> Vec<Finding> {
    let global = &settings.config.global;
    let mut findings = Vec::new();
    if !global.smb_ports.contains(&SMB_PORT) {
        let ports: Vec<String> = global.smb_ports.iter().map(u16::to_string).collect();
        let is_container = matches!(settings.source, Source::Container(_));
        let name = if is_container { "CHORO_PORT" } else { "smb ports" };
        let reason = format!(
            "Windows connects to port {SMB_PORT} only, and `{name}` is {}.",
            ports.join(" ")
        );
        let fact = "Windows neither lists nor reaches this server.";
        let finding = Finding::warning("smb_ports", fact, reason);
        findings.push(match is_container {
            true => finding.advice(format!(
                "start the container with CHORO_PORT={SMB_PORT}, or have port {SMB_PORT} of the \
                 host lead to its port"
            )),
            false => finding.change(Change::global(format!("smb ports = {SMB_PORT}"))),
        });
    } else {
        for (option, fact) in [
            ("wsd", "Windows does not list this server."),
            ("llmnr", "Windows does not find this server by its name without DNS."),
        ] {
            if !global.option_is_on("choro", option, true) {
                let reason = format!("`choro:{option} = no` switches the protocol off.");
                let line = Change::global(format!("choro:{option} = yes"));
                findings.push(Finding::warning("switched_off", fact, reason).change(line));
            }
        }
    }
    if !global.multicast_dns_register {
        let fact = "macOS and Linux do not list this server.";
        let reason = "`multicast dns register = no` switches the protocol off.";
        let line = Change::global("multicast dns register = yes");
        findings.push(Finding::warning("switched_off", fact, reason).change(line));
    }
    findings
}

fn long_name(settings: &Settings) -> Option<Finding> {
    let (host, _) = dns_names();
    let host = host.split('.').next().unwrap_or_default().to_owned();
    if host.chars().count() <= NETBIOS_NAME_LEN || !settings.config.global.netbios_name.is_empty() {
        return None;
    }
    let short = netbios_name(&settings.config);
    let fact = format!("Windows lists this server as {short}, not as {host}.");
    let reason = format!("NetBIOS names have at most {NETBIOS_NAME_LEN} characters.");
    let line = Change::global(format!("netbios name = {short}"));
    Some(Finding::note("long_name", fact, reason).change(line))
}

/// Interfaces on which the server is not announced.
fn interfaces(global: &Global) -> anyhow::Result<Vec<Finding>> {
    let announced = interfaces::reachable(&global.interfaces)?;
    let all = addresses::list()?;
    let is_candidate = |it: &&InterfaceAddress| {
        it.is_up && !it.address.is_loopback() && !it.is_link_local() && !announced.contains(it)
    };
    let left_out: Vec<_> = all.iter().filter(is_candidate).collect();
    let Some(first) = left_out.first() else {
        return Ok(match announced.is_empty() {
            true => vec![only_loopback()],
            false => Vec::new(),
        });
    };
    let mut names: Vec<&str> = left_out.iter().map(|it| it.interface.as_str()).collect();
    names.dedup();
    let names = names.join(", ");
    let (known, unknown): (Vec<_>, Vec<_>) =
        global.interfaces.iter().partition(|spec| is_known(spec, &all));
    let unknown: Vec<&str> = unknown.iter().map(|it| it.selector.as_str()).collect();
    let mut similar = unknown
        .iter()
        .filter_map(|it| nearest_of(it, left_out.iter().map(|it| it.interface.as_str())));
    let wanted = similar.next().unwrap_or(&first.interface);
    let named = known.iter().map(|it| it.selector.as_str());
    let line = named.chain([wanted]).collect::<Vec<_>>().join(" ");
    let line = Change::global(format!("interfaces = {line}"));
    if !announced.is_empty() {
        let fact = format!("This server is not announced on {names}.");
        let reason = not_announced(global, &unknown);
        return Ok(vec![Finding::note("interface", fact, reason).change(line)]);
    }
    let fact = "This server is announced on no interface.";
    let finding = Finding::fault("interface", fact, not_announced(global, &unknown));
    let finding = finding.change(line);
    Ok(vec![finding.advice("start a container with the network of the host: --network host")])
}

/// Whether this machine has the interface or address that a word of `interfaces` names.
fn is_known(spec: &InterfaceSpec, addresses: &[InterfaceAddress]) -> bool {
    addresses.iter().any(|it| it.is_named_by(spec)) || addresses::is_interface(spec)
}

/// `unknown` are the words of `interfaces` that name none of this machine.
fn not_announced(global: &Global, unknown: &[&str]) -> String {
    match (global.interfaces.is_empty(), unknown) {
        (true, _) => "Cables to containers (veth), and bridges that have no other port, lead to \
                      no other machine unless `interfaces` names them."
            .to_owned(),
        (false, []) => "`interfaces` names others.".to_owned(),
        (false, unknown) => format!(
            "`interfaces` names others; this machine has no interface {}.",
            unknown.join(", ")
        ),
    }
}

fn only_loopback() -> Finding {
    let fact = "This server is announced on no interface.";
    let reason = "It listens on loopback addresses only, or this machine has no others.";
    let finding = Finding::fault("interface", fact, reason);
    finding.change(Change::global("bind interfaces only = no"))
}

/// The process that announces the server, and other programs with its ports.
fn daemon(protocols: Protocols, supervisor: Option<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(supervisor) = supervisor else { return findings };
    if !has_process(supervisor, process::arguments::DISCOVERYD_COMMAND) {
        let fact = "This server is not announced to other machines.";
        let reason = "Its process discoveryd does not run. The log of the server has the reason.";
        let finding = Finding::fault("no_discoveryd", fact, reason);
        findings.push(finding.command("journalctl -u choro -g discoveryd"));
    }
    let other = |protocol, port| {
        let holders = holders(protocol, port)?;
        holders.into_iter().find(|it| !is_of_server(it.pid, supervisor))
    };
    if protocols.wsd
        && let Some(holder) = other(Protocol::Tcp, WSD_PORT)
    {
        let fact = "Windows may not list this server.".to_owned();
        let finding = taken("wsd_port_taken", fact, &holder);
        findings.push(finding.change(Change::global("choro:wsd = no")));
    }
    if protocols.mdns
        && !has_service_file()
        && let Some(holder) = other(Protocol::Udp, MDNS_PORT)
    {
        let holder = described(&holder);
        let fact = "macOS and Linux may not list this server.";
        let reason = format!(
            "{holder} has UDP port {MDNS_PORT}, and no service file of this server: \
             the server must start after it, and as root."
        );
        let finding = Finding::warning("mdns_port_taken", fact, reason);
        findings.push(finding.command("systemctl restart choro"));
    }
    findings
}
