//! Changes of quotas: [MS-SMB2] 3.3.5.21.4, [MS-FSA] 2.1.5.22; and of their state: 2.1.5.16.6.
//!
//! The store sets limits with the rights of the user. A command for that is run for administrators
//! only, which the store tells. A tree connect without the right to write changes no quotas, also
//! for an administrator: with `force user = root`, a guest is one for the store.

use std::collections::VecDeque;

use dtyp::fscc::{FileFsControlInformation, FileQuotaInformation, QuotaList};
use dtyp::{AccessMask, Sid};
use engine::effect::{Effect, Reply};
use engine::response::Step;
use engine::scope::InTree;
use model::reject::Reject;
use model::tree_connect::TreeConnect;
use object::{
    NewQuota, ObjectOp, ObjectReply, QuotaChange, QuotaLimits, QuotaOp, QuotaState, QuotaSubject,
};

use super::{Pending, decode, done};
use crate::command::query_info::quota::{COMMANDS_MAX, USERS_MAX};

/// State of a change while it is pending.
#[derive(Debug)]
pub enum Change {
    /// The store sets the limits.
    Setting,
    /// The store finds the users for the command.
    Finding(Vec<NewQuota>),
    /// The store checks that the user is an administrator, before this change of the defaults.
    Verifying(QuotaChange),
    /// Without a command, the change must be none: the store tells the state.
    Comparing(QuotaChange),
    /// The command makes the first of these changes.
    Commanding(VecDeque<QuotaChange>),
}

/// Begins to set limits of users.
pub(super) fn start(mut scope: InTree<'_>, list: &[u8]) -> Result<Step<Pending>, Reject> {
    verify_changeable(scope.tree)?;
    let has_command = scope.tree.share.quota_commands.set;
    let count_max = if has_command { COMMANDS_MAX } else { USERS_MAX };
    let mut quotas = Vec::new();
    for information in QuotaList(list).iter().take(count_max + 1) {
        quotas.push(new_quota(information?)?);
    }
    if quotas.len() > count_max {
        return Err(Reject::TooManyQuotaUsers(quotas.len()));
    }
    match has_command {
        false => ask(&mut scope, QuotaOp::Set(quotas), Change::Setting),
        true => {
            let sids = quotas.iter().map(|new| new.sid.clone()).collect();
            ask(&mut scope, find(sids), Change::Finding(quotas))
        }
    }
}

/// Begins to change the state of all quotas, and the limits of users without limits of their own.
pub(super) fn start_control(mut scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    verify_changeable(scope.tree)?;
    let control = decode(FileFsControlInformation::decode(buffer))?;
    let flag = |flag: u32| control.file_system_control_flags & flag != 0;
    // QUOTA_TRACK takes precedence: [MS-FSCC] 2.5.2.
    let only_tracks = flag(FileFsControlInformation::QUOTA_TRACK);
    let state = match (only_tracks, flag(FileFsControlInformation::QUOTA_ENFORCE)) {
        (true, _) => QuotaState::Tracked,
        (false, true) => QuotaState::Enforced,
        (false, false) => QuotaState::Off,
    };
    let limits = limits(control.default_quota_threshold, control.default_quota_limit)?;
    let change = QuotaChange { subject: QuotaSubject::Defaults, state, limits };
    ask(&mut scope, find(Vec::new()), Change::Verifying(change))
}

/// Goes on with a change once the store or the command has answered.
pub(super) fn resume(
    mut scope: InTree<'_>,
    change: Change,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    match change {
        Change::Setting => {
            reply.object()?;
            done()
        }
        Change::Finding(quotas) => {
            let ObjectReply::QuotaUsers(users) = reply.object()? else {
                panic!("the users were asked for")
            };
            let limits = quotas.iter().map(|new| new.limits);
            let changes = users.iter().zip(limits).map(|(user, limits)| QuotaChange {
                subject: QuotaSubject::User(user.uid),
                state: QuotaState::Enforced,
                limits,
            });
            run(&scope, changes.collect())
        }
        Change::Verifying(change) => {
            reply.object()?;
            match scope.tree.share.quota_commands.set {
                true => run(&scope, [change].into()),
                false => ask(&mut scope, QuotaOp::QueryState, Change::Comparing(change)),
            }
        }
        Change::Comparing(wanted) => {
            let ObjectReply::QuotaState(state) = reply.object()? else {
                panic!("the state was asked for")
            };
            // File systems have no limits for users without limits of their own.
            match state == wanted.state && wanted.limits == QuotaLimits::default() {
                true => done(),
                false => Err(Reject::QuotaStateFixed),
            }
        }
        Change::Commanding(mut changes) => {
            let Reply::QuotaChanged(true) = reply else {
                return Err(Reject::QuotaCommandFailed);
            };
            changes.pop_front();
            run(&scope, changes)
        }
    }
}

/// Refuses a change through a share that the user may only read. Quotas are of the whole file
/// system, so the rights of the open, which is any file of the share, do not count.
fn verify_changeable(tree: &TreeConnect) -> Result<(), Reject> {
    let (wanted, granted) = (AccessMask::WRITE_DATA, tree.maximal_access);
    if granted.contains(wanted) {
        return Ok(());
    }
    Err(Reject::AccessNotGranted { wanted, granted })
}

fn ask(scope: &mut InTree<'_>, op: QuotaOp, change: Change) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    let op = ObjectOp::Quotas { open: open.file()?.local_open, op };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Quota(change)))
}

fn find(sids: Vec<Sid>) -> QuotaOp {
    QuotaOp::FindUsers { sids, to_change: true }
}

/// Has the command make the first change.
fn run(scope: &InTree<'_>, changes: VecDeque<QuotaChange>) -> Result<Step<Pending>, Reject> {
    match (changes.front(), scope.tree.share.root) {
        (Some(change), Some(root)) => {
            let effect = Effect::ChangeQuota { root, change: *change };
            Ok(Step::Wait(effect, Pending::Quota(Change::Commanding(changes))))
        }
        _ => done(),
    }
}

fn new_quota(information: FileQuotaInformation) -> Result<NewQuota, Reject> {
    let FileQuotaInformation { quota_threshold, quota_limit, sid, .. } = information;
    // A user without limits has no quota for the kernel.
    let limits = match quota_limit {
        FileQuotaInformation::DELETED => QuotaLimits::default(),
        limit => limits(quota_threshold, limit)?,
    };
    // [MS-FSA] 2.1.5.22: administrators have no limit.
    if sid == Sid::administrators() && limits != QuotaLimits::default() {
        return Err(Reject::QuotaOfAdministrators);
    }
    Ok(NewQuota { sid, limits })
}

fn limits(threshold: u64, limit: u64) -> Result<QuotaLimits, Reject> {
    let bytes = |value: u64| match value {
        FileQuotaInformation::NO_LIMIT => Ok(None),
        value if i64::try_from(value).is_err() => Err(Reject::QuotaLimitInvalid(value)),
        value => Ok(Some(value)),
    };
    Ok(QuotaLimits { soft_bytes: bytes(threshold)?, hard_bytes: bytes(limit)? })
}
