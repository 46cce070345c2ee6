//! SMB2 CANCEL: [MS-SMB2] 3.3.5.16.

use model::connection::ConnectionId;
use model::reject::Reject;
use model::request_id::RequestId;
use wire::Command;

use crate::effect::Effect;
use crate::request::{InFlight, Incoming};
use crate::server::Server;

/// Ends a request that waits for an event, is throttled, or waits long for the store. CANCEL itself
/// has no response, even if it finds no request.
///
/// A request that has just begun to wait for the store, or waits for another process, goes on: its
/// reply is certain, and [MS-SMB2] lets a server finish it.
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
    let Some(mut waiting) = server.in_flight.remove(id) else { return };
    if waiting.is_slow() && waiting.incoming.header.command == Command::LOCK {
        // Its client would not know of a lock that it has by now.
        waiting.incoming.is_canceled = true;
        return server.in_flight.insert(waiting);
    }
    if waiting.is_slow() {
        return answer_slow(server, incoming, waiting);
    }
    server.refuse_waiting(waiting, Reject::Cancelled, incoming.now);
}

/// Answers a request that the store works on. Its work goes on like that of a lost connection: what
/// it changes is changed completely, and an open that no client knows of is closed again. Only data
/// that the store has not begun to read or write are given up, because they take memory.
fn answer_slow(server: &mut Server, incoming: &Incoming, mut waiting: InFlight) {
    if matches!(waiting.incoming.header.command, Command::READ | Command::WRITE) {
        let withdraw = Effect::Withdraw(waiting.incoming.id);
        server.globals.outbox.effects.push_back((None, withdraw));
    }
    let mut chain = std::mem::take(&mut *waiting.chain);
    let async_id = waiting.async_id.take();
    server.refuse(&mut chain, &waiting.incoming, async_id, Reject::Cancelled);
    waiting.incoming.trace = trace::Request::default();
    if waiting.incoming.header.command == Command::CREATE {
        // Neither may it move to another channel.
        waiting.incoming.connection = ConnectionId::NONE;
        waiting.incoming.header.session_id = 0;
    }
    server.in_flight.insert(waiting);
    // Resumes the next requests of the compound.
    server.run_rest(chain, incoming.now);
}
