//! Connecting a share: who may, from where, as whom, and with which rights.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arbitration::Caching;
use config::choice::{CscPolicy, Tri};
use config::hosts_access;
use config::{Config, Substitutions};
use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectPath, ObjectReply, RootId, UserId};
use proto::effect::{ConnectShare, Referral};
use proto::share::AppleShare;
use proto::{Account, Share, ShareRefusal};
use store::{Credentials, RootSettings, Started, Store};
use tables::{QosPage, Registry};
use tracing::{info, warn};
use wire::tree_connect::ShareFlags;

use super::accounts::Accounts;
use super::classes::membership;
use super::date;
use super::homes;
use super::share_properties::{is_available, is_continuously_available, policy};
use super::share_users::{
    Memberships, administrator, group_name, is_member, known_user, names_group, substitutions_of,
    with_names,
};
use super::unix::{self, UnixUser};

/// Connects clients to shares, for one call.
#[derive(Debug)]
pub struct Shares<'a> {
    pub config: &'a Config,
    pub store: &'a mut Store,
    pub accounts: &'a Accounts,
    pub registry: &'a Registry,
    pub qos: &'a QosPage,
}

/// All rights on a file, and those that a read-only share leaves: [MS-SMB2] 2.2.13.1.
const READ_ONLY: AccessMask = AccessMask::FILE_GENERIC_READ.union(AccessMask::FILE_GENERIC_EXECUTE);

