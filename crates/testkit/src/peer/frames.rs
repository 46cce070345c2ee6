//! Conversion of requests to frames, and of frames to responses.

use crypto::{SigningKey, TransformKey};
use dtyp::NtStatus;
use wire::compound::Compound;
use wire::header::{self, HeaderFlags};
use wire::transform::TRANSFORM_PROTOCOL_ID;
use wire::{Command, Dialect, Header};

use super::{ClientSession, Outstanding, Peer};
use crate::request::Request;
use crate::response::Response;
use crate::world::Plain;

impl Peer {
    /// Sends requests as one frame. Returns their message ids.
    ///
    /// # Panics
    /// If a request must be signed or sealed and there is no key.
    pub fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) -> Vec<u64> {
        let (frame, ids) = self.lay_out(requests);
        let frame = if self.seals { self.seal(self.session_id, &frame) } else { frame };
        self.send_frame(&frame);
        ids
    }

    /// Sends the bytes of a frame without changes.
    pub fn send_frame(&mut self, frame: &[u8]) {
        self.world.deliver(self.connection, frame);
    }

    /// Builds the frame of these requests, signed; their message ids are consumed.
    ///
    /// # Panics
    /// If a request must be signed and there is no key.
    pub fn lay_out(&mut self, requests: impl IntoIterator<Item = Request>) -> (Vec<u8>, Vec<u64>) {
        let mut frame: Vec<u8> = Vec::new();
        let mut ids = Vec::new();
        let mut session_id = self.session_id;
        let mut requests = requests.into_iter().peekable();
        while let Some(mut request) = requests.next() {
            if request.header.session_id != u64::MAX {
                session_id = request.header.session_id;
            }
            let id = self.identify(&mut request);
            ids.push(id);
            let start = frame.len();
            frame.extend_from_slice(&request.to_message());
            if requests.peek().is_some() {
                // [MS-SMB2] 3.2.4.1.4: each but the last is padded to 8 bytes.
                frame.resize(start + (frame.len() - start).next_multiple_of(8), 0);
                let next_command = u32::try_from(frame.len() - start).expect("a small frame");
                header::set_next_command(&mut frame[start..], next_command);
            }
            self.finish(&request, session_id, &mut frame[start..]);
        }
        self.world.remember(Plain::Requests(frame.clone()));
        (frame, ids)
    }

    /// Assigns a request its message id, and records it.
    fn identify(&mut self, request: &mut Request) -> u64 {
        let is_cancel = request.header.command == Command::CANCEL;
        let pays = self.dialect > Dialect::SMB_2_0_2;
        let charge = if pays { request.header.credit_charge } else { 1 };
        let id = match request.message_id {
            Some(id) if is_cancel => id,
            Some(id) => {
                self.window.take_at(id, charge);
                id
            }
            None if is_cancel => 0,
            None => self.window.take(charge),
        };
        request.header.message_id = id;
        if !is_cancel {
            let outstanding = Outstanding {
                command: request.header.command,
                signed: request.sign,
                sealed: self.seals,
                async_id: None,
            };
            self.outstanding.insert(id, outstanding);
        }
        id
    }

    /// Signs a request, damages it if the test wants that, and updates the preauthentication hash.
    fn finish(&mut self, request: &Request, session_id: u64, message: &mut [u8]) {
        if request.sign && !self.seals {
            let key = self.sessions.get(&session_id).and_then(|session| session.signing.as_ref());
            key.expect("a key to sign with").sign(message);
        }
        if let Some(at) = request.tamper {
            message[at] ^= 1;
        }
        match request.header.command {
            Command::NEGOTIATE => self.preauth.update(message),
            Command::SESSION_SETUP => {
                let preauth = self.preauth;
                let session = self.sessions.entry(session_id).or_default();
                if session_id == 0 {
                    session.preauth = preauth;
                }
                session.preauth.update(message);
            }
            _ => {}
        }
    }

    /// Seals a frame for a session.
    ///
    /// # Panics
    /// If the session has no keys to seal with.
    #[must_use]
    pub fn seal(&mut self, session_id: u64, frame: &[u8]) -> Vec<u8> {
        let session = self.sessions.get_mut(&session_id);
        let sealing = session.and_then(|session| session.sealing.as_mut());
        let sealing = sealing.expect("keys to seal with");
        let nonce = sealing.nonces.advance().expect("a test has few messages");
        let mut sealed = vec![0; TransformKey::HEADER_LEN];
        sealed.extend_from_slice(frame);
        sealing.seal.seal(nonce, session_id, &mut sealed);
        sealed
    }

    pub(super) fn take_frames(&mut self) {
        for mut frame in self.world.take_inbox(self.connection) {
            let sealed = frame.starts_with(&TRANSFORM_PROTOCOL_ID);
            if sealed {
                frame = self.unseal(frame);
            }
            self.world.remember(Plain::Responses(frame.clone()));
            let messages: Vec<_> = Compound::new(&frame)
                .map(|message| message.expect("a server sends whole compounds").to_vec())
                .collect();
            for mut message in messages {
                let header = Header::decode(&message).expect("a server sends whole headers");
                self.verify(&header, &mut message, sealed);
                self.received.push_back(Response { header, message, sealed });
            }
        }
        let is_open = self.is_open();
        if is_open {
            self.window.assert_not_stranded(self.outstanding.len());
        }
    }

    fn unseal(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let session_id = TransformKey::session_id(&frame).expect("a transform header");
        let session = self.sessions.get(&session_id).expect("a session of this client");
        let sealing = session.sealing.as_ref().expect("a session that was given keys");
        sealing.open.open(&mut frame).expect("what the server sealed opens").to_vec()
    }

    /// Verifies a response by [MS-SMB2] 3.2.5.1, as far as the command does not matter.
    fn verify(&mut self, header: &Header, message: &mut [u8], sealed: bool) {
        assert!(header.is_response(), "{header:?} is no response");
        if header.command == Command::OPLOCK_BREAK && header.message_id == u64::MAX {
            return;
        }
        let id = header.message_id;
        let request = *self.outstanding.get(&id).unwrap_or_else(|| {
            panic!("{header:?} answers nothing that is outstanding");
        });
        assert_eq!(header.command, request.command, "the command of the request");
        assert_eq!(sealed, request.sealed, "sealed like the request: {header:?}");
        let is_interim = header.status == NtStatus::PENDING && header.async_id.is_some();
        if is_interim {
            assert_eq!(request.async_id, None, "one interim response: {header:?}");
            let entry = self.outstanding.get_mut(&id).expect("looked up above");
            entry.async_id = header.async_id;
        } else {
            assert_eq!(header.async_id, request.async_id, "the same async id: {header:?}");
            if request.async_id.is_some() {
                assert_eq!(header.credits, 0, "the interim response carried the credits");
            }
            self.outstanding.remove(&id);
        }
        self.window.grant(header.credits);
        self.verify_signature(header, message, request, is_interim);
        self.hash(header, message);
    }

    /// Verifies a signature: [MS-SMB2] 3.2.5.1.3. A present one must be right, and a required one
    /// present.
    fn verify_signature(
        &mut self,
        header: &Header,
        message: &mut [u8],
        request: Outstanding,
        is_interim: bool,
    ) {
        if is_interim {
            assert!(!header.is_signed(), "an interim response is not signed: {header:?}");
            return;
        }
        let session = self.sessions.get(&header.session_id);
        let key = session.and_then(|session| session.signing.as_ref());
        let is_empty = header.signature == [0; 16];
        if header.flags.contains(HeaderFlags::SIGNED) && is_empty {
            // A server that has lost the key can only send this.
            assert_eq!(header.status, NtStatus::USER_SESSION_DELETED, "an empty signature");
        } else if header.flags.contains(HeaderFlags::SIGNED) {
            let key = key.expect("a response is signed only if there is a key");
            let is_right = key.verify(message).is_ok()
                || refuses_binding(session, header)
                    .is_some_and(|binding| binding.verify(message).is_ok());
            assert!(is_right, "a wrong signature: {header:?}");
        } else {
            // A refusal for a missing session cannot be signed.
            let is_known = key.is_some()
                && header.status != NtStatus::USER_SESSION_DELETED
                // Nor one for a connection without proof of identity.
                && !(header.status == NtStatus::ACCESS_DENIED
                    && refuses_binding(session, header).is_some());
            assert!(!(request.signed && is_known && !request.sealed), "unsigned: {header:?}");
        }
    }

    fn hash(&mut self, header: &Header, message: &[u8]) {
        match header.command {
            Command::NEGOTIATE => self.preauth.update(message),
            Command::SESSION_SETUP if header.status == NtStatus::MORE_PROCESSING_REQUIRED => {
                // The first response contains the session id.
                if !self.sessions.contains_key(&header.session_id) {
                    let session = self.sessions.remove(&0).unwrap_or_default();
                    self.sessions.insert(header.session_id, session);
                }
                let session = self.sessions.get_mut(&header.session_id).expect("entered above");
                session.preauth.update(message);
            }
            _ => {}
        }
    }
}

/// Returns the session's key if this response refuses to bind the connection.
fn refuses_binding<'a>(
    session: Option<&'a ClientSession>,
    header: &Header,
) -> Option<&'a SigningKey> {
    let refuses = header.command == Command::SESSION_SETUP && !header.status.is_success();
    session.filter(|_| refuses).and_then(|session| session.binding.as_ref())
}
