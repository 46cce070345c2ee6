//! Attacks on other machines of the network.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use crate::attack::{Attack, Layer, open, stopped};
use crate::ring::Operation;
use crate::scene::{ADDRESS_LEN, Scene};
use crate::taken_over::{Answer, Failure, number};

const FILTER: Layer = Layer::Filter;

const FAR: &str = "it reaches machines of the network";

pub(crate) const ATTACKS: &[Attack] = &[
    stopped("make a raw socket", FILTER, |scene| {
        socket(scene, libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
    }),
    stopped("make a packet socket", FILTER, |scene| {
        socket(scene, libc::AF_PACKET, libc::SOCK_DGRAM, 0)
    }),
    stopped("make a socket for TCP", FILTER, |scene| {
        socket(scene, libc::AF_INET, libc::SOCK_STREAM, 0)
    }),
    stopped("make a socket for UDP", FILTER, |scene| {
        socket(scene, libc::AF_INET6, libc::SOCK_DGRAM, 0)
    }),
    stopped("make a raw socket by a new ring", Layer::Capabilities, |scene| {
        let protocol = libc::IPPROTO_ICMP.cast_unsigned();
        scene.by_new_ring(Operation::socket(libc::AF_INET, libc::SOCK_RAW, protocol))
    }),
    stopped("connect to another machine by a new ring", Layer::Tcp, |scene| {
        let socket = scene.by_new_ring(TCP)?;
        let service = scene.put_service();
        scene.by_new_ring(Operation::connect(socket, service, ADDRESS_LEN as u64))
    }),
    open("send a datagram to another machine by a new ring", FAR, |scene| {
        let udp = Operation::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let socket = scene.by_new_ring(udp)?;
        let receiver = scene.put_receiver();
        scene.by_new_ring(Operation::connect(socket, receiver, ADDRESS_LEN as u64))?;
        let text = scene.worker.put(b"text");
        scene.by_new_ring(Operation::send(socket, text, 4))
    }),
    stopped("listen on a port, by a socket of a new ring", Layer::Tcp, |scene| listen(scene, 0)),
    stopped("listen on a port of root's", Layer::Capabilities, |scene| {
        let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        match first.is_ok_and(|it| it.trim() == "0") {
            true => Err(Failure::Absent("ports of root")),
            false => listen(scene, 1),
        }
    }),
];

/// An attack that ends the connection of the worker's client.
pub(crate) const LAST: &[Attack] =
    &[stopped("connect its client's socket to another machine", Layer::Tcp, |scene| {
        scene.reconnect_client()
    })];

const TCP: Operation = Operation::socket(libc::AF_INET, libc::SOCK_STREAM, 0);

fn socket(scene: &mut Scene<'_>, family: i32, kind: i32, protocol: i32) -> Answer {
    let arguments = [family, kind, protocol].map(number);
    scene.worker.call(libc::SYS_socket, &arguments)
}

fn listen(scene: &mut Scene<'_>, port: u16) -> Answer {
    let socket = scene.by_new_ring(TCP)?;
    let address = scene.put_address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    scene.worker.call(libc::SYS_bind, &[socket, address, ADDRESS_LEN as u64])?;
    scene.worker.call(libc::SYS_listen, &[socket, 1])
}