impl Shares<'_> {
    /// Connects a share, or says why not.
    pub fn connect(&mut self, request: &ConnectShare) -> Result<Share, ShareRefusal> {
        if request.name.eq_ignore_ascii_case("IPC$") {
            return self.connect_pipes(request);
        }
        let share = self.find(request)?;
        let account = &*request.account;
        verify_hosts(&share, request.client)?;
        let account = self.guest_if_due(&share, account)?;
        let mut substitutions = substitutions(self.config, request, &account, &share);
        let share = with_names(share, &substitutions);
        verify_user(&share, &account)?;
        if self.is_full(&share) {
            return Err(ShareRefusal::TooManyConnections);
        }
        // As in Samba, lists of users mean the user also by this.
        substitutions.requested_user.clone_from(&account.requested_user);
        let memberships = Memberships::of(&account.groups);
        let is_listed = |kind, group: &str| memberships.is_listed(kind, group);
        // If the name service fails, the members of `read list` are unknown.
        let read_only =
            share.is_read_only_for(&account.user, is_listed) || memberships.is_unknown();
        let unix = self.unix_identity(&share, &account)?;
        if let Some(unix) = &unix {
            substitutions.user.clone_from(&unix.name);
            substitutions.home.clone_from(&unix.home);
            if names_group(&share) {
                substitutions.group = group_name(unix);
            }
        }
        let user = match unix {
            Some(unix) => self.store.register_user(unix.credentials),
            None => account.unix,
        };
        let name = share.name.clone();
        let share = self.open(&share, user, read_only, &substitutions)?;
        let device = share.root.and_then(|root| self.store.device(root));
        let client = request.client;
        let classes = membership(self.config, self.qos, &account, client, &name, device);
        let requested_name = request.name.clone();
        Ok(Share { requested_name, classes: Arc::new(classes), ..share })
    }

    /// Opens the root of a share at its former path again, with the server's rights. Vetoed entries
    /// in a directory prevent its removal: the user might not have been allowed to remove them.
    ///
    /// # Errors
    /// There is no such share any more, or no such directory.
    pub fn reopen(
        &mut self,
        name: &str,
        folder: &ObjectPath,
    ) -> Result<(RootId, UserId), NtStatus> {
        let share = self.config.share(name).or(self.config.homes.as_ref());
        let share = share.ok_or(NtStatus::BAD_NETWORK_NAME)?;
        let user = self.store.register_user(unix::own_user().credentials);
        let substitutions = self.config.substitutions();
        let path = format!("/{}", folder.as_str());
        let settings = RootSettings {
            remove_vetoed: false,
            ..self.root_settings(share, &path, false, &substitutions)
        };
        Ok((self.store.open_root(settings, user)?, user))
    }

    /// Connects IPC$. Of `[IPC$]`, the lists of hosts and users and `available` apply; `restrict
    /// anonymous` alone decides about guests, as in Samba.
    fn connect_pipes(&self, request: &ConnectShare) -> Result<Share, ShareRefusal> {
        let (ipc, account) = (&self.config.ipc, &request.account);
        if !ipc.available {
            return Err(ShareRefusal::BadNetworkName);
        }
        if account.is_guest && self.config.global.restrict_anonymous >= 2 {
            return Err(ShareRefusal::AccessDenied);
        }
        verify_hosts(ipc, request.client)?;
        let known = substitutions_of(self.config, &account.user, &account.domain, ipc);
        verify_user(&with_names(ipc.clone(), &known), account)?;
        Ok(Share {
            name: "IPC$".to_owned(),
            requested_name: request.name.clone(),
            comment: String::new(),
            root: None,
            user: request.account.unix,
            access_max: AccessMask::FILE_ALL,
            encryption: policy(self.config.ipc.smb_encrypt),
            case_sensitive: false,
            durable_handles: false,
            is_ca: false,
            caching_max: Caching::empty(),
            shared_reading: true,
            is_dfs_root: false,
            directory_caching_max: Caching::empty(),
            caching: ShareFlags::NO_CACHING.bits(),
            extended_attributes: false,
            named_streams: false,
            veto_files: Vec::new(),
            sync_always: false,
            apple: None,
            folder: ObjectPath::root(),
            kernel_change_notify: false,
            // Pipes carry little data, and administration of limits needs them.
            classes: Arc::default(),
        })
    }

    fn find(&self, request: &ConnectShare) -> Result<config::Share, ShareRefusal> {
        let account = &request.account;
        let user = (!account.is_guest).then_some(account.user.as_str());
        homes::find_share(self.config, self.accounts.names(), &request.name, user)
            .filter(is_available)
            .ok_or(ShareRefusal::BadNetworkName)
    }

    /// Guests need `guest ok`; with `guest only` everyone is one.
    fn guest_if_due(
        &mut self,
        share: &config::Share,
        account: &Account,
    ) -> Result<Account, ShareRefusal> {
        if account.is_guest && !share.guest_ok {
            return Err(ShareRefusal::AccessDenied);
        }
        if share.guest_only && share.guest_ok && !account.is_guest {
            return self.accounts.guest(self.store).ok_or(ShareRefusal::AccessDenied);
        }
        Ok(account.clone())
    }

    fn is_full(&self, share: &config::Share) -> bool {
        if share.max_connections == 0 {
            return false;
        }
        match self.registry.count_tree_connects(&share.name) {
            Ok(count) => u32::try_from(count).is_ok_and(|count| count >= share.max_connections),
            Err(error) => {
                warn!("cannot count the connections to {}: {error}", share.name);
                true
            }
        }
    }

    /// `admin users`, `force user` and `force group`; `None` leaves the account's own identity.
    fn unix_identity(
        &self,
        share: &config::Share,
        account: &Account,
    ) -> Result<Option<UnixUser>, ShareRefusal> {
        // Not a question to the kernel: at the moment the thread may have somebody's rights.
        if !self.accounts.is_root() {
            return Ok(None);
        }
        let memberships = Memberships::of(&account.groups);
        let is_listed = |kind, group: &str| memberships.is_listed(kind, group);
        let is_admin = share.admin_users.contains(&account.user, is_listed);
        let mut user = match share.force_user.as_str() {
            "" => None,
            name => Some(known_user(name)?),
        };
        if is_admin {
            let own = user.or_else(|| unix::find_user(&account.user).ok().flatten());
            user = Some(administrator(own)?);
        }
        if !share.force_group.is_empty() {
            let group = share.force_group.trim_start_matches('+');
            let gid = unix::find_group(group).ok().flatten().ok_or_else(|| {
                warn!("share {}: there is no group {group}", share.name);
                ShareRefusal::AccessDenied
            })?;
            let only_members = share.force_group.starts_with('+');
            if !only_members || is_member(&account.groups, group) {
                let mut own = match user {
                    Some(user) => user,
                    None => known_user(&account.user)?,
                };
                own.credentials.gid = gid;
                user = Some(own);
            }
        }
        if account.is_guest
            && let Some(user) = &mut user
        {
            // The user's identity is unproven: for security descriptors it is a guest still.
            user.credentials.sids = Credentials::well_known_of_guests();
        }
        Ok(user)
    }

    /// Resolves a path of a DFS namespace, as far as this user may see it.
    ///
    /// # Errors
    /// NOT_FOUND if the share is no root of a namespace, or not for this user, or the path has no
    /// link.
    pub fn find_referral(
        &mut self,
        connect: &ConnectShare,
        path: &ObjectPath,
    ) -> Result<Referral, NtStatus> {
        let share = self.connect(connect).map_err(|_| NtStatus::NOT_FOUND)?;
        let root = share.root.ok_or(NtStatus::NOT_FOUND)?;
        let found = match (share.is_dfs_root, path.is_root()) {
            (false, _) => Err(NtStatus::NOT_FOUND),
            (true, true) => Ok(Referral::Root),
            (true, false) => {
                let op = ObjectOp::FindReferral { root, path: path.clone().into() };
                match self.store.start(share.user, op) {
                    Started::Done(Ok(ObjectReply::Stopped(link))) => Ok(Referral::Link(link)),
                    Started::Done(Err(_)) => Err(NtStatus::NOT_FOUND),
                    other => panic!("{other:?} does not answer a question for a referral"),
                }
            }
        };
        self.store.close_root(root);
        found
    }

    fn open(
        &mut self,
        share: &config::Share,
        user: UserId,
        read_only: bool,
        substitutions: &Substitutions,
    ) -> Result<Share, ShareRefusal> {
        if substitutions.home.is_empty() && names_home(&share.path) {
            warn!("share {}: the home of {} is unknown", share.name, substitutions.user);
            return Err(ShareRefusal::BadNetworkName);
        }
        let path = substitutions.expand_path(&share.path);
        let settings = self.root_settings(share, &path, read_only, substitutions);
        let veto_files = settings.vetoed.clone();
        let root = self.store.open_root(settings, user).map_err(|status| {
            warn!("share {}: cannot open {path}: {status}", share.name);
            ShareRefusal::BadNetworkName
        })?;
        Ok(Share {
            name: share.name.clone(),
            requested_name: share.name.clone(),
            comment: substitutions.expand(&share.comment),
            root: Some(root),
            user,
            access_max: if read_only { READ_ONLY } else { AccessMask::FILE_ALL },
            encryption: policy(share.smb_encrypt),
            case_sensitive: share.case_sensitive == Tri::Yes,
            durable_handles: share.durable_handles,
            is_ca: is_continuously_available(share),
            caching_max: caching_max(share),
            shared_reading: share.level2_oplocks,
            is_dfs_root: self.is_dfs_root(share),
            directory_caching_max: Caching::READ | Caching::HANDLE,
            caching: flags(share).bits(),
            extended_attributes: share.ea_support,
            named_streams: share.named_streams,
            veto_files,
            sync_always: share.sync_always && share.strict_sync,
            apple: self.apple(share),
            folder: self.store.folder(root),
            kernel_change_notify: share.kernel_change_notify,
            classes: Arc::default(),
        })
    }
}

