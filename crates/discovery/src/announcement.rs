//! The announcement of the server to other machines: names, port, shares of Time Machine.

use std::path::{Path, PathBuf};

use anyhow::Context;
use config::Global;
use config::choice::MdnsName;
use config::interface::InterfaceSpec;
use settings::Settings;
use shares::{domain_sid, host_names};

use super::uuid;

/// Port at which Windows looks for servers.
const SMB_PORT: u16 = 445;

/// Model of the icon in the Finder if none is configured, as in Samba.
const MODEL: &str = "MacSamba";

/// Version of a UUID whose bits its maker chooses, here those of a hash: RFC 9562 5.8.
const HASHED: u8 = 8;

/// Longest label of a DNS name: RFC 1035 2.3.4.
const LABEL_BYTES_MAX: usize = 63;

/// Names and services that the server announces, and the protocols for that.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Announcement {
    /// Announce by multicast DNS (`multicast dns register`).
    pub(crate) mdns: bool,
    /// Announce the host by WS-Discovery (`choro:wsd`).
    pub(crate) wsd: bool,
    /// Resolve names by LLMNR (`choro:llmnr`).
    pub(crate) llmnr: bool,
    /// Name for people, in lists of servers.
    pub(crate) name: String,
    /// First label of the name of the host in multicast DNS.
    pub(crate) host: String,
    /// NetBIOS names, the server's own first.
    pub(crate) netbios_names: Vec<String>,
    /// Workgroup in whose list Windows shows the server.
    pub(crate) workgroup: String,
    /// Port of SMB, the first of several.
    pub(crate) port: u16,
    /// Model in multicast DNS, by which the Finder chooses an icon.
    pub(crate) model: String,
    /// Names of shares for Time Machine.
    pub(crate) time_machines: Vec<String>,
    /// Address of the host in WS-Discovery.
    pub(crate) uuid: String,
    /// Value of `interfaces`; empty selects interfaces that lead to neighbors.
    pub(crate) interfaces: Vec<InterfaceSpec>,
    /// File of the log: its process cannot open it again, once it has no rights.
    log_file: Option<PathBuf>,
}

/// Protocols by which other machines are told of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Protocols {
    /// Announce by multicast DNS (`multicast dns register`).
    pub mdns: bool,
    /// Announce the host by WS-Discovery (`choro:wsd`).
    pub wsd: bool,
    /// Resolve names by LLMNR (`choro:llmnr`).
    pub llmnr: bool,
}

impl Protocols {
    /// Returns the protocols of a configuration; `None` if nothing is to be told to anybody.
    ///
    /// # Errors
    /// The kernel does not list its addresses.
    pub fn of(global: &Global) -> anyhow::Result<Option<Self>> {
        // Windows has no means to learn of another port.
        let is_for_windows = global.smb_ports.contains(&SMB_PORT);
        let wsd = is_for_windows && global.option_is_on("choro", "wsd", true);
        let llmnr = is_for_windows && global.option_is_on("choro", "llmnr", true);
        let mdns = global.multicast_dns_register;
        if global.smb_ports.is_empty() || !(mdns || wsd || llmnr) {
            return Ok(None);
        }
        // These addresses stay the same until a reload.
        let is_reachable = !global.bind_interfaces_only
            || !interfaces::reachable(&global.interfaces)
                .context("cannot list addresses")?
                .is_empty();
        Ok(is_reachable.then_some(Self { mdns, wsd, llmnr }))
    }
}

impl Announcement {
    /// Returns the announcement of a configuration; `None` if no protocol is on,
    /// or no address is reachable.
    ///
    /// # Errors
    /// The SID, from which the address in WS-Discovery is made, cannot be read.
    pub fn of(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let config = &settings.config;
        let global = &config.global;
        let Some(Protocols { mdns, wsd, llmnr }) = Protocols::of(global)? else {
            return Ok(None);
        };
        let Some(&port) = global.smb_ports.first() else { return Ok(None) };
        let netbios_name = host_names::netbios_name(config);
        let (host, _) = host_names::dns_names();
        let host = host.split('.').next().unwrap_or_default().to_owned();
        let host = if global.netbios_name.is_empty() { host } else { netbios_name.to_lowercase() };
        let name = match global.mdns_name {
            MdnsName::Host => host.clone(),
            MdnsName::Netbios => netbios_name.clone(),
        };
        let time_machines = config.shares.iter().filter(|share| {
            share.available
                && share.has_module("fruit")
                && share.option_is_on("fruit", "time machine", false)
        });
        let netbios_names = [netbios_name].into_iter().chain(global.netbios_aliases.clone());
        let netbios_names: Vec<String> = netbios_names.filter(|name| is_label(name)).collect();
        Ok(Some(Self {
            mdns: mdns && is_label(&host),
            wsd: wsd && !netbios_names.is_empty(),
            llmnr: llmnr && !netbios_names.is_empty(),
            name,
            host,
            netbios_names,
            workgroup: global.workgroup.clone(),
            port,
            model: global.option("fruit", "model").map_or(MODEL, str::trim).to_owned(),
            time_machines: time_machines.map(|share| share.name.clone()).collect(),
            uuid: address(&settings.directories.state)?,
            interfaces: global.interfaces.clone(),
            log_file: settings.log_file(),
        }))
    }

