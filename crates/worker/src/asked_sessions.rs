//! Sessions of other workers. A client that wants to bind a connection to one of them is refused,
//! and must be able to verify that the refusal is the server's: it is signed with that session's
//! key. The worker that has the session verifies the client's signature first, so that strangers
//! have no key brought into their process, unless they repeat a message that they have recorded.

pub(super) mod pending;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crypto::{Cipher, SigningAlgorithm, SigningKey};
use dtyp::ServerId;
use messaging::{Content, FindSession, FoundSession, Message, MessageKind, SessionFound};
use mistake::{Mistake, is_made};
use proto::effect::{LentSession, SessionElsewhere};
use proto::{Reply, RequestId};
use tracing::debug;
use wire::Dialect;
use zeroize::{Zeroize, Zeroizing};

use super::event_loop::Worker;
use pending::SessionQuestion;

/// Time for another worker to answer. After it the session counts as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

impl Worker {
    /// Asks the owner of a session whether its key has signed a request. Without another worker
    /// that has the session, the request is answered at once.
    pub(super) fn ask_for_session(&mut self, session_id: u64, message: &[u8], request: RequestId) {
        self.store.revert_to_server();
        let found = self.registry.find_session(session_id).ok().flatten();
        // The table may still have a session of this worker that has just ended.
        let other = found.map(|it| it.server_id).filter(|it| *it != self.registry.server_id());
        let Some(of) = other else {
            return self.answer(Some(request), Reply::Session(SessionElsewhere::Nowhere));
        };
        let now = Instant::now();
        let id = self.asked_sessions.next_id();
        let message = message.to_vec();
        let data = FindSession { question_id: id, session_id, message }.encode();
        match self.messaging.send(now, of, &Content::new(MessageKind::FIND_SESSION, &data)) {
            Ok(()) => {
                let until = now + ANSWER_TIMEOUT;
                self.asked_sessions.questions.push(SessionQuestion { id, of, request, until });
            }
            Err(error) => {
                debug!("session {session_id:#x} has lost its worker: {error}");
                self.answer(Some(request), Reply::Session(SessionElsewhere::Nowhere));
            }
        }
    }

    /// Reads a message about sessions; gives others back.
    pub(super) fn read_about_sessions(&mut self, mut message: Message) -> Option<Message> {
        match message.kind {
            MessageKind::FIND_SESSION => {
                if let Some(question) = FindSession::decode(&message.data) {
                    self.lend_session(message.sender, &question);
                }
            }
            MessageKind::SESSION_FOUND => {
                let found = SessionFound::decode(&message.data);
                message.data.zeroize();
                if let Some(SessionFound { question_id, session }) = found {
                    self.take_lent_session(message.sender, question_id, session);
                }
            }
            _ => return Some(message),
        }
        None
    }

    fn lend_session(&mut self, to: ServerId, question: &FindSession) {
        let answer = answer_to(question, self.server.lend_session(question.session_id));
        let data = Zeroizing::new(answer.encode());
        let content = Content::new(MessageKind::SESSION_FOUND, &data);
        if let Err(error) = self.messaging.send(Instant::now(), to, &content) {
            debug!("cannot send a session to worker {}: {error}", to.pid);
        }
    }

    fn take_lent_session(&mut self, of: ServerId, question_id: u64, found: Option<FoundSession>) {
        let waits = |it: &SessionQuestion| it.id == question_id && it.of == of;
        let Some(index) = self.asked_sessions.questions.iter().position(waits) else { return };
        let asked = self.asked_sessions.questions.swap_remove(index);
        let lent = found.and_then(lent_session).map(Box::new);
        let answer = lent.map_or(SessionElsewhere::Unproven, SessionElsewhere::Proven);
        self.answer(Some(asked.request), Reply::Session(answer));
    }

    /// Answers requests whose other worker gave no answer in time: see
    /// `AskedSessions::next_timeout`.
    pub(super) fn serve_asked_session_timeouts(&mut self, now: Instant) {
        let is_late = |it: &SessionQuestion| it.until <= now;
        while let Some(index) = self.asked_sessions.questions.iter().position(is_late) {
            let asked = self.asked_sessions.questions.swap_remove(index);
            self.answer(Some(asked.request), Reply::Session(SessionElsewhere::Nowhere));
            self.serve_effects();
        }
    }
}

/// Answers another worker's question about a session of this one: with the key only if that has
/// signed the message.
fn answer_to(question: &FindSession, session: Option<LentSession>) -> SessionFound {
    let session =
        session.filter(|it| it.has_signed(&question.message) || is_made(Mistake::SessionsLent));
    let session = session.map(|session| FoundSession {
        dialect: session.dialect.0,
        cipher: session.cipher.map_or(0, Cipher::id),
        signing_algorithm: session.signing_key.algorithm().id(),
        signing_key: Zeroizing::new(*session.signing_key.expose()),
    });
    SessionFound { question_id: question.question_id, session }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_lent_only_for_a_message_that_it_has_signed() {
        let key = |byte| SigningKey::new(SigningAlgorithm::AesCmac, &[byte; 16]);
        let session = LentSession {
            dialect: Dialect::SMB_3_1_1,
            cipher: None,
            signing_key: Arc::new(key(1)),
        };
        let answer = |message: Vec<u8>| {
            let question = FindSession { question_id: 3, session_id: 4, message };
            let answer = answer_to(&question, Some(session.clone()));
            assert_eq!(answer.question_id, 3);
            answer.session
        };
        let signed_with = |byte| {
            let mut message = vec![0; 100];
            key(byte).sign(&mut message);
            message
        };
        let found = answer(signed_with(1)).expect("its client has signed it");
        assert_eq!(*found.signing_key, [1; 16]);
        assert!(lent_session(found).is_some_and(|lent| lent.has_signed(&signed_with(1))));
        let mut changed = signed_with(1);
        changed[90] ^= 1;
        for message in [signed_with(2), changed, vec![0; 100], vec![0; 10], Vec::new()] {
            assert_eq!(answer(message), None, "a stranger's");
        }
    }
}
