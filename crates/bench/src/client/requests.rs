//! The requests that the loads are made of.

use anyhow::{Result, ensure};
use dtyp::{AccessMask, FileAttributes, FileInformationClass, NtStatus, utf16};
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::query_info::{InfoType, QueryInfoRequest};
use wire::read::{ReadRequest, ReadResponse};
use wire::set_info::SetInfoRequest;
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId};

use super::{Client, Reply};

/// Purpose of a CREATE, which determines its parameters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// Reading and writing a file that is there.
    Open,
    /// Asking for the attributes of a file that is there.
    Stat,
    /// Listing a directory that is there.
    List,
    /// Creating and writing a new file.
    NewFile,
    /// Creating a new directory only.
    NewDirectory,
    /// Renaming or deleting a file that is there.
    Change,
}

/// Bytes that an answer with FileAllInformation may have: the fixed part and a long name.
const ALL_INFORMATION_BYTES: u32 = 1024;

impl Purpose {
    pub(crate) fn request(self, name: &[u8]) -> CreateRequest<'_> {
        let (desired_access, create_disposition, create_options) = match self {
            Self::Open => (
                AccessMask::FILE_GENERIC_READ | AccessMask::FILE_GENERIC_WRITE,
                CreateDisposition::OPEN,
                CreateOptions::NON_DIRECTORY_FILE,
            ),
            Self::Stat => {
                (AccessMask::READ_ATTRIBUTES, CreateDisposition::OPEN, CreateOptions::default())
            }
            Self::List => (
                AccessMask::FILE_GENERIC_READ,
                CreateDisposition::OPEN,
                CreateOptions::DIRECTORY_FILE,
            ),
            Self::NewFile => (
                AccessMask::FILE_GENERIC_READ | AccessMask::FILE_GENERIC_WRITE,
                CreateDisposition::OVERWRITE_IF,
                CreateOptions::NON_DIRECTORY_FILE,
            ),
            Self::Change => (
                AccessMask::DELETE | AccessMask::READ_ATTRIBUTES,
                CreateDisposition::OPEN,
                CreateOptions::NON_DIRECTORY_FILE,
            ),
            Self::NewDirectory => (
                AccessMask::READ_ATTRIBUTES | AccessMask::WRITE_ATTRIBUTES,
                CreateDisposition::CREATE,
                CreateOptions::DIRECTORY_FILE,
            ),
        };
        CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access,
            file_attributes: FileAttributes::default(),
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition,
            create_options,
            name,
            ..CreateRequest::default()
        }
    }
}

/// Appends a CREATE of the UTF-16LE `name`.
pub fn push_create(client: &mut Client, purpose: Purpose, name: &[u8]) {
    client.push(Command::CREATE, 0, &purpose.request(name));
}

/// Appends a CLOSE to the frame.
pub fn push_close(client: &mut Client, file_id: FileId) {
    client.push(Command::CLOSE, 0, &CloseRequest { file_id, ..CloseRequest::default() });
}

/// Appends a QUERY_INFO of FileAllInformation.
pub fn push_query_info(client: &mut Client, file_id: FileId) {
    client.push(Command::QUERY_INFO, 0, &query_info(file_id));
}

/// Appends CREATE, QUERY_INFO and CLOSE, related: a `stat` of one round trip.
pub fn push_stat(client: &mut Client, name: &[u8]) {
    push_create(client, Purpose::Stat, name);
    client.push_related(Command::QUERY_INFO, 0, &query_info(FileId::ANY));
    let close = CloseRequest { file_id: FileId::ANY, ..CloseRequest::default() };
    client.push_related(Command::CLOSE, 0, &close);
}

/// Appends a SET_INFO of FileBasicInformation that changes nothing: zeros are "leave it".
pub fn push_set_basic(client: &mut Client, file_id: FileId) {
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::BASIC.0,
        additional_information: 0,
        file_id,
        buffer: &[0; 40],
    };
    client.push(Command::SET_INFO, 0, &request);
}

/// Appends a READ of `length` bytes.
pub fn push_read(client: &mut Client, file_id: FileId, offset: u64, length: usize) {
    let wanted = u32::try_from(length).expect("a READ is shorter than 16 MiB");
    let request = ReadRequest { length: wanted, offset, file_id, ..ReadRequest::default() };
    client.push(Command::READ, length, &request);
}

