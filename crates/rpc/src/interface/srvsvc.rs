//! The server service: [MS-SRVS].

mod server;
mod share;

pub(super) use server::PLATFORM_NT;

use super::{Environment, Interface};
use crate::ndr::{Reader, Writer};
use crate::pdu::{Fault, SyntaxId};
use crate::win32::Win32Error;
use dtyp::Guid;

pub(super) static INTERFACE: Interface = Interface {
    name: "srvsvc",
    syntax: SyntaxId {
        uuid: Guid::from_fields(
            0x4B32_4FC8,
            0x1670,
            0x01D3,
            [0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E, 0xE1, 0x88],
        ),
        major: 3,
        minor: 0,
    },
    operations: &[
        (8, connection_enum),
        (9, file_enum),
        (12, session_enum),
        (15, share::share_enum),
        (16, share::share_get_info),
        (21, server::server_get_info),
        (28, server::remote_time_of_day),
        (36, share::share_enum),
    ],
};

/// NetrConnectionEnum: [MS-SRVS] 3.1.4.1.
fn connection_enum(reader: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    let (_server_name, _qualifier) = (reader.unique_string()?, reader.unique_string()?);
    denied_enumeration(reader)
}

/// NetrFileEnum: [MS-SRVS] 3.1.4.2.
fn file_enum(reader: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    let (_server_name, _base_path) = (reader.unique_string()?, reader.unique_string()?);
    let _user_name = reader.unique_string()?;
    denied_enumeration(reader)
}

/// NetrSessionEnum: [MS-SRVS] 3.1.4.5.
fn session_enum(reader: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    let (_server_name, _client_name) = (reader.unique_string()?, reader.unique_string()?);
    let _user_name = reader.unique_string()?;
    denied_enumeration(reader)
}

/// Responds with ACCESS_DENIED: only administrators may list connections, and a pipe knows no
/// administrators yet.
fn denied_enumeration(reader: &mut Reader<'_>) -> Result<Vec<u8>, Fault> {
    let level = reader.empty_container()?;
    let (_preferred_maximum_length, resume_handle) = (reader.u32()?, reader.unique_u32()?);
    let mut writer = Writer::default();
    writer.container(level, &[]);
    writer.u32(0);
    writer.unique_u32(resume_handle);
    Ok(writer.finish(Win32Error::ACCESS_DENIED))
}
