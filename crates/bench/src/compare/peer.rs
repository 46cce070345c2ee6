//! One server's client: sends requests, and keeps of the answers the parts that must be the same.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::{Context, Result};
use dtyp::fscc::directory::decode_directory_list;
use dtyp::fscc::{
    FileAccessInformation, FileAllInformation, FileAttributeTagInformation, FileBasicInformation,
    FileDispositionInformation, FileEndOfFileInformation, FileFsAttributeInformation,
    FileFsDeviceInformation, FileFsVolumeInformation, FileModeInformation, FileNameInformation,
    FileNetworkOpenInformation, FilePositionInformation, FileRenameInformation,
    FileStandardInformation, decode_stream_list,
};
use dtyp::{AccessMask, FileInformationClass, FsInformationClass, NtStatus, utf16};
use wire::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::create::{CreateRequest, CreateResponse, ImpersonationLevel};
use wire::flush::FlushRequest;
use wire::lock::{LockElement, LockRequest, Locks};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::read::{ReadRequest, ReadResponse};
use wire::set_info::SetInfoRequest;
use wire::tree_connect::{TreeConnectRequest, TreeConnectResponse};
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::write::{WriteRequest, WriteResponse};
use wire::{Command, Decode, Encode, FileId};

use super::operation::{Operation, SLOTS};
use crate::client::{Client, Reply};

/// Status and data of an answer. A field that belongs to one of several objects has its name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) status: NtStatus,
    pub(super) fields: BTreeMap<(&'static str, String), String>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        !self.status.is_error()
    }

    fn add(&mut self, field: &'static str, value: impl Debug) {
        self.fields.insert((field, String::new()), format!("{value:?}"));
    }
}

/// An open, and the name that it was made with.
#[derive(Clone, Debug)]
struct Open {
    file_id: FileId,
    name: String,
    /// The CREATE, as differences show it.
    create: String,
    /// True if it has marked its file for deletion.
    is_pending: bool,
}

/// The client of one server.
#[derive(Debug)]
pub(super) struct Peer {
    client: Client,
    opens: [Option<Open>; SLOTS],
}

/// Bytes that an answer may have; more than any here has.
const ANSWER_BYTES: u32 = 60_000;

/// Requests of one listing, whose few names fit into one answer.
const LIST_ROUNDS_MAX: usize = 8;

impl Peer {
    pub(super) fn new(client: Client) -> Self {
        Self { client, opens: Default::default() }
    }

    /// Returns the slots that have an open.
    pub(super) fn held(&self) -> Vec<usize> {
        (0..SLOTS).filter(|slot| self.has_open(*slot)).collect()
    }

    pub(super) fn has_open(&self, slot: usize) -> bool {
        self.opens[slot].is_some()
    }

    /// Names in the folder of the round that a request is about, in small letters, without what
    /// follows in a path or behind a colon.
    pub(super) fn names_of(&self, operation: &Operation) -> Vec<String> {
        let of_open = operation.slot_of_open().and_then(|slot| self.opens[slot].as_ref());
        let named = match operation {
            Operation::Create { name, .. } | Operation::Rename { name, .. } => Some(name.as_str()),
            _ => None,
        };
        of_open.map(|open| open.name.as_str()).into_iter().chain(named).map(first_part).collect()
    }

    /// A request as differences show it: with the CREATE of its open, and the rights that the open
    /// lacks.
    pub(super) fn describe(&self, operation: &Operation) -> String {
        let open = operation.slot_of_open().and_then(|slot| self.opens[slot].as_ref());
        match (open, operation) {
            (Some(open), _) => format!("{operation:?} of {}", open.create),
            (None, Operation::Create { access, .. }) => {
                format!("{operation:?}{}", properties(operation, *access))
            }
            (None, _) => format!("{operation:?}"),
        }
    }

    /// True for a rename by an open that has marked its file for deletion.
    pub(super) fn renames_pending(&self, operation: &Operation) -> bool {
        let Operation::Rename { slot, .. } = operation else { return false };
        self.opens[*slot].as_ref().is_some_and(|open| open.is_pending)
    }

    pub(super) fn connect(&mut self, share: &str) -> Result<Answer> {
        let path = utf16::to_bytes(&format!(r"\\127.0.0.1\{share}"));
        let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
        let (mut answer, reply) = self.call(Command::TREE_CONNECT, 0, &request)?;
        if answer.is_success() {
            self.client.use_tree_connect(reply.header.tree_id);
            let response = TreeConnectResponse::decode(self.client.message(&reply))?;
            answer.add("type", response.share_type);
            answer.add("access", response.maximal_access);
        }
        Ok(answer)
    }

