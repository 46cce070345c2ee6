use std::sync::Arc;

use dtyp::{FileTime, Sid};
use proptest::prelude::*;

use super::INTERFACE;
use crate::handles::Handles;
use crate::interface::Environment;
use crate::ndr::Writer;
use crate::pdu::Fault;
use crate::{Caller, Catalogue, Principal, ServerEntry, ShareEntry};

const LAST: u16 = 37;

const INVALID_FUNCTION: u32 = 1;
const ACCESS_DENIED: u32 = 5;
const NOT_SUPPORTED: u32 = 50;
const INVALID_PARAMETER: u32 = 87;
const CALL_NOT_IMPLEMENTED: u32 = 120;
const INVALID_LEVEL: u32 = 124;
const NO_SUCH_LOGON_SESSION: u32 = 1_312;
const REMOTE_DISABLED: u32 = 0x8001_011C;

/// Empty strings, null pointers and zeros, as many as any operation reads.
const ZEROS: [u8; 128] = [0; 128];

/// A server in a workgroup or a domain, which refuses strangers.
struct House {
    is_member: bool,
}

impl Catalogue for House {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        [].into()
    }

    fn admits(&self, caller: &Caller) -> bool {
        !caller.is_guest
    }

    fn is_administrator(&self, caller: &Caller) -> bool {
        caller.user == "anna"
    }

    fn is_member(&self) -> bool {
        self.is_member
    }

    fn server(&self) -> ServerEntry {
        ServerEntry {
            name: "CHORO".to_owned(),
            aliases: vec!["FILMS".to_owned()],
            dns_name: "choro.example".to_owned(),
            domain: "HOUSE".to_owned(),
            ..ServerEntry::default()
        }
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
        FileTime(0x0102_0304_0506_0708)
    }
}

/// Calls an operation, as an administrator only if the user is `anna`.
fn call_at(house: &House, user: &str, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
    let caller = Caller { user: user.to_owned(), is_guest: user == "guest", ..Caller::default() };
    let handles = &mut Handles::default();
    INTERFACE.call(opnum, stub, &mut Environment { catalogue: house, caller: &caller, handles })
}

