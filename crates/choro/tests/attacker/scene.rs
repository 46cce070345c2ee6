//! The scene of all attacks: a server with two clients in session, of which one's worker was taken
//! over, and targets outside the server.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use bench::client::{Client, Destination, Protection};
use nix::errno::Errno;
use wire::Command as Smb;
use wire::echo::EchoRequest;

use crate::harness::choro::text;
use crate::harness::{FORCED_USER, OTHER_USER, PASSWORD, Setup, TestServer, terms};
use crate::ring::{Operation, Ring};
use crate::taken_over::{Answer, Failure, TakenOver, number};

/// Text of a command of the configuration. It leaves the user that it ran as.
pub(crate) const COMMAND: &str = "id -u > %FOLDER/ran_as";

/// A command of the configuration's own, and a share for one of the users alone.
pub(crate) fn start() -> TestServer {
    let closed = format!("valid users = {OTHER_USER}");
    let setup = Setup::new().share("data", &format!("preexec = {COMMAND}"));
    let server = setup.share("closed", &closed).start();
    std::fs::write(server.share_path("closed").join("file"), "text").expect("there is space");
    std::fs::write(server.share_path("data").join("file"), "text").expect("there is space");
    // As a member of a domain has it.
    std::fs::write(server.site().path("private/secrets.tdb"), "keys").expect("there is space");
    server
}

/// All that an attack may use.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) worker: TakenOver,
    /// Worker of another client, and the id of its session.
    pub(crate) other_worker: u32,
    pub(crate) other_session: u64,
    /// A program of a user of the machine.
    pub(crate) program: Child,
    listener: TcpListener,
    receiver: UdpSocket,
    ring: Option<Ring>,
    _clients: [Client; 2],
}

impl<'a> Scene<'a> {
    /// `None` if this test may trace no process.
    pub(crate) fn new(server: &'a TestServer) -> Option<Self> {
        let client = server.connect("data", Protection::Signed);
        let destination = Destination {
            address: server.site().address(),
            share: "closed".to_owned(),
            user: OTHER_USER.to_owned(),
            password: PASSWORD.to_owned(),
        };
        let other = Client::connect(&destination, terms(Protection::Signed));
        let mut other = other.expect("the server lets it in");
        let reply = other.call(Smb::ECHO, 0, &EchoRequest).expect("it is connected");
        let other_session = reply.header.session_id;
        let other_worker = server.worker_of(&other);
        let worker = TakenOver::new(server.worker_of(&client))?;
        let mut program = Command::new("sleep");
        let program = program.arg("infinity").uid(FORCED_USER.1).gid(FORCED_USER.1).spawn();
        let _clients = [client, other];
        Some(Self {
            server,
            worker,
            other_worker,
            other_session,
            program: program.expect("there is a sleep"),
            listener: TcpListener::bind("127.0.0.1:0").expect("a port is free"),
            receiver: UdpSocket::bind("127.0.0.1:0").expect("a port is free"),
            ring: None,
            _clients,
        })
    }

    pub(crate) fn supervisor(&self) -> u32 {
        self.server.server().pid()
    }

    /// A path in the folder of the test, which no share has.
    pub(crate) fn path(&self, name: &str) -> String {
        text(&self.server.site().path(name))
    }

    /// A path in a share.
    pub(crate) fn in_share(&self, share: &str, name: &str) -> String {
        text(&self.server.share_path(share).join(name))
    }

    /// Puts the address of another machine's service over TCP into the worker's memory.
    pub(crate) fn put_service(&mut self) -> u64 {
        let address = self.listener.local_addr().expect("it is bound");
        self.put_address(address)
    }

    /// The same of a service over UDP.
    pub(crate) fn put_receiver(&mut self) -> u64 {
        let address = self.receiver.local_addr().expect("it is bound");
        self.put_address(address)
    }

    /// Puts a `sockaddr_in` into the worker's memory.
    pub(crate) fn put_address(&mut self, address: SocketAddr) -> u64 {
        let SocketAddr::V4(address) = address else { panic!("{address}") };
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..2].copy_from_slice(&2_u16.to_le_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&address.ip().octets());
        self.worker.put(&bytes)
    }

    /// Has a ring without restrictions carry out an operation; the worker makes it first.
    pub(crate) fn by_new_ring(&mut self, operation: Operation) -> Answer {
        let ring = match self.ring.take() {
            Some(ring) => ring,
            None => Ring::new(&mut self.worker)?,
        };
        self.ring.insert(ring).submit(&mut self.worker, operation)
    }

    /// Has the worker's own ring carry out an operation.
    pub(crate) fn by_own_ring(&mut self, operation: Operation) -> Answer {
        let new = match self.ring.take() {
            Some(ring) => ring,
            None => Ring::new(&mut self.worker)?,
        };
        let own = Ring::of_worker(&self.worker, &new);
        self.ring = Some(new);
        own?.submit(&mut self.worker, operation)
    }

    /// Connects the socket of the worker's client to another machine.
    pub(crate) fn reconnect_client(&mut self) -> Answer {
        let socket = self.socket_with(libc::SO_DOMAIN, libc::AF_INET).expect("it has a client");
        let service = self.put_service();
        // AF_UNSPEC disconnects.
        let nothing = self.worker.put(&[0; ADDRESS_LEN]);
        self.worker.call(libc::SYS_connect, &[socket, nothing, ADDRESS_LEN as u64])?;
        match self.worker.call(libc::SYS_connect, &[socket, service, ADDRESS_LEN as u64]) {
            Err(Failure::Refused(Errno::EINPROGRESS)) => Ok(0),
            answer => answer,
        }
    }

    /// Returns the worker's first socket with this value of an option.
    pub(crate) fn socket_with(&mut self, option: i32, value: i32) -> Option<u64> {
        let sockets = self.worker.descriptors().into_iter();
        let sockets = sockets.filter(|(_, target)| target.starts_with("socket:"));
        let (found, length) = (self.worker.reserve(4), self.worker.put(&4_u32.to_le_bytes()));
        for (socket, _) in sockets {
            let arguments = [socket, number(libc::SOL_SOCKET), number(option), found, length];
            self.worker.call(libc::SYS_getsockopt, &arguments).expect("it is a socket");
            if self.worker.read_u32(found) == value.cast_unsigned() {
                return Some(socket);
            }
        }
        None
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Bytes of a `sockaddr_in`, padding included.
pub(crate) const ADDRESS_LEN: usize = 16;
