//! Names by which clients may mean this server.
//!
//! A client states the service that it logs on to, and its proof covers that (MsvAvTargetName of
//! [MS-NLMP] 2.2.2.1). A name that is not this server's shows that an attacker made the client log
//! on elsewhere and relays its messages.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use config::Config;
use interfaces::addresses;
use shares::host_names::{dns_names, netbios_name, server_dns_names};

/// The names of this server.
#[derive(Debug)]
pub(super) struct OwnNames {
    /// Names without a domain, in small letters.
    short: HashSet<String>,
    /// Names that hold as they are, in small letters, and addresses.
    whole: HashSet<String>,
    is_any: bool,
    /// Names from the system's files, read at the first need.
    files: OnceCell<Files>,
}

/// Names of this server in the system's files.
#[derive(Debug, Default)]
struct Files {
    /// The domains in which the host looks for names.
    domains: Vec<String>,
    /// Addresses and their names, from /etc/hosts.
    hosts: Vec<(IpAddr, Vec<String>)>,
}

/// The parameter that names further ones.
pub(super) const PARAMETER: &str = "additional dns hostnames";

/// Bytes that are read of a file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

impl OwnNames {
    /// Those of a configuration and of the host.
    pub(super) fn of(config: &Config) -> Self {
        let global = &config.global;
        let (host, domain) = dns_names();
        let short_host = host.split('.').next().unwrap_or_default().to_owned();
        let aliases = global.netbios_aliases.iter().cloned();
        let short: HashSet<String> =
            aliases.chain([netbios_name(config), short_host]).map(|it| it.to_lowercase()).collect();
        // Multicast DNS has names in `local`.
        let (_, server_domain) = server_dns_names(config);
        let domains = [domain.as_str(), server_domain.as_str(), "local"];
        let with_domain =
            domains.iter().flat_map(|domain| short.iter().map(move |it| format!("{it}.{domain}")));
        let additional = global.additional_dns_hostnames.iter().map(|it| normal(it));
        let whole = with_domain.chain(additional).chain([host.to_lowercase()]).collect();
        let is_any = global.additional_dns_hostnames.iter().any(|it| it == "*");
        Self { short, whole, is_any, files: OnceCell::new() }
    }

    /// Whether a client means this server that names the service so, and came to this address.
    pub(super) fn include(&self, target_name: &str, server: SocketAddr) -> bool {
        self.is_any || host_of(target_name).is_some_and(|host| self.is_own(&host, server.ip()))
    }

    fn is_own(&self, host: &str, server: IpAddr) -> bool {
        let server = server.to_canonical();
        if self.whole.contains(host) || self.short.contains(host) {
            return true;
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address == server || is_address_here(address);
        }
        if host == "localhost" {
            return server.is_loopback();
        }
        let files = self.files.get_or_init(Files::read);
        self.is_in_domain(host, files)
            || files.hosts.iter().any(|it| self.is_named(it, host, server))
    }

    fn is_in_domain(&self, host: &str, files: &Files) -> bool {
        host.split_once('.').is_some_and(|(name, domain)| {
            self.short.contains(name) && files.domains.iter().any(|it| it == domain)
        })
    }

    /// Whether a line of the hosts file is about this server and has the name.
    fn is_named(
        &self,
        (address, names): &(IpAddr, Vec<String>),
        host: &str,
        server: IpAddr,
    ) -> bool {
        let is_ours = address.to_canonical() == server
            || names.iter().any(|name| self.short.contains(name) || self.whole.contains(name));
        is_ours && names.iter().any(|name| name == host)
    }
}

impl Files {
    fn read() -> Self {
        let read = |path| read(Path::new(path)).unwrap_or_default();
        Self::parse(&read("/etc/resolv.conf"), &read("/etc/hosts"))
    }

    fn parse(resolv_conf: &str, hosts: &str) -> Self {
        let words = |line: &str| -> Vec<String> {
            let line = line.split('#').next().unwrap_or_default();
            line.split_whitespace().map(normal).collect()
        };
        let domains = resolv_conf.lines().map(words).filter_map(|words| match &words[..] {
            [key, domains @ ..] if key == "search" || key == "domain" => Some(domains.to_vec()),
            _ => None,
        });
        let hosts = hosts.lines().map(words).filter_map(|words| match &words[..] {
            [address, names @ ..] => Some((address.parse().ok()?, names.to_vec())),
            [] => None,
        });
        Self { domains: domains.flatten().collect(), hosts: hosts.collect() }
    }
}

