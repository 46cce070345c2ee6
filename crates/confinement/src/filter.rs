//! The program for the kernel, made of the list of a kind.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::OnceLock;

use libc::sock_filter;
use syscalls::Sysno;

use crate::arguments::{Alternative, OWN_PROCESS};
use crate::calls::{FAMILIES, MESSAGES_BY_SIGNALS, REFUSALS};
use crate::conditions::conditions;
use crate::instruction::{instruction, load, return_value};
use crate::mode::Mode;
use crate::process_kind::ProcessKind;
use crate::search::{Action, runs, search};
use crate::signals::Signals;

/// Programs made before a fork, for all forks: one for each kind, mode and extent of signals. To
/// read them writes nothing, so their memory stays shared.
static PREPARED: [OnceLock<Vec<sock_filter>>; 4 * ProcessKind::ALL.len()] =
    [const { OnceLock::new() }; 4 * ProcessKind::ALL.len()];

fn prepared(
    kind: ProcessKind,
    mode: Mode,
    signals: Signals,
) -> &'static OnceLock<Vec<sock_filter>> {
    let variant = 2 * usize::from(mode == Mode::Log) + usize::from(signals == Signals::OfMessages);
    &PREPARED[4 * kind.index() + variant]
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
pub fn prepare(kind: ProcessKind, mode: Mode, signals: Signals) {
    if let Ok(program) = make(kind, mode, signals) {
        prepared(kind, mode, signals).get_or_init(|| program);
    }
}

/// Returns the program of a kind, with [`OWN_PROCESS`] for the process that it is loaded into.
///
/// # Errors
/// The list of the kind needs more instructions than a filter can have.
pub(crate) fn program(
    kind: ProcessKind,
    mode: Mode,
    signals: Signals,
) -> Result<Cow<'static, [sock_filter]>, String> {
    match prepared(kind, mode, signals).get() {
        Some(program) => Ok(Cow::Borrowed(program)),
        None => make(kind, mode, signals).map(Cow::Owned),
    }
}

/// Makes the program one for the process with this id.
pub(crate) fn of_process(program: &[sock_filter], pid: u32) -> Vec<sock_filter> {
    let is_comparison = |it: &sock_filter| {
        u32::from(it.code) == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K && it.k == OWN_PROCESS
    };
    let own = |it: &sock_filter| match is_comparison(it) {
        true => sock_filter { k: pid, ..*it },
        false => *it,
    };
    program.iter().map(own).collect()
}

/// Makes the program: a check of the processor, a search for the number of the call, and conditions
/// on the arguments of some. Each new worker has the kernel translate it and run it for each call
/// that there is, so it is short, and each way through it.
fn make(kind: ProcessKind, mode: Mode, signals: Signals) -> Result<Vec<sock_filter>, String> {
    let is_log = mode == Mode::Log;
    let fail = |errno: libc::c_int| libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
    let outside = if is_log { libc::SECCOMP_RET_LOG } else { libc::SECCOMP_RET_TRAP };
    let newer = if is_log { outside } else { fail(libc::ENOSYS) };
    let mut actions = BTreeMap::new();
    let mut verified = Vec::new();
    for (number, alternatives) in allowed(kind, signals) {
        let action = match alternatives {
            None => Action::Return(libc::SECCOMP_RET_ALLOW),
            Some(alternatives) => {
                verified.push(conditions(&alternatives, outside)?);
                Action::Verify(verified.len() - 1)
            }
        };
        actions.insert(number, action);
    }
    for (number, errno) in refused(kind) {
        let value = if is_log { libc::SECCOMP_RET_ALLOW } else { fail(errno) };
        actions.insert(number, Action::Return(value));
    }
    let last = u32::try_from(Sysno::last().id()).map_err(|error| error.to_string())?;
    let newer = (last, Action::Return(newer));
    let mut program = vec![
        load(ARCHITECTURE_OFFSET),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (1, 0), ARCHITECTURE),
        return_value(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER_OFFSET),
    ];
    program.extend(search(&runs(&actions, Action::Return(outside), newer), &verified)?);
    Ok(program)
}

/// Offsets in what the kernel gives a program: `seccomp_data` of linux/seccomp.h.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;

/// The processor, for calls of which filters are made: `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64`
/// of linux/audit.h.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: u32 = 0xc000_00b7;

/// Returns all calls that a kind may make, with the alternatives for their arguments; `None` allows
/// any arguments.
fn allowed(kind: ProcessKind, signals: Signals) -> BTreeMap<u32, Option<Vec<Alternative>>> {
    let mut allowed: BTreeMap<u32, Option<Vec<Alternative>>> = BTreeMap::new();
    let of_messages = (signals == Signals::OfMessages).then_some(&MESSAGES_BY_SIGNALS);
    let families = FAMILIES.iter().chain(of_messages);
    for family in families.filter(|it| it.kinds.contains(&kind)) {
        for number in numbers(family.calls) {
            let of_call = allowed.entry(number).or_insert_with(|| Some(Vec::new()));
            match (&mut *of_call, family.arguments) {
                (_, []) => *of_call = None,
                (None, _) => {}
                (Some(of_call), alternatives) => of_call.extend(alternatives),
            }
        }
    }
    allowed
}

/// Numbers of the calls that fail, and their errors.
fn refused(kind: ProcessKind) -> impl Iterator<Item = (u32, libc::c_int)> {
    let of_kind = REFUSALS.iter().filter(move |it| it.kinds.contains(&kind));
    of_kind.flat_map(|it| numbers(it.calls).map(|number| (number, it.errno)))
}

