//! All operations of the interface: each has an answer, whatever comes.

use proptest::prelude::*;

use super::{ACCESS_DENIED, House, INVALID_LEVEL, NOT_SUPPORTED, Stub, contains, result};
use crate::pdu::Fault;
use crate::{Outcome, Task};

const SHARE_DEL_START: u16 = 37;
const SHARE_DEL_COMMIT: u16 = 38;
const LAST: u16 = 57;

const INVALID_PARAMETER: u32 = 87;
const INVALID_NAME: u32 = 123;
const BUFFER_TOO_SMALL: u32 = 2_123;
const NET_NAME_NOT_FOUND: u32 = 2_310;

/// Empty strings, null pointers and zeros, as many as any operation reads.
const ZEROS: [u8; 256] = [0; 256];

#[test]
fn each_operation_answers_and_none_is_behind_the_last() {
    let house = House::new(Outcome::Done);
    for opnum in 0..=LAST {
        let answer = house.call("anna", opnum, &ZEROS);
        if opnum == SHARE_DEL_COMMIT {
            assert_eq!(answer, Err(Fault::ContextMismatch), "no handle is zero");
        } else {
            assert!(answer.is_ok(), "{opnum}: {answer:?}");
        }
    }
    assert_eq!(house.call("anna", LAST + 1, &ZEROS), Err(Fault::OperationRange));
}

#[test]
fn operations_that_windows_does_not_support_are_refused_to_all() {
    let house = House::new(Outcome::Done);
    for opnum in (0..=7).chain([39, 40]).chain(43..=52) {
        for user in ["anna", "jo"] {
            assert_eq!(result(house.call(user, opnum, &ZEROS)), NOT_SUPPORTED, "{opnum} {user}");
        }
    }
    for opnum in [29, 42] {
        assert_eq!(result(house.call("anna", opnum, &ZEROS)), ACCESS_DENIED, "{opnum}");
    }
    assert_eq!(house.tasks(), []);
}

#[test]
fn changes_that_the_server_does_not_support_are_for_administrators_alone() {
    let house = House::new(Outcome::Done);
    for opnum in [24, 25, 27, 41, 53, 54, 56] {
        assert_eq!(result(house.call("anna", opnum, &ZEROS)), NOT_SUPPORTED, "{opnum}");
        assert_eq!(result(house.call("jo", opnum, &ZEROS)), ACCESS_DENIED, "{opnum}");
    }
    let statistics = |level, options| Stub::new().number(0).number(level).number(options).end();
    assert_eq!(result(house.call("anna", 24, &statistics(1, 0))), INVALID_LEVEL);
    assert_eq!(result(house.call("anna", 24, &statistics(0, 1))), INVALID_PARAMETER);
    assert_eq!(house.tasks(), []);
}

#[test]
fn lists_of_devices_return_their_level_and_no_entry() {
    let house = House::new(Outcome::Done);
    for (level, wanted_len) in [(0, 36), (1, 36), (2, 24)] {
        let stub = Stub::new().enumeration(level, u32::MAX, 0);
        let answer = house.call("anna", 0, &stub).expect("no fault");
        assert_eq!((answer.len(), answer[..4] == level.to_le_bytes()), (wanted_len, true));
        let stub = Stub::new().unique_text("jo").enumeration(level, u32::MAX, 0);
        assert_eq!(house.call("anna", 3, &stub), Ok(answer));
    }
    let stub = Stub::new().text("LPT1").number(1).end();
    let answer = house.call("anna", 1, &stub).expect("no fault");
    assert_eq!(answer, [1, 0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0]);
}

#[test]
fn a_share_is_removed_in_two_steps_by_administrators_alone() {
    let house = House::new(Outcome::Done);
    let start = |name: &str| Stub::new().text(name).number(0).end();
    let mut calls = house.calls("jo");
    assert_eq!(result(calls.call(SHARE_DEL_START, &start("films"))), ACCESS_DENIED);
    let mut calls = house.calls("anna");
    assert_eq!(result(calls.call(SHARE_DEL_START, &start("none"))), NET_NAME_NOT_FOUND);
    let started = calls.call(SHARE_DEL_START, &start("FILMS")).expect("no fault");
    let (handle, result_of_start) = started.split_at(20);
    assert_eq!(result_of_start, [0; 4]);
    assert_eq!(house.tasks(), [], "nothing is removed yet");
    let committed = calls.call(SHARE_DEL_COMMIT, handle).expect("no fault");
    assert_eq!(committed, [0; 24]);
    assert_eq!(house.tasks(), [Task::RemoveShare("films".to_owned())]);
    assert_eq!(calls.call(SHARE_DEL_COMMIT, handle), Err(Fault::ContextMismatch));
}

