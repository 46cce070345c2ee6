//! Requests of an administrator to any process of the server, and the answers.

use std::time::Instant;

use dtyp::ServerId;
use messaging::{
    Announcement, Content, Done, LogLevel, Message, MessageKind, Messaging, Statistics,
    TransportKind,
};

use crate::log;

/// A request that the receiving process must handle itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdministrativeRequest {
    /// The log has this detail now.
    LogLevel(u32),
    /// Nothing is left to do.
    Nothing,
}

/// Does what every process does alike. Kinds that are not of an administrator are passed by.
pub fn read(messaging: &mut Messaging, message: &Message) -> AdministrativeRequest {
    let Message { kind, sender, .. } = *message;
    match kind {
        MessageKind::PING => send(messaging, sender, MessageKind::PONG, &message.data),
        MessageKind::ANNOUNCE => {
            let outcome = Announcement::decode(&message.data)
                // To be seen in whatever detail is logged.
                .map(|Announcement { text }| tracing::warn!("announcement: {text:?}"))
                .map_or_else(unreadable, |()| Ok(0));
            report_done(messaging, sender, kind, outcome);
        }
        MessageKind::COUNT_MESSAGES => {
            let counters = messaging.counters().named();
            let transport = messaging.kind().map_or("another", TransportKind::name).to_owned();
            let data = Statistics { transport, counters }.encode();
            send(messaging, sender, MessageKind::STATISTICS, &data);
        }
        MessageKind::LOG_LEVEL => {
            let asked = LogLevel::decode(&message.data);
            let log_level = asked.and_then(|asked| asked.filter.parse::<u32>().ok());
            let outcome = log_level.map_or_else(unreadable, |log_level| {
                log::set_detail(log_level).map(|()| 0).map_err(|error| format!("{error:#}"))
            });
            let is_set = outcome.is_ok();
            report_done(messaging, sender, kind, outcome);
            if let (true, Some(log_level)) = (is_set, log_level) {
                tracing::info!("log level is {log_level} until the next reload");
                return AdministrativeRequest::LogLevel(log_level);
            }
        }
        _ => {}
    }
    AdministrativeRequest::Nothing
}

/// Answers an administrator with the result.
pub fn report_done(
    messaging: &mut Messaging,
    to: ServerId,
    request: MessageKind,
    outcome: Result<u64, String>,
) {
    send(messaging, to, MessageKind::DONE, &Done { request, outcome }.encode());
}

/// The outcome of a message whose data cannot be read.
pub fn unreadable() -> Result<u64, String> {
    Err("cannot decode the message".to_owned())
}

fn send(messaging: &mut Messaging, to: ServerId, kind: MessageKind, data: &[u8]) {
    if let Err(error) = messaging.send(Instant::now(), to, &Content::new(kind, data)) {
        tracing::debug!("cannot send {kind:?} to {to}: {error}");
    }
}
