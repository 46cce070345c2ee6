//! Writes of a client to a named pipe. The first part chooses the pipe, the others are written.
#![no_main]

use std::sync::Arc;

use dtyp::{FileTime, Sid};
use libfuzzer_sys::fuzz_target;
use rpc::{Caller, Catalogue, Pipe, PipeName, Principal, PrincipalKind, ServerEntry, ShareEntry};
use testkit::seeds::split;

struct Shares;

impl Catalogue for Shares {
    fn shares(&self, _: &Caller) -> Vec<ShareEntry> {
        let share = |name: &str| ShareEntry {
            name: name.into(),
            comment: "a comment".into(),
            path: "/srv".into(),
            ..ShareEntry::default()
        };
        vec![share("data"), share("IPC$")]
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

fuzz_target!(|input: &[u8]| {
    let mut parts = split(input);
    let Some(which) = parts.next() else { return };
    let index = usize::from(which.first().copied().unwrap_or(0)) % PipeName::ALL.len();
    let mut pipe = Pipe::new(PipeName::ALL[index], Arc::new(Shares), Caller::default());
    for part in parts {
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
