//! SESSION_SETUP, with NTLM on the client's side.

use auth::{Initiator, Randomness, SessionKey};
use client::{Channel, Logon, LogonState, ProtocolError, Session};
use crypto::{Role, SessionKeys};
use dtyp::NtStatus;
use wire::Command;
use wire::negotiate::Capabilities;
use wire::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupRequest};

use super::Peer;
use crate::domain;
use crate::login::Login;
use crate::request::Request;
use crate::response::Response;

impl Peer {
    /// Logs a user on, and uses that session for further requests.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn login(&mut self, user: &str, password: &str) -> u64 {
        self.authenticate(&Login::user(user, password)).ok();
        self.session_id
    }

    /// Logs on as [`crate::accounts::ALICE`].
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn login_alice(&mut self) -> u64 {
        let (user, password) = crate::accounts::ALICE;
        self.login(user, password)
    }

    /// Logs on. Returns the last response, and uses the session if there is one.
    ///
    /// # Panics
    /// If the server's tokens are malformed.
    #[track_caller]
    pub fn authenticate(&mut self, login: &Login) -> Response {
        let response = self.try_authenticate(login);
        let others = self.receive();
        assert!(others.is_empty(), "one response: {others:?}");
        response.unwrap_or_else(|| panic!("no response: {:?}", self.closed()))
    }

    /// Logs on while other requests of the connection wait, whose responses stay to be received.
    /// Returns the last response, or `None` if a request is not answered at once.
    ///
    /// # Panics
    /// If the server's tokens are malformed.
    #[track_caller]
    pub fn try_authenticate(&mut self, login: &Login) -> Option<Response> {
        let initiator = self.initiator(login);
        let mut logon = Logon::new(initiator, self.preauth).expect("a new machine");
        login.apply(&mut logon);
        self.session_id = login.reauthenticate;
        loop {
            let request = self.request(Command::SESSION_SETUP, &logon.request()).tree(0);
            let (frame, ids) = self.lay_out([request]);
            logon.handle_sent(&frame);
            // Sealed with existing keys, if any; a reauthentication does not change them.
            let frame = if self.seals { self.seal(self.session_id, &frame) } else { frame };
            // The response to the authenticating request is signed with the new keys.
            if let Some(keys) = logon.keys(&self.negotiated) {
                self.set_keys(&keys);
            }
            self.send_frame(&frame);
            let response = self.take_response(ids[0])?;
            match logon.handle_response(&response.message) {
                Ok(LogonState::More) => self.session_id = response.header.session_id,
                Ok(done @ LogonState::Done(flags)) => {
                    self.end(&response, flags, done.is_guest(), login.keeps_keys);
                    return Some(response);
                }
                Err(ProtocolError::Refused(..)) => {
                    self.channels.remove(&self.session_id);
                    self.session_id = 0;
                    return Some(response);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends one token of Kerberos, in a new session or the one with this id. Returns the response,
    /// and uses the session if the server accepts the ticket.
    ///
    /// # Panics
    /// If the server's response is not one.
    #[track_caller]
    pub fn send_ticket(&mut self, token: &[u8], session_id: u64) -> Response {
        self.session_id = session_id;
        let request = self.session_setup(&Login::user("", ""), token);
        let (frame, _) = self.lay_out([request]);
        let mut preauth = self.logons.remove(&session_id).unwrap_or(self.preauth);
        preauth.update(&frame);
        let key = SessionKey::from_slice(&domain::KEY).expect("32 bytes");
        let keys = self.negotiated.session_keys(&key, &preauth);
        // The id of a new session is in the response, which is signed already.
        self.keys_of_new_session = Some(keys);
        let frame = if self.seals { self.seal(self.session_id, &frame) } else { frame };
        self.send_frame(&frame);
        let mut responses = self.receive();
        self.keys_of_new_session = None;
        assert_eq!(responses.len(), 1, "one response: {responses:?} {:?}", self.closed());
        let response = responses.remove(0);
        self.session_id = response.header.session_id;
        if response.status() == NtStatus::MORE_PROCESSING_REQUIRED {
            preauth.update(&response.message);
            self.logons.insert(self.session_id, preauth);
        } else if response.status().is_success() {
            self.channels.get_mut(&self.session_id).expect("it has keys").finish();
        }
        response
    }

    /// Binds the session of another connection to this one. Returns the last response. Further
    /// requests use that session and tree connect.
    #[track_caller]
    pub fn bind(&mut self, first: &Self, login: &Login) -> Response {
        self.claim_key(first);
        self.authenticate(&login.clone().flags(SessionSetupFlags::BINDING).again(first.session_id))
    }

    /// Takes over the session of another connection with its key.
    ///
    /// # Panics
    /// If that session has no key.
    pub fn claim_key(&mut self, first: &Self) {
        let channel = first.channels.get(&first.session_id).expect("a session with a key");
        let session = channel.session().clone();
        let channel = Channel::further(session, self.random.bytes());
        self.channels.insert(first.session_id, channel);
        self.session_id = first.session_id;
        self.tree_id = first.tree_id;
    }

    /// Creates the NTLM state of a logon, and its first token.
    ///
    /// # Panics
    /// Never: a new NTLM state has a first token.
    #[must_use]
    pub fn begin(&mut self, login: &Login) -> (Initiator, Vec<u8>) {
        let mut initiator = self.initiator(login);
        let token = initiator.start().expect("a new machine");
        (initiator, token)
    }

    fn initiator(&mut self, login: &Login) -> Initiator {
        let credentials = login.credentials().from_workstation("CLIENT");
        let (client_challenge, session_key) = (self.random.bytes(), self.random.bytes());
        let randomness = Randomness { client_challenge, session_key };
        Initiator::new(credentials, randomness, self.world.now().wall, login.framing)
    }

    /// Creates a SESSION_SETUP request from a token.
    #[must_use]
    pub fn session_setup(&self, login: &Login, token: &[u8]) -> Request {
        let body = SessionSetupRequest {
            flags: login.flags,
            security_mode: login.security_mode,
            capabilities: Capabilities::empty(),
            previous_session_id: login.previous_session_id,
            security_buffer: token,
        };
        self.request(Command::SESSION_SETUP, &body).tree(0)
    }

    /// Handles a success as a client: [MS-SMB2] 3.2.5.3.1.
    fn end(&mut self, response: &Response, flags: SessionFlags, is_guest: bool, keeps_keys: bool) {
        if is_guest {
            assert!(!response.is_signed(), "nobody shares a secret with a guest");
            match keeps_keys {
                true => self.channels.get_mut(&self.session_id).expect("it has keys").finish(),
                false => drop(self.channels.remove(&self.session_id)),
            }
            return;
        }
        assert!(response.is_signed() || response.sealed, "the server proves that it has the key");
        self.channels.get_mut(&self.session_id).expect("it has keys").finish();
        self.seals = flags.contains(SessionFlags::ENCRYPT_DATA);
    }

    /// Sets the keys of a new session, or of a channel that is being bound.
    pub(super) fn set_keys(&mut self, keys: &SessionKeys) {
        let session_id = self.session_id;
        match self.channels.get_mut(&session_id) {
            Some(channel) if channel.is_being_bound() => channel.set_keys(keys),
            Some(_) => {}
            None => {
                let session = Session::new(session_id, keys, Role::Client);
                let channel = Channel::first(session, self.random.bytes());
                self.channels.insert(session_id, channel);
            }
        }
    }
}
