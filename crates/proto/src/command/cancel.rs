//! SMB2 CANCEL: [MS-SMB2] 3.3.5.16.

use model::reject::Reject;
use model::request_id::RequestId;
use wire::Command;

use crate::command::lock;
use crate::engine::request::{InFlight, Incoming};
use crate::engine::server::Server;
use crate::engine::storage::EffectsOnly;

/// Ends a request that waits for an event or is throttled. CANCEL itself has no response, even if
/// it finds no request.
///
/// A request that waits for the store or another process goes on: its reply is certain, and
/// [MS-SMB2] lets a server finish it.
pub(crate) fn cancel(server: &mut Server, incoming: &Incoming) {
    let Some(id) = find(server, incoming) else { return };
    // A LOCK sent over a lost channel, and again over this one, is one request to its client.
    for id in [id].into_iter().chain(find_same(server, id)) {
        end(server, incoming, id);
    }
}

fn end(server: &mut Server, incoming: &Incoming, id: RequestId) {
    server.forget_held(incoming.now, id);
    // A request that resumed when another one was canceled may have ended.
    let Some(waiting) = server.in_flight.remove(&id) else { return };
    if let Some(file) = waiting.pending.waits_for() {
        server.globals.files.forget_waiting(file, id);
    }
    let abandoned = waiting.pending.abandon(None);
    server.globals.outbox.effects.extend(abandoned.effect.map(|effect| (None, effect)));
    server.end_request(id, waiting.file_id);
    let mut chain = waiting.chain;
    server.refuse(&mut chain, &waiting.incoming, waiting.async_id, Reject::Cancelled);
    // Resumes the next requests of the compound.
    server.run(*chain, None, trace::Request::default(), incoming.now, &mut EffectsOnly);
}

fn find(server: &Server, incoming: &Incoming) -> Option<RequestId> {
    let header = &incoming.header;
    // A canceled CLOSE would leave its open behind.
    let waits = |waiting: &InFlight| {
        (waiting.is_suspended && waiting.incoming.header.command != Command::CLOSE)
            || waiting.held.is_some()
    };
    let suspended = server.in_flight.iter().filter(|(_, waiting)| waits(waiting));
    // [MS-SMB2] 3.2.4.24: CANCEL names the session of its request, whose key signs it.
    let mut of_connection = suspended.filter(|(_, waiting)| {
        waiting.chain.connection == incoming.connection
            && waiting.incoming.header.session_id == header.session_id
    });
    let found = match header.async_id {
        Some(async_id) => of_connection.find(|(_, waiting)| waiting.async_id == Some(async_id)),
        None => of_connection
            .find(|(_, waiting)| waiting.incoming.header.message_id == header.message_id),
    };
    found.map(|(id, _)| *id)
}

/// Returns the requests that wait for the same LOCK as another one.
fn find_same(server: &Server, id: RequestId) -> Vec<RequestId> {
    let Some(lock) =
        server.in_flight.get(&id).and_then(|it| it.pending.downcast_ref::<lock::Pending>())
    else {
        return Vec::new();
    };
    let others = server.in_flight.iter().filter(|(other, _)| **other != id);
    let same = others.filter(|(_, it)| {
        it.pending.downcast_ref::<lock::Pending>().is_some_and(|it| lock.is_same(it))
    });
    same.map(|(id, _)| *id).collect()
}
