//! Sending and receiving over one connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use ::client::{Connection, Kind, Negotiated, ProtocolError, Received, credit_charge};
use anyhow::{Context, Result, bail, ensure};
use crypto::TransformKey;
use dtyp::Guid;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, connect, recv};
use rustix::net::{socket_with, sockopt};
use wire::header::{Header, HeaderFlags};
use wire::oplock_break::OplockBreak;
use wire::session_setup::SessionSetupFlags;
use wire::{Command, Decode, Encode, frame};

use super::inbox::Inbox;
use super::login;
use super::outstanding::{Outstanding, Slot};
use super::protection::Protection;
use super::{Destination, Terms};

/// Credits that a client asks for until it has them: 16 requests of 1 MiB take 256.
const CREDITS_WANTED: u16 = 512;

/// Round trips after which a server that does not grant enough credits is given up.
const CREDIT_ROUNDS_MAX: u32 = 64;

/// Longest wait for a response before the server counts as dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection with one session and one tree connect.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    inbox: Inbox,
    /// Range of the inbox with the current frame's remaining messages.
    rest: Range<usize>,
    outstanding: Outstanding,
    /// Buffer for discarded data, which stays empty.
    discarded: Vec<u8>,
    /// ClientGuid, by which the server identifies the client.
    client_guid: Guid,
    pub(super) connection: Connection,
}

/// An answer. Its bytes are [`Client::message`] until the next one is received.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Header of the response message.
    pub header: Header,
    /// Job that waited for the response.
    pub slot: Slot,
    pub(super) range: Range<usize>,
}

impl Reply {
    /// The reply, if it is no refusal.
    ///
    /// # Errors
    ///
    /// The command and its status.
    pub fn succeeded(self) -> Result<Self> {
        let Header { command, status, .. } = self.header;
        ensure!(!status.is_error(), "{command:?} was answered with {status:?}");
        Ok(self)
    }
}

impl Client {
    /// Connects, negotiates, logs on and connects to the share.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or the connection breaks.
    pub fn connect(destination: &Destination, terms: Terms) -> Result<Self> {
        let stream = TcpStream::connect(destination.address).context("connecting")?;
        Self::enter(stream, destination, terms)
    }

