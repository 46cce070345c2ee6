//! The program for the kernel, made of the list of a kind.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use syscalls::Sysno;

use crate::arguments::{Alternative, Argument, Arguments};
use crate::calls::{FAMILIES, REFUSALS};
use crate::mode::Mode;
use crate::process_kind::ProcessKind;

/// Rules by the number of the call; none for any arguments.
type Rules = BTreeMap<u32, Vec<SeccompRule>>;

/// Program made before a fork, for all forks.
static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);

#[derive(Clone, Debug)]
struct Prepared {
    kind: ProcessKind,
    mode: Mode,
    program: Arc<BpfProgram>,
}

/// Returns the name of a call of this processor, or its number.
#[must_use]
pub fn call_name(number: u32) -> String {
    known_call_name(number).map_or_else(|| format!("number {number}"), str::to_owned)
}

/// Returns the name of a call of this processor, if this program knows it.
#[must_use]
pub fn known_call_name(number: u32) -> Option<&'static str> {
    Some(usize::try_from(number).ok().and_then(Sysno::new)?.name())
}

/// Makes the program of a kind, for processes that are forked from this one later. What cannot be
/// made now, those processes find out.
pub fn prepare(kind: ProcessKind, mode: Mode) {
    let made = program(kind, mode).ok();
    *prepared() = made.map(|program| Prepared { kind, mode, program });
}

fn prepared() -> MutexGuard<'static, Option<Prepared>> {
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the program of a kind.
///
/// # Errors
/// This processor is neither of the two that filters are made for.
pub(crate) fn program(kind: ProcessKind, mode: Mode) -> Result<Arc<BpfProgram>, String> {
    let prepared = prepared().clone();
    match prepared.filter(|it| (it.kind, it.mode) == (kind, mode)) {
        Some(prepared) => Ok(prepared.program),
        None => make(kind, mode).map(Arc::new),
    }
}

/// Makes the program. Most calls are allowed with any arguments, and many of these have adjacent
/// numbers: a search of runs of numbers stands before the library's program, which has
/// several instructions for each call, for those with conditions. Each new worker has the kernel
/// translate the program, and look up all calls in it.
fn make(kind: ProcessKind, mode: Mode) -> Result<BpfProgram, String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(text)?;
    let is_log = mode == Mode::Log;
    let outside = if is_log { SeccompAction::Log } else { SeccompAction::Trap };
    let mut rules = allowed(kind)?;
    let refused: Vec<(u32, u32)> = refused(kind);
    let mut first = Vec::new();
    if is_log {
        rules.extend(refused.iter().map(|(number, _)| (*number, Vec::new())));
    } else {
        first.extend(fail_newer_calls());
        first.extend(refused.iter().flat_map(|(number, errno)| fail(*number, *errno)));
    }
    let (any, conditional): (Rules, Rules) =
        rules.into_iter().partition(|(_, rules)| rules.is_empty());
    first.extend(allow(&runs(any.keys().copied()))?);
    let conditional = conditional.into_iter().map(|(number, rules)| (i64::from(number), rules));
    let filter =
        SeccompFilter::new(conditional.collect(), outside, SeccompAction::Allow, architecture);
    let mut program = filter.and_then(BpfProgram::try_from).map_err(text)?;
    // The library's program begins with a check of the processor; then it loads the number.
    let loads = |it: &sock_filter| it.code == code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
    let loaded = program.iter().position(|it| loads(it) && it.k == NUMBER_OFFSET);
    let loaded = loaded.ok_or("the program loads no number of a call")?;
    program.splice(loaded + 1..loaded + 1, first);
    Ok(program)
}

/// Offset of the number of the call in what the kernel gives a program: linux/seccomp.h.
const NUMBER_OFFSET: u32 = 0;

/// Instruction of a program: linux/filter.h.
fn instruction(code: u32, skips: (u8, u8), value: u32) -> sock_filter {
    sock_filter { code: self::code(code), jt: skips.0, jf: skips.1, k: value }
}

