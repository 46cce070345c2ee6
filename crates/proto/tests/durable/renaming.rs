//! A directory is renamed while the client of an open below it is away: [MS-FSA] 2.1.5.15.11.

use dtyp::fscc::FileRenameInformation;
use trace::Reason;

use super::*;

fn world() -> World {
    let world = World::new();
    world.add_share("ca", |share| share.is_ca = true);
    for share in ["data", "ca"] {
        world.add_directory(share, "folder");
    }
    world
}

/// Opens or creates a file in the directory.
fn file() -> Create {
    Create::open_if("folder\\file").oplock(OplockLevel::BATCH).share(ShareAccess::empty())
}

/// Leaves a file open. Returns the id for the client's reconnect.
fn left_behind(world: &World, share: &str, create: &Create) -> FileId {
    let mut first = client_in(world, 1, share);
    let file_id = first.create(create).file_id;
    first.disconnect();
    file_id
}

fn taken_up(world: &World, share: &str, file_id: FileId, flags: DurableFlags) -> Outcome {
    let context = DurableHandleReconnectV2 { file_id, create_guid: GUID, flags };
    client_in(world, 1, share).try_create(&file().context(&context)).outcome()
}

pub(super) fn set(
    peer: &mut Peer,
    file_id: FileId,
    class: FileInformationClass,
    buffer: &[u8],
) -> Outcome {
    let (info_type, file_info_class) = (InfoType::FILE, class.0);
    let rest = SetInfoRequest::default();
    let body = SetInfoRequest { info_type, file_info_class, file_id, buffer, ..rest };
    let request = peer.request(Command::SET_INFO, &body);
    peer.call(request).outcome()
}

/// Renames the directory by another client. Returns the status.
fn rename(world: &World, share: &str) -> Outcome {
    let mut peer = client_in(world, 2, share);
    let create = Create::directory("folder").access(AccessMask::DELETE);
    let file_id = peer.create(&create).file_id;
    let mut buffer = Vec::new();
    let file_name = "renamed".to_owned();
    FileRenameInformation { flags: 0, root_directory: 0, file_name }.encode(&mut buffer);
    set(&mut peer, file_id, FileInformationClass::RENAME, &buffer)
}

#[test]
fn a_persistent_open_keeps_the_name_of_its_directory() {
    let world = world();
    let persistent = DurableFlags::PERSISTENT;
    let file_id = left_behind(&world, "ca", &file().context(&v2(persistent, GUID)));
    assert_eq!(rename(&world, "ca"), Reason::OpenBeneath);
    assert_eq!(taken_up(&world, "ca", file_id, persistent), NtStatus::SUCCESS);
}

#[test]
fn a_durable_open_does_not_prevent_the_rename_of_its_directory() {
    let world = world();
    let none = DurableFlags::empty();
    let file_id = left_behind(&world, "data", &file().context(&v2(none, GUID)));
    assert_eq!(rename(&world, "data"), NtStatus::SUCCESS);
    world.add_file("data", "folder\\file", b"another");
    assert_eq!(taken_up(&world, "data", file_id, none), Reason::NoSuchDurableOpen);
}

#[test]
fn a_file_that_is_deleted_on_close_is_deleted_at_its_old_path() {
    let durable = file().context(&v2(DurableFlags::empty(), GUID));
    for is_marked in [false, true] {
        let world = world();
        let create = if is_marked { durable.clone() } else { durable.clone().delete_on_close() };
        let mut first = client_in(&world, 1, "data");
        let file_id = first.create(&create).file_id;
        if is_marked {
            let marked = set(&mut first, file_id, FileInformationClass::DISPOSITION, &[1]);
            assert_eq!(marked, NtStatus::SUCCESS);
        }
        first.disconnect();
        assert_eq!(rename(&world, "data"), Reason::OpenBeneath);
        world.advance(Duration::from_secs(30));
        world.scavenge();
        assert!(!world.exists("data", "folder\\file"));
        assert_eq!(rename(&world, "data"), NtStatus::SUCCESS);
    }
}

/// A share may lead each user to another folder.
#[test]
fn opens_in_another_folder_of_the_share_do_not_prevent_a_rename() {
    let world = world();
    let mut first = client_in(&world, 1, "data");
    first.create(&Create::open_if("folder\\file"));
    world.move_share("data");
    world.add_directory("data", "folder");
    assert_eq!(rename(&world, "data"), NtStatus::SUCCESS);
}
