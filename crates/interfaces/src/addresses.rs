//! The addresses of this machine: `RTM_GETADDR` of rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use config::interface::InterfaceSpec;
use config::{hint, nearest_of, quoted};

use super::link::{self, Link};
use super::netlink::{Extent, Subject, ask, attributes};

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Unusable address: a duplicate was found, or the search for one has not ended.
const IFA_F_TENTATIVE_OR_DAD_FAILED: u8 = 0x48;

/// Bytes of an `ifaddrmsg`, the fixed header.
const ADDRESS_HEADER_BYTES: usize = 8;

/// One address of one interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InterfaceAddress {
    /// Number of the interface (ifindex).
    pub index: u32,
    /// The interface's name, as in `eth0`.
    pub interface: String,
    /// The interface can carry something, and the address is this machine's for certain.
    pub is_up: bool,
    /// The IPv4 or IPv6 address.
    pub address: IpAddr,
    /// Bits of the network's part.
    pub prefix_len: u8,
}

/// Returns the words of `interfaces` that name none of these addresses.
pub fn unmatched<'a>(
    specs: &'a [InterfaceSpec],
    addresses: &[InterfaceAddress],
) -> impl Iterator<Item = &'a InterfaceSpec> {
    specs.iter().filter(|spec| !addresses.iter().any(|it| it.is_named_by(spec)))
}

/// Returns true if a word of `interfaces` is the name of an interface, which may have no address.
pub fn is_interface(spec: &InterfaceSpec) -> bool {
    !spec.selector.contains('/') && Path::new("/sys/class/net").join(&spec.selector).exists()
}

/// Returns a word of `interfaces` for a message that it names no address: with the reason, or with
/// the nearest interface.
pub fn with_hint(spec: &InterfaceSpec, addresses: &[InterfaceAddress]) -> String {
    if is_interface(spec) && !addresses.iter().any(|it| it.is_named_by(spec)) {
        return format!("`{}`, an interface without an address", quoted(&spec.selector));
    }
    let names = addresses.iter().map(|it| it.interface.as_str());
    let near = spec.address().is_none().then(|| nearest_of(&spec.selector, names)).flatten();
    format!("`{}`{}", quoted(&spec.selector), hint(near))
}

impl InterfaceAddress {
    /// Whether a word of `interfaces` means this address: by the interface's name, as the address
    /// itself, or as the network that the address is in.
    pub fn is_named_by(&self, spec: &InterfaceSpec) -> bool {
        if spec.matches_name(&self.interface) {
            return true;
        }
        let Some(address) = spec.address() else { return false };
        if address == self.address {
            return true;
        }
        match spec.selector.split_once('/') {
            Some((_, prefix)) => {
                prefix_len(prefix).is_some_and(|len| in_network(self.address, address, len))
            }
            None => false,
        }
    }

    /// Such an address means nothing without its interface, and clients do not find it.
    pub fn is_link_local(&self) -> bool {
        match self.address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
    }
}

/// Bits of `24` or of `255.255.255.0`.
fn prefix_len(text: &str) -> Option<u32> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(mask)) => Some(u32::from(mask).leading_ones()),
        Ok(IpAddr::V6(mask)) => Some(u128::from(mask).leading_ones()),
        Err(_) => text.parse().ok(),
    }
}

