//! Changes of shares: [MS-SRVS] 3.1.4.7, 3.1.4.11 to 3.1.4.16. For administrators only.

use super::tasks::{carry_out, result};
use crate::handles::{HANDLE_LEN, HandleObject};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use crate::{Outcome, ShareChange, ShareEntry, Task};

/// Bits of a share's type that name its kind: [MS-SRVS] 2.2.2.4.
const KIND: u32 = 0x0000_000F;

/// CSC_MASK: [MS-SRVS] 2.2.4.29.
const CSC_MASK: u32 = 0x0000_0030;
/// Number of bits below [`CSC_MASK`].
const CSC_SHIFT: u32 = 4;

/// Members of an information structure of a request; those without a value are not in its level.
#[derive(Debug, Default)]
struct Information {
    name: Option<String>,
    kind: Option<u32>,
    change: ShareChange,
}

/// A level with its structure, if the union has an arm for it.
type Read = Option<Information>;

/// NetrShareAdd: [MS-SRVS] 3.1.4.7.
pub(super) fn share_add(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let information = read_information(reader, level)?;
    let parameter_error = parameter_error(reader, information.is_some())?;
    let Some(information) = information.filter(|_| matches!(level, 2 | 502 | 503)) else {
        return Ok(changed(parameter_error, Err(Win32Error::INVALID_LEVEL)));
    };
    let Information { name: Some(name), kind, change } = information else {
        return Ok(changed(parameter_error, Err(Win32Error::INVALID_NAME)));
    };
    let is_folder = kind.is_none_or(|kind| kind & KIND == ShareEntry::DISK);
    let done = if change.path.is_some() && is_folder {
        carry_out(environment, Task::AddShare { name, change })
    } else {
        Err(environment.for_administrators(Win32Error::INVALID_PARAMETER))
    };
    Ok(changed(parameter_error, done))
}

/// NetrShareSetInfo: [MS-SRVS] 3.1.4.11. The folder of a share cannot be changed, and is ignored.
pub(super) fn share_set_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let name = reader.string()?;
    let level = reader.u32()?;
    let information = read_information(reader, level)?;
    let parameter_error = parameter_error(reader, information.is_some())?;
    let done = match information {
        Some(Information { change, .. }) => {
            let change = ShareChange { path: None, ..change };
            carry_out(environment, Task::ChangeShare { name, change })
        }
        None => Err(Win32Error::INVALID_LEVEL),
    };
    Ok(changed(parameter_error, done))
}

/// NetrShareDel and NetrShareDelSticky: [MS-SRVS] 3.1.4.12, 3.1.4.13.
pub(super) fn share_del(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let name = reader.string()?;
    let _reserved = reader.u32()?;
    Ok(result(carry_out(environment, Task::RemoveShare(name))))
}

/// NetrShareDelEx: [MS-SRVS] 3.1.4.47. Of the structure, the name counts.
pub(super) fn share_del_ex(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let level = reader.u32()?;
    let information = read_information(reader, level)?.filter(|_| level == 503);
    let Some(information) = information else {
        return Ok(result(Err(environment.for_administrators(Win32Error::INVALID_LEVEL))));
    };
    Ok(result(match information.name {
        Some(name) => carry_out(environment, Task::RemoveShare(name)),
        None => Err(environment.for_administrators(Win32Error::NET_NAME_NOT_FOUND)),
    }))
}

/// NetrShareDelStart: [MS-SRVS] 3.1.4.14. The share is removed by NetrShareDelCommit.
pub(super) fn share_del_start(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let name = reader.string()?;
    let _reserved = reader.u32()?;
    let found = if environment.catalogue.is_administrator(environment.caller) {
        let share = environment.catalogue.share(environment.caller, &name);
        share.ok_or(Win32Error::NET_NAME_NOT_FOUND)
    } else {
        Err(Win32Error::ACCESS_DENIED)
    };
    let opened = found.and_then(|share| {
        let opened = environment.handles.open(HandleObject::Share(share.name), 0);
        opened.map_err(|_| Win32Error::NOT_ENOUGH_MEMORY)
    });
    let mut writer = Writer::default();
    writer.bytes(&opened.unwrap_or_default());
    Ok(writer.finish(opened.err().unwrap_or(Win32Error::SUCCESS)))
}

/// NetrShareDelCommit: [MS-SRVS] 3.1.4.15. If it fails, the handle stays open.
pub(super) fn share_del_commit(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let handle = reader.handle()?;
    let (object, _) = environment.handles.object(handle)?;
    let HandleObject::Share(name) = object else { return Err(Fault::ContextMismatch) };
    let done = carry_out(environment, Task::RemoveShare(name));
    let mut writer = Writer::default();
    if done.is_ok() {
        environment.handles.close(handle)?;
        writer.bytes(&[0; HANDLE_LEN]);
    } else {
        writer.bytes(&handle);
    }
    Ok(writer.finish(done.err().unwrap_or(Win32Error::SUCCESS)))
}

/// NetrShareCheck: [MS-SRVS] 3.1.4.16. The device is the folder of a share.
pub(super) fn share_check(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let device = reader.string()?;
    let shares = if environment.catalogue.admits(environment.caller) {
        environment.catalogue.shares(environment.caller)
    } else {
        [].into()
    };
    let device = host_path(&device);
    let found = shares.iter().find(|share| letters(&share.path).eq(device.chars()));
    let mut writer = Writer::default();
    writer.u32(found.map_or(ShareEntry::DISK, |share| share.kind));
    Ok(writer.finish(match found {
        Some(_) => Win32Error::SUCCESS,
        None => Win32Error::DEVICE_NOT_SHARED,
    }))
}

