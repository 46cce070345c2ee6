//! Sessions, tree connects and open files: [MS-SRVS] 3.1.4.1 to 3.1.4.6. For administrators only.

use dtyp::upcase::equal_ignoring_case;

use super::tasks::{carry_out, result};
use crate::interface::Environment;
use crate::interface::enumeration::Enumeration;
use crate::ndr::{Field, Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use crate::{FileEntry, Outcome, SessionEntry, ShareEntry, Task, TransportEntry, TreeConnectEntry};

/// SESS_GUEST: [MS-SRVS] 2.2.2.8.
const SESSION_GUEST: u32 = 1;

/// Name of the client's kind; Windows has sent no other since version 6.
const CLIENT_TYPE: &str = "";

/// NetrConnectionEnum: [MS-SRVS] 3.1.4.1. The qualifier is a share, or a client behind `\\`.
pub(super) fn connection_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, qualifier) = (reader.unique_string()?, reader.unique_string()?);
    let enumeration = Enumeration::read(reader)?;
    let tree_connects = match carry_out(environment, Task::ListTreeConnects) {
        Ok(Outcome::TreeConnects(tree_connects)) => tree_connects,
        Ok(_) => return Ok(enumeration.refuse(Win32Error::GEN_FAILURE)),
        Err(error) => return Ok(enumeration.refuse(error)),
    };
    let Some(qualifier) = qualifier.filter(|it| !it.is_empty()) else {
        return Ok(enumeration.refuse(Win32Error::INVALID_PARAMETER));
    };
    let is_wanted = |it: &&TreeConnectEntry| match qualifier.strip_prefix("\\\\") {
        Some(client) => equal_ignoring_case(&it.client, client),
        None => equal_ignoring_case(&it.share, &qualifier),
    };
    let is_client = qualifier.starts_with("\\\\");
    let entries = tree_connects.iter().filter(is_wanted);
    let entries = entries.map(|it| connection_information(enumeration.level(), it, is_client));
    Ok(enumeration.respond(entries.collect::<Option<_>>().filter(|_| enumeration.level() <= 1)))
}

/// The members of CONNECTION_INFO_0 and 1: [MS-SRVS] 2.2.4.1, 2.2.4.2. The name is that of the
/// share for a client, and that of the client for a share.
fn connection_information(
    level: u32,
    entry: &TreeConnectEntry,
    is_client: bool,
) -> Option<Vec<Field<'_>>> {
    let kind =
        if entry.share.eq_ignore_ascii_case("IPC$") { ShareEntry::IPC } else { ShareEntry::DISK };
    let name = if is_client { &entry.share } else { &entry.client };
    match level {
        0 => Some(vec![Field::Value(entry.id)]),
        1 => Some(vec![
            Field::Value(entry.id),
            Field::Value(kind),
            Field::Value(entry.opens),
            // A tree connect has one user.
            Field::Value(1),
            Field::Value(entry.seconds),
            Field::text(&entry.user),
            Field::text(name),
        ]),
        _ => None,
    }
}

/// NetrFileEnum: [MS-SRVS] 3.1.4.2. A base path is the beginning of the paths that are listed.
pub(super) fn file_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, base_path) = (reader.unique_string()?, reader.unique_string()?);
    let user = reader.unique_string()?;
    let enumeration = Enumeration::read(reader)?;
    let files = match carry_out(environment, Task::ListFiles) {
        Ok(Outcome::Files(files)) => files,
        Ok(_) => return Ok(enumeration.refuse(Win32Error::GEN_FAILURE)),
        Err(error) => return Ok(enumeration.refuse(error)),
    };
    let is_wanted = |it: &&FileEntry| {
        is_any_or(user.as_deref(), &it.user)
            && base_path.as_deref().is_none_or(|base| begins_with(&it.path, base))
    };
    let entries = files.iter().filter(is_wanted);
    let entries = entries.map(|it| file_information(enumeration.level(), it));
    let entries = entries.collect::<Option<_>>();
    Ok(enumeration.respond(entries.filter(|_| matches!(enumeration.level(), 2 | 3))))
}

/// NetrFileGetInfo: [MS-SRVS] 3.1.4.3.
pub(super) fn file_get_info(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let (file_id, level) = (reader.u32()?, reader.u32()?);
    let found = match carry_out(environment, Task::ListFiles) {
        Ok(Outcome::Files(files)) => files.into_iter().find(|it| it.id == file_id),
        Ok(_) => None,
        Err(error) => return Ok(without_information(level, error)),
    };
    let Some(file) = found else {
        return Ok(without_information(level, Win32Error::FILE_ID_NOT_FOUND));
    };
    Ok(Writer::default().answer(level, file_information(level, &file)))
}

