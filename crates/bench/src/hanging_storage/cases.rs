//! Kinds of operations of a file system, and a request that needs each.

use anyhow::Result;
use dtyp::{FileInformationClass, FsInformationClass};
use slow_fs::Operation;
use wire::flush::FlushRequest;
use wire::query_info::{InfoType, QueryInfoRequest};
use wire::set_info::SetInfoRequest;
use wire::{Command, FileId};

use crate::client::requests::{
    self, Purpose, created, push_close, push_create, push_query_directory, push_query_info,
    push_read, push_write,
};
use crate::client::{Client, Reply};

/// File of the slow share.
pub(super) const FILE: &str = "file";

/// Directory of the slow share.
pub(super) const FOLDER: &str = "folder";

/// UTF-16LE of [`FILE`] and of names that are new.
const FILE_NAME: &[u8] = b"f\0i\0l\0e\0";
const NEW_NAME: &[u8] = b"n\0e\0w\0";
const NEW_FOLDER_NAME: &[u8] = b"m\0o\0r\0e\0";

/// FILE_RENAME_INFORMATION_TYPE_2 ([MS-FSCC] 2.4.43.2) with the name of the file itself.
const RENAME: &[u8] = b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\0\0F\0i\0l\0e\0\0\0\0\0\0\0";

/// FILE_FULL_EA_INFORMATION ([MS-FSCC] 2.4.16) with the attribute `A` of one byte.
const ATTRIBUTE: &[u8] = b"\0\0\0\0\0\x01\x01\0A\0x";

/// A kind of operation, and the request that needs it.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) operation: Operation,
    /// Purpose and name of the open that the request needs.
    open: Option<(Purpose, &'static str)>,
    /// Function that appends the request.
    pub(super) push: fn(&mut Client, FileId),
}

const fn case(
    operation: Operation,
    open: Option<(Purpose, &'static str)>,
    push: fn(&mut Client, FileId),
) -> Case {
    Case { operation, open, push }
}

/// Open for reading, writing and deletion, and as a directory.
const DATA: Option<(Purpose, &str)> = Some((Purpose::Open, FILE));
const CHANGE: Option<(Purpose, &str)> = Some((Purpose::Change, FILE));
const LIST: Option<(Purpose, &str)> = Some((Purpose::List, FOLDER));

/// All kinds; the last one deletes the file.
pub(super) const CASES: &[Case] = &[
    case(Operation::Lookup, None, |it, _| push_create(it, Purpose::Open, FILE_NAME)),
    case(Operation::GetAttributes, DATA, push_query_info),
    case(Operation::Open, None, |it, _| push_create(it, Purpose::Open, FILE_NAME)),
    case(Operation::Create, None, |it, _| push_create(it, Purpose::NewFile, NEW_NAME)),
    case(Operation::MakeDirectory, None, |it, _| {
        push_create(it, Purpose::NewDirectory, NEW_FOLDER_NAME);
    }),
    case(Operation::OpenDirectory, LIST, |it, file| push_query_directory(it, file, 4096)),
    case(Operation::ReadDirectory, LIST, |it, file| push_query_directory(it, file, 4096)),
    case(Operation::Read, DATA, |it, file| push_read(it, file, 0, 9)),
    case(Operation::Write, DATA, |it, file| push_write(it, file, 0, b"some data")),
    case(Operation::Sync, DATA, |it, file_id| {
        it.push(Command::FLUSH, 0, &FlushRequest { file_id })
    }),
    case(Operation::Rename, CHANGE, |it, file| set(it, file, FileInformationClass::RENAME, RENAME)),
    case(Operation::SetAttributes, DATA, |it, file| {
        set(it, file, FileInformationClass::END_OF_FILE, &9_u64.to_le_bytes());
    }),
    case(Operation::GetExtendedAttribute, None, |it, _| {
        push_create(it, Purpose::Open, FILE_NAME);
    }),
    case(Operation::SetExtendedAttribute, DATA, |it, file| {
        set(it, file, FileInformationClass::FULL_EA, ATTRIBUTE);
    }),
    case(Operation::ListExtendedAttributes, DATA, |it, file| {
        query(it, file, InfoType::FILE, FileInformationClass::FULL_EA.0);
    }),
    case(Operation::FileSystemStatus, DATA, |it, file| {
        query(it, file, InfoType::FILESYSTEM, FsInformationClass::FULL_SIZE.0);
    }),
    case(Operation::Unlink, CHANGE, push_close),
];

impl Case {
    /// Name of the kind of operation.
    pub(super) fn name(&self) -> String {
        format!("{:?}", self.operation)
    }

    /// Makes the open for the request, if it needs one.
    pub(super) fn open(&self, client: &mut Client) -> Result<Option<FileId>> {
        let Some((purpose, name)) = self.open else { return Ok(None) };
        let file = requests::open(client, purpose, name)?;
        if self.operation == Operation::Unlink {
            let class = FileInformationClass::DISPOSITION;
            client.call(Command::SET_INFO, 0, &change(file, class, &[1]))?.succeeded()?;
        }
        Ok(Some(file))
    }

    /// Closes what was opened before or by the request.
    pub(super) fn clean_up(
        &self,
        client: &mut Client,
        reply: &Reply,
        file: Option<FileId>,
    ) -> Result<()> {
        let file = match file {
            Some(_) if self.operation == Operation::Unlink => return Ok(()),
            Some(file) => file,
            None => created(client, reply)?,
        };
        requests::close(client, file)
    }
}

fn set(client: &mut Client, file: FileId, class: FileInformationClass, buffer: &[u8]) {
    client.push(Command::SET_INFO, 0, &change(file, class, buffer));
}

fn change(file_id: FileId, class: FileInformationClass, buffer: &[u8]) -> SetInfoRequest<'_> {
    SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        additional_information: 0,
        file_id,
        buffer,
    }
}

fn query(client: &mut Client, file_id: FileId, info_type: InfoType, file_info_class: u8) {
    let request = QueryInfoRequest {
        info_type,
        file_info_class,
        output_buffer_length: 4096,
        file_id,
        ..QueryInfoRequest::default()
    };
    client.push(Command::QUERY_INFO, 0, &request);
}
