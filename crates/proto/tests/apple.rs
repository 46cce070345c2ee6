//! The extensions of Apple's clients: the create context `AAPL` and its effect on listings.

use arbitration::{FileRecord, FileRecords};
use dtyp::ace::{Ace, AceFlags};
use dtyp::acl::Acl;
use dtyp::fscc::FileInformationClass;
use dtyp::security_descriptor::{Control, SecurityDescriptor};
use dtyp::security_information::SecurityInformation;
use dtyp::sid::Sid;
use dtyp::{AccessMask, NtStatus, utf16};
use proto::share::AppleShare;
use testkit::accounts::BOB;
use testkit::{Create, Outcome, Peer, World};
use trace::Reason;
use wire::create::CreateResponse;
use wire::create_context::{
    AppleCapabilities, AppleQuery, AppleRequest, AppleResponse, AppleVolumeCapabilities,
    CreateContextName, QueryOnDiskIdRequest, QueryOnDiskIdResponse,
};
use wire::ioctl::{
    CopyChunkCopy, CopyChunkResponse, FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse,
    RequestResumeKeyResponse,
};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest, QueryInfoResponse};
use wire::set_info::SetInfoRequest;
use wire::{Command, Dialect, FileId};

const EVERYTHING: AppleRequest = AppleRequest {
    query: AppleQuery::all(),
    client_capabilities: AppleCapabilities::READ_DIRECTORY_ATTRIBUTES,
};

/// Makes a world with a share for Apple's clients, beside `data` without their extensions.
fn world() -> World {
    let world = World::new();
    world.add_share("mac", |share| {
        let model = "MacSamba".to_owned();
        share.apple = Some(AppleShare {
            model,
            full_sync: true,
            hides_file_ids: true,
            ignores_empty_lists: true,
            posix_opens: true,
            copies_files: true,
            nfs_entries: true,
        });
    });
    world
}

fn connected(world: &World, share: &str) -> Peer {
    let mut peer = Peer::ready(world, Dialect::SMB_3_1_1);
    peer.tree(share);
    peer
}

fn asked(peer: &mut Peer, request: &AppleRequest) -> Option<AppleResponse> {
    let root = Create::directory("").context(request);
    let response = peer.try_create(&root).ok();
    let body: CreateResponse<'_> = response.body();
    let found = body.create_contexts.find().expect("a good answer");
    peer.close(body.file_id);
    found
}

#[test]
fn a_query_is_answered_with_the_requested_fields() {
    let world = world();
    let mut peer = connected(&world, "mac");
    let server = AppleCapabilities::UNIX_BASED
        | AppleCapabilities::READ_DIRECTORY_ATTRIBUTES
        | AppleCapabilities::COPY_FILE
        | AppleCapabilities::NFS_ACE;
    let whole = AppleResponse {
        server_capabilities: Some(server),
        volume_capabilities: Some(AppleVolumeCapabilities::FULL_SYNC),
        model: Some("MacSamba".to_owned()),
    };
    assert_eq!(asked(&mut peer, &EVERYTHING), Some(whole.clone()));
    let model = AppleRequest { query: AppleQuery::MODEL, ..EVERYTHING };
    let want = AppleResponse { model: whole.model, ..AppleResponse::default() };
    assert_eq!(asked(&mut peer, &model), Some(want));
    let able_to_nothing = AppleRequest {
        query: AppleQuery::SERVER_CAPABILITIES,
        client_capabilities: AppleCapabilities::empty(),
    };
    let got = asked(&mut peer, &able_to_nothing).expect("answered");
    let want = server.difference(AppleCapabilities::READ_DIRECTORY_ATTRIBUTES);
    assert_eq!(got.server_capabilities, Some(want));
}

#[test]
fn other_shares_do_not_answer() {
    let mut peer = connected(&world(), "data");
    assert_eq!(asked(&mut peer, &EVERYTHING), None);
}

