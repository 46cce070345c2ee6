//! Kerberos in SPNEGO and without it. The tickets are checked by the test.

use proptest::prelude::*;

use super::{NOW, settings};
use crate::acceptor::{Acceptor, AcceptorSettings, IdentityKind, Mechanisms, Outcome, Step};
use crate::error::AuthError;
use crate::session_key::SessionKey;
use crate::spnego::{MechType, NegState, NegTokenInit, NegTokenResp, mech_list};
use crate::ticket::{LateMic, Ticket, TicketAccepted, TicketRefused};

const BOTH: Mechanisms = Mechanisms { kerberos: true, ntlm: true };
const WINDOWS: [MechType; 3] = [MechType::MicrosoftKerberos, MechType::Kerberos, MechType::Ntlm];
const AP_REQ: &[u8] = b"AP-REQ";
const AP_REP: &[u8] = b"AP-REP";
const KRB_ERROR: &[u8] = b"KRB-ERROR";

pub(super) fn acceptor() -> Acceptor {
    offering(BOTH)
}

fn offering(mechanisms: Mechanisms) -> Acceptor {
    Acceptor::new(&AcceptorSettings { mechanisms, ..settings() }, *b"8 random", NOW)
}

fn init(list: &[u8], token: Option<&[u8]>) -> Vec<u8> {
    NegTokenInit { mech_list: list, mech_token: token }.encode()
}

fn accepted() -> TicketAccepted {
    TicketAccepted {
        token: AP_REP.to_vec(),
        session_key: SessionKey::from_slice(&[7; 32]).expect("AES-256 has it"),
        mech_list_mic: b"server's".to_vec(),
        context: 5,
        user: "alice".to_owned(),
        domain: "AD.LAB.TEST".to_owned(),
    }
}

#[track_caller]
fn ticket(step: Result<Step, AuthError>) -> Ticket {
    match step.expect("it goes on") {
        Step::Ticket(ticket) => ticket,
        other => panic!("a ticket should be checked: {other:?}"),
    }
}

#[track_caller]
fn continued(step: Result<Step, AuthError>) -> Vec<u8> {
    match step.expect("it goes on") {
        Step::Continue(token) => token,
        other => panic!("the client should go on: {other:?}"),
    }
}

#[track_caller]
fn done(step: Result<Step, AuthError>) -> Outcome {
    match step.expect("it goes on") {
        Step::Done(outcome) => outcome,
        other => panic!("nothing is left to do: {other:?}"),
    }
}

/// A list that begins with a mechanism that nobody here has, such as NEGOEX.
fn list_with_another_first() -> Vec<u8> {
    let negoex = [0x06, 0x0A, 0x2B, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x1E];
    let ours = mech_list(&WINDOWS);
    let content = [&negoex[..], &ours[2..]].concat();
    [&[0x30, u8::try_from(content.len()).expect("short")], &content[..]].concat()
}

#[test]
fn the_first_ticket_is_enough_and_its_answer_names_the_mechanism_that_the_client_named() {
    for first in [MechType::MicrosoftKerberos, MechType::Kerberos] {
        let list = mech_list(&[first, MechType::Ntlm]);
        let mut acceptor = acceptor();
        let asked = ticket(acceptor.step(&init(&list, Some(AP_REQ))));
        assert_eq!((&asked.token[..], &asked.mech_list), (AP_REQ, &list));
        assert_eq!((asked.mech_list_mic, asked.mic_follows), (None, false));
        assert!(acceptor.is_kerberos());
        let outcome = done(acceptor.resume_ticket(Ok(accepted())));
        let resp = NegTokenResp::parse(&outcome.token).expect("sound");
        assert_eq!(resp.neg_state, Some(NegState::AcceptCompleted));
        assert_eq!(resp.supported_mech, Some(first.oid()));
        assert_eq!((resp.response_token, resp.mech_list_mic), (Some(AP_REP), None));
        assert_eq!(outcome.session_key.full(), &[7; 32]);
        assert_eq!(outcome.identity.user, "alice");
        assert_eq!(outcome.identity.kind, IdentityKind::User);
    }
}

#[test]
fn a_ticket_without_spnego_is_answered_without_spnego() {
    for mech_type in [MechType::Kerberos, MechType::MicrosoftKerberos] {
        let oid = crate::der::element(crate::der::OBJECT_IDENTIFIER, mech_type.oid());
        let bare = crate::der::element(crate::der::APPLICATION_0, &[&oid[..], AP_REQ].concat());
        let mut acceptor = acceptor();
        let asked = ticket(acceptor.step(&bare));
        assert_eq!((&asked.token, asked.mech_list.len()), (&bare, 0));
        let outcome = done(acceptor.resume_ticket(Ok(accepted())));
        assert_eq!(outcome.token, AP_REP);
        let error = offering(Mechanisms::default()).step(&bare).expect_err("not offered");
        assert_eq!(error, AuthError::NoCommonMechanism);
    }
}

