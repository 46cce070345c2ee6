//! Data of logons that `logond` checks: NTLM responses, and Kerberos tickets.
//!
//! The data hold keys and proofs of users. Senders and their queues erase them after use, and
//! receivers what they are given; transports the buffers that packets are received in, and records
//! of `messages.tdb`. Not erased are the kernel's buffers, and the place of the beginning of a
//! packet that is moved in memory before its end has come.

use std::fmt;

use dtyp::{NtStatus, Sid};
use zeroize::Zeroizing;

/// Highest number of groups of an account: NGROUPS_MAX of Linux.
pub const GROUPS_MAX: usize = 65_536;

/// Highest number of users that a name may mean, each of whose passwords is tried.
pub const USERS_PER_NAME_MAX: usize = 64;

/// The data of [`crate::MessageKind::CHECK_LOGON`]: a proof to check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogonQuestion {
    /// Number of the question, unique in the worker.
    pub number: u64,
    /// Proof of a client, to check.
    pub proof: LogonProof,
}

/// Proof of a client, or a part of it.
#[derive(Clone, Eq, PartialEq)]
pub enum LogonProof {
    /// A Kerberos ticket, with its authenticator.
    Ticket {
        /// The AP-REQ in the frame of RFC 4121 4.1.
        token: Vec<u8>,
        /// Mechanism list to sign; empty without SPNEGO.
        mech_list: Vec<u8>,
        /// The client's MIC over the list, if it came with the ticket.
        mech_list_mic: Option<Vec<u8>>,
        /// True if the client's MIC comes later, so that the context is kept.
        mic_follows: bool,
    },
    /// The client's MIC over the mechanism list, after its ticket.
    Mic {
        /// Number of the context in the answer about the ticket.
        context: u64,
        /// Mechanism list that the MIC covers.
        mech_list: Vec<u8>,
        /// MIC of the client over that list.
        mech_list_mic: Vec<u8>,
    },
    /// An NTLM response, for the domain.
    Response {
        /// User name as the client sent it.
        user: String,
        /// Domain as the client sent it.
        domain: String,
        /// Name of the client machine.
        workstation: String,
        /// Challenge of the server that the response answers.
        challenge: [u8; 8],
        /// NtChallengeResponse of [MS-NLMP] 2.2.1.3.
        nt_response: Vec<u8>,
    },
    /// An NTLM response of a user of this server.
    OwnResponse {
        /// Users of this server that the name may mean, at most [`USERS_PER_NAME_MAX`].
        users: Vec<String>,
        /// User name as the client sent it.
        user: String,
        /// Domain as the client sent it.
        domain: String,
        /// Challenge of the server that the response answers.
        challenge: [u8; 8],
        /// NtChallengeResponse of [MS-NLMP] 2.2.1.3.
        nt_response: Vec<u8>,
    },
}

impl fmt::Debug for LogonProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ticket { .. } => "Ticket(..)",
            Self::Mic { .. } => "Mic(..)",
            Self::Response { .. } => "Response(..)",
            Self::OwnResponse { .. } => "OwnResponse(..)",
        })
    }
}

/// The data of [`crate::MessageKind::LOGON_CHECKED`]: the result of a check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogonAnswer {
    /// Number of the question that it answers.
    pub number: u64,
    /// Result of the check, for the client.
    pub verdict: LogonVerdict,
}

/// Result of a check, for the client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogonVerdict {
    /// The ticket or the response is right.
    Accepted(Box<AcceptedLogon>),
    /// The ticket is not valid; the client may learn from this token and send another.
    TryAgain(Vec<u8>),
    /// The ticket is not valid.
    InvalidTicket,
    /// The result of a MIC: of one that is wrong beside a ticket, too.
    Mic(bool),
    /// The domain does not know the user of a response.
    NotInDomain,
    /// The user cannot log on, with the status for the client.
    Refused(NtStatus),
}

