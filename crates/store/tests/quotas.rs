//! Changes of quotas: the right to them is not that of the user alone.

mod support;

use dtyp::{FileTime, NtStatus, Sid};
use object::{LocalOpen, NewQuota, ObjectOp, ObjectReply, ObjectResult, QuotaLimits, QuotaOp};
use std::path::PathBuf;
use store::{NameFormat, SnapshotDirectory, SnapshotNames, SnapshotOrder, SnapshotSettings};
use support::{Share, is_root};

/// Name of a snapshot of the share.
const TOKEN: &str = "@GMT-2021.06.30-12.34.56";

/// Asks for limits of a user. Only where that is refused: the file system's limits are real.
fn set(share: &mut Share, open: LocalOpen) -> ObjectResult {
    let new = NewQuota { sid: Sid::unix_user(12_345), limits: QuotaLimits::default() };
    share.run(ObjectOp::Quotas { open, op: QuotaOp::Set(vec![new]) })
}

/// Asks for users whose limits a command is to set.
fn find(share: &mut Share, open: LocalOpen) -> ObjectResult {
    let op = QuotaOp::FindUsers { sids: vec![Sid::unix_user(12_345)], to_change: true };
    share.run(ObjectOp::Quotas { open, op })
}

#[test]
fn a_share_that_is_read_only_sets_no_quotas() {
    let mut share = Share::with(|settings| settings.read_only = true);
    let open = share.open("");
    // Only root would be allowed otherwise, so without root this tests nothing.
    for ask in [set, find] {
        assert_eq!(ask(&mut share, open).expect_err("read only"), NtStatus::ACCESS_DENIED);
    }
}

#[test]
fn a_snapshot_sets_no_quotas() {
    let mut share = Share::with(|settings| {
        let folder = settings.path.parent().expect("the folder of the test");
        settings.snapshots = Some(SnapshotSettings {
            everywhere: Vec::new(),
            directories: vec![SnapshotDirectory {
                path: folder.join("snapshots"),
                share: PathBuf::new(),
                is_in_share: false,
            }],
            names: vec![SnapshotNames::Format(NameFormat {
                prefix: None,
                format: c"@GMT-%Y.%m.%d-%H.%M.%S".to_owned(),
                local_time: false,
            })],
            order: SnapshotOrder::Descending,
            owner: None,
        });
    });
    let snapshot = share.folder.path().join("snapshots").join(TOKEN);
    std::fs::create_dir_all(snapshot.join("d")).expect("there is space");
    let time = FileTime::from_gmt_token(TOKEN).expect("a token");
    let opened = share.try_open("d", |request| {
        request.path = request.path.clone().with_snapshot(Some(time));
    });
    let open = opened.expect("it was there").open;
    for ask in [set, find] {
        let refused = ask(&mut share, open).expect_err("a snapshot");
        assert_eq!(refused, NtStatus::MEDIA_WRITE_PROTECTED);
    }
}

#[test]
fn a_share_that_may_be_changed_finds_users_for_root() {
    let mut share = Share::new();
    let open = share.open("");
    match find(&mut share, open) {
        Ok(ObjectReply::QuotaUsers(users)) => {
            assert!(is_root() && users.len() == 1 && users[0].uid == 12_345, "{users:?}");
        }
        other => assert!(!is_root() && other.is_err(), "{other:?}"),
    }
}