fn code(code: u32) -> u16 {
    u16::try_from(code).expect("codes have 16 bits")
}

fn compare(comparison: u32, skips: (u8, u8), value: u32) -> sock_filter {
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, skips, value)
}

fn end_with(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, (0, 0), action)
}

/// Makes the instructions that fail calls newer than this program.
fn fail_newer_calls() -> [sock_filter; 2] {
    let last = u32::try_from(Sysno::last().id()).unwrap_or(u32::MAX);
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    [compare(libc::BPF_JGT, (0, 1), last), end_with(unknown)]
}

/// Makes the instructions that fail one call.
fn fail(number: u32, errno: u32) -> [sock_filter; 2] {
    [compare(libc::BPF_JEQ, (0, 1), number), end_with(libc::SECCOMP_RET_ERRNO | errno)]
}

/// Runs that are compared one after the other; more are halved first.
const RUNS_IN_A_ROW: usize = 3;

/// Makes the instructions that allow runs of ascending numbers. A number of none goes on behind
/// them. The kernel runs them for each call that there is when it takes a program, so they are a
/// search by halves.
fn allow(runs: &[(u32, u32)]) -> Result<Vec<sock_filter>, String> {
    let mut instructions = search(runs)?;
    let length = instructions.len();
    for (place, it) in instructions.iter_mut().enumerate().filter(|(_, it)| is_jump(it)) {
        it.k = u32::try_from(length - place - 1).map_err(text)?;
    }
    Ok(instructions)
}

fn search(runs: &[(u32, u32)]) -> Result<Vec<sock_filter>, String> {
    if runs.len() <= RUNS_IN_A_ROW {
        let in_a_row = runs.iter().flat_map(|(first, last)| {
            [
                compare(libc::BPF_JGE, (0, 2), *first),
                compare(libc::BPF_JGT, (1, 0), *last),
                end_with(libc::SECCOMP_RET_ALLOW),
            ]
        });
        return Ok(in_a_row.chain([instruction(JUMP, (0, 0), 0)]).collect());
    }
    let (lower, upper) = runs.split_at(runs.len() / 2);
    let (first, lower) = (upper[0].0, search(lower)?);
    let behind = u8::try_from(lower.len()).map_err(|_| "too many runs of numbers")?;
    let halves = lower.into_iter().chain(search(upper)?);
    Ok([compare(libc::BPF_JGE, (behind, 0), first)].into_iter().chain(halves).collect())
}

/// A jump to behind the search.
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;

fn is_jump(it: &sock_filter) -> bool {
    it.code == code(JUMP)
}

/// Joins ascending numbers to runs without gaps: the first and the last of each.
fn runs(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}

/// Rules of all calls that a kind may make.
fn allowed(kind: ProcessKind) -> Result<Rules, String> {
    let mut rules: BTreeMap<u32, Option<Vec<SeccompRule>>> = BTreeMap::new();
    for family in FAMILIES.iter().filter(|it| it.kinds.contains(&kind)) {
        for number in numbers(family.calls) {
            let of_call = rules.entry(number).or_insert_with(|| Some(Vec::new()));
            match (&mut *of_call, family.arguments) {
                (_, []) => *of_call = None,
                (None, _) => {}
                (Some(of_call), arguments) => of_call.extend(rules_of(arguments)?),
            }
        }
    }
    Ok(rules.into_iter().map(|(number, rules)| (number, rules.unwrap_or_default())).collect())
}

/// Numbers of the calls that fail, and their errors.
fn refused(kind: ProcessKind) -> Vec<(u32, u32)> {
    let of_kind = REFUSALS.iter().filter(|it| it.kinds.contains(&kind));
    let numbers =
        of_kind.flat_map(|it| numbers(it.calls).map(|number| (number, it.errno.unsigned_abs())));
    numbers.collect()
}

