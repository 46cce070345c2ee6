//! A relay between a client and the server that can stop forwarding: what is on its way stays
//! there, acknowledged by its own TCP, and arrives when it goes on.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A place to connect to, in the network of the thread that made it.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    is_frozen: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let is_frozen = Arc::new(AtomicBool::new(false));
        let frozen = Arc::clone(&is_frozen);
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let from = from.try_clone().expect("there are descriptors");
                    let to = to.try_clone().expect("there are descriptors");
                    to.set_nodelay(true).expect("a socket");
                    let frozen = Arc::clone(&frozen);
                    thread::spawn(move || forward(from, to, &frozen));
                }
            }
        });
        Self { address, is_frozen }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Ordering::Relaxed);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_frozen: &AtomicBool) {
    let mut buffer = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while is_frozen.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    while is_frozen.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
    let _ = to.shutdown(Shutdown::Write);
}
