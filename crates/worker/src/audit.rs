//! Records of audits, from the engine's notices to `auditd`.
//!
//! Nothing here waits. Entries are kept until the end of a turn and then sent; while `auditd` does
//! not take them, up to [`ENTRIES_MAX`] wait here. Each entry has a number, also one without room,
//! so that `auditd` can count the lost ones.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dtyp::{FileTime, NtStatus, ServerId};
use messaging::{AuditEntries, AuditEntry, Content, MessageKind, Messaging, SendError};
use process::{escape_json, is_command};
use proto::audit::{Audit, AuditSyslog};
use proto::notice::{AuditRecord, LogonRefused, SessionOpened};
use serde::Serialize;

/// Highest number of entries that wait in a worker.
const ENTRIES_MAX: usize = 4_096;

/// Highest number of bytes of these entries.
const ENTRIES_BYTES_MAX: usize = 1_048_576;

/// Bytes of entries that leave in one message, but for the last of them.
const MESSAGE_BYTES_MAX: usize = 32_768;

/// Bytes of messages that wait for `auditd` in the worker's queue before entries wait here.
const QUEUED_BYTES_MAX: u64 = 1_048_576;

/// Characters that are kept of names in a failed logon.
const NAME_CHARACTERS_MAX: usize = 255;

/// Time to the next attempt to send what `auditd` did not take.
const RETRY: Duration = Duration::from_millis(500);

/// Longest time that a worker without a client waits for a new `auditd`.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Entries on their way to `auditd`.
#[derive(Debug, Default)]
pub(super) struct AuditTrail {
    waiting: VecDeque<(u64, AuditEntry)>,
    waiting_bytes: usize,
    /// Number of the next entry.
    next: u64,
    /// Number of the first entry that the present `auditd` has not been sent.
    unsent: u64,
    /// Number from which the entries for the present `auditd` are counted.
    base: u64,
    auditd: Option<ServerId>,
    retry_at: Option<Instant>,
    /// Time since which no entry could be sent.
    failing_since: Option<Instant>,
}

/// One record as JSON has it.
#[derive(Debug, Default, Serialize)]
struct Line<'a> {
    time: String,
    event: &'a str,
    result: String,
    user: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    domain: &'a str,
    address: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Refused logons from the address that have no record of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    unlogged: Option<u64>,
}

impl AuditTrail {
    /// Takes an event of a share.
    pub(super) fn share(&mut self, record: &AuditRecord, now: FileTime) {
        let audit = &*record.audit;
        self.line(&Line {
            time: now.to_rfc3339(),
            event: record.event.name(),
            result: result(record.status),
            user: &audit.user,
            domain: &audit.domain,
            address: address(audit.client),
            client: &audit.client_name,
            share: Some(&audit.share),
            path: record.path.as_deref(),
            new_path: record.new_path.as_deref(),
            bytes: record.bytes,
            ..Line::default()
        });
        if let Some(syslog) = &audit.syslog {
            self.push(AuditEntry::Syslog(packet(record, audit, syslog)));
        }
    }

    /// Takes a logon that succeeded.
    pub(super) fn logon(&mut self, opened: &SessionOpened, now: FileTime) {
        self.line(&Line {
            time: now.to_rfc3339(),
            event: "logon",
            result: result(NtStatus::SUCCESS),
            user: &opened.user,
            domain: &opened.domain,
            address: address(opened.client),
            client: &opened.client_name,
            ..Line::default()
        });
    }

    /// Takes a logon that failed. Strangers choose its names.
    pub(super) fn refused_logon(&mut self, refused: &LogonRefused, now: FileTime) {
        // A longer name would be a way to a record that has no room.
        let [user, domain] = [&refused.user, &refused.domain]
            .map(|name| name.chars().take(NAME_CHARACTERS_MAX).collect::<String>());
        self.line(&Line {
            time: now.to_rfc3339(),
            event: "logon",
            result: result(refused.reject.status()),
            user: &user,
            domain: &domain,
            address: address(refused.client),
            unlogged: (refused.unlogged > 0).then_some(refused.unlogged),
            ..Line::default()
        });
    }

    /// Counts a record that is not to be written: `auditd` finds its number missing.
    pub(super) fn leave_out(&mut self) {
        self.next += 1;
    }

    fn line(&mut self, line: &Line<'_>) {
        // The library escapes control characters of ASCII, so that no name can end the line.
        let text = serde_json::to_string(line).expect("a line has texts and numbers only");
        self.push(AuditEntry::Record(escape_json(&text).into_owned()));
    }

