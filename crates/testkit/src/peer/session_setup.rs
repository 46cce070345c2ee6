//! SESSION_SETUP, with NTLM on the client's side.

use auth::{Credentials, Initiator, Randomness, SessionKey};
use crypto::{KeyMaterial, NonceCounter, Role, SessionKeys};
use dtyp::NtStatus;
use wire::negotiate::Capabilities;
use wire::session_setup::{
    SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use wire::{Command, Dialect};

use super::{ClientSealing, ClientSession, Peer};
use crate::login::Login;
use crate::request::Request;
use crate::response::Response;

/// Highest number of SESSION_SETUP rounds of a logon.
const ROUNDS_MAX: usize = 6;

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
        let (mut initiator, mut token) = self.begin(login);
        self.session_id = login.reauthenticate;
        for _ in 0..ROUNDS_MAX {
            let request = self.session_setup(login, &token);
            let response = self.call(request);
            if response.status() != NtStatus::MORE_PROCESSING_REQUIRED {
                self.end(&response, &mut initiator);
                return response;
            }
            self.session_id = response.header.session_id;
            let body: SessionSetupResponse<'_> = response.body();
            let reply = initiator.step(body.security_buffer).expect("the server's token is good");
            token = reply.token;
            if let Some(session_key) = reply.session_key {
                let request = self.session_setup(login, &token);
                return self.prove(request, &session_key, &mut initiator);
            }
        }
        panic!("the logon does not end");
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
        let key = first.sessions.get(&first.session_id).and_then(|it| it.signing.clone());
        let key = key.expect("a session with a key");
        let session = ClientSession {
            preauth: self.preauth,
            signing: Some(key.clone()),
            binding: Some(key),
            sealing: None,
        };
        self.sessions.insert(first.session_id, session);
        self.session_id = first.session_id;
        self.tree_id = first.tree_id;
    }

    /// Creates the NTLM state of a logon, and its first token.
    ///
    /// # Panics
    /// Never: a new NTLM state has a first token.
    #[must_use]
    pub fn begin(&mut self, login: &Login) -> (Initiator, Vec<u8>) {
        let credentials = match &login.password {
            Some(password) => {
                Credentials::hash(&login.user, &login.domain, Self::nt_hash(password))
            }
            None => Credentials::anonymous(),
        };
        let credentials = credentials.from_workstation("CLIENT").for_target(&login.target_name);
        let (client_challenge, session_key) = (self.random.bytes(), self.random.bytes());
        let randomness = Randomness { client_challenge, session_key };
        let now = self.world.now().wall;
        let mut initiator = Initiator::new(credentials, randomness, now, login.framing);
        let token = initiator.start().expect("a new machine");
        (initiator, token)
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

    /// Sends the authenticating request. The keys are derived before the response arrives, because
    /// it is signed with them.
    #[track_caller]
    fn prove(
        &mut self,
        request: Request,
        session_key: &SessionKey,
        initiator: &mut Initiator,
    ) -> Response {
        let session_id = self.session_id;
        let sealed = self.seals;
        let (frame, _) = self.lay_out([request]);
        let is_new = |it: &ClientSession| it.signing.is_none() || it.binding.is_some();
        let is_new = self.sessions.get(&session_id).is_some_and(is_new);
        // Sealed with existing keys, if any; a reauthentication does not change them.
        let frame = if sealed { self.seal(session_id, &frame) } else { frame };
        if is_new {
            self.give_keys(session_id, session_key);
        }
        self.send_frame(&frame);
        let mut responses = self.receive();
        assert_eq!(responses.len(), 1, "one response: {responses:?} {:?}", self.closed());
        let response = responses.remove(0);
        self.end(&response, initiator);
        response
    }

    /// Handles the last response as a client: [MS-SMB2] 3.2.5.3.1.
    fn end(&mut self, response: &Response, initiator: &mut Initiator) {
        let session_id = self.session_id;
        if !response.status().is_success() {
            self.sessions.remove(&session_id);
            self.session_id = 0;
            return;
        }
        let body: SessionSetupResponse<'_> = response.body();
        let guest = SessionFlags::IS_GUEST | SessionFlags::IS_NULL;
        let session = self.sessions.get_mut(&session_id).expect("it was set up");
        session.binding = None;
        if body.session_flags.intersects(guest) {
            assert!(!response.is_signed(), "nobody shares a key with a guest");
            session.signing = None;
            session.sealing = None;
            return;
        }
        assert!(response.is_signed() || response.sealed, "the server proves that it has the key");
        initiator.finish(body.security_buffer).expect("the server's last token is good");
        self.seals = body.session_flags.contains(SessionFlags::ENCRYPT_DATA);
    }

    fn give_keys(&mut self, session_id: u64, session_key: &SessionKey) {
        let session: &mut ClientSession = self.sessions.entry(session_id).or_default();
        let is_3_1_1 = self.dialect == Dialect::SMB_3_1_1;
        let keys = SessionKeys::derive(KeyMaterial {
            dialect: self.dialect.0,
            session_key: session_key.as_bytes(),
            full_session_key: session_key.as_bytes(),
            preauth_hash: is_3_1_1.then_some(&session.preauth),
            cipher: self.cipher,
            signing_algorithm: self.signing_algorithm,
        });
        session.signing = Some(keys.signing_key());
        if session.binding.is_some() {
            return; // The keys for sealing are those of the first channel.
        }
        let sealing = (keys.encryption_key(Role::Client), keys.decryption_key(Role::Client));
        if let (Some(seal), Some(open)) = sealing {
            let nonces = NonceCounter::new(self.random.bytes());
            session.sealing = Some(ClientSealing { seal, open, nonces });
        }
    }
}
