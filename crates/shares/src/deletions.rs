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
use super::refusal::Refusal;
use super::requester::{self, Requester};
use super::served::{self, warn_for_user};
use super::share_users::substitutions_of;
use super::shares::Shares;
use super::{homes, unix, usershares};

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
    /// The user is a guest, or may be one: guests must not fill the log.
    pub is_quiet: bool,
}

impl Shares<'_> {
    /// Returns the root of a share at its former path, to delete a file. With the server's rights
    /// vetoed entries in a directory prevent its removal: the user might not have been allowed to
    /// remove them. Where nobody knows the user, a recycle bin with `%U` in its path is that of
    /// `_`. Files for single clients are those of the user and client of the deletion.
    ///
    /// # Errors
    /// There is no such share any more, or a file for the client cannot be read;
    /// INSUFF_SERVER_RESOURCES if nobody can tell now, so that another worker tries again.
    pub fn reopening(
        &mut self,
        name: &str,
        folder: &ObjectPath,
        user: Option<&RequestingUser>,
    ) -> Result<Reopening, NtStatus> {
        let is_guest = user.is_some_and(|it| it.is_guest);
        served::serving(is_guest, || self.reopening_for(name, folder, user))
    }

    fn reopening_for(
        &mut self,
        name: &str,
        folder: &ObjectPath,
        user: Option<&RequestingUser>,
    ) -> Result<Reopening, NtStatus> {
        let own = user.map(|it| requester::config_of_requester(self.config, it)).transpose();
        let own = own.map_err(|refusal| match refusal {
            Refusal::NoNameService => NtStatus::INSUFF_SERVER_RESOURCES,
            _ => NtStatus::BAD_NETWORK_NAME,
        });
        let Some(config) = own?.flatten() else {
            return self.reopening_by_config(name, folder, user);
        };
        let Shares { store, accounts, registry, qos, .. } = self;
        Shares { config: &config, store, accounts, registry, qos }
            .reopening_by_config(name, folder, user)
    }

    fn reopening_by_config(
        &mut self,
        name: &str,
        folder: &ObjectPath,
        user: Option<&RequestingUser>,
    ) -> Result<Reopening, NtStatus> {
        // As a tree connect finds it: no user's share takes the place of a home.
        let known = user.filter(|it| !it.is_guest).map(|it| it.name.as_str());
        let found = homes::find_share_again(self.config, self.accounts.names(), name, known);
        let found = found.map_err(|error| {
            warn_for_user!("share {name:?} of a deleted file cannot be looked up: {error:#}");
            NtStatus::INSUFF_SERVER_RESOURCES
        })?;
        let usershare = match found {
            Some(_) => None,
            None => usershares::find(self.config, name).map(|it| it.share),
        };
        let share = found.as_deref().or(usershare.as_ref()).ok_or(NtStatus::BAD_NETWORK_NAME)?;
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
        let is_quiet = user.map_or(share.guest_ok, |it| it.is_guest);
        let opening = |settings, user| Opening {
            share: name.to_owned(),
            settings,
            user,
            storage: StorageMode::of(share),
            rules: None,
            depots: Vec::new(),
            snapshots: None,
            reached: None,
            is_guest: is_quiet,
        };
        let rights = user.and_then(|it| it.rights.as_deref());
        let rights = rights.filter(|_| self.accounts.is_root());
        let as_user = rights
            .map(|rights| opening(settings.clone(), self.store.register_user(credentials(rights))));
        let recycle =
            settings.recycle.map(|it| RecycleSettings { gives_directories: true, is_quiet, ..it });
        let settings = RootSettings { remove_vetoed: false, recycle, ..settings };
        let server = self.store.register_user(unix::own_user().credentials);
        let as_server = opening(settings, server);
        let audit = user.and_then(|it| audit_of(share, it, &substitutions));
        Ok(Reopening { as_user, as_server, audit, is_quiet })
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
            server: request.server_address,
            dialect: request.dialect.0,
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use settings::Settings;
    use store::{Store, StoreSettings};
    use tables::{QosPage, Registry};

    use super::super::accounts::Accounts;
    use super::super::name_service::{Answer, Question};
    use super::super::requester::tests::{Lines, deleter};
    use super::*;

    /// Looks the share of a file up that anna has deleted; `lines` are those of the server.
    fn status(lines: &str, share: &str, is_guest: bool) -> Option<NtStatus> {
        let folder = tempfile::tempdir().expect("there is space");
        let file = folder.path().join("choro.conf");
        let text = format!("lock directory = {}\n{lines}", folder.path().display());
        std::fs::write(&file, text).expect("there is space");
        let settings = Settings::find(Some(&file)).expect("it is right");
        let accounts = Accounts::open(&settings);
        let mut store = Store::new(StoreSettings::default());
        let registry = Registry::create(folder.path()).expect("nothing runs there");
        let qos = QosPage::create(folder.path()).expect("there is space");
        let anna = deleter("anna", Some(UserRights { gid: 700, ..UserRights::default() }));
        let user = RequestingUser { is_guest, ..anna };
        let mut shares = Shares {
            config: &settings.config,
            store: &mut store,
            accounts: &accounts,
            registry: &registry,
            qos: &qos,
        };
        let root = ObjectPath::parse("srv").expect("a path");
        shares.reopening(share, &root, Some(&user)).err()
    }

    const HOMES: &str = "[homes]\npath = /srv/%S\n";

    /// Otherwise a client whose questions hang would undo deletions by others.
    #[test]
    fn while_the_name_service_fails_another_worker_has_to_delete() {
        unix::replace_name_service(|_| anyhow::bail!("the directory is away"));
        let group = "include = /nonexistent/%G\n[data]\npath = /srv\n";
        for (lines, share) in [(HOMES, "carl"), (group, "data")] {
            for (is_guest, written) in [(false, 1), (true, 0)] {
                let log = Lines::default();
                let found = tracing::subscriber::with_default(log.clone(), || {
                    status(lines, share, is_guest)
                });
                assert_eq!(found, Some(NtStatus::INSUFF_SERVER_RESOURCES), "{share}");
                assert_eq!(log.0.load(Ordering::Relaxed), written, "{share}, guest: {is_guest}");
            }
        }
    }

    #[test]
    fn a_share_or_a_group_that_is_gone_ends_a_deletion() {
        unix::replace_name_service(|question| {
            Ok(match question {
                Question::User(_) => Answer::User(None),
                _ => Answer::Named(None),
            })
        });
        let group = "include = /nonexistent/%G\n[data]\npath = /srv\n";
        for (lines, share) in [(HOMES, "carl"), (group, "data")] {
            assert_eq!(status(lines, share, false), Some(NtStatus::BAD_NETWORK_NAME), "{share}");
        }
    }
}
