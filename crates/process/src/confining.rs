//! Confinement of a process of the server, as the configuration has it.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use config::Config;
use confinement::{Freedom, Mode, Place, ProcessKind, Ruleset, Signals};
use messaging::TransportKind;
use mistake::{Mistake, is_made};
use rustix::fs::{Mode as FileMode, OFlags};
use settings::Settings;
use settings::messaging_settings::messaging_settings;

use crate::control::{ToSupervisor, WorkerEnd};
use crate::fork::threads;

/// Socket to the supervisor, for the report of a violation.
static SUPERVISOR: OnceLock<WorkerEnd> = OnceLock::new();

/// Returns the wanted confinement (`choro:confinement`). A word that means nothing counts as `yes`.
#[must_use]
pub fn confinement_mode(config: &Config) -> Mode {
    let word = config.global.option("choro", "confinement");
    word.and_then(Mode::parse).unwrap_or_default()
}

/// Returns the signals that processes send each other: messages by TDB are announced by one.
#[must_use]
pub fn signals_of(config: &Config) -> Signals {
    match messaging_settings(&config.global) {
        Ok(how) if how.kind == TransportKind::Tdb => Signals::OfMessages,
        _ => Signals::ToItself,
    }
}

/// Takes from this process the capabilities that its kind does not need, before it has a second
/// thread. What the kernel does not take stays, and the process serves all the same.
pub fn give_up_capabilities(settings: &Settings, kind: ProcessKind) {
    if !is_made(Mistake::CapabilitiesKept)
        && confinement_mode(&settings.config) == Mode::On
        && let Err(error) = confinement::give_up_capabilities(kind)
    {
        tracing::debug!("{} keeps its capabilities: {error}", kind.name());
    }
}

/// Makes the rules for the paths and sockets of a kind, without the places of the configuration.
/// `None` where none are wanted, or the kernel has none. Landlock logs no more than it forbids, so
/// `choro:confinement = log` is without rules.
#[must_use]
pub fn ruleset(settings: &Settings, kind: ProcessKind, all_paths: bool) -> Option<Ruleset> {
    if confinement_mode(&settings.config) != Mode::On {
        return None;
    }
    let signals = signals_of(&settings.config);
    let ruleset = Ruleset::new(kind, Freedom { all_paths, signals });
    let warn = |error| tracing::warn!("paths of {} are not restricted: {error}", kind.name());
    ruleset.map_err(warn).ok().flatten()
}

/// Makes all rules of a kind that reaches these places. One that does not exist is left out.
#[must_use]
pub fn ruleset_with(
    settings: &Settings,
    kind: ProcessKind,
    places: &[(Place, PathBuf)],
) -> Option<Ruleset> {
    let ruleset = ruleset(settings, kind, false)?;
    for (place, path) in places {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, FileMode::empty());
        let reached = opened.map_err(Into::into).and_then(|at| ruleset.reach(*place, at.as_fd()));
        if let Err(error) = reached {
            tracing::warn!("{} cannot reach {}: {error}", kind.name(), path.display());
        }
    }
    Some(ruleset)
}

/// Takes from this process the paths and sockets that its rules do not have, before it has a second
/// thread: a thread that is there already would keep them. What the kernel does not take stays.
pub fn keep_to(ruleset: Option<&Ruleset>, kind: ProcessKind) {
    if is_made(Mistake::PathsUnrestricted) {
        return;
    }
    debug_assert!(ruleset.is_none() || threads().is_ok_and(|it| it == 1), "{}", kind.name());
    if let Some(Err(error)) = ruleset.map(Ruleset::restrict) {
        tracing::warn!("paths and TCP of {} are not restricted: {error}", kind.name());
    }
}

/// Takes from this process the system calls that its kind does not need, [`keep_to`] among them. A
/// call outside the list ends it, and the supervisor learns which one it was. What the kernel
/// cannot filter is left.
pub fn confine(settings: &Settings, kind: ProcessKind, control: &WorkerEnd) {
    if is_made(Mistake::CallsUnfiltered) {
        return;
    }
    let config = &settings.config;
    let (mode, signals) = (confinement_mode(config), signals_of(config));
    let held = control.try_clone().and_then(|socket| {
        SUPERVISOR.get_or_init(|| socket);
        confinement::filter_calls(kind, mode, signals, report)
    });
    // The supervisor has told the operator when it started, where no process can be.
    if let Err(error) = held {
        tracing::debug!("{} may make all system calls: {error}", kind.name());
    }
}

/// Reports a violation, in a signal handler.
fn report(call: u32) {
    if let Some(supervisor) = SUPERVISOR.get() {
        // If the supervisor does not read, it still learns the signal that ends the process.
        let _ = supervisor.send(ToSupervisor::Violation { call });
    }
}
