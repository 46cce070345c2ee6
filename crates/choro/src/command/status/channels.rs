//! Channels of sessions, which only their workers know.

use std::collections::HashSet;
use std::time::Duration;

use dtyp::ServerId;
use messaging::{Channel, Channels, Content, MessageKind};
use observe::report::{self, Row};
use settings::Settings;
use tables::SessionRecord;

use super::{since, unix_seconds};
use crate::command::message::requester::Requester;

/// A healthy worker answers within milliseconds; one that does not is named.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Channels as reported by the workers of their sessions.
#[derive(Debug, Default)]
pub(in crate::command) struct SessionChannels {
    /// Each channel with its worker's pid.
    channels: Vec<(u32, Channel)>,
    /// Reasons why some channels are missing.
    pub(super) remarks: Vec<String>,
}

impl SessionChannels {
    /// Asks the workers of these sessions.
    pub(in crate::command) fn ask(
        settings: &Settings,
        supervisor: ServerId,
        sessions: &[SessionRecord],
    ) -> Self {
        let workers: HashSet<ServerId> = sessions.iter().map(|it| it.server_id).collect();
        if workers.is_empty() {
            return Self::default();
        }
        let requester =
            Requester::join_server_of(supervisor, &settings.directories.lock, ANSWER_TIMEOUT);
        let asked = requester.and_then(|requester| Self::ask_workers(requester, workers));
        asked.unwrap_or_else(|error| Self {
            channels: Vec::new(),
            remarks: vec![format!("channels are unknown: {error:#}")],
        })
    }

    fn ask_workers(mut requester: Requester, workers: HashSet<ServerId>) -> anyhow::Result<Self> {
        let mut workers: Vec<ServerId> = workers.into_iter().collect();
        workers.sort_unstable_by_key(|worker| worker.pid);
        let content = Content::new(MessageKind::LIST_CHANNELS, &[]);
        let answers =
            requester.ask(&workers, &content, |answer| answer.kind == MessageKind::CHANNELS)?;
        let mut found = Self::default();
        for worker in workers {
            let pid = worker.pid;
            match answers.by_process.get(&worker).map(|it| Channels::decode(&it.message.data)) {
                Some(Some(Channels(channels))) => {
                    found.channels.extend(channels.into_iter().map(|channel| (pid, channel)));
                }
                Some(None) => found
                    .remarks
                    .push(format!("worker {pid} is of another version; its channels are unknown")),
                // Its sessions ended with it.
                None if answers.gone.contains(&worker) => {}
                None => found.remarks.push(format!(
                    "worker {pid} did not answer within {} s; its channels are unknown",
                    ANSWER_TIMEOUT.as_secs()
                )),
            }
        }
        Ok(found)
    }

    /// Number of channels of all sessions.
    pub(super) fn count(&self) -> usize {
        self.channels.len()
    }

    /// Returns the channels of a session, oldest first; none if they are unknown.
    pub(in crate::command) fn of(&self, session_id: u64) -> Vec<&Channel> {
        let of_session = self.channels.iter().filter(|(_, it)| it.session_id == session_id);
        of_session.map(|(_, channel)| channel).collect()
    }

    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        self.channels.iter().map(|(pid, channel)| cells(*pid, channel)).collect()
    }

    /// Returns a line for each session with a single channel, and for each worker without an
    /// answer.
    pub(super) fn notes(&self) -> String {
        let single = self.channels.iter().filter_map(|(_, channel)| {
            let why = channel.single?.why();
            Some(format!("Session {:016x} has one channel: {why}.\n", channel.session_id))
        });
        single.chain(self.remarks.iter().map(|remark| format!("{remark}\n"))).collect()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        self.channels.iter().map(|(pid, channel)| row(*pid, channel))
    }
}

pub(super) const TITLES: &[&str] = &[
    "PID",
    "SESSION",
    "CLIENT",
    "SERVER",
    "INTERFACE",
    "SPEED",
    "BYTES IN",
    "BYTES OUT",
    "BREAK RETRIES",
    "SINCE",
];

fn cells(pid: u32, channel: &Channel) -> Vec<String> {
    let (interface, speed) = match channel.interface.as_str() {
        "" => ("-", "-".to_owned()),
        name => (name, report::bits_per_second(channel.speed)),
    };
    vec![
        pid.to_string(),
        format!("{:016x}", channel.session_id),
        channel.client_address.clone(),
        channel.server_address.clone(),
        interface.to_owned(),
        speed,
        channel.bytes_in.to_string(),
        channel.bytes_out.to_string(),
        channel.break_retries.to_string(),
        since(channel.connected_at),
    ]
}

fn row(pid: u32, channel: &Channel) -> Row {
    let is_known = !channel.interface.is_empty();
    vec![
        ("kind", "channel".into()),
        ("pid", pid.into()),
        ("session_id", format!("{:016x}", channel.session_id).into()),
        ("client_address", channel.client_address.clone().into()),
        ("server_address", channel.server_address.clone().into()),
        ("interface", is_known.then(|| channel.interface.clone()).into()),
        ("speed_bits_per_s", is_known.then_some(channel.speed).into()),
        ("bytes_in", channel.bytes_in.into()),
        ("bytes_out", channel.bytes_out.into()),
        ("break_retries", channel.break_retries.into()),
        ("connected_at_unix_s", unix_seconds(channel.connected_at).into()),
    ]
}
