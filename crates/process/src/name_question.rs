//! Questions for users and groups of the system, and their form in packets.

use messaging::GROUPS_MAX;

use crate::packet::{put_length, put_number, put_text, take_flag, take_number, take_text};

/// A question to the system's name service.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum NameQuestion {
    /// The user of this name, with the groups.
    User(String),
    /// The name and id of the user of this name.
    UserId(String),
    /// The id of the group of this name.
    GroupId(String),
    /// The name of the user with this id.
    UserName(u32),
    /// The name of the group with this id.
    GroupName(u32),
    /// Membership of a user in a netgroup.
    Netgroup {
        /// Name of the netgroup, as in a list of users.
        netgroup: String,
        /// Login name of the user, in any case.
        user: String,
    },
}

/// A question as a worker sends it to `logond`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameRequest {
    /// What is to be looked up.
    pub question: NameQuestion,
    /// Reason of the question, which decides on its turn.
    pub purpose: NamePurpose,
}

/// Reason of a question for a name. Those of an earlier one are first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NamePurpose {
    /// The server needs the answer: for a logon or a tree connect of a user.
    Server,
    /// A user's client has asked, for a name or id of its choice.
    Client,
    /// A guest has caused it.
    Guest,
}

/// An answer of the name service. `None` if there is no such user or group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NameAnswer {
    /// Answer to [`NameQuestion::User`], with the groups.
    User(Option<SystemUser>),
    /// The name and id, to questions for one of them.
    Named(Option<(String, u32)>),
    /// Answer to [`NameQuestion::Netgroup`], also for an unknown one.
    Membership(bool),
}

/// A user as the name service knows it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SystemUser {
    /// Login name of the user.
    pub name: String,
    /// Home directory of the user.
    pub home: String,
    /// Id of the user, which the kernel checks.
    pub uid: u32,
    /// Id of the first group.
    pub gid: u32,
    /// Ids of all groups of the user.
    pub groups: Vec<u32>,
}

/// Length of the longest name to look up, in bytes. Systems have shorter ones, and caches must not
/// take more memory than a client's names are worth.
pub const NAME_BYTES_MAX: usize = 256;

/// Bytes of a question: two names.
pub const QUESTION_BYTES_MAX: usize = 1_024;

/// Bytes of an answer: a user in all groups that the kernel takes, and a long home.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 * GROUPS_MAX + 16 * 1_024;

/// Characters of the reason of a failure.
const REASON_CHARS_MAX: usize = 256;

/// True if the system may have a user or group of this name. Clients choose names, too.
#[must_use]
pub fn may_be_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

impl NameQuestion {
    /// True if the system may have users and groups of its names.
    #[must_use]
    pub fn has_names(&self) -> bool {
        match self {
            Self::User(name) | Self::UserId(name) | Self::GroupId(name) => may_be_name(name),
            Self::UserName(_) | Self::GroupName(_) => true,
            Self::Netgroup { netgroup, user } => may_be_name(netgroup) && may_be_name(user),
        }
    }

    fn put(&self, packet: &mut Vec<u8>) {
        let (kind, names, id): (u32, &[&str], Option<u32>) = match self {
            Self::User(name) => (0, &[name], None),
            Self::UserId(name) => (1, &[name], None),
            Self::GroupId(name) => (2, &[name], None),
            Self::UserName(uid) => (3, &[], Some(*uid)),
            Self::GroupName(gid) => (4, &[], Some(*gid)),
            Self::Netgroup { netgroup, user } => (5, &[netgroup, user], None),
        };
        put_number(packet, kind);
        names.iter().for_each(|name| put_text(packet, name));
        id.into_iter().for_each(|id| put_number(packet, id));
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(match take_number(rest)? {
            0 => Self::User(take_text(rest)?),
            1 => Self::UserId(take_text(rest)?),
            2 => Self::GroupId(take_text(rest)?),
            3 => Self::UserName(take_number(rest)?),
            4 => Self::GroupName(take_number(rest)?),
            5 => {
                let netgroup = take_text(rest)?;
                Self::Netgroup { netgroup, user: take_text(rest)? }
            }
            _ => return None,
        })
    }
}

impl NameRequest {
    /// Encodes it for a packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::new();
        put_number(&mut packet, self.purpose as u32);
        self.question.put(&mut packet);
        packet
    }

    /// Decodes it; `None` if it is not well-formed, or no system has its names.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let mut rest = packet;
        let purpose = match take_number(&mut rest)? {
            0 => NamePurpose::Server,
            1 => NamePurpose::Client,
            2 => NamePurpose::Guest,
            _ => return None,
        };
        let question = NameQuestion::take(&mut rest)?;
        (rest.is_empty() && question.has_names()).then_some(Self { question, purpose })
    }
}

impl NameAnswer {
    /// Encodes an answer, or the reason of a failure, for a packet. One that is too long is a
    /// failure, too.
    #[must_use]
    pub fn encode(answer: &Result<Self, String>) -> Vec<u8> {
        let mut packet = Vec::new();
        match answer {
            Err(reason) => {
                put_number(&mut packet, 0);
                let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
                put_text(&mut packet, &reason);
            }
            Ok(Self::User(user)) => {
                put_number(&mut packet, 1);
                put_number(&mut packet, u32::from(user.is_some()));
                if let Some(SystemUser { name, home, uid, gid, groups }) = user {
                    put_text(&mut packet, name);
                    put_text(&mut packet, home);
                    put_number(&mut packet, *uid);
                    put_number(&mut packet, *gid);
                    put_length(&mut packet, groups.len());
                    groups.iter().for_each(|group| put_number(&mut packet, *group));
                }
            }
            Ok(Self::Named(named)) => {
                put_number(&mut packet, 2);
                put_number(&mut packet, u32::from(named.is_some()));
                if let Some((name, id)) = named {
                    put_text(&mut packet, name);
                    put_number(&mut packet, *id);
                }
            }
            Ok(Self::Membership(is_member)) => {
                put_number(&mut packet, 3);
                put_number(&mut packet, u32::from(*is_member));
            }
        }
        if packet.len() > ANSWER_BYTES_MAX {
            return Self::encode(&Err("the answer of the name service is too long".to_owned()));
        }
        packet
    }

