//! SPNEGO and NTLM tokens of a client, one after the other.
#![no_main]

use auth::{Acceptor, AcceptorSettings, NtHash, Step};
use dtyp::FileTime;
use libfuzzer_sys::fuzz_target;
use testkit::seeds::split;

fuzz_target!(|input: &[u8]| {
    let settings = AcceptorSettings {
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
        let goes_on = matches!(step, Ok(Step::Continue(_)));
        steps += usize::from(goes_on);
        assert!(steps <= 4, "a logon ends");
        let _ = acceptor.guest_token();
        if !goes_on {
            acceptor.step(token).expect_err("the machine is finished");
        }
    }
});
