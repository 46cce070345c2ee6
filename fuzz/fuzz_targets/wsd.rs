//! Requests of WS-Discovery: alone, and in a request of HTTP.
#![no_main]

use discovery::wsd::Request;
use discovery::wsd::http::{self, Progress};
use discovery::wsd::message::{Host, Identity, metadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input);
    if let Progress::Whole(message) = http::parse(input, "/id") {
        assert!(message.len() < input.len());
        read(message);
    }
});

fn read(message: &[u8]) {
    let Some(request) = Request::parse(message) else { return };
    // Text of a request that is repeated in the answer needs no escape there.
    assert!(!request.message_id.contains(['<', '>', '&', '"', '\'', ' ']));
    let host = Host {
        uuid: "0a6dc791-2be6-4991-9af1-454778a1917a".to_owned(),
        name: "NAS".to_owned(),
        workgroup: "OFFICE".to_owned(),
        instance: 1,
    };
    let identity = Identity { uuid: host.uuid.clone(), number: 1 };
    let answer = metadata(&host, &identity, request.message_id);
    assert!(answer.contains(request.message_id));
}
