//! Connecting a share: who may, from where, as whom, and with which rights.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arbitration::Caching;
use config::choice::{CscPolicy, DefaultCase, MangledNames, Tri};
use config::hosts_access;
use config::{Config, GroupKind, Substitutions, UserList};
use dtyp::{AccessMask, NameExpression, NtStatus, Sid};
use object::{ObjectOp, ObjectPath, ObjectReply, RootId, UserId};
use proto::effect::{AppleShare, ConnectShare, Referral};
use proto::{Account, Share, ShareRefusal};
use rpc::Caller;
use store::{
    CharacterMappings, DefaultStyle, Hide, InheritOwner, NewCase, NtAclSettings, Piping,
    RootSettings, Started, Store,
};
use tables::{QosPage, Registry};
use tracing::{info, warn};
use wire::tree_connect::ShareFlags;

use super::accounts::Accounts;
use super::classes::membership;
use super::date;
use super::homes;
use super::server_settings::policy;
use super::snapshots::snapshot_settings;
use super::unix::{self, UnixUser};

/// Where shares are connected from.
#[derive(Debug)]
pub(super) struct Shares<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a mut Store,
    pub(super) accounts: &'a Accounts,
    pub(super) registry: &'a Registry,
    pub(super) qos: &'a QosPage,
}

/// All rights on a file, and those that a read-only share leaves: [MS-SMB2] 2.2.13.1.
const READ_ONLY: AccessMask = AccessMask::FILE_GENERIC_READ.union(AccessMask::FILE_GENERIC_EXECUTE);

impl Shares<'_> {
    /// Connects a share, or says why not.
    pub(super) fn connect(&mut self, request: &ConnectShare) -> Result<Share, ShareRefusal> {
        if request.name.eq_ignore_ascii_case("IPC$") {
            return self.connect_pipes(request);
        }
        let share = self.find(request)?;
        let account = &*request.account;
        verify_hosts(&share, request.client)?;
        let account = self.guest_if_due(&share, account)?;
        let mut substitutions = substitutions(self.config, request, &account, &share);
        let share = with_names(share, &substitutions);
        let is_member = member_of(&account.groups);
        if !share.admits(&account.user, &is_member) {
            info!("{} may not use share {}", account.user, share.name);
            return Err(ShareRefusal::AccessDenied);
        }
        if self.is_full(&share) {
            return Err(ShareRefusal::TooManyConnections);
        }
        // As in Samba, lists of users mean the user also by this.
        substitutions.requested_user.clone_from(&account.requested_user);
        let read_only = share.is_read_only_for(&account.user, &is_member);
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

    /// Opens the root of a share again where it was, with the server's rights. So what is unseen in a
    /// directory keeps it: the user might not have been allowed to remove that.
    ///
    /// # Errors
    /// There is no such share any more, or no such folder.
    pub(super) fn reopen(
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

    fn connect_pipes(&self, request: &ConnectShare) -> Result<Share, ShareRefusal> {
        if request.account.is_guest && self.config.global.restrict_anonymous >= 2 {
            return Err(ShareRefusal::AccessDenied);
        }
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
            // What goes through pipes is small, and whoever asks for a limit needs them.
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
        let is_admin = share.admin_users.contains(&account.user, member_of(&account.groups));
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
        Ok(user)
    }

    fn is_dfs_root(&self, share: &config::Share) -> bool {
        share.msdfs_root && self.config.global.host_msdfs
    }

    /// Where a path of a DFS namespace leads, as far as this user may see it.
    ///
    /// # Errors
    /// NOT_FOUND if the share is no root of a namespace, or not for this user, or the path leads
    /// nowhere else.
    pub(super) fn find_referral(
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

    /// Clients with POSIX extensions can make links, and so must not be able to make one that leads
    /// out of the share: like Samba, we have one or the other.
    fn allows_wide_links(&self, share: &config::Share) -> bool {
        let allowed = !self.config.global.smb3_unix_extensions;
        if !allowed {
            warn!("share {}: no `wide links` beside `smb3 unix extensions`", share.name);
        }
        allowed
    }

    /// `vfs objects = acl_xattr` and the module's options.
    fn nt_acls(&self, share: &config::Share) -> Option<NtAclSettings> {
        const MODULE: &str = "acl_xattr";
        if !share.nt_acl_support || !share.has_module(MODULE) {
            return None;
        }
        let mut settings = NtAclSettings::new(self.accounts.is_root());
        settings.ignore_system_acls = share.option_is_on(MODULE, "ignore system acls", false);
        settings.canonicalize_inherited = share.acl_flag_inherited_canonicalization;
        if let Some(name) = share.option(MODULE, "security_acl_name") {
            name.trim().clone_into(&mut settings.attribute);
        }
        settings.default_style = match share.option(MODULE, "default acl style").map(str::trim) {
            Some(style) if style.eq_ignore_ascii_case("windows") => DefaultStyle::Windows,
            Some(style) if style.eq_ignore_ascii_case("everyone") => DefaultStyle::Everyone,
            _ => DefaultStyle::Posix,
        };
        Some(settings)
    }

    /// How a share is served that is at `path`.
    fn root_settings(
        &self,
        share: &config::Share,
        path: &str,
        read_only: bool,
        substitutions: &Substitutions,
    ) -> RootSettings {
        let nt_acls = self.nt_acls(share);
        // Descriptors alone decide then, and the kernel must not be in their way.
        let descriptors_decide = nt_acls.as_ref().is_some_and(|it| it.ignore_system_acls);
        RootSettings {
            case_sensitive: share.case_sensitive == Tri::Yes,
            character_mappings: character_mappings(share),
            mangled_names: mangled_names(share.mangled_names),
            mangle_prefix: u8::try_from(self.config.global.mangle_prefix).unwrap_or(1),
            new_case: new_case(share, share.preserve_case),
            new_short_case: new_case(share, share.short_preserve_case),
            create_mask: share.create_mask | if descriptors_decide { 0o666 } else { 0 },
            directory_mask: if descriptors_decide { 0o777 } else { share.directory_mask },
            force_create_mode: share.force_create_mode,
            force_directory_mode: share.force_directory_mode,
            // Descriptors are what is inherited then.
            inherit_permissions: share.inherit_permissions && !descriptors_decide,
            read_only,
            store_dos_attributes: share.store_dos_attributes || descriptors_decide,
            ea_support: share.ea_support,
            hide_dot_files: share.hide_dot_files,
            hide_files: expressions(&share.hide_files, share),
            vetoed: expressions(&share.veto_files, share),
            remove_vetoed: share.delete_veto_files,
            delete_readonly: share.delete_readonly,
            follow_symlinks: share.follow_symlinks,
            streams: share.named_streams,
            wide_links: share.wide_links && self.allows_wide_links(share),
            dfs_links: self.is_dfs_root(share),
            volume_label: match share.volume.as_str() {
                "" => share.name.clone(),
                label => substitutions.expand(label),
            },
            file_system_name: share.fstype.clone(),
            snapshots: snapshot_settings(share, path, substitutions),
            inherit_owner: match share.inherit_owner {
                config::choice::InheritOwner::No => InheritOwner::No,
                config::choice::InheritOwner::UnixOnly => InheritOwner::UnixOnly,
                config::choice::InheritOwner::WindowsAndUnix => InheritOwner::WindowsAndUnix,
            },
            // As Samba's module has it.
            inherit_acls: share.inherit_acls || nt_acls.is_some(),
            nt_acls,
            hide: Hide {
                unreadable: share.hide_unreadable,
                unwriteable: share.hide_unwriteable_files,
                special: share.hide_special_files,
            },
            piping: match share.use_sendfile {
                Tri::No => Piping::Never,
                Tri::Yes => Piping::Always,
                Tri::Auto => Piping::AsMeasured,
            },
            ..RootSettings::new(path)
        }
    }

    fn open(
        &mut self,
        share: &config::Share,
        user: UserId,
        read_only: bool,
        substitutions: &Substitutions,
    ) -> Result<Share, ShareRefusal> {
        let path = substitutions.expand_path(&share.path);
        let settings = self.root_settings(share, &path, read_only, substitutions);
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
            veto_files: expressions(&share.veto_files, share),
            sync_always: share.sync_always && share.strict_sync,
            apple: self.apple(share),
            folder: self.store.folder(root),
            kernel_change_notify: share.kernel_change_notify,
            classes: Arc::default(),
        })
    }
}

