//! Tasks of requests, which another part of the server carries out: [`Task`].

use crate::interface::Environment;
use crate::ndr::Writer;
use crate::win32::Win32Error;
use crate::{Outcome, Task};

/// Has a task of an administrator carried out.
///
/// # Errors
/// The caller is no administrator, or the task failed.
pub(super) fn carry_out(environment: &Environment<'_>, task: Task) -> Result<Outcome, Win32Error> {
    if !environment.catalogue.is_administrator(environment.caller) {
        return Err(Win32Error::ACCESS_DENIED);
    }
    carry_out_for_anyone(environment, task)
}

/// Has a task carried out, whoever the caller is.
///
/// # Errors
/// The task failed.
pub(super) fn carry_out_for_anyone(
    environment: &Environment<'_>,
    task: Task,
) -> Result<Outcome, Win32Error> {
    match environment.catalogue.carry_out(task) {
        Some(Outcome::Failed(failure)) => Err(failure.into()),
        Some(outcome) => Ok(outcome),
        // Nobody is there to do it.
        None => Err(Win32Error::NOT_SUPPORTED),
    }
}

/// Returns the response to an operation that has a result only.
pub(super) fn result(done: Result<Outcome, Win32Error>) -> Vec<u8> {
    Writer::default().finish(done.err().unwrap_or(Win32Error::SUCCESS))
}