fn call(user: &str, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
    call_at(&House { is_member: false }, user, opnum, stub)
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[track_caller]
fn result(stub: Result<Vec<u8>, Fault>) -> u32 {
    let stub = stub.expect("no fault");
    u32::from_le_bytes(*stub.last_chunk().expect("a result"))
}

#[test]
fn each_operation_answers_and_none_is_behind_the_last() {
    for opnum in 0..=LAST {
        let answer = call("anna", opnum, &ZEROS);
        assert!(answer.is_ok(), "{opnum}: {answer:?}");
    }
    assert_eq!(call("anna", LAST + 1, &ZEROS), Err(Fault::OperationRange));
}

#[test]
fn changes_are_refused_and_administrators_learn_that_none_is_supported() {
    for opnum in [1, 7, 22, 23, 24, 27, 28, 29, 31, 32, 33, 35, 36, 37] {
        assert_eq!(result(call("anna", opnum, &ZEROS)), NOT_SUPPORTED, "{opnum}");
        assert_eq!(result(call("jo", opnum, &ZEROS)), ACCESS_DENIED, "{opnum}");
    }
    for (level, name, wanted) in
        [(0, 1, INVALID_FUNCTION), (0, 0, INVALID_PARAMETER), (1, 1, INVALID_LEVEL)]
    {
        let add = numbers(&[0, level, 0, 0, name, 0, 0]);
        assert_eq!(result(call("anna", 6, &add)), wanted);
        assert_eq!(result(call("jo", 6, &add)), ACCESS_DENIED);
    }
}

#[test]
fn operations_for_programs_on_the_machine_are_refused_as_windows_does() {
    for opnum in [4, 12].into_iter().chain(14..=19).chain([21]) {
        assert_eq!(result(call("anna", opnum, &ZEROS)), NOT_SUPPORTED, "{opnum}");
    }
    for opnum in 8..=11 {
        assert_eq!(result(call("anna", opnum, &ZEROS)), CALL_NOT_IMPLEMENTED, "{opnum}");
    }
    for opnum in [25, 26, 34] {
        assert_eq!(result(call("anna", opnum, &ZEROS)), REMOTE_DISABLED, "{opnum}");
        assert_eq!(result(call("jo", opnum, &ZEROS)), ACCESS_DENIED, "{opnum}");
    }
    for (level, len) in [(0, 12), (1, 12), (1_101, 12), (2, 8)] {
        let answer = call("anna", 3, &numbers(&[0, level])).expect("no fault");
        assert_eq!((answer.len(), result(Ok(answer))), (len, NO_SUCH_LOGON_SESSION), "{level}");
    }
}

#[test]
fn a_level_with_an_arm_of_the_union_is_answered_by_a_null_pointer() {
    for (level, of_anna, of_jo, len) in [
        (502, NOT_SUPPORTED, ACCESS_DENIED, 12),
        (1_013, INVALID_LEVEL, INVALID_LEVEL, 12),
        (1_062, INVALID_LEVEL, INVALID_LEVEL, 12),
        (99, INVALID_LEVEL, INVALID_LEVEL, 8),
    ] {
        let stub = numbers(&[0, level]);
        let answer = call("anna", 0, &stub).expect("no fault");
        assert_eq!(answer.len(), len, "{level}");
        assert_eq!((result(Ok(answer)), result(call("jo", 0, &stub))), (of_anna, of_jo), "{level}");
    }
}

#[test]
fn lists_are_empty_and_their_levels_are_known() {
    for (opnum, level_max, wanted) in [(2, 1, 0), (5, 0, 0), (11, 2, CALL_NOT_IMPLEMENTED)] {
        for level in 0..=level_max {
            let answer = call("jo", opnum, &numbers(&[0, level, level, 1, 0, 0, 500, 1, 7]));
            let empty = numbers(&[level, level, 0x0002_0000, 0, 0, 0, 0x0002_0004, 0, wanted]);
            assert_eq!(answer, Ok(empty), "{opnum} {level}");
        }
        let unknown = numbers(&[0, level_max + 1, level_max + 1, 0, 500, 0]);
        assert_eq!(result(call("jo", opnum, &unknown)), INVALID_LEVEL, "{opnum}");
    }
}

#[test]
fn a_redirector_that_does_not_exist_has_counted_nothing() {
    let answer = call("jo", 13, &numbers(&[0, 0, 0, 0])).expect("no fault");
    assert_eq!(answer.len(), 8 + 13 * 8 + 27 * 4 + 4);
    assert_eq!(answer[8..16], 0x0102_0304_0506_0708_u64.to_le_bytes());
    assert!(answer[16..].iter().all(|byte| *byte == 0));
    assert_eq!(result(call("jo", 13, &numbers(&[0, 0, 1, 0]))), INVALID_LEVEL);
    assert_eq!(result(call("jo", 13, &numbers(&[0, 0, 0, 1]))), INVALID_PARAMETER);
    assert_eq!(result(call("guest", 13, &numbers(&[0, 0, 0, 0]))), ACCESS_DENIED);
}

#[test]
fn users_learn_the_workgroup_or_the_domain() {
    for (is_member, wanted) in [(false, 2), (true, 3)] {
        let answer = call_at(&House { is_member }, "jo", 20, &ZEROS).expect("no fault");
        let mut writer = Writer::default();
        writer.referent();
        writer.string("HOUSE");
        writer.u16(wanted);
        assert_eq!(answer, writer.finish(crate::win32::Win32Error::SUCCESS));
    }
    assert_eq!(result(call("guest", 20, &ZEROS)), ACCESS_DENIED);
}

#[test]
fn administrators_learn_the_names_of_the_computer() {
    let names = |user: &str, kind: u32, reserved: u32| {
        call(user, 30, &numbers(&[0, kind, reserved])).expect("no fault")
    };
    let contains = |answer: &[u8], name: &str| {
        let name = dtyp::utf16::to_bytes(name);
        answer.windows(name.len()).any(|it| it == name)
    };
    for (kind, has_primary, has_alternate) in [(0, true, false), (1, false, true), (2, true, true)]
    {
        let answer = names("anna", kind, 0);
        assert_eq!(contains(&answer, "choro.example"), has_primary, "{kind}");
        assert_eq!(contains(&answer, "FILMS"), has_alternate, "{kind}");
        assert_eq!(answer[4], u8::from(has_primary) + u8::from(has_alternate));
        assert_eq!(result(Ok(answer)), 0, "{kind}");
    }
    assert_eq!(result(Ok(names("anna", 3, 0))), INVALID_PARAMETER);
    assert_eq!(result(Ok(names("anna", 0, 1))), INVALID_PARAMETER);
    assert_eq!(result(Ok(names("jo", 0, 0))), ACCESS_DENIED);
}

proptest! {
    #[test]
    fn hostile_stubs_get_a_short_answer_or_a_fault(
        opnum in 0..=LAST,
        stub in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        if let Ok(answer) = call("anna", opnum, &stub) {
            prop_assert!(answer.len() < 512);
        }
    }
}
