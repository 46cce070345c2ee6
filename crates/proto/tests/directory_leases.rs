//! Leases of directories, and opens that a change of names asks to close: [MS-SMB2] 3.3.4.7,
//! [MS-FSA] 2.1.4.12.2, 2.1.5.15.11.

use std::time::Duration;

use dtyp::fscc::{FileEndOfFileInformation, FileInformationClass, FileRenameInformation};
use dtyp::{AccessMask, NtStatus};
use testkit::peer::Offer;
use testkit::{Create, Outcome, Peer, Response, World};
use trace::Reason;
use wire::create::{CreateDisposition, ShareAccess};
use wire::create_context::{LeaseContext, LeaseV2};
use wire::lease::{LeaseFlags, LeaseKey, LeaseState};
use wire::oplock_break::{LeaseBreak, LeaseBreakNotification};
use wire::query_info::InfoType;
use wire::set_info::SetInfoRequest;
use wire::{Command, Dialect, FileId, OplockLevel};

const RH: LeaseState = LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING);

const ALL: ShareAccess = ShareAccess::READ.union(ShareAccess::WRITE).union(ShareAccess::DELETE);

/// Key of the lease on the directory.
const DIRECTORY: u8 = 1;

fn world() -> World {
    let world = World::new();
    world.add_directory("data", "folder");
    world.add_directory("data", "other");
    world
}

/// Another client with each number.
fn client(world: &World, number: u8) -> Peer {
    let mut peer = world.connect();
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    peer.negotiate_with(&Offer { client_guid: dtyp::Guid([number; 16]), ..offer }).ok();
    peer.login_alice();
    peer.tree("data");
    peer
}

fn leased(create: Create, key: u8, parent: Option<u8>) -> Create {
    let context = LeaseContext {
        lease_key: LeaseKey([key; 16]),
        lease_state: RH,
        lease_flags: match parent {
            Some(_) => LeaseFlags::PARENT_LEASE_KEY_SET,
            None => LeaseFlags::empty(),
        },
        v2: Some(LeaseV2 { parent_lease_key: LeaseKey([parent.unwrap_or(0); 16]), epoch: 0 }),
    };
    create.share(ALL).oplock(OplockLevel::LEASE).context(&context)
}

/// Opens a directory with a lease, and takes it back if it was lost.
fn watch(peer: &mut Peer, name: &str, key: u8) -> FileId {
    peer.create(&leased(Create::directory(name), key, None)).file_id
}

/// Keys of the leases that were broken, each to nothing.
fn broken(peer: &mut Peer) -> Vec<u8> {
    let key = |response: &Response| {
        let body: LeaseBreakNotification = response.body();
        assert_eq!(body.new_lease_state, LeaseState::empty());
        body.lease_key.0[0]
    };
    peer.receive().iter().map(key).collect()
}

fn set(peer: &mut Peer, file_id: FileId, class: FileInformationClass, buffer: &[u8]) -> u64 {
    let (info_type, file_info_class) = (InfoType::FILE, class.0);
    let rest = SetInfoRequest::default();
    let body = SetInfoRequest { info_type, file_info_class, file_id, buffer, ..rest };
    let request = peer.request(Command::SET_INFO, &body);
    peer.send(request)
}

fn rename(peer: &mut Peer, file_id: FileId, name: &str, replaces: bool) -> u64 {
    name_by(peer, FileInformationClass::RENAME, file_id, name, replaces)
}

fn name_by(
    peer: &mut Peer,
    class: FileInformationClass,
    file_id: FileId,
    name: &str,
    replaces: bool,
) -> u64 {
    let mut buffer = Vec::new();
    let (flags, file_name) = (u32::from(replaces), name.to_owned());
    FileRenameInformation { flags, root_directory: 0, file_name }.encode(&mut buffer);
    set(peer, file_id, class, &buffer)
}

/// The only response, which is final.
#[track_caller]
fn answer(peer: &mut Peer) -> Outcome {
    let received = peer.receive();
    assert_eq!(received.len(), 1, "{received:?}");
    received[0].outcome()
}

fn acknowledge(peer: &mut Peer, key: u8, lease_state: LeaseState) {
    let body = LeaseBreak { lease_key: LeaseKey([key; 16]), lease_state };
    let request = peer.request(Command::OPLOCK_BREAK, &body);
    peer.send(request);
}

