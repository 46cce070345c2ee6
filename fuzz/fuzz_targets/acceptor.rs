//! SPNEGO, NTLM and Kerberos tokens of a client, one after the other. Tickets are valid or not by
//! their length.
#![no_main]

use auth::{
    Acceptor, AcceptorSettings, Mechanisms, NtHash, SessionKey, Step, Ticket, TicketAccepted,
    TicketRefused,
};
use dtyp::FileTime;
use libfuzzer_sys::fuzz_target;
use testkit::seeds::split;

fn check(ticket: &Ticket) -> Result<TicketAccepted, TicketRefused> {
    match ticket.token.len() % 4 {
        0 => Err(TicketRefused::TryAgain(b"KRB-ERROR".to_vec())),
        1 => Err(TicketRefused::Invalid),
        _ => Ok(TicketAccepted {
            token: b"AP-REP".to_vec(),
            session_key: SessionKey::from_slice(&[7; 32]).expect("32 bytes"),
            mech_list_mic: b"MIC".to_vec(),
            context: 1,
            user: "alice".into(),
            domain: "LAB".into(),
        }),
    }
}

fuzz_target!(|input: &[u8]| {
    let kerberos = input.first().is_some_and(|byte| byte % 2 == 1);
    let settings = AcceptorSettings {
        mechanisms: Mechanisms { kerberos, ntlm: true },
        is_member: kerberos,
        netbios_name: "SERVER".into(),
        netbios_domain: "CHORO".into(),
        dns_name: "server.example".into(),
        dns_domain: "example".into(),
    };
    let mut acceptor = Acceptor::new(&settings, [7; 8], FileTime(116_444_736_000_000_000));
    let mut steps = 0;
    for token in split(input) {
        let mut step = acceptor.step(token);
        if let Ok(Step::Account { user, .. }) = &step {
            let known = user.len() % 2 == 1;
            step = acceptor.resume(known.then(|| NtHash::new([1; 16])));
        }
        // A MIC may follow a ticket, and a ticket a useless one.
        for _ in 0..2 {
            step = match step {
                Ok(Step::Ticket(ticket)) => acceptor.resume_ticket(check(&ticket)),
                Ok(Step::Mic(mic)) => acceptor.resume_mic(mic.mech_list_mic.len() % 2 == 0),
                step => step,
            };
        }
        let goes_on = matches!(step, Ok(Step::Continue(_)));
        steps += usize::from(goes_on);
        assert!(steps <= 4, "a logon ends");
        let _ = acceptor.guest_token();
        if !goes_on {
            acceptor.step(token).expect_err("the machine is finished");
        }
    }
});
