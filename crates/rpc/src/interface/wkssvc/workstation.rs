//! The machine and its users: [MS-WKST] 3.2.4.1, 3.2.4.3.

use crate::ServerEntry;
use crate::interface::Environment;
use crate::interface::srvsvc::PLATFORM_NT;
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// NetrWkstaGetInfo: [MS-WKST] 3.2.4.1.
pub(super) fn get_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let server = environment.catalogue.server();
    let refused = match level {
        // The settings of a redirector, for administrators.
        502 => Some(environment.for_administrators(Win32Error::NOT_SUPPORTED)),
        // WKSTA_INFO has an arm for each of them ([MS-WKST] 2.2.4.1), and these are to be set only.
        1010..=1013 | 1018 | 1023 | 1027 | 1028 | 1032 | 1033 | 1041..=1062 => {
            Some(Win32Error::INVALID_LEVEL)
        }
        _ => None,
    };
    let writer = Writer::default();
    Ok(match refused {
        Some(refused) => writer.without_information(level, true, refused),
        None => writer.answer(level, information(level, &server)),
    })
}

/// The members of WKSTA_INFO_100, 101 and 102: [MS-WKST] 2.2.5.1 to 2.2.5.3.
fn information(level: u32, server: &ServerEntry) -> Option<Vec<Field<'_>>> {
    let mut info = vec![
        Field::Value(PLATFORM_NT),
        Field::text(&server.name),
        Field::text(&server.domain),
        Field::Value(server.version_major),
        Field::Value(server.version_minor),
    ];
    if level >= 101 {
        // The LAN root, of the former LAN Manager.
        info.push(Field::text(""));
    }
    if level >= 102 {
        // Number of logged on users: none at the server's console.
        info.push(Field::Value(0));
    }
    (100..=102).contains(&level).then_some(info)
}

/// NetrWkstaUserEnum: [MS-WKST] 3.2.4.3. The list is empty: no user is logged on at the console.
pub(super) fn user_enum(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    super::redirector::empty_list(reader, 1, Win32Error::SUCCESS)
}

/// NetrWkstaUserGetInfo, opnum 3, for which Windows finds no user of a remote caller. Its union has
/// arms for three levels.
pub(super) fn user_get_info(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _reserved = reader.unique_string()?;
    let level = reader.u32()?;
    let has_arm = matches!(level, 0 | 1 | 1101);
    Ok(Writer::default().without_information(level, has_arm, Win32Error::NO_SUCH_LOGON_SESSION))
}
