//! A client that says what a test wants said, and answers with what the server knows of a file.

use std::net::SocketAddr;

use bench::client::{Client, Destination, Protection};
use dtyp::fscc::ea::{FullEa, FullEaList, encode_full_ea_entry};
use dtyp::fscc::stream::decode_stream_list;
use dtyp::{
    AccessMask, FileAttributes, FileInformationClass, NtStatus, SecurityDescriptor,
    SecurityInformation, utf16,
};
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::read::{ReadRequest, ReadResponse};
use wire::set_info::SetInfoRequest;
use wire::write::WriteRequest;
use wire::{Command, Decode, Encode, FileId};

use super::terms;

/// More than any answer here has.
const ANSWER_BYTES: u32 = 60_000;

/// All rights that an owner has.
pub const EVERYTHING: AccessMask = AccessMask::FILE_ALL;

/// A connection to one share.
#[derive(Debug)]
pub struct Session(Client);

impl Session {
    pub fn new(address: SocketAddr, share: &str, user: &str, password: &str) -> Self {
        let destination = Destination {
            address,
            share: share.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
        };
        let client = Client::connect(&destination, terms(Protection::Signed));
        Self(client.expect("it may connect"))
    }

    #[track_caller]
    fn call(
        &mut self,
        command: Command,
        bytes: usize,
        body: &impl Encode,
    ) -> Result<Vec<u8>, NtStatus> {
        let reply = self.0.call(command, bytes, body).expect("the server answers");
        let status = reply.header.status;
        if status.is_error() { Err(status) } else { Ok(self.0.message(&reply).to_vec()) }
    }

