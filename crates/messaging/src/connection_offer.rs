//! Messages between workers about connections and sessions. One worker serves all connections of a
//! client, and only it knows the client's sessions.
//!
//! A connection is handed over in three messages, so that exactly one process may use it at any
//! moment:
//!
//! ```text
//! sender                         receiver
//!   │ OFFER_CONNECTION, socket ──>│  keeps the socket, does nothing with it
//!   │<────────────── ANSWER_OFFER │
//!   │ SETTLE_OFFER ──────────────>│  yours: it serves it from now on; not yours: it drops it
//! ```
//!
//! The sender settles an offer once: "yours" after it has removed the connection from its own
//! state, or "not yours" if no answer came in time; then it serves the connection itself.

use dtyp::Guid;
use zeroize::Zeroizing;

/// The data of [`crate::MessageKind::OFFER_CONNECTION`]. The socket goes with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OfferConnection {
    /// Distinguishes the offers of one sender.
    pub offer_id: u64,
    /// ClientGuid of the connection's NEGOTIATE.
    pub client_guid: Guid,
    /// True if an SMB1 NEGOTIATE came before the SMB2 one.
    pub after_smb1: bool,
    /// NEGOTIATE request that was received and not answered.
    pub negotiate: Vec<u8>,
}

/// The data of [`crate::MessageKind::ANSWER_OFFER`]: 9 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AnswerOffer {
    /// Id of the offer that it answers.
    pub offer_id: u64,
    /// True if the receiver would serve the connection.
    pub accepted: bool,
}

/// The data of [`crate::MessageKind::SETTLE_OFFER`]: 9 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SettleOffer {
    /// Id of the offer that it settles.
    pub offer_id: u64,
    /// True if the connection now belongs to the receiver.
    pub yours: bool,
}

/// The data of [`crate::MessageKind::FIND_SESSION`]: 16 bytes and the message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FindSession {
    /// Id of the question, for the answer.
    pub question_id: u64,
    /// Id of the wanted session.
    pub session_id: u64,
    /// The client's whole message, which the session's key must have signed.
    pub message: Vec<u8>,
}

/// The data of [`crate::MessageKind::SESSION_FOUND`]: 8 bytes, or 30 with a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionFound {
    /// Id of the question that it answers.
    pub question_id: u64,
    /// The session, if it exists and its key has signed the message.
    pub session: Option<FoundSession>,
}

/// A session of another worker: the properties that decide why no connection to this worker can be
/// bound to it ([MS-SMB2] 3.3.5.5.2).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundSession {
    /// The dialect of its connection.
    pub dialect: u16,
    /// The cipher of its connection: [MS-SMB2] 2.2.3.1.2; zero for none.
    pub cipher: u16,
    /// The signing algorithm of its connection: [MS-SMB2] 2.2.3.1.7.
    pub signing_algorithm: u16,
    /// Session.SigningKey. Messages are as safe as memory: only processes of this server's user can
    /// read its socket.
    pub signing_key: Zeroizing<[u8; 16]>,
}

/// Highest number of bytes of a message for the verification by another worker: a SESSION_SETUP
/// with a token of 64 KiB is shorter.
const SIGNED_BYTES_MAX: usize = 128 * 1024;

/// Highest number of bytes of a NEGOTIATE. Known clients send at most a few hundred.
pub const NEGOTIATE_BYTES_MAX: usize = 128 * 1024;

impl OfferConnection {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.offer_id.to_le_bytes().to_vec();
        data.extend_from_slice(&self.client_guid.0);
        data.push(self.after_smb1.into());
        data.extend_from_slice(&self.negotiate);
        data
    }

    /// Reads the data; `None` unless it is complete.
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
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        id_and_flag(self.offer_id, self.accepted)
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        decode_id_and_flag(data).map(|(offer_id, accepted)| Self { offer_id, accepted })
    }
}

impl SettleOffer {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        id_and_flag(self.offer_id, self.yours)
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        decode_id_and_flag(data).map(|(offer_id, yours)| Self { offer_id, yours })
    }
}

impl FindSession {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.question_id.to_le_bytes().to_vec();
        data.extend_from_slice(&self.session_id.to_le_bytes());
        data.extend_from_slice(&self.message);
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (question_id, rest) = data.split_first_chunk()?;
        let (session_id, message) = rest.split_first_chunk()?;
        (message.len() <= SIGNED_BYTES_MAX).then_some(())?;
        Some(Self {
            question_id: u64::from_le_bytes(*question_id),
            session_id: u64::from_le_bytes(*session_id),
            message: message.to_vec(),
        })
    }
}

impl SessionFound {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.question_id.to_le_bytes().to_vec();
        if let Some(session) = &self.session {
            for value in [session.dialect, session.cipher, session.signing_algorithm] {
                data.extend_from_slice(&value.to_le_bytes());
            }
            data.extend_from_slice(&*session.signing_key);
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (question_id, rest) = data.split_first_chunk()?;
        let question_id = u64::from_le_bytes(*question_id);
        if rest.is_empty() {
            return Some(Self { question_id, session: None });
        }
        let (&[d0, d1, c0, c1, s0, s1], key) = rest.split_first_chunk()?;
        let session = FoundSession {
            dialect: u16::from_le_bytes([d0, d1]),
            cipher: u16::from_le_bytes([c0, c1]),
            signing_algorithm: u16::from_le_bytes([s0, s1]),
            signing_key: Zeroizing::new(key.try_into().ok()?),
        };
        Some(Self { question_id, session: Some(session) })
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
    fn answers_are_nine_bytes_and_the_last_is_a_flag() {
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
        let found = SessionFound { question_id: 7, session: Some(session) };
        let data = found.encode();
        assert_eq!(SessionFound::decode(&data), Some(found));
        for len in (0..data.len()).filter(|len| *len != 8) {
            assert_eq!(SessionFound::decode(&data[..len]), None);
        }
        let nothing = SessionFound { question_id: 7, session: None };
        assert_eq!(SessionFound::decode(&nothing.encode()), Some(nothing));
        let wanted = FindSession { question_id: 7, session_id: 8, message: vec![9; 100] };
        assert_eq!(FindSession::decode(&wanted.encode()), Some(wanted));
        assert_eq!(FindSession::decode(&[0; 15]), None);
        assert_eq!(FindSession::decode(&vec![0; 16 + SIGNED_BYTES_MAX + 1]), None);
    }
}
