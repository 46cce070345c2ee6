//! What workers say to each other about connections and sessions: a client's connections are all
//! served by one worker, and its sessions are known to that one alone.
//!
//! A connection changes hands in three messages, so that at every moment one process and no more
//! may speak on it:
//!
//! ```text
//! sender                         receiver
//!   │ OFFER_CONNECTION, socket ──>│  keeps the socket, does nothing with it
//!   │<────────────── ANSWER_OFFER │
//!   │ SETTLE_OFFER ──────────────>│  yours: it is served from now on; not yours: it is dropped
//! ```
//!
//! The sender settles it once: with "yours", and then it has forgotten the connection; or with "not
//! yours", because the answer did not come in time, and then it serves the connection itself.

use dtyp::Guid;
use zeroize::Zeroizing;

/// The data of [`crate::MessageKind::OFFER_CONNECTION`]. The socket goes with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OfferConnection {
    /// Tells the offers of one sender apart.
    pub offer_id: u64,
    /// Whose connection it is.
    pub client_guid: Guid,
    /// An SMB1 NEGOTIATE came before the other one.
    pub after_smb1: bool,
    /// The NEGOTIATE that was received and not answered.
    pub negotiate: Vec<u8>,
}

/// The data of [`crate::MessageKind::ANSWER_OFFER`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AnswerOffer {
    /// The offer.
    pub offer_id: u64,
    /// The connection would be served here.
    pub accepted: bool,
}

/// The data of [`crate::MessageKind::SETTLE_OFFER`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SettleOffer {
    /// The offer.
    pub offer_id: u64,
    /// The connection is the receiver's.
    pub yours: bool,
}

/// The data of [`crate::MessageKind::FIND_SESSION`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FindSession {
    /// Which.
    pub session_id: u64,
}

/// The data of [`crate::MessageKind::SESSION_FOUND`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionFound {
    /// Which.
    pub session_id: u64,
    /// The session, if there is one that has a key.
    pub session: Option<FoundSession>,
}

/// A session of another worker, as far as its client must be told why no connection to this one can
/// be bound to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundSession {
    /// The dialect of its connection.
    pub dialect: u16,
    /// The cipher of its connection: [MS-SMB2] 2.2.3.1.2; zero for none.
    pub cipher: u16,
    /// The signing algorithm of its connection: [MS-SMB2] 2.2.3.1.7.
    pub signing_algorithm: u16,
    /// Session.SigningKey. A message is as safe as memory: only processes of this server's user
    /// can read its socket.
    pub signing_key: Zeroizing<[u8; 16]>,
}

/// Bytes of a NEGOTIATE. No client is known to send more than a few hundred.
pub const NEGOTIATE_BYTES_MAX: usize = 128 * 1024;

impl OfferConnection {
    /// The data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.offer_id.to_le_bytes().to_vec();
        data.extend_from_slice(&self.client_guid.0);
        data.push(self.after_smb1.into());
        data.extend_from_slice(&self.negotiate);
        data
    }

    /// Reads the data; `None` if it is not whole.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (offer_id, rest) = data.split_first_chunk()?;
        let (client_guid, rest) = rest.split_first_chunk()?;
        let (after_smb1, negotiate) = rest.split_first()?;
        (negotiate.len() <= NEGOTIATE_BYTES_MAX).then_some(())?;
        Some(Self {
            offer_id: u64::from_le_bytes(*offer_id),
            client_guid: Guid(*client_guid),
            after_smb1: flag(*after_smb1)?,
            negotiate: negotiate.to_vec(),
        })
    }
}

impl AnswerOffer {
    /// The data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        id_and_flag(self.offer_id, self.accepted)
    }

    /// Reads the data; `None` if it is not whole.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        decode_id_and_flag(data).map(|(offer_id, accepted)| Self { offer_id, accepted })
    }
}

impl SettleOffer {
    /// The data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        id_and_flag(self.offer_id, self.yours)
    }

    /// Reads the data; `None` if it is not whole.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        decode_id_and_flag(data).map(|(offer_id, yours)| Self { offer_id, yours })
    }
}

