//! Familiar addresses, where users have logged on before, beside strangers of the same network.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;

use dtyp::Guid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::choro::PATIENCE;
use crate::harness::connection::{Connection, random};
use crate::harness::namespace::Namespace;
use crate::harness::smbtorture::progress;
use crate::harness::{Setup, TestServer};

/// Clients of one network that have not logged on.
const PLACES: u16 = 8;

/// Addresses of one network that are familiar.
const FAMILIAR_MAX: u16 = 256;

/// A server and its clients in a network of their own, all of whose addresses are the machine's.
struct Scene {
    server: TestServer,
    port: u16,
}

impl Scene {
    /// Runs a test in the network; none on a machine that does not allow that.
    fn run(test: impl FnOnce(&Self) + Send) {
        let network = Namespace::of_network(
            "ip -6 route add local 2001:db8::/32 dev lo\n\
             echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind",
        );
        let network = match network {
            Ok(network) => network,
            Err(reason) => return progress(&format!("no network of its own: {reason}")),
        };
        let limits = format!("max clients per address = {PLACES}\nmax startups = 500:30:1000\n");
        let server = Setup::new()
            .share("data", "")
            .global(&limits)
            .global("interfaces =\nbind interfaces only = no")
            .launch_with(&network.launcher())
            .start();
        let scene = Self { port: server.port(), server };
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(format!("/proc/{}/ns/net", network.id())).expect("it lives");
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).expect("we are root");
                test(&scene);
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        scene.server.stop();
    }

    /// A client of a network of 48 bits that has negotiated, if it is served.
    fn connect(&self, network: u16, host: u16) -> io::Result<Connection> {
        let from = Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, host);
        let to = SocketAddr::from((Ipv6Addr::LOCALHOST, self.port));
        let mut connection = Connection::connect(IpAddr::V6(from), to, PATIENCE)?;
        connection.negotiate(Guid(random()))?;
        Ok(connection)
    }

    /// A user logs on and leaves.
    fn visit(&self, network: u16, host: u16) {
        let mut user = self.connect(network, host).expect("there are places");
        user.log_on().expect("the password is right");
    }

    /// Strangers from a network, as many as there are places for.
    fn fill(&self, network: u16) -> Vec<Connection> {
        let strangers = (0..2 * PLACES).map_while(|host| self.connect(network, 0x8000 + host).ok());
        let strangers: Vec<Connection> = strangers.collect();
        assert_eq!(strangers.len(), usize::from(PLACES), "{}", self.server.server().log());
        strangers
    }

    #[track_caller]
    fn check(&self, network: u16, host: u16, is_served: bool) {
        let connected = self.connect(network, host).and_then(|mut it| it.log_on());
        assert_eq!(connected.is_ok(), is_served, "{network:x}::{host:x}");
    }
}

#[test]
fn a_users_address_is_served_while_strangers_have_all_places_of_its_network() {
    Scene::run(|scene| {
        scene.visit(1, 1);
        let _strangers = scene.fill(1);
        scene.check(1, 2, false);
        scene.check(1, 1, true);
        scene.check(2, 1, true);
    });
}

#[test]
fn a_user_with_many_addresses_displaces_those_of_the_own_network_only() {
    Scene::run(|scene| {
        scene.visit(2, 1);
        for host in 0..=FAMILIAR_MAX {
            scene.visit(1, host + 1);
        }
        for (network, familiar, displaced) in
            [(1, &[2, FAMILIAR_MAX + 1][..], &[1][..]), (2, &[1], &[2])]
        {
            let _strangers = scene.fill(network);
            displaced.iter().for_each(|host| scene.check(network, *host, false));
            familiar.iter().for_each(|host| scene.check(network, *host, true));
        }
    });
}
