//! The two logons of "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and
//! cryptographic keys": NTLM in SPNEGO with a MIC and a mechListMIC, password "Password01!".

use super::*;

const NEGOTIATE: &str =
    "4E544C4D5353500001000000978208E200000000000000000000000000000000060380250000000F";
const FLAGS: u32 = 0xE28A_8215;

struct Logon {
    challenge: &'static str,
    authenticate: &'static str,
    last: &'static str,
    session_key: &'static str,
}

const FIRST_CHANNEL: Logon = Logon {
    challenge: "4E544C4D53535000020000000C000C0038
        00000015828AE20D1D8BA31179D008000000000000000050005000440000000A0092270000000F53
        005500540033003100310002000C0053005500540033003100310001000C00530055005400330031
        00310004000C0053005500540033003100310003000C0053005500540033003100310007000800A1
        A1F5ADCBAED00100000000",
    authenticate: "A18201CB308201C7A0030A0101A28201AA048201A64E544C4D53535000030000
        001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E0000
        001000100096010000158288E2060380250000000FECAC77A5F385A8BF9C38C706EEEDDCD3530055
        005400330031003100610064006D0069006E006900730074007200610074006F0072004400520049
        0056004500520033003100310000000000000000000000000000000000000000000000000063078E
        B639FE03E20A231C3AE3BF23080101000000000000A1A1F5ADCBAED001BC4AD05F223CC90F000000
        0002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055
        00540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED001060004
        00020000000800300030000000000000000000000000300000B61FEFCAA857EA57BF1EDCEBF8974B
        8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A00100000000000000000000000000000000000090016
        0063006900660073002F005300550054003300310031000000000000000000000000003B9BDFF38F
        5EE8F9663F11A0F4C03A78A31204100100000063775A9A5FD97F0600000000",
    last: "A11B3019A0030A0100A3120410010000003B453CDC3524164200000000",
    session_key: "270E1BA896585EEB7AF3472D3B4C75A7",
};

const SECOND_CHANNEL: Logon = Logon {
    challenge: "4E544C4D53535000020000000C000C0038
        00000015828AE23823DA68E32D2FE1000000000000000050005000440000000A0092270000000F53
        005500540033003100310002000C0053005500540033003100310001000C00530055005400330031
        00310004000C0053005500540033003100310003000C005300550054003300310031000700080041
        3B42AECBAED00100000000",
    authenticate: "A18201CB308201C7A0030A0101A28201AA048201A64E544C4D53535000030000
        001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E0000
        001000100096010000158288E2060380250000000FED00E0F3D901F7B77E98071474F83009530055
        005400330031003100610064006D0069006E006900730074007200610074006F0072004400520049
        00560045005200330031003100000000000000000000000000000000000000000000000000A46794
        DA5D2033965D5339E1A675B79B0101000000000000413B42AECBAED0018E4D343661BA6A75000000
        0002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055
        00540033003100310003000C0053005500540033003100310007000800413B42AECBAED001060004
        00020000000800300030000000000000000000000000300000B61FEFCAA857EA57BF1EDCEBF8974B
        8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A00100000000000000000000000000000000000090016
        0063006900660073002F00530055005400330031003100000000000000000000000000C8C61D67CE
        697693891336917655DDD3A3120410010000005122F070A7314A9B00000000",
    last: "A11B3019A0030A0100A312041001000000CFB046FC5D368E2200000000",
    session_key: "84B9DBB730116A8FA6E9889555C265F9",
};

/// An acceptor that has sent the published challenge.
fn after(logon: &Logon) -> Acceptor {
    let challenge = hex::bytes(logon.challenge);
    let server_challenge = challenge[24..32].try_into().expect("8 bytes");
    let transcript = [hex::bytes(NEGOTIATE), challenge].concat();
    let mech_list = mech_list(&[MechType::Ntlm]);
    Acceptor {
        state: State::Authenticate,
        framing: Framing::Spnego {
            mech_list,
            mech_type: MechType::Ntlm,
            mic_required: false,
            is_sent: true,
        },
        mechanisms: Mechanisms::default(),
        ntlm: NtlmAcceptor::after(server_challenge, FLAGS, transcript),
    }
}

#[test]
fn published_logons_end_with_the_published_token_and_key() {
    for logon in [&FIRST_CHANNEL, &SECOND_CHANNEL] {
        let mut acceptor = after(logon);
        let step = acceptor.step(&hex::bytes(logon.authenticate)).expect("sound");
        let Step::Account { user, domain, workstation } = step else { panic!("{step:?}") };
        assert_eq!((&*user, &*domain, &*workstation), ("administrator", "SUT311", "DRIVER311"));
        let step = acceptor.resume(Some(NtHash::of_password("Password01!"))).expect("right");
        let Step::Done(outcome) = step else { panic!("{step:?}") };
        assert_eq!(outcome.session_key.as_bytes(), &hex::array(logon.session_key));
        assert_eq!(outcome.token, hex::bytes(logon.last));
    }
}

#[test]
fn published_logon_with_another_password_fails() {
    let mut acceptor = after(&FIRST_CHANNEL);
    acceptor.step(&hex::bytes(FIRST_CHANNEL.authenticate)).expect("sound");
    let error = acceptor.resume(Some(NtHash::of_password("Password01"))).expect_err("refused");
    assert_eq!(error, AuthError::WrongPassword);
}

/// The response to one logon's challenge proves nothing in the other logon.
#[test]
fn replayed_answer_is_a_wrong_password() {
    let mut acceptor = after(&SECOND_CHANNEL);
    acceptor.step(&hex::bytes(FIRST_CHANNEL.authenticate)).expect("sound");
    let error = acceptor.resume(Some(NtHash::of_password("Password01!"))).expect_err("refused");
    assert_eq!(error, AuthError::WrongPassword);
}

/// All bytes but the version are those that Windows sends to the same client.
#[test]
fn our_challenge_is_that_of_windows() {
    let name = || "SUT311".to_owned();
    let settings = AcceptorSettings {
        netbios_name: name(),
        netbios_domain: name(),
        dns_name: name(),
        dns_domain: name(),
        ..AcceptorSettings::default()
    };
    let mut acceptor =
        Acceptor::new(&settings, hex::array("0D1D8BA31179D008"), FileTime(0x01D0_AECB_ADF5_A1A1));
    let step = acceptor.step(&hex::bytes(NEGOTIATE)).expect("sound");
    let Step::Continue(mut challenge) = step else { panic!("{step:?}") };
    challenge[48..56].copy_from_slice(&hex::bytes("0A0092270000000F"));
    assert_eq!(challenge, hex::bytes(FIRST_CHANNEL.challenge));
}
