//! Interfaces offered to clients: [MS-SMB2] 2.2.32.5, 3.3.5.15.11.
//!
//! `interfaces` selects addresses, and its fields override detected ones. Each value carries its
//! origin, for `choro check --interfaces`.

use std::io;
use std::net::IpAddr;

use config::Global;
use config::interface::{Capability, InterfaceSpec};
use wire::ioctl::{NetworkInterface, NetworkInterfaceCapability};

use super::addresses::{self, InterfaceAddress};
use super::detected::{Detected, Drivers, Found, KernelDrivers};
use super::link;

/// Bits per second of a link of which the driver says nothing, such as virtio's or the loopback.
/// Clients only compare, and treat addresses of one speed alike. Samba says the same.
const SPEED_DEFAULT: u64 = 1_000_000_000;

/// Highest number of addresses offered to clients. A machine with more is not known, and the list
/// has to fit into the 64 KiB that Windows has room for.
const ADDRESSES_MAX: usize = 256;

/// The addresses of this machine, as far as clients are concerned.
#[derive(Debug, Default)]
pub struct Offer {
    /// Addresses that are offered to clients.
    pub offered: Vec<Offered>,
    /// Addresses that are not offered, as they would be.
    pub withheld: Vec<(Offered, Withheld)>,
    /// Words of `interfaces` that name nothing that is there.
    pub unmatched: Vec<String>,
}

/// An address that is offered to clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offered {
    pub address: IpAddr,
    /// Name of the interface, such as `eth0`.
    pub interface: String,
    /// The same for all addresses of the same hardware.
    pub if_index: OfferedValue<u32>,
    /// Speed in bits per second.
    pub speed: OfferedValue<u64>,
    /// True if received packets are spread over processors.
    pub rss: OfferedValue<bool>,
    /// True for remote direct memory access.
    pub rdma: OfferedValue<bool>,
}

/// A value offered to clients, with its origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OfferedValue<T> {
    pub value: T,
    pub origin: Origin,
}

/// Origin of a value offered to clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// It stands behind this word of `interfaces`.
    Configured(String),
    /// It is always so where nothing else is known.
    Default,
    /// It was found, in this way.
    Detected(String),
}

/// Reasons why an address is not offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Withheld {
    Down,
    Hidden,
    LinkLocal,
    Loopback,
    NotNamed,
    ListFull,
}

impl Withheld {
    /// Describes the reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Self::Down => "the interface is down or has no carrier, or the address is not settled",
            Self::Hidden => "`server multi channel hidden interfaces` names it",
            Self::LinkLocal => "it is link-local: clients cannot use it without an interface",
            Self::Loopback => "it is a loopback address, and there are others",
            Self::NotNamed => "`interfaces` does not name it",
            Self::ListFull => "the list is full",
        }
    }
}

impl Offer {
    /// The offer of this machine, as it is now.
    ///
    /// # Errors
    /// The kernel does not list its interfaces.
    pub fn now(global: &Global) -> io::Result<Self> {
        let links = link::list()?;
        let machine = addresses::of_links(&links)?;
        Ok(Self::of(global, machine, &Detected { links, drivers: KernelDrivers::ask() }))
    }

    /// Each address once, as the first word says that names it. Without words, all but the
    /// loopback's; that one only if there is no other.
    fn of<D: Drivers>(
        global: &Global,
        machine: Vec<InterfaceAddress>,
        detected: &Detected<D>,
    ) -> Self {
        let specs = &global.interfaces;
        let hidden = &global.server_multi_channel_hidden_interfaces;
        let unmatched = addresses::unmatched(specs, &machine);
        let mut offer = Self {
            unmatched: unmatched.map(|spec| spec.selector.clone()).collect(),
            ..Self::default()
        };
        let has_other = |it: &InterfaceAddress| {
            refusal(it, specs, hidden).is_none() && !it.address.is_loopback()
        };
        let withholds_loopback = specs.is_empty() && machine.iter().any(has_other);
        for address in machine {
            let refusal = refusal(&address, specs, hidden).or_else(|| {
                if withholds_loopback && address.address.is_loopback() {
                    return Some(Withheld::Loopback);
                }
                (offer.offered.len() >= ADDRESSES_MAX).then_some(Withheld::ListFull)
            });
            let spec = specs.iter().find(|spec| address.is_named_by(spec));
            let described = Offered::new(&address, spec, detected);
            match refusal {
                Some(why) => offer.withheld.push((described, why)),
                None => offer.offered.push(described),
            }
        }
        offer
    }

    /// Whether a client that reads the offer finds a reason for a further connection: other
    /// hardware, or some that spreads connections over processors.
    pub fn invites_channels(&self) -> bool {
        let first = self.offered.first().map(|it| it.if_index.value);
        self.offered.iter().any(|it| it.rss.value || Some(it.if_index.value) != first)
    }

    /// Returns the data on an address, offered or not.
    pub fn address(&self, address: IpAddr) -> Option<&Offered> {
        let withheld = self.withheld.iter().map(|(it, _)| it);
        self.offered.iter().chain(withheld).find(|it| it.address == address)
    }