/// NetrServerSetInfo: [MS-SRVS] 3.1.4.18. The configuration alone has the server's properties.
pub(super) fn server_set_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let _level = reader.u32()?;
    // Nothing of the structure has an effect; ParmErr, behind it, is answered by null.
    Ok(changed(None, Err(environment.for_administrators(Win32Error::NOT_SUPPORTED))))
}

/// Returns the response: ParmErr, if it was passed, and the result.
fn changed(parameter_error: Option<u32>, done: Result<Outcome, Win32Error>) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.unique_u32(parameter_error.map(|_| 0));
    writer.finish(done.err().unwrap_or(Win32Error::SUCCESS))
}

/// Reads ParmErr, whose place is unknown behind a structure of an unknown level.
fn parameter_error(reader: &mut Reader<'_>, is_known: bool) -> Result<Option<u32>, Fault> {
    if is_known { Ok(reader.unique_u32()?) } else { Ok(None) }
}

/// Reads SHARE_INFO: a tag, a pointer, and the structure of the level. `None` for an unknown level.
fn read_information(reader: &mut Reader<'_>, level: u32) -> Result<Read, Fault> {
    if reader.u32()? != level {
        return Err(Fault::BadStub);
    }
    if !matches!(level, 1 | 2 | 502 | 503 | 1004 | 1005 | 1006 | 1501) {
        return Ok(None);
    }
    if !reader.pointer()? {
        return Err(Fault::BadStub);
    }
    let mut information = Information::default();
    match level {
        1004 => {
            if reader.pointer()? {
                information.change.comment = Some(reader.string()?);
            }
        }
        1005 => {
            information.change.offline_caching = read_caching(reader)?;
        }
        1006 => information.change.max_users = Some(reader.u32()?),
        1501 => {
            let (len, is_there) = (reader.u32()?, reader.pointer()?);
            information.change.security = read_security(reader, len, is_there)?;
        }
        _ => information = read_structure(reader, level)?,
    }
    Ok(Some(information))
}

/// Reads flags with the caching by offline clients: [MS-SRVS] 2.2.4.29.
fn read_caching(reader: &mut Reader<'_>) -> Result<Option<u8>, Fault> {
    Ok(u8::try_from((reader.u32()? & CSC_MASK) >> CSC_SHIFT).ok())
}

/// Reads SHARE_INFO_1, 2, 502 or 503, of which each has the members of the one before.
fn read_structure(reader: &mut Reader<'_>, level: u32) -> Result<Information, Fault> {
    let mut information = Information::default();
    let has_name = reader.pointer()?;
    information.kind = Some(reader.u32()?);
    let has_comment = reader.pointer()?;
    let (mut has_path, mut has_password, mut has_scope) = (false, false, false);
    let (mut security_len, mut has_security) = (0, false);
    if level != 1 {
        let _permissions = reader.u32()?;
        information.change.max_users = Some(reader.u32()?);
        let _current_users = reader.u32()?;
        (has_path, has_password) = (reader.pointer()?, reader.pointer()?);
    }
    if level == 503 {
        has_scope = reader.pointer()?;
    }
    if matches!(level, 502 | 503) {
        (security_len, has_security) = (reader.u32()?, reader.pointer()?);
    }
    let mut text = |is_there: bool| -> Result<Option<String>, Fault> {
        if is_there { Ok(Some(reader.string()?)) } else { Ok(None) }
    };
    information.name = text(has_name)?;
    information.change.comment = text(has_comment)?;
    information.change.path = text(has_path)?.map(|path| host_path(&path));
    let _password = text(has_password)?;
    let _scope = text(has_scope)?;
    information.change.security = read_security(reader, security_len, has_security)?;
    Ok(information)
}

fn read_security(
    reader: &mut Reader<'_>,
    len: u32,
    is_there: bool,
) -> Result<Option<Vec<u8>>, Fault> {
    if is_there { Ok(Some(reader.bytes(len)?)) } else { Ok(None) }
}

/// Converts a path as clients write it, `C:\srv\films`, to one of the host. Paths of the host are
/// left as they are.
fn host_path(path: &str) -> String {
    letters(path).collect()
}

/// Returns the characters of [`host_path`], for comparisons without a copy.
fn letters(path: &str) -> impl Iterator<Item = char> {
    let mut letters = path.chars();
    let has_drive =
        letters.next().is_some_and(|it| it.is_ascii_alphabetic()) && letters.next() == Some(':');
    let path = if has_drive { &path[2..] } else { path };
    path.chars().map(|letter| if letter == '\\' { '/' } else { letter })
}

#[cfg(test)]
mod tests {
    use super::host_path;

    #[test]
    fn paths_of_windows_lose_their_drive() {
        for (shown, wanted) in [
            ("C:\\srv\\films", "/srv/films"),
            ("c:/srv", "/srv"),
            ("/srv/a b", "/srv/a b"),
            ("films", "films"),
            ("", ""),
            ("ä:", "ä:"),
        ] {
            assert_eq!(host_path(shown), wanted, "{shown}");
        }
    }
}