/// Returns the numbers of calls; names that this processor lacks are left out.
fn numbers(calls: &'static str) -> impl Iterator<Item = u32> {
    let known = calls.split_whitespace().filter_map(|name| Sysno::from_str(name).ok());
    known.filter_map(|call| u32::try_from(call.id()).ok())
}

#[cfg(test)]
mod tests {
    use super::{call_name, numbers, of_process, prepare, program};
    use crate::instruction::run;
    use crate::mode::Mode;
    use crate::process_kind::ProcessKind;
    use crate::signals::Signals;

    const OF_MESSAGES: Signals = Signals::OfMessages;

    /// More instructions make each new worker slower.
    const INSTRUCTIONS_MAX: usize = 300;

    #[test]
    fn each_kind_has_a_program_of_few_instructions() {
        for kind in ProcessKind::ALL {
            for mode in [Mode::On, Mode::Log] {
                let program = program(kind, mode, OF_MESSAGES).expect("its list is short enough");
                let length = program.len();
                assert!((50..INSTRUCTIONS_MAX).contains(&length), "{}: {length}", kind.name());
            }
        }
    }

    #[test]
    fn a_worker_may_read_with_any_arguments_but_run_nothing() {
        let [read, execve, clone3, mmap, quota] =
            ["read", "execve", "clone3", "mmap", "quotactl_fd"]
                .map(|it| numbers(it).next().expect("known"));
        let (trap, log) = (libc::SECCOMP_RET_TRAP, libc::SECCOMP_RET_LOG);
        let allow = libc::SECCOMP_RET_ALLOW;
        let code = u64::try_from(libc::PROT_WRITE | libc::PROT_EXEC).expect("flags");
        for (call, arguments, on, log) in [
            (read, [u64::MAX; 6], libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ALLOW),
            (execve, [0; 6], libc::SECCOMP_RET_TRAP, libc::SECCOMP_RET_LOG),
            (clone3, [0; 6], libc::SECCOMP_RET_ERRNO | 38, libc::SECCOMP_RET_ALLOW),
            (mmap, [0; 6], libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ALLOW),
            (mmap, [0, 1, code, 0, 0, 0], libc::SECCOMP_RET_TRAP, libc::SECCOMP_RET_LOG),
            // Q_GETQUOTA of users is allowed; Q_QUOTAON, Q_QUOTAOFF, Q_XQUOTAON and Q_XQUOTARM are
            // not.
            (quota, [0, 0x8000_0700, 0, 0, 0, 0], allow, allow),
            (quota, [0, 0x8000_0200, 0, 0, 0, 0], trap, log),
            (quota, [0, 0x8000_0300, 0, 0, 0, 0], trap, log),
            (quota, [0, 0x0058_0100, 0, 0, 0, 0], trap, log),
            (quota, [0, 0x0058_0600, 0, 0, 0, 0], trap, log),
            (u32::MAX, [0; 6], libc::SECCOMP_RET_ERRNO | 38, libc::SECCOMP_RET_LOG),
        ] {
            for (mode, expected) in [(Mode::On, on), (Mode::Log, log)] {
                let program =
                    program(ProcessKind::Worker, mode, OF_MESSAGES).expect("it is short enough");
                let name = call_name(call);
                assert_eq!(run(&program, call, arguments), expected, "{name} {mode:?}");
            }
        }
    }

    #[test]
    fn a_process_signals_itself_and_others_only_for_messages_by_tdb() {
        let [tgkill, fcntl] = ["tgkill", "fcntl"].map(|it| numbers(it).next().expect("known"));
        let [own, other] = [7_u64, 8];
        let [abort, real_time, owner] =
            [libc::SIGABRT, 40, libc::F_SETOWN].map(|it| u64::try_from(it).expect("it is small"));
        // F_SETSIG and F_SETOWN_EX.
        let [signal, owner_in_memory] = [10, 15];
        let (allow, trap) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_TRAP);
        for (call, arguments, to_itself, of_messages) in [
            (tgkill, [own, own, abort], allow, allow),
            (tgkill, [other, other, abort], trap, trap),
            (tgkill, [other, other, real_time], trap, allow),
            (fcntl, [3, owner, own], allow, allow),
            (fcntl, [3, owner, other], trap, trap),
            (fcntl, [3, signal, abort], trap, trap),
            (fcntl, [3, owner_in_memory, 0], trap, trap),
        ] {
            for (signals, expected) in
                [(Signals::ToItself, to_itself), (Signals::OfMessages, of_messages)]
            {
                let program = program(ProcessKind::Worker, Mode::On, signals);
                let program = of_process(&program.expect("it is short enough"), 7);
                let [first, second, third] = arguments;
                let found = run(&program, call, [first, second, third, 0, 0, 0]);
                assert_eq!(found, expected, "{} {arguments:?} {signals:?}", call_name(call));
            }
        }
    }

    #[test]
    fn a_prepared_program_is_that_of_its_kind_and_mode() {
        let made = |mode| {
            let program = program(ProcessKind::Auditd, mode, OF_MESSAGES);
            program.expect("it is short enough").len()
        };
        let before = [made(Mode::On), made(Mode::Log)];
        prepare(ProcessKind::Auditd, Mode::On, OF_MESSAGES);
        assert_eq!([made(Mode::On), made(Mode::Log)], before);
    }

    #[test]
    fn a_call_is_named_and_an_unknown_one_has_its_number() {
        let number = u32::try_from(libc::SYS_execve).expect("it is small");
        assert_eq!(call_name(number), "execve");
        assert_eq!(call_name(65_535), "number 65535");
    }
}