    /// As [`Self::connect`], from this address of the client's.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`], and when there is no such address.
    pub fn connect_from(source: Ipv4Addr, destination: &Destination, terms: Terms) -> Result<Self> {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddr::from((source, 0))).context("binding to an address")?;
        connect(&socket, &destination.address).context("connecting")?;
        Self::enter(socket.into(), destination, terms)
    }

    fn enter(stream: TcpStream, destination: &Destination, terms: Terms) -> Result<Self> {
        let mut client = Self::open(stream, terms, Guid(login::random()?))?;
        login::log_on(&mut client, destination, terms.protection, SessionSetupFlags::empty())?;
        login::tree_connect(&mut client, destination, terms.protection)?;
        Ok(client)
    }

    /// Connects to another share, which later requests use.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or the connection breaks.
    pub fn tree_connect(&mut self, destination: &Destination) -> Result<()> {
        let protection = match (self.connection.seals, self.connection.signs) {
            (true, _) => Protection::Sealed,
            (false, true) => Protection::Signed,
            (false, false) => Protection::Plain,
        };
        login::tree_connect(self, destination, protection)
    }

    /// The tree connect of the requests that follow.
    #[must_use]
    pub const fn tree_connect_id(&self) -> u32 {
        self.connection.tree_id
    }

    /// Has the requests that follow go to another tree connect.
    pub const fn use_tree_connect(&mut self, tree_id: u32) {
        self.connection.tree_id = tree_id;
    }

    /// Logs another user on over the same connection and connects to the share: later requests use
    /// that session, without signatures or encryption.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or the connection breaks.
    pub fn log_in(&mut self, destination: &Destination) -> Result<()> {
        self.connection.leave_session();
        login::log_on(self, destination, Protection::Plain, SessionSetupFlags::empty())?;
        login::tree_connect(self, destination, Protection::Plain)
    }

    /// The session of the requests that follow.
    #[must_use]
    pub const fn session_id(&self) -> u64 {
        self.connection.session_id
    }

    /// Has the requests that follow belong to another session; to be said with its tree connect.
    pub const fn use_session(&mut self, session_id: u64) {
        self.connection.session_id = session_id;
    }

    /// Creates a further channel of this client's session: [MS-SMB2] 3.2.4.2.3. Opens are common to
    /// all channels. `number` is 1 for the first further channel, and unique for each.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub fn bind(&self, destination: &Destination, terms: Terms, number: u8) -> Result<Self> {
        let stream = TcpStream::connect(destination.address).context("connecting")?;
        let mut client = Self::open(stream, terms, self.client_guid)?;
        login::bind(&mut client, self, destination, terms.protection, number)?;
        Ok(client)
    }

    /// A connection that has negotiated.
    fn open(stream: TcpStream, terms: Terms, client_guid: Guid) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Self {
            stream,
            inbox: Inbox::default(),
            rest: 0..0,
            outstanding: Outstanding::default(),
            discarded: Vec::new(),
            client_guid,
            connection: Connection::new(CREDITS_WANTED),
        };
        login::negotiate(&mut client, terms, client_guid)?;
        Ok(client)
    }

    /// Ends the session and the connection.
    ///
    /// # Errors
    ///
    /// When the server does not agree.
    pub fn logoff(mut self) -> Result<()> {
        self.call(Command::LOGOFF, 0, &wire::logoff::LogoffRequest)?.succeeded()?;
        Ok(())
    }

    /// Ends the connection with a reset, as when the client's machine has lost it.
    ///
    /// # Errors
    ///
    /// When the socket is gone.
    pub fn reset(self) -> Result<()> {
        // The close of the socket then resets it: socket(7), SO_LINGER.
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))?;
        Ok(())
    }

    /// Sets the number of channels that this client has lost, by which the server distinguishes old
    /// requests from new ones: [MS-SMB2] 3.2.4.1.6.
    pub const fn set_channel_sequence(&mut self, channel_sequence: u16) {
        self.connection.channel_sequence = channel_sequence;
    }

    /// Sets the credits to request until the client has them.
    pub const fn want_credits(&mut self, credits: u16) {
        self.connection.credits_wanted = credits;
    }

    /// The credits that it holds.
    #[must_use]
    pub const fn credits(&self) -> u32 {
        self.connection.window.credits()
    }

    /// Breaks the rules: the next request skips `count` message ids.
    pub const fn skip_message_ids(&mut self, count: u64) {
        self.connection.window.skip(count);
    }

    /// The port of this end, by which the server's process is found.
    ///
    /// # Errors
    ///
    /// When the socket is gone.
    pub fn local_port(&self) -> Result<u16> {
        Ok(self.stream.local_addr()?.port())
    }

    /// Appends a request to the frame that [`Self::flush`] sends. `payload_bytes` is the larger
    /// size of its request and response data, which determines the CreditCharge.
    pub fn push(&mut self, command: Command, payload_bytes: usize, body: &impl Encode) {
        self.connection.push(command, payload_bytes, HeaderFlags::default(), body);
    }

    /// Appends a request that is related to the one before it.
    pub fn push_related(&mut self, command: Command, payload_bytes: usize, body: &impl Encode) {
        let flags = HeaderFlags::RELATED_OPERATIONS;
        self.connection.push(command, payload_bytes, flags, body);
    }

    /// Appends a request again after its channel was lost.
    pub fn push_replay(&mut self, command: Command, payload_bytes: usize, body: &impl Encode) {
        let flags = HeaderFlags::REPLAY_OPERATION;
        self.connection.push(command, payload_bytes, flags, body);
    }

    /// Signs or encrypts the requests that were appended and sends them; `slot` gets the answers.
    ///
    /// # Errors
    ///
    /// When the connection breaks.
    pub fn flush(&mut self, slot: Slot) -> Result<()> {
        self.expect_responses(slot);
        let frame = self.connection.finish()?;
        self.stream.write_all(frame).context("sending")
    }

    /// Notes the requests that were appended as awaiting their responses.
    fn expect_responses(&mut self, slot: Slot) {
        for message_id in self.connection.frame().message_ids() {
            self.outstanding.insert(message_id, slot);
        }
    }

    /// As [`Self::flush`], but sends only the first `bytes` of the frame, including its length;
    /// returns the rest, for [`Self::stream`].
    ///
    /// # Errors
    ///
    /// The connection breaks.
    ///
    /// # Panics
    ///
    /// The frame is shorter, or must be signed or sealed.
    pub fn flush_part(&mut self, slot: Slot, bytes: usize) -> Result<Vec<u8>> {
        let Connection { signs, seals, .. } = self.connection;
        assert!(!signs && !seals, "a part of a frame cannot be protected");
        self.expect_responses(slot);
        let (part, rest) = self.connection.finish()?.split_at(bytes);
        self.stream.write_all(part).context("sending")?;
        Ok(rest.to_vec())
    }

    /// Returns the socket, to send an incomplete frame.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends one message that is laid out already; see [`super::write_frame`].
    pub(super) fn send_laid_out(
        &mut self,
        frame: &mut [u8],
        message_id: u64,
        slot: Slot,
    ) -> Result<()> {
        self.outstanding.insert(message_id, slot);
        self.connection.protect(frame)?;
        self.stream.write_all(frame).context("sending")
    }

    /// Number of responses that are pending.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.outstanding.len()
    }

    /// Waits for the next response; skips interim responses and break notifications.
    ///
    /// # Errors
    ///
    /// The connection breaks, or a message is not signed, not decryptable or unexpected.
    pub fn receive(&mut self) -> Result<Reply> {
        loop {
            let (header, kind, range) = self.next_message()?;
            match kind {
                Kind::Notification => {}
                Kind::Interim => {
                    ensure!(self.outstanding.contains(header.message_id), "nobody asked");
                }
                Kind::Final => {
                    let Some(slot) = self.outstanding.take(header.message_id) else {
                        bail!("{:?} {} was not asked for", header.command, header.message_id);
                    };
                    return Ok(Reply { header, slot, range });
                }
            }
        }
    }

    /// Waits until the server says that the client is to give up an oplock.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or something else comes.
    pub fn receive_break(&mut self) -> Result<OplockBreak> {
        let (Header { command, .. }, kind, range) = self.next_message()?;
        ensure!(kind == Kind::Notification, "an answer to {command:?} came instead of a break");
        Ok(OplockBreak::decode(&self.inbox.bytes()[range])?)
    }

    /// Waits for a response of `frame_bytes` bytes and lets the kernel discard it: no byte is
    /// copied, checked or decrypted, so that a server can be measured with a client of nearly no
    /// cost. The response counts as the one that is due, and must have this length.
    ///
    /// # Errors
    ///
    /// The connection breaks, or the response has another length.
    pub fn discard(&mut self, frame_bytes: usize, payload_bytes: usize) -> Result<()> {
        // A refusal looks like an interim response, of which there is one a request at most.
        let mut interim_max = self.outstanding.len();
        while self.discard_frame()? != frame_bytes {
            ensure!(interim_max > 0, "an answer has not {frame_bytes} bytes");
            interim_max -= 1;
        }
        self.outstanding.take_oldest();
        self.connection.window.grant(credit_charge(payload_bytes));
        Ok(())
    }

    /// The length of the frame that was thrown away.
    fn discard_frame(&mut self) -> Result<usize> {
        let mut head = [0; frame::SIZE];
        self.stream.read_exact(&mut head).context("receiving")?;
        let length = frame::FrameHeader::decode(head).length;
        self.discarded.resize(length, 0);
        let mut rest = length;
        while rest > 0 {
            let room = &mut self.discarded[..rest];
            let (_, count) = recv(&self.stream, room, RecvFlags::TRUNC).context("receiving")?;
            ensure!(count > 0, "the server hung up");
            rest -= count;
        }
        Ok(length)
    }

    /// Bytes of a frame, behind the transport's length, that brings a message of this length.
    #[must_use]
    pub fn frame_bytes(&self, message_bytes: usize) -> usize {
        message_bytes + if self.connection.seals { TransformKey::HEADER_LEN } else { 0 }
    }

    /// The bytes of an answer.
    #[must_use]
    pub fn message(&self, reply: &Reply) -> &[u8] {
        &self.inbox.bytes()[reply.range.clone()]
    }

    /// Sends one request and waits for its answer.
    ///
    /// # Errors
    ///
    /// When the connection breaks. A refusal is an answer.
    pub fn call(
        &mut self,
        command: Command,
        payload_bytes: usize,
        body: &impl Encode,
    ) -> Result<Reply> {
        self.push(command, payload_bytes, body);
        self.flush(Slot(0))?;
        self.receive()
    }

    /// Sends the frame of one request that `make` returns, and waits for its response.
    pub(super) fn call_frame(
        &mut self,
        make: impl FnOnce(&mut Connection) -> Result<&[u8], ProtocolError>,
    ) -> Result<Reply> {
        self.outstanding.insert(self.connection.window.next_id(), Slot(0));
        let frame = make(&mut self.connection)?;
        self.stream.write_all(frame).context("sending")?;
        self.receive()
    }

    /// Returns the connection, and the bytes of a response to be verified.
    pub(super) fn response_parts(&mut self, reply: &Reply) -> (&mut Connection, &mut [u8]) {
        (&mut self.connection, &mut self.inbox.bytes_mut()[reply.range.clone()])
    }

    /// Asks until there are credits for `depth` requests of this payload in flight.
    ///
    /// # Errors
    ///
    /// When the server does not grant them.
    pub fn gather_credits(&mut self, depth: usize, payload_bytes: usize) -> Result<()> {
        let need = depth * usize::from(credit_charge(payload_bytes));
        for _ in 0..CREDIT_ROUNDS_MAX {
            if usize::try_from(self.credits()).unwrap_or(usize::MAX) >= need {
                return Ok(());
            }
            self.call(Command::ECHO, 0, &wire::echo::EchoRequest)?.succeeded()?;
        }
        bail!("the server grants {} credits, {need} are needed", self.credits())
    }

    // A call would copy the header of each response.
    #[inline(always)]
    fn next_message(&mut self) -> Result<(Header, Kind, Range<usize>)> {
        if self.rest.is_empty() {
            let frame = self.inbox.next_frame(&mut self.stream).context("receiving")?;
            let start = self.connection.open(&mut self.inbox.bytes_mut()[frame.clone()])?;
            self.rest = frame.start + start..frame.end;
        }
        let rest = &mut self.inbox.bytes_mut()[self.rest.clone()];
        let Received { header, kind, length } = self.connection.receive(rest)?;
        let range = self.rest.start..self.rest.start + length;
        self.rest.start = range.end;
        Ok((header, kind, range))
    }

    /// The largest READ, WRITE and listing that the server takes.
    #[must_use]
    pub fn payload_bytes_max(&self) -> usize {
        let Negotiated { max_read_size, max_write_size, max_transact_size, .. } =
            self.connection.negotiated;
        let max = max_read_size.min(max_write_size).min(max_transact_size);
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// Sets the protection of later messages.
    pub(super) fn protect(&mut self, protection: Protection) {
        self.connection.signs = protection == Protection::Signed;
        self.connection.seals = protection == Protection::Sealed;
    }
}
