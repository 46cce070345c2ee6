//! Interfaces by which other machines reach this one.

use std::io;

use config::interface::InterfaceSpec;

use super::addresses::{self, InterfaceAddress};
use super::link::{self, Link, LinkKind};

/// Returns addresses by which neighbors can reach this machine: of interfaces that are up, other
/// than loopback, bridges without a port to the outside, and cables to containers.
///
/// With `specs` they are those that a spec names, of any kind of interface.
///
/// # Errors
/// The kernel does not answer.
pub fn reachable(specs: &[InterfaceSpec]) -> io::Result<Vec<InterfaceAddress>> {
    let links = link::list()?;
    let addresses = addresses::of_links(&links)?;
    Ok(choose(&links, addresses, specs))
}

fn choose(
    links: &[Link],
    mut addresses: Vec<InterfaceAddress>,
    specs: &[InterfaceSpec],
) -> Vec<InterfaceAddress> {
    addresses.retain(|address| {
        let link = links.iter().find(|link| link.index == address.index);
        let leads_out = link.is_some_and(|link| leads_out(links, link));
        let is_asked = if specs.is_empty() {
            leads_out
        } else {
            specs.iter().any(|spec| address.is_named_by(spec))
        };
        let is_loopback = link.is_none_or(|link| link.kind == LinkKind::Loopback);
        address.is_up && is_asked && !is_loopback
    });
    addresses
}

fn leads_out(links: &[Link], link: &Link) -> bool {
    match link.kind {
        LinkKind::Loopback | LinkKind::Veth => false,
        // Ports of a bridge for containers are cables to them, and of one for guests are programs.
        LinkKind::Bridge => links.iter().any(|port| {
            port.port_of == Some(link.index) && !matches!(port.kind, LinkKind::Veth | LinkKind::Tun)
        }),
        LinkKind::Bond { .. }
        | LinkKind::Single
        | LinkKind::Team
        | LinkKind::Tun
        | LinkKind::Upon(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use config::interface::InterfaceSpec;

    use super::super::addresses::InterfaceAddress;
    use super::super::link::{Link, LinkKind};
    use super::choose;

    const LINKS: [(u32, &str, LinkKind, Option<u32>); 7] = [
        (1, "lo", LinkKind::Loopback, None),
        (2, "eth0", LinkKind::Single, Some(3)),
        (3, "br0", LinkKind::Bridge, None),
        (4, "docker0", LinkKind::Bridge, None),
        (5, "veth7", LinkKind::Veth, Some(4)),
        (6, "eth1", LinkKind::Single, None),
        (7, "eth1.5", LinkKind::Upon(6), None),
    ];

    #[track_caller]
    fn check(specs: &[&str], want: &[&str]) {
        let links = LINKS.map(|(index, name, kind, port_of)| Link {
            index,
            name: name.to_owned(),
            is_up: true,
            kind,
            port_of,
            hardware_address: None,
        });
        let addresses = links.iter().map(|link| InterfaceAddress {
            index: link.index,
            interface: link.name.clone(),
            is_up: true,
            address: [192, 0, 2, u8::try_from(link.index).expect("small")].into(),
            prefix_len: 24,
        });
        let specs: Vec<InterfaceSpec> = specs.iter().map(|it| InterfaceSpec::parse(it)).collect();
        let chosen = choose(&links, addresses.collect(), &specs);
        let names: Vec<&str> = chosen.iter().map(|it| it.interface.as_str()).collect();
        assert_eq!(names, want);
    }

    #[test]
    fn bridges_for_containers_and_their_cables_lead_nowhere() {
        check(&[], &["eth0", "br0", "eth1", "eth1.5"]);
    }

    #[test]
    fn a_named_interface_of_any_kind_is_taken() {
        check(&["veth7", "lo", "192.0.2.4"], &["docker0", "veth7"]);
    }
}
