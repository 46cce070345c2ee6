//! SPNEGO and NTLM tokens of a server, one after the other, in each wrapping.
#![no_main]

use auth::{Credentials, Framing, Initiator, Randomness};
use dtyp::FileTime;
use libfuzzer_sys::fuzz_target;
use testkit::seeds::split;

fuzz_target!(|input: &[u8]| {
    for framing in [Framing::Raw, Framing::Spnego, Framing::SpnegoAfterKerberos] {
        let randomness = Randomness { client_challenge: [1; 8], session_key: [2; 16] };
        let credentials = Credentials::password("alice", "CHORO", "secret");
        let mut initiator =
            Initiator::new(credentials, randomness, FileTime(116_444_736_000_000_000), framing);
        let _ = initiator.start().expect("a new machine");
        let mut has_key = false;
        for token in split(input) {
            if has_key {
                let _ = initiator.finish(token);
                break;
            }
            match initiator.step(token) {
                Ok(reply) => has_key = reply.session_key.is_some(),
                Err(_) => break,
            }
        }
    }
});
