//! Properties of a share that follow from several of its parameters.

use config::choice::Encryption;
use proto::settings::Policy;

/// True with `smb3 share cap:continuous availability`, which has no effect if opens do not even
/// outlive their connection.
pub(super) fn is_continuously_available(share: &config::Share) -> bool {
    share.durable_handles && share.option_is_on("smb3 share cap", "continuous availability", false)
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
