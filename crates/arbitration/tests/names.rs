//! A file with several names loses only the one by which it is deleted.

use std::time::Duration;

use arbitration::{
    Admission, AdmissionRequest, Caching, FileRecord, OpenFacts, OpenId, Refusal, RequestedCaching,
    ShareMode, Standing, WorkersToNotify,
};
use dtyp::{AccessMask, ServerId};

const WORKER: ServerId = ServerId { pid: 1, unique_id: 1 };

fn ask(number: u64, link: u64) -> AdmissionRequest {
    AdmissionRequest {
        id: OpenId { worker: WORKER, number },
        standing: Standing::User,
        stream: 0,
        mode: ShareMode {
            granted_access: AccessMask::READ_DATA | AccessMask::DELETE,
            share_read: true,
            share_write: true,
            share_delete: true,
        },
        overwrites: false,
        is_new: false,
        size: 100,
        is_directory: false,
        delete_on_close: false,
        caching: RequestedCaching::Nothing,
        caching_max: Caching::empty(),
        shared_reading: true,
        has_waited: false,
        now: Duration::ZERO,
        deadline: Duration::from_secs(35),
        facts: OpenFacts { link, ..OpenFacts::default() },
    }
}

#[track_caller]
fn open(record: &mut FileRecord, number: u64, link: u64) {
    let (admission, _) =
        record.admit(&mut ask(number, link), None, &mut WorkersToNotify::default());
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

fn close(record: &mut FileRecord, number: u64, delete_on_close: bool) -> Option<u64> {
    let id = OpenId { worker: WORKER, number };
    record.close(id, delete_on_close, None, &mut WorkersToNotify::default()).unlink
}

#[test]
fn a_name_goes_although_the_file_is_open_by_another() {
    let mut record = FileRecord::default();
    open(&mut record, 1, 100);
    open(&mut record, 2, 200);
    assert_eq!(close(&mut record, 2, true), Some(200));
    assert!(record.is_delete_pending(0, 200) && !record.is_delete_pending(0, 100));
    let (again, _) = record.admit(&mut ask(3, 200), None, &mut WorkersToNotify::default());
    assert_eq!(again, Admission::Refused(Refusal::DeletePending), "it is being deleted");
    open(&mut record, 4, 100);
    record.end_deletion(200, &mut WorkersToNotify::default());
    for number in [1, 4] {
        assert_eq!(close(&mut record, number, false), None, "its other name stays");
    }
    assert!(record.is_empty());
}

#[test]
fn a_name_stays_as_long_as_the_file_is_open_by_it() {
    let mut record = FileRecord::default();
    open(&mut record, 1, 100);
    open(&mut record, 2, 100);
    assert_eq!(close(&mut record, 1, true), None);
    assert_eq!(close(&mut record, 2, false), Some(100));
}

#[test]
fn a_renamed_file_is_deleted_by_its_current_name() {
    let mut record = FileRecord::default();
    open(&mut record, 1, 100);
    record.set_delete_pending(100, true, None);
    record.relinked(100, 300);
    assert_eq!(close(&mut record, 1, false), Some(300));
}
