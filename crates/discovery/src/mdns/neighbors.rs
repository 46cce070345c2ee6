//! Keeps machines beyond the link from asking by multicast DNS.
//!
//! The library answers whoever sends a packet to the port, at the packet's source address: from
//! elsewhere, that shows the server to strangers, or floods a third party. RFC 6762 11 wants only
//! neighbors to be heard. No router forwards the group's packets, so those come from neighbors. A
//! response may come by unicast, and nothing answers it; that of a neighbor has the TTL 255.

use std::io;

use nix::libc;
use process::Instruction;

/// Port of multicast DNS: RFC 6762 3.
const PORT: u16 = 5_353;

/// Address of the group in IPv4, 224.0.0.251.
const GROUP_V4: u32 = 0xE000_00FB;

/// Address of the group in IPv6, ff02::fb.
const GROUP_V6: [u32; 4] = [0xFF02_0000, 0, 0, 0xFB];

/// Offsets beyond this one are those in the network header: SKF_NET_OFF of linux/filter.h. Others
/// begin at the header of UDP.
const IN_NETWORK_HEADER: u32 = 0xFFF0_0000;

/// First byte of the flags of DNS, behind the header of UDP and the message's id.
const DNS_FLAGS: u32 = 8 + 2;

/// QR of RFC 1035 4.1.1: the message is a response.
const IS_RESPONSE: u32 = 0x80;

/// Filters the library's sockets.
///
/// # Errors
/// The kernel refuses, or the library has no socket.
pub(super) fn admit_only_them() -> io::Result<()> {
    let v4 = program(&[(16, GROUP_V4)], 8);
    let v6 = program(&[24, 28, 32, 36].into_iter().zip(GROUP_V6).collect::<Vec<_>>(), 7);
    match process::filter_sockets(PORT, &v4, &v6)? {
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}

/// Makes a program that accepts packets whose words in the network header are those of the group,
/// and responses whose byte `ttl` there is 255.
fn program(group: &[(u32, u32)], ttl: u32) -> Vec<Instruction> {
    let response: [Instruction; 6] = [
        load(libc::BPF_B, DNS_FLAGS),
        compare(libc::BPF_JSET, IS_RESPONSE, (0, 3)),
        load(libc::BPF_B, IN_NETWORK_HEADER + ttl),
        compare(libc::BPF_JEQ, 255, (0, 1)),
        give(u32::MAX),
        give(0),
    ];
    let mut program = Vec::new();
    for (number, (offset, word)) in group.iter().enumerate() {
        let left = u8::try_from(group.len() - number - 1).expect("four at most");
        program.push(load(libc::BPF_W, IN_NETWORK_HEADER + offset));
        // Over the rest of the address, and the acceptance behind it.
        program.push(compare(libc::BPF_JEQ, *word, (0, 2 * left + 1)));
    }
    program.push(give(u32::MAX));
    program.extend(response);
    program
}

fn load(size: u32, offset: u32) -> Instruction {
    instruction(libc::BPF_LD | size | libc::BPF_ABS, (0, 0), offset)
}

fn compare(condition: u32, value: u32, skips: (u8, u8)) -> Instruction {
    instruction(libc::BPF_JMP | condition | libc::BPF_K, skips, value)
}

/// Accepts so many bytes of the packet; zero drops it.
fn give(bytes: u32) -> Instruction {
    instruction(libc::BPF_RET | libc::BPF_K, (0, 0), bytes)
}

fn instruction(code: u32, skips: (u8, u8), value: u32) -> Instruction {
    let code = u16::try_from(code).expect("codes have 16 bits");
    Instruction { code, skips, value }
}

#[cfg(test)]
mod tests {
    use super::{GROUP_V4, Instruction, program};

    /// Runs a program on a packet, as far as ours need it. Returns whether it is accepted.
    fn accepts(program: &[Instruction], network: &[u8], udp: &[u8]) -> bool {
        let (mut at, mut value) = (0, 0);
        loop {
            let Instruction { code, skips, value: operand } = program[at];
            at += 1;
            let from = |length: usize| {
                let (bytes, offset) = match operand >= super::IN_NETWORK_HEADER {
                    true => (network, operand - super::IN_NETWORK_HEADER),
                    false => (udp, operand),
                };
                let start = usize::try_from(offset).expect("an offset");
                let bytes = &bytes[start..start + length];
                bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
            };
            let holds = match code {
                0x20 => {
                    value = from(4);
                    continue;
                }
                0x30 => {
                    value = from(1);
                    continue;
                }
                0x15 => value == operand,
                0x45 => value & operand != 0,
                0x06 => return operand != 0,
                other => panic!("no instruction {other:#x}"),
            };
            at += usize::from(if holds { skips.0 } else { skips.1 });
        }
    }

    #[test]
    fn questions_count_if_they_go_to_the_group_and_responses_if_they_come_from_neighbors() {
        let program = program(&[(16, GROUP_V4)], 8);
        for (to, ttl, flags, want) in [
            ([224, 0, 0, 251], 255, 0, true),
            ([224, 0, 0, 251], 1, 0x84, true),
            ([192, 0, 2, 1], 255, 0, false),
            ([192, 0, 2, 1], 255, 0x84, true),
            ([192, 0, 2, 1], 254, 0x84, false),
            ([224, 0, 0, 252], 255, 0, false),
        ] {
            let mut network = [0; 20];
            network[8] = ttl;
            network[16..].copy_from_slice(&to);
            let mut udp = [0; 20];
            udp[10] = flags;
            assert_eq!(accepts(&program, &network, &udp), want, "{to:?} {ttl} {flags:#x}");
        }
    }

    #[test]
    fn the_whole_address_of_ipv6_counts() {
        let words: Vec<_> = [24, 28, 32, 36].into_iter().zip(super::GROUP_V6).collect();
        let program = program(&words, 7);
        let group = [0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFB];
        let mut network = [0; 40];
        network[24..].copy_from_slice(&group);
        assert!(accepts(&program, &network, &[0; 20]));
        for byte in 24..40 {
            let mut other = network;
            other[byte] ^= 1;
            assert!(!accepts(&program, &other, &[0; 20]), "{byte}");
        }
    }
}
