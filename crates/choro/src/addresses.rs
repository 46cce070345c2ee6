//! The addresses of this machine, asked of the kernel by rtnetlink: `RTM_GETADDR` and `RTM_GETLINK`,
//! rtnetlink(7). The files in `/sys` would be those of another network, if the server was put into
//! one of its own and they were not.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use config::interface::InterfaceSpec;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFLA_IFNAME: u16 = 3;
/// It is switched on, and has a cable.
const IFF_UP_AND_RUNNING: u32 = 0x41;

/// Bytes of a `nlmsghdr`.
const MESSAGE_HEADER_BYTES: usize = 16;
/// Bytes of an `ifaddrmsg`.
const ADDRESS_HEADER_BYTES: usize = 8;
/// Bytes of an `ifinfomsg`.
const LINK_HEADER_BYTES: usize = 16;
/// Bytes of one answer; the kernel fills at most 32 KiB when it dumps.
const ANSWER_BYTES_MAX: usize = 32 << 10;
/// Answers to one request, so that a confused kernel cannot hold the supervisor.
const ANSWERS_MAX: usize = 1_024;

/// One address of one interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct InterfaceAddress {
    /// The interface's number.
    pub(crate) index: u32,
    /// The interface's name, as in `eth0`.
    pub(crate) interface: String,
    /// The interface can carry something.
    pub(crate) is_up: bool,
    /// The address.
    pub(crate) address: IpAddr,
    /// Bits of the network's part.
    pub(crate) prefix_len: u8,
}

impl InterfaceAddress {
    /// Whether a word of `interfaces` means this address: by the interface's name, as the address
    /// itself, or as the network that the address is in.
    pub(crate) fn is_named_by(&self, spec: &InterfaceSpec) -> bool {
        if spec.matches_name(&self.interface) {
            return true;
        }
        let Some(address) = spec.address() else { return false };
        if address == self.address {
            return true;
        }
        match spec.what.split_once('/') {
            Some((_, prefix)) => {
                prefix_len(prefix).is_some_and(|len| in_network(self.address, address, len))
            }
            None => false,
        }
    }

    /// Such an address means nothing without its interface, and clients do not find it.
    pub(crate) fn is_link_local(&self) -> bool {
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
pub(crate) fn list() -> io::Result<Vec<InterfaceAddress>> {
    let links = dump(RTM_GETLINK, LINK_HEADER_BYTES, |kind, body| match kind {
        RTM_NEWLINK => parse_link(body),
        _ => None,
    })?;
    let addresses = dump(RTM_GETADDR, ADDRESS_HEADER_BYTES, |kind, body| match kind {
        RTM_NEWADDR => parse_address(body),
        _ => None,
    })?;
    let found = addresses.into_iter().filter_map(|(index, address, prefix_len)| {
        // An interface that came after the names were read is left to the next time.
        let link = links.iter().find(|link| link.index == index)?;
        let (interface, is_up) = (link.name.clone(), link.is_up);
        Some(InterfaceAddress { index, interface, is_up, address, prefix_len })
    });
    Ok(found.collect())
}

/// All answers of the kernel to a request for everything of a kind.
fn dump<T>(
    kind: u16,
    header_bytes: usize,
    read: impl Fn(u16, &[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::send(&socket, &request(kind, header_bytes), SendFlags::empty())?;
    let mut found = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let answer = receive(&socket)?;
        if parse(&answer, |kind, body| found.extend(read(kind, body)))? {
            return Ok(found);
        }
    }
    Err(io::Error::other("the kernel's list does not end"))
}

fn request(kind: u16, header_bytes: usize) -> Vec<u8> {
    let len = MESSAGE_HEADER_BYTES + header_bytes;
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(u32::try_from(len).expect("it is below 100").to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.resize(len, 0);
    bytes
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; ANSWER_BYTES_MAX];
    let (received, _) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::empty())?;
    bytes.truncate(received);
    Ok(bytes)
}

/// Shows what is in one answer to `visit`, as kind and body; whether it was the last.
fn parse(mut answer: &[u8], mut visit: impl FnMut(u16, &[u8])) -> io::Result<bool> {
    let malformed = || io::Error::other("the kernel's list is malformed");
    while let Some(header) = answer.first_chunk::<MESSAGE_HEADER_BYTES>() {
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let len = usize::try_from(len).map_err(|_| malformed())?;
        let body = answer.get(MESSAGE_HEADER_BYTES..len).ok_or_else(malformed)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(io::Error::other("the kernel refuses to list")),
            kind => visit(kind, body),
        }
        answer = answer.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The attributes behind the head of a body: each with its kind.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[l0, l1, k0, k1] = rest.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]), value))
    })
}

/// An interface.
#[derive(Debug, Eq, PartialEq)]
struct Link {
    index: u32,
    name: String,
    is_up: bool,
}

/// The interface of one `RTM_NEWLINK`.
fn parse_link(body: &[u8]) -> Option<Link> {
    let &[_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] =
        body.first_chunk::<LINK_HEADER_BYTES>()?;
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
    let name = attributes(&body[LINK_HEADER_BYTES..]).find(|(kind, _)| *kind == IFLA_IFNAME)?.1;
    let name = std::ffi::CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?;
    Some(Link {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        name: name.to_owned(),
        is_up: flags & IFF_UP_AND_RUNNING == IFF_UP_AND_RUNNING,
    })
}

/// The address of one `RTM_NEWADDR`, if it is of a family we serve.
fn parse_address(body: &[u8]) -> Option<(u32, IpAddr, u8)> {
    let &[_family, prefix_len, _flags, _scope, i0, i1, i2, i3] =
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
    Some((u32::from_ne_bytes([i0, i1, i2, i3]), address?, prefix_len))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{Link, list, parse, parse_address, parse_link};

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
    fn the_local_end_of_a_point_to_point_link_wins() {
        let mut body = vec![2, 32, 0, 0];
        body.extend(7_u32.to_ne_bytes());
        for (kind, last) in [(1_u16, 9), (2, 1), (1, 9)] {
            body.extend(8_u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend([10, 0, 0, last]);
        }
        assert_eq!(parse_address(&body), Some((7, IpAddr::from([10, 0, 0, 1]), 32)));
    }

    #[test]
    fn an_interface_without_a_cable_is_not_up() {
        for (flags, is_up) in [(0x41_u32, true), (0x1, false), (0x40, false)] {
            let mut body = vec![0, 0, 0, 0];
            body.extend(7_u32.to_ne_bytes());
            body.extend(flags.to_ne_bytes());
            body.extend([0; 4]);
            body.extend(9_u16.to_ne_bytes());
            body.extend(3_u16.to_ne_bytes());
            body.extend(b"eth0\0\0\0\0");
            assert_eq!(parse_link(&body), Some(Link { index: 7, name: "eth0".to_owned(), is_up }));
        }
    }

    #[test]
    fn no_prefix_of_an_answer_does_harm() {
        let mut answer = 40_u32.to_ne_bytes().to_vec();
        answer.extend(20_u16.to_ne_bytes());
        answer.extend([0; 10]);
        answer.extend([2, 8, 0, 0, 1, 0, 0, 0, 8, 0, 1, 0, 127, 0, 0, 1, 0, 0, 2, 0, 1, 2, 3, 4]);
        for len in 0..=answer.len() {
            let _ = parse(&answer[..len], |_, body| drop((parse_address(body), parse_link(body))));
        }
        let short = 3_u32.to_ne_bytes().repeat(4);
        parse(&short, |_, _| {}).expect_err("a length shorter than its own header");
    }
}