/// A proof that was right.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcceptedLogon {
    /// Key of the ticket's context, or SessionBaseKey of the response.
    pub key: LogonKey,
    /// Token for the client; may be empty.
    pub token: Vec<u8>,
    /// MIC of the server over the mechanism list; may be empty.
    pub mech_list_mic: Vec<u8>,
    /// Number of the context that can verify a later MIC; 0 for none.
    pub context: u64,
    /// Seconds until the end of the ticket; 0 for a response.
    pub lifetime: u32,
    /// Owner of the proof, as its authority names it.
    pub owner: LogonOwner,
}

/// Bytes of a key. Erased when dropped, never printed.
#[derive(Clone, Eq, PartialEq)]
pub struct LogonKey(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for LogonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogonKey(..)")
    }
}

/// Owner of a proof: in a domain, a realm or this server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogonOwner {
    /// User of a domain, with the ids that winbindd gives to it.
    Account(DomainAccount),
    /// User of a realm without domain, by the name alone.
    Principal {
        /// First and only component of the name.
        name: String,
        /// Realm that the user belongs to.
        realm: String,
    },
    /// Users of this server, by their names.
    Own(OwnUsers),
}

/// Users of this server whose passwords a response has proven.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnUsers {
    /// Names of the users, as in the user database. They have the same password.
    pub users: Vec<String>,
    /// True if the name may have meant others, too.
    pub is_ambiguous: bool,
    /// True if none of them may log on.
    pub is_disabled: bool,
}

/// Domain user, with SIDs and system ids.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DomainAccount {
    /// Name of the user in this system, such as `ADLAB\alice`.
    pub user: String,
    /// Short name of the domain.
    pub domain: String,
    /// SID of the user in its domain.
    pub sid: Sid,
    /// SIDs of the user's groups.
    pub groups: Vec<Sid>,
    /// User id in this system.
    pub uid: u32,
    /// Id of the primary group in this system.
    pub gid: u32,
    /// Ids of the further groups in this system.
    pub gids: Vec<u32>,
}

impl LogonQuestion {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut data = Zeroizing::new(self.number.to_le_bytes().to_vec());
        match &self.proof {
            LogonProof::Ticket { token, mech_list, mech_list_mic, mic_follows } => {
                let mic = mech_list_mic.as_deref();
                data.push(TICKET | (u8::from(*mic_follows) << 4) | (u8::from(mic.is_some()) << 5));
                [&token[..], mech_list, mic.unwrap_or_default()]
                    .iter()
                    .for_each(|bytes| push(&mut data, bytes));
            }
            LogonProof::Mic { context, mech_list, mech_list_mic } => {
                data.push(MIC);
                data.extend_from_slice(&context.to_le_bytes());
                [mech_list, mech_list_mic].iter().for_each(|bytes| push(&mut data, bytes));
            }
            LogonProof::Response { user, domain, workstation, challenge, nt_response } => {
                data.push(RESPONSE);
                data.extend_from_slice(challenge);
                let texts = [user, domain, workstation].map(|text| text.as_bytes());
                texts.iter().for_each(|bytes| push(&mut data, bytes));
                push(&mut data, nt_response);
            }
            LogonProof::OwnResponse { users, user, domain, challenge, nt_response } => {
                data.push(OWN_RESPONSE);
                data.extend_from_slice(challenge);
                push_texts(&mut data, users);
                let rest = [user.as_bytes(), domain.as_bytes(), nt_response];
                rest.iter().for_each(|bytes| push(&mut data, bytes));
            }
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let number = take_u64(&mut data)?;
        let [kind] = take_array(&mut data)?;
        let proof = match kind & 0x0F {
            TICKET if kind & 0xC0 == 0 => {
                let (token, mech_list, mic) =
                    (take(&mut data)?, take(&mut data)?, take(&mut data)?);
                let has_mic = kind & 0x20 != 0;
                if !has_mic && !mic.is_empty() {
                    return None;
                }
                let (mech_list_mic, mic_follows) = (has_mic.then_some(mic), kind & 0x10 != 0);
                LogonProof::Ticket { token, mech_list, mech_list_mic, mic_follows }
            }
            MIC if kind == MIC => LogonProof::Mic {
                context: take_u64(&mut data)?,
                mech_list: take(&mut data)?,
                mech_list_mic: take(&mut data)?,
            },
            RESPONSE if kind == RESPONSE => LogonProof::Response {
                challenge: take_array(&mut data)?,
                user: take_text(&mut data)?,
                domain: take_text(&mut data)?,
                workstation: take_text(&mut data)?,
                nt_response: take(&mut data)?,
            },
            OWN_RESPONSE if kind == OWN_RESPONSE => LogonProof::OwnResponse {
                challenge: take_array(&mut data)?,
                users: take_list(&mut data, USERS_PER_NAME_MAX, take_text)?,
                user: take_text(&mut data)?,
                domain: take_text(&mut data)?,
                nt_response: take(&mut data)?,
            },
            _ => return None,
        };
        data.is_empty().then_some(Self { number, proof })
    }
}

