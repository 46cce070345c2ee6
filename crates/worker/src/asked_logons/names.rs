//! Names and SIDs of the domain, which `logond` looks up.

use std::time::{Duration, Instant};

use messaging::{FoundName, Message, MessageKind, NameToFind, NamesAnswer, NamesQuestion};
use proto::{Reply, RequestId};
use rpc::{NameQuestion, Principal, PrincipalKind};
use zeroize::Zeroizing;

use super::pending::{AskedLogon, Kind};
use crate::event_loop::Worker;

/// Time for an answer about names. Windows shows SIDs meanwhile, and a dialog without an answer
/// after half a minute gives up.
const NAMES_TIMEOUT: Duration = Duration::from_secs(5);

impl Worker {
    /// Has names looked up in the domain.
    pub(crate) fn find_names(&mut self, request: RequestId, questions: Vec<NameQuestion>) {
        let number = self.asked_logons.next_number();
        let names = questions.into_iter().map(|question| match question {
            NameQuestion::Sid(sid) => NameToFind::Sid(sid),
            NameQuestion::Name { domain, name } => NameToFind::Name { domain, name },
        });
        let is_guest = !self.notices.had_user();
        let data = NamesQuestion { number, is_guest, names: names.collect() }.encode();
        let (of, kind, until) = (None, Kind::Names, Instant::now() + NAMES_TIMEOUT);
        let asked = AskedLogon { number, of, request, kind, until, data: None, sends: 0 };
        self.ask_logond(asked, MessageKind::FIND_NAMES, Zeroizing::new(data));
    }

    pub(super) fn read_found_names(&mut self, message: &Message) {
        if let Some(NamesAnswer { number, found }) = NamesAnswer::decode(&message.data)
            && let Some(asked) = self.asked_logons.take(message.sender, number)
        {
            let found = found.into_iter().map(|it| it.and_then(principal)).collect();
            self.answer(Some(asked.request), Reply::Names(found));
        }
    }
}

/// A principal whose kind clients know.
fn principal(found: FoundName) -> Option<Principal> {
    let FoundName { kind, domain, name, sid } = found;
    let kind = [
        PrincipalKind::User,
        PrincipalKind::Group,
        PrincipalKind::Domain,
        PrincipalKind::Alias,
        PrincipalKind::WellKnownGroup,
    ]
    .into_iter()
    .find(|known| *known as u16 == kind)?;
    Some(Principal { kind, domain, name, sid })
}

#[cfg(test)]
mod tests {
    use dtyp::Sid;

    use super::*;

    #[test]
    fn deleted_and_unknown_principals_have_no_name() {
        let found = |kind| {
            let (domain, name) = ("ADLAB".to_owned(), "alice".to_owned());
            principal(FoundName { kind, domain, name, sid: Sid::users() }).map(|it| it.kind)
        };
        assert_eq!(found(1), Some(PrincipalKind::User));
        assert_eq!(found(4), Some(PrincipalKind::Alias));
        assert_eq!([0, 6, 7, 8, 99].map(found), [None; 5]);
    }
}
