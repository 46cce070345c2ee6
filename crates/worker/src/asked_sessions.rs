//! Sessions of other workers. A client that wants to bind a connection to one of them is refused,
//! and must be able to verify that the refusal is the server's: it is signed with that session's
//! key.

pub(super) mod pending;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crypto::{Cipher, SigningAlgorithm, SigningKey};
use dtyp::ServerId;
use messaging::{Content, FindSession, FoundSession, Message, MessageKind, SessionFound};
use proto::effect::LentSession;
use proto::{Reply, RequestId};
use tracing::debug;
use wire::Dialect;
use zeroize::{Zeroize, Zeroizing};

use super::event_loop::Worker;
use pending::SessionQuestion;

/// Time for another worker to answer. After it the session counts as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

impl Worker {
    /// Asks the owner of a session for its key. Without another worker that has the session, the
    /// request is answered at once.
    pub(super) fn ask_for_session(&mut self, session_id: u64, request: RequestId) {
        self.store.revert_to_server();
        let found = self.registry.find_session(session_id).ok().flatten();
        // The table may still have a session of this worker that has just ended.
        let other = found.map(|it| it.server_id).filter(|it| *it != self.registry.server_id());
        let now = Instant::now();
        let data = FindSession { session_id }.encode();
        let content = Content::new(MessageKind::FIND_SESSION, &data);
        match other.map(|of| (of, self.messaging.send(now, of, &content))) {
            Some((of, Ok(()))) => {
                let until = now + ANSWER_TIMEOUT;
                self.asked_sessions.0.push(SessionQuestion { session_id, of, request, until });
            }
            Some((_, Err(error))) => {
                debug!("session {session_id:#x} has lost its worker: {error}");
                self.answer(Some(request), Reply::Session(None));
            }
            None => self.answer(Some(request), Reply::Session(None)),
        }
    }

    /// Reads a message about sessions; gives others back.
    pub(super) fn read_about_sessions(&mut self, mut message: Message) -> Option<Message> {
        match message.kind {
            MessageKind::FIND_SESSION => {
                if let Some(FindSession { session_id }) = FindSession::decode(&message.data) {
                    self.lend_session(message.sender, session_id);
                }
            }
            MessageKind::SESSION_FOUND => {
                let found = SessionFound::decode(&message.data);
                message.data.zeroize();
                if let Some(SessionFound { session_id, session }) = found {
                    self.take_lent_session(message.sender, session_id, session);
                }
            }
            _ => return Some(message),
        }
        None
    }

    fn lend_session(&mut self, to: ServerId, session_id: u64) {
        let session = self.server.lend_session(session_id).map(|session| FoundSession {
            dialect: session.dialect.0,
            cipher: session.cipher.map_or(0, Cipher::id),
            signing_algorithm: session.signing_key.algorithm().id(),
            signing_key: Zeroizing::new(*session.signing_key.expose()),
        });
        let data = Zeroizing::new(SessionFound { session_id, session }.encode());
        let content = Content::new(MessageKind::SESSION_FOUND, &data);
        if let Err(error) = self.messaging.send(Instant::now(), to, &content) {
            debug!("cannot send a session to worker {}: {error}", to.pid);
        }
    }

    fn take_lent_session(&mut self, of: ServerId, session_id: u64, found: Option<FoundSession>) {
        let waits = |it: &SessionQuestion| it.session_id == session_id && it.of == of;
        let lent = found.and_then(lent_session);
        while let Some(index) = self.asked_sessions.0.iter().position(waits) {
            let asked = self.asked_sessions.0.swap_remove(index);
            self.answer(Some(asked.request), Reply::Session(lent.clone().map(Box::new)));
        }
    }

    /// Answers requests whose other worker gave no answer in time: see
    /// `AskedSessions::next_timeout`.
    pub(super) fn serve_asked_session_timeouts(&mut self, now: Instant) {
        while let Some(index) = self.asked_sessions.0.iter().position(|it| it.until <= now) {
            let asked = self.asked_sessions.0.swap_remove(index);
            self.answer(Some(asked.request), Reply::Session(None));
            self.serve_effects();
        }
    }
}

/// Converts the other worker's answer, if this one knows the algorithms.
fn lent_session(found: FoundSession) -> Option<LentSession> {
    let algorithm = SigningAlgorithm::from_id(found.signing_algorithm)?;
    let cipher = match found.cipher {
        0 => None,
        id => Some(Cipher::from_id(id)?),
    };
    let signing_key = Arc::new(SigningKey::new(algorithm, &found.signing_key));
    Some(LentSession { dialect: Dialect(found.dialect), cipher, signing_key })
}