    pub(super) fn disconnect(&mut self) -> Result<Answer> {
        Ok(self.call(Command::TREE_DISCONNECT, 0, &TreeDisconnectRequest)?.0)
    }

    /// Makes the folder of a round.
    pub(super) fn make_folder(&mut self, name: &str) -> Result<Answer> {
        let name = utf16::to_bytes(name);
        let request = crate::client::requests::Purpose::NewDirectory.request(&name);
        let (answer, reply) = self.call(Command::CREATE, 0, &request)?;
        if answer.is_success() {
            let file_id = CreateResponse::decode(self.client.message(&reply))?.file_id;
            let request = CloseRequest { file_id, ..CloseRequest::default() };
            self.call(Command::CLOSE, 0, &request)?;
        }
        Ok(answer)
    }

    pub(super) fn close_all(&mut self) -> Result<()> {
        (0..SLOTS).try_for_each(|slot| self.close(slot).map(drop))
    }

    /// Closes an open, if there is one.
    pub(super) fn close(&mut self, slot: usize) -> Result<Answer> {
        let Some(Open { file_id, create, .. }) = self.opens[slot].take() else {
            return Ok(Answer::default());
        };
        let request = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id };
        let closed = self.call(Command::CLOSE, 0, &request);
        let (mut answer, reply) = closed.with_context(|| format!("CLOSE of {create}"))?;
        if answer.is_success() {
            let response = CloseResponse::decode(self.client.message(&reply))?;
            answer.add("attributes", response.file_attributes);
            answer.add("end of file", response.end_of_file);
        }
        Ok(answer)
    }

    /// Sends a request; names are below the folder of the round.
    pub(super) fn perform(&mut self, folder: &str, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Create { slot, name, .. } => self.create(*slot, folder, name, operation),
            Operation::Close { slot } => self.close(*slot),
            Operation::Read { slot, offset, length } => self.read(*slot, *offset, *length),
            Operation::Write { slot, offset, length, fill } => {
                self.write(*slot, *offset, &vec![*fill; *length])
            }
            Operation::Flush { slot } => {
                let request = FlushRequest { file_id: self.file_id(*slot) };
                Ok(self.call(Command::FLUSH, 0, &request)?.0)
            }
            Operation::Lock { slot, offset, length, flags } => {
                let element = [LockElement { offset: *offset, length: *length, flags: *flags }];
                let locks = Locks::new(&element);
                let file_id = self.file_id(*slot);
                let request = LockRequest { file_id, locks, ..LockRequest::default() };
                Ok(self.call(Command::LOCK, 0, &request)?.0)
            }
            Operation::QueryFile { slot, class } => self.query_file(*slot, *class),
            Operation::QueryVolume { slot, class } => self.query_volume(*slot, *class),
            Operation::SetAttributes { slot, attributes } => {
                let information = FileBasicInformation {
                    file_attributes: *attributes,
                    ..FileBasicInformation::default()
                };
                self.set(*slot, FileInformationClass::BASIC, |out| information.encode(out))
            }
            Operation::SetEndOfFile { slot, end } => {
                let information = FileEndOfFileInformation { end_of_file: *end };
                self.set(*slot, FileInformationClass::END_OF_FILE, |out| information.encode(out))
            }
            Operation::SetDisposition { slot, is_pending } => {
                let information = FileDispositionInformation { delete_pending: *is_pending };
                let class = FileInformationClass::DISPOSITION;
                let answer = self.set(*slot, class, |out| information.encode(out))?;
                if let Some(open) = self.opens[*slot].as_mut().filter(|_| answer.is_success()) {
                    open.is_pending = *is_pending;
                }
                Ok(answer)
            }
            Operation::Rename { slot, name, replaces } => {
                let information = FileRenameInformation {
                    flags: u32::from(*replaces),
                    root_directory: 0,
                    file_name: format!("{folder}\\{name}"),
                };
                let class = FileInformationClass::RENAME;
                let answer = self.set(*slot, class, |out| information.encode(out))?;
                if let Some(open) = self.opens[*slot].as_mut().filter(|_| answer.is_success()) {
                    open.name.clone_from(name);
                }
                Ok(answer)
            }
            Operation::List { slot, pattern } => self.list(*slot, pattern),
        }
    }

    fn create(
        &mut self,
        slot: usize,
        folder: &str,
        name: &str,
        operation: &Operation,
    ) -> Result<Answer> {
        let Operation::Create { access, share, disposition, options, attributes, .. } = operation
        else {
            unreachable!("the caller has a CREATE")
        };
        let path = if name.is_empty() { folder.to_owned() } else { format!("{folder}\\{name}") };
        let path = utf16::to_bytes(&path);
        let request = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: *access,
            file_attributes: *attributes,
            share_access: *share,
            create_disposition: *disposition,
            create_options: *options,
            name: &path,
            ..CreateRequest::default()
        };
        let (mut answer, reply) = self.call(Command::CREATE, 0, &request)?;
        if answer.is_success() {
            let response = CreateResponse::decode(self.client.message(&reply))?;
            answer.add("action", response.create_action);
            answer.add("attributes", response.file_attributes);
            answer.add("end of file", response.end_of_file);
            let file_id = response.file_id;
            let create = format!("{operation:?}{}", properties(operation, *access));
            self.opens[slot] =
                Some(Open { file_id, name: name.to_owned(), create, is_pending: false });
        }
        Ok(answer)
    }

    fn read(&mut self, slot: usize, offset: u64, length: u32) -> Result<Answer> {
        let file_id = self.file_id(slot);
        let request = ReadRequest { length, offset, file_id, ..ReadRequest::default() };
        let (mut answer, reply) = self.call(Command::READ, 0, &request)?;
        if answer.is_success() {
            let data = ReadResponse::decode(self.client.message(&reply))?.data;
            answer.add("data", String::from_utf8_lossy(data));
        }
        Ok(answer)
    }

    fn write(&mut self, slot: usize, offset: u64, data: &[u8]) -> Result<Answer> {
        let request = WriteRequest::new(self.file_id(slot), offset, data);
        let (mut answer, reply) = self.call(Command::WRITE, data.len(), &request)?;
        if answer.is_success() {
            let count = WriteResponse::decode(self.client.message(&reply))?.count;
            answer.add("count", count);
        }
        Ok(answer)
    }

    fn set(
        &mut self,
        slot: usize,
        class: FileInformationClass,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answer> {
        let mut buffer = Vec::new();
        encode(&mut buffer);
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            additional_information: 0,
            file_id: self.file_id(slot),
            buffer: &buffer,
        };
        Ok(self.call(Command::SET_INFO, 0, &request)?.0)
    }

    fn query(&mut self, slot: usize, kind: InfoType, class: u8) -> Result<(Answer, Vec<u8>)> {
        let request = QueryInfoRequest {
            info_type: kind,
            file_info_class: class,
            output_buffer_length: ANSWER_BYTES,
            file_id: self.file_id(slot),
            ..QueryInfoRequest::default()
        };
        let (answer, reply) = self.call(Command::QUERY_INFO, 0, &request)?;
        let buffer = match answer.is_success() {
            true => QueryInfoResponse::decode(self.client.message(&reply))?.output_buffer.to_vec(),
            false => Vec::new(),
        };
        Ok((answer, buffer))
    }

    fn query_file(&mut self, slot: usize, class: FileInformationClass) -> Result<Answer> {
        let (mut answer, bytes) = self.query(slot, InfoType::FILE, class.0)?;
        if answer.is_success() {
            add_information(&mut answer, class, &bytes)
                .with_context(|| format!("{class:?} is malformed"))?;
        }
        Ok(answer)
    }

    fn query_volume(&mut self, slot: usize, class: FsInformationClass) -> Result<Answer> {
        let (mut answer, bytes) = self.query(slot, InfoType::FILESYSTEM, class.0)?;
        if answer.is_success() {
            add_volume_information(&mut answer, class, &bytes)
                .with_context(|| format!("{class:?} is malformed"))?;
        }
        Ok(answer)
    }

    fn list(&mut self, slot: usize, pattern: &str) -> Result<Answer> {
        let class = FileInformationClass::ID_BOTH_DIRECTORY;
        let pattern = utf16::to_bytes(pattern);
        let mut all = Answer::default();
        let mut flags = QueryDirectoryFlags::RESTART_SCANS;
        for _ in 0..LIST_ROUNDS_MAX {
            let request = QueryDirectoryRequest {
                file_information_class: class,
                flags,
                file_index: 0,
                file_id: self.file_id(slot),
                output_buffer_length: ANSWER_BYTES,
                file_name: &pattern,
            };
            let (answer, reply) = self.call(Command::QUERY_DIRECTORY, 0, &request)?;
            if !answer.is_success() {
                let is_end = answer.status == NtStatus::NO_MORE_FILES && !all.fields.is_empty();
                return Ok(if is_end { all } else { answer });
            }
            let buffer = QueryDirectoryResponse::decode(self.client.message(&reply))?.output_buffer;
            let entries = decode_directory_list(class, buffer).context("a malformed listing")?;
            for entry in entries {
                let name = first_part(&entry.file_name);
                let is_folder = entry.file_attributes.contains(dtyp::FileAttributes::DIRECTORY);
                let end = if is_folder { 0 } else { entry.end_of_file };
                let text = format!(
                    "{} {:?} {end} {}",
                    entry.file_name, entry.file_attributes, entry.short_name
                );
                all.fields.insert(("entry", name), text);
            }
            flags = QueryDirectoryFlags::default();
        }
        all.add("end", "never");
        Ok(all)
    }

    /// The open in a slot; operations are chosen for held slots only.
    fn file_id(&self, slot: usize) -> FileId {
        self.opens[slot].as_ref().map_or(FileId::ANY, |open| open.file_id)
    }

    fn call(
        &mut self,
        command: Command,
        bytes: usize,
        body: &impl Encode,
    ) -> Result<(Answer, Reply)> {
        let reply = self.client.call(command, bytes, body)?;
        let status = reply.header.status;
        Ok((Answer { status, ..Answer::default() }, reply))
    }
}

