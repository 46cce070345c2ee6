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
    if !is_bound(global) {
        return Ok(listeners::wanted(&[], &global.smb_ports));
    }
    let machine = addresses::list().context("cannot list the addresses of this machine")?;
    if let Some(fault) = fault(global, &machine) {
        bail!("{fault}");
    }
    Ok(listeners::wanted(&choose(&global.interfaces, &machine), &global.smb_ports))
}

/// Returns the reason for which a server would not start on a machine with these addresses: that
/// it may listen on none of them.
pub fn fault(global: &Global, machine: &[InterfaceAddress]) -> Option<String> {
    if !is_bound(global) || !choose(&global.interfaces, machine).is_empty() {
        return None;
    }
    let words = global.interfaces.iter().map(|spec| addresses::with_hint(spec, machine));
    let words = words.collect::<Vec<_>>().join("; ");
    Some(format!("`interfaces` matches no address of this machine: {words}"))
}

fn is_bound(global: &Global) -> bool {
    global.bind_interfaces_only && !global.interfaces.is_empty()
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

    use super::{choose, fault};

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
    fn the_reason_not_to_start_has_the_name_and_the_nearest_one() {
        let lines = "[global]\nbind interfaces only = yes\ninterfaces = eht0 192.0.2.1\n";
        let (config, _) = config::Config::parse(lines, "test").expect("it is well-formed");
        let machine = [InterfaceAddress {
            index: 1,
            is_up: true,
            interface: "eth0".to_owned(),
            address: [192, 168, 1, 5].into(),
            prefix_len: 24,
        }];
        let fault = fault(&config.global, &machine).expect("there is no such interface");
        assert!(fault.ends_with(": `eht0`, did you mean `eth0`?; `192.0.2.1`"), "{fault}");
    }

    #[test]
    fn missing_interfaces_are_not_chosen_and_none_is_chosen_twice() {
        check(&["wlan0", "192.168.2.0/24", "1.2.3.4", "10.0.0.0/99"], &[]);
        check(&["lo", "127.0.0.1", "127.0.0.0/8"], &["127.0.0.1"]);
    }
}
