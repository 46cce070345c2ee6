//! The network at one interface: its addresses, and sockets for its machines.

use std::net::{IpAddr, TcpListener, UdpSocket};
use std::time::Instant;

use interfaces::InterfaceAddress;
use tracing::warn;

use super::budget::Budget;
use super::sockets::{self, Group};
use super::{Announcement, wsd};

/// Addresses of one family: messages name them, and the process listens on them.
const ADDRESSES_MAX: usize = 8;

/// Protocols that this process speaks itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    /// LLMNR, the name resolution of Windows.
    Llmnr,
    /// WS-Discovery, for the list of computers.
    Wsd,
}

/// A socket for one protocol and family.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) protocol: Protocol,
    pub(crate) is_v6: bool,
    pub(crate) socket: UdpSocket,
}

/// An interface with its addresses.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Interface {
    /// The kernel's number of the interface (ifindex).
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Addresses with the lengths of their prefixes.
    addresses: Vec<(IpAddr, u8)>,
}

impl Interface {
    /// Groups addresses by their interface.
    pub(crate) fn group(addresses: &[InterfaceAddress]) -> Vec<Self> {
        let mut interfaces: Vec<Self> = Vec::new();
        for InterfaceAddress { index, interface, address, prefix_len, .. } in addresses {
            let pair = (*address, *prefix_len);
            match interfaces.iter_mut().find(|it| it.index == *index) {
                Some(known) => known.addresses.push(pair),
                None => interfaces.push(Self {
                    index: *index,
                    name: interface.clone(),
                    addresses: vec![pair],
                }),
            }
        }
        interfaces
    }
}

/// The network at one interface.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) interface: Interface,
    pub(crate) endpoints: Vec<Endpoint>,
    /// Listeners for the name of the host, by HTTP.
    pub(crate) listeners: Vec<TcpListener>,
    /// Answers that its machines may still cause: those of one network leave none less to others.
    pub(crate) names: Budget,
    pub(crate) probes: Budget,
}

impl Network {
    /// Opens the sockets of the wanted protocols. What cannot be opened is logged and left out.
    pub(crate) fn open(interface: Interface, announcement: &Announcement) -> Self {
        let now = Instant::now();
        let mut network = Self {
            interface,
            endpoints: Vec::new(),
            listeners: Vec::new(),
            names: Budget::new(now),
            probes: Budget::new(now),
        };
        if announcement.llmnr {
            network.join(Protocol::Llmnr, &sockets::LLMNR, "LLMNR");
        }
        if announcement.wsd {
            network.listen();
            if !network.listeners.is_empty() {
                network.join(Protocol::Wsd, &sockets::WSD, "WS-Discovery");
            }
        }
        network
    }

    fn join(&mut self, protocol: Protocol, group: &Group, name: &str) {
        for is_v6 in [false, true] {
            if self.addresses_of(is_v6).is_empty() {
                continue;
            }
            match group.join(is_v6, self.interface.index, &self.interface.name) {
                Ok(socket) => self.endpoints.push(Endpoint { protocol, is_v6, socket }),
                Err(error) => warn!("{name} on {}: {error}", self.interface.name),
            }
        }
    }

    fn listen(&mut self) {
        for address in [self.addresses_of(false), self.addresses_of(true)].concat() {
            match sockets::listen(address, self.interface.index, wsd::HTTP_PORT) {
                Ok(listener) => self.listeners.push(listener),
                Err(error) => warn!("WS-Discovery on {address}: {error} (does wsdd run?)"),
            }
        }
    }

    /// Returns the addresses of one family.
    pub(crate) fn addresses_of(&self, is_v6: bool) -> Vec<IpAddr> {
        let addresses = self.interface.addresses.iter().map(|(address, _)| *address);
        addresses.filter(|address| address.is_ipv6() == is_v6).take(ADDRESSES_MAX).collect()
    }

    /// Returns the addresses of both families.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        [self.addresses_of(false), self.addresses_of(true)].concat()
    }

    /// Whether an address is of a neighbor. Only neighbors get answers: requests from elsewhere
    /// would be the work of somebody who wants them sent to a victim.
    pub(crate) fn has(&self, neighbor: IpAddr) -> bool {
        let neighbor = neighbor.to_canonical();
        if matches!(neighbor, IpAddr::V6(address) if address.is_unicast_link_local()) {
            return true;
        }
        self.interface.addresses.iter().any(|(own, prefix_len)| is_in(neighbor, *own, *prefix_len))
    }
}

/// Whether two addresses have this many bits in common.
fn is_in(neighbor: IpAddr, own: IpAddr, prefix_len: u8) -> bool {
    let prefix_len = u32::from(prefix_len);
    match (neighbor, own) {
        (IpAddr::V4(neighbor), IpAddr::V4(own)) => {
            (u32::from(neighbor) ^ u32::from(own)).leading_zeros() >= prefix_len
        }
        (IpAddr::V6(neighbor), IpAddr::V6(own)) => {
            (u128::from(neighbor) ^ u128::from(own)).leading_zeros() >= prefix_len
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::is_in;

    #[test]
    fn neighbors_share_the_prefix_of_an_address() {
        for (neighbor, own, prefix_len, want) in [
            ("192.0.2.9", "192.0.2.1", 24, true),
            ("192.0.3.9", "192.0.2.1", 24, false),
            ("192.0.2.1", "192.0.2.1", 32, true),
            ("8.8.8.8", "192.0.2.1", 0, true),
            ("2001:db8::9", "2001:db8::1", 64, true),
            ("2001:db9::9", "2001:db8::1", 64, false),
            ("192.0.2.9", "2001:db8::1", 0, false),
        ] {
            let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
            assert_eq!(is_in(address(neighbor), address(own), prefix_len), want, "{neighbor}");
        }
    }
}
