//! Confinement of a process of the server, as the configuration has it.

use std::sync::OnceLock;

use config::Config;
use confinement::{Mode, ProcessKind};
use settings::Settings;

use crate::control::{ToSupervisor, WorkerEnd};

/// Socket to the supervisor, for the report of a violation.
static SUPERVISOR: OnceLock<WorkerEnd> = OnceLock::new();

/// Returns the wanted confinement (`choro:confinement`). A word that means nothing counts as `yes`.
#[must_use]
pub fn confinement_mode(config: &Config) -> Mode {
    let word = config.global.option("choro", "confinement");
    word.and_then(Mode::parse).unwrap_or_default()
}

/// Takes from this process the capabilities that its kind does not need, before it has a second
/// thread. What the kernel does not take stays, and the process serves all the same.
pub fn give_up_capabilities(settings: &Settings, kind: ProcessKind) {
    if confinement_mode(&settings.config) == Mode::On
        && let Err(error) = confinement::give_up_capabilities(kind)
    {
        tracing::debug!("{} keeps its capabilities: {error}", kind.name());
    }
}

/// Takes from this process the system calls that its kind does not need. A call outside the list
/// ends it, and the supervisor learns which one it was. What the kernel cannot filter is left.
pub fn confine(settings: &Settings, kind: ProcessKind, control: &WorkerEnd) {
    let mode = confinement_mode(&settings.config);
    let held = control.try_clone().and_then(|socket| {
        SUPERVISOR.get_or_init(|| socket);
        confinement::filter_calls(kind, mode, report)
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
