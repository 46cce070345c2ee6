//! The table of FSCTLs: a new one needs a module below and a line in `fsctls!`.
//!
//! [MS-SMB2] 3.3.5.15. A FSCTL is a small command: its scope says whether it needs an open, and it
//! may wait for the store.

use std::convert::Infallible;
use std::fmt::Debug;

use dtyp::NtStatus;
use engine::effect::{Effect, Reply};
use engine::globals::Globals;
use engine::request::Incoming;
use engine::scope::{InOpen, InTree};
use model::connection::{Connection, Negotiated};
use model::open::{Open, Target};
use model::pipe::Pipe;
use model::reject::Reject;
use model::session::Session;
use wire::FileId;
use wire::ioctl::{FsctlCode, IoctlRequest};

mod dfs_get_referrals;
mod query_network_interface_info;
mod validate_negotiate_info;

mod pipe_peek;
mod pipe_transceive;
mod pipe_wait;

mod srv_copychunk;
mod srv_enumerate_snapshots;
mod srv_request_resume_key;

mod duplicate_extents_to_file;
mod file_level_trim;
mod query_allocated_ranges;
mod set_sparse;
mod set_zero_data;

mod compression;
mod lmr_request_resiliency;
mod object_id;
mod reparse_point;

mod refused;
pub(crate) mod smbtorture;

#[cfg(test)]
mod tests;

use compression::{GetCompression, SetCompression};
use dfs_get_referrals::{DfsGetReferrals, DfsGetReferralsEx};
use duplicate_extents_to_file::{DuplicateExtentsToFile, DuplicateExtentsToFileEx};
use file_level_trim::FileLevelTrim;
use lmr_request_resiliency::LmrRequestResiliency;
use object_id::{CreateOrGetObjectId, GetObjectId};
use pipe_peek::PipePeek;
use pipe_transceive::PipeTransceive;
use pipe_wait::PipeWait;
use query_allocated_ranges::QueryAllocatedRanges;
use query_network_interface_info::QueryNetworkInterfaceInfo;
use refused::{GetIntegrityInformation, SetIntegrityInformation, SetIntegrityInformationEx};
use reparse_point::{DeleteReparsePoint, GetReparsePoint, SetReparsePoint};
use set_sparse::SetSparse;
use set_zero_data::SetZeroData;
use smbtorture::{TortureIoctlPadding, TortureReadPadding, TortureSleep};
use srv_copychunk::{SrvCopyChunk, SrvCopyChunkWrite};
use srv_enumerate_snapshots::SrvEnumerateSnapshots;
use srv_request_resume_key::SrvRequestResumeKey;
use validate_negotiate_info::ValidateNegotiateInfo;

/// One control code of SMB2 IOCTL, which may wait.
pub(crate) trait Fsctl {
    const CODE: FsctlCode;
    /// Objects to look up before the FSCTL runs.
    type Scope<'s>: FsctlScope<'s>;
    /// State of the FSCTL while the store works.
    type Pending: Debug;

    /// Begins to serve a request.
    fn start(
        scope: Self::Scope<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<Self::Pending>, Reject>;

    /// Resumes a request after the store's reply. The scope was looked up again.
    fn resume(
        scope: Self::Scope<'_>,
        pending: Self::Pending,
        reply: Reply,
    ) -> Result<Progress<Self::Pending>, Reject>;
}

/// A FSCTL that waits for nothing.
pub(crate) trait ImmediateFsctl {
    const CODE: FsctlCode;
    /// Objects to look up before the FSCTL runs.
    type Scope<'s>: FsctlScope<'s>;

    /// Serves a request at once.
    fn answer(scope: Self::Scope<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject>;
}

impl<T: ImmediateFsctl> Fsctl for T {
    const CODE: FsctlCode = T::CODE;
    type Scope<'s> = T::Scope<'s>;
    type Pending = Infallible;

