//! Telling the service manager (systemd, or whoever set `NOTIFY_SOCKET`) how far the server is.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends one state, for instance `READY=1`. Without a service manager, or when it does not listen,
/// nothing happens: the server serves all the same.
pub(super) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    // A leading @ stands for the abstract name space.
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        tracing::debug!("cannot send {state} to the service manager: {error}");
    }
}
