//! Tests of the store in memory.

use bytes::{Bytes, BytesMut};
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::{
    Disposition, EntryDetail, LocalOpen, ObjectOp, ObjectPath, ObjectReply, OpenRequest,
    RequestedKind, RootId,
};

use super::{MemoryStore, OpKind};

const NOW: FileTime = FileTime(1_000);

fn request(path: &str, disposition: Disposition) -> OpenRequest {
    OpenRequest {
        root: RootId(0),
        path: ObjectPath::parse(path).expect("a good path"),
        disposition,
        kind: RequestedKind::Any,
        desired_access: AccessMask::FILE_ALL,
        share_access_max: AccessMask::FILE_ALL,
        attributes: FileAttributes::empty(),
        allocation_size: 0,
        open_reparse_point: false,
        delete_on_close: false,
        write_through: false,
        is_reconnect: false,
        security: None,
        posix_mode: None,
        extended_attributes: Vec::new(),
    }
}

fn store() -> MemoryStore {
    let mut store = MemoryStore::new();
    store.add_root();
    store.add_file(RootId(0), "dir/File", b"data");
    store
}

fn open(
    store: &mut MemoryStore,
    path: &str,
    disposition: Disposition,
) -> Result<LocalOpen, NtStatus> {
    let request = request(path, disposition);
    match store.perform(NOW, ObjectOp::Open(Box::new(request)))? {
        ObjectReply::Opened(opened) => Ok(opened.open),
        other => panic!("{other:?} for an open"),
    }
}

fn close(store: &mut MemoryStore, open: LocalOpen, unlink: bool) -> Result<(), NtStatus> {
    store.perform(NOW, ObjectOp::Close { open, unlink }).map(drop)
}

#[test]
fn names_are_found_in_any_case_and_kept_as_they_were_given() {
    let mut store = store();
    let wanted = request("DIR\\fILE", Disposition::Open);
    let Ok(ObjectReply::Opened(opened)) = store.perform(NOW, ObjectOp::Open(Box::new(wanted)))
    else {
        panic!("it is there");
    };
    assert_eq!(opened.path.as_str(), "dir/File");
    assert_eq!(opened.metadata.end_of_file, 4);
}

#[test]
fn a_missing_directory_is_not_a_missing_name() {
    let mut store = store();
    let check = |store: &mut MemoryStore, path, want| {
        assert_eq!(open(store, path, Disposition::Open).err(), Some(want), "{path}");
    };
    check(&mut store, "dir\\none", NtStatus::OBJECT_NAME_NOT_FOUND);
    check(&mut store, "none\\none", NtStatus::OBJECT_PATH_NOT_FOUND);
    check(&mut store, "dir\\File\\none", NtStatus::OBJECT_PATH_NOT_FOUND);
}

#[test]
fn an_unlinked_file_lives_until_its_last_open_is_closed() {
    let mut store = store();
    let first = open(&mut store, "dir\\File", Disposition::Open).expect("it is there");
    let second = open(&mut store, "dir\\File", Disposition::Open).expect("it is there");
    assert_eq!(close(&mut store, first, true), Ok(()));
    assert!(!store.exists(RootId(0), "dir/File"));
    let read = ObjectOp::Read {
        open: second,
        offset: 1,
        length: 9,
        buffer: BytesMut::new(),
        may_pipe: false,
        verify_locks: false,
    };
    let Ok(ObjectReply::Read(data)) = store.perform(NOW, read) else { panic!("it is open") };
    assert_eq!(&data[..], b"ata");
    assert_eq!(close(&mut store, second, false), Ok(()));
    assert_eq!(close(&mut store, second, false), Err(NtStatus::INVALID_HANDLE));
    assert_eq!(store.nodes.len(), 2);
}

#[test]
fn a_slot_that_is_used_again_is_another_open() {
    let mut store = store();
    let first = open(&mut store, "dir\\File", Disposition::Open).expect("it is there");
    close(&mut store, first, false).expect("it is open");
    let second = open(&mut store, "dir\\File", Disposition::Open).expect("it is there");
    assert_eq!(first.index, second.index);
    assert_eq!(store.get(first).err(), Some(NtStatus::INVALID_HANDLE));
}

