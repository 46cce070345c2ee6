//! Lines as JSON objects, for programs that collect the logs of containers.
//!
//! ```text
//! {"time":"2026-11-24T17:00:00.123Z","level":"INFO","pid":1,"message":"listening on 0.0.0.0:445"}
//! ```
//!
//! Further fields of an event are members of their own; a target other than a module, such as
//! `auth_audit`, is the member `target`.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::AUTH_AUDIT;
use super::line::is_command;

/// Formats each event as an object.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut object = Object::begin(*event.metadata().level());
        if event.metadata().target() == AUTH_AUDIT {
            object.member("target", AUTH_AUDIT);
        }
        event.record(&mut object);
        writer.write_str(&object.end())
    }
}

/// Returns the line of a warning that is no event.
pub(super) fn note(message: &str) -> String {
    let mut object = Object::begin(Level::WARN);
    object.member("message", message);
    object.end()
}

/// An object in the making.
struct Object(String);

impl Object {
    fn begin(level: Level) -> Self {
        let mut object = Self("{\"time\":\"".to_owned());
        object.0.push_str(&timestamp(SystemTime::now()));
        object.0.push('"');
        object.member("level", level.as_str());
        object.0.push_str(&format!(",\"pid\":{}", std::process::id()));
        object
    }

    fn member(&mut self, name: &str, value: &str) {
        self.0.push(',');
        string(&mut self.0, name);
        self.0.push(':');
        string(&mut self.0, value);
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.member(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field.name(), value);
    }
}

/// Appends a string of JSON. Also characters that would reverse the direction of text are escaped.
fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // All of these are below U+10000: one unit of UTF-16.
            command if is_command(command) => {
                out.push_str(&format!("\\u{:04x}", u32::from(command)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A time in UTC, as RFC 3339 has it, in milliseconds.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let millisecond = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Year, month and day of a number of days after 1970-01-01, in years that begin with March.
fn date(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01: leap days are then the last ones of a year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{string, timestamp};

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), want);
        }
    }

    #[test]
    fn a_clients_text_stays_in_its_string() {
        let mut out = String::new();
        string(&mut out, "a\"b\\c\nd\u{1b}e\u{202e}\u{7f}ü");
        assert_eq!(out, "\"a\\\"b\\\\c\\nd\\u001be\\u202e\\u007fü\"");
    }
}
