//! Control codes for conformance tests: with them smbtorture makes a server behave as only old or odd
//! ones do, to see that clients bear it, or believe that a channel fails. They are Samba's, and
//! refused like unknown ones unless `smbd:FSCTL_SMBTORTURE` is on.

use std::time::Duration;

use wire::Decode;
use wire::ioctl::{FsctlCode, IoctlRequest, IoctlResponse};

use super::{Fsctl, INVALID, ImmediateFsctl, Output, Progress, WithoutOpen, output_max};
use crate::engine::effect::{Effect, Reply};
use crate::engine::globals::Globals;
use crate::engine::request::Incoming;
use crate::engine::response::Response;
use crate::engine::scope::InOpen;
use crate::engine::server::Server;
use crate::model::reject::Reject;

/// Answers with as many bytes of 8 as the client has room for, and with padding before them.
pub(crate) struct TortureIoctlPadding;

/// Lets the data of all further READ responses of the connection begin behind padding.
pub(crate) struct TortureReadPadding;

/// Takes so many milliseconds as its input's only byte says, and does nothing with the open
/// meanwhile: so a CLOSE can come in between.
pub(crate) struct TortureSleep;

/// The time is running.
#[derive(Debug)]
pub(crate) struct Asleep;

/// Bytes of padding. [MS-SMB2] 2.2.20 and 2.2.32 let the offsets say where the data begin.
const PADDING: u8 = 8;

/// Output of [`TortureIoctlPadding`]: no more than a test needs.
const OUTPUT_BYTES_MAX: usize = 4_096;

impl ImmediateFsctl for TortureIoctlPadding {
    const CODE: FsctlCode = FsctlCode::SMBTORTURE_IOCTL_RESPONSE_BODY_PADDING8;
    type Scope<'s> = WithoutOpen<'s>;

    fn answer(scope: WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        verify_allowed(scope.globals, request)?;
        verify_no_input(request)?;
        let length = output_max(request).min(OUTPUT_BYTES_MAX);
        Ok(Output { padding: PADDING, ..Output::new(vec![PADDING; length]) })
    }
}

impl ImmediateFsctl for TortureReadPadding {
    const CODE: FsctlCode = FsctlCode::SMBTORTURE_GLOBAL_READ_RESPONSE_BODY_PADDING8;
    type Scope<'s> = WithoutOpen<'s>;

    fn answer(scope: WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        verify_allowed(scope.globals, request)?;
        verify_no_input(request)?;
        scope.connection.read_padding = PADDING;
        Ok(Output::none())
    }
}

impl Fsctl for TortureSleep {
    const CODE: FsctlCode = FsctlCode::SMBTORTURE_FSP_ASYNC_SLEEP;
    type Scope<'s> = InOpen<'s>;
    type Pending = Asleep;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Asleep>, Reject> {
        verify_allowed(scope.globals, request)?;
        let [milliseconds] = *request.input else { return Err(INVALID) };
        let time = Duration::from_millis(milliseconds.into());
        Ok(Progress::Wait(Effect::Sleep(time), Asleep))
    }

    fn resume(_: InOpen<'_>, Asleep: Asleep, _: Reply) -> Result<Progress<Asleep>, Reject> {
        Ok(Progress::Done(Output::none()))
    }
}

/// Lets the connection's transport take nothing any more, as far as the engine hears: each break
/// that is told on it is lost, and the connection with it.
///
/// It comes without a session, so no scope of a command fits. Nothing if the request is another one,
/// or the hooks are off: then it is what it is without them.
pub(crate) fn force_unacked_timeout(
    server: &mut Server,
    incoming: &Incoming,
) -> Option<Result<Response, Reject>> {
    let wanted = FsctlCode::SMBTORTURE_FORCE_UNACKED_TIMEOUT;
    if incoming.header.command != wire::Command::IOCTL || !server.globals.settings.smbtorture_hooks
    {
        return None;
    }
    let request =
        IoctlRequest::decode(&incoming.message).ok().filter(|it| it.ctl_code == wanted)?;
    let connection = server.connections.get_mut(&incoming.connection)?;
    if !request.input.is_empty() {
        return Some(Err(INVALID));
    }
    connection.confirms_nothing = true;
    let IoctlRequest { ctl_code, file_id, .. } = request;
    let answer = IoctlResponse { ctl_code, file_id, input: &[], output: &[], padding: 0 };
    Some(Ok(Response::new(&answer)))
}

fn verify_allowed(globals: &Globals, request: &IoctlRequest<'_>) -> Result<(), Reject> {
    match globals.settings.smbtorture_hooks {
        true => Ok(()),
        false => Err(Reject::UnknownFsctl(request.ctl_code)),
    }
}

fn verify_no_input(request: &IoctlRequest<'_>) -> Result<(), Reject> {
    if request.input.is_empty() { Ok(()) } else { Err(INVALID) }
}
