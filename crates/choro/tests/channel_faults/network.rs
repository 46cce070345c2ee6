//! Two machines and the cables between them: network namespaces with a few pairs of interfaces,
//! removed with the processes that hold them, however the test ends.
//!
//! It needs root, iproute2 and util-linux.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::namespace::Namespace;

/// Unused hardware address: packets to it are dropped.
const NOBODY: &str = "02:00:00:00:00:99";

/// A server's machine and its clients', with as many links between them as were asked for.
#[derive(Debug)]
pub(crate) struct Network {
    server: Namespace,
    clients: Namespace,
    links: usize,
}

impl Network {
    /// # Errors
    /// Says why this machine does not allow it.
    pub(crate) fn new(links: usize) -> Result<Self, String> {
        let machine = || Namespace::of_network("");
        let network = Self { server: machine()?, clients: machine()?, links };
        for link in 0..links {
            let clients = network.clients.id().to_string();
            let (near, far) = (format!("s{link}"), format!("c{link}"));
            let pair = ["ip", "link", "add", &near, "type", "veth", "peer", "name", &far, "netns"];
            run(&network.server, &[&pair[..], &[&clients]].concat());
            for (machine, end, address) in [
                (&network.server, &near, network.server_address(link)),
                (&network.clients, &far, network.client_address(link)),
            ] {
                run(machine, &["ip", "address", "add", &format!("{address}/30"), "dev", end]);
                run(machine, &["ip", "link", "set", end, "up"]);
            }
        }
        Ok(network)
    }

    /// The command that runs another one on the server's machine, without a process of its own.
    pub(crate) fn launcher(&self) -> Vec<String> {
        self.server.launcher()
    }

    /// Moves this thread, and those that it starts, to the clients' machine.
    pub(crate) fn enter_clients(&self) {
        let namespace = std::fs::File::open(format!("/proc/{}/ns/net", self.clients.id()));
        let namespace = namespace.expect("the process lives");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("we are root");
    }

    /// The server's end of a link.
    pub(crate) fn server_address(&self, link: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, u8::try_from(link).expect("a few links"), 1)
    }

    fn client_address(&self, link: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, u8::try_from(link).expect("a few links"), 2)
    }

    /// Addresses of the server on each of the links.
    pub(crate) fn destinations(&self, port: u16) -> Vec<SocketAddr> {
        (0..self.links).map(|link| (self.server_address(link), port).into()).collect()
    }

    /// Drops packets of the server over a link; with `both`, also those of its clients. Neither
    /// side is notified.
    pub(crate) fn drop_packets(&self, link: usize, both: bool) {
        self.send_to(&self.server, format!("s{link}"), self.client_address(link));
        if both {
            self.send_to(&self.clients, format!("c{link}"), self.server_address(link));
        }
    }

    fn send_to(&self, machine: &Namespace, end: String, address: Ipv4Addr) {
        let address = address.to_string();
        let neighbor = ["ip", "neigh", "replace", &address, "lladdr", NOBODY];
        run(machine, &[&neighbor[..], &["nud", "permanent", "dev", &end]].concat());
    }

    /// Nothing is dropped any more.
    pub(crate) fn heal_packets(&self, link: usize) {
        for (machine, end, address) in [
            (&self.server, format!("s{link}"), self.client_address(link)),
            (&self.clients, format!("c{link}"), self.server_address(link)),
        ] {
            // It may not be there.
            let _ = machine.run(&["ip", "neigh", "del", &address.to_string(), "dev", &end]);
        }
    }

    /// Ends every connection over a link at once, with a reset in both directions.
    pub(crate) fn reset(&self, link: usize) {
        let address = self.client_address(link).to_string();
        run(&self.server, &["ss", "-K", "-t", "dst", &address]);
    }

    /// Takes the server's interface down, or up again.
    pub(crate) fn set_up(&self, link: usize, up: bool) {
        let state = if up { "up" } else { "down" };
        run(&self.server, &["ip", "link", "set", &format!("s{link}"), state]);
    }
}

#[track_caller]
fn run(machine: &Namespace, command: &[&str]) {
    assert_eq!(machine.run(command), Ok(()), "{command:?}");
}
