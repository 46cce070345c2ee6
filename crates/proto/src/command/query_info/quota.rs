//! Quotas of users: [MS-SMB2] 3.3.5.20.4, [MS-FSA] 2.1.5.21.
//!
//! The store tells them, with the rights of the user. On a share with a command for quotas the
//! store finds the users only, and the command tells the quota of each.

use std::collections::VecDeque;

use dtyp::fscc::{EntryListWriter, FileQuotaInformation, GetQuotaList, QuotaListError};
use dtyp::{FileTime, NtStatus, Sid};
use engine::effect::{Effect, Reply};
use engine::response::Step;
use model::open::Open;
use model::reject::Reject;
use model::tree_connect::TreeConnect;
use object::{
    ObjectOp, ObjectReply, Quota, QuotaOp, QuotaQuery, QuotaStart, QuotaSubject, QuotaUser,
    UserQuota,
};
use wire::query_info::QueryInfoRequest;
use wire::query_quota::{QueryQuotaInfo, QuotaUsers};

use super::{Pending, respond};

/// Users that one request may list, as many as the store tells at once.
pub(crate) const USERS_MAX: usize = 1_024;

/// Users that one request may list if a command is run for each.
pub(crate) const COMMANDS_MAX: usize = 64;

/// Bytes of the shortest entry, but for the padding: a SID with one subauthority.
const ENTRY_BYTES_MIN: u32 = 52;

/// State of a query of quotas.
#[derive(Debug)]
pub struct Question {
    /// True for all users, false for those of a list.
    is_scan: bool,
    single: bool,
    output_buffer_length: u32,
    /// Quotas that the command has told so far.
    told: Vec<UserQuota>,
    /// Users whose quotas it tells next.
    users: VecDeque<QuotaUser>,
}

/// Requests the quotas from the store, or the users if a command tells their quotas.
pub(super) fn start(
    tree: &TreeConnect,
    open: &mut Open,
    request: &QueryInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let query = QueryQuotaInfo::decode(request.input_buffer).map_err(Reject::Malformed)?;
    let has_command = tree.share.quota_commands.get;
    let mut sids = sids(&query, if has_command { COMMANDS_MAX } else { USERS_MAX })?;
    let local_open = open.file()?.local_open;
    let file = open.file_mut()?;
    if query.restart_scan {
        file.next_quota_user = 0;
    }
    let is_scan = !matches!(query.users, QuotaUsers::Listed(_));
    let question = Question {
        is_scan,
        single: query.return_single,
        output_buffer_length: request.output_buffer_length,
        told: Vec::new(),
        users: VecDeque::new(),
    };
    let op = if has_command {
        // A command tells the quota of a user, and not which users have one.
        if query.users == QuotaUsers::All && file.next_quota_user > 0 {
            return Err(Reject::NoMoreQuotas);
        }
        QuotaOp::FindUsers { sids, to_change: false }
    } else if is_scan {
        let next = u32::try_from(file.next_quota_user).map_err(|_| Reject::NoMoreQuotas);
        let start = match sids.pop() {
            Some(sid) => QuotaStart::Sid(sid),
            None => QuotaStart::Uid(next?),
        };
        let room = request.output_buffer_length / ENTRY_BYTES_MIN + 1;
        let count_max = if query.return_single { 1 } else { room };
        QuotaOp::Query(QuotaQuery::Scan { start, count_max })
    } else {
        QuotaOp::Query(QuotaQuery::Named(sids))
    };
    let op = ObjectOp::Quotas { open: local_open, op };
    let pending = Pending::Quota(question);
    Ok(Step::Wait(Effect::Object { user: open.user, op }, pending))
}

/// Makes the response from the quotas of the store, or has the command tell the next one.
pub(super) fn resume(
    tree: &TreeConnect,
    open: &mut Open,
    mut question: Question,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    match reply {
        Reply::Quota(told) => {
            let quota = told.ok_or(Reject::QuotaCommandFailed)?.quota;
            let user = question.users.pop_front().expect("its quota was asked for");
            question.told.push(UserQuota { user, quota });
        }
        reply => match reply.object()? {
            ObjectReply::Quotas(quotas) => question.told = quotas,
            ObjectReply::QuotaUsers(users) => question.users = users.into(),
            other => panic!("{other:?} does not answer a query of quotas"),
        },
    }
    if let (Some(user), Some(root)) = (question.users.front(), tree.share.root) {
        let effect = Effect::FindQuota { root, subject: QuotaSubject::User(user.uid) };
        return Ok(Step::Wait(effect, Pending::Quota(question)));
    }
    list(open, &question)
}

/// Lists as many quotas as fit. Of a scan the next query has the others; for those of a list,
/// BUFFER_OVERFLOW reports that some are missing.
fn list(open: &mut Open, question: &Question) -> Result<Step<Pending>, Reject> {
    let limit = usize::try_from(question.output_buffer_length).expect("32 bits fit memory");
    let count_max = if question.single { 1 } else { usize::MAX };
    let mut out = Vec::new();
    let mut writer = EntryListWriter::new(&mut out, limit, 8);
    let mut left_out = None;
    let mut last = None;
    for UserQuota { user, quota } in question.told.iter().take(count_max) {
        let mut entry = Vec::new();
        information(user.sid.clone(), quota).encode(&mut entry);
        if !writer.push(|out| out.extend_from_slice(&entry)) {
            left_out = Some(entry.len());
            break;
        }
        last = Some(user.uid);
    }
    let status = match (last, left_out) {
        (None, Some(need)) => return Err(Reject::OutputBufferTooSmall { need, room: limit }),
        (None, None) => return Err(Reject::NoMoreQuotas),
        (Some(_), Some(_)) if !question.is_scan => NtStatus::BUFFER_OVERFLOW,
        (Some(_), _) => NtStatus::SUCCESS,
    };
    if let Some(uid) = last.filter(|_| question.is_scan) {
        open.file_mut()?.next_quota_user = u64::from(uid) + 1;
    }
    Ok(respond(status, &out))
}

/// Bytes of a limit as clients see it.
pub(super) fn limit_bytes(limit: Option<u64>) -> u64 {
    limit.unwrap_or(FileQuotaInformation::NO_LIMIT)
}

fn information(sid: Sid, quota: &Quota) -> FileQuotaInformation {
    FileQuotaInformation {
        // The kernel does not know it.
        change_time: FileTime::ZERO,
        quota_used: quota.used_bytes,
        quota_threshold: limit_bytes(quota.limits.soft_bytes),
        quota_limit: limit_bytes(quota.limits.hard_bytes),
        sid,
    }
}

/// Returns the SIDs of a list, or that of the first user.
fn sids(query: &QueryQuotaInfo<'_>, count_max: usize) -> Result<Vec<Sid>, Reject> {
    let sids = match query.users {
        QuotaUsers::All => Vec::new(),
        QuotaUsers::From(sid) => {
            vec![Sid::decode(sid).ok_or(QuotaListError { offset: 0 })?]
        }
        QuotaUsers::Listed(list) => {
            GetQuotaList(list).iter().take(count_max + 1).collect::<Result<Vec<_>, _>>()?
        }
    };
    if sids.len() > count_max {
        return Err(Reject::TooManyQuotaUsers(sids.len()));
    }
    Ok(sids)
}
