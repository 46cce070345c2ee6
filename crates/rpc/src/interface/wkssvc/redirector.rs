//! The redirector, which is the client of a Windows machine: [MS-WKST] 3.2.4.4 to 3.2.4.11. This
//! server has none.

use crate::interface::enumeration::Enumeration;
use crate::interface::{Environment, unsupported};
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
    let error = match level {
        0 if has_name => Win32Error::INVALID_FUNCTION,
        0 => Win32Error::INVALID_PARAMETER,
        _ => Win32Error::INVALID_LEVEL,
    };
    Ok(unsupported::without_value(environment.for_administrators(error)))
}

/// NetrUseAdd: [MS-WKST] 3.2.4.7. None of these four operations is for remote callers.
pub(super) fn use_add(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(unsupported::without_value(Win32Error::CALL_NOT_IMPLEMENTED))
}

/// NetrUseGetInfo: [MS-WKST] 3.2.4.8.
pub(super) fn use_get_info(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _use_name) = (reader.unique_string()?, reader.string()?);
    let level = reader.u32()?;
    Ok(Writer::default().without_information(level, level <= 3, Win32Error::CALL_NOT_IMPLEMENTED))
}

/// NetrUseDel: [MS-WKST] 3.2.4.9.
pub(super) fn use_del(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(Win32Error::CALL_NOT_IMPLEMENTED))
}

/// NetrUseEnum: [MS-WKST] 3.2.4.10.
pub(super) fn use_enum(reader: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    empty_list(reader, 2, Win32Error::CALL_NOT_IMPLEMENTED)
}

/// NetrWorkstationStatisticsGet: [MS-WKST] 3.2.4.11. Counters that a server does not have are zero.
/// No counting ever began, so its time is the present one, in Windows' form.
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
        return Ok(unsupported::without_value(refused));
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
    let list = Enumeration::read(reader)?.rewound();
    Ok(if list.level() <= level_max {
        list.refuse(result)
    } else {
        list.refuse_level(Win32Error::INVALID_LEVEL)
    })
}
