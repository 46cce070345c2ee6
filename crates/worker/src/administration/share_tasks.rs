//! Changes of shares: the properties of a request as those of the configuration.

use std::path::PathBuf;
use std::time::Instant;

use config::choice::CscPolicy;
use dtyp::SecurityDescriptor;
use messaging::{CloseShare, Content, MessageKind};
use rpc::{ShareChange, TaskFailure};
use shares::added_shares::{AddedShares, ChangeFault, ChangedShare, NewShare, has_share};
use tracing::{debug, info, warn};

use super::waiting_requests::AddedShare;
use crate::event_loop::Worker;

/// Time at which a change is in effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    /// Once the supervisor has read the configuration.
    AfterReload,
    /// As soon as it is written.
    AtOnce,
}

impl Worker {
    /// Adds a share that users may write to, within the limits of its descriptor. It is there when
    /// the configuration was read.
    pub(super) fn add_share(
        &self,
        name: String,
        change: ShareChange,
    ) -> Result<AddedShare, TaskFailure> {
        let security = change.security.as_deref().map(descriptor).transpose()?;
        let new = NewShare {
            name,
            path: PathBuf::from(change.path.unwrap_or_default()),
            comment: change.comment.unwrap_or_default(),
            max_connections: max_connections(change.max_users.unwrap_or(u32::MAX)),
            security,
            ..NewShare::default()
        };
        let shares = AddedShares::open_at_once(&self.settings).map_err(busy)?;
        let path = shares.write(&new).map_err(failure)?;
        info!("an administrator adds the share {} of {}", new.name, path.display());
        Ok(AddedShare { name: new.name, path })
    }

    /// Verifies that the configuration has a share that was added, and else removes it again.
    pub(super) fn verify_added(&self, added: &AddedShare) -> Result<(), TaskFailure> {
        if has_share(&self.settings.config, &added.name, &added.path) {
            return Ok(());
        }
        let shares = AddedShares::open_at_once(&self.settings).map_err(busy)?;
        let (file, _) = shares.text();
        warn!(
            "no share is added: the configuration does not include {0}; add to its end: include = \
             {0}",
            file.display()
        );
        shares.remove(&added.name).map_err(failure)?;
        Err(TaskFailure::NotSupported)
    }

    /// Changes a share. Of one in the configuration's own file, only the descriptor can change.
    pub(super) fn change_share(
        &self,
        name: &str,
        change: ShareChange,
    ) -> Result<Effect, TaskFailure> {
        let config = &self.settings.config;
        let security = change.security.as_deref().map(descriptor).transpose()?;
        let shares = AddedShares::open_at_once(&self.settings).map_err(busy)?;
        let Some(share) = config.share(name) else {
            let is_usershare = shares::usershares::is_one(config, name);
            return Err(match is_usershare || name.eq_ignore_ascii_case("IPC$") {
                true => TaskFailure::AccessDenied,
                false => TaskFailure::NoSuchShare,
            });
        };
        let comment = config.substitutions().expand(&share.comment);
        let changed = differences(share, change, &comment);
        if !changed.is_empty() && !shares.has(&share.name) {
            warn!("share {name}: only the operator changes what the configuration has");
            return Err(TaskFailure::AccessDenied);
        }
        if let Some(security) = security {
            shares.change_security(&share.name, security).map_err(failure)?;
            info!("an administrator has changed the descriptor of share {}", share.name);
        }
        if changed.is_empty() {
            return Ok(Effect::AtOnce);
        }
        shares.change(&share.name, &changed).map_err(failure)?;
        info!("an administrator has changed the share {}", share.name);
        Ok(Effect::AfterReload)
    }

    /// Removes a share that was added, and ends its tree connects: [MS-SMB2] 3.3.4.15.
    pub(super) fn remove_share(&mut self, name: &str) -> Result<(), TaskFailure> {
        let shares = AddedShares::open_at_once(&self.settings).map_err(busy)?;
        match (shares.remove(name), self.settings.config.share(name)) {
            (Ok(()), _) => info!("an administrator has removed the share {name}"),
            // The operator's alone.
            (Err(ChangeFault::NoShare(..)), Some(_)) => return Err(TaskFailure::AccessDenied),
            (Err(fault), _) => return Err(failure(fault)),
        }
        drop(shares);
        self.close_tree_connects(name);
        Ok(())
    }