/// Rights that the requests of a comparison need.
const NEEDED: AccessMask = AccessMask::READ_DATA
    .union(AccessMask::WRITE_DATA)
    .union(AccessMask::READ_ATTRIBUTES)
    .union(AccessMask::WRITE_ATTRIBUTES)
    .union(AccessMask::DELETE);

/// Properties of an open that explanations select by: whether it is one of a stream, and the rights
/// of [`NEEDED`] that DesiredAccess lacks.
fn properties(create: &Operation, access: AccessMask) -> String {
    let mut text = if create.names_stream() { " of a stream" } else { "" }.to_owned();
    if !access.contains(AccessMask::MAXIMUM_ALLOWED) {
        let missing = NEEDED.difference(access.map_generic());
        text.extend(missing.iter_names().map(|(name, _)| format!(" without {name}")));
    }
    text
}

/// Returns the first component of a path in small letters, without the name of a stream.
fn first_part(name: &str) -> String {
    name.split(['\\', ':']).next().unwrap_or_default().to_lowercase()
}

/// Adds the fields that have to be the same at both servers: neither times nor numbers of files,
/// nor space on the disk.
fn add_information(answer: &mut Answer, class: FileInformationClass, bytes: &[u8]) -> Option<()> {
    match class {
        FileInformationClass::BASIC => {
            answer.add("attributes", FileBasicInformation::decode(bytes)?.file_attributes);
        }
        FileInformationClass::STANDARD => {
            add_standard(answer, &FileStandardInformation::decode(bytes)?);
        }
        FileInformationClass::ACCESS => {
            answer.add("access", FileAccessInformation::decode(bytes)?.access_flags);
        }
        FileInformationClass::ALL => {
            let all = FileAllInformation::decode(bytes)?;
            answer.add("attributes", all.basic.file_attributes);
            add_standard(answer, &all.standard);
            answer.add("access", all.access.access_flags);
            answer.add("mode", all.mode.mode);
            answer.add("name", &all.name.file_name);
        }
        FileInformationClass::ALTERNATE_NAME | FileInformationClass::NORMALIZED_NAME => {
            answer.add("name", FileNameInformation::decode(bytes)?.file_name);
        }
        FileInformationClass::STREAM => {
            for stream in decode_stream_list(bytes)? {
                answer.fields.insert(("stream", stream.name), stream.size.to_string());
            }
        }
        FileInformationClass::NETWORK_OPEN => {
            let information = FileNetworkOpenInformation::decode(bytes)?;
            answer.add("attributes", information.file_attributes);
            answer.add("end of file", information.end_of_file);
        }
        FileInformationClass::ATTRIBUTE_TAG => {
            let information = FileAttributeTagInformation::decode(bytes)?;
            answer.add("attributes", information.file_attributes);
            answer.add("tag", information.reparse_tag);
        }
        FileInformationClass::MODE => {
            answer.add("mode", FileModeInformation::decode(bytes)?.mode);
        }
        FileInformationClass::POSITION => {
            answer.add("position", FilePositionInformation::decode(bytes)?.current_byte_offset);
        }
        _ => {}
    }
    Some(())
}

fn add_standard(answer: &mut Answer, information: &FileStandardInformation) {
    answer.add("end of file", information.end_of_file);
    answer.add("links", information.number_of_links);
    answer.add("delete pending", information.delete_pending);
    answer.add("directory", information.directory);
}

fn add_volume_information(
    answer: &mut Answer,
    class: FsInformationClass,
    bytes: &[u8],
) -> Option<()> {
    match class {
        FsInformationClass::VOLUME => {
            answer.add("label", FileFsVolumeInformation::decode(bytes)?.volume_label);
        }
        FsInformationClass::DEVICE => {
            answer.add("device", FileFsDeviceInformation::decode(bytes)?);
        }
        FsInformationClass::ATTRIBUTE => {
            let information = FileFsAttributeInformation::decode(bytes)?;
            answer.add("file system attributes", information.file_system_attributes);
            answer.add("file system", information.file_system_name);
        }
        _ => {}
    }
    Some(())
}
