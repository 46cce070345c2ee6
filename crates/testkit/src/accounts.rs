//! Users, shares and settings of a server for tests.

use std::sync::Arc;

use auth::{NtHash, NtlmResponse};
use crypto::{Cipher, SigningAlgorithm};
use dtyp::upcase::equal_ignoring_case;
use dtyp::{AccessMask, FileTime, Guid, NtStatus, Sid};
use object::{ObjectPath, RootId, UserId};
use proto::effect::{CheckedResponse, ResponseFailure, ResponseOwner};
use proto::logon_throttle::ThrottleSettings;
use proto::settings::{BreakRetry, MapToGuest, Policy};
use proto::share::{LocalPrograms, QuotaCommands};
use proto::{Account, ProvenUsers, ServerSettings, Share};
use rpc::{Caller, Catalogue, ServerEntry, ShareEntry};
use wire::Dialect;

/// The user of most tests.
pub const ALICE: (&str, &str) = ("alice", "secret of alice");
/// A second user, also with a password.
pub const BOB: (&str, &str) = ("bob", "secret of bob");
/// A user whose account is disabled.
pub const CAROL: (&str, &str) = ("carol", "secret of carol");

/// Workgroup of the server and its users.
pub const WORKGROUP: &str = "CHORO";

/// A user with a password.
#[derive(Clone, Debug)]
pub struct User {
    /// NT hash of the password.
    pub nt_hash: NtHash,
    /// True if the user may not log on.
    pub disabled: bool,
    /// Account that the user logs on to.
    pub account: Account,
}

/// Returns the users above, as accounts.
#[must_use]
pub fn users() -> Vec<User> {
    let mut carol = user(CAROL, 1_002);
    carol.disabled = true;
    vec![user(ALICE, 1_000), user(BOB, 1_001), carol]
}

/// Creates a user with a password.
#[must_use]
pub fn user((user, password): (&str, &str), id: u32) -> User {
    let account = Account {
        user: user.into(),
        requested_user: user.into(),
        domain: WORKGROUP.into(),
        unix: UserId(id),
        identity: user.into(),
        sid: Sid::unix_user(id),
        groups: vec![Sid::unix_group(100)].into(),
        is_guest: false,
    };
    User { nt_hash: NtHash::of_password(password), disabled: false, account }
}

/// Returns the account of guests and anonymous users.
#[must_use]
pub fn guest() -> Account {
    Account {
        user: "nobody".into(),
        requested_user: "nobody".into(),
        domain: WORKGROUP.into(),
        unix: UserId(65_534),
        identity: "guest".into(),
        sid: Sid::unix_user(65_534),
        groups: Arc::default(),
        is_guest: true,
    }
}

/// Finds a user by name, in any case.
pub(crate) fn find<'a>(users: &'a [User], name: &str) -> Option<&'a User> {
    users.iter().find(|user| equal_ignoring_case(&user.account.user, name))
}

/// Verifies a response of one of the users, as the server does.
pub(crate) fn check_response(
    users: &[User],
    response: &NtlmResponse,
) -> Result<CheckedResponse, ResponseFailure> {
    let user = find(users, &response.user);
    let verified = response.verify(&[user.map(|user| user.nt_hash.clone())]);
    let (user, (_, session_base_key)) = match (user, verified) {
        (Some(user), Ok(verified)) => (user, verified),
        (None, _) => return Err(ResponseFailure::Refused(NtStatus::NO_SUCH_USER)),
        (_, Err(_)) => return Err(ResponseFailure::Refused(NtStatus::WRONG_PASSWORD)),
    };
    let owner = ResponseOwner::Users(ProvenUsers {
        users: vec![user.account.user.clone()],
        is_ambiguous: false,
        is_disabled: user.disabled,
    });
    Ok(CheckedResponse { session_base_key, owner })
}

/// Creates a share that grants everything.
#[must_use]
pub fn share(name: &str, root: Option<RootId>) -> Share {
    Share {
        name: name.into(),
        requested_name: name.into(),
        comment: String::new(),
        root,
        user: UserId(1_000),
        access_max: AccessMask::FILE_ALL,
        encryption: Policy::Enabled,
        case_sensitive: false,
        durable_handles: true,
        is_ca: false,
        capabilities: 0,
        caching_max: arbitration::Caching::all(),
        shared_reading: true,
        is_dfs_root: false,
        directory_caching_max: arbitration::Caching::all(),
        caching: 0,
        extended_attributes: true,
        named_streams: true,
        delete_readonly: false,
        veto_files: Vec::new(),
        sync_always: false,
        apple: None,
        audit: None,
        requester: None,
        folder: ObjectPath::from_stored(format!("srv/{name}"), None),
        kernel_change_notify: true,
        checks_directory: false,
        has_free_space_command: false,
        quota_commands: QuotaCommands::default(),
        volume_bytes_max: None,
        local_programs: LocalPrograms::default(),
        classes: Arc::default(),
    }
}

/// Returns settings that offer all features and require none.
#[must_use]
pub fn settings() -> ServerSettings {
    ServerSettings {
        server_guid: Guid([0x5E; 16]),
        netbios_name: "SERVER".into(),
        workgroup: WORKGROUP.into(),
        dns_name: "server.example".into(),
        dns_domain: "example".into(),
        mechanisms: auth::Mechanisms::default(),
        is_member: false,
        interim_delay: std::time::Duration::ZERO,
        dialect_min: Dialect::SMB_2_0_2,
        dialect_max: Dialect::SMB_3_1_1,
        signing: Policy::Enabled,
        encryption: Policy::Enabled,
        ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm],
        signing_algorithms: vec![
            SigningAlgorithm::AesGmac,
            SigningAlgorithm::AesCmac,
            SigningAlgorithm::HmacSha256,
        ],
        map_to_guest: MapToGuest::Never,
        logon_throttle: ThrottleSettings::default(),
        posix_extensions: false,
        multi_channel: true,
        persistent_handles: true,
        max_read_size: 0x10_0000,
        max_write_size: 0x10_0000,
        max_transact_size: 0x10_0000,
        credits_max: 8_192,
        credits_total: 0,
        client_memory_max: 256 << 20,
        guest_memory_max: 16 << 20,
        smbtorture_hooks: false,
        replay_detection: true,
        break_retry: BreakRetry::All,
        lock_sequence_checking: true,
        dfs: false,
        is_audited: false,
        change_notify: true,
        leases: true,
        directory_leases: true,
        started: FileTime::ZERO,
        catalogue: Arc::new(OneShare),
    }
}

/// Returns the properties that srvsvc reports in tests.
#[derive(Debug)]
struct OneShare;

impl Catalogue for OneShare {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        [ShareEntry { name: "data".into(), path: "/data".into(), ..ShareEntry::default() }].into()
    }

    fn is_administrator(&self, caller: &Caller) -> bool {
        caller.user == ALICE.0
    }

    fn server(&self) -> ServerEntry {
        ServerEntry { name: "SERVER".into(), domain: WORKGROUP.into(), ..ServerEntry::default() }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn is_member(&self) -> bool {
        true
    }

    fn find_user(&self, _: &str) -> Option<rpc::Principal> {
        None
    }

    fn find_group(&self, _: &str) -> Option<rpc::Principal> {
        None
    }

    fn find_sid(&self, _: &Sid) -> Option<rpc::Principal> {
        None
    }

    fn now(&self) -> FileTime {
        FileTime::ZERO
    }
}
