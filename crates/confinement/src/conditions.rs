//! The instructions that verify the arguments of a call.

use libc::sock_filter;

use crate::arguments::{Alternative, Argument, OWN_PROCESS};
use crate::instruction::{instruction, load, return_value};

/// Target of a comparison on an argument.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The instruction behind the comparison.
    Next,
    /// The first instruction of an alternative, or the end if there is none.
    Alternative(usize),
    /// The end that allows the call.
    Allow,
}

/// An instruction, and its targets if it is a comparison: if it holds, and if not.
type Line = (sock_filter, Option<(Target, Target)>);

/// Makes the instructions that allow a call if one of the alternatives holds. Else they return
/// `outside`.
///
/// # Errors
/// The alternatives need more instructions than a comparison can skip.
pub(crate) fn conditions(
    alternatives: &[Alternative],
    outside: u32,
) -> Result<Vec<sock_filter>, String> {
    let mut lines: Vec<Line> = Vec::new();
    let mut starts = Vec::new();
    // The argument whose lower half is loaded at the start of an alternative.
    let mut loaded = None;
    for (index, alternative) in alternatives.iter().enumerate() {
        starts.push(lines.len());
        for (place, argument) in alternative.iter().enumerate() {
            let is_last = place + 1 == alternative.len();
            let holds = if is_last { Target::Allow } else { Target::Next };
            verify(argument, (holds, Target::Alternative(index + 1)), &mut loaded, &mut lines);
        }
        if alternative.len() > 1 {
            loaded = None;
        }
    }
    let end = lines.len();
    let offset = |place: usize, target| {
        let to = match target {
            Target::Next => place + 1,
            Target::Alternative(index) => starts.get(index).copied().unwrap_or(end),
            Target::Allow => end + 1,
        };
        u8::try_from(to - place - 1).map_err(|_| "too many conditions on a call".to_owned())
    };
    let mut instructions = Vec::new();
    for (place, (mut it, targets)) in lines.into_iter().enumerate() {
        if let Some((holds, fails)) = targets {
            (it.jt, it.jf) = (offset(place, holds)?, offset(place, fails)?);
        }
        instructions.push(it);
    }
    instructions.extend([return_value(outside), return_value(libc::SECCOMP_RET_ALLOW)]);
    Ok(instructions)
}

/// Offset of the first argument in linux/seccomp.h's `seccomp_data`; the lower half comes first on
/// both processors.
const ARGUMENTS_OFFSET: u32 = 16;
const ARGUMENT_LEN: u32 = 8;
const HALF_LEN: u32 = 4;

