//! Quotas of users on the file system of a share: [MS-SMB2] 3.3.5.20.4, 3.3.5.21.4.
//!
//! Each call has the rights of the request's user, so the kernel decides who sees and sets what:
//! users see their own quota, and root (`admin users`) sees and sets all. A share that is read only
//! and a snapshot set none.

use dtyp::{NtStatus, Sid};
use object::{
    LocalOpen, NewQuota, ObjectReply, ObjectResult, Quota, QuotaOp, QuotaQuery, QuotaStart,
    QuotaState, QuotaUser, UserQuota,
};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

use crate::Store;
use crate::errno::{During, Operation};
use crate::security::mapping::trustee;
use crate::settings::Trustee;
use crate::sys::quota;

/// Users of one scan at most, whatever the reply has room for.
const SCANNED_MAX: u32 = 1_024;

impl Store {
    pub(crate) fn run_on_quotas(&self, open: LocalOpen, op: QuotaOp) -> ObjectResult {
        match op {
            QuotaOp::FindUsers { sids, to_change } => {
                self.find_quota_users(open, sids, to_change).map(ObjectReply::QuotaUsers)
            }
            QuotaOp::Query(query) => self.query_quotas(open, query).map(ObjectReply::Quotas),
            QuotaOp::QueryState => self.query_quota_state(open).map(ObjectReply::QuotaState),
            QuotaOp::Set(quotas) => self.set_quotas(open, &quotas).map(|()| ObjectReply::Done),
        }
    }

    fn query_quotas(&self, open: LocalOpen, query: QuotaQuery) -> Result<Vec<UserQuota>, NtStatus> {
        let object = self.opens.get(open)?.fd();
        match query {
            QuotaQuery::Named(sids) => {
                let of = |sid: Sid| {
                    let uid = self.quota_uid(&sid)?;
                    let quota = quota::get(object, uid).during(Operation::Quota)?;
                    Ok(UserQuota { user: QuotaUser { sid, uid }, quota })
                };
                sids.into_iter().map(of).collect()
            }
            QuotaQuery::Scan { start, count_max } => {
                let first = match start {
                    QuotaStart::Sid(sid) => self.quota_uid(&sid)?,
                    QuotaStart::Uid(uid) => uid,
                };
                let found = match scan(object, first, count_max.min(SCANNED_MAX)) {
                    Err(Errno::PERM) => self.own_quota(object, first),
                    found => found,
                };
                let found = found.during(Operation::Quota)?.into_iter();
                let user = |uid| QuotaUser { sid: self.quota_sid(uid), uid };
                Ok(found.map(|(uid, quota)| UserQuota { user: user(uid), quota }).collect())
            }
        }
    }

    fn query_quota_state(&self, open: LocalOpen) -> Result<QuotaState, NtStatus> {
        let object = self.opens.get(open)?.fd();
        quota::state(object).during(Operation::Quota)
    }

    fn set_quotas(&self, open: LocalOpen, quotas: &[NewQuota]) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        opened.root.verify_changeable()?;
        let object = opened.fd();
        let uids = quotas.iter().map(|new| self.quota_uid(&new.sid));
        let uids = uids.collect::<Result<Vec<u32>, NtStatus>>()?;
        let set = |(new, uid): (&NewQuota, u32)| quota::set(object, uid, new.limits);
        quotas.iter().zip(uids).try_for_each(set).during(Operation::Quota)
    }

    fn find_quota_users(
        &self,
        open: LocalOpen,
        sids: Vec<Sid>,
        to_change: bool,
    ) -> Result<Vec<QuotaUser>, NtStatus> {
        let opened = self.opens.get(open)?;
        if to_change {
            opened.root.verify_changeable()?;
        }
        let own = self.impersonation.identity()?;
        let mut users = Vec::new();
        for sid in sids {
            let uid = self.quota_uid(&sid)?;
            users.push(QuotaUser { sid, uid });
        }
        let are_own = users.iter().all(|user| user.uid == own.uid);
        if !own.is_root && (to_change || !are_own) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if users.is_empty() {
            users.push(QuotaUser { sid: own.user.clone(), uid: own.uid });
        }
        Ok(users)
    }

    /// Returns the quota of the user of the request, if the file system keeps one.
    pub(crate) fn quota_of_requester(&self, object: BorrowedFd<'_>) -> Option<Quota> {
        // The kernel takes a query of a quota for a write, which waits while the file system is
        // frozen. A query of the state does not wait.
        match quota::state(object).ok()? {
            QuotaState::Off => None,
            QuotaState::Tracked | QuotaState::Enforced => {
                quota::get(object, self.impersonation.effective().uid).ok()
            }
        }
    }

    fn own_quota(&self, object: BorrowedFd<'_>, first: u32) -> Result<Vec<(u32, Quota)>, Errno> {
        let uid = self.impersonation.effective().uid;
        let quota = quota::get(object, uid)?;
        Ok(if uid >= first { vec![(uid, quota)] } else { Vec::new() })
    }

    /// The user with this SID; groups have none of these quotas.
    fn quota_uid(&self, sid: &Sid) -> Result<u32, NtStatus> {
        match trustee(&self.impersonation, sid) {
            Some(Trustee::User(uid)) => Ok(uid),
            Some(Trustee::Group(_)) | None => Err(NtStatus::NONE_MAPPED),
        }
    }

    fn quota_sid(&self, uid: u32) -> Sid {
        let known = self.impersonation.identity_of(uid);
        known.map_or_else(|| Sid::unix_user(uid), |known| known.user.clone())
    }
}

fn scan(object: BorrowedFd<'_>, first: u32, count_max: u32) -> Result<Vec<(u32, Quota)>, Errno> {
    let mut found = Vec::new();
    let mut next = Some(first);
    for _ in 0..count_max {
        let Some(start) = next else { break };
        let Some((uid, quota)) = quota::get_next(object, start)? else { break };
        found.push((uid, quota));
        next = uid.checked_add(1);
    }
    Ok(found)
}
