//! Properties of a share that follow from several of its parameters.

use arbitration::Caching;
use config::choice::{Encryption, Tri};
use proto::settings::Policy;
use proto::share::{LocalPrograms, LockChecks};
use wire::tree_connect::ShareCapabilities;

/// True with `continuous availability` and `persistent handles`, or if `smb3 share cap:continuous
/// availability` says so; without effect if opens do not even outlive their connection.
pub(super) fn is_continuously_available(global: &config::Global, share: &config::Share) -> bool {
    let by_default = global.persistent_handles && share.continuous_availability;
    keeps_opens(share)
        && share.option_is_on("smb3 share cap", "continuous availability", by_default)
}

/// Capabilities of a share that only `smb3 share cap:` switches on, as in Samba: [MS-SMB2] 2.2.10.
pub(super) fn configured_capabilities(share: &config::Share) -> ShareCapabilities {
    let names = [
        ("scale out", ShareCapabilities::SCALEOUT),
        ("cluster", ShareCapabilities::CLUSTER),
        ("asymmetric", ShareCapabilities::ASYMMETRIC),
    ];
    let is_on = |name: &&(&str, _)| share.option_is_on("smb3 share cap", name.0, false);
    names.iter().filter(is_on).map(|(_, capability)| *capability).collect()
}

/// Rights to cache files by leases and oplocks: `oplocks`, and the letters of `smb2:max lease
/// mask`, or for a continuously available share those of `smb3 ca:max lease mask` or `smb3 ca
/// so:max lease mask`.
pub(super) fn caching_max(share: &config::Share, is_ca: bool) -> Caching {
    let is_scale_out = configured_capabilities(share).contains(ShareCapabilities::SCALEOUT);
    let (module, default) = match (is_ca, is_scale_out) {
        (false, _) => ("smb2", "RWH"),
        (true, false) => ("smb3 ca", "R"),
        (true, true) => ("smb3 ca so", "R"),
    };
    let mask = share.option(module, "max lease mask").unwrap_or(default);
    if share.oplocks { rights(mask) } else { Caching::empty() }
}

/// Rights to cache directories: none where handles persist, as by Windows.
pub(super) fn directory_caching_max(is_ca: bool) -> Caching {
    if is_ca { Caching::empty() } else { Caching::READ | Caching::HANDLE }
}

fn rights(letters: &str) -> Caching {
    let right = |letter: char| match letter.to_ascii_uppercase() {
        'R' => Caching::READ,
        'W' => Caching::WRITE,
        'H' => Caching::HANDLE,
        _ => Caching::empty(),
    };
    letters.chars().map(right).collect()
}

/// True if opens may outlive their connection (`durable handles`). As in Samba they may not where
/// the kernel excludes local programs on behalf of an open, because that ends with its file.
pub(super) fn keeps_opens(share: &config::Share) -> bool {
    share.durable_handles && !share.kernel_share_modes && !share.kernel_oplocks
}

/// Respect between the clients of a share and local programs.
pub(super) fn local_programs(share: &config::Share) -> LocalPrograms {
    LocalPrograms {
        see_locks: share.posix_locking,
        lock_checks: match share.strict_locking {
            _ if !share.posix_locking => LockChecks::Never,
            Tri::No => LockChecks::Never,
            Tri::Auto => LockChecks::Uncached,
            Tri::Yes => LockChecks::Always,
        },
        see_share_modes: share.kernel_share_modes,
        break_oplocks: share.kernel_oplocks,
    }
}

/// Whether anybody can connect to a share.
pub(super) fn is_available(share: &config::Share) -> bool {
    share.available && !share.path.is_empty()
}

/// `smb encrypt`, of the server or of a share.
pub(super) fn policy(encryption: Encryption) -> Policy {
    match encryption {
        Encryption::Default | Encryption::IfRequired => Policy::Enabled,
        Encryption::Off => Policy::Off,
        Encryption::Desired => Policy::Desired,
        Encryption::Required => Policy::Required,
    }
}