impl Shares<'_> {
    /// Returns the settings for Apple's clients of a share, if its `vfs objects` ask for them. The
    /// share must keep streams, as it always does here.
    fn apple(&self, share: &config::Share) -> Option<AppleShare> {
        // As in Samba these two are the whole server's.
        let global = |option| self.config.global.option("fruit", option).map(str::trim);
        let refused = ["no", "false", "0", "off"];
        let is_refused = |word: &str| refused.iter().any(|it| word.eq_ignore_ascii_case(it));
        let wanted = !global("aapl").is_some_and(is_refused);
        (share.has_module("fruit") && wanted).then(|| AppleShare {
            model: global("model").unwrap_or("MacSamba").to_owned(),
            full_sync: share.option_is_on("fruit", "time machine", false),
        })
    }
}

fn verify_hosts(share: &config::Share, client: SocketAddr) -> Result<(), ShareRefusal> {
    let address = client.ip().to_canonical();
    if hosts_access::allows(&share.hosts_allow, &share.hosts_deny, address) {
        return Ok(());
    }
    info!("{address} may not use share {}", share.name);
    Err(ShareRefusal::AccessDenied)
}

/// Refuses users that the share's lists keep out.
fn verify_user(share: &config::Share, account: &Account) -> Result<(), ShareRefusal> {
    if Memberships::of(&account.groups).are_admitted(share, &account.user) {
        return Ok(());
    }
    info!("{} may not use share {}", account.user, share.name);
    Err(ShareRefusal::AccessDenied)
}

/// Returns true if a path has `%H` in it. Without the home it would be that of another folder,
/// which is not meant.
fn names_home(path: &str) -> bool {
    path.replace("%%", "").contains("%H")
}

/// Returns the substitutions of a tree connect before its user is known.
fn substitutions(
    config: &Config,
    request: &ConnectShare,
    account: &Account,
    share: &config::Share,
) -> Substitutions {
    let unix = unix::find_user(&account.user).ok().flatten();
    Substitutions {
        home: unix.map(|user| user.home).unwrap_or_default(),
        client_address: request.client.ip().to_canonical().to_string(),
        client_name: request.client.ip().to_canonical().to_string(),
        time: date::text(SystemTime::now()),
        ..substitutions_of(config, &account.user, &account.domain, share)
    }
}

/// `oplocks`, which is about leases as well.
fn caching_max(share: &config::Share) -> Caching {
    if share.oplocks { Caching::all() } else { Caching::empty() }
}

/// [MS-SMB2] 2.2.10 ShareFlags.
fn flags(share: &config::Share) -> ShareFlags {
    let mut flags = caching(share.csc_policy);
    flags.set(ShareFlags::ACCESS_BASED_DIRECTORY_ENUM, share.hide_unreadable);
    flags
}

fn caching(policy: CscPolicy) -> ShareFlags {
    match policy {
        CscPolicy::Manual => ShareFlags::empty(),
        CscPolicy::Documents => ShareFlags::AUTO_CACHING,
        CscPolicy::Programs => ShareFlags::VDO_CACHING,
        CscPolicy::Disable => ShareFlags::NO_CACHING,
    }
}
