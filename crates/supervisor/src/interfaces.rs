//! Addresses to listen on: `interfaces`, `bind interfaces only` and `smb ports`.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, bail};
use config::Global;
use config::interface::InterfaceSpec;
use interfaces::{InterfaceAddress, addresses};

use super::listeners;

/// The addresses and ports that the configuration asks for.
///
/// # Errors
/// `bind interfaces only` is set and `interfaces` names nothing that is there.
pub(super) fn wanted(global: &Global) -> anyhow::Result<Vec<SocketAddr>> {
    if !global.bind_interfaces_only || global.interfaces.is_empty() {
        return Ok(listeners::wanted(&[], &global.smb_ports));
    }
    let machine = addresses::list().context("cannot list the addresses of this machine")?;
    let chosen = choose(&global.interfaces, &machine);
    if chosen.is_empty() {
        bail!("`interfaces` matches no interface or address of this machine");
    }
    Ok(listeners::wanted(&chosen, &global.smb_ports))
}

/// The addresses of `machine` that a spec names, each once.
fn choose(specs: &[InterfaceSpec], machine: &[InterfaceAddress]) -> Vec<IpAddr> {
    let mut chosen = Vec::new();
    for spec in specs {
        for candidate in machine {
            if candidate.is_named_by(spec)
                && !candidate.is_link_local()
                && !chosen.contains(&candidate.address)
            {
                chosen.push(candidate.address);
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use config::interface::InterfaceSpec;
    use interfaces::InterfaceAddress;

    use super::choose;

    #[track_caller]
    fn check(specs: &[&str], want: &[&str]) {
        let machine: Vec<InterfaceAddress> = [
            ("lo", "127.0.0.1", 8),
            ("eth0", "192.168.1.5", 24),
            ("eth0", "fe80::1", 64),
            ("eth1", "10.1.2.3", 8),
            ("eth1", "2001:db8::5", 64),
        ]
        .into_iter()
        .map(|(interface, address, prefix_len)| InterfaceAddress {
            index: 1,
            is_up: true,
            interface: interface.to_owned(),
            address: address.parse().expect("it is an address"),
            prefix_len,
        })
        .collect();
        let specs: Vec<InterfaceSpec> =
            specs.iter().map(|text| InterfaceSpec::parse(text)).collect();
        let want: Vec<IpAddr> =
            want.iter().map(|text| text.parse().expect("it is an address")).collect();
        assert_eq!(choose(&specs, &machine), want);
    }

    #[test]
    fn interfaces_are_named_by_name_pattern_address_or_network() {
        check(&["eth0"], &["192.168.1.5"]);
        check(&["eth*"], &["192.168.1.5", "10.1.2.3", "2001:db8::5"]);
        check(&["10.1.2.3"], &["10.1.2.3"]);
        check(&["192.168.1.0/24"], &["192.168.1.5"]);
        check(&["192.168.1.0/255.255.255.0"], &["192.168.1.5"]);
        check(&["2001:db8::/32;speed=10"], &["2001:db8::5"]);
        check(&["0.0.0.0/0"], &["127.0.0.1", "192.168.1.5", "10.1.2.3"]);
    }

    #[test]
    fn missing_interfaces_are_not_chosen_and_none_is_chosen_twice() {
        check(&["wlan0", "192.168.2.0/24", "1.2.3.4", "10.0.0.0/99"], &[]);
        check(&["lo", "127.0.0.1", "127.0.0.0/8"], &["127.0.0.1"]);
    }
}
