//! One connection of a client that speaks 3.0 and nothing else. Everything may fail: the owner of
//! several connections makes good the faults of one.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use dtyp::{Guid, NtStatus};
use wire::Command;
use wire::header::HeaderFlags;

use client::RawBody;

use crate::harness::connection::Connection;

/// Longest time until a connection can be used.
const SETUP_PATIENCE: Duration = Duration::from_secs(3);

/// A session in the share `data`, whichever connections it has.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    session: client::Session,
    tree_id: u32,
}

/// Marks of a request beside its body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) channel_sequence: u16,
    /// True if it was sent before.
    pub(crate) is_replay: bool,
}

/// The first connection of a client, with a session in the share `data`.
pub(crate) fn first(address: SocketAddr, client_guid: Guid) -> io::Result<(Connection, Session)> {
    let mut connection = negotiated(address, client_guid)?;
    connection.log_on()?;
    match connection.tree("data")? {
        NtStatus::SUCCESS => {}
        status => return Err(io::Error::other(format!("TREE_CONNECT: {status:?}"))),
    }
    let session = Session { session: connection.session(), tree_id: connection.smb.tree_id };
    Ok((connection, session))
}

/// Binds a further connection to the session.
pub(crate) fn bound(
    address: SocketAddr,
    client_guid: Guid,
    Session { session, tree_id }: Session,
) -> io::Result<Connection> {
    let mut connection = negotiated(address, client_guid)?;
    connection.bind(session, tree_id)?;
    Ok(connection)
}

fn negotiated(address: SocketAddr, client_guid: Guid) -> io::Result<Connection> {
    let socket = TcpStream::connect_timeout(&address, SETUP_PATIENCE)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(SETUP_PATIENCE))?;
    let mut connection = Connection::new(socket);
    connection.negotiate(client_guid)?;
    Ok(connection)
}

/// Sends a request, and says by which id its answer will be known.
pub(crate) fn send(
    connection: &mut Connection,
    command: Command,
    body: &[u8],
    marks: Marks,
) -> io::Result<u64> {
    let mut flags = HeaderFlags::empty();
    flags.set(HeaderFlags::REPLAY_OPERATION, marks.is_replay);
    connection.smb.channel_sequence = marks.channel_sequence;
    connection.send(command, flags, &RawBody(body))
}
