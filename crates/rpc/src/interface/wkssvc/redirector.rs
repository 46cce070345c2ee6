//! The redirector, which is the client of a Windows machine: [MS-WKST] 3.2.4.4 to 3.2.4.11. This
//! server has none.

use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// 64-bit and 32-bit counters of STAT_WORKSTATION_0, behind its time: [MS-WKST] 2.2.5.11.
const COUNTERS: (usize, usize) = (12, 27);

/// NetrWkstaTransportEnum: [MS-WKST] 3.2.4.4. A redirector would have transports.
pub(super) fn transport_enum(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    empty_list(reader, 0, Win32Error::SUCCESS)
}

/// NetrWkstaTransportAdd: [MS-WKST] 3.2.4.5. Windows no longer adds one either.
pub(super) fn transport_add(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, level) = (reader.unique_string()?, reader.u32()?);
    let (_quality_of_service, _clients) = (reader.u32()?, reader.u32()?);
    let has_name = reader.pointer()?;
    Ok(with_null(match level {
        _ if !environment.catalogue.is_administrator(environment.caller) => {
            Win32Error::ACCESS_DENIED
        }
        0 if has_name => Win32Error::INVALID_FUNCTION,
        0 => Win32Error::INVALID_PARAMETER,
        _ => Win32Error::INVALID_LEVEL,
    }))
}

/// NetrUseAdd: [MS-WKST] 3.2.4.7. None of these four operations is for remote callers.
pub(super) fn use_add(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(with_null(Win32Error::CALL_NOT_IMPLEMENTED))
}

/// NetrUseGetInfo: [MS-WKST] 3.2.4.8.
pub(super) fn use_get_info(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _use_name) = (reader.unique_string()?, reader.string()?);
    let level = reader.u32()?;
    let mut writer = Writer::default();
    match level {
        0..=3 => writer.information(level, None),
        _ => writer.u32(level),
    }
    Ok(writer.finish(Win32Error::CALL_NOT_IMPLEMENTED))
}

/// NetrUseDel: [MS-WKST] 3.2.4.9.
pub(super) fn use_del(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(Win32Error::CALL_NOT_IMPLEMENTED))
}

/// NetrUseEnum: [MS-WKST] 3.2.4.10.
pub(super) fn use_enum(reader: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    empty_list(reader, 2, Win32Error::CALL_NOT_IMPLEMENTED)
}

/// NetrWorkstationStatisticsGet: [MS-WKST] 3.2.4.11. Nothing was counted until now.
pub(super) fn statistics_get(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _service) = (reader.unique_string()?, reader.unique_string()?);
    let (level, options) = (reader.u32()?, reader.u32()?);
    let refused = match (level, options) {
        _ if !environment.catalogue.admits(environment.caller) => Some(Win32Error::ACCESS_DENIED),
        (0, 0) => None,
        (0, _) => Some(Win32Error::INVALID_PARAMETER),
        _ => Some(Win32Error::INVALID_LEVEL),
    };
    if let Some(refused) = refused {
        return Ok(with_null(refused));
    }
    let mut writer = Writer::default();
    writer.referent();
    writer.i64(environment.catalogue.now().0.cast_signed());
    let (long, short) = COUNTERS;
    (0..long).for_each(|_| writer.i64(0));
    (0..short).for_each(|_| writer.u32(0));
    Ok(writer.finish(Win32Error::SUCCESS))
}

/// Answers an enumeration with levels up to `level_max` by a list without entries.
pub(super) fn empty_list(
    reader: &mut Reader<'_>,
    level_max: u32,
    result: Win32Error,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.empty_container()?;
    let (_preferred_maximum_length, resume_handle) = (reader.u32()?, reader.unique_u32()?);
    let is_known = level <= level_max;
    let mut writer = Writer::default();
    if is_known {
        writer.container(level, &[]);
    } else {
        writer.u32(level);
        writer.u32(level);
    }
    writer.u32(0);
    writer.unique_u32(resume_handle.map(|_| 0));
    Ok(writer.finish(if is_known { result } else { Win32Error::INVALID_LEVEL }))
}

/// A null pointer and a result.
fn with_null(result: Win32Error) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.null();
    writer.finish(result)
}