#[test]
fn a_client_that_sends_no_ticket_at_first_is_told_the_mechanism() {
    let list = mech_list(&WINDOWS);
    let mut acceptor = acceptor();
    let token = continued(acceptor.step(&init(&list, None)));
    let resp = NegTokenResp::parse(&token).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::AcceptIncomplete));
    assert_eq!(resp.supported_mech, Some(MechType::MicrosoftKerberos.oid()));
    let second = NegTokenResp { response_token: Some(AP_REQ), ..NegTokenResp::default() };
    assert_eq!(ticket(acceptor.step(&second.encode())).token, AP_REQ);
    let outcome = done(acceptor.resume_ticket(Ok(accepted())));
    let resp = NegTokenResp::parse(&outcome.token).expect("sound");
    assert_eq!((resp.supported_mech, resp.response_token), (None, Some(AP_REP)));
}

#[test]
fn behind_another_first_choice_the_list_must_be_signed() {
    let list = list_with_another_first();
    let mut acceptor = acceptor();
    let token = continued(acceptor.step(&init(&list, Some(b"for NEGOEX"))));
    let resp = NegTokenResp::parse(&token).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::RequestMic));
    assert_eq!(resp.supported_mech, Some(MechType::MicrosoftKerberos.oid()));
    let second = NegTokenResp { response_token: Some(AP_REQ), ..NegTokenResp::default() };
    let asked = ticket(acceptor.step(&second.encode()));
    assert_eq!((asked.mech_list, asked.mic_follows), (list.clone(), true));
    // The server's MIC goes with its last token, and the client's comes back.
    let token = continued(acceptor.resume_ticket(Ok(accepted())));
    let resp = NegTokenResp::parse(&token).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::AcceptIncomplete));
    assert_eq!(resp.mech_list_mic, Some(&b"server's"[..]));
    let third = NegTokenResp { mech_list_mic: Some(b"client's"), ..NegTokenResp::default() };
    match acceptor.step(&third.encode()).expect("it goes on") {
        Step::Mic(LateMic { context: 5, mech_list, mech_list_mic }) => {
            assert_eq!((mech_list, &mech_list_mic[..]), (list, &b"client's"[..]));
        }
        other => panic!("a MIC should be checked: {other:?}"),
    }
    let outcome = done(acceptor.resume_mic(true));
    let resp = NegTokenResp::parse(&outcome.token).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::AcceptCompleted));
}

#[test]
fn a_late_mic_that_is_missing_or_wrong_ends_it() {
    let second = NegTokenResp { response_token: Some(AP_REQ), ..NegTokenResp::default() }.encode();
    let due = || {
        let mut acceptor = acceptor();
        continued(acceptor.step(&init(&list_with_another_first(), None)));
        ticket(acceptor.step(&second));
        continued(acceptor.resume_ticket(Ok(accepted())));
        acceptor
    };
    let mut without = due();
    assert_eq!(without.step(&second).expect_err("refused"), AuthError::MechListMicMissing);
    let third = NegTokenResp { mech_list_mic: Some(b"wrong"), ..NegTokenResp::default() }.encode();
    let mut wrong = due();
    wrong.step(&third).expect("it is checked elsewhere");
    assert_eq!(wrong.resume_mic(false).expect_err("refused"), AuthError::BadMechListMic);
    assert_eq!(wrong.resume_mic(true).expect_err("over"), AuthError::OutOfSequence);
}

#[test]
fn a_mic_beside_the_ticket_is_answered_by_one() {
    let mut acceptor = acceptor();
    continued(acceptor.step(&init(&list_with_another_first(), None)));
    let second = NegTokenResp {
        response_token: Some(AP_REQ),
        mech_list_mic: Some(b"client's"),
        ..NegTokenResp::default()
    };
    let asked = ticket(acceptor.step(&second.encode()));
    assert_eq!(
        (asked.mech_list_mic.as_deref(), asked.mic_follows),
        (Some(&b"client's"[..]), false)
    );
    let outcome = done(acceptor.resume_ticket(Ok(accepted())));
    let resp = NegTokenResp::parse(&outcome.token).expect("sound");
    assert_eq!(resp.mech_list_mic, Some(&b"server's"[..]));
    assert_eq!(resp.neg_state, Some(NegState::AcceptCompleted));
}

