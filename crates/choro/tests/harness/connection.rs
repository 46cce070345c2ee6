//! A connection of a client that says what a test wants said, over a blocking socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use auth::{Credentials, Framing, Initiator, Randomness};
use client::{Logon, LogonState, Offer, Session};
use dtyp::{FileTime, Guid, NtStatus, utf16};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use wire::header::HeaderFlags;
use wire::negotiate::Capabilities;
use wire::session_setup::SessionSetupFlags;
use wire::tree_connect::TreeConnectRequest;
use wire::{Command, Dialect, Encode, Header};

use super::{PASSWORD, USER};

/// Size of the credit window at which a client requests no further credits.
const CREDITS_WANTED: u16 = 512;

/// A connection with what its client knows. Errors are those of its transport, and of responses
/// that a client does not accept.
#[derive(Debug)]
pub struct Connection {
    pub socket: TcpStream,
    pub smb: client::Connection,
}

impl Connection {
    /// A connection on which nothing was said.
    pub fn new(socket: TcpStream) -> Self {
        Self { socket, smb: client::Connection::new(CREDITS_WANTED) }
    }

    /// Connects from an address of this machine.
    pub fn connect(from: IpAddr, to: SocketAddr, patience: Duration) -> io::Result<Self> {
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddr::from((from, 0)))?;
        let socket = TcpStream::from(socket);
        // A connect that the server's backlog has no room for ends then, too.
        socket.set_write_timeout(Some(patience))?;
        socket.set_read_timeout(Some(patience))?;
        connect(&socket, &to)?;
        Ok(Self::new(socket))
    }

    /// Negotiates 3.0 and nothing else, as the client with this ClientGuid.
    pub fn negotiate(&mut self, client_guid: Guid) -> io::Result<()> {
        let offer = self.send_negotiate(client_guid)?;
        let (_, message) = self.receive()?;
        self.smb.handle_negotiate(&offer, &message).map_err(io::Error::other)
    }

    /// Sends NEGOTIATE, and returns the offer in it.
    pub fn send_negotiate(&mut self, client_guid: Guid) -> io::Result<Offer> {
        let capabilities =
            Capabilities::LARGE_MTU | Capabilities::MULTI_CHANNEL | Capabilities::LEASING;
        let offer = Offer { capabilities, client_guid, ..Offer::dialects(&[Dialect::SMB_3_0]) };
        self.socket.write_all(self.smb.negotiate(&offer).map_err(io::Error::other)?)?;
        Ok(offer)
    }

    /// Logs on as [`USER`]; the requests that follow are signed.
    pub fn log_on(&mut self) -> io::Result<()> {
        self.authenticate(Credentials::password(USER, "", PASSWORD), SessionSetupFlags::empty())?;
        self.smb.signs = true;
        Ok(())
    }

    /// Logs on as nobody in particular.
    pub fn log_on_anonymously(&mut self) -> io::Result<()> {
        self.authenticate(Credentials::anonymous(), SessionSetupFlags::empty())
    }

    /// Tries to log on as a user.
    pub fn guess(&mut self, user: &str, password: &str) -> io::Result<()> {
        self.smb.leave_session();
        let credentials = Credentials::password(user, "", password);
        self.authenticate(credentials, SessionSetupFlags::empty())
    }

    /// Binds a session of [`USER`] to this connection.
    pub fn bind(&mut self, session: Session, tree_id: u32) -> io::Result<()> {
        self.smb.bind(session);
        self.smb.tree_id = tree_id;
        self.authenticate(Credentials::password(USER, "", PASSWORD), SessionSetupFlags::BINDING)
    }

    /// Session of the connection, to be bound to others.
    pub fn session(&self) -> Session {
        self.smb.channel().expect("a session with a key").session().clone()
    }

    fn authenticate(
        &mut self,
        credentials: Credentials,
        flags: SessionSetupFlags,
    ) -> io::Result<()> {
        let randomness = Randomness { client_challenge: [1; 8], session_key: random() };
        let initiator = Initiator::new(credentials, randomness, now(), Framing::Spnego);
        let mut logon = Logon::new(initiator, self.smb.preauth()).map_err(io::Error::other)?;
        logon.flags = flags;
        loop {
            let frame = self.smb.session_setup(&mut logon).map_err(io::Error::other)?;
            self.socket.write_all(frame)?;
            let (_, mut message) = self.receive()?;
            let state = self.smb.handle_session_setup(&mut logon, &mut message);
            if state.map_err(io::Error::other)? != LogonState::More {
                return Ok(());
            }
        }
    }

    /// Connects to a share; returns the status.
    pub fn tree(&mut self, share: &str) -> io::Result<NtStatus> {
        let path = utf16::to_bytes(&format!(r"\\server\{share}"));
        let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
        let (header, _) = self.call(Command::TREE_CONNECT, &request)?;
        self.smb.tree_id = header.tree_id;
        Ok(header.status)
    }

    /// Sends a request, and returns its message id.
    pub fn send(
        &mut self,
        command: Command,
        flags: HeaderFlags,
        body: &impl Encode,
    ) -> io::Result<u64> {
        let message_id = self.smb.push(command, 0, flags, body);
        self.socket.write_all(self.smb.finish().map_err(io::Error::other)?)?;
        Ok(message_id)
    }

    /// Cancels a request, by its AsyncId if it has one.
    pub fn cancel(&mut self, message_id: u64, async_id: Option<u64>) -> io::Result<()> {
        self.smb.push_cancel(message_id, async_id);
        self.socket.write_all(self.smb.finish().map_err(io::Error::other)?)
    }

    /// The next message, whatever it is. Its signature is right if the connection signs.
    pub fn receive(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let (header, mut message) = read_message(&mut self.socket)?;
        self.smb.receive(&mut message).map_err(io::Error::other)?;
        Ok((header, message))
    }

    /// A request and its answer while nothing else is under way.
    pub fn call(&mut self, command: Command, body: &impl Encode) -> io::Result<(Header, Vec<u8>)> {
        self.send(command, HeaderFlags::empty(), body)?;
        self.receive()
    }

    /// True while the server has not ended the connection.
    pub fn is_open(&self) -> bool {
        self.socket.set_nonblocking(true).expect("it is a socket");
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).expect("it is a socket");
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// Reads one message, without the transport's header.
pub fn read_message(socket: &mut impl Read) -> io::Result<(Header, Vec<u8>)> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut message = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("24 bits")];
    socket.read_exact(&mut message)?;
    Ok((Header::decode(&message).map_err(io::Error::other)?, message))
}

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .expect("a Linux");
    bytes
}

fn now() -> FileTime {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    FileTime::from_unix(i64::try_from(since.as_secs()).expect("before the sun burns out"), 0)
}
