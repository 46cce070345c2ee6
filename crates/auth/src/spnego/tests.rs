//! Tokens of Windows, from the messages that Microsoft published for SMB 3.1.1.

use super::{MechType, NegState, NegTokenInit, NegTokenResp, mech_list, neg_token_init2};
use crate::error::AuthError;
use crate::hex;

const INIT: &str = "604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
    04284E544C4D5353500001000000978208E200000000000000000000000000000000060380250000000F";
const FINAL: &str = "A11B3019A0030A0100A3120410010000003B453CDC3524164200000000";

#[test]
fn initial_token_of_windows() {
    let token = hex::bytes(INIT);
    let init = NegTokenInit::parse(&token).expect("parses");
    assert_eq!(init.mech_list, mech_list(&[MechType::Ntlm]));
    assert_eq!(init.mech_token, Some(&token[token.len() - 40..]));
    assert_eq!(init.choose(|_| true), Ok(Some((0, MechType::Ntlm))));
    assert_eq!(init.choose(MechType::is_kerberos), Ok(None));
    assert_eq!(init.encode(), token);
}

#[test]
fn final_token_of_windows() {
    let token = hex::bytes(FINAL);
    let resp = NegTokenResp::parse(&token).expect("parses");
    assert_eq!(resp.neg_state, Some(NegState::AcceptCompleted));
    let mic = hex::bytes("010000003B453CDC3524164200000000");
    assert_eq!(resp.mech_list_mic, Some(&mic[..]));
    assert_eq!((resp.response_token, resp.supported_mech), (None, None));
    assert_eq!(resp.encode(), token);
}

#[test]
fn kerberos_first_ranks_ntlm_behind_it() {
    let list = mech_list(&[MechType::MicrosoftKerberos, MechType::Kerberos, MechType::Ntlm]);
    let token = NegTokenInit { mech_list: &list, mech_token: Some(b"AP-REQ") }.encode();
    let init = NegTokenInit::parse(&token).expect("parses");
    assert_eq!(init.choose(|it| it == MechType::Ntlm), Ok(Some((2, MechType::Ntlm))));
    assert_eq!(init.choose(|_| true), Ok(Some((0, MechType::MicrosoftKerberos))));
}

/// The bytes that Samba and Windows send: a token with one mechanism and the hint.
#[test]
fn offer_of_ntlm_is_that_of_others() {
    let want = "604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA32A3028A0261B24
        6E6F745F646566696E65645F696E5F5246433431373840706C656173655F69676E6F7265";
    assert_eq!(neg_token_init2(&[MechType::Ntlm]), hex::bytes(want));
}

#[test]
fn every_prefix_is_an_error() {
    for token in [hex::bytes(INIT), hex::bytes(FINAL)] {
        for len in 0..token.len() {
            assert!(NegTokenInit::parse(&token[..len]).is_err(), "{len}");
            assert!(NegTokenResp::parse(&token[..len]).is_err(), "{len}");
        }
    }
}

#[test]
fn another_mechanism_than_spnego_is_named() {
    let mut token = hex::bytes(INIT);
    token[9] = 0x03;
    assert_eq!(NegTokenInit::parse(&token), Err(AuthError::NoCommonMechanism));
}

#[test]
fn unknown_neg_state_is_refused() {
    let mut token = hex::bytes(FINAL);
    token[8] = 4;
    assert_eq!(NegTokenResp::parse(&token), Err(AuthError::Malformed("an unknown negState")));
}