impl FindSession {
    /// The data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.session_id.to_le_bytes().to_vec()
    }

    /// Reads the data; `None` if it is not whole.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        Some(Self { session_id: u64::from_le_bytes(data.try_into().ok()?) })
    }
}

impl SessionFound {
    /// The data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.session_id.to_le_bytes().to_vec();
        if let Some(session) = &self.session {
            for value in [session.dialect, session.cipher, session.signing_algorithm] {
                data.extend_from_slice(&value.to_le_bytes());
            }
            data.extend_from_slice(&*session.signing_key);
        }
        data
    }

    /// Reads the data; `None` if it is not whole.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (session_id, rest) = data.split_first_chunk()?;
        let session_id = u64::from_le_bytes(*session_id);
        if rest.is_empty() {
            return Some(Self { session_id, session: None });
        }
        let (&[d0, d1, c0, c1, s0, s1], key) = rest.split_first_chunk()?;
        let session = FoundSession {
            dialect: u16::from_le_bytes([d0, d1]),
            cipher: u16::from_le_bytes([c0, c1]),
            signing_algorithm: u16::from_le_bytes([s0, s1]),
            signing_key: Zeroizing::new(key.try_into().ok()?),
        };
        Some(Self { session_id, session: Some(session) })
    }
}

fn id_and_flag(id: u64, set: bool) -> Vec<u8> {
    let mut data = id.to_le_bytes().to_vec();
    data.push(set.into());
    data
}

fn decode_id_and_flag(data: &[u8]) -> Option<(u64, bool)> {
    let (id, rest) = data.split_first_chunk()?;
    match rest {
        [value] => Some((u64::from_le_bytes(*id), flag(*value)?)),
        _ => None,
    }
}

fn flag(value: u8) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_round_trip_and_no_prefix_of_their_head_is_one() {
        let offer = OfferConnection {
            offer_id: 7,
            client_guid: Guid([9; 16]),
            after_smb1: true,
            negotiate: b"negotiate".to_vec(),
        };
        let data = offer.encode();
        assert_eq!(OfferConnection::decode(&data), Some(offer));
        for len in 0..25 {
            assert_eq!(OfferConnection::decode(&data[..len]), None);
        }
        let mut long = data;
        long.resize(25 + NEGOTIATE_BYTES_MAX + 1, 0);
        assert_eq!(OfferConnection::decode(&long), None);
    }

    #[test]
    fn answers_are_nine_bytes_of_which_the_last_is_a_flag() {
        for set in [false, true] {
            let answer = AnswerOffer { offer_id: 7, accepted: set };
            assert_eq!(AnswerOffer::decode(&answer.encode()), Some(answer));
            let settled = SettleOffer { offer_id: 7, yours: set };
            assert_eq!(SettleOffer::decode(&settled.encode()), Some(settled));
        }
        for data in [&[0; 8][..], &[0; 10], &[0, 0, 0, 0, 0, 0, 0, 0, 2]] {
            assert_eq!(AnswerOffer::decode(data), None);
            assert_eq!(SettleOffer::decode(data), None);
        }
    }

    #[test]
    fn sessions_round_trip_and_every_other_length_is_refused() {
        let session = FoundSession {
            dialect: 0x0311,
            cipher: 2,
            signing_algorithm: 1,
            signing_key: Zeroizing::new([5; 16]),
        };
        let found = SessionFound { session_id: 7, session: Some(session) };
        let data = found.encode();
        assert_eq!(SessionFound::decode(&data), Some(found));
        for len in (0..data.len()).filter(|len| *len != 8) {
            assert_eq!(SessionFound::decode(&data[..len]), None);
        }
        let nothing = SessionFound { session_id: 7, session: None };
        assert_eq!(SessionFound::decode(&nothing.encode()), Some(nothing));
        let wanted = FindSession { session_id: 7 };
        assert_eq!(FindSession::decode(&wanted.encode()), Some(wanted));
        assert_eq!(FindSession::decode(&[0; 9]), None);
    }
}
