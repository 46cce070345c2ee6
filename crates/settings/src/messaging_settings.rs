//! Messaging parameters of the configuration.

use std::time::Duration;

use config::Global;
use config::choice::MessagingType;
use messaging::transport::Settings;
use messaging::{TransportKind, UnknownTransport};

/// The parameters that only a restart changes, because all processes must agree on them.
pub const PARAMETERS: &[&str] =
    &["messaging stream connections", "messaging stream idle time", "messaging type", "use mmap"];

/// Returns the messaging settings of the configuration.
///
/// # Errors
/// The messaging type was not built in.
pub fn messaging_settings(global: &Global) -> Result<Settings, UnknownTransport> {
    let kind = match global.messaging_type {
        MessagingType::Default => TransportKind::DEFAULT,
        named => TransportKind::from_name(named.word())?,
    };
    Ok(of_kind(global, kind))
}

/// As [`messaging_settings`], for a transport that is known already.
pub fn of_kind(global: &Global, kind: TransportKind) -> Settings {
    Settings {
        kind,
        stream_connections: usize::try_from(global.messaging_stream_connections).unwrap_or(1),
        stream_idle: Duration::from_millis(global.messaging_stream_idle_time.into()),
        use_mmap: global.use_mmap,
    }
}
