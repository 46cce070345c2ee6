//! Public addresses: those that CTDB moves between nodes.

use std::net::IpAddr;

use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::socket_address;

/// Highest number of public addresses in one answer.
pub const PUBLIC_ADDRESSES_MAX: usize = 4096;

/// Place of an address that no node has now.
const NOWHERE: u32 = u32::MAX;

/// An address that moves between nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PublicAddress {
    /// The address; clients connect to it.
    pub address: IpAddr,
    /// Number of the node that has it now; `None` if no node has it.
    pub node: Option<u32>,
}

impl PublicAddress {
    pub(crate) fn decode(fields: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let node = Some(fields.u32()?).filter(|node| *node != NOWHERE);
        let address = socket_address::decode_ip(fields)?;
        Ok(address.map(|address| Self { address, node }))
    }
}
