//! Connecting a share: who may, from where, as whom, and with which rights.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arbitration::Caching;
use config::choice::{CscPolicy, Tri};
use config::hosts_access;
use config::{Config, Substitutions};
use dtyp::{AccessMask, NtStatus};
use object::{ObjectPath, UserId};
use proto::effect::ConnectShare;
use proto::share::{AppleShare, LocalPrograms, QuotaCommands};
use proto::{Account, Share, ShareRefusal};
use store::{Credentials, Store};
use tables::{QosPage, Registry};
use tracing::debug;
use wire::tree_connect::ShareFlags;

use super::accounts::Accounts;
use super::administrators::is_one;
use super::audit::audit_of;
use super::classes::membership;
use super::found_share::FoundShare;
use super::free_space;
use super::homes;
use super::opening::{OpenedRoot, Opening, StorageMode};
use super::quota_commands;
use super::refusal::Refusal;
use super::requester::{self, Requester};
use super::served::{self, info_for_user, warn_for_user};
use super::share_commands::ShareCommands;
use super::share_properties::{
    caching_max, configured_capabilities, directory_caching_max, is_available,
    is_continuously_available, keeps_opens, local_programs, policy,
};
use super::share_security;
use super::share_users::{
    Memberships, administrator, group_name, known_user, names_group, own_user, substitutions_of,
    with_names,
};
use super::snapshots::SnapshotOptions;
use super::streams_depot::all_depots;
use super::unix::{self, UnixUser};
use super::usershares::{self, Usershare};

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
    /// Commands for its start and its end; mostly none.
    commands: ShareCommands,
    /// `max connections`; 0 for any number.
    max_connections: u32,
    /// Rights by the descriptor of the share.
    granted: AccessMask,
    /// The configuration lets the user read only.
    is_read_only: bool,
}

impl Prepared {
    /// Name of the share in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.share.name
    }

    /// Rights that the share leaves the user; the directory's own come on top.
    #[must_use]
    pub fn access_max(&self) -> AccessMask {
        self.share.access_max
    }

    /// Rights that the share's descriptor or the access list of a user's share gives.
    #[must_use]
    pub fn granted(&self) -> AccessMask {
        self.granted
    }

    /// True if the configuration lets the user read only, whatever the descriptor says.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the directory of a user's share that has commands: it is verified before they run,
    /// and [`Prepared::set_verified`] has the result.
    #[must_use]
    pub fn to_verify(&self) -> Option<Opening> {
        let of_user = self.opening.as_ref().filter(|it| it.rules.is_some());
        of_user.filter(|_| !self.commands.is_empty()).cloned()
    }

    /// Has the commands of a user's share use the path of the directory that was verified. What the
    /// user wrote could lead elsewhere by now.
    ///
    /// # Errors
    /// A shell could interpret the path.
    pub fn set_verified(&mut self, folder: &Path) -> Result<(), ShareRefusal> {
        let is_guest = self.account.as_ref().is_some_and(|it| it.0.is_guest);
        self.set_folder(folder).map_err(|fault| {
            let name = &self.share.name;
            let tell = || warn_for_user!("usershare {name:?} is not served: {fault}");
            served::serving(is_guest, tell);
            ShareRefusal::BadNetworkName
        })
    }

    /// As [`Prepared::set_verified`], with the reason of a refusal.
    ///
    /// # Errors
    /// A shell could interpret the path.
    pub fn set_folder(&mut self, folder: &Path) -> Result<(), String> {
        self.commands.set_folder(folder).map_err(|parameter| {
            format!(
                "its path has characters that a shell could interpret, and `{parameter}` gets it \
                 by %P"
            )
        })
    }

    /// The commands to run before and after, once.
    pub fn take_commands(&mut self) -> ShareCommands {
        std::mem::take(&mut self.commands)
    }

    /// The directory to open, once.
    pub fn take_opening(&mut self) -> Option<Opening> {
        self.opening.take()
    }

    /// Has no client see depots of streams with these names, which the directory has.
    pub fn hide(&mut self, opening: &mut Opening, names: &[String]) {
        opening.hide(names);
        self.share.veto_files.clone_from(&opening.settings.vetoed);
    }

    /// The directory of a DFS namespace, if the share is one.
    pub fn take_namespace(&mut self) -> Option<Opening> {
        self.opening.take_if(|_| self.share.is_dfs_root)
    }
}

/// All rights on a file, and those that a read-only share leaves: [MS-SMB2] 2.2.13.1.
const READ_ONLY: AccessMask = AccessMask::FILE_GENERIC_READ.union(AccessMask::FILE_GENERIC_EXECUTE);