    /// Decodes what [`Self::encode`] has made; `None` if it is not well-formed.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Result<Self, String>> {
        let mut rest = packet;
        let answer = match take_number(&mut rest)? {
            0 => Err(take_text(&mut rest)?),
            1 => Ok(Self::User(match take_flag(&mut rest)? {
                true => Some(take_user(&mut rest)?),
                false => None,
            })),
            2 => Ok(Self::Named(match take_flag(&mut rest)? {
                true => Some((take_text(&mut rest)?, take_number(&mut rest)?)),
                false => None,
            })),
            3 => Ok(Self::Membership(take_flag(&mut rest)?)),
            _ => return None,
        };
        rest.is_empty().then_some(answer)
    }
}

fn take_user(rest: &mut &[u8]) -> Option<SystemUser> {
    let (name, home) = (take_text(rest)?, take_text(rest)?);
    let (uid, gid) = (take_number(rest)?, take_number(rest)?);
    let count = take_number(rest)?;
    let groups: Option<Vec<u32>> = (0..count).map(|_| take_number(rest)).collect();
    Some(SystemUser { name, home, uid, gid, groups: groups? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(groups: usize) -> Result<NameAnswer, String> {
        let (name, home) = ("anna".to_owned(), "/home/anna".to_owned());
        let groups = vec![u32::MAX; groups];
        Ok(NameAnswer::User(Some(SystemUser { name, home, uid: 1_000, gid: 100, groups })))
    }

    fn request(question: NameQuestion) -> NameRequest {
        NameRequest { question, purpose: NamePurpose::Server }
    }

    #[test]
    fn a_question_is_read_as_it_was_sent_and_no_part_of_it_is_one() {
        let long = "x".repeat(NAME_BYTES_MAX);
        for question in [
            NameQuestion::User("anna".to_owned()),
            NameQuestion::UserId("DOMAIN\\anna".to_owned()),
            NameQuestion::GroupId("Domain Users".to_owned()),
            NameQuestion::UserName(0),
            NameQuestion::GroupName(u32::MAX),
            NameQuestion::Netgroup { netgroup: long.clone(), user: long },
        ] {
            for purpose in [NamePurpose::Server, NamePurpose::Client, NamePurpose::Guest] {
                let request = NameRequest { question: question.clone(), purpose };
                let packet = request.encode();
                assert!(packet.len() <= QUESTION_BYTES_MAX);
                assert_eq!(NameRequest::decode(&packet), Some(request));
                for length in 0..packet.len() {
                    assert_eq!(NameRequest::decode(&packet[..length]), None, "{length}");
                }
                assert_eq!(NameRequest::decode(&[packet.as_slice(), &[0]].concat()), None);
            }
        }
        assert_eq!(NameRequest::decode(&[0xff; 64]), None);
    }

    #[test]
    fn a_question_for_a_name_that_no_system_has_is_not_read() {
        for name in ["", "a\nb", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            let question = request(NameQuestion::User(name.to_owned()));
            assert_eq!(NameRequest::decode(&question.encode()), None);
            let (netgroup, user) = ("team".to_owned(), name.to_owned());
            let question = request(NameQuestion::Netgroup { netgroup, user });
            assert_eq!(NameRequest::decode(&question.encode()), None);
        }
        let mut no_text = request(NameQuestion::User("anna".to_owned())).encode();
        *no_text.last_mut().expect("it has a name") = 0xff;
        assert_eq!(NameRequest::decode(&no_text), None);
    }

    #[test]
    fn an_answer_is_read_as_it_was_sent_and_no_part_of_it_is_one() {
        for answer in [
            user(3),
            user(0),
            Ok(NameAnswer::User(None)),
            Ok(NameAnswer::Named(Some(("staff".to_owned(), 50)))),
            Ok(NameAnswer::Named(None)),
            Ok(NameAnswer::Membership(true)),
            Ok(NameAnswer::Membership(false)),
            Err("the directory is away".to_owned()),
        ] {
            let packet = NameAnswer::encode(&answer);
            assert_eq!(NameAnswer::decode(&packet), Some(answer));
            for length in 0..packet.len() {
                assert_eq!(NameAnswer::decode(&packet[..length]), None, "{length}");
            }
            assert_eq!(NameAnswer::decode(&[packet.as_slice(), &[0]].concat()), None);
        }
        assert_eq!(NameAnswer::decode(&[0xff; 64]), None);
    }

    #[test]
    fn an_answer_that_is_too_long_is_a_failure_and_no_missing_user() {
        let most = NameAnswer::encode(&user(GROUPS_MAX));
        assert!(most.len() <= ANSWER_BYTES_MAX);
        assert_eq!(NameAnswer::decode(&most), Some(user(GROUPS_MAX)));
        let longer = NameAnswer::encode(&user(2 * GROUPS_MAX));
        assert!(matches!(NameAnswer::decode(&longer), Some(Err(_))));
        let reason = NameAnswer::encode(&Err("ü".repeat(ANSWER_BYTES_MAX)));
        assert!(matches!(NameAnswer::decode(&reason), Some(Err(it)) if it.starts_with("üü")));
    }
}
