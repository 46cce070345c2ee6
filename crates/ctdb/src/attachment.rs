//! Attaching a database: three controls, from its name to its file.

use std::path::PathBuf;
use std::time::Instant;

use crate::answer::Answer;
use crate::connection::Connection;
use crate::control::{Control, Destination};
use crate::database_kind::DatabaseKind;
use crate::exchange::{Failure, RequestId, Unsent};
use crate::malformed::Malformed;

/// A database that ctdbd has attached, ready to be opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attached {
    /// Number of the database, for calls.
    pub database: u32,
    /// How its records are spread.
    pub kind: DatabaseKind,
    /// Its file on this node.
    pub path: PathBuf,
    /// Flags of `tdb_open` that all processes of this node must pass.
    pub flags: u32,
}

/// Reason why a database cannot be attached.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttachError {
    /// A request to ctdbd has failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A request could not be sent.
    #[error(transparent)]
    Unsent(#[from] Unsent),
}

/// A database that is being attached.
///
/// ctdbd does not answer before a recovery has ended, so the deadline should be long, and whoever
/// serves clients must not wait for it.
#[derive(Debug)]
pub struct Attachment {
    kind: DatabaseKind,
    deadline: Instant,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// ctdbd was asked to attach it.
    Attaching(RequestId),
    /// ctdbd was asked for file and flags, in one go.
    Describing {
        database: u32,
        requests: (RequestId, RequestId),
        path: Option<PathBuf>,
        flags: Option<u32>,
    },
}

impl Attachment {
    /// Asks ctdbd to attach the database `name`, and create it if there is none.
    ///
    /// # Errors
    /// The request cannot be sent.
    pub fn begin(
        connection: &mut Connection,
        name: &str,
        kind: DatabaseKind,
        deadline: Instant,
    ) -> Result<Self, AttachError> {
        let control = Control::Attach { name, kind };
        let request = connection.exchange().ask(Destination::Own, &control, deadline)?;
        Ok(Self { kind, deadline, step: Step::Attaching(request) })
    }

    /// Takes the result of a control, which need not be one of this attachment's. Returns the
    /// database after the last of them.
    ///
    /// # Errors
    /// The database cannot be attached.
    pub fn advance(
        &mut self,
        connection: &mut Connection,
        request: RequestId,
        result: &Result<Answer, Failure>,
    ) -> Result<Option<Attached>, AttachError> {
        let answer = || result.as_ref().map_err(Clone::clone);
        match &mut self.step {
            Step::Attaching(pending) if *pending == request => {
                let Answer::Database(database) = *answer()? else { return Err(unexpected()) };
                let mut ask =
                    |control| connection.exchange().ask(Destination::Own, &control, self.deadline);
                let path = ask(Control::DatabasePath(database))?;
                let flags = ask(Control::DatabaseFlags(database))?;
                let requests = (path, flags);
                self.step = Step::Describing { database, requests, path: None, flags: None };
                Ok(None)
            }
            Step::Describing { database, requests, path, flags } => {
                match answer() {
                    Ok(Answer::Text(text)) if requests.0 == request => *path = Some(text.into()),
                    Ok(Answer::DatabaseFlags(bits)) if requests.1 == request => {
                        *flags = Some(*bits)
                    }
                    Err(failure) if requests.0 == request || requests.1 == request => {
                        return Err(failure.into());
                    }
                    _ => return Ok(None),
                }
                let (Some(path), Some(flags)) = (path.as_ref(), *flags) else { return Ok(None) };
                let (database, kind) = (*database, self.kind);
                Ok(Some(Attached { database, kind, path: path.clone(), flags }))
            }
            Step::Attaching(_) => Ok(None),
        }
    }
}

fn unexpected() -> AttachError {
    Failure::from(Malformed::Unexpected).into()
}
