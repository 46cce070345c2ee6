//! Shares: [MS-SRVS] 3.1.4.8 to 3.1.4.10.

use crate::ShareEntry;
use crate::interface::Environment;
use crate::interface::enumeration::Enumeration;
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use std::borrow::Cow;

/// Number of bits below CSC_MASK: [MS-SRVS] 2.2.4.29.
const CSC_SHIFT: u32 = 4;

/// STYPE_SPECIAL: [MS-SRVS] 2.2.2.4.
const SPECIAL: u32 = 0x8000_0000;

/// NetrShareEnum: [MS-SRVS] 3.1.4.8.
pub(super) fn share_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    enumerate(reader, environment, |_| true)
}

/// NetrShareEnumSticky: [MS-SRVS] 3.1.4.9. All shares outlive the server.
pub(super) fn share_enum_sticky(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    enumerate(reader, environment, |level| level != 501)
}

/// Lists shares in the levels of SHARE_ENUM_UNION ([MS-SRVS] 2.2.3.3) that are known here.
fn enumerate(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    is_known: fn(u32) -> bool,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let enumeration = Enumeration::read(reader)?;
    let level = enumeration.level();
    if !matches!(level, 0 | 1 | 2 | 501 | 502 | 503) {
        return Ok(enumeration.respond(None));
    }
    if !is_known(level) {
        return Ok(enumeration.refuse(Win32Error::INVALID_LEVEL));
    }
    let is_allowed = level < 2 || environment.catalogue.is_administrator(environment.caller);
    if !is_allowed || !environment.catalogue.admits(environment.caller) {
        return Ok(enumeration.refuse(Win32Error::ACCESS_DENIED));
    }
    let shares = environment.catalogue.shares(environment.caller);
    let entry = |share| information(level, share, security(environment, level, &share.name));
    Ok(enumeration.respond_with(shares.iter().map(|share| entry(share).unwrap_or_default())))
}

/// Returns the descriptor of a share for a level that has one. Only administrators learn it.
fn security(environment: &Environment<'_>, level: u32, name: &str) -> Option<Vec<u8>> {
    let has_one = matches!(level, 502 | 503 | 1501);
    let is_told = has_one && environment.catalogue.is_administrator(environment.caller);
    is_told.then(|| environment.catalogue.share_security(name)).flatten()
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
    // [MS-SRVS] 3.1.4.10: they tell folders and descriptors.
    let is_protected = matches!(level, 2 | 502 | 503 | 1501);
    let result = match result {
        Win32Error::SUCCESS
            if is_protected && !environment.catalogue.is_administrator(environment.caller) =>
        {
            Win32Error::ACCESS_DENIED
        }
        result => result,
    };
    let security = match result {
        Win32Error::SUCCESS => security(environment, level, &share.name),
        _ => None,
    };
    match information(level, &share, security) {
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

/// The members of SHARE_INFO_0 to SHARE_INFO_1501: [MS-SRVS] 2.2.4.22 to 2.2.4.31. `None` for any
/// other level.
fn information(
    level: u32,
    share: &ShareEntry,
    security: Option<Vec<u8>>,
) -> Option<Vec<Field<'_>>> {
    let name = || Field::text(&share.name);
    let kind = || Field::Value(share.kind | if share.hidden { SPECIAL } else { 0 });
    let remark = || Field::text(&share.comment);
    // Permissions and passwords belong to the share-level security of LAN Manager.
    let uses = || {
        let (max, current) = (Field::Value(share.max_users), Field::Value(share.current_users));
        [Field::Value(0), max, current, Field::Text(shown_path(&share.path)), Field::Null]
    };
    // Without a descriptor, a length of zero and a null pointer.
    let descriptor = match security {
        Some(bytes) => {
            let len = u32::try_from(bytes.len()).unwrap_or_default();
            [Field::Value(len), Field::Bytes(bytes)]
        }
        None => [Field::Value(0), Field::Null],
    };
    Some(match level {
        0 => vec![name()],
        1 => vec![name(), kind(), remark()],
        2 => [name(), kind(), remark()].into_iter().chain(uses()).collect(),
        501 => {
            let flags = u32::from(share.offline_caching & 3) << CSC_SHIFT;
            vec![name(), kind(), remark(), Field::Value(flags)]
        }
        502 => [name(), kind(), remark()].into_iter().chain(uses()).chain(descriptor).collect(),
        503 => {
            let scope = Field::text("*");
            let all = [name(), kind(), remark()].into_iter().chain(uses());
            all.chain([scope]).chain(descriptor).collect()
        }
        1004 => vec![remark()],
        1005 => vec![Field::Value(u32::from(share.offline_caching & 3) << CSC_SHIFT)],
        1006 => vec![Field::Value(share.max_users)],
        1501 => descriptor.into(),
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
