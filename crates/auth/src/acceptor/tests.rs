//! Exchanges of acceptor and initiator, and those that Microsoft published for SMB 3.1.1.

use dtyp::FileTime;
use proptest::prelude::*;

use super::{Acceptor, AcceptorSettings, Framing, IdentityKind, Mechanisms, Outcome, State, Step};
use crate::error::AuthError;
use crate::hex;
use crate::initiator::{self, Credentials, Initiator, Randomness};
use crate::nt_hash::NtHash;
use crate::ntlm::acceptor::NtlmAcceptor;
use crate::spnego::{MechType, NegState, NegTokenInit, NegTokenResp, mech_list};

mod kerberos;
mod published;

const FRAMINGS: [initiator::Framing; 3] =
    [initiator::Framing::Raw, initiator::Framing::Spnego, initiator::Framing::SpnegoAfterKerberos];
const NOW: FileTime = FileTime(0x01D0_AECB_ADF5_A1A1);

fn settings() -> AcceptorSettings {
    AcceptorSettings {
        netbios_name: "FILES".into(),
        netbios_domain: "WORKGROUP".into(),
        dns_name: "files.example.org".into(),
        dns_domain: "example.org".into(),
        ..AcceptorSettings::default()
    }
}

fn acceptor() -> Acceptor {
    Acceptor::new(&settings(), *b"8 random", NOW)
}

fn initiator(credentials: Credentials, framing: initiator::Framing) -> Initiator {
    let randomness = Randomness { client_challenge: *b"client's", session_key: [0x42; 16] };
    Initiator::new(credentials.from_workstation("LAPTOP"), randomness, NOW, framing)
}

fn alice() -> Credentials {
    Credentials::password("Alice", "WORKGROUP", "secret")
}

/// Runs the exchange until the acceptor has the client's last token, which `change` may alter.
#[track_caller]
fn exchange(
    acceptor: &mut Acceptor,
    initiator: &mut Initiator,
    change: impl Fn(&mut Vec<u8>),
) -> Result<Step, AuthError> {
    let mut token = initiator.start().expect("starts");
    for _ in 0..3 {
        let Step::Continue(answer) = acceptor.step(&token)? else { panic!("nobody is known yet") };
        let reply = initiator.step(&answer).expect("the acceptor's tokens are sound");
        token = reply.token;
        if reply.session_key.is_some() {
            change(&mut token);
            return acceptor.step(&token);
        }
    }
    panic!("the exchange has an end")
}

/// As [`exchange`], and resumes with the account's hash.
#[track_caller]
fn log_on(
    credentials: Credentials,
    framing: initiator::Framing,
    account: Option<&str>,
) -> Result<Outcome, AuthError> {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(credentials, framing));
    let mut step = exchange(&mut acceptor, &mut initiator, |_| {})?;
    if let Step::Account { .. } = step {
        step = acceptor.resume(account.map(NtHash::of_password))?;
    }
    let Step::Done(outcome) = step else { panic!("nothing is left to do") };
    initiator.finish(&outcome.token).expect("the initiator believes it");
    Ok(outcome)
}

#[test]
fn user_with_the_right_password_is_known_and_shares_a_key() {
    for framing in FRAMINGS {
        let outcome = log_on(alice(), framing, Some("secret")).expect("the right password");
        assert_eq!(outcome.identity.user, "Alice");
        assert_eq!(outcome.identity.domain, "WORKGROUP");
        assert_eq!(outcome.identity.workstation, "LAPTOP");
        assert_eq!(outcome.identity.kind, IdentityKind::User);
        assert_eq!(outcome.session_key.as_bytes(), &[0x42; 16], "{framing:?}");
        assert_eq!(outcome.token.is_empty(), framing == initiator::Framing::Raw);
    }
}

#[test]
fn account_is_asked_for_by_the_names_sent() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[1]));
    let step = exchange(&mut acceptor, &mut initiator, |_| {}).expect("goes on");
    let Step::Account { user, domain, workstation } = step else { panic!("{step:?}") };
    assert_eq!((&*user, &*domain, &*workstation), ("Alice", "WORKGROUP", "LAPTOP"));
}

#[test]
fn wrong_password_and_unknown_user_differ_only_in_their_reason() {
    for framing in FRAMINGS {
        let wrong = log_on(alice(), framing, Some("Secret")).expect_err("refused");
        let unknown = log_on(alice(), framing, None).expect_err("refused");
        assert_eq!(wrong, AuthError::WrongPassword);
        assert_eq!(unknown, AuthError::NoSuchUser);
        assert_eq!(wrong.status(), unknown.status());
    }
}