    /// The list that goes to the client.
    pub fn to_wire(&self) -> Vec<NetworkInterface> {
        self.offered.iter().map(Offered::to_wire).collect()
    }
}

fn refusal(
    it: &InterfaceAddress,
    specs: &[InterfaceSpec],
    hidden: &[InterfaceSpec],
) -> Option<Withheld> {
    let is_named = |specs: &[InterfaceSpec]| specs.iter().any(|spec| it.is_named_by(spec));
    if it.is_link_local() {
        Some(Withheld::LinkLocal)
    } else if !specs.is_empty() && !is_named(specs) {
        Some(Withheld::NotNamed)
    } else if is_named(hidden) {
        Some(Withheld::Hidden)
    } else if !it.is_up {
        Some(Withheld::Down)
    } else {
        None
    }
}

impl Offered {
    fn new<D: Drivers>(
        address: &InterfaceAddress,
        spec: Option<&InterfaceSpec>,
        detected: &Detected<D>,
    ) -> Self {
        let link = detected.link(address.index);
        let unknown = InterfaceSpec::default();
        let spec = spec.unwrap_or(&unknown);
        let configured =
            |value| OfferedValue { value, origin: Origin::Configured(spec.selector.clone()) };
        let configured_capability = |pick: fn(Capability) -> bool| {
            let value = spec.capability.map(pick)?;
            Some(OfferedValue { value, origin: Origin::Configured(spec.selector.clone()) })
        };
        let found_index = || match link.map(|link| detected.hardware(link)) {
            Some(found) => found.into(),
            None => OfferedValue { value: address.index, origin: Origin::Default },
        };
        let found_speed = || match link.and_then(|link| detected.speed(link)) {
            Some(found) => found.into(),
            None => OfferedValue { value: SPEED_DEFAULT, origin: Origin::Default },
        };
        let nothing = || OfferedValue { value: false, origin: Origin::Default };
        let found_rss = || link.map_or_else(nothing, |link| detected.spreads(link).into());
        Self {
            address: address.address,
            interface: address.interface.clone(),
            if_index: spec.if_index.map_or_else(found_index, configured),
            speed: match spec.speed {
                Some(value) => {
                    OfferedValue { value, origin: Origin::Configured(spec.selector.clone()) }
                }
                None => found_speed(),
            },
            rss: configured_capability(|it| it.rss).unwrap_or_else(found_rss),
            // No transport of ours has it; the word is for tests of clients.
            rdma: configured_capability(|it| it.rdma).unwrap_or_else(nothing),
        }
    }

    fn to_wire(&self) -> NetworkInterface {
        let mut capability = NetworkInterfaceCapability::empty();
        capability.set(NetworkInterfaceCapability::RSS_CAPABLE, self.rss.value);
        capability.set(NetworkInterfaceCapability::RDMA_CAPABLE, self.rdma.value);
        NetworkInterface {
            if_index: self.if_index.value,
            capability,
            link_speed: self.speed.value,
            address: Some(self.address),
        }
    }
}