/// Returns the part of FileIdBothDirectoryInformation behind the name's length, of the entry called
/// `name`.
fn listed(peer: &mut Peer, name: &str, class: FileInformationClass) -> Vec<u8> {
    let directory = peer.create(&Create::directory("")).file_id;
    let pattern = utf16::to_bytes(name);
    let body = QueryDirectoryRequest {
        file_information_class: class,
        flags: QueryDirectoryFlags::empty(),
        file_index: 0,
        file_id: directory,
        output_buffer_length: 4_096,
        file_name: &pattern,
    };
    let request = peer.request(Command::QUERY_DIRECTORY, &body);
    let response = peer.call(request).ok();
    let QueryDirectoryResponse { output_buffer } = response.body();
    let entry = output_buffer[64..].to_vec();
    peer.close(directory);
    entry
}

/// Another user may share the worker: on a terminal server, or by naming the client's ClientGuid.
#[test]
fn a_client_of_apple_changes_nothing_for_the_other_sessions_of_its_worker() {
    let world = world();
    let mut other = connected(&world, "mac");
    add_file(&mut other);
    let class = FileInformationClass::ID_BOTH_DIRECTORY;
    let usual = listed(&mut other, "f", class);
    let mut mac = world.connect();
    mac.negotiate([Dialect::SMB_3_1_1]);
    mac.login(BOB.0, BOB.1);
    mac.tree("mac");
    asked(&mut mac, &EVERYTHING).expect("the share has Apple's extensions");
    assert_ne!(listed(&mut mac, "f", class), usual);
    assert_eq!(listed(&mut other, "f", class), usual);
    // Nor is a session of the same connection an Apple one after that.
    mac.logoff();
    mac.session_id = 0;
    mac.login(BOB.0, BOB.1);
    mac.tree("mac");
    assert_eq!(listed(&mut mac, "f", class), usual);
}

/// Makes a file with the Finder's information and a resource fork.
fn add_file(peer: &mut Peer) {
    let mut info = b"AFP\0\0\0\x01\0\0\0\0\0\x80\0\0\0TEXTttxt\x40\x01".to_vec();
    info.extend([7; 22]);
    info.extend([0; 12]);
    for (stream, data) in [("f:AFP_AfpInfo", &info[..]), ("f:AFP_Resource", &[1; 300])] {
        let file = peer.create(&Create::new(stream)).file_id;
        peer.write(file, 0, data).ok();
        peer.close(file);
    }
}

#[test]
fn listings_have_the_fields_of_the_finder_once_negotiated() {
    let world = world();
    let mut peer = connected(&world, "mac");
    add_file(&mut peer);
    let class = FileInformationClass::ID_BOTH_DIRECTORY;
    let before = listed(&mut peer, "f", class);
    assert_eq!(before[4..30], [0; 26], "neither rights nor a short name");

    asked(&mut peer, &EVERYTHING);
    let entry = listed(&mut peer, "f", class);
    assert_eq!(entry[..4], AccessMask::FILE_ALL.bits().to_le_bytes());
    assert_eq!(entry[4..6], [24, 0]);
    assert_eq!(entry[6..14], 300_u64.to_le_bytes());
    assert_eq!(entry[14..26], *b"TEXTttxt\x40\x01\x07\x07");
    assert_eq!(entry[30..32], 0o100_644_u16.to_le_bytes());
    assert_eq!(entry[entry.len() - 2..], *b"f\0");
    // Another class has its usual contents.
    let other = listed(&mut peer, "f", FileInformationClass::BOTH_DIRECTORY);
    assert_eq!(other[4..30], [0; 26]);
}

#[test]
fn a_client_that_did_not_ask_for_it_gets_the_usual_listings() {
    let world = world();
    let mut peer = connected(&world, "mac");
    add_file(&mut peer);
    let no_listings =
        AppleRequest { client_capabilities: AppleCapabilities::COPY_FILE, ..EVERYTHING };
    asked(&mut peer, &no_listings);
    let entry = listed(&mut peer, "f", FileInformationClass::ID_BOTH_DIRECTORY);
    assert_eq!(entry[4..30], [0; 26]);
}

fn on_disk_id(peer: &mut Peer) -> u64 {
    let response = peer.try_create(&Create::open_if("f").context(&QueryOnDiskIdRequest)).ok();
    let body: CreateResponse<'_> = response.body();
    let id: Option<QueryOnDiskIdResponse> = body.create_contexts.find().expect("well-formed");
    peer.close(body.file_id);
    id.expect("it was asked for").disk_file_id
}