/// Returns the numbers of calls; names that this processor lacks are left out.
fn numbers(calls: &'static str) -> impl Iterator<Item = u32> {
    let known = calls.split_whitespace().filter_map(|name| Sysno::from_str(name).ok());
    known.filter_map(|call| u32::try_from(call.id()).ok())
}

fn rules_of(arguments: Arguments) -> Result<Vec<SeccompRule>, String> {
    arguments.iter().map(|it| rule(it)).collect()
}

fn rule(alternative: Alternative) -> Result<SeccompRule, String> {
    let conditions: Result<_, String> = alternative.iter().map(condition).collect();
    SeccompRule::new(conditions?).map_err(text)
}

fn condition(argument: &Argument) -> Result<SeccompCondition, String> {
    let half = SeccompCmpArgLen::Dword;
    let (position, length, comparison, value) = match *argument {
        Argument::Is(position, value) => (position, half, SeccompCmpOp::Eq, value),
        Argument::AtLeast(position, value) => (position, half, SeccompCmpOp::Ge, value),
        Argument::Bits(position, bits, value) => {
            (position, half, SeccompCmpOp::MaskedEq(bits.into()), value)
        }
        Argument::Null(position) => (position, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
    };
    SeccompCondition::new(position, length, comparison, value.into()).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use seccompiler::sock_filter;

    use super::{JUMP, allow, call_name, program, runs};
    use crate::mode::Mode;
    use crate::process_kind::ProcessKind;

    /// More instructions make each new worker slower.
    const INSTRUCTIONS_MAX: usize = 600;

    #[test]
    fn each_kind_has_a_program_of_few_instructions() {
        for kind in ProcessKind::ALL {
            for mode in [Mode::On, Mode::Log] {
                let program = program(kind, mode).expect("one of the two processors");
                let length = program.len();
                assert!((50..INSTRUCTIONS_MAX).contains(&length), "{}: {length}", kind.name());
            }
        }
    }

    #[test]
    fn adjacent_numbers_are_one_run() {
        assert_eq!(runs([0, 1, 2, 5, 7, 8].into_iter()), [(0, 2), (5, 5), (7, 8)]);
        assert!(runs(std::iter::empty()).is_empty());
    }

    /// Result of the instructions for a number: true if they allow it, false if it goes on.
    fn is_allowed(instructions: &[sock_filter], number: u32) -> bool {
        let mut place = 0;
        while let Some(it) = instructions.get(place) {
            let skipped = match u32::from(it.code) {
                code if code == libc::BPF_RET | libc::BPF_K => return true,
                code if code == JUMP => usize::try_from(it.k).expect("it is short"),
                code => {
                    let holds = match code & 0xf0 {
                        libc::BPF_JGE => number >= it.k,
                        libc::BPF_JGT => number > it.k,
                        other => panic!("{other:#x}"),
                    };
                    usize::from(if holds { it.jt } else { it.jf })
                }
            };
            place += skipped + 1;
        }
        assert_eq!(place, instructions.len(), "what follows is next");
        false
    }

    #[test]
    fn the_search_allows_the_numbers_of_the_runs_alone() {
        for count in 0..80_u32 {
            let runs: Vec<(u32, u32)> = (0..count).map(|it| (5 * it + 2, 5 * it + 4)).collect();
            let instructions = allow(&runs).expect("it is short enough");
            for number in 0..5 * count + 5 {
                let is_in = runs.iter().any(|(first, last)| (*first..=*last).contains(&number));
                assert_eq!(is_allowed(&instructions, number), is_in, "{number} of {count}");
            }
        }
    }

    #[test]
    fn a_call_is_named_and_an_unknown_one_has_its_number() {
        let number = u32::try_from(libc::SYS_execve).expect("it is small");
        assert_eq!(call_name(number), "execve");
        assert_eq!(call_name(65_535), "number 65535");
    }
}
