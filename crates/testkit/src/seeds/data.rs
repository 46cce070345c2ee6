//! Seeds that are no conversations.

use dtyp::fscc::{
    DirectoryEntryFields, FileNameInformation, FileRenameInformation, FullEa, StreamEntry,
    encode_directory_entry, encode_full_ea_entry, encode_stream_entry,
};
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, FileInformationClass, SecurityDescriptor, ServerId, Sid,
};
use wire::create_context::{
    AllocationSize, CreateContextList, DurableHandleReconnect, ExtendedAttributes,
    QueryMaximalAccessRequest, QueryOnDiskIdRequest, TimewarpToken,
};
use wire::{Dialect, FileId};

use super::{Recorder, join};
use crate::peer::Offer;

/// A small smb.conf with a sample of each syntax.
const SMB_CONF: &str = "# comment\n[global]\n\tworkgroup = CHORO\n  server min protocol = SMB2_10\n\
    interfaces = \"192.0.2.1;if_index=2,speed=1000\" lo\n; another\n   smb encrypt = desired\n\
    [homes]\nbrowseable = no\n[data]\npath = /srv/\\\n  data\nread only = no\nvalid users = a, \
    \"b c\" +d @e\nveto files = /*.tmp/x?/\nhosts allow = 192.0.2. EXCEPT 192.0.2.7\n\
    [copy]\ncopy = data\ncomment = %U at %m%%\n";

pub(super) fn record(recorder: &mut Recorder) {
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    let contexts = offer.contexts();
    let count = u8::try_from(contexts.contexts().len()).expect("a few");
    let mut seed = vec![count];
    for context in contexts.contexts().iter() {
        seed.resize(1 + (seed.len() - 1).next_multiple_of(8), 0);
        let len = u16::try_from(context.data.len()).expect("a few bytes");
        seed.extend_from_slice(&context.context_type.0.to_le_bytes());
        seed.extend_from_slice(&len.to_le_bytes());
        seed.extend_from_slice(&[0; 4]);
        seed.extend_from_slice(context.data);
    }
    recorder.put("negotiate_contexts", "all", seed);
    recorder.put("create_contexts", "all", create_contexts());
    recorder.put("security_descriptor", "all", security_descriptor());
    recorder.put("smb_conf", "all", SMB_CONF.into());
    recorder.put("messaging", "one", join([packet(4, 0, b"data")]));
    recorder.put("messaging", "two", join([packet(8, 0, b"some"), packet(8, 4, b"data")]));
    lists(recorder);
}

fn create_contexts() -> Vec<u8> {
    let mut attributes = Vec::new();
    let ea = FullEa { flags: 0, name: "NAME".into(), value: b"value".to_vec() };
    encode_full_ea_entry(&ea, &mut attributes).expect("a good name");
    let mut list = CreateContextList::new();
    list.push(&ExtendedAttributes { entries: &attributes });
    list.push(&QueryMaximalAccessRequest::default());
    list.push(&QueryOnDiskIdRequest);
    list.push(&AllocationSize { allocation_size: 4_096 });
    list.push(&TimewarpToken::default());
    list.push(&DurableHandleReconnect { file_id: FileId::ANY });
    list.contexts().as_bytes().to_vec()
}

fn security_descriptor() -> Vec<u8> {
    let aces = vec![
        Ace::allow(Sid::everyone(), AccessMask::FILE_GENERIC_READ, AceFlags::empty()),
        Ace::deny(Sid::unix_user(1_000), AccessMask::DELETE, AceFlags::OBJECT_INHERIT),
    ];
    SecurityDescriptor {
        owner: Some(Sid::unix_user(1_000)),
        group: Some(Sid::unix_group(100)),
        dacl: Some(Acl::new(aces)),
        ..SecurityDescriptor::default()
    }
    .to_bytes()
}

/// Adds a class, and a list of that class.
fn lists(recorder: &mut Recorder) {
    for class in [1, 2, 3, 12, 37, 38, 60] {
        let fields = DirectoryEntryFields {
            file_name: "a file".into(),
            short_name: "AFILE~1".into(),
            end_of_file: 10,
            ..DirectoryEntryFields::default()
        };
        let mut seed = vec![class];
        if encode_directory_entry(FileInformationClass(class), &fields, &mut seed).is_some() {
            recorder.put("fscc", format!("directory-{class}"), seed);
        }
    }
    let mut seed = vec![FileInformationClass::FULL_EA.0];
    let ea = FullEa { flags: 0, name: "NAME".into(), value: b"value".to_vec() };
    encode_full_ea_entry(&ea, &mut seed).expect("a good name");
    recorder.put("fscc", "full-ea", seed);
    let mut seed = vec![FileInformationClass::STREAM.0];
    let stream = StreamEntry { name: "::$DATA".into(), ..StreamEntry::default() };
    encode_stream_entry(&stream, &mut seed);
    recorder.put("fscc", "stream", seed);
    let mut seed = vec![FileInformationClass::RENAME.0];
    FileRenameInformation { file_name: "new\\name".into(), ..FileRenameInformation::default() }
        .encode(&mut seed);
    recorder.put("fscc", "rename", seed);
    let mut seed = vec![FileInformationClass::NAME.0];
    FileNameInformation { file_name: "*.t?t<\">".into() }.encode(&mut seed);
    recorder.put("fscc", "name", seed);
}

/// Builds a packet of `messaging`: version, no descriptors, sender, receiver; then an entry: bytes
/// of the frame, offset in it, number of the message, time of sending.
fn packet(total: u32, offset: u32, fragment: &[u8]) -> Vec<u8> {
    let process = ServerId { pid: 7, unique_id: 9 }.to_bytes();
    let mut bytes = vec![2, 0, 0, 0];
    bytes.extend_from_slice(&process);
    bytes.extend_from_slice(&process);
    bytes.extend_from_slice(&total.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    bytes.extend_from_slice(&2_u64.to_le_bytes());
    bytes.extend_from_slice(fragment);
    bytes
}