/// Appends a WRITE to the frame.
pub fn push_write(client: &mut Client, file_id: FileId, offset: u64, data: &[u8]) {
    client.push(Command::WRITE, data.len(), &WriteRequest::new(file_id, offset, data));
}

/// Appends a QUERY_DIRECTORY of FileIdBothDirectoryInformation for every name.
pub fn push_query_directory(client: &mut Client, file_id: FileId, buffer_bytes: usize) {
    let request = QueryDirectoryRequest {
        file_information_class: FileInformationClass::ID_BOTH_DIRECTORY,
        flags: QueryDirectoryFlags::default(),
        file_index: 0,
        file_id,
        output_buffer_length: u32::try_from(buffer_bytes).expect("a buffer is below 16 MiB"),
        file_name: b"*\0",
    };
    client.push(Command::QUERY_DIRECTORY, buffer_bytes, &request);
}

fn query_info(file_id: FileId) -> QueryInfoRequest<'static> {
    QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::ALL.0,
        output_buffer_length: ALL_INFORMATION_BYTES,
        file_id,
        ..QueryInfoRequest::default()
    }
}

/// The open that a CREATE made.
///
/// # Errors
///
/// When it was refused.
pub fn created(client: &Client, reply: &Reply) -> Result<FileId> {
    let reply = reply.clone().succeeded()?;
    Ok(CreateResponse::decode(client.message(&reply))?.file_id)
}

/// Whether a READ brought all it was to bring.
///
/// # Errors
///
/// When it did not.
pub fn verify_read(client: &Client, reply: &Reply, length: usize) -> Result<()> {
    let reply = reply.clone().succeeded()?;
    let data = ReadResponse::decode(client.message(&reply))?.data;
    ensure!(data.len() == length, "a READ of {length} bytes brought {}", data.len());
    Ok(())
}

/// Returns the number of entries in a response to QUERY_DIRECTORY; `None` at the end of the
/// listing.
///
/// # Errors
///
/// It was refused, or the chain of entries exceeds the response.
pub fn listed(client: &Client, reply: &Reply) -> Result<Option<usize>> {
    if reply.header.status == NtStatus::NO_MORE_FILES {
        return Ok(None);
    }
    let reply = reply.clone().succeeded()?;
    let entries = QueryDirectoryResponse::decode(client.message(&reply))?.output_buffer;
    Ok(Some(count_entries(entries)?))
}

/// The length of a chain of entries, by NextEntryOffset: [MS-FSCC] 2.4.
fn count_entries(mut entries: &[u8]) -> Result<usize> {
    let mut count = 0;
    while let Some(next) = entries.first_chunk::<4>() {
        count += 1;
        match usize::try_from(u32::from_le_bytes(*next))? {
            0 => break,
            next => {
                ensure!(next < entries.len(), "an entry leaves the answer");
                entries = &entries[next..];
            }
        }
    }
    Ok(count)
}

/// Opens a file and waits for it.
///
/// # Errors
///
/// When it was refused.
pub fn open(client: &mut Client, purpose: Purpose, name: &str) -> Result<FileId> {
    let name = utf16::to_bytes(name);
    let reply = client.call(Command::CREATE, 0, &purpose.request(&name))?;
    created(client, &reply)
}

/// Closes a file and waits for it.
///
/// # Errors
///
/// When it was refused.
pub fn close(client: &mut Client, file_id: FileId) -> Result<()> {
    let request = CloseRequest { file_id, ..CloseRequest::default() };
    client.call(Command::CLOSE, 0, &request)?.succeeded().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::count_entries;

    #[test]
    fn entries_are_counted_by_their_chain() {
        let mut entries = vec![0; 24];
        entries[0] = 8;
        entries[8] = 8;
        assert_eq!(count_entries(&entries).expect("a good chain"), 3);
        assert_eq!(count_entries(&[]).expect("nothing"), 0);
    }

    #[test]
    fn a_chain_that_leaves_the_answer_is_an_error() {
        let mut entries = vec![0; 16];
        entries[0] = 16;
        let error = count_entries(&entries).expect_err("it leaves the answer");
        assert!(error.to_string().contains("leaves"), "{error}");
    }
}
