//! CREATE requests of any kind, with any create contexts.

use dtyp::fscc::{FullEa, encode_full_ea_entry};
use dtyp::{AccessMask, FileTime, Guid};
use testkit::Create;
use testkit::entropy::Random;
use wire::create::{CreateDisposition, CreateOptions, ShareAccess};
use wire::create_context::{
    AllocationSize, AppInstanceId, AppleCapabilities, AppleQuery, AppleRequest, DurableFlags,
    DurableHandleReconnect, DurableHandleReconnectV2, DurableHandleRequest, DurableHandleRequestV2,
    ExtendedAttributes, LeaseContext, LeaseV2, PosixRequest, QueryMaximalAccessRequest,
    QueryOnDiskIdRequest, TimewarpToken,
};
use wire::lease::{LeaseFlags, LeaseKey, LeaseState};
use wire::{FileId, OplockLevel};

/// Names to open and to rename to: files, directories, streams, links of DFS, and pipes.
pub(crate) const NAMES: [&str; 18] = [
    "",
    "a",
    "b",
    "c",
    "a:s",
    "a::$DATA",
    "dir",
    "dir:s",
    "dir\\x",
    "dir\\y",
    "dir\\sub",
    "dir\\sub\\z",
    "deep\\link",
    "deep\\link\\q",
    "host\\dfs\\deep\\file\\",
    "lsarpc",
    "srvsvc",
    "wkssvc",
];

const DISPOSITIONS: [CreateDisposition; 8] = [
    CreateDisposition::SUPERSEDE,
    CreateDisposition::OPEN,
    CreateDisposition::CREATE,
    // Three times, so that most requests open something.
    CreateDisposition::OPEN_IF,
    CreateDisposition::OPEN_IF,
    CreateDisposition::OPEN_IF,
    CreateDisposition::OVERWRITE,
    CreateDisposition::OVERWRITE_IF,
];

const OPTIONS: [CreateOptions; 8] = [
    CreateOptions::DIRECTORY_FILE,
    CreateOptions::NON_DIRECTORY_FILE,
    CreateOptions::DELETE_ON_CLOSE,
    CreateOptions::DIRECTORY_FILE.union(CreateOptions::DELETE_ON_CLOSE),
    CreateOptions::NON_DIRECTORY_FILE.union(CreateOptions::DELETE_ON_CLOSE),
    CreateOptions::OPEN_REPARSE_POINT,
    CreateOptions::WRITE_THROUGH,
    CreateOptions::SYNCHRONOUS_IO_NONALERT,
];

const ACCESS: [AccessMask; 10] = [
    AccessMask::READ_DATA,
    AccessMask::READ_DATA.union(AccessMask::WRITE_DATA),
    AccessMask::APPEND_DATA,
    AccessMask::READ_ATTRIBUTES,
    AccessMask::WRITE_ATTRIBUTES,
    AccessMask::DELETE,
    AccessMask::DELETE.union(AccessMask::READ_DATA),
    AccessMask::MAXIMUM_ALLOWED,
    AccessMask::FILE_GENERIC_READ,
    AccessMask::FILE_ALL,
];

const SHARING: [ShareAccess; 4] = [
    ShareAccess::empty(),
    ShareAccess::READ,
    ShareAccess::READ.union(ShareAccess::WRITE),
    ShareAccess::all(),
];

const LEVELS: [OplockLevel; 7] = [
    OplockLevel::NONE,
    OplockLevel::II,
    OplockLevel::EXCLUSIVE,
    OplockLevel::BATCH,
    OplockLevel::BATCH,
    OplockLevel::LEASE,
    OplockLevel::LEASE,
];

const LEASES: [LeaseState; 5] = [
    LeaseState::empty(),
    LeaseState::READ_CACHING,
    LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING),
    LeaseState::READ_CACHING.union(LeaseState::WRITE_CACHING),
    LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING).union(LeaseState::WRITE_CACHING),
];