    fn push(&mut self, entry: AuditEntry) {
        let number = self.next;
        self.next += 1;
        let len = entry.text().len();
        if self.waiting.len() < ENTRIES_MAX
            && self.waiting_bytes + len <= ENTRIES_BYTES_MAX
            && len <= AuditEntry::BYTES_MAX
        {
            self.waiting_bytes += len;
            self.waiting.push_back((number, entry));
        }
    }

    /// Whether entries wait, and may be sent now.
    pub(super) fn wants_flush(&self, now: impl FnOnce() -> Instant) -> bool {
        !self.waiting.is_empty() && self.retry_at.is_none_or(|at| at <= now())
    }

    /// Time of the next call of [`AuditTrail::flush`], if an earlier one could not send all.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether the worker of a client that has left must stay for its entries.
    pub(super) fn keeps_worker(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && self.failing_since.is_none_or(|at| now < at + LAST_WAIT)
    }

    /// Sends the entries that wait. `announced` finds the running `auditd`.
    pub(super) fn flush(
        &mut self,
        messaging: &mut Messaging,
        now: Instant,
        announced: impl Fn() -> Option<ServerId>,
    ) {
        self.retry_at = None;
        while !self.waiting.is_empty() {
            let sent = self.send_some(messaging, now, &announced);
            if sent.is_none() {
                self.retry_at = Some(now + RETRY);
                self.failing_since.get_or_insert(now);
                return;
            }
            self.failing_since = None;
        }
    }

    /// Sends the first entries; `None` if they have to wait.
    fn send_some(
        &mut self,
        messaging: &mut Messaging,
        now: Instant,
        announced: &impl Fn() -> Option<ServerId>,
    ) -> Option<()> {
        if messaging.counters().queued_bytes > QUEUED_BYTES_MAX {
            return None;
        }
        let auditd = match self.auditd {
            Some(auditd) => auditd,
            None => {
                self.base = self.unsent;
                *self.auditd.insert(announced()?)
            }
        };
        let (first, entries) = self.first_entries();
        let count = entries.len();
        let data = AuditEntries { first: first - self.base, entries }.encode();
        match messaging.send(now, auditd, &Content::new(MessageKind::AUDIT, &data)) {
            Ok(()) => {
                for (number, entry) in self.waiting.drain(..count) {
                    self.waiting_bytes -= entry.text().len();
                    self.unsent = number + 1;
                }
                Some(())
            }
            Err(SendError::NoSuchProcess) => {
                self.auditd = None;
                None
            }
            Err(_) => None,
        }
    }

    /// Returns entries for one message, whose numbers follow each other.
    fn first_entries(&self) -> (u64, Vec<AuditEntry>) {
        let first = self.waiting.front().map_or(self.next, |(number, _)| *number);
        let mut bytes = 0;
        let with_numbers = (first..).zip(&self.waiting);
        let entries = with_numbers.take(AuditEntries::LEN_MAX).map_while(|(wanted, entry)| {
            let (number, entry) = entry;
            let has_room = bytes < MESSAGE_BYTES_MAX;
            bytes += entry.text().len();
            (*number == wanted && has_room).then(|| entry.clone())
        });
        (first, entries.collect())
    }
}

fn address(client: SocketAddr) -> String {
    client.ip().to_canonical().to_string()
}

/// Returns `ok`, or the name of the status.
fn result(status: NtStatus) -> String {
    if status.is_error() { format!("{status:?}") } else { "ok".to_owned() }
}

/// Makes a line as Samba's module does: `smbd_audit: PREFIX|OPERATION|RESULT|FILE`. Characters of
/// names that could end the line or command a terminal are escaped.
fn packet(record: &AuditRecord, audit: &Audit, syslog: &AuditSyslog) -> String {
    let result = match record.status.is_error() {
        true => format!("fail ({:?})", record.status),
        false => "ok".to_owned(),
    };
    let path = record.path.as_deref().unwrap_or(&audit.share);
    let new_path = record.new_path.iter().map(|path| format!("|{path}"));
    let AuditSyslog { prefix, priority } = syslog;
    let operation = record.event.operation();
    let text = format!("{prefix}|{operation}|{result}|{path}{}", new_path.collect::<String>());
    let mut packet = format!("<{priority}>smbd_audit: ");
    for character in text.chars() {
        match is_command(character) {
            true => packet.extend(character.escape_default()),
            false => packet.push(character),
        }
    }
    packet
}

#[cfg(test)]
mod tests;
