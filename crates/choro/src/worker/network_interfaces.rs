//! What clients are told of this machine's addresses: [MS-SMB2] 2.2.32.5.
//!
//! Speed and queues are asked of the kernel; `interfaces` chooses among the addresses, and what it
//! says of one of them counts instead of what was found.

use std::fs;
use std::path::{Path, PathBuf};

use config::Global;
use config::interface::InterfaceSpec;
use tracing::warn;
use wire::ioctl::{NetworkInterface, NetworkInterfaceCapability};

use crate::addresses::{self, InterfaceAddress};

/// Where the kernel tells of interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Bits per second of a link of which the driver says nothing, such as virtio's or the loopback.
/// Clients only compare, and treat addresses of one speed alike.
const SPEED_UNKNOWN: u64 = 1_000_000_000;

/// Interfaces one upon the other (a VLAN on a bond on a card) that are looked at.
const DEPTH_MAX: u32 = 4;

/// Addresses that clients are told of. A machine with more is not known, and the list has to fit
/// into the 64 KiB that Windows has room for.
const ADDRESSES_MAX: usize = 256;

/// The addresses that clients may come to, as they are now.
pub(super) fn list(global: &Global) -> Vec<NetworkInterface> {
    match addresses::list() {
        Ok(machine) => choose(&global.interface_specs(), &machine, &Sysfs(INTERFACES.into())),
        Err(error) => {
            warn!("the addresses of this machine cannot be listed: {error}");
            Vec::new()
        }
    }
}

/// What the kernel knows of an interface.
trait Links {
    /// Its number. Another one than the address has means that what is known is of another network:
    /// see [`addresses`].
    fn index(&self, interface: &str) -> Option<u32>;
    /// Bits per second.
    fn speed(&self, interface: &str) -> Option<u64>;
    /// What is received is spread over processors.
    fn spreads(&self, interface: &str) -> bool;
}

/// Each address once, of the first word that names it. Without words, all but the loopback's; that
/// one only if there is no other.
fn choose(
    specs: &[InterfaceSpec],
    machine: &[InterfaceAddress],
    links: &impl Links,
) -> Vec<NetworkInterface> {
    let usable = |it: &&InterfaceAddress| !it.is_link_local() && it.index != 0 && it.is_up;
    let mut chosen: Vec<_> = machine
        .iter()
        .filter(usable)
        .filter_map(|address| {
            let spec = specs.iter().find(|spec| address.is_named_by(spec));
            (specs.is_empty() || spec.is_some()).then_some((address, spec))
        })
        .collect();
    if specs.is_empty() && chosen.iter().any(|(it, _)| !it.address.is_loopback()) {
        chosen.retain(|(it, _)| !it.address.is_loopback());
    }
    chosen.truncate(ADDRESSES_MAX);
    chosen.into_iter().map(|(address, spec)| describe(address, spec, links)).collect()
}

fn describe(
    address: &InterfaceAddress,
    spec: Option<&InterfaceSpec>,
    links: &impl Links,
) -> NetworkInterface {
    let said = spec.cloned().unwrap_or_default();
    let interface = &address.interface;
    let mut capability = NetworkInterfaceCapability::empty();
    let is_known = links.index(interface) == Some(address.index);
    let spreads = said.rss || (is_known && links.spreads(interface));
    capability.set(NetworkInterfaceCapability::RSS_CAPABLE, spreads);
    capability.set(NetworkInterfaceCapability::RDMA_CAPABLE, said.rdma);
    let speed = said.speed.or_else(|| links.speed(interface).filter(|_| is_known));
    NetworkInterface {
        if_index: said.if_index.unwrap_or(address.index),
        capability,
        link_speed: speed.unwrap_or(SPEED_UNKNOWN),
        address: Some(address.address),
    }
}

/// The kernel's files on interfaces.
struct Sysfs(PathBuf);

impl Sysfs {
    fn read(&self, interface: &str, name: &str) -> Option<String> {
        fs::read_to_string(self.path(interface).join(name)).ok()
    }

    fn path(&self, interface: &str) -> PathBuf {
        // The name is one that the kernel gave, and so has no `/`.
        self.0.join(interface)
    }

    /// The interfaces that this one is made of: a bond's cards, a VLAN's link, a bridge's ports.
    fn lower(&self, interface: &str) -> Vec<String> {
        entries(&self.path(interface), "lower_")
    }

    fn own_speed(&self, interface: &str) -> Option<u64> {
        const MEGABIT: u64 = 1_000_000;
        let speed: i64 = self.read(interface, "speed")?.trim().parse().ok()?;
        // -1 and 0 mean that the driver does not know.
        u64::try_from(speed).ok().filter(|speed| *speed > 0)?.checked_mul(MEGABIT)
    }

    fn speed_within(&self, interface: &str, depth: u32) -> Option<u64> {
        let own = self.own_speed(interface);
        if own.is_some() || depth == 0 {
            return own;
        }
        self.lower(interface).iter().filter_map(|it| self.speed_within(it, depth - 1)).max()
    }

    fn spreads_within(&self, interface: &str, depth: u32) -> bool {
        let lower = self.lower(interface);
        if lower.is_empty() || depth == 0 {
            return entries(&self.path(interface).join("queues"), "rx-").len() > 1;
        }
        lower.iter().all(|it| self.spreads_within(it, depth - 1))
    }
}