/// The key of a missing account is known to every client.
#[test]
fn an_unknown_user_is_refused_with_any_proof() {
    let nobody = Credentials::hash("Alice", "WORKGROUP", NtHash::new([0; 16]));
    assert_eq!(log_on(nobody, FRAMINGS[1], None).expect_err("refused"), AuthError::NoSuchUser);
}

#[test]
fn anonymous_needs_no_account() {
    for framing in FRAMINGS {
        let outcome = log_on(Credentials::anonymous(), framing, None).expect("anonymous");
        assert_eq!(outcome.identity.kind, IdentityKind::Anonymous);
        assert_eq!(outcome.identity.user, "");
        assert_eq!(outcome.session_key.as_bytes(), &[0x42; 16]);
    }
}

/// Without a name no account can be looked up, with or without a response.
#[test]
fn user_without_a_name_is_an_account_like_others() {
    let credentials = Credentials::password("", "", "secret");
    let error = log_on(credentials, FRAMINGS[1], None).expect_err("refused");
    assert_eq!(error, AuthError::NoSuchUser);
}

/// [MS-NLMP] 3.2.5.1.2: some clients leave the domain out of the key, or compute with another case
/// than they send.
#[test]
fn domain_counts_as_sent_in_upper_case_and_empty() {
    for (computed, sent, known) in [
        ("workgroup", "workgroup", true),
        ("WORKGROUP", "workgroup", true),
        ("", "WORKGROUP", true),
        ("workgroup", "WORKGROUP", false),
        ("OTHER", "WORKGROUP", false),
    ] {
        let (mut acceptor, mut initiator) =
            (acceptor(), initiator(Credentials::password("a", computed, "p"), FRAMINGS[0]));
        // The proof has the domain in its key, not in its bytes; without a MIC it can be replaced,
        // which imitates these clients.
        let replace = |token: &mut Vec<u8>| {
            let offset = u32::try_from(token.len()).expect("short").to_le_bytes();
            let name = crate::ntlm::layout::unicode(sent);
            let len = u16::try_from(name.len()).expect("short").to_le_bytes();
            token.extend(name);
            token[28..30].copy_from_slice(&len);
            token[32..36].copy_from_slice(&offset);
        };
        exchange(&mut acceptor, &mut initiator, replace).expect("goes on");
        let result = acceptor.resume(Some(NtHash::of_password("p")));
        let error = result.expect_err("the MIC does not match any more");
        let want = if known { AuthError::BadMic } else { AuthError::WrongPassword };
        assert_eq!(error, want, "{computed} {sent}");
    }
}

#[test]
fn changed_mic_is_a_bad_mic() {
    for at in 72..88 {
        let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[0]));
        exchange(&mut acceptor, &mut initiator, |token| token[at] ^= 1).expect("goes on");
        let error = acceptor.resume(Some(NtHash::of_password("secret"))).expect_err("refused");
        assert_eq!(error, AuthError::BadMic);
    }
}

#[test]
fn changed_flags_are_a_bad_mic() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[0]));
    exchange(&mut acceptor, &mut initiator, |token| token[60] ^= 0x10).expect("goes on");
    let error = acceptor.resume(Some(NtHash::of_password("secret"))).expect_err("refused");
    assert_eq!(error, AuthError::BadMic);
}

#[test]
fn changed_mech_list_mic_is_refused() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[1]));
    let change = |token: &mut Vec<u8>| *token.last_mut().expect("the MIC is last") ^= 1;
    exchange(&mut acceptor, &mut initiator, change).expect("goes on");
    let error = acceptor.resume(Some(NtHash::of_password("secret"))).expect_err("refused");
    assert_eq!(error, AuthError::BadMechListMic);
}

/// An attacker removes Kerberos from the list: the client signs the list that it sent, the acceptor
/// verifies the list that it received.
#[test]
fn mechanisms_removed_on_the_way_are_noticed() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[2]));
    initiator.start().expect("starts");
    let only_ntlm = mech_list(&[MechType::Ntlm]);
    let init = NegTokenInit { mech_list: &only_ntlm, mech_token: None }.encode();
    let Ok(Step::Continue(selection)) = acceptor.step(&init) else { panic!("NTLM is spoken") };
    let negotiate = initiator.step(&selection).expect("goes on").token;
    let Ok(Step::Continue(challenge)) = acceptor.step(&negotiate) else { panic!("goes on") };
    let authenticate = initiator.step(&challenge).expect("goes on").token;
    acceptor.step(&authenticate).expect("goes on");
    let error = acceptor.resume(Some(NtHash::of_password("secret"))).expect_err("refused");
    assert_eq!(error, AuthError::BadMechListMic);
}

