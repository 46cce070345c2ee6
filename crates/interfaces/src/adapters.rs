//! Network adapters with their addresses, as a list of transports shows them: [MS-SRVS] 3.1.1.2.

use std::io;
use std::net::IpAddr;

use config::Global;

use super::addresses::{self, InterfaceAddress};
use super::link::{self, Link, LinkKind};

/// A network adapter of this machine that the server listens on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Adapter {
    /// Number of the interface (ifindex).
    pub index: u32,
    /// Hardware address, as for Ethernet.
    pub hardware_address: [u8; 6],
    /// IPv4 and IPv6 addresses, at least one.
    pub addresses: Vec<IpAddr>,
}

/// The adapters that a server with this configuration listens on.
///
/// # Errors
/// The kernel does not answer.
pub fn adapters(global: &Global) -> io::Result<Vec<Adapter>> {
    let links = link::list()?;
    let addresses = addresses::of_links(&links)?;
    Ok(select(global, &links, &addresses))
}

fn select(global: &Global, links: &[Link], addresses: &[InterfaceAddress]) -> Vec<Adapter> {
    let is_any = !global.bind_interfaces_only || global.interfaces.is_empty();
    let is_wanted = |address: &InterfaceAddress| {
        is_any
            || !address.is_link_local()
                && global.interfaces.iter().any(|spec| address.is_named_by(spec))
    };
    let adapter = |link: &Link| {
        let own = addresses.iter().filter(|it| it.index == link.index && is_wanted(it));
        let addresses: Vec<_> = own.map(|it| it.address).collect();
        let is_one = link.is_up && link.kind != LinkKind::Loopback && !addresses.is_empty();
        let hardware_address = link.hardware_address.filter(|_| is_one)?;
        Some(Adapter { index: link.index, hardware_address, addresses })
    };
    links.iter().filter_map(adapter).collect()
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::super::detected::tests::link;
    use super::*;

    /// Numbers of the adapters with this configuration: a loopback, a card with two addresses,
    /// another one, one without an address, one that is down, and a tunnel.
    fn selected(content: &str) -> Vec<(u32, usize)> {
        let with = |index, name, kind| Link {
            hardware_address: Some([2, 0, 0, 0, 0, 1]),
            ..link(index, name, kind)
        };
        let links = [
            with(1, "lo", LinkKind::Loopback),
            with(2, "eth0", LinkKind::Single),
            with(3, "eth1", LinkKind::Single),
            with(4, "eth2", LinkKind::Single),
            Link { is_up: false, ..with(5, "eth3", LinkKind::Single) },
            link(6, "tun0", LinkKind::Tun),
        ];
        let addresses = [
            (1, "127.0.0.1"),
            (2, "192.0.2.1"),
            (2, "fe80::1"),
            (3, "198.51.100.1"),
            (5, "203.0.113.1"),
            (6, "10.0.0.1"),
        ];
        let addresses = addresses.map(|(index, address)| InterfaceAddress {
            index,
            interface: links.iter().find(|it| it.index == index).expect("one").name.clone(),
            is_up: true,
            address: address.parse().expect("an address"),
            prefix_len: 24,
        });
        let (config, _) = Config::parse(content, "test").expect("it is well-formed");
        let selected = select(&config.global, &links, &addresses);
        selected.into_iter().map(|it| (it.index, it.addresses.len())).collect()
    }

    #[test]
    fn adapters_have_a_hardware_address_and_another_one() {
        assert_eq!(selected("interfaces = eth1\n"), [(2, 2), (3, 1)]);
    }

    #[test]
    fn a_server_that_binds_to_interfaces_only_has_their_adapters() {
        assert_eq!(selected("interfaces = eth1\nbind interfaces only = yes\n"), [(3, 1)]);
        assert_eq!(selected("interfaces = eth0\nbind interfaces only = yes\n"), [(2, 1)]);
    }
}
