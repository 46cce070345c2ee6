//! Drivers' data on their devices: generic netlink's family `ethtool`, since Linux 5.6.

use std::collections::HashMap;
use std::io;

use super::netlink::{Extent, Subject, ask, attribute, encode, encode_nested, number};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_LINKMODES_GET: u8 = 4;
const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
/// The same in every request and answer of the family.
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_FLAG_COMPACT_BITSETS: u32 = 1;
const ETHTOOL_A_LINKMODES_SPEED: u16 = 5;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;
/// The driver does not know.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// Bytes of a `genlmsghdr`, the fixed header.
const HEADER_BYTES: usize = 4;

/// Data of all drivers, by the interface's number.
#[derive(Debug, Default)]
pub(super) struct Ethtool {
    /// Bits per second, by `ETHTOOL_MSG_LINKMODES_GET`.
    pub(super) speeds: HashMap<u32, u64>,
    /// Number of receive queues, by `ETHTOOL_MSG_CHANNELS_GET`.
    pub(super) receive_queues: HashMap<u32, u32>,
}

/// Asks all drivers.
///
/// # Errors
/// The kernel has no such family.
pub(super) fn list() -> io::Result<Ethtool> {
    let family = family()?;
    let ask_all = |message: u8, read: fn(&[u8]) -> Option<(u32, u64)>| {
        let flags = encode(ETHTOOL_A_HEADER_FLAGS, &ETHTOOL_FLAG_COMPACT_BITSETS.to_ne_bytes());
        let body = [header(message), encode_nested(ETHTOOL_A_HEADER, &flags)].concat();
        ask(Subject::Generic, Extent::All, family, &body, |_, body| read(body.get(HEADER_BYTES..)?))
    };
    let speeds = ask_all(ETHTOOL_MSG_LINKMODES_GET, speed)?;
    // Kernels from 5.6 to 5.7 report speeds only.
    let queues = ask_all(ETHTOOL_MSG_CHANNELS_GET, receive_queues).unwrap_or_default();
    let queues = queues.into_iter().filter_map(|(at, count)| Some((at, count.try_into().ok()?)));
    Ok(Ethtool { speeds: speeds.into_iter().collect(), receive_queues: queues.collect() })
}

/// The number that the family has since the machine was started.
fn family() -> io::Result<u16> {
    let body = [header(CTRL_CMD_GETFAMILY), encode(CTRL_ATTR_FAMILY_NAME, b"ethtool\0")].concat();
    let found = ask(Subject::Generic, Extent::One, GENL_ID_CTRL, &body, |_, body| {
        let id = attribute(body.get(HEADER_BYTES..)?, CTRL_ATTR_FAMILY_ID)?;
        id.try_into().ok().map(u16::from_ne_bytes)
    })?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| io::Error::other("the kernel has no ethtool over netlink"))
}

fn header(command: u8) -> Vec<u8> {
    const VERSION: u8 = 1;
    vec![command, VERSION, 0, 0]
}

fn device(attributes: &[u8]) -> Option<u32> {
    let header = attribute(attributes, ETHTOOL_A_HEADER)?;
    attribute(header, ETHTOOL_A_HEADER_DEV_INDEX).and_then(number)
}

fn speed(attributes: &[u8]) -> Option<(u32, u64)> {
    const MEGABIT: u64 = 1_000_000;
    let speed = attribute(attributes, ETHTOOL_A_LINKMODES_SPEED).and_then(number)?;
    let is_known = speed != 0 && speed != SPEED_UNKNOWN;
    is_known.then_some((device(attributes)?, u64::from(speed) * MEGABIT))
}

fn receive_queues(attributes: &[u8]) -> Option<(u32, u64)> {
    let count = |kind| attribute(attributes, kind).and_then(number).map(u64::from);
    let of_their_own = count(ETHTOOL_A_CHANNELS_RX_COUNT);
    let combined = count(ETHTOOL_A_CHANNELS_COMBINED_COUNT);
    let queues = of_their_own.into_iter().chain(combined).sum();
    (queues > 0).then_some((device(attributes)?, queues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(attributes: &[(u16, u32)]) -> Vec<u8> {
        let header = encode(ETHTOOL_A_HEADER_DEV_INDEX, &2_u32.to_ne_bytes());
        let mut bytes = encode_nested(ETHTOOL_A_HEADER, &header);
        for (kind, value) in attributes {
            bytes.extend(encode(*kind, &value.to_ne_bytes()));
        }
        bytes
    }

    #[test]
    fn a_speed_that_the_driver_does_not_know_is_none() {
        for (reported, want) in
            [(25_000, Some((2, 25_000_000_000))), (0, None), (SPEED_UNKNOWN, None)]
        {
            assert_eq!(speed(&answer(&[(ETHTOOL_A_LINKMODES_SPEED, reported)])), want);
        }
        assert_eq!(speed(&answer(&[])), None);
    }

    #[test]
    fn queues_that_only_receive_count_with_those_that_send_too() {
        let (own, combined) = (ETHTOOL_A_CHANNELS_RX_COUNT, ETHTOOL_A_CHANNELS_COMBINED_COUNT);
        assert_eq!(receive_queues(&answer(&[(own, 1), (combined, 8)])), Some((2, 9)));
        assert_eq!(receive_queues(&answer(&[(combined, 1)])), Some((2, 1)));
        assert_eq!(receive_queues(&answer(&[(own, 0)])), None);
        assert_eq!(receive_queues(&answer(&[])), None);
    }
}