    /// Whether a process with this announcement must be replaced by one with the other.
    #[must_use]
    pub fn is_outdated_by(&self, other: &Self) -> bool {
        // The log may have been renamed.
        self != other || self.log_file.is_some()
    }
}

/// Whether a name can be a label of a DNS name.
fn is_label(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LABEL_BYTES_MAX
        && !name.contains('.')
        && !name.chars().any(char::is_control)
}

/// Makes a UUID from the server's SID, which it keeps, so that both last equally long. Everybody in
/// the network gets the UUID, and must not learn the SID by it: so it is a hash.
fn address(state: &Path) -> anyhow::Result<String> {
    let sid = domain_sid::read_or_make(state)?;
    let bytes = crypto::fingerprint("choro WS-Discovery address", sid.to_string().as_bytes());
    Ok(uuid::text(bytes, HASHED))
}

#[cfg(test)]
mod tests {
    use config::Config;
    use settings::Settings;
    use std::sync::Arc;

    use super::{Announcement, address};

    fn announcement(global: &str, shares: &str) -> Option<Announcement> {
        let state = tempfile::tempdir().expect("there is space");
        let text = format!(
            "[global]\nnetbios name = nas\nbase directory = {}\n{global}\n{shares}",
            state.path().display()
        );
        std::fs::create_dir(state.path().join("state")).expect("it is new");
        let (config, _) = Config::parse(&text, "test").expect("it is one");
        let directories = config.directories();
        let source = settings::Source::File("test".into());
        let config = Arc::new(config);
        let settings = Settings { config, directories, source, warnings: Vec::new() };
        let announced = Announcement::of(&settings).expect("the SID can be made");
        assert_eq!(announced, Announcement::of(&settings).expect("and is kept"));
        announced
    }

    #[test]
    fn everything_is_announced_unless_it_is_switched_off() {
        let announced = announcement("netbios aliases = files", "").expect("all of it");
        assert!(announced.mdns && announced.wsd && announced.llmnr);
        assert_eq!((announced.name.as_str(), announced.host.as_str()), ("NAS", "nas"));
        assert_eq!(announced.netbios_names, ["NAS", "files"]);
        assert_eq!((announced.port, announced.uuid.len()), (445, 36));
        let off = "multicast dns register = no\nchoro:wsd = no\nchoro:llmnr = no";
        assert_eq!(announcement(off, ""), None);
        let announced = announcement("mdns name = mdns\nchoro:wsd = no", "").expect("two of them");
        assert!(announced.mdns && !announced.wsd && announced.llmnr);
        assert_eq!(announced.name, "nas");
    }

    #[test]
    fn the_address_shows_nothing_of_the_sid_and_lasts_as_long() {
        let state = tempfile::tempdir().expect("there is space");
        let write = |text: &str| {
            std::fs::write(state.path().join("domain_sid"), text).expect("there is space");
        };
        // printf 'choro WS-Discovery address\0S-1-5-21-1-2-3' | sha256sum, with version and variant
        write("S-1-5-21-1-2-3\n");
        assert_eq!(address(state.path()).expect("a SID"), "d61a9d07-894d-8423-9730-dafb8afd2a6c");
        assert_eq!(address(state.path()).expect("a SID"), "d61a9d07-894d-8423-9730-dafb8afd2a6c");
        let parts = [0x1234_5678_u32, 0x9ABC_DEF0, 0x1357_9BDF];
        write(&format!("S-1-5-21-{}-{}-{}\n", parts[0], parts[1], parts[2]));
        let announced = address(state.path()).expect("a SID");
        for part in parts {
            let hex = format!("{part:08x}");
            for digits in [&hex[..4], &hex[4..]] {
                assert!(!announced.contains(digits), "{announced} has {digits} of the SID");
            }
        }
    }

    #[test]
    fn windows_finds_no_server_at_another_port() {
        let announced = announcement("smb ports = 4450", "").expect("by multicast DNS");
        assert!(announced.mdns && !announced.wsd && !announced.llmnr);
        assert_eq!(announced.port, 4_450);
        assert_eq!(announcement("smb ports = 4450\nmulticast dns register = no", ""), None);
    }

    #[test]
    fn a_server_of_this_machine_alone_announces_nothing() {
        let loopback = "interfaces = 127.0.0.1\nbind interfaces only = yes";
        assert_eq!(announcement(loopback, ""), None);
    }

    #[test]
    fn shares_for_time_machine_need_the_module() {
        let shares = "[a]\npath=/a\nvfs objects = fruit\nfruit:time machine = yes\n\
                      [b]\npath=/b\nfruit:time machine = yes\n[c]\npath=/c\nvfs objects = fruit\n";
        let announced = announcement("fruit:model = RackMac", shares).expect("all of it");
        assert_eq!(announced.time_machines, ["a"]);
        assert_eq!(announced.model, "RackMac");
    }
}