#[test]
fn a_missing_mech_list_mic_is_refused_if_it_is_required() {
    for (framing, want) in [(FRAMINGS[1], None), (FRAMINGS[2], Some(AuthError::MechListMicMissing))]
    {
        let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), framing));
        let remove = |token: &mut Vec<u8>| {
            let resp = NegTokenResp::parse(token).expect("sound");
            *token = NegTokenResp { mech_list_mic: None, ..resp }.encode();
        };
        exchange(&mut acceptor, &mut initiator, remove).expect("goes on");
        let result = acceptor.resume(Some(NtHash::of_password("secret")));
        assert_eq!(result.err(), want, "{framing:?}");
    }
}

#[test]
fn kerberos_first_is_answered_with_ntlm_and_a_request_for_the_mic() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[2]));
    let token = initiator.start().expect("starts");
    let Ok(Step::Continue(answer)) = acceptor.step(&token) else { panic!("goes on") };
    let resp = NegTokenResp::parse(&answer).expect("sound");
    assert_eq!(resp.neg_state, Some(NegState::RequestMic));
    assert_eq!(resp.supported_mech, Some(MechType::Ntlm.oid()));
    assert_eq!(resp.response_token, None);
}

#[test]
fn clients_without_ntlm_are_told_so() {
    let list = mech_list(&[MechType::MicrosoftKerberos, MechType::Kerberos]);
    let token = NegTokenInit { mech_list: &list, mech_token: Some(b"AP-REQ") }.encode();
    assert_eq!(acceptor().step(&token).expect_err("refused"), AuthError::NoCommonMechanism);
}

#[test]
fn every_prefix_of_every_token_is_refused() {
    for framing in FRAMINGS {
        let mut tokens = Vec::new();
        let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), framing));
        let mut token = initiator.start().expect("starts");
        while let Step::Continue(answer) = acceptor.step(&token).expect("goes on") {
            tokens.push(token);
            token = initiator.step(&answer).expect("goes on").token;
        }
        tokens.push(token);
        for cut in 0..tokens.len() {
            for len in 0..tokens[cut].len() {
                let result = feed(&tokens[..cut], &tokens[cut][..len]);
                // A raw NEGOTIATE_MESSAGE may end after its flags, as those of old clients do.
                let complete = framing == initiator::Framing::Raw && cut == 0 && len >= 16;
                assert_eq!(result.is_ok(), complete, "{framing:?} token {cut} cut at {len}");
            }
        }
    }
}

/// Gives tokens to a new acceptor, and then a last one.
fn feed(tokens: &[Vec<u8>], last: &[u8]) -> Result<Step, AuthError> {
    let mut acceptor = acceptor();
    for token in tokens {
        acceptor.step(token)?;
    }
    let step = acceptor.step(last)?;
    match step {
        Step::Account { .. } => acceptor.resume(Some(NtHash::of_password("secret"))),
        step => Ok(step),
    }
}

#[test]
fn finished_machine_takes_nothing() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[1]));
    let account = || Some(NtHash::of_password("secret"));
    assert_eq!(acceptor.resume(account()).expect_err("nobody asked"), AuthError::OutOfSequence);
    let mut acceptor = self::acceptor();
    exchange(&mut acceptor, &mut initiator, |_| {}).expect("goes on");
    acceptor.resume(account()).expect("the right password");
    assert_eq!(acceptor.resume(account()).expect_err("over"), AuthError::OutOfSequence);
    assert_eq!(acceptor.step(b"NTLMSSP\0").expect_err("over"), AuthError::OutOfSequence);
}

/// Found by the fuzzer: after a refused first token without SPNEGO, a second one was accepted.
#[test]
fn a_refused_first_token_is_the_last() {
    let bare = initiator(alice(), initiator::Framing::Raw).start().expect("a new machine");
    for refused in [&b"NTLMSSP\0"[..], b"\x60\x00", b""] {
        let mut acceptor = acceptor();
        acceptor.step(refused).expect_err("no token of any kind");
        assert_eq!(acceptor.step(&bare).expect_err("over"), AuthError::OutOfSequence);
        assert_eq!(acceptor.step(refused).expect_err("over"), AuthError::OutOfSequence);
    }
}

