//! Settings of the engine, made of the configuration.

use mistake::{Mistake, is_made};
use std::sync::Arc;
use std::time::Duration;

use config::Config;
use config::choice::{self, EncryptionAlgorithm, SigningAlgorithm, Tri};
use dtyp::Guid;
use interfaces::Multichannel;
use process::clocks::wall_clock;
use proto::logon_throttle::ThrottleSettings;
use proto::settings::{BreakRetry, MapToGuest, Policy, ServerSettings};
use settings::Settings;
use wire::Dialect;

use super::catalogue::ConfiguredShares;
use super::host_names::{netbios_name, server_dns_names};
use super::share_properties::{is_continuously_available, policy};

/// Time that a client has to acknowledge a break before the CREATE that waits for it gets an
/// interim response: a few round trips, and too short to be noticed.
const INTERIM_DELAY: Duration = Duration::from_millis(10);

/// The settings of the engine.
///
/// `keeps_persistent`: this process can keep opens beyond the server.
pub fn server_settings(
    settings: &Settings,
    server_guid: Guid,
    keeps_persistent: bool,
) -> Arc<ServerSettings> {
    let config = &settings.config;
    let global = &config.global;
    let (dialect_min, dialect_max) = global.dialects();
    let (dns_name, dns_domain) = server_dns_names(config);
    let has_keytab = global.keytab().is_some();
    let multichannel = Multichannel::of(global);
    Arc::new(ServerSettings {
        server_guid,
        netbios_name: netbios_name(config),
        workgroup: global.workgroup.clone(),
        dns_name,
        dns_domain,
        mechanisms: auth::Mechanisms {
            kerberos: has_keytab,
            ntlm: global.ntlm_auth != choice::NtlmAuth::Disabled,
        },
        is_member: global.is_member(),
        interim_delay: INTERIM_DELAY,
        dialect_min: Dialect(dialect_min),
        dialect_max: Dialect(dialect_max),
        signing: if global.signing_required() { Policy::Required } else { Policy::Enabled },
        encryption: policy(config.defaults.smb_encrypt),
        ciphers: global.server_smb3_encryption_algorithms.iter().map(|it| cipher(*it)).collect(),
        signing_algorithms: global
            .server_smb3_signing_algorithms
            .iter()
            .map(|it| signing_algorithm(*it))
            .collect(),
        map_to_guest: map_to_guest(global.map_to_guest),
        logon_throttle: ThrottleSettings {
            delays: global.logon_delay,
            failures_max: global.logon_failures_max,
            refusal_time: Duration::from_secs(global.logon_refusal_time.into()),
        },
        posix_extensions: global.smb3_unix_extensions,
        multi_channel: multichannel.is_on(),
        persistent_handles: keeps_persistent && has_continuously_available_shares(config),
        max_read_size: data_size(global.smb2_max_read, global.max_client_memory),
        max_write_size: data_size(global.smb2_max_write, global.max_client_memory),
        max_transact_size: data_size(global.smb2_max_trans, global.max_client_memory),
        credits_max: global.smb2_max_credits,
        credits_total: global.smb2_total_credits,
        client_memory_max: memory_max(global.max_client_memory),
        guest_memory_max: memory_max(global.max_guest_memory),
        smbtorture_hooks: global.option("smbd", "FSCTL_SMBTORTURE").is_some_and(is_yes),
        break_retry: match (&multichannel, global.smb2_disable_oplock_break_retry) {
            // Everything would seem lost.
            (Multichannel::Unsupported(_), _) => BreakRetry::Never,
            _ if is_made(Mistake::BreaksSentOnce) => BreakRetry::Never,
            (_, true) => BreakRetry::LeasesOnly,
            (_, false) => BreakRetry::All,
        },
        replay_detection: !is_made(Mistake::ReplaysUndetected),
        dfs: global.host_msdfs
            && config.shares.iter().chain(&config.homes).any(|share| share.msdfs_root),
        lock_sequence_checking: !global.smb2_disable_lock_sequence_checking
            && !is_made(Mistake::ReplaysUndetected),
        is_audited: config.is_audited(),
        change_notify: global.change_notify,
        leases: global.smb2_leases,
        directory_leases: global.smb3_directory_leases != Tri::No,
        started: wall_clock(),
        catalogue: Arc::new(ConfiguredShares::new(config, &settings.directories.state)),
    })
}

/// Part of a client's memory that the data of one request may have. Half of the memory is for
/// requests, and for slow storage a client has the credits of a quarter of that.
const DATA_PART: u64 = 8;

/// Highest size of a request's data, so that its client can have the credits for it.
fn data_size(configured: u32, client_memory: u64) -> u32 {
    let credits = client_memory / DATA_PART / u64::from(CREDIT_BYTES);
    let size = u32::try_from(credits.max(1)).unwrap_or(u32::MAX).saturating_mul(CREDIT_BYTES);
    configured.min(size)
}

/// Data that one credit pays for, in bytes: [MS-SMB2] 3.1.5.2.
const CREDIT_BYTES: u32 = 65_536;

/// A number of bytes, as far as this machine can address them.
fn memory_max(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Whether a share is marked as continuously available.
pub fn has_continuously_available_shares(config: &Config) -> bool {
    let homes = config.homes.iter();
    let is_one = |share| is_continuously_available(&config.global, share);
    config.shares.iter().chain(homes).any(is_one)
}

/// The words for yes, in an option that `config` does not know.
fn is_yes(word: &str) -> bool {
    ["yes", "true", "on", "1"].iter().any(|yes| word.trim().eq_ignore_ascii_case(yes))
}

fn cipher(algorithm: EncryptionAlgorithm) -> crypto::Cipher {
    match algorithm {
        EncryptionAlgorithm::Aes128Gcm => crypto::Cipher::Aes128Gcm,
        EncryptionAlgorithm::Aes128Ccm => crypto::Cipher::Aes128Ccm,
        EncryptionAlgorithm::Aes256Gcm => crypto::Cipher::Aes256Gcm,
        EncryptionAlgorithm::Aes256Ccm => crypto::Cipher::Aes256Ccm,
    }
}

fn signing_algorithm(algorithm: SigningAlgorithm) -> crypto::SigningAlgorithm {
    match algorithm {
        SigningAlgorithm::Aes128Gmac => crypto::SigningAlgorithm::AesGmac,
        SigningAlgorithm::Aes128Cmac => crypto::SigningAlgorithm::AesCmac,
        SigningAlgorithm::HmacSha256 => crypto::SigningAlgorithm::HmacSha256,
    }
}

fn map_to_guest(map: choice::MapToGuest) -> MapToGuest {
    match map {
        // `Bad Uid` is about accounts that this server does not need.
        choice::MapToGuest::Never | choice::MapToGuest::BadUid => MapToGuest::Never,
        choice::MapToGuest::BadUser => MapToGuest::BadUser,
        choice::MapToGuest::BadPassword => MapToGuest::BadPassword,
    }
}

#[cfg(test)]
mod tests {
    use super::data_size;

    #[test]
    fn one_request_has_an_eighth_of_the_clients_memory_at_most() {
        let of = |client_memory, configured| data_size(configured, client_memory);
        assert_eq!(of(4 << 20, 8 << 20), 512 << 10);
        assert_eq!(of(5_000_000, 8 << 20), 9 * 65_536, "whole credits");
        assert_eq!(of(16 << 20, 1 << 20), 1 << 20, "less is configured");
        assert_eq!(of(64 << 20, 8 << 20), 8 << 20);
        assert_eq!(of(1 << 40, 8 << 20), 8 << 20);
    }
}
