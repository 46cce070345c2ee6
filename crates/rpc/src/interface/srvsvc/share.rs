//! Shares: [MS-SRVS] 3.1.4.8 to 3.1.4.10.

use crate::ShareEntry;
use crate::interface::Environment;
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use std::borrow::Cow;

/// STYPE_SPECIAL: [MS-SRVS] 2.2.2.4.
const SPECIAL: u32 = 0x8000_0000;

/// NetrShareEnum and NetrShareEnumSticky: [MS-SRVS] 3.1.4.8, 3.1.4.9.
///
/// The resume handle is the number of shares returned so far.
pub(super) fn share_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.empty_container()?;
    let preferred_maximum_length = reader.u32()?;
    let resume_handle = reader.unique_u32()?;

    if !environment.catalogue.admits(environment.caller) {
        let mut writer = Writer::default();
        writer.container(level, &[]);
        writer.u32(0);
        writer.unique_u32(resume_handle);
        return Ok(writer.finish(Win32Error::ACCESS_DENIED));
    }
    let shares = environment.catalogue.shares(environment.caller);
    let listed = usize::try_from(resume_handle.unwrap_or(0)).unwrap_or(usize::MAX);
    let rest = shares.get(listed..).unwrap_or(&[]);
    let entries: Option<Vec<_>> = rest.iter().map(|share| information(level, share)).collect();
    let mut writer = Writer::default();
    let Some(mut entries) = entries.filter(|_| is_enum_level(level)) else {
        // The union has no arm for this level, so only the tag follows.
        writer.u32(level);
        writer.u32(level);
        writer.u32(0);
        writer.unique_u32(resume_handle);
        return Ok(writer.finish(Win32Error::INVALID_LEVEL));
    };
    let total = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    entries.truncate(fitting(&entries, preferred_maximum_length));
    let read = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    writer.container(level, &entries);
    writer.u32(total);
    writer.unique_u32(
        resume_handle.map(|handle| if read < total { handle.saturating_add(read) } else { 0 }),
    );
    Ok(writer.finish(if read < total { Win32Error::MORE_DATA } else { Win32Error::SUCCESS }))
}

/// Number of `entries` within the length that the client prefers; at least one, so that an
/// enumeration with resume handles always ends.
fn fitting(entries: &[Vec<Field<'_>>], preferred_maximum_length: u32) -> usize {
    let limit = usize::try_from(preferred_maximum_length).unwrap_or(usize::MAX);
    let mut len = 0_usize;
    let within = entries.iter().take_while(|entry| {
        len += entry.iter().map(Field::len).sum::<usize>();
        len <= limit
    });
    within.count().max(1).min(entries.len())
}

/// NetrShareGetInfo: [MS-SRVS] 3.1.4.10. A caller without access causes no look-up.
pub(super) fn share_get_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let net_name = reader.string()?;
    let level = reader.u32()?;

    let is_admitted = environment.catalogue.admits(environment.caller);
    let find = || environment.catalogue.share(environment.caller, &net_name);
    let (result, share) = match is_admitted.then(find) {
        Some(Some(share)) => (Win32Error::SUCCESS, share),
        Some(None) => (Win32Error::NET_NAME_NOT_FOUND, ShareEntry::default()),
        None => (Win32Error::ACCESS_DENIED, ShareEntry::default()),
    };
    let mut writer = Writer::default();
    match information(level, &share) {
        Some(info) => {
            writer.information(level, (result == Win32Error::SUCCESS).then_some(info));
            Ok(writer.finish(result))
        }
        None => {
            writer.u32(level);
            Ok(writer.finish(Win32Error::INVALID_LEVEL))
        }
    }
}

/// Levels of an enumeration; [`information`] also has levels of single shares.
fn is_enum_level(level: u32) -> bool {
    matches!(level, 0 | 1 | 2 | 501 | 502 | 503)
}

/// The members of SHARE_INFO_0 to SHARE_INFO_1006: [MS-SRVS] 2.2.4.22 to 2.2.4.30. `None` for any
/// other level.
fn information(level: u32, share: &ShareEntry) -> Option<Vec<Field<'_>>> {
    let name = || Field::text(&share.name);
    let kind = || Field::Value(share.kind | if share.hidden { SPECIAL } else { 0 });
    let remark = || Field::text(&share.comment);
    // Permissions and passwords belong to share-level security, which is not supported.
    let uses = || {
        let (max, current) = (Field::Value(share.max_users), Field::Value(share.current_users));
        [Field::Value(0), max, current, Field::Text(shown_path(&share.path)), Field::Null]
    };
    // No security descriptor: a length of zero and a null pointer.
    let descriptor = [Field::Value(0), Field::Null];
    Some(match level {
        0 => vec![name()],
        1 => vec![name(), kind(), remark()],
        2 => [name(), kind(), remark()].into_iter().chain(uses()).collect(),
        // shi501_flags: clients may cache documents manually, the default.
        501 => vec![name(), kind(), remark(), Field::Value(0)],
        502 => [name(), kind(), remark()].into_iter().chain(uses()).chain(descriptor).collect(),
        503 => {
            let scope = Field::text("*");
            let all = [name(), kind(), remark()].into_iter().chain(uses());
            all.chain([scope]).chain(descriptor).collect()
        }
        1004 => vec![remark()],
        1005 => vec![Field::Value(0)],
        1006 => vec![Field::Value(share.max_users)],
        _ => return None,
    })
}

/// Converts a path to the form that clients expect, with a drive and backslashes.
fn shown_path(path: &str) -> Cow<'_, str> {
    if path.starts_with('/') {
        Cow::Owned(format!("C:{}", path.replace('/', "\\")))
    } else {
        Cow::Borrowed(path)
    }
}