fn without_information(level: u32, error: Win32Error) -> Vec<u8> {
    let has_arm = file_information(level, &FileEntry::default()).is_some();
    let error = if has_arm { error } else { Win32Error::INVALID_LEVEL };
    Writer::default().without_information(level, has_arm, error)
}

/// The members of FILE_INFO_2 and 3: [MS-SRVS] 2.2.4.6, 2.2.4.7.
fn file_information(level: u32, file: &FileEntry) -> Option<Vec<Field<'_>>> {
    match level {
        2 => Some(vec![Field::Value(file.id)]),
        3 => Some(vec![
            Field::Value(file.id),
            Field::Value(file.permissions),
            Field::Value(file.locks),
            Field::text(&file.path),
            Field::text(&file.user),
        ]),
        _ => None,
    }
}

/// NetrFileClose: [MS-SRVS] 3.1.4.4.
pub(super) fn file_close(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let file_id = reader.u32()?;
    Ok(result(carry_out(environment, Task::CloseFile(file_id))))
}

/// NetrSessionEnum: [MS-SRVS] 3.1.4.5.
pub(super) fn session_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, client) = (reader.unique_string()?, reader.unique_string()?);
    let user = reader.unique_string()?;
    let enumeration = Enumeration::read(reader)?;
    let sessions = match carry_out(environment, Task::ListSessions) {
        Ok(Outcome::Sessions(sessions)) => sessions,
        Ok(_) => return Ok(enumeration.refuse(Win32Error::GEN_FAILURE)),
        Err(error) => return Ok(enumeration.refuse(error)),
    };
    let client = client.as_deref().map(|it| it.trim_start_matches('\\'));
    let is_wanted =
        |it: &&SessionEntry| is_any_or(client, &it.client) && is_any_or(user.as_deref(), &it.user);
    let entries = sessions.iter().filter(is_wanted);
    let entries = entries.map(|it| session_information(enumeration.level(), it));
    let entries = entries.collect::<Option<_>>();
    Ok(enumeration.respond(entries.filter(|_| matches!(enumeration.level(), 0 | 1 | 2 | 10 | 502))))
}

/// The members of SESSION_INFO_0 to 502: [MS-SRVS] 2.2.4.11 to 2.2.4.15. Idle times are unknown,
/// and zero as with Samba.
fn session_information(level: u32, session: &SessionEntry) -> Option<Vec<Field<'_>>> {
    let (client, user) = (|| Field::text(&session.client), || Field::text(&session.user));
    let (opens, time) = (Field::Value(session.opens), Field::Value(session.seconds));
    let flags = Field::Value(if session.is_guest { SESSION_GUEST } else { 0 });
    let (idle, kind) = (Field::Value(0), || Field::text(CLIENT_TYPE));
    match level {
        0 => Some(vec![client()]),
        1 => Some(vec![client(), user(), opens, time, idle, flags]),
        2 => Some(vec![client(), user(), opens, time, idle, flags, kind()]),
        10 => Some(vec![client(), user(), time, idle]),
        502 => {
            let transport = Field::text(TransportEntry::DIRECT);
            Some(vec![client(), user(), opens, time, idle, flags, kind(), transport])
        }
        _ => None,
    }
}

/// NetrSessionDel: [MS-SRVS] 3.1.4.6. Client or user must be named.
pub(super) fn session_del(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let named = |name: Option<String>| name.filter(|it| !it.is_empty());
    let client = named(reader.unique_string()?);
    let user = named(reader.unique_string()?);
    if client.is_none() && user.is_none() {
        return Ok(result(Err(Win32Error::INVALID_PARAMETER)));
    }
    let client = client.map(|it| it.trim_start_matches('\\').to_owned());
    Ok(result(carry_out(environment, Task::CloseSessions { client, user })))
}

/// True if a filter of a request lets a name pass.
fn is_any_or(wanted: Option<&str>, name: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.is_empty() || equal_ignoring_case(wanted, name))
}

/// True if a path begins with another one, in any case of letters.
fn begins_with(path: &str, base: &str) -> bool {
    let mut letters = path.chars();
    base.chars()
        .all(|wanted| letters.next().is_some_and(|it| it.to_lowercase().eq(wanted.to_lowercase())))
}
