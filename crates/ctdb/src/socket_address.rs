//! Addresses as ctdbd writes them: the C structures of IPv4 or IPv6, in 28 bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::malformed::Malformed;
use crate::reader::Reader;

const FAMILY_IPV4: u16 = 2;
const FAMILY_IPV6: u16 = 10;

/// Bytes of an address, of either family.
const ADDRESS_BYTES: usize = 28;

/// Reads an address; `None` for one of another family, such as that of a deleted node.
pub(crate) fn decode(fields: &mut Reader<'_>) -> Result<Option<SocketAddr>, Malformed> {
    let bytes = fields.bytes(ADDRESS_BYTES)?;
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let address = match u16::from_ne_bytes([bytes[0], bytes[1]]) {
        FAMILY_IPV4 => Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]).into(),
        FAMILY_IPV6 => {
            let octets: [u8; 16] = bytes[8..24].try_into().expect("28 bytes hold it");
            let scope = u32::from_ne_bytes(bytes[24..28].try_into().expect("likewise"));
            let address = SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope);
            return Ok(Some(address.into()));
        }
        _ => return Ok(None),
    };
    Ok(Some(SocketAddr::new(address, port)))
}

/// Adds an address to `output`.
pub(crate) fn encode(output: &mut Vec<u8>, address: SocketAddr) {
    let end = output.len() + ADDRESS_BYTES;
    let family = if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
    output.extend(family.to_ne_bytes());
    output.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(address) => output.extend(address.ip().octets()),
        SocketAddr::V6(address) => {
            output.extend([0; 4]);
            output.extend(address.ip().octets());
            output.extend(address.scope_id().to_ne_bytes());
        }
    }
    output.resize(end, 0);
}

/// Reads an address whose port means nothing.
pub(crate) fn decode_ip(fields: &mut Reader<'_>) -> Result<Option<IpAddr>, Malformed> {
    Ok(decode(fields)?.map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{Reader, decode, encode};

    #[test]
    fn addresses_of_both_families_survive() {
        for text in ["10.98.0.103:445", "[2001:db8::1]:445", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().expect("an address");
            let mut bytes = Vec::new();
            encode(&mut bytes, address);
            assert_eq!(bytes.len(), 28);
            assert_eq!(decode(&mut Reader::new(&bytes)), Ok(Some(address)));
        }
    }

    #[test]
    fn an_address_of_another_family_is_none() {
        assert_eq!(decode(&mut Reader::new(&[0; 28])), Ok(None));
        assert!(decode(&mut Reader::new(&[0; 27])).is_err_and(|it| it == super::Malformed::Short));
    }
}