impl Shares<'_> {
    /// What Apple's clients are told of a share that `vfs objects` wants served to them. The share must
    /// keep streams, as it always does here.
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

/// `smb3 share cap:continuous availability`, which means nothing where opens do not even outlive their
/// connection.
pub(super) fn is_continuously_available(share: &config::Share) -> bool {
    share.durable_handles && share.option_is_on("smb3 share cap", "continuous availability", false)
}

/// The user with root's rights, but in their own groups, so that what they make belongs to those. Whom the
/// system does not know is root.
fn administrator(user: Option<UnixUser>) -> Result<UnixUser, ShareRefusal> {
    let Some(mut user) = user else { return known_user("root") };
    user.credentials.uid = 0;
    Ok(user)
}

fn known_user(name: &str) -> Result<UnixUser, ShareRefusal> {
    match unix::find_user(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => {
            warn!("there is no user {name} on this system");
            Err(ShareRefusal::AccessDenied)
        }
        Err(error) => {
            warn!("{error:#}");
            Err(ShareRefusal::AccessDenied)
        }
    }
}

fn verify_hosts(share: &config::Share, client: SocketAddr) -> Result<(), ShareRefusal> {
    let address = client.ip().to_canonical();
    if hosts_access::allows(&share.hosts_allow, &share.hosts_deny, address, None) {
        return Ok(());
    }
    info!("{address} may not use share {}", share.name);
    Err(ShareRefusal::AccessDenied)
}

