//! NETWORK_INTERFACE_INFO lists the server's addresses, for multichannel: [MS-SMB2] 2.2.32.5.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

bitflags::bitflags! {
    /// Capabilities of an interface: [MS-SMB2] 2.2.32.5.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct NetworkInterfaceCapability: u32 {
        /// The interface spreads connections over processors.
        const RSS_CAPABLE = 0x0000_0001;
        /// The interface transfers data by RDMA.
        const RDMA_CAPABLE = 0x0000_0002;

        const _ = !0;
    }
}

/// One address of a network interface of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetworkInterface {
    /// Number of the interface, the same for each of its addresses.
    pub if_index: u32,
    /// Capabilities of the interface.
    pub capability: NetworkInterfaceCapability,
    /// Speed in bits per second.
    pub link_speed: u64,
    /// The address; `None` if its family is unknown.
    pub address: Option<IpAddr>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    next: U32,
    if_index: U32,
    capability: U32,
    reserved: U32,
    link_speed: U64,
    /// SockAddr_Storage: the family decides on the layout of the rest.
    family: U16,
    address: [u8; 126],
}

/// InterNetwork: port (2 bytes), address (4), reserved (8); [MS-SMB2] 2.2.32.5.1.1.
const FAMILY_INTER_NETWORK: u16 = 0x0002;

/// InterNetworkV6: port (2 bytes), flow (4), address (16), scope (4); [MS-SMB2] 2.2.32.5.1.2.
const FAMILY_INTER_NETWORK_V6: u16 = 0x0017;

impl NetworkInterface {
    fn from_layout(layout: &Layout) -> Self {
        let address = &layout.address;
        let address = match layout.family.get() {
            FAMILY_INTER_NETWORK => {
                address[2..].first_chunk::<4>().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets)))
            }
            FAMILY_INTER_NETWORK_V6 => {
                address[6..].first_chunk::<16>().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets)))
            }
            _ => None,
        };
        Self {
            if_index: layout.if_index.get(),
            capability: NetworkInterfaceCapability::from_bits_retain(layout.capability.get()),
            link_speed: layout.link_speed.get(),
            address,
        }
    }

    fn layout(&self) -> Layout {
        let mut address = [0; 126];
        let family = match self.address {
            None => 0,
            Some(IpAddr::V4(v4)) => {
                address[2..6].copy_from_slice(&v4.octets());
                FAMILY_INTER_NETWORK
            }
            Some(IpAddr::V6(v6)) => {
                address[6..22].copy_from_slice(&v6.octets());
                FAMILY_INTER_NETWORK_V6
            }
        };
        Layout {
            next: U32::ZERO,
            if_index: self.if_index.into(),
            capability: self.capability.bits().into(),
            reserved: U32::ZERO,
            link_speed: self.link_speed.into(),
            family: family.into(),
            address,
        }
    }
}

/// The addresses in the output of QUERY_NETWORK_INTERFACE_INFO. An unreadable entry is an error
/// value, which ends the iteration.
#[derive(Clone, Debug)]
pub struct NetworkInterfaces<'a> {
    rest: &'a [u8],
}

impl<'a> NetworkInterfaces<'a> {
    /// Reads the addresses in `output`.
    #[must_use]
    pub const fn new(output: &'a [u8]) -> Self {
        Self { rest: output }
    }
}

impl Iterator for NetworkInterfaces<'_> {
    type Item = Result<NetworkInterface, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let chain = std::mem::take(&mut self.rest);
        let (layout, _) = match message::prefix::<Layout>(chain) {
            Ok(split) => split,
            Err(error) => return Some(Err(error)),
        };
        let next = layout.next.get();
        match usize::try_from(next).unwrap_or(usize::MAX) {
            0 => {}
            offset if offset < size_of::<Layout>() || offset >= chain.len() => {
                return Some(Err(DecodeError::BadValue { field: "Next", value: next.into() }));
            }
            offset => self.rest = &chain[offset..],
        }
        Some(Ok(NetworkInterface::from_layout(layout)))
    }
}

/// Addresses to send, already encoded.
#[derive(Clone, Debug, Default)]
pub struct NetworkInterfaceList {
    bytes: Vec<u8>,
    /// Offset of the last entry, whose Next is still zero.
    last: usize,
}

impl NetworkInterfaceList {
    /// Bytes of each encoded address.
    pub const ENTRY_SIZE: usize = size_of::<Layout>();

    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), last: 0 }
    }

    /// Adds an address to the end.
    pub fn push(&mut self, interface: &NetworkInterface) {
        if !self.bytes.is_empty() {
            let next = message::len32(&self.bytes[self.last..]);
            self.bytes[self.last..self.last + 4].copy_from_slice(&next.to_le_bytes());
        }
        self.last = self.bytes.len();
        message::put(&mut self.bytes, &interface.layout());
    }

    /// The encoded entries, for a response.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