/// Information on the file, of a type and a class, or a part of its descriptor.
fn queried(peer: &mut Peer, info_type: InfoType, class: u8, part: u32) -> Vec<u8> {
    let file_id = peer.create(&Create::open_if("f").access(AccessMask::FILE_ALL)).file_id;
    let body = QueryInfoRequest {
        info_type,
        file_info_class: class,
        output_buffer_length: 4_096,
        additional_information: part,
        flags: QueryInfoFlags::empty(),
        file_id,
        input_buffer: &[],
    };
    let request = peer.request(Command::QUERY_INFO, &body);
    let response = peer.call(request).ok();
    let QueryInfoResponse { output_buffer } = response.body();
    let information = output_buffer.to_vec();
    peer.close(file_id);
    information
}

fn internal_id(peer: &mut Peer) -> u64 {
    let id = queried(peer, InfoType::FILE, FileInformationClass::INTERNAL.0, 0);
    u64::from_le_bytes(id.try_into().expect("8 bytes"))
}

/// The ids of a file: in a listing, of its CREATE and of a query.
fn ids(peer: &mut Peer) -> [u64; 3] {
    let entry = listed(peer, "f", FileInformationClass::ID_BOTH_DIRECTORY);
    let in_listing = u64::from_le_bytes(entry[32..40].try_into().expect("8 bytes"));
    [in_listing, on_disk_id(peer), internal_id(peer)]
}

#[test]
fn file_ids_are_zero_once_the_extensions_are_negotiated() {
    let world = world();
    let mut peer = connected(&world, "mac");
    add_file(&mut peer);
    assert!(ids(&mut peer).iter().all(|id| *id != 0));
    asked(&mut peer, &EVERYTHING);
    assert_eq!(ids(&mut peer), [0; 3]);
    let mut other = connected(&world, "data");
    add_file(&mut other);
    asked(&mut other, &EVERYTHING);
    assert!(ids(&mut other).iter().all(|id| *id != 0), "without Apple's extensions");
}

fn set_list(peer: &mut Peer, list: Acl) {
    let file_id = peer.create(&Create::open_if("f").access(AccessMask::FILE_ALL)).file_id;
    let control = Control::SELF_RELATIVE | Control::DACL_PRESENT;
    let descriptor =
        SecurityDescriptor { control, dacl: Some(list), ..SecurityDescriptor::default() };
    let bytes = descriptor.to_bytes();
    let body = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        additional_information: SecurityInformation::DACL.bits(),
        file_id,
        buffer: &bytes,
    };
    let request = peer.request(Command::SET_INFO, &body);
    peer.call(request).ok();
    peer.close(file_id);
}

fn list_length(peer: &mut Peer) -> usize {
    let bytes = queried(peer, InfoType::SECURITY, 0, SecurityInformation::DACL.bits());
    let descriptor = SecurityDescriptor::decode(&bytes).expect("well-formed");
    descriptor.dacl.expect("it was asked for").aces.len()
}

#[test]
fn a_list_without_entries_is_ignored_once_the_extensions_are_negotiated() {
    let world = world();
    let mut peer = connected(&world, "mac");
    add_file(&mut peer);
    let everyone = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty());
    set_list(&mut peer, Acl::new(vec![everyone.clone()]));
    assert_eq!(list_length(&mut peer), 1);
    asked(&mut peer, &EVERYTHING);
    set_list(&mut peer, Acl::new(Vec::new()));
    assert_eq!(list_length(&mut peer), 1, "ignored");
    set_list(&mut peer, Acl::new(vec![everyone.clone(), everyone]));
    assert_eq!(list_length(&mut peer), 2, "a list with entries is set");
}

fn rename(peer: &mut Peer, directory: FileId, target: &str) -> Outcome {
    let mut buffer = vec![0; 16];
    let length = u32::try_from(2 * target.len()).expect("short");
    buffer.extend(length.to_le_bytes());
    buffer.extend(utf16::to_bytes(target));
    let body = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::RENAME.0,
        additional_information: 0,
        file_id: directory,
        buffer: &buffer,
    };
    let request = peer.request(Command::SET_INFO, &body);
    peer.call(request).outcome()
}

fn set_deletion(peer: &mut Peer, file_id: FileId) {
    let body = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::DISPOSITION.0,
        additional_information: 0,
        file_id,
        buffer: &[1],
    };
    let request = peer.request(Command::SET_INFO, &body);
    peer.call(request).ok();
}