impl LogonAnswer {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut data = Zeroizing::new(self.number.to_le_bytes().to_vec());
        match &self.verdict {
            LogonVerdict::Accepted(accepted) => {
                // Data that grow later would leave the key behind in freed memory.
                data.reserve_exact(accepted.encoded_len_max());
                data.push(ACCEPTED);
                accepted.encode(&mut data);
            }
            LogonVerdict::TryAgain(token) => {
                data.push(TRY_AGAIN);
                push(&mut data, token);
            }
            LogonVerdict::InvalidTicket => data.push(INVALID_TICKET),
            LogonVerdict::Mic(is_right) => {
                data.extend_from_slice(&[MIC_CHECKED, (*is_right).into()])
            }
            LogonVerdict::NotInDomain => data.push(NOT_IN_DOMAIN),
            LogonVerdict::Refused(status) => {
                data.push(REFUSED);
                data.extend_from_slice(&status.0.to_le_bytes());
            }
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let number = take_u64(&mut data)?;
        let [kind] = take_array(&mut data)?;
        let verdict = match kind {
            ACCEPTED => LogonVerdict::Accepted(Box::new(AcceptedLogon::decode(&mut data)?)),
            TRY_AGAIN => LogonVerdict::TryAgain(take(&mut data)?),
            INVALID_TICKET => LogonVerdict::InvalidTicket,
            MIC_CHECKED => LogonVerdict::Mic(take_bool(&mut data)?),
            NOT_IN_DOMAIN => LogonVerdict::NotInDomain,
            REFUSED => LogonVerdict::Refused(NtStatus(take_u32(&mut data)?)),
            _ => return None,
        };
        data.is_empty().then_some(Self { number, verdict })
    }
}

impl AcceptedLogon {
    /// Returns the result of a right response. There is nothing to tell its client.
    #[must_use]
    pub fn of_response(session_base_key: &[u8; 16], owner: LogonOwner) -> Self {
        Self {
            key: LogonKey(Zeroizing::new(session_base_key.to_vec())),
            token: Vec::new(),
            mech_list_mic: Vec::new(),
            context: 0,
            lifetime: 0,
            owner,
        }
    }

    /// Returns a length that the encoding does not exceed.
    fn encoded_len_max(&self) -> usize {
        const FIXED: usize = 128;
        let owner = match &self.owner {
            LogonOwner::Account(DomainAccount { user, domain, groups, gids, .. }) => {
                user.len() + domain.len() + (groups.len() + 1) * SID_LEN_MAX + gids.len() * 4
            }
            LogonOwner::Principal { name, realm } => name.len() + realm.len(),
            LogonOwner::Own(own) => own.users.iter().map(|user| user.len() + 4).sum(),
        };
        FIXED + self.key.0.len() + self.token.len() + self.mech_list_mic.len() + owner
    }

