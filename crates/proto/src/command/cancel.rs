//! SMB2 CANCEL: [MS-SMB2] 3.3.5.16.

use wire::Command;

use crate::dispatch;
use crate::reject::Reject;
use crate::request::{InFlight, Incoming, RequestId};
use crate::respond::error_body;
use crate::server::Server;

/// Ends a request that waits for something without an end, or for its turn. CANCEL itself has no response, whether
/// it finds its request or not.
///
/// What waits for the store or another process is left alone: its answer is on its way, and
/// [MS-SMB2] lets a server finish it.
pub(crate) fn cancel(server: &mut Server, incoming: &Incoming) {
    let Some(id) = find(server, incoming) else { return };
    server.forget_held(incoming.now, id);
    let waiting = server.in_flight.remove(&id).expect("found above");
    if let Some(file) = dispatch::waits_for(&waiting.pending) {
        server.globals.files.forget_waiting(file, id);
    }
    let abandoned = dispatch::abandon(waiting.pending, None);
    server.globals.outbox.effects.extend(abandoned.effect.map(|effect| (None, effect)));
    server.end_request(id, waiting.file_id);
    let mut chain = waiting.chain;
    let body = error_body(Reject::Cancelled.status());
    server.respond(&mut chain, &waiting.incoming, waiting.async_id, body);
    // What stands behind it in its compound goes on.
    server.run(chain, None, incoming.now);
}

fn find(server: &Server, incoming: &Incoming) -> Option<RequestId> {
    let header = &incoming.header;
    // A CLOSE that is given up would leave its open behind.
    let waits = |waiting: &InFlight| {
        (waiting.is_suspended && waiting.incoming.header.command != Command::CLOSE)
            || waiting.held.is_some()
    };
    let suspended = server.in_flight.iter().filter(|(_, waiting)| waits(waiting));
    let mut of_connection =
        suspended.filter(|(_, waiting)| waiting.chain.connection == incoming.connection);
    let found = match header.async_id {
        Some(async_id) => of_connection.find(|(_, waiting)| waiting.async_id == Some(async_id)),
        None => of_connection
            .find(|(_, waiting)| waiting.incoming.header.message_id == header.message_id),
    };
    found.map(|(id, _)| *id)
}