/// Two clients of the share for Apple's, with a file `folder\\f` that the second has open, since
/// before the extensions were negotiated or since then.
fn two_clients(world: &World, is_apple: bool) -> ([Peer; 2], FileId) {
    let mut peers = [connected(world, "mac"), connected(world, "mac")];
    if is_apple {
        asked(&mut peers[1], &EVERYTHING);
    }
    world.add_file("mac", "folder/f", b"content");
    let file = peers[1].create(&Create::open_if("folder\\f").access(AccessMask::FILE_ALL)).file_id;
    asked(&mut peers[0], &EVERYTHING);
    (peers, file)
}

#[test]
fn a_directory_is_renamed_under_the_opens_of_apple_clients() {
    for (is_apple, want) in [(true, Outcome::SUCCESS), (false, Reason::OpenBeneath.into())] {
        let world = world();
        let ([mut renamer, mut holder], file) = two_clients(&world, is_apple);
        let create = Create::directory("folder").access(AccessMask::FILE_ALL);
        let directory = renamer.create(&create).file_id;
        assert_eq!(rename(&mut renamer, directory, "renamed"), want);
        assert_eq!(holder.read(file, 0, 10), b"content");
        set_deletion(&mut holder, file);
        holder.close(file);
        let name = if is_apple { "renamed\\f" } else { "folder\\f" };
        let gone = renamer.try_create(&Create::open(name)).outcome();
        assert_eq!(gone, NtStatus::OBJECT_NAME_NOT_FOUND, "deleted by its present name");
    }
}

/// Its path would stay as it is, and a deletion would find nothing there.
#[test]
fn a_directory_keeps_its_name_above_an_open_of_an_apple_client_by_another_name_of_it() {
    let world = world();
    let ([mut renamer, _holder], _) = two_clients(&world, true);
    // As through a share of the same folder that shows the directory by another name.
    let is_it = |record: &FileRecord| record.opens.iter().any(|it| it.facts.path == "folder\\f");
    let (key, _) = world.files().into_iter().find(|(_, it)| is_it(it)).expect("it is open");
    let mut rename_in_record = |record: &mut FileRecord| {
        let facts = &mut record.opens[0].facts;
        facts.path = "SHORT~1\\f".to_owned();
        facts.path_on_disk = Some("folder/f".to_owned());
        true
    };
    world.file_table().change(key, &mut rename_in_record).expect("memory has room");
    let create = Create::directory("folder").access(AccessMask::FILE_ALL);
    let directory = renamer.create(&create).file_id;
    assert_eq!(rename(&mut renamer, directory, "renamed"), Reason::OpenBeneath);
}

