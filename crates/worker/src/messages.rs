//! Messages from and to the other processes of the server.

use std::time::{Duration, Instant};

use arbitration::FileKey;
use dtyp::ServerId;
use messaging::{
    Changes, ClosePreviousSession, CloseSession, CloseShare, Content, FileChanged, Message,
    MessageKind, Messaging, PreviousSessionClosed,
};
use process::administration;
use proto::RequestId;
use tables::Registry;
use tracing::debug;

/// Time for another worker to close a session. After it the new session goes on: a worker without
/// an answer is stuck or dead, and the supervisor handles that.
const CLOSE_SESSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests that wait for other workers.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    sessions: Vec<(u64, RequestId, Instant)>,
    /// Requests that wait for nobody, but a time: no more than are in flight.
    asleep: Vec<(RequestId, Instant)>,
}

/// Request of a message to this worker.
#[derive(Debug)]
pub(super) enum MessageRequest {
    /// Tell an administrator which channels the client has.
    ListChannels { sender: ServerId },
    /// Close a session if it is this user's, and report that to its successor.
    CloseSession { session_id: u64, user: String, sender: ServerId },
    /// Close a session, at an administrator's request.
    EndSession(u64),
    /// Disconnect everybody from a share, and report that to the administrator.
    CloseShare { share: String, sender: ServerId },
    /// Other workers have changed a record.
    Changed(Changes),
    /// Look at a file's record.
    LookAtFile(FileKey),
    /// See whose turn it is at the storage.
    TakeTurn,
    /// This request may go on.
    GoOn(RequestId),
    /// Stop after the current requests.
    Shutdown,
    /// Read the configuration in effect again.
    Reload,
    /// Nothing is left to do.
    Nothing,
}

/// Has another worker check a file. A dead worker has nothing to check.
pub fn notify_file_changed(messaging: &mut Messaging, to: ServerId, file: FileKey) {
    let data = FileChanged { device: file.device, inode: file.inode }.encode();
    let content = Content::new(MessageKind::FILE_CHANGED, &data);
    if let Err(error) = messaging.send(Instant::now(), to, &content) {
        debug!("cannot send a change to {to:?}: {error}");
    }
}

/// Tells another worker that it may be its turn at the storage. A worker that has ended waits for
/// nothing, and one that cannot be reached checks by itself.
pub(super) fn notify_turn(messaging: &mut Messaging, to: ServerId) {
    if let Err(error) = messaging.send(Instant::now(), to, &Content::new(MessageKind::TURN, &[])) {
        debug!("cannot send a turn to {to:?}: {error}");
    }
}

impl Waiting {
    /// Asks the worker that has the session to close it. `None` if a message is under way, and the
    /// request has to wait; otherwise it can go on at once.
    pub(super) fn close_previous_session(
        &mut self,
        registry: &Registry,
        messaging: &mut Messaging,
        session_id: u64,
        user: &str,
        request: RequestId,
    ) -> Option<RequestId> {
        let Ok(Some(record)) = registry.find_session(session_id) else { return Some(request) };
        let now = Instant::now();
        let data = ClosePreviousSession { session_id, user: user.to_owned() }.encode();
        let content = Content::new(MessageKind::CLOSE_PREVIOUS_SESSION, &data);
        if let Err(error) = messaging.send(now, record.server_id, &content) {
            debug!("session {session_id:#x} has lost its worker: {error}");
            return Some(request);
        }
        self.sessions.push((session_id, request, now + CLOSE_SESSION_TIMEOUT));
        None
    }

    /// Interprets a message of another process.
    pub(super) fn read(&mut self, messaging: &mut Messaging, message: &Message) -> MessageRequest {
        match message.kind {
            MessageKind::CLOSE_SHARE => match CloseShare::decode(&message.data) {
                Some(CloseShare { share }) => {
                    MessageRequest::CloseShare { share, sender: message.sender }
                }
                None => {
                    let outcome = administration::unreadable();
                    administration::report_done(messaging, message.sender, message.kind, outcome);
                    MessageRequest::Nothing
                }
            },
            MessageKind::CLOSE_SESSION => match CloseSession::decode(&message.data) {
                Some(CloseSession { session_id }) => MessageRequest::EndSession(session_id),
                None => MessageRequest::Nothing,
            },
            MessageKind::LIST_CHANNELS => MessageRequest::ListChannels { sender: message.sender },
            MessageKind::CLOSE_PREVIOUS_SESSION => {
                match ClosePreviousSession::decode(&message.data) {
                    Some(ClosePreviousSession { session_id, user }) => {
                        MessageRequest::CloseSession { session_id, user, sender: message.sender }
                    }
                    None => MessageRequest::Nothing,
                }
            }
            MessageKind::PREVIOUS_SESSION_CLOSED => {
                let closed = PreviousSessionClosed::decode(&message.data);
                closed
                    .and_then(|it| self.take(it.session_id))
                    .map_or(MessageRequest::Nothing, MessageRequest::GoOn)
            }
            MessageKind::NOTIFY => match Changes::decode(&message.data) {
                Some(changes) => MessageRequest::Changed(changes),
                None => MessageRequest::Nothing,
            },
            MessageKind::FILE_CHANGED => match FileChanged::decode(&message.data) {
                Some(FileChanged { device, inode }) => {
                    MessageRequest::LookAtFile(FileKey { device, inode })
                }
                None => MessageRequest::Nothing,
            },
            MessageKind::TURN => MessageRequest::TakeTurn,
            MessageKind::SHUTDOWN => MessageRequest::Shutdown,
            MessageKind::RELOAD_CONFIG => MessageRequest::Reload,
            _ => {
                administration::read(messaging, message);
                MessageRequest::Nothing
            }
        }
    }

    /// Tells the successor of a session that it is closed.
    pub(super) fn report_closed(messaging: &mut Messaging, to: ServerId, session_id: u64) {
        let data = PreviousSessionClosed { session_id }.encode();
        let content = Content::new(MessageKind::PREVIOUS_SESSION_CLOSED, &data);
        if let Err(error) = messaging.send(Instant::now(), to, &content) {
            debug!("cannot answer the successor of session {session_id:#x}: {error}");
        }
    }

    /// A request that waited long enough.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<RequestId> {
        let late = self.sessions.iter().position(|(_, _, at)| *at <= now)?;
        Some(self.sessions.swap_remove(late).1)
    }

    /// Keeps a request until then.
    pub(super) fn sleep(&mut self, request: RequestId, until: Instant) {
        self.asleep.push((request, until));
    }

    /// A request that has slept long enough.
    pub(super) fn take_woken(&mut self, now: Instant) -> Option<RequestId> {
        let awake = self.asleep.iter().position(|(_, at)| *at <= now)?;
        Some(self.asleep.swap_remove(awake).0)
    }

    /// Time of the next result of [`Waiting::take_late`] or [`Waiting::take_woken`].
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let sessions = self.sessions.iter().map(|(_, _, at)| *at);
        sessions.chain(self.asleep.iter().map(|(_, at)| *at)).min()
    }

    fn take(&mut self, session_id: u64) -> Option<RequestId> {
        let found = self.sessions.iter().position(|(id, _, _)| *id == session_id)?;
        Some(self.sessions.swap_remove(found).1)
    }
}