/// Takes the responses to commands out, and leaves the breaks.
fn without_responses(peer: &mut Peer) -> Vec<LeaseBreakNotification> {
    let received = peer.receive();
    let is_break = |it: &&Response| it.header.message_id == u64::MAX;
    received.iter().filter(is_break).map(Response::body).collect()
}

#[test]
fn a_change_that_names_the_key_of_the_parents_lease_does_not_break_it() {
    for (number, parent, want) in [
        (1, Some(DIRECTORY), vec![]),
        (2, Some(DIRECTORY), vec![]),
        (2, Some(9), vec![DIRECTORY]),
        (2, None, vec![DIRECTORY]),
    ] {
        let world = world();
        world.add_file("data", "folder/file", b"content");
        let mut holder = client(&world, 1);
        watch(&mut holder, "folder", DIRECTORY);
        let mut changer = client(&world, number);
        let file_id = changer.create(&leased(Create::open("folder\\file"), 5, parent)).file_id;
        let mut size = Vec::new();
        FileEndOfFileInformation { end_of_file: 1 }.encode(&mut size);
        set(&mut changer, file_id, FileInformationClass::END_OF_FILE, &size);
        assert_eq!(answer(&mut changer), NtStatus::SUCCESS);
        assert_eq!(broken(&mut holder), want, "{number} {parent:?}");
    }
}

#[test]
fn overwriting_a_file_changes_the_listing() {
    let world = world();
    world.add_file("data", "folder/file", b"content");
    let mut holder = client(&world, 1);
    watch(&mut holder, "folder", DIRECTORY);
    let overwrite = Create::with_disposition("folder\\file", CreateDisposition::OVERWRITE);
    client(&world, 2).create(&overwrite);
    assert_eq!(broken(&mut holder), [DIRECTORY]);
}

#[test]
fn a_hard_link_changes_the_listing_of_its_own_directory_alone() {
    let world = world();
    world.add_file("data", "folder/file", b"content");
    let mut holder = client(&world, 1);
    watch(&mut holder, "folder", DIRECTORY);
    watch(&mut holder, "other", 2);
    let mut linker = client(&world, 2);
    let file_id = linker.create(&Create::open("folder\\file")).file_id;
    name_by(&mut linker, FileInformationClass::LINK, file_id, "other\\link", false);
    assert_eq!(answer(&mut linker), NtStatus::SUCCESS);
    assert_eq!(broken(&mut holder), [2]);
}

#[test]
fn a_deletion_is_known_to_a_client_that_both_set_it_and_closed_last() {
    for (is_set_by_last, want) in [(true, vec![2]), (false, vec![1, 2])] {
        let world = world();
        world.add_file("data", "folder/file", b"content");
        let mut peer = client(&world, 1);
        watch(&mut peer, "folder", 1);
        watch(&mut peer, "folder", 2);
        let last = peer.create(&leased(Create::open("folder\\file"), 5, Some(1))).file_id;
        let other = peer.create(&leased(Create::open("folder\\file"), 6, Some(2))).file_id;
        let by = if is_set_by_last { last } else { other };
        set(&mut peer, by, FileInformationClass::DISPOSITION, &[1]);
        // The other lease of the file gives its handle back first.
        let notice = peer.receive();
        let notice: LeaseBreakNotification = notice[0].body();
        acknowledge(&mut peer, notice.lease_key.0[0], notice.new_lease_state);
        assert_eq!(peer.receive().len(), 2, "to the acknowledgment and to the SET_INFO");
        peer.close(other).ok();
        assert_eq!(broken(&mut peer), [0_u8; 0]);
        let close = peer.close_request(last);
        peer.send(close);
        let mut got: Vec<u8> =
            without_responses(&mut peer).iter().map(|notice| notice.lease_key.0[0]).collect();
        got.sort_unstable();
        assert!(!world.exists("data", "folder/file"));
        assert_eq!(got, want);
    }
}

