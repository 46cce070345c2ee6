//! Conversion of requests to frames, and of frames to responses.

use client::{Channel, Kind, RawBody, RequestFrame};
use crypto::TransformKey;
use dtyp::NtStatus;
use proto::ChannelInfo;
use wire::compound::Compound;
use wire::header::HeaderFlags;
use wire::transform::TRANSFORM_PROTOCOL_ID;
use wire::{Command, Dialect, Header};

use super::{Outstanding, Peer};
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
        let mut frame = RequestFrame::default();
        let mut requests: Vec<Request> = requests.into_iter().collect();
        for request in &mut requests {
            self.identify(request);
            frame.push(0, &request.header, &RawBody(&request.body));
        }
        let ids = frame.message_ids().collect();
        let mut session_id = self.session_id;
        for (request, message) in requests.iter().zip(frame.messages_mut()) {
            if request.header.session_id != u64::MAX {
                session_id = request.header.session_id;
            }
            self.finish(request, session_id, message);
        }
        let frame = frame.take();
        self.world.keep_frame(Plain::Requests(frame.clone()));
        (frame, ids)
    }

    /// Assigns a request its message id, and records it.
    fn identify(&mut self, request: &mut Request) {
        let is_cancel = request.header.command == Command::CANCEL;
        let pays = self.negotiated.dialect > Dialect::SMB_2_0_2;
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
    }

    /// Signs a request, damages it if the test wants that, and updates the preauthentication hash.
    fn finish(&mut self, request: &Request, session_id: u64, message: &mut [u8]) {
        if request.sign && !self.seals {
            self.channels.get(&session_id).expect("a key to sign with").sign(message);
        }
        if let Some(at) = request.tamper {
            message[at] ^= 1;
        }
        if request.header.command == Command::NEGOTIATE {
            self.preauth.update(message);
        }
    }

    /// Seals a frame for a session.
    ///
    /// # Panics
    /// If the session has no keys to seal with.
    #[must_use]
    pub fn seal(&mut self, session_id: u64, frame: &[u8]) -> Vec<u8> {
        let channel = self.channels.get_mut(&session_id).expect("a session with keys");
        let mut sealed = vec![0; TransformKey::HEADER_LEN];
        sealed.extend_from_slice(frame);
        channel.seal(&mut sealed).expect("keys to seal with");
        sealed
    }

    pub(super) fn take_frames(&mut self) {
        for mut frame in self.world.take_inbox(self.connection) {
            let sealed = frame.starts_with(&TRANSFORM_PROTOCOL_ID);
            if sealed {
                frame = self.unseal(frame);
            }
            self.world.keep_frame(Plain::Responses(frame.clone()));
            let messages: Vec<_> = Compound::new(&frame)
                .map(|message| message.expect("a server sends whole compounds").to_vec())
                .collect();
            for mut message in messages {
                let header = Header::decode(&message).expect("a server sends whole headers");
                self.verify(&header, &mut message, sealed);
                let reason = self.world.take_reason(self.connection, header.message_id);
                self.received.push_back(Response { header, message, sealed, reason });
            }
        }
        if self.is_open() {
            let can_send = self.credits() > 0 || self.outstanding() > 0;
            assert!(can_send, "no credit is left, and nothing can bring one");
        }
    }

    fn unseal(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let session_id = TransformKey::session_id(&frame).expect("a transform header");
        let channel = self.channels.get(&session_id).expect("a session that was given keys");
        channel.open(&mut frame).expect("what the server sealed opens").to_vec()
    }

    /// Verifies a response by [MS-SMB2] 3.2.5.1, as far as the command does not matter.
    fn verify(&mut self, header: &Header, message: &mut [u8], sealed: bool) {
        assert!(header.is_response(), "{header:?} is no response");
        let kind = Kind::of(header);
        if kind == Kind::Notification && header.command == Command::OPLOCK_BREAK {
            return;
        }
        let id = header.message_id;
        let request = *self.outstanding.get(&id).unwrap_or_else(|| {
            panic!("{header:?} answers nothing that is outstanding");
        });
        assert_eq!(header.command, request.command, "the command of the request");
        assert_eq!(sealed, request.sealed, "sealed like the request: {header:?}");
        let is_interim = kind == Kind::Interim;
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
        let (span, max) = (self.window.span(), self.credits_max);
        assert!(span <= u64::from(max), "{span} credits are above {max}");
        self.verify_signature(header, message, request, is_interim);
        if header.command == Command::NEGOTIATE {
            self.preauth.update(message);
        }
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
        if header.is_signed()
            && !self.channels.contains_key(&header.session_id)
            && let Some(keys) = self.keys_of_new_session.take()
        {
            self.session_id = header.session_id;
            self.set_keys(&keys);
        }
        let channel = self.channels.get(&header.session_id);
        let is_empty = header.signature == [0; 16];
        if header.flags.contains(HeaderFlags::SIGNED) && is_empty {
            // A server that has lost the key can only send this.
            assert_eq!(header.status, NtStatus::USER_SESSION_DELETED, "an empty signature");
        } else if header.flags.contains(HeaderFlags::SIGNED) {
            let channel = channel.expect("a response is signed only if there is a key");
            let is_right = channel.verify(message).is_ok()
                || (refuses_binding(channel, header)
                    && channel.session().signing_key.verify(message).is_ok());
            assert!(is_right, "a wrong signature: {header:?}");
        } else {
            // A refusal for a missing session cannot be signed.
            let is_known = header.status != NtStatus::USER_SESSION_DELETED
                && !self.is_malformed_without_session(header)
                // Nor one for a connection without proof of identity.
                && channel.is_some_and(|channel| {
                    header.status != NtStatus::ACCESS_DENIED || !refuses_binding(channel, header)
                });
            assert!(!(request.signed && is_known && !request.sealed), "unsigned: {header:?}");
        }
    }

    /// True for the refusal of a SESSION_SETUP that is malformed, in a session that is missing: it
    /// may be meant to bind the connection, so the server looks for the session after decoding.
    fn is_malformed_without_session(&self, header: &Header) -> bool {
        let is_malformed = header.command == Command::SESSION_SETUP
            && header.status == NtStatus::INVALID_PARAMETER;
        let is_its = |channel: &ChannelInfo| {
            (channel.session_id, channel.connection) == (header.session_id, self.connection)
        };
        is_malformed && !self.world.channels().iter().any(is_its)
    }
}

/// True if this response refuses to bind the connection, which the session's key signs.
fn refuses_binding(channel: &Channel, header: &Header) -> bool {
    let refuses = header.command == Command::SESSION_SETUP && !header.status.is_success();
    refuses && channel.is_being_bound()
}
