//! Encoding of the requester of a deletion, in the record of its file.

use std::net::SocketAddr;
use std::sync::Arc;

use arbitration::{Requester, RequestingUser, UserRights};
use dtyp::Sid;

use crate::codec::{Reader, RecordError, Writer};

pub(super) fn write_requester(
    writer: &mut Writer<'_>,
    requester: &Requester,
) -> Result<(), RecordError> {
    writer.u64(requester.link);
    writer.text(&requester.share)?;
    writer.text(&requester.folder)?;
    writer.text(&requester.path)?;
    writer.bool(requester.path_on_disk.is_some());
    requester.path_on_disk.iter().try_for_each(|it| writer.text(it))?;
    writer.bool(requester.is_posix);
    writer.bool(requester.user.is_some());
    requester.user.as_deref().map_or(Ok(()), |user| write_user(writer, user))
}

pub(super) fn read_requester(reader: &mut Reader<'_>) -> Result<Requester, RecordError> {
    Ok(Requester {
        link: reader.u64()?,
        share: reader.text()?,
        folder: reader.text()?,
        path: reader.text()?,
        path_on_disk: if reader.bool()? { Some(reader.text()?) } else { None },
        is_posix: reader.bool()?,
        user: if reader.bool()? { Some(Arc::new(read_user(reader)?)) } else { None },
    })
}

fn write_user(writer: &mut Writer<'_>, user: &RequestingUser) -> Result<(), RecordError> {
    writer.text(&user.name)?;
    writer.text(&user.domain)?;
    writer.bool(user.is_guest);
    writer.text(&user.client.to_string())?;
    writer.text(&user.client_name)?;
    writer.text(&user.server.to_string())?;
    writer.u16(user.dialect);
    writer.text(&user.recycle_bin)?;
    writer.bool(user.rights.is_some());
    user.rights.as_deref().map_or(Ok(()), |rights| write_rights(writer, rights))
}

fn read_user(reader: &mut Reader<'_>) -> Result<RequestingUser, RecordError> {
    Ok(RequestingUser {
        name: reader.text()?,
        domain: reader.text()?,
        is_guest: reader.bool()?,
        client: read_address(reader)?,
        client_name: reader.text()?,
        server: read_address(reader)?,
        dialect: reader.u16()?,
        recycle_bin: reader.text()?,
        rights: if reader.bool()? { Some(Arc::new(read_rights(reader)?)) } else { None },
    })
}

fn read_address(reader: &mut Reader<'_>) -> Result<SocketAddr, RecordError> {
    reader.text()?.parse().map_err(|_| RecordError::Value(0))
}

fn write_rights(writer: &mut Writer<'_>, rights: &UserRights) -> Result<(), RecordError> {
    writer.u32(rights.uid);
    writer.u32(rights.gid);
    writer.count(rights.groups.len());
    rights.groups.iter().for_each(|gid| writer.u32(*gid));
    writer.bool(rights.sid.is_some());
    rights.sid.iter().try_for_each(|sid| writer.text(&sid.to_string()))?;
    writer.count(rights.sids.len());
    rights.sids.iter().try_for_each(|sid| writer.text(&sid.to_string()))
}

fn read_rights(reader: &mut Reader<'_>) -> Result<UserRights, RecordError> {
    Ok(UserRights {
        uid: reader.u32()?,
        gid: reader.u32()?,
        groups: reader.list(Reader::u32)?,
        sid: if reader.bool()? { Some(read_sid(reader)?) } else { None },
        sids: reader.list(read_sid)?,
    })
}

fn read_sid(reader: &mut Reader<'_>) -> Result<Sid, RecordError> {
    Sid::parse(&reader.text()?).ok_or(RecordError::Value(0))
}
