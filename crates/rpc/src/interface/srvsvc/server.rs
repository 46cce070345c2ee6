//! The server itself: [MS-SRVS] 3.1.4.17 and 3.1.4.21.

use crate::ServerEntry;
use crate::interface::{Environment, unsupported};
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use dtyp::{FileTime, UtcTime};

/// PLATFORM_ID_NT: [MS-SRVS] 2.2.2.6.
pub(in crate::interface) const PLATFORM_NT: u32 = 500;

/// Drive of all paths.
const DRIVE: &str = "C:";

/// NetrServerGetInfo: [MS-SRVS] 3.1.4.17.
pub(super) fn server_get_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let server = environment.catalogue.server();
    let writer = Writer::default();
    if let 502 | 503 | 599 | 1005 | 1010 | 1016..=1018 | 1107 | 1501..=1556 = level {
        // SERVER_INFO has an arm for it: [MS-SRVS] 2.2.3.7.
        return Ok(writer.without_information(level, true, Win32Error::INVALID_LEVEL));
    }
    Ok(writer.answer(level, information(level, &server)))
}

/// The members of SERVER_INFO_100 to 103: [MS-SRVS] 2.2.4.40 to 2.2.4.43.
fn information(level: u32, server: &ServerEntry) -> Option<Vec<Field<'_>>> {
    let mut info = vec![Field::Value(PLATFORM_NT), Field::text(&server.name)];
    if level >= 101 {
        info.extend([
            Field::Value(server.version_major),
            Field::Value(server.version_minor),
            Field::Value(server.server_type),
            Field::text(&server.comment),
        ]);
    }
    if level >= 102 {
        info.extend([
            // Users: without limit. Disc: idle users are never disconnected.
            Field::Value(u32::MAX),
            Field::Value(u32::MAX),
            // Hidden, Announce, AnnDelta, Licenses: zero without a browser service.
            Field::Value(0),
            Field::Value(0),
            Field::Value(0),
            Field::Value(0),
            Field::text("C:\\"),
        ]);
    }
    if level >= 103 {
        // Capabilities: hashes for branch caches, of which the server makes none.
        info.push(Field::Value(0));
    }
    (100..=103).contains(&level).then_some(info)
}

/// NetrServerStatisticsGet: [MS-SRVS] 3.1.4.20, for administrators only. The server counts for each
/// worker, and not since its start.
pub(super) fn server_statistics_get(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _service) = (reader.unique_string()?, reader.unique_string()?);
    let (level, options) = (reader.u32()?, reader.u32()?);
    let result = match (level, options) {
        (0, 0) => environment.for_administrators(Win32Error::NOT_SUPPORTED),
        (0, _) => Win32Error::INVALID_PARAMETER,
        _ => Win32Error::INVALID_LEVEL,
    };
    Ok(unsupported::without_value(result))
}

/// NetrServerDiskEnum: [MS-SRVS] 3.1.4.19, for administrators only. Paths of the host are shown on
/// one drive.
pub(super) fn server_disk_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let (_entries_read, buffer) = (reader.u32()?, reader.pointer()?);
    if buffer {
        // A filled container has no meaning in a request.
        return Err(Fault::BadStub);
    }
    let (_preferred_maximum_length, resume_handle) = (reader.u32()?, reader.unique_u32()?);
    let result = match level {
        _ if !environment.catalogue.is_administrator(environment.caller) => {
            Win32Error::ACCESS_DENIED
        }
        0 => Win32Error::SUCCESS,
        _ => Win32Error::INVALID_LEVEL,
    };
    let mut writer = Writer::default();
    if result == Win32Error::SUCCESS {
        writer.u32(1);
        writer.referent();
        // A conformant and varying array of one DISK_INFO, whose text is varying.
        [1, 0, 1].into_iter().for_each(|number| writer.u32(number));
        writer.varying_string(DRIVE);
        writer.u32(1);
    } else {
        writer.u32(0);
        writer.null();
        writer.u32(0);
    }
    writer.unique_u32(resume_handle);
    Ok(writer.finish(result))
}

/// NetrRemoteTOD: [MS-SRVS] 3.1.4.21. In UTC, with a time zone of zero.
pub(super) fn remote_time_of_day(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let mut writer = Writer::default();
    writer.referent();
    for field in time_of_day(environment.catalogue.now()) {
        writer.u32(field);
    }
    Ok(writer.finish(Win32Error::SUCCESS))
}

/// The members of TIME_OF_DAY_INFO: [MS-SRVS] 2.2.4.105.
fn time_of_day(now: FileTime) -> [u32; 12] {
    let (seconds, nanoseconds) = now.to_unix();
    // Years beyond 2106 do not fit into the field, and a running server is never before 1970.
    let seconds = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_unix(seconds.into());
    let milliseconds = seconds.wrapping_mul(1000).wrapping_add(nanoseconds / 1_000_000);
    [
        seconds,
        // Milliseconds of a clock with any origin.
        milliseconds,
        hour.into(),
        minute.into(),
        second.into(),
        nanoseconds / 10_000_000,
        // Minutes west of UTC.
        0,
        // The clock's interval, in 0.1 ms.
        310,
        day.into(),
        month.into(),
        u32::try_from(year).expect("at most 2106"),
        // 1970-01-01 was a Thursday.
        (seconds / 86_400 + 4) % 7,
    ]
}

#[cfg(test)]
mod tests {
    use super::time_of_day;
    use dtyp::FileTime;

    #[test]
    fn the_time_of_day_is_utc() {
        // 2026-11-20, a Friday, 20:13:16.25.
        let now = FileTime::from_unix(1_795_205_596, 250_000_000);
        let [elapsed, _, rest @ ..] = time_of_day(now);
        assert_eq!(elapsed, 1_795_205_596);
        assert_eq!(rest, [20, 13, 16, 25, 0, 310, 20, 11, 2026, 5]);
    }
}
