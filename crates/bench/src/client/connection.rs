//! Sending and receiving over one connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use crypto::TransformKey;
use dtyp::{Guid, NtStatus};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, connect, recv};
use rustix::net::{socket_with, sockopt};
use wire::header::{self, Header, HeaderFlags};
use wire::oplock_break::OplockBreak;
use wire::transform::Protocol;
use wire::{Command, Decode, Dialect, Encode, frame};

use super::inbox::Inbox;
use super::login;
use super::negotiate::{self, Negotiated};
use super::outstanding::{Outstanding, Slot};
use super::protection::{Keys, Protection};
use super::{Destination, Terms};

/// Credits that a client asks for until it has them: 16 requests of 1 MiB take 256.
const CREDITS_WANTED: u16 = 512;

/// Round trips after which a server that does not grant enough credits is given up.
const CREDIT_ROUNDS_MAX: u32 = 64;

/// Bytes that one credit covers: [MS-SMB2] 3.1.5.2.
const BYTES_PER_CREDIT: usize = 64 * 1024;

/// Longest wait for a response before the server counts as dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection with one session and one tree connect.
#[derive(Debug)]
pub struct Client {
    pub(super) stream: TcpStream,
    inbox: Inbox,
    /// Range of the inbox with the current frame's remaining messages.
    rest: Range<usize>,
    outbox: Vec<u8>,
    /// Offset in the outbox and message id of each message of the frame.
    elements: Vec<(usize, u64)>,
    outstanding: Outstanding,
    next_message_id: u64,
    credits: u32,
    /// Credits that it asks for until it has them.
    credits_wanted: u16,
    /// A request took more credits than there were; it must not be sent.
    overdrawn: bool,
    /// ChannelSequence of the requests that follow.
    channel_sequence: u16,
    /// Buffer for discarded data, which stays empty.
    discarded: Vec<u8>,
    pub(super) negotiated: Negotiated,
    pub(super) session_id: u64,
    pub(super) tree_id: u32,
    pub(super) keys: Option<Keys>,
    pub(super) signs: bool,
    pub(super) seals: bool,
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
        let mut client = Self::open(stream, terms, Guid(negotiate::random()?))?;
        login::session_setup(&mut client, destination, terms.protection)?;
        login::tree_connect(&mut client, destination, terms.protection)?;
        Ok(client)
    }

    /// Connects to another share, which later requests use.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or the connection breaks.
    pub fn tree_connect(&mut self, destination: &Destination) -> Result<()> {
        let protection = match (self.seals, self.signs) {
            (true, _) => Protection::Sealed,
            (false, true) => Protection::Signed,
            (false, false) => Protection::Plain,
        };
        login::tree_connect(self, destination, protection)
    }

    /// The tree connect of the requests that follow.
    #[must_use]
    pub const fn tree_connect_id(&self) -> u32 {
        self.tree_id
    }

    /// Has the requests that follow go to another tree connect.
    pub const fn use_tree_connect(&mut self, tree_id: u32) {
        self.tree_id = tree_id;
    }

    /// Logs another user on over the same connection and connects to the share: later requests use
    /// that session, without signatures or encryption.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or the connection breaks.
    pub fn log_in(&mut self, destination: &Destination) -> Result<()> {
        self.session_id = 0;
        self.protect(Protection::Plain);
        login::session_setup(self, destination, Protection::Plain)?;
        login::tree_connect(self, destination, Protection::Plain)
    }

    /// The session of the requests that follow.
    #[must_use]
    pub const fn session_id(&self) -> u64 {
        self.session_id
    }

    /// Has the requests that follow belong to another session; to be said with its tree connect.
    pub const fn use_session(&mut self, session_id: u64) {
        self.session_id = session_id;
    }

    /// Creates a further channel of this client's session: [MS-SMB2] 3.2.4.2.3. Opens are common to
    /// all channels. `number` is 1 for the first further channel, and unique for each.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub fn bind(&self, destination: &Destination, terms: Terms, number: u8) -> Result<Self> {
        let stream = TcpStream::connect(destination.address).context("connecting")?;
        let mut client = Self::open(stream, terms, self.negotiated.client_guid)?;
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
            outbox: Vec::new(),
            elements: Vec::new(),
            outstanding: Outstanding::default(),
            next_message_id: 0,
            credits: 1,
            credits_wanted: CREDITS_WANTED,
            overdrawn: false,
            channel_sequence: 0,
            discarded: Vec::new(),
            negotiated: Negotiated::default(),
            session_id: 0,
            tree_id: 0,
            keys: None,
            signs: false,
            seals: false,
        };
        negotiate::negotiate(&mut client, terms, client_guid)?;
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
        self.channel_sequence = channel_sequence;
    }

    /// Sets the credits to request until the client has them.
    pub const fn want_credits(&mut self, credits: u16) {
        self.credits_wanted = credits;
    }

    /// The credits that it holds.
    #[must_use]
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// Breaks the rules: the next request skips `count` message ids.
    pub const fn skip_message_ids(&mut self, count: u64) {
        self.next_message_id += count;
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
        self.push_flagged(command, payload_bytes, HeaderFlags::default(), body);
    }

    /// Appends a request that is related to the one before it.
    pub fn push_related(&mut self, command: Command, payload_bytes: usize, body: &impl Encode) {
        self.push_flagged(command, payload_bytes, HeaderFlags::RELATED_OPERATIONS, body);
    }

    /// Appends a request again after its channel was lost.
    pub fn push_replay(&mut self, command: Command, payload_bytes: usize, body: &impl Encode) {
        self.push_flagged(command, payload_bytes, HeaderFlags::REPLAY_OPERATION, body);
    }

    fn push_flagged(
        &mut self,
        command: Command,
        payload_bytes: usize,
        flags: HeaderFlags,
        body: &impl Encode,
    ) {
        let room = frame::SIZE + if self.seals { TransformKey::HEADER_LEN } else { 0 };
        if let Some((last, _)) = self.elements.last() {
            let length = (self.outbox.len() - last).next_multiple_of(8);
            self.outbox.resize(last + length, 0);
            let next_command = u32::try_from(length).expect("a frame is shorter than 16 MiB");
            header::set_next_command(&mut self.outbox[*last..], next_command);
        } else {
            self.outbox.clear();
            self.outbox.resize(room, 0);
        }
        let header = self.next_header(command, payload_bytes, flags);
        self.elements.push((self.outbox.len(), header.message_id));
        header.encode(&mut self.outbox);
        body.encode(&mut self.outbox);
    }

    /// The header of the next request; its message ids and credits are spent.
    pub(super) fn next_header(
        &mut self,
        command: Command,
        payload_bytes: usize,
        flags: HeaderFlags,
    ) -> Header {
        let charge = Self::charge(payload_bytes);
        let message_id = self.next_message_id;
        self.next_message_id += u64::from(charge);
        self.overdrawn |= self.credits < u32::from(charge);
        self.credits = self.credits.saturating_sub(charge.into());
        let missing = u32::from(self.credits_wanted).saturating_sub(self.credits);
        let credits = u16::try_from(missing).unwrap_or(u16::MAX).max(charge);
        // Before 2.1 the field is reserved, and every request takes one.
        let counts = self.negotiated.dialect > Dialect::SMB_2_0_2;
        let mut header = Header {
            credit_charge: if counts { charge } else { 0 },
            command,
            credits,
            flags,
            message_id,
            tree_id: self.tree_id,
            session_id: self.session_id,
            ..Header::default()
        };
        header.set_channel_sequence(self.channel_sequence);
        header
    }

    /// CreditCharge of a request: [MS-SMB2] 3.2.4.1.5.
    pub(super) fn charge(payload_bytes: usize) -> u16 {
        let charge = payload_bytes.div_ceil(BYTES_PER_CREDIT).max(1);
        u16::try_from(charge).expect("a payload is shorter than 16 MiB")
    }

    /// Signs or encrypts the requests that were appended and sends them; `slot` gets the answers.
    ///
    /// # Errors
    ///
    /// When the connection breaks.
    pub fn flush(&mut self, slot: Slot) -> Result<()> {
        ensure!(!self.overdrawn, "there are no credits for {} more requests", self.elements.len());
        let mut outbox = std::mem::take(&mut self.outbox);
        let elements = std::mem::take(&mut self.elements);
        if self.signs && !self.seals {
            let keys = self.keys.as_ref().context("no session to sign with")?;
            for (at, &(start, _)) in elements.iter().enumerate() {
                let end = elements.get(at + 1).map_or(outbox.len(), |(next, _)| *next);
                keys.signing.sign(&mut outbox[start..end]);
            }
        }
        for &(_, message_id) in &elements {
            self.outstanding.insert(message_id, slot);
        }
        let sent = self.send_frame(&mut outbox);
        (self.outbox, self.elements) = (outbox, elements);
        self.elements.clear();
        sent
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
        assert!(!self.signs && !self.seals, "a part of a frame cannot be protected");
        let length = self.outbox.len() - frame::SIZE;
        let rest = self.outbox.split_off(bytes);
        let head = frame::FrameHeader::message(length).context("the frame is too long")?;
        self.outbox[..frame::SIZE].copy_from_slice(&head);
        for (_, message_id) in self.elements.drain(..) {
            self.outstanding.insert(message_id, slot);
        }
        self.stream.write_all(&self.outbox).context("sending")?;
        Ok(rest)
    }

    /// Returns the socket, to send an incomplete frame.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Encrypts a frame if negotiated, and sends it. The frame has room for headers before its
    /// message.
    fn send_frame(&mut self, frame: &mut [u8]) -> Result<()> {
        if self.seals {
            let keys = self.keys.as_mut().context("no session to encrypt with")?;
            keys.sealing()?.seal(self.session_id, frame)?;
        }
        let length = frame.len() - frame::SIZE;
        let head = frame::FrameHeader::message(length).context("the frame is too long")?;
        frame[..frame::SIZE].copy_from_slice(&head);
        self.stream.write_all(frame).context("sending")
    }

    /// Sends one message that is laid out already; see [`super::write_frame`].
    pub(super) fn send_laid_out(
        &mut self,
        frame: &mut [u8],
        message_id: u64,
        slot: Slot,
    ) -> Result<()> {
        if self.signs && !self.seals {
            let keys = self.keys.as_ref().context("no session to sign with")?;
            keys.signing.sign(&mut frame[frame::SIZE..]);
        }
        ensure!(!self.overdrawn, "there are no credits for one more WRITE");
        self.outstanding.insert(message_id, slot);
        self.send_frame(frame)
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
            let range = self.next_message()?;
            let header = Header::decode(&self.inbox.bytes()[range.clone()])?;
            if header.message_id == u64::MAX {
                continue;
            }
            self.credits += u32::from(header.credits);
            if header.status == NtStatus::PENDING && header.async_id.is_some() {
                ensure!(self.outstanding.contains(header.message_id), "nobody asked");
                continue;
            }
            self.verify(&header, range.clone())?;
            let Some(slot) = self.outstanding.take(header.message_id) else {
                bail!("{:?} {} was not asked for", header.command, header.message_id);
            };
            return Ok(Reply { header, slot, range });
        }
    }

    /// Waits until the server says that the client is to give up an oplock.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or something else comes.
    pub fn receive_break(&mut self) -> Result<OplockBreak> {
        let range = self.next_message()?;
        let message = &self.inbox.bytes()[range];
        let Header { command, message_id, .. } = Header::decode(message)?;
        ensure!(message_id == u64::MAX, "an answer to {command:?} came instead of a break");
        Ok(OplockBreak::decode(message)?)
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
        self.credits += u32::from(Self::charge(payload_bytes));
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
        message_bytes + if self.seals { TransformKey::HEADER_LEN } else { 0 }
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

    /// As [`Self::call`], for a response whose signature the caller verifies.
    pub(super) fn call_unverified(
        &mut self,
        command: Command,
        payload_bytes: usize,
        body: &impl Encode,
    ) -> Result<Reply> {
        self.push(command, payload_bytes, body);
        self.flush(Slot(0))?;
        let signs = std::mem::replace(&mut self.signs, false);
        let reply = self.receive();
        self.signs = signs;
        reply
    }

    /// Returns the last frame sent, from its first message on.
    pub(super) fn sent(&self) -> &[u8] {
        &self.outbox[frame::SIZE..]
    }

    /// Asks until there are credits for `depth` requests of this payload in flight.
    ///
    /// # Errors
    ///
    /// When the server does not grant them.
    pub fn gather_credits(&mut self, depth: usize, payload_bytes: usize) -> Result<()> {
        let need = depth * usize::from(Self::charge(payload_bytes));
        for _ in 0..CREDIT_ROUNDS_MAX {
            if usize::try_from(self.credits).unwrap_or(usize::MAX) >= need {
                return Ok(());
            }
            self.call(Command::ECHO, 0, &wire::echo::EchoRequest)?.succeeded()?;
        }
        bail!("the server grants {} credits, {need} are needed", self.credits)
    }

    fn next_message(&mut self) -> Result<Range<usize>> {
        if self.rest.is_empty() {
            let frame = self.inbox.next_frame(&mut self.stream).context("receiving")?;
            self.rest = match Protocol::of(&self.inbox.bytes()[frame.clone()])? {
                Protocol::Smb2 => {
                    ensure!(!self.seals, "an answer is not encrypted");
                    frame
                }
                Protocol::Encrypted => {
                    let keys = self.keys.as_mut().context("an encrypted answer without a key")?;
                    keys.sealing()?.open(&mut self.inbox.bytes_mut()[frame.clone()])?;
                    frame.start + TransformKey::HEADER_LEN..frame.end
                }
                other => bail!("a frame is {other:?}"),
            };
        }
        let rest = self.rest.clone();
        let next_command = Header::decode(&self.inbox.bytes()[rest.clone()])?.next_command;
        let end = match usize::try_from(next_command)? {
            0 => rest.end,
            length => rest.start + length,
        };
        ensure!(end <= rest.end, "a compound leaves its frame");
        self.rest = end..rest.end;
        Ok(rest.start..end)
    }

    fn verify(&mut self, header: &Header, range: Range<usize>) -> Result<()> {
        if self.signs && !self.seals {
            ensure!(header.is_signed(), "{:?} is answered without a signature", header.command);
            let keys = self.keys.as_ref().context("no session to verify with")?;
            keys.signing.verify(&mut self.inbox.bytes_mut()[range])?;
        }
        Ok(())
    }

    /// The largest READ, WRITE and listing that the server takes.
    #[must_use]
    pub fn payload_bytes_max(&self) -> usize {
        self.negotiated.payload_bytes_max
    }

    /// Sets the protection of later messages.
    pub(super) fn protect(&mut self, protection: Protection) {
        self.signs = protection == Protection::Signed;
        self.seals = protection == Protection::Sealed;
    }
}
