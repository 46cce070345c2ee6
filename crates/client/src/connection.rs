//! A client with one connection: [MS-SMB2] 3.2.1.2.

use crypto::{PreauthHash, Role, TransformKey};
use dtyp::NtStatus;
use wire::cancel::CancelRequest;
use wire::header::HeaderFlags;
use wire::transform::Protocol;
use wire::{Command, Dialect, Encode, Header, compound, frame};

use crate::channel::Channel;
use crate::error::ProtocolError;
use crate::logon::{Logon, LogonState};
use crate::negotiated::Negotiated;
use crate::offer::Offer;
use crate::request_frame::{RequestFrame, set_length};
use crate::sequence_window::{SequenceWindow, credit_charge};
use crate::session::Session;

/// One connection with one session and one tree connect at a time.
#[derive(Debug, Default)]
pub struct Connection {
    /// Choices of the server in NEGOTIATE.
    pub negotiated: Negotiated,
    /// Message ids and credits of the connection.
    pub window: SequenceWindow,
    /// Session of the requests that follow.
    pub session_id: u64,
    /// Tree connect of the requests that follow.
    pub tree_id: u32,
    /// ChannelSequence of the requests that follow: [MS-SMB2] 3.2.4.1.6.
    pub channel_sequence: u16,
    /// Credits that each request asks for until the client has them.
    pub credits_wanted: u16,
    /// True to sign requests, and to require signed responses.
    pub signs: bool,
    /// True to encrypt requests, and to require encrypted responses.
    pub seals: bool,
    /// Prefix of the nonces of the next channel, different for each channel of a session.
    pub nonce_prefix: [u8; 3],
    preauth: PreauthHash,
    channel: Option<Channel>,
    frame: RequestFrame,
    /// A request took more credits than there were; it must not be sent.
    is_overdrawn: bool,
    /// The opened frame was encrypted.
    was_sealed: bool,
}

/// A received message and its place in the frame.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Header of the message, whose signature is right if one is required.
    pub header: Header,
    /// Length of the message, with its padding; the next one of the frame follows.
    pub length: usize,
    /// Part of the message in an exchange.
    pub kind: Kind,
}

/// Part of a received message in an exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The only or last response to a request.
    Final,
    /// The interim response of a slow request, which is not signed: [MS-SMB2] 3.3.4.1.1.
    Interim,
    /// A notification that answers no request, such as a break.
    Notification,
}

impl Kind {
    /// Part of the message with this header.
    #[must_use]
    #[inline]
    pub fn of(header: &Header) -> Self {
        if header.message_id == u64::MAX {
            Self::Notification
        } else if header.status == NtStatus::PENDING && header.async_id.is_some() {
            Self::Interim
        } else {
            Self::Final
        }
    }
}

/// Making, protecting and framing of requests.
impl Connection {
    /// Creates a connection that has not negotiated, and asks for these credits until it has them.
    #[must_use]
    pub fn new(credits_wanted: u16) -> Self {
        Self { credits_wanted, ..Self::default() }
    }

    /// Appends a request to the frame, and returns its message id. `payload_bytes` is the larger
    /// size of its request and response data, which determines the CreditCharge.
    pub fn push(
        &mut self,
        command: Command,
        payload_bytes: usize,
        flags: HeaderFlags,
        body: &impl Encode,
    ) -> u64 {
        let header = self.next_header(command, payload_bytes, flags);
        let room = self.room();
        self.frame.push(room, &header, body);
        header.message_id
    }

    /// Appends a CANCEL of a request; it has no id and no response of its own: [MS-SMB2] 3.2.4.24.
    pub fn push_cancel(&mut self, message_id: u64, async_id: Option<u64>) {
        let header = Header {
            command: Command::CANCEL,
            message_id,
            async_id,
            session_id: self.session_id,
            ..Header::default()
        };
        let room = self.room();
        self.frame.push(room, &header, &CancelRequest);
    }

