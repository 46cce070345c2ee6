//! FileBasicInformation: [MS-FSA] 2.1.5.15.2.

use dtyp::fscc::FileBasicInformation;
use dtyp::{AccessMask, FileAttributes, FileTime};
use engine::response::Step;
use model::open::Open;
use model::reject::Reject;
use object::{BasicChange, ObjectOp};
use wire::change_notify::CompletionFilter;

use super::{Pending, change, decode, done};

/// Sets a file's times and attributes.
pub(super) fn start(open: &Open, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    open.verify_access(AccessMask::WRITE_ATTRIBUTES)?;
    let basic = decode(FileBasicInformation::decode(buffer))?;
    let file = open.file()?;
    let (creation_time, _) = time(basic.creation_time)?;
    let (last_access_time, keep_last_access_time) = time(basic.last_access_time)?;
    let (last_write_time, keep_last_write_time) = time(basic.last_write_time)?;
    let (change_time, _) = time(basic.change_time)?;
    let change_wanted = BasicChange {
        creation_time,
        last_access_time,
        last_write_time,
        change_time,
        attributes: attributes(basic.file_attributes, file.is_directory)?,
        keep_last_access_time,
        keep_last_write_time,
    };
    if change_wanted.is_empty() {
        return done();
    }
    let op = ObjectOp::SetBasic { open: file.local_open, basic: change_wanted.into() };
    Ok(change(open, op, filter(&change_wanted)))
}

/// Returns the time to set, and whether later operations of this open leave it alone: −1 and −2
/// stop and resume its automatic update, setting a time stops it, zero changes nothing ([MS-FSCC]
/// 2.4.7, [MS-FSA] 2.1.5.15.2). The creation time has no automatic update, and the change time of a
/// POSIX file can neither be set nor kept.
fn time(time: FileTime) -> Result<(Option<FileTime>, Option<bool>), Reject> {
    match time.0.cast_signed() {
        0 => Ok((None, None)),
        -1 => Ok((None, Some(true))),
        -2 => Ok((None, Some(false))),
        ..-2 => Err(Reject::TimeInvalid(time)),
        _ => Ok((Some(time), Some(true))),
    }
}

/// Returns the attributes to set: none for zero, and an empty set for NORMAL.
fn attributes(
    wanted: FileAttributes,
    is_directory: bool,
) -> Result<Option<FileAttributes>, Reject> {
    let invalid = if is_directory {
        wanted.contains(FileAttributes::TEMPORARY)
    } else {
        wanted.contains(FileAttributes::DIRECTORY)
    };
    if invalid {
        return Err(Reject::AttributesInvalid(wanted));
    }
    Ok((!wanted.is_empty()).then_some(wanted & FileAttributes::SETTABLE))
}

fn filter(change: &BasicChange) -> CompletionFilter {
    let mut filter = CompletionFilter::empty();
    filter.set(CompletionFilter::ATTRIBUTES, change.attributes.is_some());
    filter.set(CompletionFilter::LAST_ACCESS, change.last_access_time.is_some());
    filter.set(CompletionFilter::LAST_WRITE, change.last_write_time.is_some());
    filter.set(CompletionFilter::CREATION, change.creation_time.is_some());
    filter
}
