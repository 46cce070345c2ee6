//! Transports of the server: [MS-SRVS] 3.1.4.24.

use super::tasks::carry_out_for_anyone;
use crate::interface::Environment;
use crate::interface::enumeration::Enumeration;
use crate::ndr::{Field, Reader};
use crate::pdu::Fault;
use crate::win32::Win32Error;
use crate::{Outcome, ServerEntry, Task, TransportEntry};

/// Characters of a NetBIOS name, without the blank behind them: [MS-SRVS] 2.2.4.96.
const NAME_CHARACTERS: usize = 15;

/// NetrServerTransportEnum: [MS-SRVS] 3.1.4.24. Not for guests: Windows' NetServerTransportEnum is
/// for authenticated users. The structures of level 3 contain a password, and are for
/// NetrServerTransportAddEx only.
pub(super) fn server_transport_enum(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let enumeration = Enumeration::read(reader)?;
    let level = enumeration.level();
    match level {
        0..=2 => {}
        3 => return Ok(enumeration.refuse(Win32Error::INVALID_LEVEL)),
        _ => return Ok(enumeration.respond(None)),
    }
    if environment.caller.is_guest || !environment.catalogue.admits(environment.caller) {
        return Ok(enumeration.refuse(Win32Error::ACCESS_DENIED));
    }
    let transports = match carry_out_for_anyone(environment, Task::ListTransports) {
        Ok(Outcome::Transports(transports)) => transports,
        Ok(_) => return Ok(enumeration.refuse(Win32Error::GEN_FAILURE)),
        Err(error) => return Ok(enumeration.refuse(error)),
    };
    let server = environment.catalogue.server();
    let entries = transports.iter().map(|it| information(level, it, &server));
    Ok(enumeration.respond(Some(entries.collect())))
}

/// The members of SERVER_TRANSPORT_INFO_0, 1 and 2: [MS-SRVS] 2.2.4.93 to 2.2.4.95.
fn information<'a>(
    level: u32,
    transport: &'a TransportEntry,
    server: &'a ServerEntry,
) -> Vec<Field<'a>> {
    let address = netbios_name(&server.name);
    let address_len = u32::try_from(address.len()).unwrap_or(u32::MAX);
    let mut info = vec![
        Field::Value(transport.clients),
        Field::text(&transport.name),
        Field::Bytes(address),
        Field::Value(address_len),
        Field::text(&transport.network_address),
    ];
    if level >= 1 {
        info.push(Field::text(&server.domain));
    }
    if level >= 2 {
        // Flags: pipes have the same names on all transports, and the server's name all shares.
        info.push(Field::Value(0));
    }
    info
}

/// Returns a name with blanks behind it, one at least.
fn netbios_name(name: &str) -> Vec<u8> {
    let mut bytes = name.to_uppercase().into_bytes();
    bytes.resize(NAME_CHARACTERS, b' ');
    bytes.push(b' ');
    bytes
}
