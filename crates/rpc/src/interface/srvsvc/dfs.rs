//! Operations of DFS servers before Windows Server 2003: [MS-SRVS] 3.1.4.35 to 3.1.4.43. Later ones
//! return errors of their own choice; documented is ERROR_NOT_SUPPORTED, for 3.1.4.39.

use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Code units of a short prefix, at most: the range of ShortPrefixLen.
const SHORT_PREFIX_MAX: u32 = 32;

/// Refuses NetrDfsCreateExitPoint ([MS-SRVS] 3.1.4.39), which returns a buffer.
pub(super) fn create_exit_point(
    reader: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (_server_name, _uid) = (reader.unique_string()?, reader.uuid()?);
    let (_prefix, _entry_type) = (reader.string()?, reader.u32()?);
    let short_prefix_len = reader.u32()?;
    if short_prefix_len > SHORT_PREFIX_MAX {
        return Err(Fault::BadStub);
    }
    let mut writer = Writer::default();
    writer.text_buffer(short_prefix_len, 2, "");
    Ok(writer.finish(Win32Error::NOT_SUPPORTED))
}