    fn encode(&self, data: &mut Vec<u8>) {
        data.extend_from_slice(&self.context.to_le_bytes());
        data.extend_from_slice(&self.lifetime.to_le_bytes());
        [&self.key.0[..], &self.token, &self.mech_list_mic]
            .iter()
            .for_each(|bytes| push(data, bytes));
        match &self.owner {
            LogonOwner::Account(account) => {
                data.push(ACCOUNT);
                account.encode(data);
            }
            LogonOwner::Principal { name, realm } => {
                data.push(PRINCIPAL);
                [name, realm].iter().for_each(|text| push(data, text.as_bytes()));
            }
            LogonOwner::Own(OwnUsers { users, is_ambiguous, is_disabled }) => {
                data.extend_from_slice(&[OWN, (*is_ambiguous).into(), (*is_disabled).into()]);
                push_texts(data, users);
            }
        }
    }

    fn decode(data: &mut &[u8]) -> Option<Self> {
        let (context, lifetime) = (take_u64(data)?, take_u32(data)?);
        let key = LogonKey(Zeroizing::new(take(data)?));
        let (token, mech_list_mic) = (take(data)?, take(data)?);
        let owner = match take_array(data)? {
            [ACCOUNT] => LogonOwner::Account(DomainAccount::decode(data)?),
            [PRINCIPAL] => {
                LogonOwner::Principal { name: take_text(data)?, realm: take_text(data)? }
            }
            [OWN] => LogonOwner::Own(OwnUsers {
                is_ambiguous: take_bool(data)?,
                is_disabled: take_bool(data)?,
                users: take_list(data, USERS_PER_NAME_MAX, take_text)?,
            }),
            _ => return None,
        };
        Some(Self { key, token, mech_list_mic, context, lifetime, owner })
    }
}

impl DomainAccount {
    fn encode(&self, data: &mut Vec<u8>) {
        [&self.user, &self.domain].iter().for_each(|text| push(data, text.as_bytes()));
        [self.uid, self.gid].iter().for_each(|id| data.extend_from_slice(&id.to_le_bytes()));
        // Whole lists: the receiver refuses one that is too long, and entries that deny something
        // to a group left out would not count.
        push_count(data, self.gids.len());
        self.gids.iter().for_each(|gid| data.extend_from_slice(&gid.to_le_bytes()));
        self.sid.encode(data);
        push_count(data, self.groups.len());
        self.groups.iter().for_each(|sid| sid.encode(data));
    }

    fn decode(data: &mut &[u8]) -> Option<Self> {
        let (user, domain) = (take_text(data)?, take_text(data)?);
        let (uid, gid) = (take_u32(data)?, take_u32(data)?);
        let gids = take_list(data, GROUPS_MAX, take_u32)?;
        let sid = take_sid(data)?;
        let groups = take_list(data, GROUPS_MAX, take_sid)?;
        Some(Self { user, domain, sid, groups, uid, gid, gids })
    }
}

pub(super) fn push(data: &mut Vec<u8>, bytes: &[u8]) {
    push_count(data, bytes.len());
    data.extend_from_slice(bytes);
}

pub(super) fn push_count(data: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("the parts of a message are small");
    data.extend_from_slice(&count.to_le_bytes());
}

pub(super) fn take_array<const LEN: usize>(data: &mut &[u8]) -> Option<[u8; LEN]> {
    let (array, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*array)
}

pub(super) fn take_u64(data: &mut &[u8]) -> Option<u64> {
    take_array(data).map(u64::from_le_bytes)
}

pub(super) fn take_u32(data: &mut &[u8]) -> Option<u32> {
    take_array(data).map(u32::from_le_bytes)
}

fn take(data: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(take_u32(data)?).ok()?;
    let (bytes, rest) = data.split_at_checked(len)?;
    *data = rest;
    Some(bytes.to_vec())
}

