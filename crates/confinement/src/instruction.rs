//! Instructions of a filter: linux/filter.h, linux/seccomp.h.

use libc::sock_filter;

/// A jump over as many instructions as its value says.
pub(crate) const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;

/// Makes an instruction. `skips` are those of a comparison: if it holds, and if not.
pub(crate) fn instruction(code: u32, skips: (u8, u8), value: u32) -> sock_filter {
    let code = u16::try_from(code).expect("codes have 16 bits");
    sock_filter { code, jt: skips.0, jf: skips.1, k: value }
}

/// Loads four bytes of the call: `seccomp_data` of linux/seccomp.h.
pub(crate) fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), offset)
}

/// Ends the filter with a value of seccomp(2).
pub(crate) fn return_value(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, (0, 0), value)
}

/// Runs instructions as the kernel does for a call of this processor; returns their value.
#[cfg(test)]
pub(crate) fn run(instructions: &[sock_filter], number: u32, arguments: [u64; 6]) -> u32 {
    follow(instructions, number, arguments).0
}

/// As [`run`], with the number of instructions that were run.
#[cfg(test)]
pub(crate) fn follow(
    instructions: &[sock_filter],
    number: u32,
    arguments: [u64; 6],
) -> (u32, usize) {
    let mut call = vec![number, crate::filter::ARCHITECTURE, 0, 0];
    let halves = |it: u64| [it & u64::from(u32::MAX), it >> 32];
    let halves = arguments.into_iter().flat_map(halves);
    call.extend(halves.map(|it| u32::try_from(it).expect("a half has 32 bits")));
    let (mut place, mut value, mut count) = (0, 0, 0);
    loop {
        let it = &instructions[place];
        let offset = usize::try_from(it.k).expect("64 bits");
        count += 1;
        let holds = match u32::from(it.code) {
            code if code == libc::BPF_RET | libc::BPF_K => return (it.k, count),
            code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                value = call[offset / 4];
                None
            }
            code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                value &= it.k;
                None
            }
            code if code == JUMP => {
                place += offset;
                None
            }
            code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => Some(value == it.k),
            code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => Some(value >= it.k),
            code => panic!("no filter here has {code:#x}"),
        };
        place += 1 + holds.map_or(0, |holds| usize::from(if holds { it.jt } else { it.jf }));
    }
}
