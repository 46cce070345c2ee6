//! Writes of a client to a named pipe. The first part chooses the pipe, the others are written.
#![no_main]

use std::sync::Arc;

use dtyp::{FileTime, Sid};
use libfuzzer_sys::fuzz_target;
use rpc::{
    AccountEntry, Caller, Catalogue, FileEntry, Outcome, Pipe, PipeName, Principal, PrincipalKind,
    ServerEntry, SessionEntry, ShareEntry, Task, TreeConnectEntry,
};
use testkit::seeds::split;

struct Shares;

impl Catalogue for Shares {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        let share = |name: &str| ShareEntry {
            name: name.into(),
            comment: "a comment".into(),
            path: "/srv".into(),
            ..ShareEntry::default()
        };
        [share("data"), share("IPC$")].into()
    }

    fn is_administrator(&self, _: &Caller) -> bool {
        true
    }

    fn share_security(&self, name: &str) -> Option<Vec<u8>> {
        Some(name.as_bytes().to_vec())
    }

    fn accounts(&self) -> Option<Vec<AccountEntry>> {
        let account = |rid: u32| AccountEntry {
            rid,
            name: rid.to_string(),
            is_administrator: rid == 1_000,
            ..AccountEntry::default()
        };
        Some((1_000..1_010).map(account).collect())
    }

    fn account_by_name(&self, name: &str) -> Option<AccountEntry> {
        self.accounts()?.into_iter().find(|it| it.name == name)
    }

    fn account_by_rid(&self, rid: u32) -> Option<AccountEntry> {
        self.accounts()?.into_iter().find(|it| it.rid == rid)
    }

    fn server(&self) -> ServerEntry {
        ServerEntry { name: "SERVER".into(), domain: "CHORO".into(), ..ServerEntry::default() }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn find_user(&self, name: &str) -> Option<Principal> {
        let (kind, sid) = (PrincipalKind::User, Sid::unix_user(1_000));
        let name = name.to_owned();
        (name.len() < 5).then(|| Principal { kind, domain: "Unix User".into(), name, sid })
    }

    fn find_group(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        self.find_user("jo").filter(|it| it.sid == *sid)
    }

    fn now(&self) -> FileTime {
        FileTime::ZERO
    }
}

/// Outcome of a task that others would carry out.
fn outcome(task: &Task) -> Outcome {
    match task {
        Task::ListFiles => Outcome::Files(vec![FileEntry::default(); 3]),
        Task::ListSessions => Outcome::Sessions(vec![SessionEntry::default(); 3]),
        Task::ListTreeConnects => Outcome::TreeConnects(vec![TreeConnectEntry::default(); 3]),
        _ => Outcome::Done,
    }
}

fuzz_target!(|input: &[u8]| {
    let mut parts = split(input);
    let Some(which) = parts.next() else { return };
    let index = usize::from(which.first().copied().unwrap_or(0)) % PipeName::ALL.len();
    let mut pipe = Pipe::new(PipeName::ALL[index], Arc::new(Shares), Caller::default());
    for part in parts {
        if let Some(task) = pipe.task(part) {
            pipe.learn_outcome(outcome(&task));
        }
        if pipe.write(part).is_err() {
            pipe.write(part).expect_err("a broken pipe stays broken");
            return;
        }
        while pipe.pending_len() > 0 {
            let before = pipe.pending_len();
            // A short read leaves the rest of the message for the next.
            let read = pipe.read(1 + part.len());
            assert!(!read.is_empty() && read.len() == before - pipe.pending_len());
        }
    }
});
