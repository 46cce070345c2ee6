//! Questions to the kernel over netlink(7), each with a list as its answer.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
/// Mask that removes the kernel's flags from an attribute's type.
const NLA_TYPE_MASK: u16 = 0x3FFF;
const NLA_F_NESTED: u16 = 0x8000;

/// Groups of rtnetlink(7) for links, and for addresses of both families.
const CHANGES: u32 = 0x1 | 0x10 | 0x100;

/// Bytes of a `nlmsghdr`, the fixed header.
const MESSAGE_HEADER_BYTES: usize = 16;
/// Bytes of one answer; the kernel fills at most 32 KiB when it dumps.
const ANSWER_BYTES_MAX: usize = 32 << 10;
/// Answers to one request, so that a confused kernel cannot hold the supervisor.
const ANSWERS_MAX: usize = 1_024;

/// Opens a socket that receives changes of links and addresses, and never waits.
///
/// # Errors
/// The kernel refuses.
pub(super) fn listen() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, CHANGES))?;
    Ok(socket)
}

/// Netlink family that answers a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    /// Links, addresses and routes: rtnetlink(7).
    Routes,
    /// Generic netlink: families that have names, such as `ethtool`.
    Generic,
}

impl Subject {
    fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Routes => None,
            Self::Generic => Some(netlink::GENERIC),
        }
    }
}

/// Number of objects that a request names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Extent {
    /// The object that the request names.
    One,
    /// All objects of this kind.
    All,
}

/// All answers of the kernel to a request of a kind. `read` is shown the kind and the body of each.
///
/// # Errors
/// The kernel does not answer, or refuses.
pub(super) fn ask<T>(
    subject: Subject,
    extent: Extent,
    kind: u16,
    body: &[u8],
    read: impl Fn(u16, &[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        subject.protocol(),
    )?;
    rustix::net::send(&socket, &request(extent, kind, body), SendFlags::empty())?;
    let mut found = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let answer = receive(&socket)?;
        let is_last = parse(&answer, |kind, body| found.extend(read(kind, body)))?;
        if is_last || extent == Extent::One {
            return Ok(found);
        }
    }
    Err(io::Error::other("the kernel's list is too long"))
}

fn request(extent: Extent, kind: u16, body: &[u8]) -> Vec<u8> {
    let flags = match extent {
        Extent::One => NLM_F_REQUEST,
        Extent::All => NLM_F_REQUEST | NLM_F_DUMP,
    };
    let len = MESSAGE_HEADER_BYTES + body.len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(u32::try_from(len).expect("requests are short").to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.resize(MESSAGE_HEADER_BYTES, 0);
    bytes.extend(body);
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
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[l0, l1, k0, k1] = rest.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & NLA_TYPE_MASK, value))
    })
}

/// The value of the attribute of a kind.
pub(super) fn attribute(rest: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(rest).find(|(it, _)| *it == kind).map(|(_, value)| value)
}

/// A number of an attribute's value.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// A name of an attribute's value.
pub(super) fn name(value: &[u8]) -> Option<String> {
    let name = std::ffi::CStr::from_bytes_until_nul(value).ok()?;
    name.to_str().ok().map(str::to_owned)
}

/// An attribute, to be sent.
pub(super) fn encode(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).expect("names are short");
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute that has attributes as its value, to be sent.
pub(super) fn encode_nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    encode(kind | NLA_F_NESTED, attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_prefix_of_an_answer_does_harm() {
        let mut answer = 40_u32.to_ne_bytes().to_vec();
        answer.extend(20_u16.to_ne_bytes());
        answer.extend([0; 10]);
        answer.extend([2, 8, 0, 0, 1, 0, 0, 0, 8, 0, 1, 0, 127, 0, 0, 1, 0, 0, 2, 0, 1, 2, 3, 4]);
        for len in 0..=answer.len() {
            let _ = parse(&answer[..len], |_, body| {
                attributes(body).for_each(|(_, value)| drop((number(value), name(value))));
            });
        }
        let short = 3_u32.to_ne_bytes().repeat(4);
        parse(&short, |_, _| {}).expect_err("a length shorter than its own header");
    }

    #[test]
    fn attributes_of_any_length_round_trip() {
        let inner = [encode(3, b"abcde\0"), encode(4, &7_u32.to_ne_bytes())].concat();
        let bytes = encode_nested(1, &inner);
        let nested = attribute(&bytes, 1).expect("it is there");
        assert_eq!(attribute(nested, 3).and_then(name).as_deref(), Some("abcde"));
        assert_eq!(attribute(nested, 4).and_then(number), Some(7));
        assert_eq!(attribute(nested, 5), None);
    }
}