#[test]
fn a_client_with_a_useless_ticket_gets_the_error_and_one_more_try() {
    let mut acceptor = acceptor();
    ticket(acceptor.step(&init(&mech_list(&WINDOWS), Some(AP_REQ))));
    let again = || Err(TicketRefused::TryAgain(KRB_ERROR.to_vec()));
    let token = continued(acceptor.resume_ticket(again()));
    let resp = NegTokenResp::parse(&token).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::AcceptIncomplete));
    assert_eq!(resp.response_token, Some(KRB_ERROR));
    let second = NegTokenResp { response_token: Some(AP_REQ), ..NegTokenResp::default() }.encode();
    ticket(acceptor.step(&second));
    assert_eq!(acceptor.resume_ticket(again()).expect_err("twice"), AuthError::InvalidTicket);
    assert_eq!(acceptor.step(&second).expect_err("over"), AuthError::OutOfSequence);
}

#[test]
fn invalid_tickets_and_changed_lists_are_refused_at_once() {
    for (refused, want) in [
        (TicketRefused::Invalid, AuthError::InvalidTicket),
        (TicketRefused::TryAgain(Vec::new()), AuthError::InvalidTicket),
        (TicketRefused::BadMechListMic, AuthError::BadMechListMic),
    ] {
        let mut acceptor = acceptor();
        ticket(acceptor.step(&init(&mech_list(&WINDOWS), Some(AP_REQ))));
        assert_eq!(acceptor.resume_ticket(Err(refused)).expect_err("refused"), want);
        assert_eq!(acceptor.resume_ticket(Ok(accepted())).expect_err("over"), OVER);
    }
}

#[test]
fn only_offered_mechanisms_are_chosen() {
    let list = mech_list(&WINDOWS);
    let only_kerberos = Mechanisms { kerberos: true, ntlm: false };
    let hint = Acceptor::negotiate_hint(only_kerberos);
    let offered = NegTokenInit::parse(&hint).expect("sound").mech_list.to_vec();
    assert_eq!(offered, mech_list(&WINDOWS[..2]));
    let ntlm = init(&mech_list(&[MechType::Ntlm]), None);
    let error = offering(only_kerberos).step(&ntlm).expect_err("not offered");
    assert_eq!(error, AuthError::NoCommonMechanism);
    let negotiate = b"NTLMSSP\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    offering(only_kerberos).step(negotiate).expect_err("not offered without SPNEGO either");
    // Without Kerberos here, the client's list ends in NTLM, and must be signed.
    let mut without = offering(Mechanisms::default());
    let token = continued(without.step(&init(&list, Some(AP_REQ))));
    let resp = NegTokenResp::parse(&token).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::RequestMic));
    assert_eq!(resp.supported_mech, Some(MechType::Ntlm.oid()));
}

const OVER: AuthError = AuthError::OutOfSequence;

proptest! {
    #[test]
    fn any_tokens_in_any_order_do_no_harm(
        first: Vec<u8>,
        tokens in prop::collection::vec(any::<Vec<u8>>(), 0..4),
        mic: bool,
        another_first: bool,
    ) {
        let list = if another_first { list_with_another_first() } else { mech_list(&WINDOWS) };
        let mut acceptor = acceptor();
        let mut step = acceptor.step(&init(&list, Some(&first)));
        let mut tokens = tokens.into_iter();
        for _ in 0..16 {
            step = match step {
                Ok(Step::Ticket(ticket)) if ticket.token.len() % 2 == 0 => {
                    acceptor.resume_ticket(Ok(accepted()))
                }
                Ok(Step::Ticket(_)) => {
                    acceptor.resume_ticket(Err(TicketRefused::TryAgain(KRB_ERROR.to_vec())))
                }
                Ok(Step::Mic(_)) => acceptor.resume_mic(mic),
                Ok(Step::Continue(_)) => {
                    let Some(token) = tokens.next() else { break };
                    let resp = NegTokenResp {
                        response_token: Some(&token),
                        mech_list_mic: Some(&token[..token.len() / 2]).filter(|_| mic),
                        ..NegTokenResp::default()
                    };
                    acceptor.step(&resp.encode())
                }
                Ok(Step::Done(outcome)) => {
                    prop_assert_eq!(outcome.identity.user, "alice");
                    break;
                }
                Ok(Step::Account { .. }) | Err(_) => break,
            };
        }
    }
}