fn in_network(address: IpAddr, network: IpAddr, prefix_len: u32) -> bool {
    // Shifting by the full width, for a prefix of 0, leaves nothing to compare.
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if prefix_len <= 32 => {
            let differs = u32::from(address) ^ u32::from(network);
            differs.checked_shr(32 - prefix_len).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if prefix_len <= 128 => {
            let differs = u128::from(address) ^ u128::from(network);
            differs.checked_shr(128 - prefix_len).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// All addresses of all interfaces.
///
/// # Errors
/// The kernel does not answer.
pub fn list() -> io::Result<Vec<InterfaceAddress>> {
    of_links(&link::list()?)
}

/// All addresses of these interfaces.
///
/// # Errors
/// The kernel does not answer.
pub(super) fn of_links(links: &[Link]) -> io::Result<Vec<InterfaceAddress>> {
    let all = [0; ADDRESS_HEADER_BYTES];
    let addresses =
        ask(Subject::Routes, Extent::All, RTM_GETADDR, &all, |kind, body| match kind {
            RTM_NEWADDR => parse_address(body),
            _ => None,
        })?;
    let found = addresses.into_iter().filter_map(|found| {
        let Found { index, address, prefix_len, is_sure } = found;
        // An interface that came after the names were read is left to the next time.
        let link = links.iter().find(|link| link.index == index)?;
        let (interface, is_up) = (link.name.clone(), link.is_up && is_sure);
        Some(InterfaceAddress { index, interface, is_up, address, prefix_len })
    });
    Ok(found.collect())
}

/// Contents of one `RTM_NEWADDR` message.
#[derive(Debug, Eq, PartialEq)]
struct Found {
    index: u32,
    address: IpAddr,
    prefix_len: u8,
    is_sure: bool,
}

/// The address of one `RTM_NEWADDR`, if it is of a family we serve.
fn parse_address(body: &[u8]) -> Option<Found> {
    let &[_family, prefix_len, flags, _scope, i0, i1, i2, i3] =
        body.first_chunk::<ADDRESS_HEADER_BYTES>()?;
    let mut address = None;
    for (kind, value) in attributes(&body[ADDRESS_HEADER_BYTES..]) {
        let parsed = <[u8; 4]>::try_from(value)
            .map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)))
            .or_else(|_| <[u8; 16]>::try_from(value).map(|bytes| Ipv6Addr::from(bytes).into()));
        match (kind, parsed) {
            // On a point-to-point link IFA_ADDRESS is the other end; IFA_LOCAL is always ours.
            (IFA_LOCAL, Ok(local)) => address = Some(local),
            (IFA_ADDRESS, Ok(other)) => address = address.or(Some(other)),
            _ => {}
        }
    }
    let is_sure = flags & IFA_F_TENTATIVE_OR_DAD_FAILED == 0;
    let index = u32::from_ne_bytes([i0, i1, i2, i3]);
    Some(Found { index, address: address?, prefix_len, is_sure })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use config::interface::InterfaceSpec;

    use super::{Found, list, parse_address, with_hint};

    #[test]
    fn loopback_is_found() {
        let addresses = list().expect("the kernel answers");
        let loopback = addresses
            .iter()
            .find(|address| address.address == IpAddr::V4(Ipv4Addr::LOCALHOST))
            .expect("every machine has it");
        assert_eq!((loopback.interface.as_str(), loopback.prefix_len), ("lo", 8));
        assert!(loopback.is_up);
    }

    #[test]
    fn an_interface_without_an_address_is_called_so_and_a_misspelled_one_is_not() {
        let hint = |selector: &str| {
            let spec = InterfaceSpec { selector: selector.to_owned(), ..Default::default() };
            with_hint(&spec, &[])
        };
        assert_eq!(hint("lo"), "`lo`, an interface without an address");
        assert_eq!(hint("llo"), "`llo`");
    }

    /// A body of interface 7 with attributes of these kinds: 10.0.0.9, .1 and .9.
    fn body(flags: u8, kinds: [u16; 3]) -> Vec<u8> {
        let mut body = vec![2, 32, flags, 0];
        body.extend(7_u32.to_ne_bytes());
        for (kind, last) in kinds.into_iter().zip([9, 1, 9]) {
            body.extend(8_u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend([10, 0, 0, last]);
        }
        body
    }

    #[test]
    fn the_local_end_of_a_point_to_point_link_wins() {
        let address = IpAddr::from([10, 0, 0, 1]);
        let want = Found { index: 7, address, prefix_len: 32, is_sure: true };
        assert_eq!(parse_address(&body(0, [1, 2, 1])), Some(want));
    }

    #[test]
    fn an_address_that_another_machine_may_have_is_not_sure() {
        for (flags, is_sure) in [(0x40, false), (0x08, false), (0x80, true), (0x21, true)] {
            let found = parse_address(&body(flags, [1, 2, 1])).expect("it is whole");
            assert_eq!(found.is_sure, is_sure, "{flags:#x}");
        }
    }

    #[test]
    fn no_prefix_of_an_address_does_harm() {
        let body = body(0, [1, 2, 1]);
        for len in 0..body.len() {
            let _ = parse_address(&body[..len]);
        }
    }
}