/// Whether an address is one of this machine. One that cannot be found out is not.
fn is_address_here(address: IpAddr) -> bool {
    addresses::list().is_ok_and(|list| list.iter().any(|it| it.address.to_canonical() == address))
}

/// Returns the host of a service principal name in normal form: `cifs/host`,
/// `cifs/host:port/realm`, or a host alone. `None` if the service is not a file server.
fn host_of(target_name: &str) -> Option<String> {
    let host = match target_name.split_once('/') {
        Some((class, rest)) => {
            let is_ours = ["cifs", "host"].iter().any(|it| class.eq_ignore_ascii_case(it));
            is_ours.then(|| rest.split('/').next().unwrap_or_default())?
        }
        None => target_name,
    };
    let host = host.split('@').next().unwrap_or_default();
    Some(normal(without_port(host)))
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match host.split_once(':') {
        // A second colon is one of an address.
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

/// Converts a name to the form for comparisons: lower case, no dot at the end, addresses in their
/// shortest form, also those that Windows writes as a name (`fe80--1s4.ipv6-literal.net`).
fn normal(name: &str) -> String {
    let name = name.trim_end_matches('.').to_lowercase();
    let literal = name.strip_suffix(".ipv6-literal.net").map(|it| it.replace('-', ":"));
    let address = literal.as_ref().map_or(name.as_str(), |it| it.split('s').next().unwrap_or(it));
    let address = address.split('%').next().unwrap_or_default();
    address.parse::<IpAddr>().map_or_else(|_| name.clone(), |address| address.to_string())
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::OnceCell;
    use std::collections::HashSet;
    use std::net::SocketAddr;

    use super::{Files, OwnNames};

    fn names(whole: &[&str]) -> OwnNames {
        let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<HashSet<_>>();
        let files = Files::parse(
            "nameserver 192.0.2.53\nsearch Example.ORG lan # home\n",
            "127.0.0.1 localhost here\n192.0.2.10 files.example.net Files # ours\n\
             192.0.2.11 other\n",
        );
        let files = OnceCell::from(files);
        OwnNames { short: set(&["files", "alias"]), whole: set(whole), is_any: false, files }
    }

    #[track_caller]
    fn check(target_name: &str, server: &str, is_ours: bool) {
        let server: SocketAddr = server.parse().expect("an address");
        let names = names(&["files.local", "198.51.100.7"]);
        assert_eq!(names.include(target_name, server), is_ours, "{target_name}");
    }

    #[test]
    fn names_aliases_and_addresses_of_the_server_are_its_own_however_they_are_written() {
        let here = "192.0.2.10:445";
        for target_name in [
            "cifs/files",
            "CIFS/FILES",
            "host/alias",
            "files",
            "cifs/files.local",
            "cifs/files.example.org.",
            "cifs/alias.lan:445",
            "cifs/files.example.net/REALM",
            "cifs/files@REALM",
            "cifs/192.0.2.10",
            "cifs/192.0.2.10:4450",
            "cifs/198.51.100.7",
        ] {
            check(target_name, here, true);
        }
        check("cifs/[2001:db8::10]", "[2001:db8::10]:445", true);
        check("cifs/2001:DB8:0::10", "[2001:db8::10]:445", true);
        check("cifs/2001-db8--10.ipv6-literal.net", "[2001:db8::10]:445", true);
        check("cifs/fe80--1s4.ipv6-literal.net", "[fe80::1]:445", true);
        check("cifs/192.0.2.10", "[::ffff:192.0.2.10]:445", true);
        check("cifs/localhost", "127.0.0.1:445", true);
        check("cifs/here", "127.0.0.1:445", true);
    }

    #[test]
    fn the_target_name_of_a_relayed_client_is_not_ours() {
        for target_name in [
            "cifs/evil",
            "cifs/files.evil.example",
            "cifs/192.0.2.66",
            "cifs/other",
            "cifs/localhost",
            "cifs/here",
            "http/files",
            "cifs/",
            "",
            "/",
            "cifs/evil/files",
            "cifs/evil:files",
        ] {
            check(target_name, "192.0.2.10:445", false);
        }
    }

    #[test]
    fn a_star_means_every_name() {
        let names = OwnNames { is_any: true, ..names(&[]) };
        assert!(names.include("cifs/anything", "192.0.2.10:445".parse().expect("an address")));
    }
}