/// The attack: a client that may only look the file up moves a directory above it before the last
/// close, and back afterwards.
#[test]
fn a_directory_above_a_file_that_is_deleted_through_a_nested_share_keeps_its_name() {
    let world = world();
    world.add_file("mac", "sub/folder/f", b"content");
    world.add_share_beneath("inner", "mac", "sub");
    let mut looker = connected(&world, "mac");
    asked(&mut looker, &EVERYTHING);
    let looks = Create::open("sub\\folder\\f").access(AccessMask::READ_ATTRIBUTES);
    let file = looker.create(&looks).file_id;
    let mut deleter = connected(&world, "inner");
    let own = deleter.create(&Create::open("folder\\f").access(AccessMask::FILE_ALL)).file_id;
    set_deletion(&mut deleter, own);
    deleter.close(own);
    let create = Create::directory("sub\\folder").access(AccessMask::FILE_ALL);
    let directory = looker.create(&create).file_id;
    assert_eq!(rename(&mut looker, directory, "sub\\moved"), Reason::OpenBeneath);
    looker.close(file);
    let gone = looker.try_create(&looks).outcome();
    assert_eq!(gone, NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(rename(&mut looker, directory, "sub\\moved"), Outcome::SUCCESS);
}

#[test]
fn a_file_is_deleted_under_the_opens_of_apple_clients() {
    let gone = Outcome::from(NtStatus::OBJECT_NAME_NOT_FOUND);
    for (is_apple, want) in [(true, gone), (false, Reason::DeletePending.into())] {
        let world = world();
        let ([mut deleter, mut holder], file) = two_clients(&world, is_apple);
        let path = Create::open("folder\\f");
        let own =
            deleter.create(&Create::open_if("folder\\f").access(AccessMask::FILE_ALL)).file_id;
        set_deletion(&mut deleter, own);
        deleter.close(own);
        assert_eq!(deleter.try_create(&path).outcome(), want);
        assert_eq!(holder.read(file, 0, 10), b"content");
        holder.close(file);
        assert_eq!(deleter.try_create(&path).outcome(), gone);
    }
}

#[test]
fn the_deletion_of_a_stream_leaves_its_file() {
    let world = world();
    let mut peer = connected(&world, "mac");
    asked(&mut peer, &EVERYTHING);
    add_file(&mut peer);
    let stream = peer.create(&Create::open_if("f:foo").access(AccessMask::FILE_ALL)).file_id;
    set_deletion(&mut peer, stream);
    peer.close(stream).ok();
    assert!(world.exists("mac", "f"));
}

/// Copies `f` to `g` without naming a range. Returns the number of bytes that were copied.
fn copy_of_nothing(peer: &mut Peer) -> u32 {
    let [source, target] = ["f", "g"]
        .map(|name| peer.create(&Create::open_if(name).access(AccessMask::FILE_ALL)).file_id);
    let mut fsctl = |ctl_code, file_id, input: &[u8]| {
        let flags = IoctlFlags::IS_FSCTL;
        let max_output_response = 64;
        let rest = IoctlRequest::default();
        let body = IoctlRequest { ctl_code, file_id, input, max_output_response, flags, ..rest };
        let request = peer.request(Command::IOCTL, &body);
        let response = peer.call(request).ok();
        response.body::<IoctlResponse<'_>>().output.to_vec()
    };
    let key = fsctl(FsctlCode::SRV_REQUEST_RESUME_KEY, source, &[]);
    let key = RequestResumeKeyResponse::decode(&key).expect("it is whole").resume_key;
    let mut input = Vec::new();
    CopyChunkCopy::encode(key, &[], &mut input);
    let copied = fsctl(FsctlCode::SRV_COPYCHUNK, target, &input);
    let copied = CopyChunkResponse::decode(&copied).expect("it is whole");
    assert_eq!((copied.chunks_written, copied.chunk_bytes_written), (0, 0));
    for file_id in [source, target] {
        peer.close(file_id);
    }
    copied.total_bytes_written
}

#[test]
fn a_copy_without_ranges_is_one_of_the_whole_file_once_negotiated() {
    let world = world();
    let mut peer = connected(&world, "mac");
    add_file(&mut peer);
    let file = peer.create(&Create::open_if("f")).file_id;
    let data: Vec<u8> = (0..=255).cycle().take(0x10_0000).collect();
    peer.write(file, 0, &data).ok();
    peer.write(file, 0x20_0000, b"end").ok();
    peer.close(file);
    assert_eq!(copy_of_nothing(&mut peer), 0);
    asked(&mut peer, &EVERYTHING);
    assert_eq!(copy_of_nothing(&mut peer), 0x20_0003);
    let file = peer.create(&Create::open_if("g")).file_id;
    assert_eq!(peer.read(file, 0, 0x10_0000), data);
    assert_eq!(peer.read(file, 0x1F_FFFF, 10), b"\0end");
    peer.close(file);
    let fork = peer.create(&Create::open_if("g:AFP_Resource")).file_id;
    assert_eq!(peer.read(fork, 0, 1_000), [1; 300]);
}

/// A truncated context, or another command than the query, counts as none.
#[test]
fn an_unknown_query_is_ignored() {
    let world = world();
    let mut peer = connected(&world, "mac");
    let mut resolve_id = 2_u32.to_le_bytes().to_vec();
    resolve_id.extend([0; 20]);
    for data in [&[][..], &[1, 0, 0, 0], &[1; 23], &resolve_id] {
        let create = Create::directory("").raw_context(CreateContextName::AAPL, data);
        let response = peer.try_create(&create);
        assert_eq!(response.outcome(), NtStatus::SUCCESS);
        let body: CreateResponse<'_> = response.body();
        assert!(body.create_contexts.get(CreateContextName::AAPL).is_none());
    }
}
