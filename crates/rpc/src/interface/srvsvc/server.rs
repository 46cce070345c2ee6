//! The server itself: [MS-SRVS] 3.1.4.17 and 3.1.4.21.

use crate::ServerEntry;
use crate::interface::Environment;
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use dtyp::FileTime;

/// PLATFORM_ID_NT: [MS-SRVS] 2.2.2.6.
pub(in crate::interface) const PLATFORM_NT: u32 = 500;

/// NetrServerGetInfo: [MS-SRVS] 3.1.4.17.
pub(super) fn server_get_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let server = environment.catalogue.server();
    Ok(Writer::default().answer(level, information(level, &server)))
}

/// The members of SERVER_INFO_100, 101 and 102: [MS-SRVS] 2.2.4.40 to 2.2.4.42.
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
    (100..=102).contains(&level).then_some(info)
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
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    let milliseconds = seconds.wrapping_mul(1000).wrapping_add(nanoseconds / 1_000_000);
    [
        seconds,
        // Milliseconds of a clock with any origin.
        milliseconds,
        second / 3600,
        second / 60 % 60,
        second % 60,
        nanoseconds / 10_000_000,
        // Minutes west of UTC.
        0,
        // The clock's interval, in 0.1 ms.
        310,
        day,
        month,
        year,
        // 1970-01-01 was a Thursday.
        (days + 4) % 7,
    ]
}

/// Year, month and day of the date `days` days after 1970-01-01.
fn civil_from_days(mut days: u32) -> (u32, u32, u32) {
    let is_leap = |year: u32| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u32::from(is_leap(year)) {
        days -= 365 + u32::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u32::from(is_leap(year));
    let mut month = 1;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::{civil_from_days, time_of_day};
    use dtyp::FileTime;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (20_777, (2026, 11, 20)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_from_days(days), date);
        }
    }

    #[test]
    fn the_time_of_day_is_utc() {
        // 2026-11-20, a Friday, 20:13:16.25.
        let now = FileTime::from_unix(1_795_205_596, 250_000_000);
        let [elapsed, _, rest @ ..] = time_of_day(now);
        assert_eq!(elapsed, 1_795_205_596);
        assert_eq!(rest, [20, 13, 16, 25, 0, 310, 20, 11, 2026, 5]);
    }
}
