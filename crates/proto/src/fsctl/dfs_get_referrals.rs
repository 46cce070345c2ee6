//! FSCTL_DFS_GET_REFERRALS and FSCTL_DFS_GET_REFERRALS_EX: [MS-SMB2] 3.3.5.15.2, [MS-DFSC] 3.2.5.
//!
//! Namespaces are those of Samba: a share that is a root, with symbolic links to
//! `msdfs:server\share`. Referrals to domains and domain controllers are not supported.

use dtyp::utf16;
use engine::effect::{ConnectShare, Effect, FindReferral, Referral, Reply};
use model::reject::Reject;
use object::{ObjectPath, SymbolicLink};
use wire::ioctl::{
    DfsReferralFlags, DfsReferralRequest, DfsReferralResponse, FsctlCode, IoctlRequest,
};

use super::{Fsctl, Output, Progress, WithoutOpen, invalid, output_max};
use crate::dfs::DfsPath;

/// Reports the target of a path.
pub(crate) struct DfsGetReferrals;

/// The same with the client's site, which is ignored.
pub(crate) struct DfsGetReferralsEx;

/// A request while the worker looks up the path.
#[derive(Debug)]
pub(crate) struct PendingReferral {
    request: DfsReferralRequest,
    room: usize,
}

/// Time for which a client may rely on a referral, in seconds; the same as in Samba.
const TIME_TO_LIVE: u32 = 600;

/// Supported versions of entries; a client that knows only the first gets the second, as from
/// Samba.
const VERSIONS: std::ops::RangeInclusive<u16> = 2..=4;

impl Fsctl for DfsGetReferrals {
    const CODE: FsctlCode = FsctlCode::DFS_GET_REFERRALS;
    type Scope<'s> = WithoutOpen<'s>;
    type Pending = PendingReferral;

    fn start(
        scope: WithoutOpen<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<PendingReferral>, Reject> {
        let decoded = DfsReferralRequest::decode(request.input);
        ask(&scope, decoded.map_err(|_| invalid(request.input)), output_max(request))
    }

    fn resume(
        _: WithoutOpen<'_>,
        pending: PendingReferral,
        reply: Reply,
    ) -> Result<Progress<PendingReferral>, Reject> {
        answer(&pending, reply)
    }
}

impl Fsctl for DfsGetReferralsEx {
    const CODE: FsctlCode = FsctlCode::DFS_GET_REFERRALS_EX;
    type Scope<'s> = WithoutOpen<'s>;
    type Pending = PendingReferral;

    fn start(
        scope: WithoutOpen<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<PendingReferral>, Reject> {
        let decoded = DfsReferralRequest::decode_extended(request.input);
        ask(&scope, decoded.map_err(|_| invalid(request.input)), output_max(request))
    }

    fn resume(
        _: WithoutOpen<'_>,
        pending: PendingReferral,
        reply: Reply,
    ) -> Result<Progress<PendingReferral>, Reject> {
        answer(&pending, reply)
    }
}

fn ask(
    scope: &WithoutOpen<'_>,
    request: Result<DfsReferralRequest, Reject>,
    room: usize,
) -> Result<Progress<PendingReferral>, Reject> {
    if !scope.globals.settings.dfs {
        return Err(Reject::DfsOff);
    }
    let mut request = request?;
    // Some clients send two leading separators, which count as one here.
    request.request_file_name = format!("\\{}", request.request_file_name.trim_matches('\\'));
    let wanted = DfsPath::parse(&request.request_file_name).ok_or(Reject::NoSuchDfsPath)?;
    // The number of consumed components in the response refers to the request's own path, so the
    // path must not have any that resolving would drop.
    let is_plain = |name: &str| !matches!(name, "" | "." | "..");
    if !wanted.path.is_empty() && !wanted.path.split('\\').all(is_plain) {
        return Err(Reject::NoSuchDfsPath);
    }
    let path = ObjectPath::parse(wanted.path).map_err(|_| Reject::NoSuchDfsPath)?;
    let connect = ConnectShare {
        name: wanted.share.to_owned(),
        server: wanted.server.to_owned(),
        account: std::sync::Arc::clone(scope.session.account()),
        client: scope.connection.client,
        client_name: scope.session.client_name.clone(),
        server_address: scope.connection.server,
        dialect: scope.connection.negotiated().dialect,
        encrypted: scope.session.encrypt_data,
        session_id: scope.session.session_id,
    };
    let effect = Effect::FindReferral(Box::new(FindReferral { connect, path }));
    Ok(Progress::Wait(effect, PendingReferral { request, room }))
}

fn answer(asked: &PendingReferral, reply: Reply) -> Result<Progress<PendingReferral>, Reject> {
    let Reply::Referral(referral) = reply else {
        panic!("a referral was asked for, and {reply:?} came back")
    };
    let PendingReferral { request, room } = asked;
    let path = &request.request_file_name;
    let response = match referral.map_err(Reject::Object)? {
        Referral::Root => DfsReferralResponse {
            flags: DfsReferralFlags::REFERRAL_SERVERS | DfsReferralFlags::STORAGE_SERVERS,
            is_root: true,
            dfs_path: path.clone(),
            targets: vec![path.clone()],
            ..DfsReferralResponse::default()
        },
        Referral::Link(link) => DfsReferralResponse {
            flags: DfsReferralFlags::STORAGE_SERVERS,
            dfs_path: consumed(path, &link).to_owned(),
            targets: targets(&link),
            ..DfsReferralResponse::default()
        },
    };
    let version = request.max_referral_level.clamp(*VERSIONS.start(), *VERSIONS.end());
    let response = DfsReferralResponse { version, time_to_live: TIME_TO_LIVE, ..response };
    if response.targets.is_empty() || !is_short(&response) {
        return Err(Reject::NoSuchDfsPath);
    }
    // [MS-DFSC] 3.2.5.1: entries are never truncated.
    let overflow = Reject::ReferralTooLong(*room);
    Ok(Progress::Done(Output::new(response.fitting(*room).ok_or(overflow)?)))
}

/// Returns the part of the path that leads to the link.
fn consumed<'a>(path: &'a str, link: &SymbolicLink) -> &'a str {
    let behind = link.unparsed_path.matches('\\').count();
    let mut separators = path.rmatch_indices('\\').map(|(at, _)| at);
    match behind.checked_sub(1).and_then(|behind| separators.nth(behind)) {
        Some(end) => &path[..end],
        None => path,
    }
}

/// Returns the targets of a link: `msdfs:one\share,two\share` has two.
fn targets(link: &SymbolicLink) -> Vec<String> {
    let targets = link.link.substitute_name.split_once(':').map_or("", |(_, targets)| targets);
    let clean = |target: &str| target.replace('/', "\\").trim_matches('\\').to_owned();
    let targets = targets.split(',').map(clean).filter(|target| target.contains('\\'));
    targets.map(|target| format!("\\{target}")).collect()
}

/// Returns whether the response fits the 16 bits of its offsets.
fn is_short(response: &DfsReferralResponse) -> bool {
    const ENTRY_BYTES_MAX: usize = 64;
    let texts = response.targets.iter().chain([&response.dfs_path]);
    let bytes = texts.map(|text| utf16::to_bytes(text).len() + ENTRY_BYTES_MAX).sum::<usize>();
    bytes <= usize::from(u16::MAX)
}
