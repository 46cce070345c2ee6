//! Questions of LLMNR, and the answer to each.
#![no_main]

use discovery::llmnr::{QUERY_BYTES_MAX, Query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(query) = Query::parse(input) {
        assert!(input.len() <= QUERY_BYTES_MAX);
        assert!((1..64).contains(&query.name().len()));
        let addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let answer = query.answer(&addresses);
        assert!(answer.len() <= input.len() + 16 + 28, "no larger than two addresses make it");
        assert!(Query::parse(&answer).is_none(), "an answer is no question");
    }
});
