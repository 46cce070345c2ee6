//! One connection of a client that speaks 3.0 and nothing else. Everything may fail: what a fault
//! does to a connection is for whoever has several to make good.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use auth::{Credentials, Framing, Initiator, Randomness};
use crypto::{KeyMaterial, SessionKeys, SigningKey};
use dtyp::{FileTime, Guid, NtStatus, utf16};
use wire::header::HeaderFlags;
use wire::negotiate::{Capabilities, NegotiateRequest, SecurityMode};
use wire::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::tree_connect::TreeConnectRequest;
use wire::{Codes, Command, Decode, Dialect, Encode, Header};

use crate::harness::{PASSWORD, USER};

/// Longest time until a connection can be used.
const SETUP_PATIENCE: Duration = Duration::from_secs(3);

/// Credits that a request asks for.
const CREDITS: u16 = 32;

/// A session, whichever connections it has.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) tree_id: u32,
    /// Key of the first channel, with which further ones are bound.
    key: SigningKey,
}

/// A connection and what it has agreed with the server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) key: Option<SigningKey>,
    next_message_id: u64,
    session_id: u64,
    tree_id: u32,
}

/// Marks of a request beside its body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) channel_sequence: u16,
    /// True if it was sent before.
    pub(crate) is_replay: bool,
}

impl Connection {
    /// The first connection of a client, with a session in the share `data`.
    pub(crate) fn first(address: SocketAddr, client_guid: Guid) -> io::Result<(Self, Session)> {
        let mut connection = Self::negotiated(address, client_guid)?;
        connection.set_up(SessionSetupFlags::empty())?;
        let path = utf16::to_bytes(r"\\127.0.0.1\data");
        let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
        let (header, _) = connection.call(Command::TREE_CONNECT, &request)?;
        connection.tree_id = header.tree_id;
        let Self { session_id: id, tree_id, .. } = connection;
        let key = connection.key.clone().expect("it was set up");
        Ok((connection, Session { id, tree_id, key }))
    }

    /// Binds a further connection to the session.
    pub(crate) fn bound(
        address: SocketAddr,
        client_guid: Guid,
        session: &Session,
    ) -> io::Result<Self> {
        let mut connection = Self::negotiated(address, client_guid)?;
        connection.session_id = session.id;
        connection.tree_id = session.tree_id;
        connection.key = Some(session.key.clone());
        connection.set_up(SessionSetupFlags::BINDING)?;
        Ok(connection)
    }

    fn negotiated(address: SocketAddr, client_guid: Guid) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, SETUP_PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SETUP_PATIENCE))?;
        let mut connection =
            Self { socket, key: None, next_message_id: 0, session_id: 0, tree_id: 0 };
        let request = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU
                | Capabilities::MULTI_CHANNEL
                | Capabilities::LEASING,
            client_guid,
            dialects: Codes::new(&[Dialect::SMB_3_0]),
            ..NegotiateRequest::default()
        };
        connection.call(Command::NEGOTIATE, &request)?;
        Ok(connection)
    }

    fn set_up(&mut self, flags: SessionSetupFlags) -> io::Result<()> {
        let randomness = Randomness { client_challenge: [1; 8], session_key: random() };
        let credentials = Credentials::password(USER, "", PASSWORD);
        let mut initiator = Initiator::new(credentials, randomness, now(), Framing::Spnego);
        let token = initiator.start().expect("a new machine");
        let (header, message) = self.session_setup(flags, &token)?;
        self.session_id = header.session_id;
        let response = SessionSetupResponse::decode(&message).map_err(io::Error::other)?;
        let reply = initiator.step(response.security_buffer).map_err(io::Error::other)?;
        let (_, mut message) = self.session_setup(flags, &reply.token)?;
        let session_key = reply.session_key.expect("a user has a key");
        let keys = SessionKeys::derive(KeyMaterial {
            dialect: Dialect::SMB_3_0.0,
            session_key: session_key.as_bytes(),
            full_session_key: session_key.as_bytes(),
            preauth_hash: None,
            cipher: None,
            signing_algorithm: None,
        });
        let key = keys.signing_key();
        key.verify(&mut message).map_err(io::Error::other)?;
        self.key = Some(key);
        Ok(())
    }

    fn session_setup(
        &mut self,
        flags: SessionSetupFlags,
        token: &[u8],
    ) -> io::Result<(Header, Vec<u8>)> {
        let request = SessionSetupRequest {
            flags,
            security_mode: SecurityMode::SIGNING_ENABLED,
            security_buffer: token,
            ..SessionSetupRequest::default()
        };
        self.call(Command::SESSION_SETUP, &request)
    }

    /// A request and its answer while nothing else is under way.
    fn call(&mut self, command: Command, body: &impl Encode) -> io::Result<(Header, Vec<u8>)> {
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        self.send(command, &bytes, Marks::default())?;
        let (header, message) = receive(&mut &self.socket)?;
        match header.status.is_error() && header.status != NtStatus::MORE_PROCESSING_REQUIRED {
            true => Err(io::Error::other(format!("{command:?}: {:?}", header.status))),
            false => Ok((header, message)),
        }
    }

    /// Sends a request, and says by which id its answer will be known.
    pub(crate) fn send(&mut self, command: Command, body: &[u8], marks: Marks) -> io::Result<u64> {
        let message_id = self.next_message_id;
        let mut header = Header {
            command,
            credit_charge: 1,
            credits: CREDITS,
            message_id,
            session_id: self.session_id,
            tree_id: self.tree_id,
            ..Header::default()
        };
        header.flags.set(HeaderFlags::REPLAY_OPERATION, marks.is_replay);
        header.set_channel_sequence(marks.channel_sequence);
        self.next_message_id += 1;
        let mut message = header.to_bytes().to_vec();
        message.extend_from_slice(body);
        if let Some(key) = &self.key {
            key.sign(&mut message);
        }
        let length = u32::try_from(message.len()).expect("a small request");
        let frame = [&length.to_be_bytes()[..], &message].concat();
        self.socket.write_all(&frame)?;
        Ok(message_id)
    }
}

/// The next message, whatever it is.
pub(crate) fn receive(socket: &mut impl Read) -> io::Result<(Header, Vec<u8>)> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut message = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("24 bits")];
    socket.read_exact(&mut message)?;
    Ok((Header::decode(&message).map_err(io::Error::other)?, message))
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let random = std::fs::File::open("/dev/urandom");
    random.and_then(|mut it| it.read_exact(&mut bytes)).expect("a Linux");
    bytes
}

fn now() -> FileTime {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    FileTime::from_unix(i64::try_from(since.as_secs()).expect("before the sun burns out"), 0)
}