impl Links for Sysfs {
    fn index(&self, interface: &str) -> Option<u32> {
        self.read(interface, "ifindex")?.trim().parse().ok()
    }

    fn speed(&self, interface: &str) -> Option<u64> {
        self.speed_within(interface, DEPTH_MAX)
    }

    fn spreads(&self, interface: &str) -> bool {
        self.spreads_within(interface, DEPTH_MAX)
    }
}

/// What of the entries of a directory stands behind `prefix`.
fn entries(directory: &Path, prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix(prefix).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// Two queues and 10 Gbit/s for `eth0`, nothing known of others, `down0` without a cable.
    struct Known;

    impl Links for Known {
        fn index(&self, interface: &str) -> Option<u32> {
            machine().iter().find(|it| it.interface == interface).map(|it| it.index)
        }

        fn speed(&self, interface: &str) -> Option<u64> {
            (interface == "eth0").then_some(10_000_000_000)
        }

        fn spreads(&self, interface: &str) -> bool {
            interface == "eth0"
        }
    }

    fn machine() -> Vec<InterfaceAddress> {
        [
            (1, "lo", "127.0.0.1"),
            (2, "eth0", "192.0.2.1"),
            (2, "eth0", "2001:db8::1"),
            (2, "eth0", "fe80::1"),
            (3, "eth1", "198.51.100.1"),
            (4, "down0", "203.0.113.1"),
        ]
        .into_iter()
        .map(|(index, interface, address)| InterfaceAddress {
            index,
            interface: interface.to_owned(),
            is_up: interface != "down0",
            address: address.parse().expect("it is an address"),
            prefix_len: 24,
        })
        .collect()
    }

    fn told(words: &[&str]) -> Vec<(u32, u64, u32, String)> {
        let specs: Vec<_> = words.iter().map(|word| InterfaceSpec::parse(word)).collect();
        let told = choose(&specs, &machine(), &Known);
        let row = |it: NetworkInterface| {
            let address = it.address.map(|it| it.to_string()).unwrap_or_default();
            (it.if_index, it.link_speed, it.capability.bits(), address)
        };
        told.into_iter().map(row).collect()
    }

    #[test]
    fn clients_are_told_of_every_address_they_can_reach() {
        let want = [
            (2, 10_000_000_000, 1, "192.0.2.1".to_owned()),
            (2, 10_000_000_000, 1, "2001:db8::1".to_owned()),
            (3, SPEED_UNKNOWN, 0, "198.51.100.1".to_owned()),
        ];
        assert_eq!(told(&[]), want);
    }

    #[test]
    fn a_word_changes_the_fields_that_it_names_and_keeps_the_others() {
        let told = told(&["eth1;speed=25000000000,capability=RSS", "eth0;if_index=65"]);
        let want = [
            (65, 10_000_000_000, 1, "192.0.2.1".to_owned()),
            (65, 10_000_000_000, 1, "2001:db8::1".to_owned()),
            (3, 25_000_000_000, 1, "198.51.100.1".to_owned()),
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn the_first_word_that_names_an_address_counts() {
        let told = told(&["192.0.2.1;speed=7", "eth0;speed=8", "lo"]);
        let speeds: Vec<_> = told.iter().map(|it| (it.3.as_str(), it.1)).collect();
        assert_eq!(speeds, [("127.0.0.1", SPEED_UNKNOWN), ("192.0.2.1", 7), ("2001:db8::1", 8)]);
    }

    #[test]
    fn a_machine_with_nothing_else_tells_of_its_loopback() {
        let told = choose(&[], &machine()[..1], &Known);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].address, Some(IpAddr::from([127, 0, 0, 1])));
    }

    #[test]
    fn an_interface_upon_others_is_what_they_are() {
        let root = tempfile::tempdir().expect("a folder");
        let interface = |name: &str, speed: &str, queues: usize, lower: &[&str]| {
            let path = root.path().join(name);
            for queue in 0..queues {
                fs::create_dir_all(path.join(format!("queues/rx-{queue}"))).expect("a folder");
            }
            fs::create_dir_all(&path).expect("a folder");
            fs::write(path.join("speed"), speed).expect("a file");
            for lower in lower {
                fs::create_dir(path.join(format!("lower_{lower}"))).expect("a folder");
            }
        };
        interface("eth0", "25000\n", 4, &[]);
        interface("eth1", "10000\n", 4, &[]);
        interface("eth2", "-1\n", 1, &[]);
        interface("bond0", "35000\n", 16, &["eth0", "eth1"]);
        interface("bond0.7", "", 1, &["bond0"]);
        interface("br0", "-1\n", 1, &["eth1", "eth2"]);
        let links = Sysfs(root.path().to_owned());
        assert_eq!(links.speed("bond0.7"), Some(35_000_000_000));
        assert!(links.spreads("bond0.7"));
        assert_eq!(links.speed("br0"), Some(10_000_000_000));
        assert!(!links.spreads("br0"));
        assert_eq!((links.speed("eth2"), links.speed("absent")), (None, None));
    }
}