    fn close_tree_connects(&mut self, share: &str) {
        let listed = self.registry.list_tree_connects().map(|it| it.records).unwrap_or_default();
        let is_of = |name: &str| name.to_lowercase() == share.to_lowercase();
        let workers = listed.into_iter().filter(|it| is_of(&it.share)).map(|it| it.server_id);
        let mut workers: Vec<_> = workers.collect();
        workers.sort_unstable();
        workers.dedup();
        let data = CloseShare { share: share.to_owned() }.encode();
        let content = Content::new(MessageKind::CLOSE_SHARE, &data);
        for worker in workers {
            if worker == self.registry.server_id() {
                let now = self.now();
                self.server.handle_close_share(now, Some(share));
            } else if let Err(error) = self.messaging.send(Instant::now(), worker, &content) {
                debug!("cannot close {share} in process {}: {error}", worker.pid);
            }
        }
    }
}

/// Returns the properties that a request changes; `comment` is that of the share now, as it is
/// listed.
fn differences(share: &config::Share, change: ShareChange, comment: &str) -> ChangedShare {
    let max = change.max_users.map(max_connections);
    let policy = change.offline_caching.and_then(csc_policy);
    ChangedShare {
        comment: change.comment.filter(|it| it != comment),
        max_connections: max.filter(|max| *max != share.max_connections),
        csc_policy: policy.filter(|(policy, _)| *policy != share.csc_policy).map(|(_, word)| word),
    }
}

/// Highest number of connections; in the configuration, 0 is any number.
fn max_connections(max_users: u32) -> u32 {
    if i32::try_from(max_users).is_ok() { max_users } else { 0 }
}

/// Policies in the order of their numbers in CSC_MASK: [MS-SRVS] 2.2.4.29.
fn csc_policy(number: u8) -> Option<(CscPolicy, &'static str)> {
    let policies = [
        (CscPolicy::Manual, "manual"),
        (CscPolicy::Documents, "documents"),
        (CscPolicy::Programs, "programs"),
        (CscPolicy::Disable, "disable"),
    ];
    policies.get(usize::from(number)).copied()
}

/// Reads the descriptor of a request. One without an owner is as good, and one without entries
/// keeps everybody out.
fn descriptor(bytes: &[u8]) -> Result<SecurityDescriptor, TaskFailure> {
    SecurityDescriptor::decode(bytes).ok_or(TaskFailure::InvalidParameter)
}

fn busy(error: anyhow::Error) -> TaskFailure {
    warn!("an administrator's change of shares failed: {error:#}");
    TaskFailure::Failed
}

fn failure(fault: ChangeFault) -> TaskFailure {
    warn!("an administrator's change of shares failed: {fault}");
    match fault {
        ChangeFault::Duplicate(_) => TaskFailure::DuplicateShare,
        ChangeFault::InvalidName(_) => TaskFailure::InvalidName,
        ChangeFault::Io(_) => TaskFailure::Failed,
        ChangeFault::NoFolder(_) => TaskFailure::NoSuchFolder,
        ChangeFault::NoShare(..) => TaskFailure::NoSuchShare,
        ChangeFault::NotIncluded(_) => TaskFailure::NotSupported,
        ChangeFault::Unfit(_) => TaskFailure::InvalidParameter,
    }
}

#[cfg(test)]
mod tests {
    use config::Config;
    use rpc::ShareChange;

    use super::{differences, max_connections};

    #[test]
    fn values_that_a_share_has_already_change_nothing() {
        let text = "[films]\npath = /srv/films\ncomment = Old ones\nmax connections = 5\n\
                    csc policy = documents\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let share = config.share("films").expect("it is there");
        let same = ShareChange {
            comment: Some("Old ones".to_owned()),
            path: None,
            max_users: Some(5),
            offline_caching: Some(1),
            security: None,
        };
        assert!(differences(share, same.clone(), "Old ones").is_empty());
        let changed = differences(
            share,
            ShareChange { max_users: Some(u32::MAX), offline_caching: Some(3), ..same },
            "Old ones",
        );
        assert_eq!((changed.max_connections, changed.csc_policy), (Some(0), Some("disable")));
        assert!(changed.comment.is_none());
        assert_eq!(max_connections(1 << 31), 0);
    }
}
