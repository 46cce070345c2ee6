//! Connecting a share: who may, from where, as whom, and with which rights.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arbitration::Caching;
use config::choice::{CscPolicy, Tri};
use config::hosts_access;
use config::{Config, Substitutions};
use dtyp::{AccessMask, NtStatus};
use object::{ObjectPath, RootId, UserId};
use proto::effect::ConnectShare;
use proto::share::AppleShare;
use proto::{Account, Share, ShareRefusal};
use store::{Credentials, RecycleSettings, RootSettings, Store};
use tables::{QosPage, Registry};
use tracing::{info, warn};
use wire::tree_connect::ShareFlags;

use super::accounts::Accounts;
use super::classes::membership;
use super::date;
use super::homes;
use super::share_properties::{
    caching_max, configured_capabilities, directory_caching_max, is_available,
    is_continuously_available, policy,
};
use super::share_users::{
    Memberships, administrator, group_name, is_member, known_user, names_group, own_user,
    substitutions_of, with_names,
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

/// A tree connect whose directory is not open yet.
#[derive(Debug)]
pub struct Prepared {
    share: Share,
    /// Directory to open; IPC$ has none.
    opening: Option<Opening>,
    /// The user as the share knows it, and the client's address.
    account: Option<Box<(Account, SocketAddr)>>,
}

/// The directory of a share, to be opened.
#[derive(Debug)]
pub struct Opening {
    share: String,
    pub settings: RootSettings,
    pub user: UserId,
    /// Way of storage operations, as configured.
    pub storage: StorageWay,
}

/// The directory of a share, open.
#[derive(Debug)]
pub struct OpenedRoot {
    pub root: RootId,
    /// The kernel's number of its device.
    pub device: Option<u64>,
    folder: ObjectPath,
}

/// Threads that carry out the operations of a share ("choro:storage path").
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StorageWay {
    /// Threads of its own for a file system that may wait long, otherwise the worker's.
    #[default]
    Auto,
    /// The worker's thread for any file system.
    Inline,
    /// Threads of its own for any file system.
    Threads,
}

impl Prepared {
    /// The directory to open, once.
    pub fn take_opening(&mut self) -> Option<Opening> {
        self.opening.take()
    }

    /// The directory of a DFS namespace, if the share is one.
    pub fn take_namespace(&mut self) -> Option<Opening> {
        self.opening.take_if(|_| self.share.is_dfs_root)
    }
}

impl Opening {
    /// Opens the directory.
    ///
    /// # Errors
    /// As [`Store::open_root`].
    pub fn carry_out(self, store: &mut Store) -> Result<OpenedRoot, NtStatus> {
        let (share, path) = (self.share, self.settings.path.clone());
        let opened = store.open_root(self.settings, self.user);
        let root = opened.inspect_err(|status| {
            warn!("share {share}: cannot open {}: {status}", path.display());
        })?;
        Ok(OpenedRoot { root, device: store.device(root), folder: store.folder(root) })
    }
}

impl StorageWay {
    fn of(share: &config::Share) -> Self {
        let word = share.option("choro", "storage path").map(str::trim).unwrap_or_default();
        match word.to_ascii_lowercase().as_str() {
            "inline" => Self::Inline,
            "threads" => Self::Threads,
            "" | "auto" => Self::Auto,
            other => {
                warn!("share {}: `choro:storage path = {other}` is unknown", share.name);
                Self::Auto
            }
        }
    }
}

/// All rights on a file, and those that a read-only share leaves: [MS-SMB2] 2.2.13.1.
const READ_ONLY: AccessMask = AccessMask::FILE_GENERIC_READ.union(AccessMask::FILE_GENERIC_EXECUTE);

impl Shares<'_> {
    /// Does all of a tree connect that needs no storage.
    ///
    /// # Errors
    /// The user may not connect to the share.
    pub fn prepare(&mut self, request: &ConnectShare) -> Result<Prepared, ShareRefusal> {
        if request.name.eq_ignore_ascii_case("IPC$") {
            let share = self.connect_pipes(request)?;
            return Ok(Prepared { share, opening: None, account: None });
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
        let (share, opening) = self.describe(&share, user, read_only, &substitutions)?;
        let requested_name = request.name.clone();
        let share = Share { requested_name, ..share };
        let account = Some(Box::new((account, request.client)));
        Ok(Prepared { share, opening: Some(opening), account })
    }

    /// Ends a tree connect once its directory is open.
    ///
    /// # Errors
    /// It could not be opened.
    pub fn finish(
        &self,
        prepared: Prepared,
        opened: Option<Result<OpenedRoot, NtStatus>>,
    ) -> Result<Share, ShareRefusal> {
        let Prepared { share, account, .. } = prepared;
        let Some(opened) = opened else { return Ok(share) };
        let opened = opened.map_err(|_| ShareRefusal::BadNetworkName)?;
        let OpenedRoot { root, device, folder } = opened;
        let classes = account.map(|account| {
            let (account, client) = &*account;
            membership(self.config, self.qos, account, *client, &share.name, device)
        });
        Ok(Share {
            root: Some(root),
            folder,
            classes: Arc::new(classes.unwrap_or_default()),
            ..share
        })
    }

    /// Returns the root of a share at its former path, to be opened with the server's rights.
    /// Vetoed entries in a directory prevent its removal: the user might not have been allowed to
    /// remove them. The user is unknown, so a recycle bin with `%U` in its path is that of `_`.
    ///
    /// # Errors
    /// There is no such share any more.
    pub fn reopening(&mut self, name: &str, folder: &ObjectPath) -> Result<Opening, NtStatus> {
        let share = self.config.share(name).or(self.config.homes.as_ref());
        let share = share.ok_or(NtStatus::BAD_NETWORK_NAME)?;
        let user = self.store.register_user(unix::own_user().credentials);
        let substitutions = self.config.substitutions();
        let path = format!("/{}", folder.as_str());
        let settings = self.root_settings(share, &path, false, &substitutions);
        let recycle = settings.recycle.map(|it| RecycleSettings { gives_directories: true, ..it });
        let settings = RootSettings { remove_vetoed: false, recycle, ..settings };
        Ok(Opening { share: name.to_owned(), settings, user, storage: StorageWay::of(share) })
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
            capabilities: 0,
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
            let own = user.or_else(|| own_user(account, self.store).ok());
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
                    None => own_user(account, self.store)?,
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

    /// Returns what the engine is told of a share, and the directory to open for it.
    fn describe(
        &self,
        share: &config::Share,
        user: UserId,
        read_only: bool,
        substitutions: &Substitutions,
    ) -> Result<(Share, Opening), ShareRefusal> {
        if substitutions.home.is_empty() && names_home(&share.path) {
            warn!("share {}: the home of {} is unknown", share.name, substitutions.user);
            return Err(ShareRefusal::BadNetworkName);
        }
        let path = substitutions.expand_path(&share.path);
        let settings = self.root_settings(share, &path, read_only, substitutions);
        let veto_files = settings.vetoed.clone();
        let name = share.name.clone();
        let is_ca = is_continuously_available(&self.config.global, share);
        let opening = Opening { share: name, settings, user, storage: StorageWay::of(share) };
        let share = Share {
            name: share.name.clone(),
            requested_name: share.name.clone(),
            comment: substitutions.expand(&share.comment),
            root: None,
            user,
            access_max: if read_only { READ_ONLY } else { AccessMask::FILE_ALL },
            encryption: policy(share.smb_encrypt),
            case_sensitive: share.case_sensitive == Tri::Yes,
            durable_handles: share.durable_handles,
            is_ca,
            capabilities: configured_capabilities(share).bits(),
            caching_max: caching_max(share, is_ca),
            shared_reading: share.level2_oplocks,
            is_dfs_root: self.is_dfs_root(share),
            directory_caching_max: directory_caching_max(is_ca),
            caching: flags(share).bits(),
            extended_attributes: share.ea_support,
            named_streams: share.named_streams,
            veto_files,
            sync_always: share.sync_always && share.strict_sync,
            apple: self.apple(share),
            folder: ObjectPath::root(),
            kernel_change_notify: share.kernel_change_notify,
            classes: Arc::default(),
        };
        Ok((share, opening))
    }
}

impl Shares<'_> {
    /// Returns the settings for Apple's clients of a share, if its `vfs objects` ask for them. The
    /// share must keep streams, as it always does here.
    fn apple(&self, share: &config::Share) -> Option<AppleShare> {
        // As in Samba these are the whole server's.
        let global = |option| self.config.global.option("fruit", option).map(str::trim);
        let refused = ["no", "false", "0", "off"];
        let is_refused = |word: &str| refused.iter().any(|it| word.eq_ignore_ascii_case(it));
        let accepted = ["yes", "true", "1", "on"];
        let is_accepted = |option| {
            global(option)
                .is_some_and(|word| accepted.iter().any(|it| word.eq_ignore_ascii_case(it)))
        };
        let wanted = !global("aapl").is_some_and(is_refused);
        (share.has_module("fruit") && wanted).then(|| AppleShare {
            model: global("model").unwrap_or("MacSamba").to_owned(),
            full_sync: share.option_is_on("fruit", "time machine", false),
            posix_opens: share.option_is_on("fruit", "posix_opens", true),
            copies_files: is_accepted("copyfile"),
            nfs_entries: !global("nfs_aces").is_some_and(is_refused),
            hides_file_ids: !global("zero_file_id").is_some_and(is_refused),
            ignores_empty_lists: share.option_is_on("fruit", "ignore_zero_aces", true),
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
