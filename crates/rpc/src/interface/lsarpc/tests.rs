use std::sync::Arc;

use std::sync::atomic::{AtomicUsize, Ordering};

use dtyp::{FileTime, NtStatus, Sid};

use super::INTERFACE;
use crate::handles::Handles;
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::{AccountEntry, Caller, Catalogue, Principal, PrincipalKind, ServerEntry, ShareEntry};

const CLOSE: u16 = 0;
const QUERY: u16 = 7;
const NAMES: u16 = 14;
const SIDS: u16 = 15;
const OPEN: u16 = 44;
const USER_NAME: u16 = 45;
const SIDS2: u16 = 57;
const NAMES3: u16 = 68;

const MAXIMUM_ALLOWED: u32 = 0x0200_0000;

struct House;

impl Catalogue for House {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        [].into()
    }

    fn server(&self) -> ServerEntry {
        let (name, domain) = ("CHORO".to_owned(), "WORKGROUP".to_owned());
        ServerEntry { name, domain, ..ServerEntry::default() }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn find_user(&self, name: &str) -> Option<Principal> {
        (name == "jo").then(jo)
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        ["jo", "staff"].contains(&name).then(staff)
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        [jo(), staff()].into_iter().find(|it| it.sid == *sid)
    }

    fn now(&self) -> FileTime {
        FileTime::ZERO
    }
}

/// A catalogue with the same data that counts the questions for accounts, all of which it has.
#[derive(Default)]
struct Counting {
    count: AtomicUsize,
    /// True if it admits users only.
    refuses_guests: bool,
}

impl Catalogue for Counting {
    fn shares(&self, caller: &Caller) -> Arc<[ShareEntry]> {
        House.shares(caller)
    }

    fn admits(&self, caller: &Caller) -> bool {
        !(self.refuses_guests && caller.is_guest)
    }

    fn account_by_rid(&self, rid: u32) -> Option<AccountEntry> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(AccountEntry { rid, name: format!("user {rid}"), ..AccountEntry::default() })
    }

    fn server(&self) -> ServerEntry {
        House.server()
    }

    fn domain_sid(&self) -> Sid {
        House.domain_sid()
    }

    fn find_user(&self, name: &str) -> Option<Principal> {
        House.find_user(name)
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        House.find_group(name)
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        House.find_sid(sid)
    }

    fn now(&self) -> FileTime {
        House.now()
    }
}

fn jo() -> Principal {
    let (domain, name) = ("Unix User".to_owned(), "jo".to_owned());
    Principal { kind: PrincipalKind::User, domain, name, sid: Sid::unix_user(1_000) }
}

fn staff() -> Principal {
    let (domain, name) = ("Unix Group".to_owned(), "staff".to_owned());
    Principal { kind: PrincipalKind::Group, domain, name, sid: Sid::unix_group(50) }
}

/// State of a pipe, and a policy handle in it.
struct Policy {
    handles: Handles,
    handle: [u8; 20],
}

impl Policy {
    fn open() -> Self {
        let mut policy = Self { handles: Handles::default(), handle: [0; 20] };
        let stub = policy.call(OPEN, &open(MAXIMUM_ALLOWED)).expect("no fault");
        policy.handle.copy_from_slice(&stub[..20]);
        assert_eq!(status(&stub), NtStatus::SUCCESS);
        policy
    }

    fn call(&mut self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        let (user, domain) = ("jo".to_owned(), "WORKGROUP".to_owned());
        let caller = Caller { user, domain, ..Caller::default() };
        let mut environment =
            Environment { catalogue: &House, caller: &caller, handles: &mut self.handles };
        INTERFACE.call(opnum, stub, &mut environment)
    }

    /// A stub that begins with the handle.
    fn with_handle(&self, rest: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&self.handle);
        rest(&mut writer);
        writer.finish_status(NtStatus::SUCCESS)
    }

    fn names(&mut self, opnum: u16, names: &[&str]) -> Vec<u8> {
        let stub = self.with_handle(|writer| {
            writer.count(names.len());
            writer.count(names.len());
            names.iter().for_each(|name| writer.unicode_string(name));
            names.iter().for_each(|name| writer.unicode_buffer(name));
            // An empty array of translated SIDs; then level, count, options and revision.
            [0, 0, 1, 0, 0, 2].into_iter().for_each(|value| writer.u32(value));
        });
        self.call(opnum, &stub).expect("no fault")
    }

    fn sids(&mut self, opnum: u16, sids: &[Sid]) -> Vec<u8> {
        let stub = self.sids_stub(sids);
        self.call(opnum, &stub).expect("no fault")
    }

    fn sids_stub(&self, sids: &[Sid]) -> Vec<u8> {
        self.with_handle(|writer| {
            writer.count(sids.len());
            writer.referent();
            writer.count(sids.len());
            sids.iter().for_each(|_| writer.referent());
            sids.iter().for_each(|sid| writer.sid(sid));
            [0, 0, 1, 0, 0, 2].into_iter().for_each(|value| writer.u32(value));
        })
    }
}