#[test]
fn token_while_the_account_is_looked_for_ends_it() {
    let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[1]));
    exchange(&mut acceptor, &mut initiator, |_| {}).expect("goes on");
    assert_eq!(acceptor.step(&[]).expect_err("refused"), AuthError::OutOfSequence);
    let account = Some(NtHash::of_password("secret"));
    assert_eq!(acceptor.resume(account).expect_err("over"), AuthError::OutOfSequence);
}

#[test]
fn tokens_are_bounded() {
    let token = vec![0x60; super::TOKEN_BYTES_MAX + 1];
    let error = acceptor().step(&token).expect_err("refused");
    assert_eq!(error, AuthError::TooLong(token.len()));
    let mut negotiate = b"NTLMSSP\0\x01\0\0\0\x01\0\0\0".to_vec();
    negotiate.resize(16 * 1_024, 0);
    acceptor().step(&negotiate).expect("the longest there may be");
    negotiate.push(0);
    assert_eq!(acceptor().step(&negotiate).expect_err("refused"), AuthError::TooLong(16_385));
}

#[test]
fn a_name_that_may_be_of_several_accounts_needs_the_password_of_one() {
    let hash = |password: &str| Some(NtHash::of_password(password));
    for (accounts, want) in [
        (vec![None, hash("other"), hash("secret"), hash("secret")], Ok(2)),
        (vec![hash("secret"), hash("other")], Ok(0)),
        (vec![None, hash("other")], Err(AuthError::WrongPassword)),
        (vec![None, None], Err(AuthError::NoSuchUser)),
        (vec![], Err(AuthError::NoSuchUser)),
    ] {
        let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), FRAMINGS[1]));
        exchange(&mut acceptor, &mut initiator, |_| {}).expect("goes on");
        let response = acceptor.response().expect("it is next");
        let verified = response.verify(&accounts);
        assert_eq!(verified.as_ref().map(|(account, _)| *account).map_err(|it| *it), want);
        let Ok((_, key)) = verified else { continue };
        let step = acceptor.resume_with_key(&key).expect("the proof was right");
        assert!(matches!(step, Step::Done(_)), "{step:?}");
    }
}

#[test]
fn guests_get_a_last_token_without_a_mic() {
    for (framing, want) in [(FRAMINGS[0], ""), (FRAMINGS[1], "A1073005A0030A0100")] {
        let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), framing));
        exchange(&mut acceptor, &mut initiator, |_| {}).expect("goes on");
        acceptor.resume(None).expect_err("there is no Alice");
        assert_eq!(acceptor.guest_token(), hex::bytes(want));
        initiator.finish(&acceptor.guest_token()).expect("the initiator believes it");
    }
}

#[test]
fn offer_is_understood_by_its_own_reader() {
    let offer = Acceptor::negotiate_hint(Mechanisms::default());
    let init = NegTokenInit::parse(&offer).expect("sound");
    assert_eq!(init.mech_list, mech_list(&[MechType::Ntlm]));
    assert_eq!(init.mech_token, None);
}

proptest! {
    #[test]
    fn random_tokens_do_no_harm(token: Vec<u8>) {
        for prefix in [&b""[..], b"NTLMSSP\0\x01\0\0\0", b"\x60\x82\x01\x00", b"\xA1\x82\x01\x00"] {
            let _ = acceptor().step(&[prefix, &token].concat());
            let _ = kerberos::acceptor().step(&[prefix, &token].concat());
        }
    }

    #[test]
    fn changed_tokens_do_no_harm_and_authenticate_nobody_else(
        framing in prop::sample::select(&FRAMINGS[..]),
        at: prop::sample::Index,
        value: u8,
        cut: prop::sample::Index,
    ) {
        let (mut acceptor, mut initiator) = (acceptor(), initiator(alice(), framing));
        let change = |token: &mut Vec<u8>| {
            let at = at.index(token.len());
            token[at] = value;
            if cut.index(4) == 0 {
                token.truncate(cut.index(token.len()));
            }
        };
        let step = match exchange(&mut acceptor, &mut initiator, change) {
            Ok(Step::Account { .. }) => acceptor.resume(Some(NtHash::of_password("secret"))),
            step => step,
        };
        if let Ok(Step::Done(outcome)) = step {
            prop_assert_eq!(outcome.identity.user, "Alice");
            prop_assert_eq!(outcome.session_key.as_bytes(), &[0x42; 16]);
        }
    }
}
