//! The interfaces of this machine, and how they stand upon each other: `RTM_GETLINK` of
//! rtnetlink(7).

use std::io;

use super::netlink::{Extent, Subject, ask, attribute, name, number};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_ACTIVE_SLAVE: u16 = 2;
const IFF_LOOPBACK: u32 = 0x8;
/// It is switched on, and has a cable.
const IFF_UP_AND_RUNNING: u32 = 0x41;

/// Bytes of an `ifinfomsg`, the fixed header.
const LINK_HEADER_BYTES: usize = 16;

/// A network interface, as rtnetlink lists it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Link {
    /// Number of the interface (ifindex).
    pub(super) index: u32,
    /// Its name, as in `eth0`.
    pub(super) name: String,
    /// True if it can carry traffic.
    pub(super) is_up: bool,
    /// Kind of the interface, such as a bond.
    pub(super) kind: LinkKind,
    /// The bond, bridge or team that it is a port of.
    pub(super) port_of: Option<u32>,
    /// Hardware address of an Ethernet device or the like.
    pub(super) hardware_address: Option<[u8; 6]>,
}

/// Kind of an interface, as far as its speed depends on that.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LinkKind {
    /// Several others as one: bonding.
    Bond {
        /// Use of the bond's ports.
        mode: BondMode,
        /// Number of the active port, in a mode with one active port.
        active: Option<u32>,
    },
    /// A switch, with others as its ports.
    Bridge,
    /// Reaches nothing but this machine.
    Loopback,
    /// A device without ports, or of unknown kind.
    Single,
    /// Several others as one: teaming.
    Team,
    /// A program at its other end.
    Tun,
    /// A part of another interface: a VLAN and the like.
    Upon(u32),
    /// One end of a cable between two networks of this machine.
    Veth,
}

/// Use of a bond's ports: `mode` of the kernel's bonding driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BondMode {
    /// One at a time: `active-backup`.
    ActiveBackup,
    /// Each frame on all of them: `broadcast`.
    Broadcast,
    /// All of them together: the others.
    Together,
}

/// All interfaces.
///
/// # Errors
/// The kernel does not answer.
pub(super) fn list() -> io::Result<Vec<Link>> {
    let all = [0; LINK_HEADER_BYTES];
    ask(Subject::Routes, Extent::All, RTM_GETLINK, &all, |kind, body| match kind {
        RTM_NEWLINK => parse_link(body),
        _ => None,
    })
}

/// The interface of one `RTM_NEWLINK`.
fn parse_link(body: &[u8]) -> Option<Link> {
    let &[_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] =
        body.first_chunk::<LINK_HEADER_BYTES>()?;
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
    let attributes = &body[LINK_HEADER_BYTES..];
    Some(Link {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        name: attribute(attributes, IFLA_IFNAME).and_then(name)?,
        is_up: flags & IFF_UP_AND_RUNNING == IFF_UP_AND_RUNNING,
        kind: match flags & IFF_LOOPBACK {
            0 => kind(attributes),
            _ => LinkKind::Loopback,
        },
        port_of: attribute(attributes, IFLA_MASTER).and_then(number),
        hardware_address: attribute(attributes, IFLA_ADDRESS).and_then(|it| it.try_into().ok()),
    })
}

fn kind(attributes: &[u8]) -> LinkKind {
    let info = attribute(attributes, IFLA_LINKINFO).unwrap_or_default();
    let name = attribute(info, IFLA_INFO_KIND).and_then(name).unwrap_or_default();
    match name.as_str() {
        "bond" => bond(attribute(info, IFLA_INFO_DATA).unwrap_or_default()),
        "bridge" => LinkKind::Bridge,
        "team" => LinkKind::Team,
        "tun" => LinkKind::Tun,
        "veth" => LinkKind::Veth,
        "ipvlan" | "ipvtap" | "macsec" | "macvlan" | "macvtap" | "vlan" => {
            // In a container the device below may be in another network, and its number means
            // nothing here.
            let is_here = attribute(attributes, IFLA_LINK_NETNSID).is_none();
            let below = attribute(attributes, IFLA_LINK).and_then(number);
            below.filter(|_| is_here).map_or(LinkKind::Single, LinkKind::Upon)
        }
        _ => LinkKind::Single,
    }
}

