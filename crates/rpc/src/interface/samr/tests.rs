use std::sync::Arc;

use dtyp::{FileTime, NtStatus, Sid};

use super::INTERFACE;
use crate::handles::Handles;
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::{AccountEntry, Caller, Catalogue, Principal, ServerEntry, ShareEntry};

const CLOSE: u16 = 1;
const LOOKUP_DOMAIN: u16 = 5;
const ENUM_DOMAINS: u16 = 6;
const OPEN_DOMAIN: u16 = 7;
const QUERY_DOMAIN: u16 = 8;
const CREATE_USER: u16 = 12;
const ENUM_USERS: u16 = 13;
const ENUM_ALIASES: u16 = 15;
const ALIAS_MEMBERSHIP: u16 = 16;
const LOOKUP_NAMES: u16 = 17;
const LOOKUP_RIDS: u16 = 18;
const OPEN_USER: u16 = 34;
const QUERY_USER: u16 = 36;
const GROUPS_OF_USER: u16 = 39;
const DISPLAY: u16 = 40;
const CONNECT2: u16 = 57;
const CONNECT5: u16 = 64;

const MAXIMUM_ALLOWED: u32 = 0x0200_0000;

/// RIDs of the users.
const ANNA: u32 = 3_000;
const BOB: u32 = 3_002;

struct House;

fn account(rid: u32, name: &str) -> AccountEntry {
    AccountEntry {
        rid,
        name: name.to_owned(),
        full_name: format!("{name} the user"),
        enabled: rid == ANNA,
        is_administrator: rid == ANNA,
    }
}