/// Adds the lines that verify one argument.
fn verify(
    argument: &Argument,
    (holds, fails): (Target, Target),
    loaded: &mut Option<u8>,
    lines: &mut Vec<Line>,
) {
    let compare = |comparison: u32, value: u32, holds: Target| {
        let it = instruction(libc::BPF_JMP | comparison | libc::BPF_K, (0, 0), value);
        (it, Some((holds, fails)))
    };
    let offset = |position: u8| ARGUMENTS_OFFSET + u32::from(position) * ARGUMENT_LEN;
    let mut load_lower = |position: u8, lines: &mut Vec<Line>| {
        if loaded.replace(position) != Some(position) {
            lines.push((load(offset(position)), None));
        }
    };
    match *argument {
        Argument::Is(position, value) => {
            load_lower(position, lines);
            lines.push(compare(libc::BPF_JEQ, value, holds));
        }
        Argument::OwnProcess(position) => {
            load_lower(position, lines);
            lines.push(compare(libc::BPF_JEQ, OWN_PROCESS, holds));
        }
        Argument::AtLeast(position, value) => {
            load_lower(position, lines);
            lines.push(compare(libc::BPF_JGE, value, holds));
        }
        Argument::Bits(position, bits, value) => {
            load_lower(position, lines);
            let mask = instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, (0, 0), bits);
            lines.push((mask, None));
            lines.push(compare(libc::BPF_JEQ, value, holds));
            *loaded = None;
        }
        Argument::Null(position) => {
            load_lower(position, lines);
            lines.push(compare(libc::BPF_JEQ, 0, Target::Next));
            lines.push((load(offset(position) + HALF_LEN), None));
            lines.push(compare(libc::BPF_JEQ, 0, holds));
            *loaded = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::conditions;
    use crate::arguments::{Alternative, Argument, OWN_PROCESS};
    use crate::instruction::run;

    const OUTSIDE: u32 = libc::SECCOMP_RET_TRAP;

    fn allows(alternatives: &[Alternative], arguments: [u64; 6]) -> bool {
        let instructions = conditions(alternatives, OUTSIDE).expect("they are few");
        match run(&instructions, 0, arguments) {
            libc::SECCOMP_RET_ALLOW => true,
            OUTSIDE => false,
            other => panic!("{other:#x}"),
        }
    }

    #[test]
    fn a_number_is_compared_by_its_lower_half() {
        let one: &[Alternative] = &[&[Argument::Is(1, 7)]];
        assert!(allows(one, [0, 7, 0, 0, 0, 0]));
        assert!(allows(one, [0, 7 | 1 << 32, 0, 0, 0, 0]));
        assert!(!allows(one, [7, 6, 7, 0, 0, 0]));
        let least: &[Alternative] = &[&[Argument::AtLeast(0, 7)]];
        assert!(allows(least, [8, 0, 0, 0, 0, 0]) && allows(least, [7, 0, 0, 0, 0, 0]));
        assert!(!allows(least, [6, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn the_own_process_is_compared_by_its_placeholder() {
        let own: &[Alternative] = &[&[Argument::OwnProcess(0)]];
        assert!(allows(own, [OWN_PROCESS.into(), 0, 0, 0, 0, 0]));
        assert!(!allows(own, [7, OWN_PROCESS.into(), 0, 0, 0, 0]));
    }

    #[test]
    fn one_alternative_is_enough_and_all_its_conditions_have_to_hold() {
        let alternatives: &[Alternative] = &[
            &[Argument::Is(0, 1)],
            &[Argument::Is(0, 2), Argument::Bits(1, 0xf, 3)],
            &[Argument::Bits(1, 0xf0, 0x10), Argument::Is(1, 0x1f)],
            &[Argument::Is(2, 9)],
        ];
        for (arguments, expected) in [
            ([1, 0, 0], true),
            ([2, 3, 0], true),
            ([2, 0x13, 0], true),
            ([2, 4, 0], false),
            ([2, 4, 9], true),
            ([0, 0x1f, 0], true),
            ([0, 0x11, 0], false),
            ([0, 0x0f, 9], true),
            ([3, 3, 8], false),
        ] {
            let [first, second, third] = arguments;
            let found = allows(alternatives, [first, second, third, 0, 0, 0]);
            assert_eq!(found, expected, "{arguments:?}");
        }
    }

    #[test]
    fn nothing_is_zero_in_both_halves() {
        let null: &[Alternative] = &[&[Argument::Null(2)], &[Argument::Is(2, 5)]];
        assert!(allows(null, [1, 1, 0, 1, 1, 1]));
        assert!(!allows(null, [0, 0, 1, 0, 0, 0]));
        assert!(!allows(null, [0, 0, 1 << 32, 0, 0, 0]));
        assert!(allows(null, [0, 0, 5, 0, 0, 0]));
    }

    #[test]
    fn the_argument_of_several_alternatives_is_loaded_once() {
        let alternatives: &[Alternative] = &[&[Argument::Is(0, 1)], &[Argument::Is(0, 2)]];
        // The load, two comparisons, and two ends.
        assert_eq!(conditions(alternatives, OUTSIDE).expect("they are few").len(), 5);
    }

    #[test]
    fn more_than_a_comparison_can_skip_is_an_error() {
        let alternatives: Vec<Alternative> = vec![&[Argument::Is(0, 1)]; 300];
        conditions(&alternatives, OUTSIDE).expect_err("a jump has eight bits");
    }
}
