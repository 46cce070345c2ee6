//! QUERY_DIRECTORY, QUERY_INFO and SET_INFO of any kind.

use dtyp::fscc::{FileBasicInformation, FileRenameInformation};
use dtyp::{FileAttributes, FileInformationClass, utf16};
use testkit::entropy::Random;
use testkit::{Peer, Request};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use wire::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest};
use wire::set_info::SetInfoRequest;
use wire::{Command, FileId};

use crate::creates::{NAMES, extended_attribute};

/// Classes of listings, of which the server knows most.
const LISTINGS: [FileInformationClass; 13] = [
    FileInformationClass::DIRECTORY,
    FileInformationClass::FULL_DIRECTORY,
    FileInformationClass::BOTH_DIRECTORY,
    FileInformationClass::NAMES,
    FileInformationClass::ID_BOTH_DIRECTORY,
    FileInformationClass::ID_FULL_DIRECTORY,
    FileInformationClass::ID_EXTD_DIRECTORY,
    FileInformationClass::ID_EXTD_BOTH_DIRECTORY,
    FileInformationClass::ID_64_EXTD_DIRECTORY,
    FileInformationClass::ID_64_EXTD_BOTH_DIRECTORY,
    FileInformationClass::ID_ALL_EXTD_DIRECTORY,
    FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY,
    FileInformationClass::POSIX,
];

/// Classes to set; those that rename and delete more often than others.
const SETTINGS: [FileInformationClass; 20] = [
    FileInformationClass::BASIC,
    FileInformationClass::RENAME,
    FileInformationClass::RENAME,
    FileInformationClass::RENAME,
    FileInformationClass::RENAME_EX,
    FileInformationClass::LINK,
    FileInformationClass::LINK,
    FileInformationClass::LINK_EX,
    FileInformationClass::DISPOSITION,
    FileInformationClass::DISPOSITION,
    FileInformationClass::DISPOSITION,
    FileInformationClass::DISPOSITION_EX,
    FileInformationClass::DISPOSITION_EX,
    FileInformationClass::POSITION,
    FileInformationClass::FULL_EA,
    FileInformationClass::MODE,
    FileInformationClass::ALLOCATION,
    FileInformationClass::END_OF_FILE,
    FileInformationClass::VALID_DATA_LENGTH,
    FileInformationClass::SHORT_NAME,
];

/// Returns any QUERY_DIRECTORY of an open.
pub(crate) fn listing(random: &mut Random, peer: &Peer, file_id: FileId) -> Request {
    let pattern = utf16::to_bytes(random.one_of(&["*", "a*", "", "?", "<.txt", "x\\y"]));
    let body = QueryDirectoryRequest {
        file_information_class: random.one_of(&LISTINGS),
        flags: random.one_of(&[
            QueryDirectoryFlags::empty(),
            QueryDirectoryFlags::RESTART_SCANS,
            QueryDirectoryFlags::RETURN_SINGLE_ENTRY,
            QueryDirectoryFlags::INDEX_SPECIFIED,
            QueryDirectoryFlags::REOPEN,
            QueryDirectoryFlags::REOPEN.union(QueryDirectoryFlags::RETURN_SINGLE_ENTRY),
        ]),
        file_index: 0,
        file_id,
        output_buffer_length: random.one_of(&[0, 30, 104, 120, 200, 65_536]),
        file_name: &pattern,
    };
    peer.request(Command::QUERY_DIRECTORY, &body)
}

/// Returns any QUERY_INFO of an open.
pub(crate) fn query(random: &mut Random, peer: &Peer, file_id: FileId) -> Request {
    // FILE_GET_EA_INFORMATION for one name: [MS-FSCC] 2.4.16.1.
    let names: &[u8] = if random.percent(20) { &[0, 0, 0, 0, 2, b'e', b'a', 0] } else { &[] };
    let classes: Vec<u8> = (0..80).collect();
    let body = QueryInfoRequest {
        info_type: random.one_of(&[
            InfoType::FILE,
            InfoType::FILE,
            InfoType::FILE,
            InfoType::FILESYSTEM,
            InfoType::SECURITY,
            InfoType::QUOTA,
        ]),
        file_info_class: random.one_of(&classes),
        output_buffer_length: random.one_of(&[0, 4, 8, 24, 40, 100, 1_000]),
        additional_information: random.one_of(&[0, 1, 7, 15, u32::MAX]),
        flags: random.one_of(&[
            QueryInfoFlags::empty(),
            QueryInfoFlags::RESTART_SCAN,
            QueryInfoFlags::RETURN_SINGLE_ENTRY,
            QueryInfoFlags::INDEX_SPECIFIED,
        ]),
        file_id,
        input_buffer: names,
    };
    peer.request(Command::QUERY_INFO, &body)
}

/// Returns any SET_INFO of an open.
pub(crate) fn setting(random: &mut Random, peer: &Peer, file_id: FileId) -> Request {
    let class = random.one_of(&SETTINGS);
    let buffer = content(random, class);
    let body = SetInfoRequest {
        info_type: random.one_of(&[
            InfoType::FILE,
            InfoType::FILE,
            InfoType::FILE,
            InfoType::FILE,
            InfoType::FILE,
            InfoType::FILESYSTEM,
            InfoType::SECURITY,
        ]),
        file_info_class: class.0,
        additional_information: 0,
        file_id,
        buffer: &buffer,
    };
    peer.request(Command::SET_INFO, &body)
}

fn content(random: &mut Random, class: FileInformationClass) -> Vec<u8> {
    let mut content = Vec::new();
    match class {
        FileInformationClass::RENAME
        | FileInformationClass::RENAME_EX
        | FileInformationClass::LINK
        | FileInformationClass::LINK_EX => FileRenameInformation {
            flags: random.one_of(&[
                0,
                FileRenameInformation::REPLACE_IF_EXISTS,
                FileRenameInformation::REPLACE_IF_EXISTS | FileRenameInformation::POSIX_SEMANTICS,
            ]),
            root_directory: 0,
            file_name: random.one_of(&NAMES).to_owned(),
        }
        .encode(&mut content),
        FileInformationClass::DISPOSITION => content.push(random.one_of(&[0, 1])),
        FileInformationClass::DISPOSITION_EX => {
            // All combinations of the four lowest flags: [MS-FSCC] 2.4.12.
            let flags: Vec<u32> = (0..16).collect();
            content.extend(random.one_of(&flags).to_le_bytes());
        }
        FileInformationClass::BASIC => FileBasicInformation {
            file_attributes: random.one_of(&[
                FileAttributes::empty(),
                FileAttributes::READONLY,
                FileAttributes::HIDDEN,
                FileAttributes::ARCHIVE,
                FileAttributes::NORMAL,
            ]),
            ..FileBasicInformation::default()
        }
        .encode(&mut content),
        FileInformationClass::FULL_EA => content = extended_attribute(),
        _ => content = vec![0; random.one_of(&[1, 8, 24, 40])],
    }
    content
}