    /// Returns the header of the next request; its message ids and credits are spent.
    // The load generator makes a header for each request: a call would copy it.
    #[inline(always)]
    pub fn next_header(
        &mut self,
        command: Command,
        payload_bytes: usize,
        flags: HeaderFlags,
    ) -> Header {
        let charge = credit_charge(payload_bytes);
        let credits = self.window.credits();
        self.is_overdrawn |= credits < u32::from(charge);
        let message_id = self.window.take(charge);
        let left = credits.saturating_sub(charge.into());
        let missing = u32::from(self.credits_wanted).saturating_sub(left);
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

    /// Bytes before the first message of a frame: the transport's header, and that of the
    /// encryption.
    #[must_use]
    pub const fn room(&self) -> usize {
        frame::SIZE + if self.seals { TransformKey::HEADER_LEN } else { 0 }
    }

    /// Signs or encrypts the requests that were appended, and ends their frame. Returns its bytes.
    ///
    /// # Errors
    ///
    /// There are no credits for the requests, no keys to protect them, or the frame is too long.
    #[inline]
    pub fn finish(&mut self) -> Result<&[u8], ProtocolError> {
        self.verify_credits(self.frame.len())?;
        if self.signs && !self.seals {
            let channel = self.channel.as_ref().ok_or(ProtocolError::NoKey)?;
            self.frame.messages_mut().for_each(|message| channel.sign(message));
        }
        self.frame.end();
        let channel = self.channel.as_mut().filter(|_| self.seals);
        complete(self.frame.bytes_mut(), channel, self.seals)?;
        Ok(self.frame.bytes())
    }

    /// Protects a frame of one request that its owner has laid out, with a header of
    /// [`Self::next_header`] behind [`Self::room`] bytes.
    ///
    /// # Errors
    ///
    /// As for [`Self::finish`].
    #[inline]
    pub fn protect(&mut self, frame: &mut [u8]) -> Result<(), ProtocolError> {
        self.verify_credits(1)?;
        if self.signs && !self.seals {
            let channel = self.channel.as_ref().ok_or(ProtocolError::NoKey)?;
            channel.sign(&mut frame[frame::SIZE..]);
        }
        let channel = self.channel.as_mut().filter(|_| self.seals);
        complete(frame, channel, self.seals)
    }

    /// Frame of the requests that were appended; after [`Self::finish`], the last one.
    #[must_use]
    pub const fn frame(&self) -> &RequestFrame {
        &self.frame
    }

    /// Ends the session's protection: the requests that follow are neither signed nor sealed.
    pub fn leave_session(&mut self) {
        (self.session_id, self.signs, self.seals) = (0, false, false);
    }

    /// Key and session of the connection's channel, if there is one.
    #[must_use]
    pub const fn channel(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    const fn verify_credits(&self, requests: usize) -> Result<(), ProtocolError> {
        if self.is_overdrawn { Err(ProtocolError::Overdrawn(requests)) } else { Ok(()) }
    }
}

/// Encrypts a frame if it must be, and sets the length of the transport.
#[inline]
fn complete(
    frame: &mut [u8],
    channel: Option<&mut Channel>,
    seals: bool,
) -> Result<(), ProtocolError> {
    if seals {
        channel.ok_or(ProtocolError::NoKey)?.seal(&mut frame[frame::SIZE..])?;
    }
    let length = frame.len() - frame::SIZE;
    set_length(frame, length).ok_or(ProtocolError::FrameTooLong(length))
}

/// Opening and verifying of received frames.
impl Connection {
    /// Decrypts a received frame in place, without the transport's header. Returns the offset of
    /// its first message.
    ///
    /// # Errors
    ///
    /// The frame is of another protocol, not encrypted as it must be, or cannot be decrypted.
    #[inline]
    pub fn open(&mut self, frame: &mut [u8]) -> Result<usize, ProtocolError> {
        let protocol = Protocol::of(frame)?;
        self.was_sealed = protocol == Protocol::Encrypted;
        match protocol {
            Protocol::Smb2 if self.seals => Err(ProtocolError::NotEncrypted),
            Protocol::Smb2 => Ok(0),
            Protocol::Encrypted => {
                self.channel.as_ref().ok_or(ProtocolError::NoKey)?.open(frame)?;
                Ok(TransformKey::HEADER_LEN)
            }
            other => Err(ProtocolError::UnexpectedProtocol(other)),
        }
    }

    /// Takes the first message of the rest of an opened frame: its credits count, and its signature
    /// is verified if one is required. An encrypted frame needs none: [MS-SMB2] 3.2.5.1.3.
    /// Signatures of SESSION_SETUP are left to [`Self::handle_session_setup`].
    ///
    /// # Errors
    ///
    /// The message leaves the frame, or is not signed as it must be.
    #[inline]
    pub fn receive(&mut self, rest: &mut [u8]) -> Result<Received, ProtocolError> {
        let (header, length) = compound::first(rest)?;
        let kind = Kind::of(&header);
        if kind != Kind::Notification {
            self.window.grant(header.credits);
        }
        if self.signs
            && !self.was_sealed
            && kind == Kind::Final
            && header.command != Command::SESSION_SETUP
        {
            self.verify(&header, &mut rest[..length])?;
        }
        Ok(Received { header, length, kind })
    }

    fn verify(&self, header: &Header, message: &mut [u8]) -> Result<(), ProtocolError> {
        if !header.is_signed() {
            return Err(ProtocolError::NotSigned(header.command));
        }
        Ok(self.channel.as_ref().ok_or(ProtocolError::NoKey)?.verify(message)?)
    }
}

/// Set-up by NEGOTIATE and SESSION_SETUP: [MS-SMB2] 3.2.4.2.
impl Connection {
    /// Returns the frame of a NEGOTIATE request.
    ///
    /// # Errors
    ///
    /// There is no credit left.
    pub fn negotiate(&mut self, offer: &Offer) -> Result<&[u8], ProtocolError> {
        let contexts = offer.contexts();
        self.push(Command::NEGOTIATE, 0, HeaderFlags::empty(), &offer.request(&contexts));
        self.finish()?;
        self.preauth = PreauthHash::ZERO;
        self.preauth.update(sent(&self.frame));
        Ok(self.frame.bytes())
    }

    /// Processes the response to NEGOTIATE.
    ///
    /// # Errors
    ///
    /// The server refuses, or chooses a dialect that was not offered.
    pub fn handle_negotiate(&mut self, offer: &Offer, message: &[u8]) -> Result<(), ProtocolError> {
        let status = Header::decode(message)?.status;
        if status.is_error() {
            return Err(ProtocolError::Refused(Command::NEGOTIATE, status));
        }
        let negotiated = Negotiated::decode(message)?;
        if !offer.dialects.contains(&negotiated.dialect) {
            return Err(ProtocolError::Dialect(negotiated.dialect));
        }
        self.preauth.update(message);
        self.negotiated = negotiated;
        Ok(())
    }

    /// `Connection.PreauthIntegrityHashValue`, with which a [`Logon`] begins.
    #[must_use]
    pub const fn preauth(&self) -> PreauthHash {
        self.preauth
    }

    /// Makes the next logon bind this connection to a session: requests are signed with its key
    /// until the channel has its own.
    pub fn bind(&mut self, session: Session) {
        self.session_id = session.id;
        self.channel = Some(Channel::further(session, self.nonce_prefix));
        self.signs = true;
    }

    /// Returns the frame of the next SESSION_SETUP request of a logon.
    ///
    /// # Errors
    ///
    /// There is no credit left.
    pub fn session_setup(&mut self, logon: &mut Logon) -> Result<&[u8], ProtocolError> {
        self.push(Command::SESSION_SETUP, 0, HeaderFlags::empty(), &logon.request());
        self.finish()?;
        logon.handle_sent(sent(&self.frame));
        Ok(self.frame.bytes())
    }

    /// Processes a response to SESSION_SETUP. When it is done there is a channel, unless the server
    /// made the user a guest.
    ///
    /// # Errors
    ///
    /// The server refuses the logon, or does not prove that it has the key.
    pub fn handle_session_setup(
        &mut self,
        logon: &mut Logon,
        message: &mut [u8],
    ) -> Result<LogonState, ProtocolError> {
        let header = Header::decode(message)?;
        self.session_id = header.session_id;
        let keys = logon.keys(&self.negotiated);
        let state = logon.handle_response(message)?;
        if state == LogonState::More {
            return Ok(state);
        }
        if state.is_guest() {
            self.channel = None;
            return Ok(state);
        }
        let keys = keys.ok_or(ProtocolError::NoKey)?;
        match self.channel.as_mut().filter(|channel| channel.is_being_bound()) {
            Some(channel) => {
                channel.set_keys(&keys);
                channel.finish();
            }
            None => {
                let session = Session::new(self.session_id, &keys, Role::Client);
                self.channel = Some(Channel::first(session, self.nonce_prefix));
            }
        }
        self.verify(&header, message)?;
        Ok(state)
    }
}

/// Returns the message of a finished frame, which has only one and is not encrypted.
fn sent(frame: &RequestFrame) -> &[u8] {
    &frame.bytes()[frame::SIZE..]
}

#[cfg(test)]
mod tests;