/// LsarOpenPolicy2 as smbclient's library sends it.
fn open(desired_access: u32) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.null();
    [24, 0, 0, 0, 0, 1].into_iter().for_each(|value| writer.u32(value));
    writer.u32(12);
    writer.u16(2);
    writer.bytes(&[1, 0]);
    writer.finish_status(NtStatus(desired_access))
}

fn status(stub: &[u8]) -> NtStatus {
    NtStatus(u32::from_le_bytes(*stub.last_chunk().expect("a status at the end")))
}

/// The domains that a response refers to.
fn domains(reader: &mut Reader<'_>) -> Vec<(String, Sid)> {
    assert_eq!(reader.pointer(), Ok(true));
    let count = reader.count(100).expect("a count");
    let present = reader.pointer().expect("a pointer");
    assert_eq!((present, reader.u32()), (count > 0, Ok(32)));
    if !present {
        return Vec::new();
    }
    assert_eq!(reader.count(100), Ok(count));
    for _ in 0..count {
        assert_eq!((reader.unicode_string(), reader.pointer()), (Ok(true), Ok(true)));
    }
    let domain = |_| (reader.string().expect("a name"), reader.sid().expect("a SID"));
    (0..count).map(domain).collect()
}

/// The results of LsarLookupSids2: kind, domain's index and name of each.
fn translated_names(reader: &mut Reader<'_>) -> Vec<(u32, u32, String)> {
    let count = reader.count(100).expect("a count");
    assert_eq!((reader.pointer(), reader.count(100)), (Ok(true), Ok(count)));
    let mut fixed = Vec::new();
    for _ in 0..count {
        let kind = reader.u32().expect("a kind");
        assert_eq!(reader.unicode_string(), Ok(true));
        fixed.push((kind, reader.u32().expect("an index")));
        assert_eq!(reader.u32(), Ok(0));
    }
    let name = |(kind, index)| (kind, index, reader.string().expect("a name"));
    fixed.into_iter().map(name).collect()
}

#[test]
fn sids_have_names_and_domains() {
    let mut policy = Policy::open();
    let unknown = Sid::new(5, &[21, 9, 9, 9, 500]);
    let asked =
        [Sid::unix_user(1_000), Sid::everyone(), Sid::administrators(), unknown, Sid::system()];
    let stub = policy.sids(SIDS2, &asked);
    let mut reader = Reader::new(&stub);
    let named =
        |name: &str, authority, numbers: &[u32]| (name.to_owned(), Sid::new(authority, numbers));
    let want = [
        named("Unix User", 22, &[1]),
        named("", 1, &[]),
        named("BUILTIN", 5, &[32]),
        named("NT AUTHORITY", 5, &[]),
    ];
    assert_eq!(domains(&mut reader), want);
    let name = |kind, index, name: &str| (kind, index, name.to_owned());
    let want = [
        name(1, 0, "jo"),
        name(5, 1, "Everyone"),
        name(4, 2, "Administrators"),
        name(8, u32::MAX, "S-1-5-21-9-9-9-500"),
        name(5, 3, "SYSTEM"),
    ];
    assert_eq!(translated_names(&mut reader), want);
    assert_eq!(reader.u32(), Ok(4));
    assert_eq!(status(&stub), NtStatus::SOME_NOT_MAPPED);
}

#[test]
fn the_servers_own_domain_has_a_sid() {
    let mut policy = Policy::open();
    let stub = policy.sids(SIDS2, &[Sid::new(5, &[21, 1, 2, 3])]);
    let mut reader = Reader::new(&stub);
    assert_eq!(domains(&mut reader), [("CHORO".to_owned(), Sid::new(5, &[21, 1, 2, 3]))]);
    assert_eq!(translated_names(&mut reader), [(3, 0, String::new())]);
}

/// Every form of a name finds the same principal.
#[test]
fn names_are_found_in_every_form() {
    let mut policy = Policy::open();
    let cases = [
        (&["jo", "CHORO\\jo", "workgroup\\jo", "unix user\\jo", "jo@choro"][..], jo().sid),
        (&["staff", "CHORO\\staff", "Unix Group\\staff"], staff().sid),
        (&["everyone", "EVERYONE"], Sid::everyone()),
        (&["SYSTEM", "nt authority\\system"], Sid::system()),
        (&["Administrators", "BUILTIN\\administrators"], Sid::administrators()),
        (&["CHORO", "choro\\"], Sid::new(5, &[21, 1, 2, 3])),
        (&["BUILTIN"], Sid::new(5, &[32])),
    ];
    for (names, sid) in cases {
        for name in names {
            let stub = policy.names(NAMES3, &[name]);
            let mut reader = Reader::new(&stub);
            assert_eq!(domains(&mut reader).len(), 1, "{name}");
            assert_eq!((reader.u32(), reader.pointer(), reader.u32()), (Ok(1), Ok(true), Ok(1)));
            let (_kind, present) = (reader.u32(), reader.pointer());
            assert_eq!((present, reader.u32(), reader.u32()), (Ok(true), Ok(0), Ok(0)));
            assert_eq!(reader.sid().as_ref(), Ok(&sid), "{name}");
            assert_eq!(reader.u32(), Ok(1));
            assert_eq!(status(&stub), NtStatus::SUCCESS);
        }
    }
}