impl<'a> Shares<'a> {
    /// Does all of a tree connect that needs no storage.
    ///
    /// # Errors
    /// The user may not connect to the share.
    pub fn prepare(&mut self, request: &ConnectShare) -> Result<Box<Prepared>, ShareRefusal> {
        Ok(self.decide(request)?)
    }

    /// As [`Shares::prepare`], with the reason of a refusal.
    ///
    /// # Errors
    /// The user may not connect to the share.
    pub fn decide(&mut self, request: &ConnectShare) -> Result<Box<Prepared>, Refusal> {
        served::serving(request.account.is_guest, || self.decide_for_client(request))
    }

    /// Decides with the configuration of the client, which may have files of its own.
    fn decide_for_client(&mut self, request: &ConnectShare) -> Result<Box<Prepared>, Refusal> {
        let Some(config) = requester::config_of(self.config, request)? else {
            return self.decide_by_config(request);
        };
        // The client's own files may exclude it from the whole server.
        verify_hosts(&config.defaults, request.client)?;
        let Shares { store, accounts, registry, qos, .. } = self;
        Shares { config: &config, store, accounts, registry, qos }.decide_by_config(request)
    }

    fn decide_by_config(&mut self, request: &ConnectShare) -> Result<Box<Prepared>, Refusal> {
        if request.name.eq_ignore_ascii_case("IPC$") {
            let share = self.connect_pipes(request)?;
            return Ok(Box::new(Prepared {
                share,
                opening: None,
                account: None,
                commands: ShareCommands::default(),
                max_connections: 0,
                granted: AccessMask::FILE_ALL,
                is_read_only: false,
            }));
        }
        let (share, usershare) = self.find(request)?;
        let account = &*request.account;
        verify_hosts(&share, request.client)?;
        let account = self.guest_if_due(&share, account)?;
        let mut substitutions = substitutions(self.config, request, &account, &share);
        let share = with_names(share, &substitutions);
        verify_user(&share, &account)?;
        let max_connections = share.max_connections;
        self.verify_room(&share.name, max_connections)?;
        // As in Samba, lists of users mean the user also by this.
        substitutions.requested_user.clone_from(&account.requested_user);
        let memberships = Memberships::of(&account);
        let is_listed = |kind, group: &str| memberships.is_listed(kind, group);
        // If the name service fails, the members of `read list` are unknown.
        let is_read_only =
            share.is_read_only_for(&account.user, is_listed) || memberships.is_unknown();
        let granted = self.granted(&share.name, usershare.as_deref(), &account)?;
        let read_only = is_read_only || !granted.contains(AccessMask::WRITE_DATA);
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
        // Not the guest that everybody is in a share for guests only.
        let requester = (user, &request.account.identity[..]);
        let commands = self.commands(&share, requester, &substitutions)?;
        let (described, opening) = self.describe(&share, user, read_only, &substitutions)?;
        let requester = self.requesting_user(&account, request, &opening);
        let audit = audit_of(&share, &requester, &substitutions);
        let is_guest = account.is_guest;
        let opening = Opening { rules: usershare.map(|it| it.rules), is_guest, ..opening };
        let requested_name = request.name.clone();
        let access_max = described.access_max & granted;
        let requester = Some(requester);
        let share = Share { requested_name, access_max, audit, requester, ..described };
        let account = Some(Box::new((account, request.client)));
        let opening = Some(opening);
        Ok(Box::new(Prepared {
            share,
            opening,
            account,
            commands,
            max_connections,
            granted,
            is_read_only,
        }))
    }

    /// Counts the connections once more: others may have come while commands ran.
    ///
    /// # Errors
    /// The share has `max connections` by now.
    pub fn verify_room_after_commands(&self, prepared: &Prepared) -> Result<(), ShareRefusal> {
        Ok(self.verify_room(&prepared.share.name, prepared.max_connections)?)
    }

