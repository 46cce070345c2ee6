//! The places that records go to: the file, a socket, and syslog.

use std::path::Path;
use std::time::{Duration, Instant};

use config::AuditOutputs;
use messaging::AuditEntry;
use process::clocks::wall_clock;
use serde_json::json;
use tracing::{error, info};

use super::record_file::RecordFile;
use super::socket::Socket;

/// Time to the next attempt to write the number of lost records.
const RETRY: Duration = Duration::from_secs(5);

/// Bytes of lines that are written together, but for those of the last message.
const LINES_BYTES_MAX: usize = 1_048_576;

/// The places that records go to.
#[derive(Debug)]
pub(super) struct Outputs {
    config: AuditOutputs,
    file: Option<RecordFile>,
    socket: Option<Socket>,
    syslog: Socket,
    /// Lines for the file, to be written together.
    lines: Vec<u8>,
    /// Number of these lines that are records.
    count: u64,
    /// Records that could not be written, until the file has their number.
    unwritten: u64,
    retry_at: Option<Instant>,
    is_file_failing: bool,
    is_socket_failing: bool,
    is_syslog_failing: bool,
}

impl Outputs {
    pub(super) fn new(config: AuditOutputs) -> Self {
        Self {
            file: config.file.clone().map(RecordFile::new),
            socket: config.socket.clone().map(Socket::new),
            syslog: Socket::new(config.syslog.clone()),
            config,
            lines: Vec::new(),
            count: 0,
            unwritten: 0,
            retry_at: None,
            is_file_failing: false,
            is_socket_failing: false,
            is_syslog_failing: false,
        }
    }

    /// Goes on with another configuration.
    pub(super) fn follow(&mut self, config: AuditOutputs) {
        if config != self.config {
            *self = Self::new(config);
        }
    }

    /// Directory of the file: a successor follows a renamed one there.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.config.file.as_ref()?.parent()
    }

    /// Time of the next call of [`Outputs::write`], if there is something to write.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether the lines that wait are to be written before more are taken.
    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= LINES_BYTES_MAX
    }

    /// Takes an entry; a record for the file waits for [`Outputs::write`].
    pub(super) fn take(&mut self, entry: AuditEntry) {
        match entry {
            AuditEntry::Record(line) => self.record(&line),
            AuditEntry::Syslog(packet) => {
                let sent = self.syslog.send(&packet);
                let path = self.config.syslog.display();
                log_outcome(&mut self.is_syslog_failing, &sent, || format!("syslog at {path}"));
            }
        }
    }

    /// Records that entries of a worker are lost.
    pub(super) fn lost(&mut self, count: u64, worker: Option<u32>) {
        let time = wall_clock().to_rfc3339();
        let mut line = json!({"event": "lost", "time": time, "count": count});
        if let Some(worker) = worker {
            line["worker"] = worker.into();
        }
        self.record(&line.to_string());
    }

    fn record(&mut self, line: &str) {
        if let Some(socket) = &mut self.socket {
            let sent = socket.send(line);
            let path = self.config.socket.as_deref().unwrap_or(&self.config.syslog).display();
            log_outcome(&mut self.is_socket_failing, &sent, || format!("the audit socket {path}"));
        }
        if self.file.is_some() {
            self.lines.extend_from_slice(line.as_bytes());
            self.lines.push(b'\n');
            self.count += 1;
        }
    }

    /// Writes the records that have been taken, and before them the number of those that an earlier
    /// call could not write.
    pub(super) fn write(&mut self, now: Instant) {
        let is_due = self.retry_at.is_some_and(|at| at <= now);
        if self.lines.is_empty() && !is_due {
            return;
        }
        let Some(file) = &mut self.file else { return };
        let mut lines = Vec::new();
        if self.unwritten > 0 {
            let time = wall_clock().to_rfc3339();
            let line = json!({"event": "lost", "time": time, "count": self.unwritten});
            lines = format!("{line}\n").into_bytes();
        }
        lines.append(&mut self.lines);
        let written = file.append(&lines);
        let path = file.path().display();
        log_outcome(&mut self.is_file_failing, &written, || format!("the audit file {path}"));
        let count = std::mem::take(&mut self.count);
        (self.unwritten, self.retry_at) = match written {
            Ok(()) => (0, None),
            Err(_) => (self.unwritten.saturating_add(count), Some(now + RETRY)),
        };
    }
}

/// Logs the first of several failures, and the end of them.
fn log_outcome(is_failing: &mut bool, done: &std::io::Result<()>, output: impl FnOnce() -> String) {
    let was_failing = std::mem::replace(is_failing, done.is_err());
    match done {
        Err(fault) if !was_failing => error!("cannot write to {}: {fault}", output()),
        Ok(()) if was_failing => info!("{} can be written again", output()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use config::AuditOutputs;
    use messaging::AuditEntry;

    use super::Outputs;

    #[test]
    fn records_that_could_not_be_written_are_counted_once_the_file_can_be() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("missing/audit.json");
        let syslog = folder.path().join("log");
        let (file, socket) = (Some(path.clone()), None);
        let mut outputs = Outputs::new(AuditOutputs { file, socket, syslog });
        let now = Instant::now();
        for record in ["{\"n\":1}", "{\"n\":2}"] {
            outputs.take(AuditEntry::Record(record.to_owned()));
            outputs.write(now);
        }
        fs::create_dir(folder.path().join("missing")).expect("there is space");
        let retry_at = outputs.retry_at().expect("something is to be written");
        outputs.write(retry_at + Duration::from_millis(1));
        outputs.take(AuditEntry::Record("{\"n\":3}".to_owned()));
        outputs.write(now);
        let text = fs::read_to_string(&path).expect("it was made");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!((&lines[0]["event"], &lines[0]["count"]), (&"lost".into(), &2.into()));
        assert_eq!(lines[1]["n"], 3);
        assert_eq!(outputs.retry_at(), None);
    }
}