/// A user and a group of one name: only the name with its domain finds the group.
#[test]
fn a_user_comes_before_a_group_of_the_same_name() {
    let mut policy = Policy::open();
    let stub = policy.names(NAMES, &["jo", "Unix Group\\jo"]);
    let mut reader = Reader::new(&stub);
    assert_eq!(domains(&mut reader).len(), 2);
    let rest: Vec<_> = (0..9).map(|_| reader.u32().expect("a value")).collect();
    assert_eq!((rest[0], rest[2]), (2, 2));
    assert_eq!(rest[3..], [1, 1_000, 0, 2, 50, 1]);
    assert_eq!(reader.u32(), Ok(2));
}

#[test]
fn unknown_names_are_not_mapped() {
    let mut policy = Policy::open();
    let long = "x".repeat(257);
    let stub = policy.names(NAMES, &["nobody at all", "OTHER\\jo", "", "a\u{1}b", &long]);
    assert_eq!(status(&stub), NtStatus::NONE_MAPPED);
    let stub = policy.names(NAMES, &["jo", "OTHER\\jo"]);
    assert_eq!(status(&stub), NtStatus::SOME_NOT_MAPPED);
    assert_eq!(status(&policy.names(NAMES, &[])), NtStatus::SUCCESS);
}

#[test]
fn the_policy_reports_the_domains() {
    let mut policy = Policy::open();
    let mut query = |class| {
        let stub = policy.with_handle(|writer| writer.u16(class));
        policy.call(QUERY, &stub).expect("no fault")
    };
    for class in [5, 14] {
        let stub = query(class);
        let mut reader = Reader::new(&stub);
        assert_eq!((reader.pointer(), reader.u32()), (Ok(true), Ok(u32::from(class))));
        assert_eq!((reader.unicode_string(), reader.pointer()), (Ok(true), Ok(true)));
        assert_eq!(reader.string().as_deref(), Ok("CHORO"));
        assert_eq!(reader.sid(), Ok(Sid::new(5, &[21, 1, 2, 3])));
    }
    let stub = query(3);
    let mut reader = Reader::new(&stub[8..]);
    assert_eq!((reader.unicode_string(), reader.pointer()), (Ok(true), Ok(false)));
    assert_eq!(reader.string().as_deref(), Ok("WORKGROUP"));
    assert_eq!(status(&query(99)), NtStatus::INVALID_PARAMETER);
}

#[test]
fn the_requester_gets_its_own_name() {
    let mut policy = Policy::open();
    // No system name, no user name, and a null pointer for the domain's name; then without that
    // pointer.
    let mut ask = |wants_domain| {
        let mut writer = Writer::default();
        [0, 0, wants_domain, 0].into_iter().for_each(|value| writer.u32(value));
        let stub = writer.finish_status(NtStatus::SUCCESS);
        policy.call(USER_NAME, &stub).expect("no fault")
    };
    for wants_domain in [0, 1] {
        let stub = ask(wants_domain);
        let mut reader = Reader::new(&stub);
        assert_eq!((reader.pointer(), reader.unicode_string()), (Ok(true), Ok(true)));
        assert_eq!(reader.string().as_deref(), Ok("jo"));
        assert_eq!(reader.pointer(), Ok(wants_domain == 1));
        if wants_domain == 1 {
            assert_eq!((reader.pointer(), reader.unicode_string()), (Ok(true), Ok(true)));
            assert_eq!(reader.string().as_deref(), Ok("WORKGROUP"));
        }
        assert_eq!(reader.u32(), Ok(0));
    }
}

#[test]
fn a_handle_ends_when_it_is_closed() {
    let mut policy = Policy::open();
    let close = policy.with_handle(|_| {});
    assert_eq!(policy.call(CLOSE, &close).expect("no fault"), [0; 24]);
    assert_eq!(policy.call(CLOSE, &close), Err(Fault::ContextMismatch));
    let query = policy.with_handle(|writer| writer.u16(5));
    assert_eq!(policy.call(QUERY, &query), Err(Fault::ContextMismatch));
}

