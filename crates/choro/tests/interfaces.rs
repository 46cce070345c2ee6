//! Interfaces offered to clients, on real interfaces in a network namespace.
//!
//! It needs root and iproute2. Kinds that the kernel lacks are skipped, with a message.

mod harness;

use std::collections::HashMap;

use harness::choro::{Site, wait_until};
use harness::namespace::Namespace;
use harness::smbtorture::progress;
use serde_json::Value;

/// A network, and a place for a server in it.
struct Network {
    _namespace: Namespace,
    site: Site,
}

impl Network {
    /// A network in which these commands of `ip` were carried out. Nothing if the machine does not
    /// allow it: it is printed why.
    fn new(commands: &[&str]) -> Option<Self> {
        let setup: String = commands.iter().map(|command| format!("ip {command}\n")).collect();
        match Namespace::of_network(&setup) {
            Ok(namespace) => {
                let mut site = Site::new();
                site.launch_with(&namespace.launcher());
                Some(Self { _namespace: namespace, site })
            }
            Err(why) => {
                let is_missing =
                    ["not permitted", "not supported", "not found", "Unknown device type"];
                assert!(is_missing.iter().any(|reason| why.contains(reason)), "{why}");
                progress(&format!("left out, this machine does not allow it: {why}"));
                None
            }
        }
    }

    /// Runs `choro check --interfaces` with this line in `[global]`; returns rows of one kind by
    /// address.
    fn rows(&self, line: &str, kind: &str) -> HashMap<String, Value> {
        self.site.write_config_with(&format!("{line}\n"), "");
        let rows = self.site.run(&["check", "--interfaces", "--json"]).succeeds();
        let rows: Vec<Value> = serde_json::from_str(&rows).expect("it is JSON");
        let of_kind = rows.into_iter().filter(|row| row["kind"] == kind);
        of_kind.map(|row| (row["address"].as_str().unwrap_or_default().to_owned(), row)).collect()
    }

    fn offered(&self) -> HashMap<String, Value> {
        self.rows("interfaces =", "offered")
    }
}

const VETH: &str = "link add near type veth peer name far";
const VETH_OF_4_QUEUES: &str =
    "link add wide numrxqueues 4 numtxqueues 4 type veth peer name wider numrxqueues 4";
const GIGABIT: u64 = 1_000_000_000;

#[test]
fn each_address_is_offered_once_with_the_kernels_data_of_its_interface() {
    let Some(network) = Network::new(&[
        VETH,
        "link set far up",
        "link set near up",
        "address add 192.0.2.1/24 dev near",
        "address add 2001:db8::1/64 dev near nodad",
    ]) else {
        return;
    };
    let offered = network.offered();
    assert_eq!(offered.len(), 2, "{offered:?}");
    let (four, six) = (&offered["192.0.2.1"], &offered["2001:db8::1"]);
    assert_eq!(four["if_index"], six["if_index"]);
    assert_eq!((&four["interface"], &four["speed_from"]), (&"near".into(), &"detected".into()));
    assert_eq!((&four["speed_bits_per_s"], &four["rss"]), (&(10 * GIGABIT).into(), &false.into()));
    let withheld = network.rows("interfaces =", "not_told");
    assert!(withheld.keys().any(|address| address.starts_with("fe80::")), "{withheld:?}");
}

#[test]
fn an_interface_with_several_receive_queues_has_rss_until_the_configuration_denies_it() {
    let Some(network) = Network::new(&[
        VETH_OF_4_QUEUES,
        "link set wider up",
        "link set wide up",
        "address add 192.0.2.1/24 dev wide",
    ]) else {
        return;
    };
    let found = &network.offered()["192.0.2.1"];
    assert_eq!((&found["rss"], &found["rss_from"]), (&true.into(), &"detected".into()));
    let line = "interfaces = \"wide;capability=NONE,if_index=77\"";
    let denied = &network.rows(line, "offered")["192.0.2.1"];
    assert_eq!((&denied["rss"], &denied["rss_from"]), (&false.into(), &"smb.conf".into()));
    assert_eq!((&denied["if_index"], &denied["speed_from"]), (&77.into(), &"detected".into()));
}

#[test]
fn an_interface_without_a_carrier_is_not_offered() {
    let Some(network) =
        Network::new(&[VETH, "link set near up", "address add 192.0.2.1/24 dev near"])
    else {
        return;
    };
    assert!(!network.offered().contains_key("192.0.2.1"));
    let withheld = network.rows("interfaces =", "not_told");
    assert!(withheld["192.0.2.1"]["why"].as_str().expect("a text").contains("no carrier"));
    // There is no other address, so that of the loopback is offered.
    assert!(network.offered().contains_key("127.0.0.1"));
}

