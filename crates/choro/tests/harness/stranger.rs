//! A client that proves nothing: it connects, and perhaps logs on as nobody in particular.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use auth::{Credentials, Framing, Initiator, Randomness};
use dtyp::{FileTime, Guid, NtStatus, utf16};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use wire::negotiate::{Capabilities, NegotiateRequest, SecurityMode};
use wire::session_setup::{SessionSetupRequest, SessionSetupResponse};
use wire::tree_connect::TreeConnectRequest;
use wire::{Codes, Command, Decode, Dialect, Encode, Header};

/// A connection of such a client. Errors are those of its transport: the server does not want it.
#[derive(Debug)]
pub struct Stranger {
    socket: TcpStream,
    next_message_id: u64,
    session_id: u64,
    tree_id: u32,
}

impl Stranger {
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
        Ok(Self { socket, next_message_id: 0, session_id: 0, tree_id: 0 })
    }

    /// Negotiates 3.0.2 as the client with this ClientGuid.
    pub fn negotiate(&mut self, client_guid: Guid) -> io::Result<()> {
        let request = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU | Capabilities::MULTI_CHANNEL,
            client_guid,
            dialects: Codes::new(&[Dialect::SMB_3_0_2]),
            ..NegotiateRequest::default()
        };
        self.call(Command::NEGOTIATE, &request).map(drop)
    }

    /// Logs on as nobody in particular.
    pub fn log_on(&mut self) -> io::Result<()> {
        self.authenticate(Credentials::anonymous())
    }

    /// Tries to log on as a user.
    pub fn guess(&mut self, user: &str, password: &str) -> io::Result<()> {
        self.session_id = 0;
        self.authenticate(Credentials::password(user, "", password))
    }

    fn authenticate(&mut self, credentials: Credentials) -> io::Result<()> {
        let randomness = Randomness { client_challenge: [1; 8], session_key: [2; 16] };
        let mut initiator = Initiator::new(credentials, randomness, FileTime(1), Framing::Spnego);
        let mut token = initiator.start().expect("a new machine");
        loop {
            let request = SessionSetupRequest {
                security_mode: SecurityMode::SIGNING_ENABLED,
                security_buffer: &token,
                ..SessionSetupRequest::default()
            };
            let (header, message) = self.call(Command::SESSION_SETUP, &request)?;
            self.session_id = header.session_id;
            if header.status == NtStatus::SUCCESS {
                return Ok(());
            }
            if header.status != NtStatus::MORE_PROCESSING_REQUIRED {
                return Err(io::Error::other(format!("{:?}", header.status)));
            }
            let response = SessionSetupResponse::decode(&message).expect("well-formed");
            token = initiator.step(response.security_buffer).expect("a challenge").token;
        }
    }

    /// Connects to a share; returns the status.
    pub fn tree(&mut self, share: &str) -> io::Result<NtStatus> {
        let path = utf16::to_bytes(&format!(r"\\server\{share}"));
        let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
        let (header, _) = self.call(Command::TREE_CONNECT, &request)?;
        self.tree_id = header.tree_id;
        Ok(header.status)
    }

    /// True while the server has not ended the connection.
    pub fn is_open(&self) -> bool {
        self.socket.set_nonblocking(true).expect("it is a socket");
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).expect("it is a socket");
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn call(&mut self, command: Command, body: &impl Encode) -> io::Result<(Header, Vec<u8>)> {
        let header = Header {
            command,
            credit_charge: 1,
            credits: 10,
            message_id: self.next_message_id,
            session_id: self.session_id,
            tree_id: self.tree_id,
            ..Header::default()
        };
        self.next_message_id += 1;
        let mut message = header.to_bytes().to_vec();
        body.encode(&mut message);
        let length = u32::try_from(message.len()).expect("a small request");
        self.socket.write_all(&[&length.to_be_bytes()[..], &message].concat())?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut message = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("24 bits")];
        self.socket.read_exact(&mut message)?;
        Ok((Header::decode(&message).expect("a header"), message))
    }
}
