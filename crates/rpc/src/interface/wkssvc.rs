//! The workstation service: [MS-WKST].

use super::srvsvc::PLATFORM_NT;
use super::{Environment, Interface};
use crate::ServerEntry;
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::{Fault, SyntaxId};
use crate::win32::Win32Error;
use dtyp::Guid;

pub(super) static INTERFACE: Interface = Interface {
    name: "wkssvc",
    syntax: SyntaxId {
        uuid: Guid::from_fields(
            0x6BFF_D098,
            0xA112,
            0x3610,
            [0x98, 0x33, 0x46, 0xC3, 0xF8, 0x7E, 0x34, 0x5A],
        ),
        major: 1,
        minor: 0,
    },
    operations: &[(0, get_info), (2, user_enum)],
    asking: &[],
};

/// NetrWkstaGetInfo: [MS-WKST] 3.2.4.1.
fn get_info(reader: &mut Reader<'_>, environment: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let server = environment.catalogue.server();
    Ok(Writer::default().answer(level, information(level, &server)))
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
fn user_enum(reader: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.empty_container()?;
    let (_preferred_maximum_length, resume_handle) = (reader.u32()?, reader.unique_u32()?);
    let mut writer = Writer::default();
    let known = matches!(level, 0 | 1);
    if known {
        writer.container(level, &[]);
    } else {
        writer.u32(level);
        writer.u32(level);
    }
    writer.u32(0);
    writer.unique_u32(resume_handle.map(|_| 0));
    Ok(writer.finish(if known { Win32Error::SUCCESS } else { Win32Error::INVALID_LEVEL }))
}