fn take_bool(data: &mut &[u8]) -> Option<bool> {
    match take_array(data)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// Appends the names of users: a list that is too long is whole, and the receiver refuses it.
fn push_texts(data: &mut Vec<u8>, texts: &[String]) {
    push_count(data, texts.len());
    texts.iter().for_each(|text| push(data, text.as_bytes()));
}

pub(super) fn take_text(data: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(data)?).ok()
}

pub(super) fn take_sid(data: &mut &[u8]) -> Option<Sid> {
    let sid = Sid::decode(data)?;
    *data = &data[sid.encoded_len()..];
    Some(sid)
}

/// Takes a count of at most `max` and a list. No memory is reserved by the count alone.
fn take_list<T>(data: &mut &[u8], max: usize, take: fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(take_u32(data)?).ok().filter(|count| *count <= max)?;
    (0..count).map(|_| take(data)).collect()
}

const TICKET: u8 = 1;
const MIC: u8 = 2;
const RESPONSE: u8 = 3;
const OWN_RESPONSE: u8 = 4;

/// Bytes of the longest SID: 15 subauthorities.
const SID_LEN_MAX: usize = 68;

const ACCEPTED: u8 = 1;
const TRY_AGAIN: u8 = 2;
const INVALID_TICKET: u8 = 3;
const MIC_CHECKED: u8 = 4;
const NOT_IN_DOMAIN: u8 = 5;
const REFUSED: u8 = 6;