/// Returns any CREATE of one of the names.
pub(crate) fn create(random: &mut Random) -> Create {
    let disposition = random.one_of(&DISPOSITIONS);
    let mut create = Create::with_disposition(random.one_of(&NAMES), disposition);
    if random.percent(30) {
        create = create.options(random.one_of(&OPTIONS));
    }
    if random.percent(40) {
        create = create.access(random.one_of(&ACCESS));
    }
    if random.percent(30) {
        create = create.share(random.one_of(&SHARING));
    }
    let level = random.one_of(&LEVELS);
    create = create.oplock(level);
    if level == OplockLevel::LEASE {
        create = create.context(&lease(random));
    }
    create = with_durability(create, random);
    with_further_contexts(create, random)
}

/// Returns one of the few keys that leases have.
pub(crate) fn lease_key(random: &mut Random) -> LeaseKey {
    LeaseKey([random.one_of(&[1, 2, 3]); 16])
}

fn lease(random: &mut Random) -> LeaseContext {
    let mut lease_flags = LeaseFlags::empty();
    let v2 = random.percent(50).then(|| {
        lease_flags.set(LeaseFlags::PARENT_LEASE_KEY_SET, random.percent(50));
        LeaseV2 {
            parent_lease_key: LeaseKey([random.one_of(&[0, 1, 2]); 16]),
            epoch: random.one_of(&[0, 1, 2, 3]),
        }
    });
    let lease_state = random.one_of(&LEASES);
    LeaseContext { lease_key: lease_key(random), lease_state, lease_flags, v2 }
}

fn guid(random: &mut Random) -> Guid {
    Guid([random.one_of(&[0, 1, 2, 3]); 16])
}

fn durable_flags(random: &mut Random) -> DurableFlags {
    let is_persistent = random.percent(30);
    if is_persistent { DurableFlags::PERSISTENT } else { DurableFlags::empty() }
}

/// Id of an open of old: the server counts from 1.
fn lost_id(random: &mut Random) -> FileId {
    FileId { persistent: random.next_u64() % 20, volatile: 0 }
}

/// Adds at most one context about durable opens, or one that is often beside them.
fn with_durability(create: Create, random: &mut Random) -> Create {
    match random.below(8) {
        0 => create.context(&DurableHandleRequest),
        1 | 2 => create.context(&DurableHandleRequestV2 {
            timeout_ms: 0,
            flags: durable_flags(random),
            create_guid: guid(random),
        }),
        3 if random.percent(40) => {
            create.context(&DurableHandleReconnect { file_id: lost_id(random) })
        }
        4 if random.percent(40) => create.context(&DurableHandleReconnectV2 {
            file_id: lost_id(random),
            create_guid: guid(random),
            flags: durable_flags(random),
        }),
        5 => create.context(&AppInstanceId { app_instance_id: guid(random) }),
        6 => create.context(&QueryMaximalAccessRequest { timestamp: None }),
        _ => create,
    }
}

fn with_further_contexts(mut create: Create, random: &mut Random) -> Create {
    if random.percent(15) {
        create = create.context(&PosixRequest { mode: 0o640 });
    }
    if random.percent(5) {
        let entries = extended_attribute();
        create = create.context(&ExtendedAttributes { entries: &entries });
    }
    if random.percent(5) {
        create = create.context(&TimewarpToken { timestamp: FileTime(0x0001_0200_0000_0000) });
    }
    if random.percent(10) {
        create = create.context(&QueryOnDiskIdRequest);
    }
    if random.percent(5) {
        create = create.context(&AllocationSize { allocation_size: 9 });
    }
    if random.percent(5) {
        create = create.context(&AppleRequest {
            query: AppleQuery::all(),
            client_capabilities: AppleCapabilities::all(),
        });
    }
    create
}

/// Returns a list of one extended attribute: [MS-FSCC] 2.4.16.
pub(crate) fn extended_attribute() -> Vec<u8> {
    let attribute = FullEa { flags: 0, name: "ea".to_owned(), value: b"v".to_vec() };
    let mut entries = Vec::new();
    encode_full_ea_entry(&attribute, &mut entries).expect("a valid name");
    entries
}
