//! Further names of the server: [MS-SRVS] 3.1.4.45. The configuration alone has them.

use crate::interface::Environment;
use crate::interface::enumeration::Enumeration;
use crate::ndr::{Field, Reader};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// NetrServerAliasEnum: [MS-SRVS] 3.1.4.45.
pub(super) fn server_alias_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let enumeration = Enumeration::read(reader)?;
    if enumeration.level() != 0 {
        return Ok(enumeration.respond(None));
    }
    if !environment.catalogue.admits(environment.caller) {
        return Ok(enumeration.refuse(Win32Error::ACCESS_DENIED));
    }
    let server = environment.catalogue.server();
    // SERVER_ALIAS_INFO_0 ([MS-SRVS] 2.2.4.102). The last members: no default, reserved.
    let entries = server.aliases.iter().map(|alias| {
        vec![Field::text(alias), Field::text(&server.name), Field::Value(0), Field::Value(0)]
    });
    Ok(enumeration.respond(Some(entries.collect())))
}
