//! Names and SIDs that `logond` looks up in the domain.

use dtyp::Sid;

use super::logons::{push, push_count, take_array, take_sid, take_text, take_u32, take_u64};

/// Names of one question, at most: those of one request of a client.
pub const NAMES_MAX: usize = 256;

/// The data of [`crate::MessageKind::FIND_NAMES`]: names and SIDs to look up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamesQuestion {
    /// Number of the question, unique in the worker.
    pub number: u64,
    /// True if no user has logged on to the worker: its client is a guest or anonymous.
    pub is_guest: bool,
    /// Names and SIDs, [`NAMES_MAX`] at most.
    pub names: Vec<NameToFind>,
}

/// A user, a group or a domain to look up.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum NameToFind {
    /// One that has this SID.
    Sid(Sid),
    /// One that has this name.
    Name {
        /// Name of the domain; empty for the own one.
        domain: String,
        /// Name within the domain, without it.
        name: String,
    },
}

/// The data of [`crate::MessageKind::NAMES_FOUND`]: one answer for each name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamesAnswer {
    /// Number of the question that it answers.
    pub number: u64,
    /// Results in the order of the question; `None` for what the domain does not know.
    pub found: Vec<Option<FoundName>>,
}

/// A user, a group or a domain that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundName {
    /// SID_NAME_USE of [MS-LSAT] 2.2.13.
    pub kind: u16,
    /// Short name of its domain.
    pub domain: String,
    /// Name within the domain, without it.
    pub name: String,
    /// SID of the user or group.
    pub sid: Sid,
}

impl NamesQuestion {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.number.to_le_bytes().to_vec();
        data.push(u8::from(self.is_guest));
        push_count(&mut data, self.names.len());
        for name in &self.names {
            match name {
                NameToFind::Sid(sid) => {
                    data.push(SID);
                    sid.encode(&mut data);
                }
                NameToFind::Name { domain, name } => {
                    data.push(NAME);
                    [domain, name].iter().for_each(|text| push(&mut data, text.as_bytes()));
                }
            }
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let number = take_u64(&mut data)?;
        let is_guest = match take_array(&mut data)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let names = take_names(&mut data, |data| match take_array(data)? {
            [SID] => take_sid(data).map(NameToFind::Sid),
            [NAME] => Some(NameToFind::Name { domain: take_text(data)?, name: take_text(data)? }),
            _ => None,
        })?;
        data.is_empty().then_some(Self { number, is_guest, names })
    }
}

impl NamesAnswer {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.number.to_le_bytes().to_vec();
        push_count(&mut data, self.found.len());
        for found in &self.found {
            data.push(u8::from(found.is_some()));
            if let Some(FoundName { kind, domain, name, sid }) = found {
                data.extend_from_slice(&kind.to_le_bytes());
                [domain, name].iter().for_each(|text| push(&mut data, text.as_bytes()));
                sid.encode(&mut data);
            }
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let number = take_u64(&mut data)?;
        let found = take_names(&mut data, |data| match take_array(data)? {
            [0] => Some(None),
            [1] => {
                let kind = u16::from_le_bytes(take_array(data)?);
                let (domain, name) = (take_text(data)?, take_text(data)?);
                Some(Some(FoundName { kind, domain, name, sid: take_sid(data)? }))
            }
            _ => None,
        })?;
        data.is_empty().then_some(Self { number, found })
    }
}

fn take_names<T>(data: &mut &[u8], take: fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(take_u32(data)?).ok().filter(|count| *count <= NAMES_MAX)?;
    (0..count).map(|_| take(data)).collect()
}

const SID: u8 = 1;
const NAME: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_round_trip_and_no_prefix_or_longer_text_is_one() {
        let sid = Sid::new(5, &[21, 1, 2, 3, 1_103]);
        let (domain, name) = ("ADLAB".to_owned(), "engineers".to_owned());
        let by_name = NameToFind::Name { domain: domain.clone(), name: name.clone() };
        let names = vec![NameToFind::Sid(sid.clone()), by_name];
        let mut data = Vec::new();
        for is_guest in [false, true] {
            let question = NamesQuestion { number: 7, is_guest, names: names.clone() };
            data = question.encode();
            assert_eq!(NamesQuestion::decode(&data), Some(question));
        }
        let found = FoundName { kind: 2, domain, name, sid };
        let answer = NamesAnswer { number: 7, found: vec![None, Some(found)] };
        let answered = answer.encode();
        assert_eq!(NamesAnswer::decode(&answered), Some(answer));
        for len in 0..data.len() {
            assert_eq!(NamesQuestion::decode(&data[..len]), None);
        }
        for len in 0..answered.len() {
            assert_eq!(NamesAnswer::decode(&answered[..len]), None);
        }
        assert_eq!(NamesQuestion::decode(&[&data[..], &[0]].concat()), None);
        assert_eq!(NamesAnswer::decode(&[&answered[..], &[0]].concat()), None);
    }

    #[test]
    fn too_many_names_are_refused() {
        let names = |count| vec![NameToFind::Sid(Sid::users()); count];
        let decoded = |count| {
            let question = NamesQuestion { number: 1, is_guest: false, names: names(count) };
            NamesQuestion::decode(&question.encode())
        };
        assert!(decoded(NAMES_MAX).is_some() && decoded(NAMES_MAX + 1).is_none());
    }
}