#[test]
fn opens_beneath_a_directory_are_asked_to_close_one_by_one_before_it_is_renamed() {
    for closes in [true, false] {
        let world = world();
        for name in ["folder/one", "folder/two"] {
            world.add_file("data", name, b"content");
        }
        let mut holder = client(&world, 1);
        let one = holder.create(&leased(Create::open("folder\\one"), 5, None)).file_id;
        let two = holder.create(&leased(Create::open("folder\\two"), 6, None)).file_id;
        let mut renamer = client(&world, 2);
        let directory = renamer.create(&Create::directory("folder")).file_id;
        rename(&mut renamer, directory, "renamed", false);
        for count in 1..=2 {
            let notice = without_responses(&mut holder);
            if !closes && count == 2 {
                assert!(notice.is_empty(), "the first one stays: {notice:?}");
                continue;
            }
            assert_eq!(notice.len(), 1, "one after the other: {notice:?}");
            // Windows sends no interim response to a SET_INFO.
            assert!(renamer.receive().is_empty());
            assert_eq!(notice[0].new_lease_state, LeaseState::READ_CACHING);
            let key = notice[0].lease_key.0[0];
            if closes {
                let close = holder.close_request(if key == 5 { one } else { two });
                holder.send(close);
            } else {
                acknowledge(&mut holder, key, notice[0].new_lease_state);
            }
        }
        let want: Outcome =
            if closes { NtStatus::SUCCESS.into() } else { Reason::OpenBeneath.into() };
        let got = answer(&mut renamer);
        assert_eq!(got, want);
    }
}

#[test]
fn an_open_that_comes_while_others_close_refuses_the_rename() {
    let world = world();
    world.add_file("data", "folder/one", b"content");
    let mut holder = client(&world, 1);
    let one = holder.create(&leased(Create::open("folder\\one"), 5, None)).file_id;
    let mut renamer = client(&world, 2);
    let directory = renamer.create(&Create::directory("folder")).file_id;
    rename(&mut renamer, directory, "renamed", false);
    assert_eq!(holder.receive().len(), 1);
    holder.create(&leased(Create::open_if("folder\\two"), 6, None));
    holder.close(one).ok();
    assert_eq!(answer(&mut renamer), Reason::OpenBeneath);
}

#[test]
fn an_open_that_comes_while_others_close_keeps_nobody_from_being_asked() {
    let world = world();
    let mut holder = client(&world, 1);
    let mut opens = Vec::new();
    for (name, key) in [("folder\\one", 5), ("folder\\two", 6)] {
        world.add_file("data", &name.replace('\\', "/"), b"content");
        opens.push((key, holder.create(&leased(Create::open(name), key, None)).file_id));
    }
    let mut renamer = client(&world, 2);
    let directory = renamer.create(&Create::directory("folder")).file_id;
    rename(&mut renamer, directory, "renamed", false);
    let keys = |notices: Vec<LeaseBreakNotification>| -> Vec<u8> {
        notices.iter().map(|notice| notice.lease_key.0[0]).collect()
    };
    let mut asked = keys(without_responses(&mut holder));
    holder.create(&leased(Create::open_if("folder\\three"), 7, None));
    for count in 1..=2 {
        let &[key] = &asked[..] else { panic!("one after the other: {asked:?}") };
        assert!(renamer.receive().is_empty(), "{count}");
        let (_, open) = opens.iter().find(|(it, _)| *it == key).expect("it is one of both");
        let close = holder.close_request(*open);
        holder.send(close);
        asked = keys(without_responses(&mut holder));
    }
    assert!(asked.is_empty(), "the third open is not asked: {asked:?}");
    assert_eq!(answer(&mut renamer), Reason::OpenBeneath);
}

#[test]
fn the_holder_of_a_file_that_a_rename_replaces_is_asked_to_close() {
    for closes in [true, false] {
        let world = world();
        for name in ["file", "target"] {
            world.add_file("data", name, b"content");
        }
        let mut holder = client(&world, 1);
        let target = holder.create(&leased(Create::open("target"), 5, None)).file_id;
        let mut renamer = client(&world, 2);
        let file_id = renamer.create(&Create::open("file")).file_id;
        rename(&mut renamer, file_id, "target", true);
        assert_eq!(holder.receive().len(), 1);
        match closes {
            true => drop(holder.close(target).ok()),
            false => acknowledge(&mut holder, 5, LeaseState::READ_CACHING),
        }
        let want: Outcome =
            if closes { NtStatus::SUCCESS.into() } else { Reason::TargetOpen.into() };
        let got = answer(&mut renamer);
        assert_eq!(got, want);
    }
}