    /// Opens or, with a disposition that does, creates.
    #[track_caller]
    pub fn open(
        &mut self,
        path: &str,
        access: AccessMask,
        disposition: CreateDisposition,
        options: CreateOptions,
    ) -> Result<FileId, NtStatus> {
        let name = utf16::to_bytes(path);
        let request = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition: disposition,
            create_options: options,
            name: &name,
            ..CreateRequest::default()
        };
        let answer = self.call(Command::CREATE, 0, &request)?;
        Ok(CreateResponse::decode(&answer).expect("well-formed").file_id)
    }

    /// Returns the status of an open with these rights.
    #[track_caller]
    pub fn try_access(&mut self, path: &str, access: AccessMask) -> NtStatus {
        let options = CreateOptions::default();
        match self.open(path, access, CreateDisposition::OPEN, options) {
            Ok(file_id) => {
                self.close(file_id);
                NtStatus::SUCCESS
            }
            Err(status) => status,
        }
    }

    #[track_caller]
    pub fn close(&mut self, file_id: FileId) {
        let request = CloseRequest { file_id, ..CloseRequest::default() };
        self.call(Command::CLOSE, 0, &request).expect("it is open");
    }

    /// Marks a file or directory for deletion at the close of this open.
    #[track_caller]
    pub fn delete_on_close(&mut self, file_id: FileId) {
        self.set(file_id, FileInformationClass::DISPOSITION.0, 0, &[1]);
    }

    #[track_caller]
    pub fn write(&mut self, file_id: FileId, data: &[u8]) {
        self.try_write(file_id, 0, data).expect("it may write");
    }

    #[track_caller]
    pub fn try_write(&mut self, file_id: FileId, offset: u64, data: &[u8]) -> Result<(), NtStatus> {
        let request = WriteRequest::new(file_id, offset, data);
        self.call(Command::WRITE, data.len(), &request).map(drop)
    }

    #[track_caller]
    pub fn read(&mut self, file_id: FileId) -> Vec<u8> {
        let request = ReadRequest { length: ANSWER_BYTES, file_id, ..ReadRequest::default() };
        match self.call(Command::READ, 0, &request) {
            Ok(answer) => ReadResponse::decode(&answer).expect("well-formed").data.to_vec(),
            Err(NtStatus::END_OF_FILE) => Vec::new(),
            Err(status) => panic!("reading: {status:?}"),
        }
    }

    #[track_caller]
    fn query(&mut self, file_id: FileId, class: u8, part: u32) -> Result<Vec<u8>, NtStatus> {
        let is_security = class == 0;
        let request = QueryInfoRequest {
            info_type: if is_security { InfoType::SECURITY } else { InfoType::FILE },
            file_info_class: class,
            output_buffer_length: ANSWER_BYTES,
            additional_information: part,
            file_id,
            ..QueryInfoRequest::default()
        };
        let answer = self.call(Command::QUERY_INFO, 0, &request)?;
        Ok(QueryInfoResponse::decode(&answer).expect("well-formed").output_buffer.to_vec())
    }

    #[track_caller]
    fn set(&mut self, file_id: FileId, class: u8, part: u32, buffer: &[u8]) {
        let is_security = class == 0;
        let request = SetInfoRequest {
            info_type: if is_security { InfoType::SECURITY } else { InfoType::FILE },
            file_info_class: class,
            additional_information: part,
            file_id,
            buffer,
        };
        self.call(Command::SET_INFO, 0, &request).expect("it may change it");
    }

    /// Creation time, last write time and attributes.
    #[track_caller]
    pub fn basic(&mut self, file_id: FileId) -> (u64, u64, FileAttributes) {
        let bytes = self.query(file_id, FileInformationClass::BASIC.0, 0).expect("it is open");
        let time = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("40 bytes"));
        let attributes = u32::from_le_bytes(*bytes[32..].first_chunk().expect("40 bytes"));
        (time(0), time(16), FileAttributes::from_bits_retain(attributes))
    }

    #[track_caller]
    pub fn set_basic(&mut self, file_id: FileId, created: u64, attributes: FileAttributes) {
        let mut buffer = [0; 40];
        buffer[..8].copy_from_slice(&created.to_le_bytes());
        buffer[32..36].copy_from_slice(&attributes.bits().to_le_bytes());
        self.set(file_id, FileInformationClass::BASIC.0, 0, &buffer);
    }

    /// Names and sizes of all streams.
    #[track_caller]
    pub fn streams(&mut self, file_id: FileId) -> Vec<(String, u64)> {
        let bytes = self.query(file_id, FileInformationClass::STREAM.0, 0).unwrap_or_default();
        let streams = decode_stream_list(&bytes).expect("well-formed");
        let mut streams: Vec<_> = streams.into_iter().map(|it| (it.name, it.size)).collect();
        streams.sort();
        streams
    }

    /// Names and values of all attributes.
    #[track_caller]
    pub fn extended_attributes(&mut self, file_id: FileId) -> Vec<(String, Vec<u8>)> {
        let bytes = self.query(file_id, FileInformationClass::FULL_EA.0, 0);
        let bytes = match bytes {
            Err(NtStatus::NO_EAS_ON_FILE) => return Vec::new(),
            result => result.expect("it may read them"),
        };
        let list = FullEaList(&bytes).iter().map(|entry| entry.expect("well-formed"));
        let mut list: Vec<_> = list.map(|entry| (entry.name, entry.value)).collect();
        list.sort();
        list
    }

    #[track_caller]
    pub fn set_extended_attribute(&mut self, file_id: FileId, name: &str, value: &[u8]) {
        let entry = FullEa { flags: 0, name: name.to_owned(), value: value.to_vec() };
        let mut buffer = Vec::new();
        encode_full_ea_entry(&entry, &mut buffer).expect("a good name");
        self.set(file_id, FileInformationClass::FULL_EA.0, 0, &buffer);
    }

    /// Reads owner, group and DACL.
    #[track_caller]
    pub fn descriptor(&mut self, file_id: FileId) -> SecurityDescriptor {
        let bytes = self.query(file_id, 0, 7).expect("it may read it");
        SecurityDescriptor::decode(&bytes).expect("well-formed")
    }

    #[track_caller]
    pub fn set_descriptor(
        &mut self,
        file_id: FileId,
        part: SecurityInformation,
        descriptor: &SecurityDescriptor,
    ) {
        self.set(file_id, 0, part.bits(), &descriptor.to_bytes());
    }
}
