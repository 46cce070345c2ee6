//! Speed and receive queues of an interface, from its driver or from the interfaces below it.

use super::ethtool::{self, Ethtool};
use super::link::{BondMode, Link, LinkKind};
use super::sysfs::Sysfs;

/// Interfaces one upon the other (a VLAN on a bond on a card) that are looked at.
const DEPTH_MAX: u32 = 4;

/// Bits per second that a tunnel to a program has before Linux 6.10 if nobody has set another. It
/// stands for nothing.
const TUN_SPEED: u64 = 10_000_000;

/// Something that was found, and how, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) how: String,
}

impl<T> Found<T> {
    fn new(value: T, how: impl Into<String>) -> Self {
        Self { value, how: how.into() }
    }

    /// Marks a value as found at another interface.
    fn of(self, link: &Link) -> Self {
        Self { how: format!("{}: {}", link.name, self.how), ..self }
    }
}

/// Source of the drivers' data.
pub(super) trait Drivers {
    /// Bits per second, and who says so.
    fn speed(&self, link: &Link) -> Option<(u64, &'static str)>;
    /// Number of receive queues, with its source.
    fn receive_queues(&self, link: &Link) -> Option<(u32, &'static str)>;
}

/// The drivers of this machine.
#[derive(Debug)]
pub(super) struct KernelDrivers {
    ethtool: Ethtool,
    sysfs: Sysfs,
}

impl KernelDrivers {
    /// Queries all drivers once, by netlink.
    pub(super) fn ask() -> Self {
        // An old kernel has its files only.
        Self { ethtool: ethtool::list().unwrap_or_default(), sysfs: Sysfs::of_kernel() }
    }
}

impl Drivers for KernelDrivers {
    fn speed(&self, link: &Link) -> Option<(u64, &'static str)> {
        let reported = self.ethtool.speeds.get(&link.index).map(|speed| (*speed, "ethtool"));
        reported.or_else(|| Some((self.sysfs.speed(link)?, "/sys")))
    }

    fn receive_queues(&self, link: &Link) -> Option<(u32, &'static str)> {
        let reported =
            self.ethtool.receive_queues.get(&link.index).map(|count| (*count, "ethtool"));
        reported.or_else(|| Some((self.sysfs.receive_queues(link)?, "/sys")))
    }
}

/// The interfaces of a machine and their drivers.
#[derive(Debug)]
pub(super) struct Detected<D> {
    pub(super) links: Vec<Link>,
    pub(super) drivers: D,
}

impl<D: Drivers> Detected<D> {
    /// The interface of a number.
    pub(super) fn link(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// Number shared by all addresses on the same hardware: the index of the device below, or the
    /// interface's own.
    pub(super) fn hardware(&self, link: &Link) -> Found<u32> {
        match self.bottom(link) {
            below if below.index == link.index => Found::new(link.index, "the kernel's number"),
            below => Found::new(below.index, "the kernel's number").of(below),
        }
    }

    /// Speed in bits per second.
    pub(super) fn speed(&self, link: &Link) -> Option<Found<u64>> {
        self.speed_within(link, DEPTH_MAX)
    }

    /// Whether received packets are spread over processors.
    pub(super) fn spreads(&self, link: &Link) -> Found<bool> {
        self.spreads_within(link, DEPTH_MAX)
    }

    fn bottom<'a>(&'a self, link: &'a Link) -> &'a Link {
        let below = |link: &&'a Link| match link.kind {
            LinkKind::Upon(index) => self.link(index),
            _ => None,
        };
        let depth = usize::try_from(DEPTH_MAX).expect("it is small");
        std::iter::successors(Some(link), below).take(depth + 1).last().unwrap_or(link)
    }

    /// The interfaces below this one that can carry traffic.
    fn ports(&self, link: &Link) -> Vec<&Link> {
        let is_port = |it: &&Link| it.port_of == Some(link.index) && it.is_up;
        self.links.iter().filter(is_port).collect()
    }

    fn speed_within(&self, link: &Link, depth: u32) -> Option<Found<u64>> {
        let reported = |link| self.drivers.speed(link).map(|(speed, by)| Found::new(speed, by));
        match link.kind {
            LinkKind::Loopback => None,
            LinkKind::Single | LinkKind::Veth => reported(link),
            LinkKind::Tun => reported(link).filter(|it| it.value != TUN_SPEED),
            LinkKind::Upon(_) => {
                let below = self.bottom(link);
                if matches!(below.kind, LinkKind::Upon(_)) {
                    return reported(link);
                }
                Some(self.speed_within(below, depth.checked_sub(1)?)?.of(below))
            }
            // The kernel adds up as below, where it does so at all.
            LinkKind::Bond { .. } | LinkKind::Bridge | LinkKind::Team => {
                reported(link).or_else(|| self.speed_of_ports(link, depth.checked_sub(1)?))
            }
        }
    }

    fn speed_of_ports(&self, link: &Link, depth: u32) -> Option<Found<u64>> {
        let of_port =
            |port: &&Link| Some((port.name.clone(), self.speed_within(port, depth)?.value));
        let ports = self.ports(link);
        let speeds: Vec<(String, u64)> = ports.iter().filter_map(of_port).collect();
        let names: Vec<&str> = speeds.iter().map(|(name, _)| name.as_str()).collect();
        let by_speed = |(_, speed): &&(String, u64)| *speed;
        match &link.kind {
            LinkKind::Bond { mode: BondMode::ActiveBackup, active } => {
                let port = ports.iter().find(|port| Some(port.index) == *active)?;
                let (name, speed) = of_port(port)?;
                Some(Found::new(speed, format!("{name}, the port in use")))
            }
            LinkKind::Bond { mode: BondMode::Broadcast, .. } => {
                let (name, speed) = speeds.iter().min_by_key(by_speed)?;
                Some(Found::new(*speed, format!("{name}, the slowest port")))
            }
            LinkKind::Bond { mode: BondMode::Together, .. } | LinkKind::Team => {
                let speed = speeds.iter().map(|(_, speed)| speed).sum();
                let how = format!("the sum of {}", names.join(", "));
                (!names.is_empty()).then(|| Found::new(speed, how))
            }
            _ => {
                let (name, speed) = speeds.iter().max_by_key(by_speed)?;
                Some(Found::new(*speed, format!("{name}, the fastest port")))
            }
        }
    }

    fn spreads_within(&self, link: &Link, depth: u32) -> Found<bool> {
        let ports = match &link.kind {
            LinkKind::Loopback | LinkKind::Single | LinkKind::Tun | LinkKind::Veth => {
                return self.has_queues(link);
            }
            LinkKind::Upon(_) => match self.bottom(link) {
                below if matches!(below.kind, LinkKind::Upon(_)) => return self.has_queues(link),
                below => vec![below],
            },
            LinkKind::Bond { mode: BondMode::ActiveBackup, active } => {
                let mut ports = self.ports(link);
                ports.retain(|port| Some(port.index) == *active);
                ports
            }
            LinkKind::Bond { .. } | LinkKind::Team => self.ports(link),
            // Traffic of the network arrives at the fastest port; the other ports lead to guests.
            LinkKind::Bridge => {
                let speed = |port: &&Link| {
                    let depth = depth.saturating_sub(1);
                    let speed = self.speed_within(port, depth).map(|speed| speed.value);
                    (speed, self.spreads_within(port, depth).value)
                };
                self.ports(link).into_iter().max_by_key(speed).into_iter().collect()
            }
        };
        let Some(depth) = depth.checked_sub(1) else { return self.has_queues(link) };
        let of_ports: Vec<Found<bool>> =
            ports.iter().map(|port| self.spreads_within(port, depth).of(port)).collect();
        match of_ports.iter().find(|it| !it.value) {
            Some(port) => port.clone(),
            None if of_ports.is_empty() => Found::new(false, "it has no port that is up"),
            None => {
                let hows: Vec<&str> = of_ports.iter().map(|it| it.how.as_str()).collect();
                Found::new(true, hows.join(", "))
            }
        }
    }

    fn has_queues(&self, link: &Link) -> Found<bool> {
        match self.drivers.receive_queues(link) {
            Some((1, by)) => Found::new(false, format!("1 receive queue, {by}")),
            Some((count, by)) => Found::new(count > 1, format!("{count} receive queues, {by}")),
            None => Found::new(false, "the driver reports no queues"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const GIGABIT: u64 = 1_000_000_000;

    /// Values by interface name: gigabits per second and receive queues; 0 for unknown.
    #[derive(Debug)]
    pub(in super::super) struct Reported(pub(in super::super) Vec<(&'static str, u64, u32)>);

    impl Drivers for Reported {
        fn speed(&self, link: &Link) -> Option<(u64, &'static str)> {
            let reported = self.0.iter().find(|(name, ..)| *name == link.name)?;
            (reported.1 > 0).then_some((reported.1 * GIGABIT, "ethtool"))
        }

        fn receive_queues(&self, link: &Link) -> Option<(u32, &'static str)> {
            let reported = self.0.iter().find(|(name, ..)| *name == link.name)?;
            (reported.2 > 0).then_some((reported.2, "ethtool"))
        }
    }

    pub(in super::super) fn link(index: u32, name: &str, kind: LinkKind) -> Link {
        Link {
            index,
            name: name.to_owned(),
            is_up: true,
            kind,
            port_of: None,
            hardware_address: None,
        }
    }

    fn port(index: u32, name: &str, port_of: u32) -> Link {
        Link { port_of: Some(port_of), ..link(index, name, LinkKind::Single) }
    }

    fn bond(mode: BondMode, active: Option<u32>) -> LinkKind {
        LinkKind::Bond { mode, active }
    }

    /// The speed in gigabits and whether it spreads, of the first link.
    #[track_caller]
    fn check(links: &[Link], reported: &[(&'static str, u64, u32)], want: (Option<u64>, bool)) {
        let detected = Detected { links: links.to_vec(), drivers: Reported(reported.to_vec()) };
        let speed = detected.speed(&links[0]).map(|it| it.value / GIGABIT);
        assert_eq!((speed, detected.spreads(&links[0]).value), want);
    }

    #[test]
    fn the_data_of_a_card_are_those_of_its_driver() {
        let card = [link(2, "eth0", LinkKind::Single)];
        check(&card, &[("eth0", 25, 4)], (Some(25), true));
        check(&card, &[("eth0", 0, 1)], (None, false));
        check(&card, &[], (None, false));
    }

    #[test]
    fn a_vlan_has_the_data_of_the_device_below_it() {
        let links = [
            link(3, "eth0.7", LinkKind::Upon(2)),
            link(2, "eth0", LinkKind::Single),
            link(4, "mac0", LinkKind::Upon(3)),
        ];
        let reported = vec![("eth0", 25, 4), ("eth0.7", 0, 1)];
        check(&links, &reported, (Some(25), true));
        let detected = Detected { links: links.to_vec(), drivers: Reported(reported) };
        for above in [&links[0], &links[2]] {
            assert_eq!(detected.hardware(above).value, 2, "{}", above.name);
            assert_eq!(detected.speed(above).expect("it is known").how, "eth0: ethtool");
        }
        assert_eq!(detected.hardware(&links[1]).value, 2);
    }

    #[test]
    fn a_bond_is_as_fast_as_its_mode_makes_it() {
        let ports = [port(2, "eth0", 9), port(3, "eth1", 9)];
        let reported = [("eth0", 25, 4), ("eth1", 10, 1)];
        let with = |kind| [vec![link(9, "bond0", kind)], ports.to_vec()].concat();
        check(&with(bond(BondMode::Together, None)), &reported, (Some(35), false));
        check(&with(bond(BondMode::Broadcast, None)), &reported, (Some(10), false));
        check(&with(bond(BondMode::ActiveBackup, Some(2))), &reported, (Some(25), true));
        check(&with(bond(BondMode::ActiveBackup, Some(3))), &reported, (Some(10), false));
        check(&with(bond(BondMode::ActiveBackup, None)), &reported, (None, false));
    }

    #[test]
    fn a_bonds_speed_from_the_kernel_is_not_added_up_again() {
        let links = [link(9, "bond0", bond(BondMode::Together, None)), port(2, "eth0", 9)];
        check(&links, &[("bond0", 35, 16), ("eth0", 25, 4)], (Some(35), true));
    }

    #[test]
    fn a_port_without_a_cable_is_none() {
        let mut down = port(3, "eth1", 9);
        down.is_up = false;
        let links = [link(9, "team0", LinkKind::Team), port(2, "eth0", 9), down];
        check(&links, &[("eth0", 10, 4), ("eth1", 10, 1)], (Some(10), true));
        check(&links[..1], &[], (None, false));
    }

    #[test]
    fn a_bridge_is_its_fastest_port() {
        let bridge = link(9, "br0", LinkKind::Bridge);
        let links = [bridge, port(2, "eth0", 9), port(3, "vnet0", 9)];
        check(&links, &[("eth0", 25, 4), ("vnet0", 10, 1)], (Some(25), true));
        check(&links, &[("eth0", 25, 1), ("vnet0", 10, 4)], (Some(25), false));
        check(&links, &[("eth0", 0, 4)], (None, true));
    }

    #[test]
    fn a_vlan_on_a_bond_of_two_cards_adds_up() {
        let bond = link(9, "bond0", bond(BondMode::Together, None));
        let links =
            [link(10, "bond0.7", LinkKind::Upon(9)), bond, port(2, "eth0", 9), port(3, "eth1", 9)];
        let reported = [("eth0", 10, 4), ("eth1", 10, 4), ("bond0.7", 0, 1)];
        check(&links, &reported, (Some(20), true));
    }

    #[test]
    fn loopback_and_tunnels_without_a_speed_have_none() {
        check(&[link(1, "lo", LinkKind::Loopback)], &[("lo", 1, 1)], (None, false));
        let tun = [link(5, "tun0", LinkKind::Tun)];
        check(&tun, &[("tun0", 10, 1)], (Some(10), false));
        struct Old;
        impl Drivers for Old {
            fn speed(&self, _: &Link) -> Option<(u64, &'static str)> {
                Some((10_000_000, "ethtool"))
            }
            fn receive_queues(&self, _: &Link) -> Option<(u32, &'static str)> {
                None
            }
        }
        let detected = Detected { links: tun.to_vec(), drivers: Old };
        assert_eq!(detected.speed(&tun[0]), None);
    }

    #[test]
    fn interfaces_that_stand_upon_each_other_in_a_circle_end() {
        let links = [link(2, "a", LinkKind::Upon(3)), link(3, "b", LinkKind::Upon(2))];
        check(&links, &[("a", 1, 2), ("b", 1, 2)], (Some(1), true));
        let mut bond_of_itself = link(9, "bond0", bond(BondMode::Together, None));
        bond_of_itself.port_of = Some(9);
        check(&[bond_of_itself], &[], (None, false));
    }
}