    fn start(
        scope: T::Scope<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<Infallible>, Reject> {
        T::answer(scope, request).map(Progress::Done)
    }

    fn resume(
        _: T::Scope<'_>,
        pending: Infallible,
        _: Reply,
    ) -> Result<Progress<Infallible>, Reject> {
        match pending {}
    }
}

/// Result of a FSCTL's step.
#[derive(Debug)]
pub(crate) enum Progress<P> {
    /// The FSCTL has this output.
    Done(Output),
    /// Emit the effect, and resume with its reply.
    Wait(Effect, P),
}

/// Output of a FSCTL. Some FSCTLs have output beside an error status.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: NtStatus,
    /// Reason of the status, if it is a refusal.
    pub(crate) reject: Option<Reject>,
    pub(crate) bytes: Vec<u8>,
    /// Number of padding bytes before the output.
    pub(crate) padding: u8,
}

/// State that a FSCTL may access.
pub(crate) trait FsctlScope<'s>: Sized {
    /// Looks the open up, if the FSCTL needs one.
    fn resolve(scope: InTree<'s>, request: &IoctlRequest<'_>) -> Result<Self, Reject>;
}

/// Scope of a FSCTL whose request must name no open.
#[derive(Debug)]
pub(crate) struct WithoutOpen<'s> {
    pub(crate) connection: &'s mut Connection,
    pub(crate) session: &'s Session,
    pub(crate) is_pipe_share: bool,
    pub(crate) globals: &'s Globals,
}

macro_rules! fsctls {
    ($($name:ident,)*) => {
        /// State of a pending FSCTL.
        #[derive(Debug)]
        pub(crate) enum Pending {
            $($name(<$name as Fsctl>::Pending),)*
        }

        pub(crate) fn start(
            scope: InTree<'_>,
            incoming: &Incoming,
            request: &IoctlRequest<'_>,
        ) -> Result<Progress<Pending>, Reject> {
            match request.ctl_code {
                $(<$name as Fsctl>::CODE => start_fsctl::<$name>(scope, incoming, request)
                    .map(|progress| progress.map(Pending::$name)),)*
                code => start_fsctl::<Unknown>(scope, incoming, request)
                    .and(Err(Reject::UnknownFsctl(code))),
            }
        }

        pub(crate) fn resume(
            scope: InTree<'_>,
            pending: Pending,
            reply: Reply,
        ) -> Result<Progress<Pending>, Reject> {
            match pending {
                $(Pending::$name(pending) => {
                    // A FSCTL with a scope of opens takes the open from `scope`; for the others,
                    // `start` has checked that the request names none.
                    let request = IoctlRequest { file_id: FileId::ANY, ..IoctlRequest::default() };
                    let scope = FsctlScope::resolve(scope, &request)?;
                    <$name as Fsctl>::resume(scope, pending, reply)
                        .map(|progress| progress.map(Pending::$name))
                })*
            }
        }
    };
}

fsctls! {
    CreateOrGetObjectId,
    DeleteReparsePoint,
    DfsGetReferrals,
    DfsGetReferralsEx,
    DuplicateExtentsToFile,
    DuplicateExtentsToFileEx,
    FileLevelTrim,
    GetCompression,
    GetIntegrityInformation,
    GetObjectId,
    GetReparsePoint,
    LmrRequestResiliency,
    PipePeek,
    PipeTransceive,
    PipeWait,
    QueryAllocatedRanges,
    QueryNetworkInterfaceInfo,
    SetCompression,
    SetIntegrityInformation,
    SetIntegrityInformationEx,
    SetReparsePoint,
    SetSparse,
    SetZeroData,
    SrvCopyChunk,
    SrvCopyChunkWrite,
    SrvEnumerateSnapshots,
    SrvRequestResumeKey,
    TortureIoctlPadding,
    TortureReadPadding,
    TortureSleep,
    ValidateNegotiateInfo,
}

/// Stands for unknown codes: they pass the same checks as the others before they are refused.
struct Unknown;

impl ImmediateFsctl for Unknown {
    const CODE: FsctlCode = FsctlCode(0);
    type Scope<'s> = InOpen<'s>;

    fn answer(_: InOpen<'_>, _: &IoctlRequest<'_>) -> Result<Output, Reject> {
        Ok(Output::none())
    }
}

/// Checks a request in the order of [MS-SMB2] 3.3.5.15: the open, then the sizes.
fn start_fsctl<F: Fsctl>(
    scope: InTree<'_>,
    incoming: &Incoming,
    request: &IoctlRequest<'_>,
) -> Result<Progress<F::Pending>, Reject> {
    let sizes = verify_sizes(scope.connection.negotiated(), incoming, request);
    let scope = F::Scope::resolve(scope, request)?;
    sizes?;
    F::start(scope, request)
}