/// Opens a file for its attributes alone, which its users need no right to the data for.
fn with_attributes(peer: &mut Peer, name: &str, key: u8) -> FileId {
    let attributes = AccessMask::READ_ATTRIBUTES | AccessMask::READ_CONTROL;
    peer.create(&leased(Create::open(name).access(attributes), key, None)).file_id
}

#[test]
fn a_rename_and_a_deletion_wait_for_no_lease_of_attributes() {
    for deletes in [false, true] {
        let world = world();
        world.add_file("data", "file", b"content");
        let mut holder = client(&world, 1);
        with_attributes(&mut holder, "file", 5);
        let mut other = client(&world, 2);
        let deleting = AccessMask::DELETE | AccessMask::READ_ATTRIBUTES;
        let file_id = other.create(&Create::open("file").access(deleting).share(ALL)).file_id;
        match deletes {
            false => rename(&mut other, file_id, "renamed", false),
            true => set(&mut other, file_id, FileInformationClass::DISPOSITION, &[1]),
        };
        assert_eq!(answer(&mut other), NtStatus::SUCCESS);
        assert_eq!(holder.receive().len(), 1, "it is told");
    }
}

#[test]
fn a_rename_waits_a_second_at_most_for_leases_of_attributes_that_refuse_it() {
    for closes in [true, false] {
        let world = world();
        world.add_file("data", "folder/file", b"content");
        let mut holder = client(&world, 1);
        let held = with_attributes(&mut holder, "folder\\file", 5);
        let mut renamer = client(&world, 2);
        let directory = renamer.create(&Create::directory("folder")).file_id;
        rename(&mut renamer, directory, "renamed", false);
        assert_eq!(holder.receive().len(), 1);
        assert!(renamer.receive().is_empty(), "an honest client closes");
        match closes {
            true => drop(holder.close(held).ok()),
            // With the margin of a deadline.
            false => world.advance(Duration::from_secs(2)),
        }
        let want: Outcome =
            if closes { NtStatus::SUCCESS.into() } else { Reason::OpenBeneath.into() };
        assert_eq!(answer(&mut renamer), want);
    }
}

#[test]
fn many_holders_beneath_delay_a_rename_no_longer_than_one() {
    let world = world();
    let mut holder = client(&world, 1);
    let mut held = Vec::new();
    for key in 1..=60 {
        world.add_file("data", &format!("folder/{key}"), b"content");
        held.push(with_attributes(&mut holder, &format!("folder\\{key}"), key));
    }
    let mut renamer = client(&world, 2);
    let directory = renamer.create(&Create::directory("folder")).file_id;
    rename(&mut renamer, directory, "renamed", false);
    let mut seconds = 0;
    loop {
        let notices = without_responses(&mut holder);
        let [notice] = &notices[..] else { break };
        world.advance(Duration::from_secs(1));
        seconds += 1;
        let close = holder.close_request(held[usize::from(notice.lease_key.0[0]) - 1]);
        holder.send(close);
    }
    assert!((35..40).contains(&seconds), "{seconds}");
    assert_eq!(answer(&mut renamer), Reason::OpenBeneath);
}

#[test]
fn an_open_of_the_target_that_comes_while_others_close_refuses_the_new_name() {
    for class in [FileInformationClass::RENAME, FileInformationClass::LINK] {
        let world = world();
        for name in ["file", "target"] {
            world.add_file("data", name, b"content");
        }
        let mut holder = client(&world, 1);
        let held = with_attributes(&mut holder, "target", 5);
        let mut renamer = client(&world, 2);
        let file_id = renamer.create(&Create::open("file")).file_id;
        name_by(&mut renamer, class, file_id, "target", true);
        assert_eq!(holder.receive().len(), 1);
        with_attributes(&mut holder, "target", 6);
        holder.close(held).ok();
        assert_eq!(answer(&mut renamer), Reason::TargetOpen);
        assert!(holder.receive().is_empty(), "it is not asked again");
    }
}