#[test]
fn a_directory_with_entries_is_not_removed() {
    let mut store = store();
    let directory = open(&mut store, "dir", Disposition::Open).expect("it is there");
    assert_eq!(close(&mut store, directory, true), Err(NtStatus::DIRECTORY_NOT_EMPTY));
    assert_eq!(store.open_count(), 0);
}

#[test]
fn a_rename_takes_the_opens_beneath_with_it() {
    let mut store = store();
    let directory = open(&mut store, "dir", Disposition::Open).expect("it is there");
    let file = open(&mut store, "dir\\File", Disposition::Open).expect("it is there");
    let target = ObjectPath::parse("other").expect("a good path");
    let rename = ObjectOp::Rename { open: directory, target: target.into(), replace: false };
    let renamed = store.perform(NOW, rename);
    assert!(matches!(renamed, Ok(ObjectReply::Renamed(path, None)) if path.as_str() == "other"));
    assert_eq!(close(&mut store, file, true), Ok(()));
    assert!(store.exists(RootId(0), "other"));
    assert!(!store.exists(RootId(0), "other/File"));
    let itself = ObjectPath::parse("other\\in").expect("a good path");
    let rename = ObjectOp::Rename { open: directory, target: itself.into(), replace: false };
    assert_eq!(store.perform(NOW, rename).err(), Some(NtStatus::INVALID_PARAMETER));
}

#[test]
fn a_stream_is_beside_the_data() {
    let mut store = store();
    let stream = open(&mut store, "dir\\File:s", Disposition::Create).expect("there is none");
    let data = Bytes::from_static(b"stream");
    let write = ObjectOp::Write {
        open: stream,
        offset: 0,
        data,
        piped: None,
        write_through: false,
        verify_locks: false,
    };
    assert!(matches!(store.perform(NOW, write), Ok(ObjectReply::Written(6))));
    assert_eq!(store.contents(RootId(0), "dir/File:S").as_deref(), Some(&b"stream"[..]));
    assert_eq!(store.contents(RootId(0), "dir/File").as_deref(), Some(&b"data"[..]));
    assert_eq!(close(&mut store, stream, true), Ok(()));
    assert!(store.exists(RootId(0), "dir/File"));
    assert_eq!(store.contents(RootId(0), "dir/File:s"), None);
}

#[test]
fn a_listing_goes_on_where_it_stopped() {
    let mut store = store();
    store.add_file(RootId(0), "dir/a", b"");
    let open = open(&mut store, "dir", Disposition::Open).expect("it is there");
    let mut names = |restart| {
        let (detail, entries_max) = (EntryDetail::Name, 3);
        let list = ObjectOp::ReadDirectory { open, restart, detail, entries_max };
        let Ok(ObjectReply::Entries(entries)) = store.perform(NOW, list) else {
            panic!("a listing")
        };
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    assert_eq!(names(false), [".", "..", "a"]);
    assert_eq!(names(false), ["File"]);
    assert!(names(false).is_empty());
    assert_eq!(names(true), [".", "..", "a"]);
}

#[test]
fn the_nth_operation_fails_and_a_failed_close_is_a_close() {
    let mut store = store();
    store.fail_nth_of(OpKind::Open, 1, NtStatus::DISK_FULL);
    store.fail_nth(2, NtStatus::UNSUCCESSFUL);
    let first = open(&mut store, "dir\\File", Disposition::Open).expect("the first goes well");
    let second = open(&mut store, "dir\\File", Disposition::Open);
    assert_eq!(second.err(), Some(NtStatus::DISK_FULL));
    assert_eq!(close(&mut store, first, false), Err(NtStatus::UNSUCCESSFUL));
    assert_eq!(store.open_count(), 0);
    assert_eq!(open(&mut store, "dir\\File", Disposition::Open).err(), None);
}