const ACCOUNT: u8 = 1;
const PRINCIPAL: u8 = 2;
const OWN: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Vec<LogonQuestion> {
        let ticket = |mech_list_mic, mic_follows| LogonProof::Ticket {
            token: b"AP-REQ".to_vec(),
            mech_list: b"list".to_vec(),
            mech_list_mic,
            mic_follows,
        };
        let proofs = [
            ticket(None, false),
            ticket(None, true),
            ticket(Some(b"mic".to_vec()), false),
            ticket(Some(Vec::new()), false),
            LogonProof::Mic { context: 9, mech_list: b"list".to_vec(), mech_list_mic: vec![1] },
            LogonProof::Response {
                user: "alice".to_owned(),
                domain: "ADLAB".to_owned(),
                workstation: "LAPTOP".to_owned(),
                challenge: *b"8 random",
                nt_response: vec![7; 300],
            },
            LogonProof::OwnResponse {
                users: vec!["anna".to_owned(), "works".to_owned()],
                user: "Anna".to_owned(),
                domain: String::new(),
                challenge: *b"8 random",
                nt_response: vec![7; 300],
            },
        ];
        proofs.into_iter().map(|proof| LogonQuestion { number: 7, proof }).collect()
    }

    fn answers() -> Vec<LogonAnswer> {
        let accepted = |owner| {
            LogonVerdict::Accepted(Box::new(AcceptedLogon {
                key: LogonKey(Zeroizing::new(vec![5; 32])),
                token: b"AP-REP".to_vec(),
                mech_list_mic: b"mic".to_vec(),
                context: 3,
                lifetime: 36_000,
                owner,
            }))
        };
        let verdicts = [
            accepted(LogonOwner::Principal { name: "carol".to_owned(), realm: "R".to_owned() }),
            accepted(LogonOwner::Account(DomainAccount {
                user: "ADLAB\\alice".to_owned(),
                domain: "ADLAB".to_owned(),
                sid: Sid::new(5, &[21, 1, 2, 3, 1_103]),
                groups: vec![Sid::new(5, &[21, 1, 2, 3, 513]), Sid::users()],
                uid: 1_001_103,
                gid: 1_000_513,
                gids: vec![1_001_104, 3_001],
            })),
            accepted(LogonOwner::Own(OwnUsers {
                users: vec!["anna".to_owned(), "works".to_owned()],
                is_ambiguous: true,
                is_disabled: false,
            })),
            LogonVerdict::TryAgain(b"KRB-ERROR".to_vec()),
            LogonVerdict::InvalidTicket,
            LogonVerdict::Mic(false),
            LogonVerdict::Mic(true),
            LogonVerdict::NotInDomain,
            LogonVerdict::Refused(NtStatus::NO_LOGON_SERVERS),
        ];
        verdicts.into_iter().map(|verdict| LogonAnswer { number: 7, verdict }).collect()
    }

    #[test]
    fn questions_round_trip_and_no_prefix_or_longer_text_is_one() {
        for question in questions() {
            let data = question.encode();
            assert_eq!(LogonQuestion::decode(&data), Some(question));
            for len in 0..data.len() {
                assert_eq!(LogonQuestion::decode(&data[..len]), None);
            }
            assert_eq!(LogonQuestion::decode(&[&data[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn answers_round_trip_and_no_prefix_or_longer_text_is_one() {
        for answer in answers() {
            let data = answer.encode();
            assert_eq!(LogonAnswer::decode(&data), Some(answer));
            for len in 0..data.len() {
                assert_eq!(LogonAnswer::decode(&data[..len]), None);
            }
            assert_eq!(LogonAnswer::decode(&[&data[..], &[0]].concat()), None);
        }
    }

    /// Each byte of each message, with each value: what is decoded is what would be encoded.
    #[test]
    fn changed_messages_are_refused_or_encode_to_the_same_bytes() {
        for answer in answers() {
            let data = answer.encode();
            for at in 0..data.len() {
                for value in [0, 1, 0x7F, 0x80, 0xFF] {
                    let mut changed = data.clone();
                    changed[at] = value;
                    if let Some(decoded) = LogonAnswer::decode(&changed) {
                        assert_eq!(decoded.encode(), changed);
                    }
                }
            }
        }
        for question in questions() {
            let data = question.encode();
            for at in 0..data.len() {
                for value in [0, 1, 0x7F, 0x80, 0xFF] {
                    let mut changed = data.clone();
                    changed[at] = value;
                    if let Some(decoded) = LogonQuestion::decode(&changed) {
                        assert_eq!(decoded.encode(), changed);
                    }
                }
            }
        }
    }

    #[test]
    fn an_account_in_too_many_groups_is_refused_and_not_shortened() {
        let account = |count| DomainAccount {
            user: "ADLAB\\alice".to_owned(),
            domain: "ADLAB".to_owned(),
            sid: Sid::users(),
            groups: Vec::new(),
            uid: 1_001_103,
            gid: 1_000_513,
            gids: vec![7; count],
        };
        let answer = |count| LogonAnswer {
            number: 7,
            verdict: LogonVerdict::Accepted(Box::new(AcceptedLogon::of_response(
                &[5; 16],
                LogonOwner::Account(account(count)),
            ))),
        };
        let most = answer(GROUPS_MAX);
        assert_eq!(LogonAnswer::decode(&most.encode()), Some(most));
        assert_eq!(LogonAnswer::decode(&answer(GROUPS_MAX + 1).encode()), None);
    }

    #[test]
    fn data_with_a_key_do_not_grow() {
        for answer in answers() {
            if let LogonVerdict::Accepted(accepted) = &answer.verdict {
                assert!(answer.encode().len() <= 8 + accepted.encoded_len_max(), "{answer:?}");
            }
        }
    }

    #[test]
    fn a_name_that_may_mean_too_many_users_is_refused() {
        let question = |count| LogonQuestion {
            number: 7,
            proof: LogonProof::OwnResponse {
                users: vec!["anna".to_owned(); count],
                user: "anna".to_owned(),
                domain: String::new(),
                challenge: [0; 8],
                nt_response: Vec::new(),
            },
        };
        let most = question(USERS_PER_NAME_MAX);
        assert_eq!(LogonQuestion::decode(&most.encode()), Some(most));
        assert_eq!(LogonQuestion::decode(&question(USERS_PER_NAME_MAX + 1).encode()), None);
    }

    #[test]
    fn keys_and_proofs_are_not_printed() {
        let text = format!("{:?} {:?}", questions(), answers());
        assert!(!text.contains("[5, 5") && !text.contains("[7, 7"), "{text}");
    }
}