impl Catalogue for House {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        [].into()
    }

    fn is_administrator(&self, caller: &Caller) -> bool {
        caller.user == "anna"
    }

    fn accounts(&self) -> Option<Vec<AccountEntry>> {
        Some(vec![account(ANNA, "anna"), account(BOB, "bob")])
    }

    fn account_by_name(&self, name: &str) -> Option<AccountEntry> {
        self.accounts()?.into_iter().find(|it| it.name.eq_ignore_ascii_case(name))
    }

    fn account_by_rid(&self, rid: u32) -> Option<AccountEntry> {
        self.accounts()?.into_iter().find(|it| it.rid == rid)
    }

    fn server(&self) -> ServerEntry {
        ServerEntry { name: "CHORO".to_owned(), ..ServerEntry::default() }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn find_user(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_group(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_sid(&self, _: &Sid) -> Option<Principal> {
        None
    }

    fn now(&self) -> FileTime {
        FileTime::ZERO
    }
}

/// A pipe of samr, and its caller.
#[derive(Default)]
struct Samr {
    handles: Handles,
    is_guest: bool,
    is_administrator: bool,
}

impl Samr {
    fn call(&mut self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        let user = if self.is_administrator { "anna" } else { "bob" }.to_owned();
        let caller = Caller { user, is_guest: self.is_guest, ..Caller::default() };
        let environment =
            &mut Environment { catalogue: &House, caller: &caller, handles: &mut self.handles };
        INTERFACE.call(opnum, stub, environment)
    }

    fn connect(&mut self) -> [u8; 20] {
        opened(&self.call(CONNECT2, &connect(MAXIMUM_ALLOWED)).expect("no fault"))
    }

    fn open_domain(&mut self, sid: &Sid) -> [u8; 20] {
        let server = self.connect();
        opened(&self.call(OPEN_DOMAIN, &open_domain(server, sid)).expect("no fault"))
    }

    fn domain(&mut self) -> [u8; 20] {
        self.open_domain(&House.domain_sid())
    }

    fn user(&mut self, rid: u32) -> [u8; 20] {
        let domain = self.domain();
        let stub = numbers(domain, &[MAXIMUM_ALLOWED, rid]);
        opened(&self.call(OPEN_USER, &stub).expect("no fault"))
    }
}

fn connect(access: u32) -> Vec<u8> {
    numbers_alone(&[0, access])
}

fn open_domain(server: [u8; 20], sid: &Sid) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(&server);
    writer.u32(MAXIMUM_ALLOWED);
    writer.sid(sid);
    end(writer)
}

/// A handle, and numbers behind it.
fn numbers(handle: [u8; 20], numbers: &[u32]) -> Vec<u8> {
    [&handle[..], &numbers_alone(numbers)].concat()
}

fn numbers_alone(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn end(writer: Writer) -> Vec<u8> {
    let mut stub = writer.finish_status(NtStatus::SUCCESS);
    stub.truncate(stub.len() - 4);
    stub
}

#[track_caller]
fn opened(stub: &[u8]) -> [u8; 20] {
    assert_eq!(status(stub), NtStatus::SUCCESS);
    *stub.first_chunk().expect("a handle")
}

fn status(stub: &[u8]) -> NtStatus {
    NtStatus(u32::from_le_bytes(*stub.last_chunk().expect("a status")))
}

fn contains(stub: &[u8], text: &str) -> bool {
    let wanted = dtyp::utf16::to_bytes(text);
    stub.windows(wanted.len()).any(|it| it == wanted)
}

#[test]
fn the_server_has_two_domains_which_are_found_and_opened() {
    let mut samr = Samr::default();
    let server = samr.connect();
    let listed = samr.call(ENUM_DOMAINS, &numbers(server, &[0, u32::MAX])).expect("no fault");
    assert!(contains(&listed, "CHORO") && contains(&listed, "Builtin"));
    for (name, sid) in [("choro", House.domain_sid()), ("BUILTIN", Sid::new(5, &[32]))] {
        let mut writer = Writer::default();
        writer.bytes(&server);
        writer.unicode_string(name);
        writer.unicode_buffer(name);
        let found = samr.call(LOOKUP_DOMAIN, &end(writer)).expect("no fault");
        let mut reader = Reader::new(&found);
        assert!(reader.pointer().expect("complete"));
        assert_eq!(reader.sid().expect("complete"), sid);
        samr.open_domain(&sid);
    }
    let other = open_domain(server, &Sid::new(5, &[21, 9, 9, 9]));
    let refused = samr.call(OPEN_DOMAIN, &other).expect("no fault");
    assert_eq!(status(&refused), NtStatus::NO_SUCH_DOMAIN);
    let closed = samr.call(CLOSE, &server).expect("no fault");
    assert_eq!(closed, [0; 24]);
    assert_eq!(samr.call(CLOSE, &server), Err(Fault::ContextMismatch));
}

#[test]
fn guests_get_no_handle_and_others_none_to_change_something() {
    let mut samr = Samr { is_guest: true, ..Samr::default() };
    let refused = samr.call(CONNECT2, &connect(MAXIMUM_ALLOWED)).expect("no fault");
    assert_eq!(status(&refused), NtStatus::ACCESS_DENIED);
    let mut samr = Samr::default();
    for access in [0x0000_0004, 0x0004_0000, 0x0100_0000, 0x1000_0000, 0x4000_0000] {
        let refused = samr.call(CONNECT2, &connect(access)).expect("no fault");
        assert_eq!(status(&refused), NtStatus::ACCESS_DENIED, "{access:#x}");
    }
    let domain = samr.domain();
    for (opnum, access) in [(OPEN_USER, 0x20), (OPEN_USER, 0x80), (19, 0x4), (27, 0x1)] {
        let refused = samr.call(opnum, &numbers(domain, &[access, ANNA])).expect("no fault");
        assert_eq!(status(&refused), NtStatus::ACCESS_DENIED, "{opnum} {access:#x}");
    }
    let created = samr.call(CREATE_USER, &numbers(domain, &[0, 0, 0])).expect("no fault");
    assert_eq!((created.len(), status(&created)), (28, NtStatus::ACCESS_DENIED));
}

#[test]
fn administrators_get_every_valid_right_and_change_nothing_either() {
    let mut samr = Samr { is_administrator: true, ..Samr::default() };
    for bit in 0..32 {
        let is_valid = matches!(bit, 0..=5 | 16..=19 | 24 | 25 | 28..=31);
        let answer = samr.call(CONNECT2, &connect(1 << bit)).expect("no fault");
        let wanted = if is_valid { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED };
        assert_eq!(status(&answer), wanted, "bit {bit}");
    }
    let domain = samr.domain();
    let created = samr.call(CREATE_USER, &numbers(domain, &[0, 0, 0])).expect("no fault");
    assert_eq!(status(&created), NtStatus::ACCESS_DENIED);
}

#[test]
fn an_operation_needs_its_right() {
    let mut samr = Samr::default();
    let server = opened(&samr.call(CONNECT2, &connect(0x20)).expect("no fault"));
    let listed = samr.call(ENUM_DOMAINS, &numbers(server, &[0, u32::MAX])).expect("no fault");
    assert_eq!(status(&listed), NtStatus::ACCESS_DENIED);
    let mut open = open_domain(server, &House.domain_sid());
    open[20..24].copy_from_slice(&0x0200_u32.to_le_bytes());
    let domain = opened(&samr.call(OPEN_DOMAIN, &open).expect("no fault"));
    let users = numbers(domain, &[0, 0, u32::MAX]);
    assert_eq!(samr.call(ENUM_USERS, &users), Err(Fault::AccessDenied));
    let unable = opened(&samr.call(CONNECT2, &connect(0x10)).expect("no fault"));
    let refused = samr.call(OPEN_DOMAIN, &open_domain(unable, &House.domain_sid()));
    assert_eq!(status(&refused.expect("no fault")), NtStatus::ACCESS_DENIED);
}

#[test]
fn the_newest_connect_answers_with_its_own_revision() {
    let mut samr = Samr::default();
    let stub = numbers_alone(&[0, MAXIMUM_ALLOWED, 1, 1, 2, 0]);
    let connected = samr.call(CONNECT5, &stub).expect("no fault");
    assert_eq!(connected[..16], numbers_alone(&[1, 1, 3, 0]));
    assert_eq!(status(&connected), NtStatus::SUCCESS);
    let stub = numbers_alone(&[0, MAXIMUM_ALLOWED, 2, 2, 2, 0]);
    let refused = samr.call(CONNECT5, &stub).expect("no fault");
    assert_eq!(status(&refused), NtStatus::NOT_SUPPORTED);
}

#[test]
fn users_are_listed_in_parts_and_by_kind() {
    let mut samr = Samr::default();
    let domain = samr.domain();
    let list = |samr: &mut Samr, context, filter, size| {
        samr.call(ENUM_USERS, &numbers(domain, &[context, filter, size])).expect("no fault")
    };
    let all = list(&mut samr, 0, 0, u32::MAX);
    assert!(contains(&all, "anna") && contains(&all, "bob"));
    let first = list(&mut samr, 0, 0x10, 1);
    assert!(contains(&first, "anna") && !contains(&first, "bob"));
    assert_eq!(status(&first), NtStatus::MORE_ENTRIES);
    let second = list(&mut samr, 1, 0x10, 1);
    assert!(contains(&second, "bob") && !contains(&second, "anna"));
    assert_eq!(status(&second), NtStatus::SUCCESS);
    let machines = list(&mut samr, 0, 0x80, u32::MAX);
    assert!(!contains(&machines, "anna"));
    let display = numbers(domain, &[1, 0, 100, u32::MAX]);
    let shown = samr.call(DISPLAY, &display).expect("no fault");
    assert!(contains(&shown, "anna the user") && contains(&shown, "bob the user"));
    let unknown = samr.call(DISPLAY, &numbers(domain, &[9, 0, 1, 1])).expect("no fault");
    assert_eq!(status(&unknown), NtStatus::INVALID_INFO_CLASS);
}

#[test]
fn names_and_rids_are_translated_both_ways() {
    let mut samr = Samr::default();
    let domain = samr.domain();
    let names = ["ANNA", "none", "nobody"];
    let mut writer = Writer::default();
    writer.bytes(&domain);
    [3, 1_000, 0, 3].into_iter().for_each(|number| writer.u32(number));
    names.iter().for_each(|name| writer.unicode_string(name));
    names.iter().for_each(|name| writer.unicode_buffer(name));
    let found = samr.call(LOOKUP_NAMES, &end(writer)).expect("no fault");
    assert_eq!(status(&found), NtStatus::SOME_NOT_MAPPED);
    let [count, _, max, anna, none, nobody] = std::array::from_fn(|index| {
        u32::from_le_bytes(*found[4 * index..].first_chunk().expect("complete"))
    });
    assert_eq!((count, max, anna, none, nobody), (3, 3, ANNA, 513, 0));
    let rids = numbers(domain, &[2, 1_000, 0, 2, BOB, 7]);
    let found = samr.call(LOOKUP_RIDS, &rids).expect("no fault");
    assert!(contains(&found, "bob"));
    assert_eq!(status(&found), NtStatus::SOME_NOT_MAPPED);
    let none = numbers(domain, &[1, 1_000, 0, 1, 7]);
    let none = samr.call(LOOKUP_RIDS, &none).expect("no fault");
    assert_eq!(status(&none), NtStatus::NONE_MAPPED);
    let lying = numbers(domain, &[2, 1_000, 0, 1, BOB]);
    assert_eq!(samr.call(LOOKUP_RIDS, &lying), Err(Fault::BadStub));
}

#[test]
fn every_level_of_a_user_is_answered_and_none_has_a_password() {
    let mut samr = Samr::default();
    let user = samr.user(BOB);
    for level in 1..=21_u16 {
        let stub = [&user[..], &level.to_le_bytes()].concat();
        let told = samr.call(QUERY_USER, &stub).expect("no fault");
        let wanted = match level {
            15 | 18 | 19 => NtStatus::INVALID_INFO_CLASS,
            _ => NtStatus::SUCCESS,
        };
        assert_eq!(status(&told), wanted, "{level}");
    }
    let all = samr.call(QUERY_USER, &[&user[..], &[21, 0]].concat()).expect("no fault");
    assert!(contains(&all, "bob the user"));
    // Of a disabled user.
    assert!(all.windows(4).any(|it| it == 0x211_u32.to_le_bytes()));
    let groups = samr.call(GROUPS_OF_USER, &user).expect("no fault");
    assert!(groups.windows(4).any(|it| it == 513_u32.to_le_bytes()));
    let domain = samr.domain();
    let unknown = samr.call(OPEN_USER, &numbers(domain, &[MAXIMUM_ALLOWED, 7])).expect("no fault");
    assert_eq!(status(&unknown), NtStatus::NO_SUCH_USER);
    assert_eq!(
        samr.call(QUERY_USER, &[&domain[..], &[21, 0]].concat()),
        Err(Fault::ContextMismatch)
    );
}

#[test]
fn local_groups_have_administrators_and_all_users() {
    let mut samr = Samr::default();
    let builtin = samr.open_domain(&Sid::new(5, &[32]));
    let listed = samr.call(ENUM_ALIASES, &numbers(builtin, &[0, u32::MAX])).expect("no fault");
    assert!(contains(&listed, "Administrators") && contains(&listed, "Users"));
    let of = |samr: &mut Samr, sid: &Sid| {
        let mut writer = Writer::default();
        writer.bytes(&builtin);
        [1, 1, 1, 1].into_iter().for_each(|number| writer.u32(number));
        writer.sid(sid);
        samr.call(ALIAS_MEMBERSHIP, &end(writer)).expect("no fault")
    };
    let anna = of(&mut samr, &Sid::new(5, &[21, 1, 2, 3, ANNA]));
    assert_eq!(anna[..4], 1_u32.to_le_bytes());
    assert_eq!(anna[12..16], 544_u32.to_le_bytes());
    let bob = of(&mut samr, &Sid::new(5, &[21, 1, 2, 3, BOB]));
    assert_eq!(bob[..4], 0_u32.to_le_bytes());
}

#[test]
fn every_level_of_a_domain_is_answered() {
    let mut samr = Samr::default();
    let domain = samr.domain();
    for level in 1..=14_u16 {
        let stub = [&domain[..], &level.to_le_bytes()].concat();
        let told = samr.call(QUERY_DOMAIN, &stub).expect("no fault");
        let is_known = !matches!(level, 10 | 14);
        let wanted = if is_known { NtStatus::SUCCESS } else { NtStatus::INVALID_INFO_CLASS };
        assert_eq!(status(&told), wanted, "{level}");
    }
}
