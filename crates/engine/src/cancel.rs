//! SMB2 CANCEL: [MS-SMB2] 3.3.5.16.

use model::reject::Reject;
use model::request_id::RequestId;

use crate::request::Incoming;
use crate::server::Server;
use crate::storage::EffectsOnly;

/// Ends a request that waits for an event or is throttled. CANCEL itself has no response, even if
/// it finds no request.
///
/// A request that waits for the store or another process goes on: its reply is certain, and
/// [MS-SMB2] lets a server finish it.
pub(crate) fn cancel(server: &mut Server, incoming: &Incoming) {
    let Some(id) = server.in_flight.canceled_by(incoming) else { return };
    // A LOCK sent over a lost channel, and again over this one, is one request to its client.
    for id in [id].into_iter().chain(server.in_flight.same_as(id)) {
        end(server, incoming, id);
    }
}

fn end(server: &mut Server, incoming: &Incoming, id: RequestId) {
    server.globals.throttle.forget(incoming.now, id);
    // A request that resumed when another one was canceled may have ended.
    let Some(waiting) = server.in_flight.remove(id) else { return };
    if let Some(file) = waiting.pending.waits_for() {
        server.globals.files.forget_waiting(file, id);
    }
    server.abandon(waiting.pending, None);
    server.end_request(id, waiting.file_id);
    let mut chain = waiting.chain;
    server.refuse(&mut chain, &waiting.incoming, waiting.async_id, Reject::Cancelled);
    // Resumes the next requests of the compound.
    server.run(*chain, None, trace::Request::default(), incoming.now, &mut EffectsOnly);
}