    /// Ends a tree connect once its directory is open.
    ///
    /// # Errors
    /// It could not be opened.
    pub fn finish(
        &self,
        prepared: Box<Prepared>,
        opened: Option<Result<OpenedRoot, NtStatus>>,
    ) -> Result<Share, ShareRefusal> {
        let Prepared { share, account, .. } = *prepared;
        let Some(opened) = opened else { return Ok(share) };
        let opened = opened.map_err(|_| ShareRefusal::BadNetworkName)?;
        let OpenedRoot { root, device, folder, .. } = opened;
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

    /// Connects IPC$. Of `[IPC$]`, the lists of hosts and users and `available` apply; `restrict
    /// anonymous` alone decides about guests, as in Samba.
    fn connect_pipes(&self, request: &ConnectShare) -> Result<Share, Refusal> {
        let (ipc, account) = (&self.config.ipc, &request.account);
        if !ipc.available {
            return Err(Refusal::NoShare);
        }
        if account.is_guest && self.config.global.restrict_anonymous >= 2 {
            return Err(Refusal::Guest);
        }
        verify_hosts(ipc, request.client)?;
        let known = substitutions_of(self.config, &account.user, &account.domain, ipc);
        let known = Requester::from(request).add_to(known);
        verify_user(&with_names(FoundShare::Configured(ipc), &known), account)?;
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
            delete_readonly: false,
            veto_files: Vec::new(),
            sync_always: false,
            apple: None,
            audit: None,
            requester: None,
            folder: ObjectPath::root(),
            kernel_change_notify: false,
            checks_directory: false,
            has_free_space_command: false,
            quota_commands: QuotaCommands::default(),
            volume_bytes_max: None,
            local_programs: LocalPrograms::default(),
            // Pipes carry little data, and administration of limits needs them.
            classes: Arc::default(),
        })
    }

    /// Returns a share, and also if it is a user's. A home comes first: nobody can take its name,
    /// also not while the name service is out.
    fn find(
        &self,
        request: &ConnectShare,
    ) -> Result<(FoundShare<'a>, Option<Box<Usershare>>), Refusal> {
        let account = &request.account;
        let user = (!account.is_guest).then_some(account.user.as_str());
        let found = homes::find_share(self.config, self.accounts.names(), &request.name, user);
        let found = found.map_err(|error| {
            debug!("share {:?} cannot be looked up: {error:#}", request.name);
            Refusal::NoNameService
        })?;
        let found = match found {
            Some(share) => Some((share, None)),
            None => usershares::find(self.config, &request.name)
                .map(|it| (FoundShare::Made(Box::new(it.share.clone())), Some(Box::new(it)))),
        };
        found.filter(|(share, _)| is_available(share)).ok_or(Refusal::NoShare)
    }

    /// Guests need `guest ok`; with `guest only` everyone is one.
    fn guest_if_due(
        &mut self,
        share: &config::Share,
        account: &Account,
    ) -> Result<Account, Refusal> {
        if account.is_guest && !share.guest_ok {
            return Err(Refusal::Guest);
        }
        if share.guest_only && share.guest_ok && !account.is_guest {
            return self.accounts.guest(self.store).ok_or(Refusal::NoGuestAccount);
        }
        Ok(account.clone())
    }

    /// Rights that the share's descriptor gives the user: [MS-SMB2] 3.3.5.7. The rights of files
    /// come on top.
    fn granted(
        &self,
        share: &str,
        usershare: Option<&Usershare>,
        account: &Account,
    ) -> Result<AccessMask, Refusal> {
        let Account { user, sid, groups, is_guest, .. } = account;
        let is_administrator = || is_one(self.config, user, (sid, &groups[..]), *is_guest);
        let (granted, refusal) = match usershare {
            Some(usershare) => {
                let granted = usershare.access_of(account, is_administrator(), self.store);
                (granted, Refusal::Usershare)
            }
            None => {
                let read = share_security::read(self.accounts.share_security(), share);
                let read = read.inspect_err(|error| warn_for_user!("share {share}: {error:#}"));
                let Some(descriptor) = read.map_err(|_| Refusal::NoSecurity)? else {
                    return Ok(AccessMask::FILE_ALL);
                };
                let is_one = is_administrator();
                let granted = share_security::access_of(&descriptor, account, is_one, self.store);
                (granted, Refusal::Security)
            }
        };
        if granted.contains(AccessMask::READ_DATA) {
            return Ok(granted);
        }
        info_for_user!("{user} may not use share {share}");
        Err(refusal)
    }

    /// The commands of a share; a server that is not root can run them as its own user only.
    fn commands(
        &self,
        share: &config::Share,
        (user, requester): (UserId, &str),
        substitutions: &Substitutions,
    ) -> Result<ShareCommands, Refusal> {
        let global = &self.config.global;
        if !self.accounts.is_root() {
            return Ok(ShareCommands::of((global, share), substitutions, (None, requester)));
        }
        let index = usize::try_from(user.0).unwrap_or(usize::MAX);
        // Without its user a command would run as root.
        let user = self.store.users().nth(index).ok_or(Refusal::NoIdentity)?;
        Ok(ShareCommands::of((global, share), substitutions, (Some(user), requester)))
    }

    /// Refuses one more connection to a share that has `max` already; 0 is any number.
    fn verify_room(&self, share: &str, max: u32) -> Result<(), Refusal> {
        if max == 0 {
            return Ok(());
        }
        match self.registry.count_tree_connects(share) {
            Ok(count) if u32::try_from(count).is_ok_and(|count| count < max) => Ok(()),
            Ok(_) => Err(Refusal::Full),
            Err(error) => {
                warn_for_user!("cannot count the connections to {share}: {error}");
                Err(Refusal::Full)
            }
        }
    }

    /// `admin users`, `force user` and `force group`; `None` leaves the account's own identity.
    fn unix_identity(
        &self,
        share: &config::Share,
        account: &Account,
    ) -> Result<Option<UnixUser>, Refusal> {
        // Not a question to the kernel: at the moment the thread may have somebody's rights.
        if !self.accounts.is_root() {
            return Ok(None);
        }
        let memberships = Memberships::of(account);
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
                warn_for_user!("share {}: there is no group {group}", share.name);
                Refusal::NoGroup(group.to_owned())
            })?;
            let only_members = share.force_group.starts_with('+');
            if !only_members || memberships.is_member(group) {
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

    /// Returns the properties of a share for the engine, and the directory to open for it.
    fn describe(
        &self,
        share: &config::Share,
        user: UserId,
        read_only: bool,
        substitutions: &Substitutions,
    ) -> Result<(Share, Opening), Refusal> {
        if substitutions.home.is_empty() && names_home(&share.path) {
            warn_for_user!("share {}: the home of {} is unknown", share.name, substitutions.user);
            return Err(Refusal::NoHome);
        }
        let path = substitutions.expand_path(&share.path);
        let settings = self.root_settings(share, &path, read_only, substitutions);
        let veto_files = settings.vetoed.clone();
        let name = share.name.clone();
        let is_ca = is_continuously_available(&self.config.global, share);
        let storage = StorageMode::of(share);
        let snapshots = SnapshotOptions::of(share, substitutions);
        let depots = all_depots(self.config, share, substitutions);
        let opening = Opening {
            share: name,
            settings,
            user,
            storage,
            rules: None,
            depots,
            snapshots,
            reached: None,
            is_guest: false,
        };
        let share = Share {
            name: share.name.clone(),
            requested_name: share.name.clone(),
            comment: substitutions.expand(&share.comment),
            root: None,
            user,
            access_max: if read_only { READ_ONLY } else { AccessMask::FILE_ALL },
            encryption: policy(share.smb_encrypt),
            case_sensitive: share.case_sensitive == Tri::Yes,
            durable_handles: keeps_opens(share),
            is_ca,
            capabilities: configured_capabilities(share).bits(),
            caching_max: caching_max(share, is_ca),
            // The kernel has no lease that several clients can share with a server of files.
            shared_reading: share.level2_oplocks && !share.kernel_oplocks,
            is_dfs_root: self.is_dfs_root(share),
            directory_caching_max: directory_caching_max(is_ca),
            caching: flags(share).bits(),
            extended_attributes: share.ea_support,
            named_streams: share.named_streams,
            delete_readonly: share.delete_readonly,
            veto_files,
            sync_always: share.sync_always && share.strict_sync,
            apple: self.apple(share),
            audit: None,
            requester: None,
            folder: ObjectPath::root(),
            kernel_change_notify: share.kernel_change_notify,
            checks_directory: share.check_parent_directory_delete_on_close,
            has_free_space_command: free_space::has_command(share),
            quota_commands: quota_commands::of(&self.config.global),
            volume_bytes_max: free_space::volume_bytes_max(&self.config.global),
            local_programs: local_programs(share),
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

fn verify_hosts(share: &config::Share, client: SocketAddr) -> Result<(), Refusal> {
    let address = client.ip().to_canonical();
    if hosts_access::allows(&share.hosts_allow, &share.hosts_deny, address) {
        return Ok(());
    }
    info_for_user!("{address} may not use share {}", share.name);
    Err(Refusal::Address(address))
}

/// Refuses users that the share's lists keep out.
fn verify_user(share: &config::Share, account: &Account) -> Result<(), Refusal> {
    if Memberships::of(account).are_admitted(share) {
        return Ok(());
    }
    info_for_user!("{} may not use share {}", account.user, share.name);
    Err(Refusal::User)
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
    Requester::from(request).add_to(Substitutions {
        home: unix.map(|user| user.home).unwrap_or_default(),
        ..substitutions_of(config, &account.user, &account.domain, share)
    })
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
