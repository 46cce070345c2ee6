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

use dtyp::UtcTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::AUTH_AUDIT;
use super::line::{cut, left_out};
use crate::terminal_text::is_command;

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

/// Appends a string of JSON, cut if it is too long. Also characters that would reverse the
/// direction of text are escaped.
fn string(out: &mut String, text: &str) {
    let (kept, more) = cut(text.as_bytes());
    out.push('"');
    for character in text[..kept.len()].chars() {
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
    if more > 0 {
        out.push_str(&left_out(more));
    }
    out.push('"');
}

/// A time in UTC, as RFC 3339 has it, in milliseconds.
fn timestamp(time: SystemTime) -> String {
    let millisecond = time.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_millis();
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::of(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{string, timestamp};

    #[test]
    fn times_are_in_utc_with_milliseconds() {
        let time = UNIX_EPOCH + Duration::from_millis(951_782_400_007);
        assert_eq!(timestamp(time), "2000-02-29T00:00:00.007Z");
    }

    #[test]
    fn a_clients_text_stays_in_its_string() {
        let mut out = String::new();
        string(&mut out, "a\"b\\c\nd\u{1b}e\u{202e}\u{7f}ü");
        assert_eq!(out, "\"a\\\"b\\\\c\\nd\\u001be\\u202e\\u007fü\"");
    }

    #[test]
    fn a_string_has_a_longest_length() {
        let mut out = String::new();
        string(&mut out, &"ü".repeat(30_000));
        assert!(out.len() < 7_000 && out.ends_with("ü... (53856 more bytes)\""), "{}", out.len());
    }
}