fn verify_sizes(
    negotiated: &Negotiated,
    incoming: &Incoming,
    request: &IoctlRequest<'_>,
) -> Result<(), Reject> {
    let max = negotiated.max_transact_size;
    let input = u32::try_from(request.input.len()).expect("a frame is below 16 MiB");
    for length in [input, request.max_input_response, request.max_output_response] {
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
    }
    let payload = input.max(request.max_output_response);
    negotiated.verify_credit_charge(incoming.header.credit_charge, payload)
}

/// Returns the highest number of output bytes that the client accepts.
pub(crate) fn output_max(request: &IoctlRequest<'_>) -> usize {
    usize::try_from(request.max_output_response).unwrap_or(usize::MAX)
}

impl<P> Progress<P> {
    fn map<Q>(self, f: impl FnOnce(P) -> Q) -> Progress<Q> {
        match self {
            Self::Done(output) => Progress::Done(output),
            Self::Wait(effect, pending) => Progress::Wait(effect, f(pending)),
        }
    }
}

impl Output {
    /// Makes a success without output.
    pub(crate) fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Makes a success with output.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self::with_status(NtStatus::SUCCESS, bytes)
    }

    /// Makes an output beside any status.
    pub(crate) fn with_status(status: NtStatus, bytes: Vec<u8>) -> Self {
        Self { status, reject: None, bytes, padding: 0 }
    }

    /// Output beside the status of a refusal.
    pub(crate) fn refused(reject: Reject, bytes: Vec<u8>) -> Self {
        Self { reject: Some(reject), ..Self::with_status(reject.status(), bytes) }
    }
}

impl<'s> FsctlScope<'s> for WithoutOpen<'s> {
    fn resolve(scope: InTree<'s>, request: &IoctlRequest<'_>) -> Result<Self, Reject> {
        if request.file_id != FileId::ANY {
            return Err(Reject::FileIdNotWanted);
        }
        let InTree { connection, session, tree, globals, .. } = scope;
        Ok(Self { connection, session, is_pipe_share: tree.is_pipe(), globals })
    }
}

impl<'s> FsctlScope<'s> for InOpen<'s> {
    fn resolve(scope: InTree<'s>, _: &IoctlRequest<'_>) -> Result<Self, Reject> {
        scope.into_open()
    }
}

impl<'s> FsctlScope<'s> for InTree<'s> {
    fn resolve(mut scope: Self, _: &IoctlRequest<'_>) -> Result<Self, Reject> {
        scope.open()?;
        Ok(scope)
    }
}

/// Returns the pipe of an open, and refuses files.
fn pipe(open: &mut Open) -> Result<&mut Pipe, Reject> {
    match &mut open.target {
        Target::Pipe(pipe) => Ok(pipe),
        Target::File(_) => Err(Reject::NotOnFiles),
    }
}

/// Reads two 64-bit numbers at the start of an input: an offset and a length, or an end.
fn two_offsets(input: &[u8]) -> Result<(u64, u64), Reject> {
    let (first, rest) = input.split_first_chunk::<8>().ok_or_else(|| invalid(input))?;
    let (second, _) = rest.split_first_chunk::<8>().ok_or_else(|| invalid(input))?;
    let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
    // Signed in [MS-FSCC]; negative ones are refused.
    match [first, second].into_iter().find(|it| i64::try_from(*it).is_err()) {
        Some(negative) => Err(Reject::OffsetNegative(negative)),
        None => Ok((first, second)),
    }
}

/// The end of a range that begins at `offset`.
fn end_of(offset: u64, length: u64) -> Result<u64, Reject> {
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or(Reject::RangeBeyondMax { offset, length })
}

/// Reason for refusing a malformed input.
fn invalid(input: &[u8]) -> Reject {
    Reject::FsctlInputInvalid(input.len())
}

/// Verifies that the client takes an output of fixed size.
fn verify_room(request: &IoctlRequest<'_>, need: usize) -> Result<(), Reject> {
    let room = output_max(request);
    if room < need { Err(Reject::FsctlOutputTooSmall { need, room }) } else { Ok(()) }
}