pub(super) fn is_member(groups: &[Sid], group: &str) -> bool {
    let gid = unix::find_group(group).ok().flatten();
    gid.is_some_and(|gid| groups.contains(&Sid::unix_group(gid)))
}

/// Whether whoever is in these groups is in one that a list of users names. Netgroups are not looked up,
/// they have no members.
fn member_of(groups: &[Sid]) -> impl Fn(GroupKind, &str) -> bool {
    move |kind, group| kind == GroupKind::Unix && is_member(groups, group)
}

/// Whether anybody can connect to a share.
pub(super) fn is_available(share: &config::Share) -> bool {
    share.available && !share.path.is_empty()
}

/// Whether a user may connect to a share, as far as its lists of users say.
pub(super) fn admits(config: &Config, share: &config::Share, caller: &Caller) -> bool {
    let share = with_names(share.clone(), &substitutions_of(config, caller, share));
    share.admits(&caller.user, member_of(&caller.groups))
}

/// What is known of a share and of somebody who asks about it.
pub(super) fn substitutions_of(
    config: &Config,
    caller: &Caller,
    share: &config::Share,
) -> Substitutions {
    let group = || unix::find_user(&caller.user).ok().flatten().map(|it| group_name(&it));
    Substitutions {
        user: caller.user.clone(),
        group: if names_group(share) { group().unwrap_or_default() } else { String::new() },
        requested_user: caller.user.clone(),
        domain: caller.domain.clone(),
        share: share.name.clone(),
        ..config.substitutions()
    }
}

/// The share with the names in its lists of users filled in: `valid users = %S`.
fn with_names(mut share: config::Share, substitutions: &Substitutions) -> config::Share {
    [
        share.admin_users,
        share.invalid_users,
        share.read_list,
        share.valid_users,
        share.write_list,
    ] = user_lists(&share).map(|list| list.expanded(substitutions));
    share
}

/// In the order of [`with_names`].
fn user_lists(share: &config::Share) -> [&UserList; 5] {
    let config::Share { admin_users, invalid_users, read_list, valid_users, write_list, .. } =
        share;
    [admin_users, invalid_users, read_list, valid_users, write_list]
}

/// What is known of a tree connect before it is known whom it acts as.
fn substitutions(
    config: &Config,
    request: &ConnectShare,
    account: &Account,
    share: &config::Share,
) -> Substitutions {
    let unix = unix::find_user(&account.user).ok().flatten();
    let group = unix.as_ref().filter(|_| names_group(share)).map(group_name);
    Substitutions {
        user: account.user.clone(),
        group: group.unwrap_or_default(),
        home: unix.map(|user| user.home).unwrap_or_default(),
        requested_user: account.user.clone(),
        domain: account.domain.clone(),
        client_address: request.client.ip().to_canonical().to_string(),
        client_name: request.client.ip().to_canonical().to_string(),
        share: share.name.clone(),
        time: date::text(SystemTime::now()),
        ..config.substitutions()
    }
}

/// Whether a share names `%g` or `%G`: the look-up takes as long as the system's name service.
fn names_group(share: &config::Share) -> bool {
    let is_named = |text: &str| text.contains("%g") || text.contains("%G");
    let texts = [&share.path, &share.comment, &share.volume];
    let mut names = user_lists(share).into_iter().flat_map(UserList::words);
    texts.into_iter().any(|text| is_named(text)) || names.any(|name| is_named(&name))
}

fn group_name(user: &UnixUser) -> String {
    unix::group_name(user.credentials.gid).unwrap_or_default()
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

/// `catia:mappings`, where `vfs objects` asks for them.
fn character_mappings(share: &config::Share) -> CharacterMappings {
    let mappings = share.has_module("catia").then(|| share.option("catia", "mappings")).flatten();
    mappings.map(CharacterMappings::parse).unwrap_or_default()
}

fn mangled_names(names: MangledNames) -> store::MangledNames {
    match names {
        MangledNames::No => store::MangledNames::No,
        MangledNames::Illegal => store::MangledNames::Illegal,
        MangledNames::Yes => store::MangledNames::Yes,
    }
}

fn new_case(share: &config::Share, preserved: bool) -> NewCase {
    match share.default_case {
        _ if preserved => NewCase::Kept,
        DefaultCase::Lower => NewCase::Lower,
        DefaultCase::Upper => NewCase::Upper,
    }
}

fn caching(policy: CscPolicy) -> ShareFlags {
    match policy {
        CscPolicy::Manual => ShareFlags::empty(),
        CscPolicy::Documents => ShareFlags::AUTO_CACHING,
        CscPolicy::Programs => ShareFlags::VDO_CACHING,
        CscPolicy::Disable => ShareFlags::NO_CACHING,
    }
}

/// `/one/two/`, in whatever case unless that matters in the share.
fn expressions(list: &str, share: &config::Share) -> Vec<NameExpression> {
    let read = match share.case_sensitive {
        Tri::Yes => NameExpression::case_sensitive,
        Tri::No | Tri::Auto => NameExpression::new,
    };
    list.split('/').filter(|pattern| !pattern.is_empty()).map(read).collect()
}
