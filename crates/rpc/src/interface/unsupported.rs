//! Operations of srvsvc and wkssvc that the server does not carry out, by the form of their
//! responses. None of them needs its parameters.

use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// Refuses an operation that Windows does not support either, and that returns a result only.
pub(super) fn for_all(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(Win32Error::NOT_SUPPORTED))
}

/// Refuses an operation that returns a null pointer and a result.
pub(super) fn pointer(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(with_number(Win32Error::NOT_SUPPORTED))
}

/// Refuses an operation that returns a number and a result.
pub(super) fn number(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(with_number(Win32Error::NOT_SUPPORTED))
}

/// Refuses an operation that only programs on the same machine may call.
pub(super) fn local(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(Win32Error::ACCESS_DENIED))
}

/// Refuses a change that returns a result only: administrators learn that it is not supported.
pub(super) fn change(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(for_administrators(environment)))
}

/// Refuses a change that returns ParmErr, which is null, and a result.
pub(super) fn change_with_parameter(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(with_number(for_administrators(environment)))
}

/// Result of an operation that the server does not support, and others may not call.
pub(super) fn for_administrators(environment: &Environment<'_>) -> Win32Error {
    match environment.catalogue.is_administrator(environment.caller) {
        true => Win32Error::NOT_SUPPORTED,
        false => Win32Error::ACCESS_DENIED,
    }
}

/// A null pointer or the number zero, and a result.
fn with_number(result: Win32Error) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(0);
    writer.finish(result)
}
