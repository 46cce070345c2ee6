//! Processes that were ended for a system call that they may not make.

use confinement::{ProcessKind, call_name};
use rustix::process::{Signal, WaitStatus};
use tables::ViolationPage;

use super::workers::Worker;

/// Logs and counts the end of a process, if it has made such a call.
pub(super) fn record(page: &ViolationPage, kind: ProcessKind, ended: &Worker, status: WaitStatus) {
    let pid = ended.server_id.pid;
    let call = match ended.violation {
        Some(call) => format!("the system call {}", call_name(call)),
        // It could not report it.
        None if status.terminating_signal() == Some(Signal::SYS.as_raw()) => {
            "a system call".to_owned()
        }
        None => return,
    };
    page.add(kind);
    tracing::error!(
        "{} {pid} was ended: it has made {call}, which it may not make. That is an attack or a \
         mistake of the server; `choro:confinement = log` allows and logs such calls",
        kind.name()
    );
}