fn bond(data: &[u8]) -> LinkKind {
    let mode = match attribute(data, IFLA_BOND_MODE) {
        Some([1]) => BondMode::ActiveBackup,
        Some([3]) => BondMode::Broadcast,
        _ => BondMode::Together,
    };
    LinkKind::Bond { mode, active: attribute(data, IFLA_BOND_ACTIVE_SLAVE).and_then(number) }
}

#[cfg(test)]
mod tests {
    use super::super::netlink::encode;
    use super::*;

    fn body(flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 0];
        body.extend(7_u32.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend([0; 4]);
        body.extend(encode(IFLA_IFNAME, b"eth0\0"));
        body.extend(attributes.concat());
        body
    }

    fn info(kind: &[u8], data: &[u8]) -> Vec<u8> {
        let info = [encode(IFLA_INFO_KIND, kind), encode(IFLA_INFO_DATA, data)].concat();
        encode(IFLA_LINKINFO, &info)
    }

    fn index(kind: u16, value: u32) -> Vec<u8> {
        encode(kind, &value.to_ne_bytes())
    }

    #[track_caller]
    fn check(attributes: &[Vec<u8>], kind: LinkKind) {
        let link = parse_link(&body(0x41, attributes)).expect("it is whole");
        assert_eq!(link.kind, kind);
    }

    #[test]
    fn an_interface_without_a_cable_is_not_up() {
        for (flags, is_up) in [(0x41_u32, true), (0x1, false), (0x40, false)] {
            let want = Link {
                index: 7,
                name: "eth0".to_owned(),
                is_up,
                kind: LinkKind::Single,
                port_of: Some(9),
                hardware_address: None,
            };
            assert_eq!(parse_link(&body(flags, &[index(IFLA_MASTER, 9)])), Some(want));
        }
    }

    #[test]
    fn the_loopback_is_known_by_its_flag() {
        let link = parse_link(&body(0x49, &[])).expect("it is whole");
        assert_eq!(link.kind, LinkKind::Loopback);
    }

    #[test]
    fn a_hardware_address_has_six_bytes() {
        for (bytes, want) in [
            (&[2, 0, 0, 0, 0, 7][..], Some([2, 0, 0, 0, 0, 7])),
            (&[192, 0, 2, 1], None),
            (&[0; 20], None),
        ] {
            let link = parse_link(&body(0x41, &[encode(IFLA_ADDRESS, bytes)]));
            assert_eq!(link.expect("it is whole").hardware_address, want);
        }
    }

    #[test]
    fn a_bond_says_how_it_uses_its_ports() {
        for (mode, want) in [
            (0, BondMode::Together),
            (1, BondMode::ActiveBackup),
            (3, BondMode::Broadcast),
            (4, BondMode::Together),
        ] {
            let active = encode(IFLA_BOND_ACTIVE_SLAVE, &3_u32.to_ne_bytes());
            let data = [encode(IFLA_BOND_MODE, &[mode]), active].concat();
            check(&[info(b"bond\0", &data)], LinkKind::Bond { mode: want, active: Some(3) });
        }
    }

    #[test]
    fn a_vlan_has_its_device_below_it_if_that_is_in_the_same_namespace() {
        let vlan = [info(b"vlan\0", &[]), index(IFLA_LINK, 2)];
        check(&vlan, LinkKind::Upon(2));
        let [kind, below] = vlan;
        check(&[kind, below, index(IFLA_LINK_NETNSID, 0)], LinkKind::Single);
    }

    #[test]
    fn the_other_end_of_a_veth_is_nothing_to_stand_upon() {
        check(&[info(b"veth\0", &[]), index(IFLA_LINK, 2)], LinkKind::Veth);
    }

    #[test]
    fn no_prefix_of_a_link_does_harm() {
        let data = encode(IFLA_BOND_MODE, &[1]);
        let body = body(0x41, &[info(b"bond\0", &data), index(IFLA_MASTER, 9)]);
        for len in 0..body.len() {
            let _ = parse_link(&body[..len]);
        }
    }
}
