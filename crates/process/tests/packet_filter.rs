//! A filter on sockets of this process. It duplicates each descriptor for a moment, so no other
//! test may run in the process.

use std::net::UdpSocket;

use process::{Instruction, filter_sockets};

#[test]
#[expect(clippy::cast_possible_truncation, reason = "all codes have 16 bits")]
fn a_socket_gets_accepted_packets_only_and_others_get_all() {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let address = |socket: &UdpSocket| socket.local_addr().expect("it is bound");
    // Accepts packets that begin with `y`, behind the header of UDP.
    let program = [
        ((libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16, (0, 0), 8),
        ((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, (0, 1), u32::from(b'y')),
        ((libc::BPF_RET | libc::BPF_K) as u16, (0, 0), u32::MAX),
        ((libc::BPF_RET | libc::BPF_K) as u16, (0, 0), 0),
    ]
    .map(|(code, skips, value)| Instruction { code, skips, value });
    let count = filter_sockets(address(&one).port(), &program, &[]);
    assert_eq!(count.expect("the program is valid"), 1);
    for socket in [&one, &other] {
        for text in [b"no", b"y1", b"y2"] {
            other.send_to(text, address(socket)).expect("it is sent");
        }
    }
    let received = |socket: &UdpSocket| {
        let mut text = [0; 2];
        socket.recv(&mut text).expect("some were accepted");
        text
    };
    assert_eq!([received(&one), received(&one)], [*b"y1", *b"y2"]);
    assert_eq!(received(&other), *b"no");
}
