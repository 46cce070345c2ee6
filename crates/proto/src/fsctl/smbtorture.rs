//! Control codes for conformance tests: smbtorture uses them to make a server behave as only old or
//! unusual ones do, and checks its own client library; or to have the server take a channel for
//! broken. They are Samba's, and refused like unknown codes unless `smbd:FSCTL_SMBTORTURE` is on.

use std::time::Duration;

use engine::effect::{Effect, Reply};
use engine::globals::Globals;
use engine::request::Incoming;
use engine::response::Response;
use engine::scope::{InConnection, InOpen, Scope};
use engine::server::Server;
use model::reject::Reject;
use wire::Decode;
use wire::ioctl::{FsctlCode, IoctlRequest, IoctlResponse};

use super::{Fsctl, ImmediateFsctl, Output, Progress, WithoutOpen, invalid, output_max};

/// Returns as many bytes of the value 8 as the client accepts, with padding before them.
pub(crate) struct TortureIoctlPadding;

/// Puts padding before the data of all further READ responses of the connection.
pub(crate) struct TortureReadPadding;

/// Sleeps for the number of milliseconds in its input's only byte. The open is not used meanwhile,
/// so a CLOSE can intervene.
pub(crate) struct TortureSleep;

/// A request until the end of its time.
#[derive(Debug)]
pub(crate) struct Asleep;

/// Number of padding bytes. [MS-SMB2] 2.2.20 and 2.2.32 have offsets of the data, so they permit
/// padding.
const PADDING: u8 = 8;

/// Longest output of [`TortureIoctlPadding`]: tests need no more.
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
        let [milliseconds] = *request.input else { return Err(invalid(request.input)) };
        let time = Duration::from_millis(milliseconds.into());
        Ok(Progress::Wait(Effect::Sleep(time), Asleep))
    }

    fn resume(_: InOpen<'_>, Asleep: Asleep, _: Reply) -> Result<Progress<Asleep>, Reject> {
        Ok(Progress::Done(Output::none()))
    }
}

/// Makes everything sent on the connection count as lost, so that each break sent on it fails, and
/// the connection with it. For IOCTL only.
///
/// The request has no session, so no scope of a command fits. Returns none for other requests, and
/// if the hooks are off: then the code is unknown.
pub(crate) fn force_unacked_timeout(
    server: &mut Server,
    incoming: &Incoming,
) -> Option<Result<Response, Reject>> {
    let wanted = FsctlCode::SMBTORTURE_FORCE_UNACKED_TIMEOUT;
    if !server.settings().smbtorture_hooks {
        return None;
    }
    let request =
        IoctlRequest::decode(&incoming.message).ok().filter(|it| it.ctl_code == wanted)?;
    let InConnection { connection, .. } = InConnection::resolve(server, incoming, None).ok()?;
    if !request.input.is_empty() {
        return Some(Err(invalid(request.input)));
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
    if request.input.is_empty() { Ok(()) } else { Err(invalid(request.input)) }
}
