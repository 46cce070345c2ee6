//! Cryptography of large frames, apart from all state.
//!
//! Encrypting a megabyte takes as long as serving a hundred small requests, and needs only a key
//! and the bytes. So the engine only returns the task, and the owner of the connection's bytes
//! performs it on any thread. Small frames are handled at once.

use std::ops::Range;
use std::sync::Arc;

use crypto::{BadSignature, Nonce, OpenError, SigningKey, TransformKey};
use model::connection::ConnectionId;
use model::session::Session;
use wire::{Command, Header};

/// Length of the smallest frame whose protection is left to its sender, in bytes. Smaller frames
/// take less time than handing them over.
pub(crate) const DEFERRED_LEN_MIN: usize = 16 * 1024;

/// Task on a frame before it is sent.
#[derive(Debug)]
pub enum Protection {
    /// [MS-SMB2] 3.1.4.3 Encrypting the Message.
    Seal {
        /// Encryption key of the session.
        key: Arc<TransformKey>,
        /// Nonce of this frame and no other.
        nonce: Nonce,
        /// Id of the session with this key.
        session_id: u64,
    },
    /// [MS-SMB2] 3.1.4.1 Signing an Outgoing Message: ranges of the frame, each with its key.
    Sign(Vec<(Range<usize>, Arc<SigningKey>)>),
}

impl Protection {
    /// Performs the task in place. `frame` begins with the transport's length.
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

/// Keys of a connection's sessions, to decrypt and verify its frames on any thread. They hold for
/// frames of sessions that exist when it is made; the engine checks against its own keys when it
/// gets the frame.
#[derive(Debug, Default)]
pub struct FrameKeys(Vec<SessionKeys>);

#[derive(Debug)]
struct SessionKeys {
    session_id: u64,
    unseal: Option<Arc<TransformKey>>,
    verify: Option<Arc<SigningKey>>,
}

/// Check of a received frame, which needs no engine: see [`FrameKeys::check_of`].
#[derive(Debug)]
pub enum FrameCheck {
    /// [MS-SMB2] 3.3.5.2.1.1 Decrypting the Message.
    Unseal(Arc<TransformKey>),
    /// [MS-SMB2] 3.3.5.2.4 Verifying the Signature, of a frame that is one message.
    Verify(Arc<SigningKey>),
}

/// Result of a [`FrameCheck`], for
/// [`Server::handle_frame_with`](crate::Server::handle_frame_with).
#[derive(Debug)]
pub struct CheckedFrame(pub(crate) Finding);

impl CheckedFrame {
    /// The result for a frame that is not encrypted.
    pub(crate) fn verified(self) -> Option<Verified> {
        if let Finding::Verified(it) = self.0 { Some(it) } else { None }
    }
}

#[derive(Debug)]
pub(crate) enum Finding {
    Unsealed(Unsealed),
    Verified(Verified),
}

/// A key, and whether it decrypted the frame, which is plaintext then.
pub(crate) type Unsealed = (Arc<TransformKey>, Result<(), OpenError>);

/// A key, and whether it verified the frame's signature.
pub(crate) type Verified = (Arc<SigningKey>, Result<(), BadSignature>);

impl FrameCheck {
    /// Decrypts or verifies the frame in place, without the transport's length. The engine gets the
    /// result, even a negative one.
    #[must_use]
    pub fn run(self, frame: &mut [u8]) -> CheckedFrame {
        CheckedFrame(match self {
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

impl FrameKeys {
    /// Takes the keys of the sessions that are bound to a connection.
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

    /// Returns whether this can decrypt or verify a frame.
    #[must_use]
    pub fn can_check(&self, frame: &[u8]) -> bool {
        self.check_of(frame).is_some()
    }

    /// Returns the check of a frame with this beginning. `None` if the frame is plain, or if only
    /// [`Server::handle_frame`](crate::Server::handle_frame) finds the key.
    #[must_use]
    pub fn check_of(&self, head: &[u8]) -> Option<FrameCheck> {
        let keys_of = |session_id| self.0.iter().find(|keys| keys.session_id == session_id);
        if let Some(session_id) = TransformKey::session_id(head) {
            return Some(FrameCheck::Unseal(Arc::clone(keys_of(session_id)?.unseal.as_ref()?)));
        }
        let header = Header::decode(head).ok()?;
        // The other requests of a compound may be signed with other keys; and a SESSION_SETUP may
        // be signed with a key that does not exist yet.
        let is_alone = header.next_command == 0 && header.command != Command::SESSION_SETUP;
        let keys = keys_of(header.session_id).filter(|_| is_alone && header.is_signed())?;
        Some(FrameCheck::Verify(Arc::clone(keys.verify.as_ref()?)))
    }
}
