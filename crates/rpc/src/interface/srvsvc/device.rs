//! Character devices and their queues, of LAN Manager. The protocol has kept the numbers of their
//! operations, which return ERROR_NOT_SUPPORTED: [MS-SRVS] 3.1.4, opnums 0 to 7. It no longer has
//! the forms of parameters and results; these are those of Samba's clients.

use crate::interface::Environment;
use crate::interface::enumeration::Enumeration;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Refuses NetrCharDevEnum: [MS-SRVS] 3.1.4, opnum 0.
pub(super) fn device_enum(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    refuse_list(reader)
}

/// Refuses NetrCharDevQEnum: [MS-SRVS] 3.1.4, opnum 3.
pub(super) fn queue_enum(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _user) = (reader.unique_string()?, reader.unique_string()?);
    refuse_list(reader)
}

/// Refuses NetrCharDevGetInfo: [MS-SRVS] 3.1.4, opnum 1.
pub(super) fn device_get_info(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _device) = (reader.unique_string()?, reader.string()?);
    Ok(without_information(reader.u32()?))
}

/// Refuses NetrCharDevQGetInfo: [MS-SRVS] 3.1.4, opnum 4.
pub(super) fn queue_get_info(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let (_queue, _user) = (reader.string()?, reader.string()?);
    Ok(without_information(reader.u32()?))
}

fn refuse_list(reader: &mut Reader<'_>) -> Result<Vec<u8>, Fault> {
    let enumeration = Enumeration::read(reader)?;
    let refuse =
        if has_arm(enumeration.level()) { Enumeration::refuse } else { Enumeration::refuse_level };
    Ok(refuse(enumeration, Win32Error::NOT_SUPPORTED))
}

fn without_information(level: u32) -> Vec<u8> {
    Writer::default().without_information(level, has_arm(level), Win32Error::NOT_SUPPORTED)
}

/// Whether the unions of structures of devices and queues have an arm for a level.
fn has_arm(level: u32) -> bool {
    level <= 1
}