#[test]
fn a_share_is_removed_by_the_name_in_its_structure() {
    let fixed = Stub::new().number(503).number(503).number(1);
    let fixed = fixed.number(1).number(0).number(0).number(0).number(5).number(0);
    let fixed = fixed.number(0).number(0).number(0).number(0).number(0);
    let stub = fixed.text("films").end();
    let house = House::new(Outcome::Done);
    assert_eq!(result(house.call("jo", 57, &stub)), ACCESS_DENIED);
    assert_eq!(result(house.call("anna", 57, &stub)), 0);
    assert_eq!(house.tasks(), [Task::RemoveShare("films".to_owned())]);
    let other = Stub::new().number(1004).number(1004).number(1).number(0).end();
    assert_eq!(result(house.call("anna", 57, &other)), INVALID_LEVEL);
}

#[test]
fn names_are_validated_canonicalized_and_compared() {
    let house = House::new(Outcome::Done);
    let validate = |name: &str, kind, flags| {
        result(house.call("jo", 33, &Stub::new().text(name).number(kind).number(flags).end()))
    };
    assert_eq!(validate("films", 9, 0), 0);
    assert_eq!(validate("films", 9, 0x8000_0000), 0);
    assert_eq!(validate("films", 9, 1), INVALID_PARAMETER);
    assert_eq!(validate("a/b", 9, 0), INVALID_NAME);
    assert_eq!(validate("films", 14, 0), INVALID_PARAMETER);

    let canonicalize = |name: &str, len, flags| {
        let stub = Stub::new().text(name).number(len).number(9).number(flags);
        house.call("jo", 34, &stub.end())
    };
    let canonical = canonicalize("Films", 6, 0).expect("no fault");
    assert!(contains(&canonical, "FILMS") && canonical.len() == 4 + 12 + 4);
    assert_eq!(result(Ok(canonical)), 0);
    assert_eq!(result(canonicalize("Films", 5, 0)), BUFFER_TOO_SMALL);
    assert_eq!(result(canonicalize("Films", 80, 1)), BUFFER_TOO_SMALL);
    assert_eq!(result(canonicalize("Films", 81, 1)), 0);
    assert_eq!(canonicalize("Films", 64_000, 0).map(|it| it.len()), Ok(4 + 128_000 + 4));
    assert_eq!(canonicalize("Films", 64_001, 0), Err(Fault::BadStub));

    let compare = |one: &str, other: &str| {
        let stub = Stub::new().text(one).text(other).number(9).number(0);
        result(house.call("jo", 35, &stub.end()))
    };
    assert_eq!(
        [compare("films", "FILMS"), compare("films", "film"), compare("films", "")],
        [0, 1, INVALID_NAME]
    );
}

#[test]
fn paths_have_types_and_canonical_forms() {
    let house = House::new(Outcome::Done);
    let path_type = |path: &str, flags| {
        house.call("jo", 30, &Stub::new().text(path).number(flags).end()).expect("no fault")
    };
    assert_eq!(path_type("\\pagefile.sys", 1), [0x02, 0x20, 0, 0, 0, 0, 0, 0]);
    assert_eq!(result(Ok(path_type("\\page files.sys", 1))), INVALID_NAME);
    assert_eq!(result(Ok(path_type("\\a", 2))), INVALID_PARAMETER);

    let canonicalize = |path: &str, len, prefix: &str| {
        let stub = Stub::new().text(path).number(len).text(prefix).number(0).number(0);
        house.call("jo", 31, &stub.end())
    };
    let canonical = canonicalize("\\a\\..\\pagefile.sys", 50, "c:").expect("no fault");
    assert!(contains(&canonical, "C:\\pagefile.sys"));
    // 50 bytes, and two for alignment.
    assert_eq!(canonical[56..], [0x06, 0x20, 0, 0, 0, 0, 0, 0]);
    assert_eq!(result(canonicalize("abc", 7, "")), BUFFER_TOO_SMALL);
    assert_eq!(result(canonicalize("abc", 8, "")), 0);
    assert_eq!(result(canonicalize("..", 50, "c:")), INVALID_NAME);
    assert_eq!(canonicalize("abc", u32::MAX, ""), Err(Fault::BadStub));

    let compare = |one: &str, other: &str, flags| {
        let stub = Stub::new().text(one).text(other).number(0).number(flags);
        result(house.call("jo", 32, &stub.end()))
    };
    assert_eq!([compare("c:\\a", "C:/b/../A", 0), compare("c:\\a", "c:\\b", 0)], [0, 1]);
    assert_eq!(compare("c:\\a", "C:/b/../A", 1), 1);
}

proptest! {
    #[test]
    fn hostile_stubs_get_an_answer_of_bounded_length_or_a_fault(
        opnum in 0..=LAST,
        stub in proptest::collection::vec(any::<u8>(), 0..160),
        small in proptest::collection::vec(0..4_u32, 0..40),
    ) {
        let small: Vec<u8> = small.into_iter().flat_map(u32::to_le_bytes).collect();
        for stub in [stub, small] {
            let house = House::new(Outcome::Done);
            if let Ok(answer) = house.call("anna", opnum, &stub) {
                prop_assert!(answer.len() <= 128_016);
            }
        }
    }
}
