//! Operations of srvsvc and wkssvc that the server does not carry out, by the form of their
//! responses. None of them needs its parameters.

use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Refuses an operation that returns a result only.
pub(super) fn for_all(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(Win32Error::NOT_SUPPORTED))
}

/// Refuses an operation that returns one value, a pointer or a number, and a result.
pub(super) fn value(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(without_value(Win32Error::NOT_SUPPORTED))
}

/// Refuses an operation that only programs on the same machine may call. Its result is a choice of
/// this server: [MS-SRVS] 3.1.4 has none.
pub(super) fn local(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(Win32Error::ACCESS_DENIED))
}

/// Refuses a change that returns a result only: administrators learn that it is not supported.
pub(super) fn change(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(environment.for_administrators(Win32Error::NOT_SUPPORTED)))
}

/// Refuses a change that returns ParmErr, which is null, and a result.
pub(super) fn change_with_parameter(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(without_value(environment.for_administrators(Win32Error::NOT_SUPPORTED)))
}

/// Returns a null pointer or the number zero, and a result.
pub(super) fn without_value(result: Win32Error) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(0);
    writer.finish(result)
}
