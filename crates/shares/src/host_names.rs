//! Names of the host, which are those of the server unless it is configured otherwise.

use config::Config;

/// NetBIOS names have 15 characters.
pub const NETBIOS_NAME_LEN: usize = 15;

/// The name of this server: `netbios name`, or that of the host.
pub fn netbios_name(config: &Config) -> String {
    let configured = &config.global.netbios_name;
    if !configured.is_empty() {
        return configured.clone();
    }
    let (host, _) = dns_names();
    let name = host.split('.').next().unwrap_or_default().to_uppercase();
    name.chars().take(NETBIOS_NAME_LEN).collect()
}

/// The server's DNS name and DNS domain. A member of a domain has the domain's: controllers compare
/// them.
pub fn server_dns_names(config: &Config) -> (String, String) {
    let (name, domain) = dns_names();
    if !config.global.is_member() {
        return (name, domain);
    }
    let domain = config.global.realm.to_lowercase();
    (format!("{}.{domain}", netbios_name(config).to_lowercase()), domain)
}

/// The host's name and its domain.
pub fn dns_names() -> (String, String) {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().to_lowercase();
    match name.split_once('.') {
        Some((_, domain)) => (name.clone(), domain.to_owned()),
        None => (name, String::new()),
    }
}
