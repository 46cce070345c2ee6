//! Tests of [`super::AuditTrail`] without a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dtyp::{FileTime, NtStatus, ServerId};
use messaging::transport::TransportKind;
use messaging::{AuditEntries, AuditEntry, MessageKind, Messaging};
use proto::audit::{Audit, AuditEvent, AuditEvents, AuditSyslog};
use proto::notice::AuditRecord;
use tempfile::TempDir;

use super::{AuditTrail, ENTRIES_MAX};

fn record(path: &str) -> AuditRecord {
    let audit = Arc::new(Audit {
        success: AuditEvents::default(),
        failure: AuditEvents::default(),
        syslog: None,
        is_guest: false,
        user: "ann".to_owned(),
        domain: String::new(),
        client: "192.0.2.1:1".parse().expect("an address"),
        client_name: "PC".to_owned(),
        share: "data".to_owned(),
    });
    AuditRecord { path: Some(path.to_owned()), ..AuditRecord::new(&audit, AuditEvent::Delete) }
}

fn text(record: &AuditRecord) -> String {
    let mut trail = AuditTrail::default();
    trail.share(record, FileTime::from_unix(0, 0));
    trail.waiting[0].1.text().to_owned()
}

/// Two processes of a server: this one has both ends.
fn pair(folder: &TempDir) -> [Messaging; 2] {
    [1, 2].map(|unique_id| {
        let id = ServerId { pid: std::process::id(), unique_id };
        Messaging::init(folder.path(), id, TransportKind::Dgram).expect("the folder is there")
    })
}

fn received(messaging: &mut Messaging) -> Vec<AuditEntries> {
    let mut all = Vec::new();
    while let Some(message) = messaging.poll(Instant::now()) {
        assert_eq!(message.kind, MessageKind::AUDIT);
        all.push(AuditEntries::decode(&message.data).expect("it is well-formed"));
    }
    all
}

#[test]
fn a_record_is_one_line_of_json_with_any_name() {
    let name = "a\n{\"event\":\"x\"}\u{1b}[2J\"\\\u{85}\u{202e}é";
    let line = text(&record(name));
    assert!(!line.contains(process::is_command), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(value["path"], name);
    assert_eq!((&value["event"], &value["result"]), (&"delete".into(), &"ok".into()));
    assert_eq!(
        (&value["time"], &value["client"]),
        (&"1970-01-01T00:00:00.000000Z".into(), &"PC".into())
    );
    assert!(value.get("domain").is_none() && value.get("bytes").is_none());
}

#[test]
fn a_failure_has_the_name_of_its_status() {
    let refused = AuditRecord { status: NtStatus::ACCESS_DENIED, ..record("f") };
    let value: serde_json::Value = serde_json::from_str(&text(&refused)).expect("it is JSON");
    assert!(value["result"].as_str().is_some_and(|it| it.contains("ACCESS_DENIED")), "{value}");
}

#[test]
fn a_line_for_syslog_has_the_form_of_samba() {
    let mut record = record("a\nb");
    let syslog = AuditSyslog { prefix: "ann|192.0.2.1".to_owned(), priority: 13 };
    record.audit = Arc::new(Audit { syslog: Some(syslog), ..(*record.audit).clone() });
    let mut trail = AuditTrail::default();
    trail.share(&record, FileTime::from_unix(0, 0));
    let expected = "<13>smbd_audit: ann|192.0.2.1|unlinkat|ok|a\\nb".to_owned();
    assert_eq!(trail.waiting[1].1, AuditEntry::Syslog(expected));
}

#[test]
fn entries_beyond_the_limit_leave_a_gap_in_the_numbers() {
    let folder = tempfile::tempdir().expect("there is space");
    let [mut worker, mut auditd] = pair(&folder);
    let mut trail = AuditTrail::default();
    for _ in 0..ENTRIES_MAX + 3 {
        trail.share(&record("f"), FileTime::from_unix(0, 0));
    }
    let (now, to) = (Instant::now(), auditd.server_id());
    trail.flush(&mut worker, now, || None);
    assert!(trail.retry_at().is_some() && trail.keeps_worker(now), "nobody takes them");
    let mut taken = Vec::new();
    while !trail.waiting.is_empty() {
        trail.flush(&mut worker, now, || Some(to));
        worker.flush(now);
        taken.extend(received(&mut auditd));
    }
    trail.share(&record("g"), FileTime::from_unix(0, 0));
    trail.flush(&mut worker, now, || Some(to));
    for _ in 0..1_000 {
        worker.flush(now);
        taken.extend(received(&mut auditd));
    }
    let last = taken.pop().expect("there was room for it");
    let count: usize = taken.iter().map(|it| it.entries.len()).sum();
    assert_eq!(count, ENTRIES_MAX);
    assert_eq!(last.first, u64::try_from(ENTRIES_MAX + 3).expect("few"));
    assert!(!trail.keeps_worker(now));
}

#[test]
fn a_record_that_is_left_out_is_missing_in_the_numbers() {
    let folder = tempfile::tempdir().expect("there is space");
    let [mut worker, mut auditd] = pair(&folder);
    let mut trail = AuditTrail::default();
    trail.share(&record("f"), FileTime::from_unix(0, 0));
    trail.leave_out();
    trail.share(&record("g"), FileTime::from_unix(0, 0));
    let (now, to) = (Instant::now(), auditd.server_id());
    trail.flush(&mut worker, now, || Some(to));
    worker.flush(now);
    let firsts: Vec<u64> = received(&mut auditd).iter().map(|it| it.first).collect();
    assert_eq!(firsts, [0, 2]);
}

#[test]
fn a_new_auditd_gets_its_entries_from_0_on() {
    let folder = tempfile::tempdir().expect("there is space");
    let [mut worker, mut first] = pair(&folder);
    let mut trail = AuditTrail::default();
    let now = Instant::now();
    trail.share(&record("f"), FileTime::from_unix(0, 0));
    trail.flush(&mut worker, now, || Some(ServerId { unique_id: 2, pid: std::process::id() }));
    worker.flush(now);
    assert_eq!(received(&mut first)[0].first, 0);
    drop(first);
    // A message that follows at once leaves together with the first one.
    let now = now + Duration::from_secs(1);
    trail.share(&record("g"), FileTime::from_unix(0, 0));
    trail.flush(&mut worker, now, || None);
    assert_eq!(trail.waiting.len(), 1, "it is kept");
    let next = ServerId { unique_id: 3, pid: std::process::id() };
    let mut second =
        Messaging::init(folder.path(), next, TransportKind::Dgram).expect("the folder is there");
    trail.flush(&mut worker, now, || Some(next));
    worker.flush(now);
    let taken = received(&mut second);
    assert_eq!((taken[0].first, taken[0].entries.len()), (0, 1));
}