#[test]
fn handles_of_a_pipe_are_bounded() {
    let mut policy = Policy::open();
    let statuses: Vec<_> = (0..64)
        .map(|_| status(&policy.call(OPEN, &open(MAXIMUM_ALLOWED)).expect("no fault")))
        .collect();
    assert!(statuses[..63].iter().all(|status| status.is_success()));
    assert_eq!(statuses[63], NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn nobody_gets_a_policy_to_change() {
    let mut policy = Policy::open();
    // POLICY_CREATE_ACCOUNT, WRITE_DAC, GENERIC_ALL.
    for access in [0x10, 0x4_0000, 0x1000_0000] {
        let stub = policy.call(OPEN, &open(access)).expect("no fault");
        assert_eq!(status(&stub), NtStatus::ACCESS_DENIED);
        assert_eq!(stub[..20], [0; 20]);
    }
}

#[test]
fn a_requester_the_catalogue_refuses_gets_no_policy_and_looks_up_no_name() {
    let mut handles = Handles::default();
    let caller = Caller { is_guest: true, ..Caller::default() };
    let catalogue = Counting { refuses_guests: true, ..Counting::default() };
    let mut environment =
        Environment { catalogue: &catalogue, caller: &caller, handles: &mut handles };
    let stub = INTERFACE.call(OPEN, &open(MAXIMUM_ALLOWED), &mut environment).expect("no fault");
    assert_eq!(status(&stub), NtStatus::ACCESS_DENIED);
    let mut policy = Policy { handles, handle: [0; 20] };
    policy.handle.copy_from_slice(&stub[..20]);
    let stub = policy.with_handle(|writer| [0; 10].iter().for_each(|_| writer.u32(0)));
    for opnum in [14, 15, 57, 58, 68] {
        assert_eq!(policy.call(opnum, &stub), Err(Fault::ContextMismatch), "{opnum}");
    }
}

#[test]
fn an_account_is_asked_for_once_in_a_request_and_never_for_a_guest() {
    let mut policy = Policy::open();
    let sids: Vec<_> = (0..1_800).map(|it| Sid::new(5, &[21, 1, 2, 3, 1_000 + it % 2])).collect();
    let stub = policy.sids_stub(&sids);
    for (is_guest, mapped, questions) in [(false, 1_800, 2), (true, 0, 0)] {
        let (catalogue, caller) = (Counting::default(), Caller { is_guest, ..Caller::default() });
        let handles = &mut policy.handles;
        let mut environment = Environment { catalogue: &catalogue, caller: &caller, handles };
        for opnum in [SIDS, SIDS2] {
            catalogue.count.store(0, Ordering::Relaxed);
            let stub = INTERFACE.call(opnum, &stub, &mut environment).expect("no fault");
            let count = stub[..stub.len() - 4].last_chunk().expect("a count before the status");
            assert_eq!(u32::from_le_bytes(*count), mapped, "guest: {is_guest}");
            assert_eq!(catalogue.count.load(Ordering::Relaxed), questions, "guest: {is_guest}");
        }
    }
    let members = [Sid::new(5, &[21, 1, 2, 3, 513])];
    let stub = policy.sids_stub(&members);
    let caller = Caller { is_guest: true, ..Caller::default() };
    let handles = &mut policy.handles;
    let mut environment = Environment { catalogue: &House, caller: &caller, handles };
    let stub = INTERFACE.call(SIDS, &stub, &mut environment).expect("no fault");
    assert_eq!(status(&stub), NtStatus::NONE_MAPPED, "as samr, which refuses");
}

#[test]
fn domain_controllers_calls_are_refused() {
    let mut policy = Policy::open();
    for opnum in [76, 77] {
        assert_eq!(policy.call(opnum, &[]), Err(Fault::AccessDenied));
    }
}

/// Every prefix of a valid request, and counts that contradict the rest.
#[test]
fn broken_stubs_are_faults() {
    let mut policy = Policy::open();
    let good = policy.with_handle(|writer| {
        writer.count(1);
        writer.referent();
        writer.count(1);
        writer.referent();
        writer.sid(&Sid::unix_user(1_000));
    });
    let end = good.len() - 4;
    policy.call(SIDS, &good[..end]).expect("no fault");
    for cut in 20..end {
        assert_eq!(policy.call(SIDS, &good[..cut]), Err(Fault::BadStub), "{cut}");
    }
    for count in [2, 20_480, u32::MAX] {
        let mut lying = good.clone();
        lying[20..24].copy_from_slice(&count.to_le_bytes());
        lying[28..32].copy_from_slice(&count.to_le_bytes());
        assert_eq!(policy.call(SIDS, &lying), Err(Fault::BadStub));
        assert_eq!(policy.call(NAMES, &lying), Err(Fault::BadStub));
    }
}
