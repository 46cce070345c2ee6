//! Character devices and their queues, of which no server since Windows 2000 has any. Their
//! operations return ERROR_NOT_SUPPORTED: [MS-SRVS] 3.1.4, opnums 0 to 7. The forms of parameters
//! and results are those of LAN Manager.

use super::enumeration::Enumeration;
use crate::interface::Environment;
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
    Ok(match enumeration.level() {
        0 | 1 => enumeration.refuse(Win32Error::NOT_SUPPORTED),
        _ => enumeration.refuse_level(Win32Error::NOT_SUPPORTED),
    })
}

/// Returns the union of information structures without one. It has arms for levels 0 and 1.
fn without_information(level: u32) -> Vec<u8> {
    let mut writer = Writer::default();
    match level {
        0 | 1 => writer.information(level, None),
        _ => writer.u32(level),
    }
    writer.finish(Win32Error::NOT_SUPPORTED)
}
