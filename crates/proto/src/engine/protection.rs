//! Cryptography of large frames, apart from all state.
//!
//! To seal a megabyte takes as long as to serve a hundred small requests, and needs a key and the
//! bytes, nothing else. So the engine only says what is due: whoever moves the bytes of a connection
//! does it, on whatever thread that is. Small frames are done at once.

use std::ops::Range;
use std::sync::Arc;

use crypto::{BadSignature, Nonce, OpenError, SigningKey, TransformKey};
use wire::{Command, Header};

use crate::model::connection::ConnectionId;
use crate::model::session::Session;

/// Bytes of a frame from which on its protection is left to whoever sends it. Below it a frame is
/// done sooner than handed on.
pub(crate) const DEFERRED_LEN_MIN: usize = 16 * 1024;

/// What has to be done to a frame before it leaves.
#[derive(Debug)]
pub enum Protection {
    /// [MS-SMB2] 3.1.4.3 Encrypting the Message.
    Seal {
        /// The session's key.
        key: Arc<TransformKey>,
        /// Given to this frame and no other.
        nonce: Nonce,
        /// Whose key it is.
        session_id: u64,
    },
    /// [MS-SMB2] 3.1.4.1 Signing an Outgoing Message: which bytes of the frame, with which key.
    Sign(Vec<(Range<usize>, Arc<SigningKey>)>),
}

impl Protection {
    /// Does it, in place. `frame` begins with the transport's length.
    pub fn apply(self, frame: &mut [u8]) {
        match self {
            Self::Seal { key, nonce, session_id } => {
                key.seal(nonce, session_id, &mut frame[wire::frame::SIZE..]);
            }
            Self::Sign(messages) => {
                messages.into_iter().for_each(|(at, key)| key.sign(&mut frame[at]));
            }
        }
    }
}

/// What opens the frames that come in over a connection, on whatever thread that is: the keys of its
/// sessions. It holds for frames whose session is there when it is made; the engine judges by the
/// keys it has when it is given the frame.
#[derive(Debug, Default)]
pub struct Opener(Vec<SessionKeys>);

#[derive(Debug)]
struct SessionKeys {
    session_id: u64,
    unseal: Option<Arc<TransformKey>>,
    verify: Option<Arc<SigningKey>>,
}

/// How a frame is opened: see [`Opener::opening`].
#[derive(Debug)]
pub enum Opening {
    /// [MS-SMB2] 3.3.5.2.1.1 Decrypting the Message.
    Unseal(Arc<TransformKey>),
    /// [MS-SMB2] 3.3.5.2.4 Verifying the Signature, of a frame that is one message.
    Verify(Arc<SigningKey>),
}

/// Result of an [`Opening`], for
/// [`Server::handle_frame_with`](crate::Server::handle_frame_with).
#[derive(Debug)]
pub struct Opened(pub(crate) Finding);

#[derive(Debug)]
pub(crate) enum Finding {
    Unsealed(Unsealed),
    Verified(Verified),
}

/// A key, and whether the frame was sealed with it; if so, it is plaintext now.
pub(crate) type Unsealed = (Arc<TransformKey>, Result<(), OpenError>);

/// A key, and whether the frame is signed with it.
pub(crate) type Verified = (Arc<SigningKey>, Result<(), BadSignature>);

impl Opening {
    /// Opens the frame in place, without the transport's length. It need not be authentic: that is
    /// what the engine is told.
    #[must_use]
    pub fn open(self, frame: &mut [u8]) -> Opened {
        Opened(match self {
            Self::Unseal(key) => {
                let result = key.open(frame).map(|_| ());
                Finding::Unsealed((key, result))
            }
            Self::Verify(key) => {
                let result = key.verify(frame);
                Finding::Verified((key, result))
            }
        })
    }
}

impl Opener {
    /// Takes the keys of those sessions that are bound to a connection.
    pub(crate) fn new<'s>(
        connection: ConnectionId,
        sessions: impl Iterator<Item = &'s Session>,
    ) -> Self {
        let bound = sessions.filter(|it| it.channel(connection).is_some());
        let keys = bound.map(|session| SessionKeys {
            session_id: session.session_id,
            unseal: session.sealing.as_ref().map(|it| Arc::clone(&it.open)),
            verify: session.signing_key(connection).map(Arc::clone),
        });
        Self(keys.collect())
    }

    /// Whether a frame is signed or sealed in a way that it can open.
    #[must_use]
    pub fn can_open(&self, frame: &[u8]) -> bool {
        self.opening(frame).is_some()
    }

    /// How to open a frame that begins like this. Nothing where it need not be opened, or where only
    /// [`Server::handle_frame`](crate::Server::handle_frame) can tell how.
    #[must_use]
    pub fn opening(&self, head: &[u8]) -> Option<Opening> {
        let keys_of = |session_id| self.0.iter().find(|keys| keys.session_id == session_id);
        if let Some(session_id) = TransformKey::session_id(head) {
            return Some(Opening::Unseal(Arc::clone(keys_of(session_id)?.unseal.as_ref()?)));
        }
        let header = Header::decode(head).ok()?;
        // The others of a compound may be signed with other keys; and a SESSION_SETUP may be signed
        // with one that is yet to be agreed on.
        let is_alone = header.next_command == 0 && header.command != Command::SESSION_SETUP;
        let keys = keys_of(header.session_id).filter(|_| is_alone && header.is_signed())?;
        Some(Opening::Verify(Arc::clone(keys.verify.as_ref()?)))
    }
}