impl<T> From<Found<T>> for OfferedValue<T> {
    fn from(Found { value, how }: Found<T>) -> Self {
        Self { value, origin: Origin::Detected(how) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::detected::tests::{Reported, link};
    use super::super::link::LinkKind;
    use super::*;

    const ETH0: u64 = 10_000_000_000;

    fn machine() -> Vec<InterfaceAddress> {
        [
            (1, "lo", "127.0.0.1"),
            (2, "eth0", "192.0.2.1"),
            (2, "eth0", "2001:db8::1"),
            (2, "eth0", "fe80::1"),
            (3, "eth1", "198.51.100.1"),
            (4, "down0", "203.0.113.1"),
            (5, "eth0.7", "198.18.0.1"),
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

    /// Returns the offer of a server with these lines in `[global]`.
    fn offer_of(lines: &str, machine: Vec<InterfaceAddress>) -> Offer {
        let (config, warnings) =
            config::Config::parse(&format!("[global]\n{lines}"), "test").expect("it is understood");
        assert!(warnings.is_empty(), "{warnings:?}");
        let kinds = [
            (1, "lo", LinkKind::Loopback),
            (2, "eth0", LinkKind::Single),
            (3, "eth1", LinkKind::Single),
            (4, "down0", LinkKind::Single),
            (5, "eth0.7", LinkKind::Upon(2)),
        ];
        let links = kinds.into_iter().map(|(index, name, kind)| link(index, name, kind)).collect();
        // Nothing known but of `eth0`.
        let detected = Detected { links, drivers: Reported(vec![("eth0", 10, 4)]) };
        Offer::of(&config.global, machine, &detected)
    }

    fn offered(lines: &str) -> Vec<(u32, u64, u32, String)> {
        let row = |it: NetworkInterface| {
            let address = it.address.map(|it| it.to_string()).unwrap_or_default();
            (it.if_index, it.link_speed, it.capability.bits(), address)
        };
        offer_of(lines, machine()).to_wire().into_iter().map(row).collect()
    }

    #[test]
    fn clients_are_offered_every_address_they_can_reach() {
        let want = [
            (2, ETH0, 1, "192.0.2.1".to_owned()),
            (2, ETH0, 1, "2001:db8::1".to_owned()),
            (3, SPEED_DEFAULT, 0, "198.51.100.1".to_owned()),
            (2, ETH0, 1, "198.18.0.1".to_owned()),
        ];
        assert_eq!(offered(""), want);
    }

    #[test]
    fn a_word_changes_the_fields_that_it_names_and_keeps_the_others() {
        let offered = offered(
            "interfaces = \"eth1;speed=25000000000,capability=RSS,RDMA\" \"eth0;if_index=65\" \
             \"eth0.7;capability=NONE\"",
        );
        let want = [
            (65, ETH0, 1, "192.0.2.1".to_owned()),
            (65, ETH0, 1, "2001:db8::1".to_owned()),
            (3, 25_000_000_000, 3, "198.51.100.1".to_owned()),
            (2, ETH0, 0, "198.18.0.1".to_owned()),
        ];
        assert_eq!(offered, want);
    }

    #[test]
    fn each_field_names_its_source() {
        let offer = offer_of("interfaces = \"eth1;if_index=65\" eth0.7", machine());
        let [eth1, vlan] = &offer.offered[..] else { panic!("{offer:?}") };
        assert_eq!(eth1.if_index.origin, Origin::Configured("eth1".to_owned()));
        assert_eq!(eth1.speed.origin, Origin::Default);
        assert_eq!(vlan.speed.origin, Origin::Detected("eth0: ethtool".to_owned()));
        assert_eq!(vlan.rss.origin, Origin::Detected("eth0: 4 receive queues, ethtool".to_owned()));
    }

    #[test]
    fn the_first_word_that_names_an_address_counts() {
        let offered = offered("interfaces = \"192.0.2.1;speed=7\", \"eth0;speed=8\" lo");
        let speeds: Vec<_> = offered.iter().map(|it| (it.3.as_str(), it.1)).collect();
        assert_eq!(speeds, [("127.0.0.1", SPEED_DEFAULT), ("192.0.2.1", 7), ("2001:db8::1", 8)]);
    }

    #[test]
    fn a_machine_with_nothing_else_offers_its_loopback() {
        let offer = offer_of("", machine()[..1].to_vec());
        assert_eq!(offer.offered[0].address, IpAddr::from([127, 0, 0, 1]));
        let down_only = [machine()[0].clone(), machine()[5].clone()].to_vec();
        assert_eq!(offer_of("", down_only).offered.len(), 1);
    }

    #[test]
    fn each_withheld_address_has_a_reason() {
        let lines = "server multi channel hidden interfaces = 192.0.2.0/24 wlan0";
        let offer = offer_of(lines, machine());
        let withheld: Vec<_> =
            offer.withheld.iter().map(|(it, why)| (it.address.to_string(), *why)).collect();
        let want = [
            ("127.0.0.1", Withheld::Loopback),
            ("192.0.2.1", Withheld::Hidden),
            ("fe80::1", Withheld::LinkLocal),
            ("203.0.113.1", Withheld::Down),
        ];
        assert_eq!(withheld, want.map(|(address, why)| (address.to_owned(), why)));
        let offer = offer_of("interfaces = eth1 wlan0", machine());
        assert_eq!(offer.unmatched, ["wlan0"]);
        let eth0 = offer.withheld.iter().find(|(it, _)| it.address == machine()[1].address);
        assert_eq!(eth0.map(|(it, why)| (it.speed.value, *why)), Some((ETH0, Withheld::NotNamed)));
        let described = offer.address(machine()[1].address).expect("the machine has it");
        assert_eq!(described.interface, "eth0");
        assert_eq!(offer.address(IpAddr::from([8, 8, 8, 8])), None);
    }

    #[test]
    fn one_interface_invites_further_channels_only_if_it_spreads_them() {
        assert!(offer_of("interfaces = eth0", machine()).invites_channels());
        assert!(offer_of("interfaces = lo eth1", machine()).invites_channels());
        assert!(!offer_of("interfaces = eth1", machine()).invites_channels());
        assert!(!offer_of("interfaces = \"eth0*;capability=NONE\"", machine()).invites_channels());
        assert!(!Offer::default().invites_channels());
    }

    #[test]
    fn more_addresses_than_clients_have_room_for_are_left_out() {
        let eth1 = machine()[4].clone();
        let address =
            |last| InterfaceAddress { address: IpAddr::from([198, 18, 1, last]), ..eth1.clone() };
        let more: Vec<_> = (0..=255).map(address).chain([eth1.clone()]).collect();
        let offer = offer_of("", more);
        let left_out: Vec<_> = offer.withheld.iter().map(|(it, why)| (it.address, *why)).collect();
        assert_eq!(offer.offered.len(), 256);
        assert_eq!(left_out, [(eth1.address, Withheld::ListFull)]);
    }
}
