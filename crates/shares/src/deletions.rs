//! Deletions that a worker carries out for the open that has marked the file, which has ended.

use std::path::PathBuf;
use std::sync::Arc;

use arbitration::{GROUPS_KEPT_MAX, RequestingUser, UserRights};
use dtyp::NtStatus;
use object::{ObjectPath, UserId};
use proto::Account;
use proto::audit::Audit;
use proto::effect::ConnectShare;
use store::{Credentials, RecycleSettings, RootSettings};

use super::audit::audit_of;
use super::opening::{Opening, StorageMode};
use super::requester::Requester;
use super::share_users::substitutions_of;
use super::shares::Shares;
use super::{unix, usershares};

/// A share at its former path, opened again to delete a file in it.
#[derive(Debug)]
pub struct Reopening {
    /// As the user who has marked the file, with the recycle bin of that tree connect; `None` if
    /// the user is not known, or the server has one user for all.
    pub as_user: Option<Opening>,
    /// Root of the share as the server's user opens it.
    pub as_server: Opening,
    /// Audit of the share for that user, if one is configured.
    pub audit: Option<Arc<Audit>>,
}

impl Shares<'_> {
    /// Returns the root of a share at its former path, to delete a file. With the server's rights
    /// vetoed entries in a directory prevent its removal: the user might not have been allowed to
    /// remove them. Where nobody knows the user, a recycle bin with `%U` in its path is that of
    /// `_`.
    ///
    /// # Errors
    /// There is no such share any more.
    pub fn reopening(
        &mut self,
        name: &str,
        folder: &ObjectPath,
        user: Option<&RequestingUser>,
    ) -> Result<Reopening, NtStatus> {
        let usershare = match self.config.share(name) {
            Some(_) => None,
            None => usershares::find(self.config, name).map(|it| it.share),
        };
        let share = self.config.share(name).or(usershare.as_ref()).or(self.config.homes.as_ref());
        let share = share.ok_or(NtStatus::BAD_NETWORK_NAME)?;
        let substitutions = match user {
            Some(it) => {
                let known = substitutions_of(self.config, &it.name, &it.domain, share);
                Requester::of_user(it).add_to(known)
            }
            None => self.config.substitutions(),
        };
        let path = format!("/{}", folder.as_str());
        let mut settings = self.root_settings(share, &path, false, &substitutions);
        // A share that had no bin when the user connected may have one by now.
        let bin = user.map(|it| it.recycle_bin.as_str()).filter(|it| !it.is_empty());
        if let (Some(recycle), Some(bin)) = (&mut settings.recycle, bin) {
            recycle.repository = PathBuf::from(bin);
        }
        let opening = |settings, user| Opening {
            share: name.to_owned(),
            settings,
            user,
            storage: StorageMode::of(share),
            rules: None,
            depots: Vec::new(),
            snapshots: None,
        };
        let rights = user.and_then(|it| it.rights.as_deref());
        let rights = rights.filter(|_| self.accounts.is_root());
        let as_user = rights
            .map(|rights| opening(settings.clone(), self.store.register_user(credentials(rights))));
        let recycle = settings.recycle.map(|it| RecycleSettings { gives_directories: true, ..it });
        let settings = RootSettings { remove_vetoed: false, recycle, ..settings };
        let server = self.store.register_user(unix::own_user().credentials);
        let as_server = opening(settings, server);
        let audit = user.and_then(|it| audit_of(share, it, &substitutions));
        Ok(Reopening { as_user, as_server, audit })
    }

    /// Returns what deletions keep of the user of a tree connect.
    pub(super) fn requesting_user(
        &self,
        account: &Account,
        request: &ConnectShare,
        opening: &Opening,
    ) -> Arc<RequestingUser> {
        let recycle_bin = opening.settings.recycle.as_ref().map(|it| it.repository.as_path());
        let recycle_bin = recycle_bin.and_then(|it| it.to_str()).unwrap_or_default().to_owned();
        Arc::new(RequestingUser {
            name: account.user.clone(),
            domain: account.domain.clone(),
            is_guest: account.is_guest,
            client: request.client,
            client_name: request.client_name.clone(),
            recycle_bin,
            rights: self.rights_of(opening.user),
        })
    }

    fn rights_of(&self, user: UserId) -> Option<Arc<UserRights>> {
        if !self.accounts.is_root() {
            return None;
        }
        let Credentials { uid, gid, groups, sid, sids } =
            self.store.users().nth(usize::try_from(user.0).ok()?)?;
        let is_kept = groups.len() + sids.len() <= GROUPS_KEPT_MAX;
        is_kept.then(|| {
            let (groups, sid, sids) = (groups.clone(), sid.clone(), sids.clone());
            Arc::new(UserRights { uid: *uid, gid: *gid, groups, sid, sids })
        })
    }
}

fn credentials(rights: &UserRights) -> Credentials {
    let UserRights { uid, gid, groups, sid, sids } = rights.clone();
    Credentials { uid, gid, groups, sid, sids }
}
