//! Times of snapshots, from their names.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dtyp::FileTime;

use crate::security::credentials::Impersonation;
use crate::settings::{NameFormat, NamePrefix, SnapshotNames, SnapshotSettings};
use crate::sys::basic_expression::BasicExpression;
use crate::sys::system;

/// File that snapper keeps beside a snapshot, and the directory that is the snapshot.
const INFO: &str = "info.xml";
const SNAPSHOT: &str = "snapshot";

/// Format of the time in `info.xml`; the time zone is UTC.
const INFO_FORMAT: &CStr = c"%Y-%m-%d %H:%M:%S";

impl SnapshotSettings {
    /// The format that alone makes the name of a snapshot from its time, if there is one.
    pub(super) fn only_format(&self) -> Option<&NameFormat> {
        match &self.names[..] {
            [SnapshotNames::Format(format)] if format.prefix.is_none() => Some(format),
            _ => None,
        }
    }
}

/// The forms of names, ready to be compared with.
pub(super) struct NameReader<'s>(Vec<Form<'s>>);

enum Form<'s> {
    Plain(&'s NameFormat),
    Prefixed(&'s NameFormat, &'s NamePrefix, BasicExpression),
    Snapper,
}

impl<'s> NameReader<'s> {
    pub(super) fn new(settings: &'s SnapshotSettings) -> Self {
        let forms = settings.names.iter().filter_map(|names| match names {
            SnapshotNames::Snapper => Some(Form::Snapper),
            SnapshotNames::Format(format) => Some(match &format.prefix {
                None => Form::Plain(format),
                Some(prefix) => Form::Prefixed(format, prefix, prefix.compiled()?),
            }),
        });
        Self(forms.collect())
    }

    /// Returns the time of the snapshot of this name in `directory`, and its path from there.
    pub(super) fn read(
        &self,
        impersonation: &mut Impersonation,
        directory: BorrowedFd<'_>,
        name: &CStr,
    ) -> Option<(FileTime, PathBuf)> {
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        self.0.iter().find_map(|form| {
            let (seconds, path) = match form {
                Form::Plain(format) => (time_in(name, format, true)?, path.to_owned()),
                Form::Prefixed(format, prefix, expression) => {
                    let (prefix, time) = prefix.split(name)?;
                    let matches = expression.matches(&prefix);
                    let seconds = matches.then(|| time_in(time, format, false))??;
                    (seconds, path.to_owned())
                }
                Form::Snapper => {
                    let is_number = name.to_bytes().iter().all(u8::is_ascii_digit);
                    let info = is_number.then(|| path.join(INFO))?;
                    let info = impersonation.read_snapshot_info(directory, &info).ok()?;
                    (time_in_info(&info)?, path.join(SNAPSHOT))
                }
            };
            Some((FileTime::from_unix(seconds, 0), path))
        })
    }
}

/// Returns the time that a text begins with, or that it consists of.
fn time_in(text: &CStr, format: &NameFormat, whole: bool) -> Option<i64> {
    let (seconds, rest) = system::parse_time(text, &format.format, format.local_time)?;
    (rest.is_empty() || !whole).then_some(seconds)
}

/// Returns the time in a file `info.xml`. Its element `date` has neither attributes nor entities,
/// and snapper writes `<` in texts of users as an entity.
fn time_in_info(info: &[u8]) -> Option<i64> {
    let info = String::from_utf8_lossy(info);
    let (_, date) = info.split_once("<date>")?;
    let (date, _) = date.split_once("</date>")?;
    let date = CString::new(date).ok()?;
    let (seconds, rest) = system::parse_time(&date, INFO_FORMAT, false)?;
    rest.is_empty().then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::time_in_info;

    #[test]
    fn the_date_of_snapper_is_read_and_nothing_else() {
        let info = |date: &str| {
            let text = format!(
                "<?xml version=\"1.0\"?>\n<snapshot>\n  <type>single</type>\n  <num>1</num>\n  \
                 {date}\n  <description>&lt;date&gt;</description>\n</snapshot>\n"
            );
            time_in_info(text.as_bytes())
        };
        assert_eq!(info("<date>2024-01-31 12:30:05</date>"), Some(1_706_704_205));
        for bad in [
            "",
            "<date>2024-01-31 12:30:05",
            "<date>2024-01-31 12:30:05Z</date>",
            "<date>2024-01-31</date>",
            "<date>\0</date>",
        ] {
            assert_eq!(info(bad), None, "{bad}");
        }
    }
}
