//! The server's side of a conversation, with one user and one session.

use auth::{Acceptor, AcceptorSettings, IdentityKind, NtHash, Outcome, Step};
use crypto::{PreauthHash, Role, TransformKey};
use dtyp::{FileTime, NtStatus};
use wire::compound::Compound;
use wire::echo::EchoResponse;
use wire::header::{self, HeaderFlags};
use wire::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse};
use wire::session_setup::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
use wire::{Command, Decode, Encode, Header, frame};

use crate::channel::Channel;
use crate::negotiated::Negotiated;
use crate::offer::Offer;
use crate::session::Session;

/// Password of the only user.
pub(super) const PASSWORD: &str = "Passw0rd!";

/// Session that every logon makes.
pub(super) const SESSION_ID: u64 = 0x99;

/// A connection as its server has it. It asserts that requests are protected rightly.
pub(super) struct Server {
    acceptor: Acceptor,
    negotiated: Negotiated,
    preauth: PreauthHash,
    channel: Option<Channel>,
    /// False to leave the last answer of a logon unsigned.
    pub(super) proves: bool,
}

impl Server {
    pub(super) fn new() -> Self {
        let name = || "SERVER".to_owned();
        let settings = AcceptorSettings {
            netbios_name: name(),
            netbios_domain: name(),
            dns_name: name(),
            dns_domain: name(),
            ..AcceptorSettings::default()
        };
        Self {
            acceptor: Acceptor::new(&settings, [3; 8], FileTime(1)),
            negotiated: Negotiated::default(),
            preauth: PreauthHash::ZERO,
            channel: None,
            proves: true,
        }
    }

    /// Expects the connection to be bound to the session of another one.
    pub(super) fn bind(&mut self, first: &Self) {
        let session = first.channel.as_ref().expect("a session").session().clone();
        self.channel = Some(Channel::further(session, [1, 0, 0]));
    }

    /// Answers a frame with the transport's header, by one without it.
    pub(super) fn answer(&mut self, frame: &[u8]) -> Vec<u8> {
        let (length, frame) = frame.split_first_chunk().expect("a transport's header");
        assert_eq!(frame::FrameHeader::decode(*length).length, frame.len());
        let mut frame = frame.to_vec();
        let is_sealed = TransformKey::session_id(&frame).is_some();
        if is_sealed {
            let channel = self.channel.as_ref().expect("a session");
            frame = channel.open(&mut frame).expect("the client's key").to_vec();
        }
        let messages: Result<Vec<_>, _> = Compound::new(&frame).collect();
        let messages = messages.expect("a whole chain");
        let mut answer = vec![0; if is_sealed { TransformKey::HEADER_LEN } else { 0 }];
        for (at, message) in messages.iter().enumerate() {
            let start = answer.len();
            self.answer_message(message, is_sealed, &mut answer);
            if at + 1 < messages.len() {
                let length = (answer.len() - start).next_multiple_of(8);
                answer.resize(start + length, 0);
                let next_command = u32::try_from(length).expect("a small answer");
                header::set_next_command(&mut answer[start..], next_command);
            }
        }
        if is_sealed {
            self.channel.as_mut().expect("a session").seal(&mut answer).expect("a cipher");
        }
        answer
    }

    fn answer_message(&mut self, message: &[u8], is_sealed: bool, out: &mut Vec<u8>) {
        let request = Header::decode(message).expect("a header");
        if let (Some(channel), false) = (&self.channel, is_sealed) {
            assert!(request.is_signed(), "{request:?}");
            channel.verify(&mut message.to_vec()).expect("the key of this channel");
        }
        let header = Header {
            flags: HeaderFlags::SERVER_TO_REDIR,
            next_command: 0,
            status: NtStatus::SUCCESS,
            signature: [0; 16],
            ..request
        };
        let start = out.len();
        match request.command {
            Command::NEGOTIATE => self.negotiate(message, header, out),
            Command::SESSION_SETUP => return self.session_setup(message, header, out),
            _ => {
                header.encode(out);
                EchoResponse.encode(out);
            }
        }
        if let (Some(channel), false) = (&self.channel, is_sealed) {
            channel.sign(&mut out[start..]);
        }
    }

    fn negotiate(&mut self, message: &[u8], header: Header, out: &mut Vec<u8>) {
        let request = NegotiateRequest::decode(message).expect("well-formed");
        let dialect = request.dialects.iter().next().expect("an offer");
        let contexts = Offer::dialects(&[dialect]).contexts();
        header.encode(out);
        let body = NegotiateResponse {
            dialect_revision: dialect,
            capabilities: Capabilities::ENCRYPTION,
            negotiate_contexts: contexts.contexts(),
            ..NegotiateResponse::default()
        };
        body.encode(out);
        self.negotiated = Negotiated::decode(out).expect("just encoded");
        self.preauth.update(message);
        self.preauth.update(out);
    }

    fn session_setup(&mut self, message: &[u8], header: Header, out: &mut Vec<u8>) {
        self.preauth.update(message);
        let request = SessionSetupRequest::decode(message).expect("well-formed");
        let mut step = self.acceptor.step(request.security_buffer);
        if let Ok(Step::Account { .. }) = step {
            step = self.acceptor.resume(Some(NtHash::of_password(PASSWORD)));
        }
        let header = Header { session_id: SESSION_ID, ..header };
        match step {
            Ok(Step::Continue(token)) => {
                let status = NtStatus::MORE_PROCESSING_REQUIRED;
                respond(Header { status, ..header }, SessionFlags::empty(), &token, out);
                self.preauth.update(out);
            }
            Ok(Step::Done(outcome)) => self.accept(&outcome, header, out),
            Ok(Step::Account { .. }) => panic!("the account was given"),
            Ok(Step::Mic(_) | Step::Ticket(_)) => panic!("Kerberos is not offered"),
            Err(reason) => {
                let status = reason.status();
                respond(Header { status, ..header }, SessionFlags::empty(), &[], out);
            }
        }
    }

    fn accept(&mut self, outcome: &Outcome, header: Header, out: &mut Vec<u8>) {
        if outcome.identity.kind == IdentityKind::Anonymous {
            return respond(header, SessionFlags::IS_NULL, &outcome.token, out);
        }
        let keys = self.negotiated.session_keys(&outcome.session_key, &self.preauth);
        match &mut self.channel {
            Some(channel) => channel.set_keys(&keys),
            None => {
                let session = Session::new(SESSION_ID, &keys, Role::Server);
                self.channel = Some(Channel::first(session, [0; 3]));
            }
        }
        respond(header, SessionFlags::empty(), &outcome.token, out);
        if self.proves {
            self.channel.as_ref().expect("just made").sign(out);
        }
    }
}

fn respond(header: Header, session_flags: SessionFlags, token: &[u8], out: &mut Vec<u8>) {
    header.encode(out);
    SessionSetupResponse { session_flags, security_buffer: token }.encode(out);
}