#[test]
fn hidden_addresses_are_served_and_not_offered() {
    let Some(network) = Network::new(&[
        VETH,
        "link set far up",
        "link set near up",
        "address add 192.0.2.1/24 dev near",
        "address add 198.51.100.1/24 dev near",
    ]) else {
        return;
    };
    let line = "interfaces =\nserver multi channel hidden interfaces = 198.51.100.0/24";
    let offered = network.rows(line, "offered");
    assert_eq!(offered.keys().collect::<Vec<_>>(), ["192.0.2.1"]);
}

#[test]
fn a_bridge_is_worth_its_fastest_port() {
    let Some(network) = Network::new(&[
        VETH_OF_4_QUEUES,
        "link set wide up",
        "link set wider up",
        "link add bridge0 type bridge",
        "link set wide master bridge0",
        "link set bridge0 up",
        "address add 192.0.2.1/24 dev bridge0",
    ]) else {
        return;
    };
    let bridge = &network.offered()["192.0.2.1"];
    assert_eq!(bridge["speed_bits_per_s"], 10 * GIGABIT, "{bridge}");
    assert_eq!(bridge["rss_how"], "wide: 4 receive queues, ethtool");
}

/// Checks an interface that is a part of another.
fn check_part(kind: &str) {
    let add = format!("link add link near name part {kind}");
    let Some(network) = Network::new(&[
        VETH,
        "link set far up",
        "link set near up",
        &add,
        "link set part up",
        "address add 192.0.2.1/24 dev near",
        "address add 198.51.100.1/24 dev part",
    ]) else {
        return;
    };
    let offered = network.offered();
    let (whole, part) = (&offered["192.0.2.1"], &offered["198.51.100.1"]);
    for field in ["if_index", "speed_bits_per_s", "rss"] {
        assert_eq!(whole[field], part[field], "{kind}: {field}");
    }
    assert_eq!(part["speed_how"], "near: ethtool");
}

#[test]
fn a_vlan_is_the_same_hardware_as_its_device() {
    check_part("type vlan id 7");
}

#[test]
fn a_macvlan_is_the_same_hardware_as_its_device() {
    check_part("type macvlan mode bridge");
}

/// Checks a bond of two interfaces of 10 Gbit/s.
fn check_bond(mode: &str, gigabits: u64) {
    let add = format!("link add bond0 type bond mode {mode} miimon 10");
    let Some(network) = Network::new(&[
        "link add port1 type veth peer name far1",
        "link add port2 type veth peer name far2",
        "link set far1 up",
        "link set far2 up",
        &add,
        "link set port1 master bond0",
        "link set port2 master bond0",
        "link set bond0 up",
        "address add 192.0.2.1/24 dev bond0",
    ]) else {
        return;
    };
    // The ports come up one after the other.
    let wanted = Value::from(gigabits * GIGABIT);
    wait_until(
        || network.offered().get("192.0.2.1").is_some_and(|it| it["speed_bits_per_s"] == wanted),
        || format!("{mode}: {:?}", network.offered()),
    );
}

#[test]
fn a_bond_is_as_fast_as_its_mode_makes_it() {
    check_bond("balance-rr", 20);
    check_bond("active-backup", 10);
}

#[test]
fn a_dummy_has_no_speed_and_so_the_default() {
    let Some(network) = Network::new(&[
        "link add dummy0 type dummy",
        "link set dummy0 up",
        "address add 192.0.2.1/24 dev dummy0",
    ]) else {
        return;
    };
    let dummy = &network.offered()["192.0.2.1"];
    assert_eq!(
        (&dummy["speed_bits_per_s"], &dummy["speed_from"]),
        (&GIGABIT.into(), &"default".into())
    );
}

#[test]
fn a_table_for_people_says_the_same() {
    let site = Site::new();
    let line = "interfaces = \"127.0.0.1;speed=2500000000,capability=RSS\" wlan7\n";
    site.write_config_with(line, "");
    let text = site.run(&["check", "--interfaces"]).succeeds();
    for part in [
        "Multichannel: on\n",
        "Offered to clients: 1\n",
        "2.5 Gbit/s (smb.conf, 127.0.0.1)  yes (smb.conf, 127.0.0.1)",
        "`wlan7` of `interfaces` matches nothing on this machine",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    site.write_config_with("server multi channel support = no\n", "");
    let text = site.run(&["check", "--interfaces"]).succeeds();
    assert!(text.starts_with("Multichannel: off: `server multi channel support = no`\n"), "{text}");
    assert!(text.contains("Would be offered to clients: 1\n"), "{text}");
}

#[test]
fn a_property_that_is_not_understood_is_warned_of() {
    let site = Site::new();
    site.write_config_with("interfaces = \"lo;speed=fast,if_index=7\"\n", "");
    let outcome = site.run(&["check"]);
    assert!(outcome.error().contains("not understood of `lo`: speed=fast"), "{}", outcome.error());
}
