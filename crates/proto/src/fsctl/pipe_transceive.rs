//! FSCTL_PIPE_TRANSCEIVE: [MS-SMB2] 3.3.5.15.10, [MS-FSCC] 2.3.51.

use dtyp::NtStatus;
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::pipe::Pipe;
use model::reject::Reject;
use rpc::NameQuestion;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress, output_max, pipe};

/// Writes to a pipe and reads the response.
pub(crate) struct PipeTransceive;

/// A request that waits for names of a domain, or for the outcome of a task.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The data to write: the last fragment of a request.
    input: Vec<u8>,
    output_max: usize,
    /// Questions about names; none for a task.
    questions: Vec<NameQuestion>,
}

impl Fsctl for PipeTransceive {
    const CODE: FsctlCode = FsctlCode::PIPE_TRANSCEIVE;
    type Scope<'s> = InOpen<'s>;
    type Pending = Pending;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Pending>, Reject> {
        let session_id = scope.open.session_id;
        let pipe = pipe(scope.open)?;
        pipe.renew(scope.globals.settings.catalogue.clone());
        let output_max = output_max(request);
        verify_idle(pipe)?;
        let pending = |questions| Pending { input: request.input.to_vec(), output_max, questions };
        if let Some(task) = pipe.task(request.input) {
            let effect = Effect::CarryOut { task: Box::new(task), session_id };
            return Ok(Progress::Wait(effect, pending(Vec::new())));
        }
        let questions = pipe.questions(request.input);
        if questions.is_empty() {
            return transceive(pipe, request.input, output_max);
        }
        Ok(Progress::Wait(Effect::FindNames(questions.clone()), pending(questions)))
    }

    fn resume(
        scope: InOpen<'_>,
        pending: Pending,
        reply: Reply,
    ) -> Result<Progress<Pending>, Reject> {
        let pipe = pipe(scope.open)?;
        // A task may have changed the configuration.
        pipe.renew(scope.globals.settings.catalogue.clone());
        // Another request may have used the pipe meanwhile.
        verify_idle(pipe)?;
        match reply {
            Reply::Names(found) => {
                let found = pending.questions.into_iter().zip(found);
                let found = found.filter_map(|(question, it)| Some((question, it?)));
                pipe.learn(found.collect());
            }
            Reply::Outcome(outcome) => pipe.learn_outcome(*outcome),
            reply => panic!("names or a task were asked for, and {reply:?} came back"),
        }
        transceive(pipe, &pending.input, pending.output_max)
    }
}

/// The data read must be the response to the data written.
fn verify_idle(pipe: &Pipe) -> Result<(), Reject> {
    if pipe.pending_len() > 0 { Err(Reject::PipeBusy) } else { Ok(()) }
}

fn transceive(
    pipe: &mut Pipe,
    input: &[u8],
    output_max: usize,
) -> Result<Progress<Pending>, Reject> {
    pipe.write(input)?;
    let bytes = pipe.read(output_max);
    if bytes.is_empty() && pipe.pending_len() == 0 {
        return Err(Reject::PipeEmpty);
    }
    // The rest is left for READ.
    let left = pipe.message_left() > 0 || bytes.is_empty();
    let status = if left { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    Ok(Progress::Done(Output::with_status(status, bytes)))
}
