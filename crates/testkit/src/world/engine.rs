//! Calls into the engine, separate from the code around it.
//!
//! Only callgrind needs this: it counts instructions in these functions
//! (`scripts/instructions.sh`), so they are never inlined.

use bytes::BytesMut;
use object::{ObjectResult, Piped};
use proto::{
    CheckedFrame, ConnectionId, Effect, Now, ReceivedFrame, Reply, RequestId, Server, Storage,
    Transmit,
};

/// Decrypts and verifies a frame, as a lane does.
#[inline(never)]
pub(super) fn open(
    server: &Server,
    connection: ConnectionId,
    head: &[u8],
    frame: &mut BytesMut,
) -> Option<CheckedFrame> {
    server.frame_keys(connection).check_of(head).map(|check| check.run(frame))
}

#[inline(never)]
pub(super) fn handle_frame(
    server: &mut Server,
    connection: ConnectionId,
    now: Now,
    frame: BytesMut,
    piped: Option<Piped>,
    checked: Option<CheckedFrame>,
    storage: &mut dyn Storage,
) {
    server.handle_frame_with(now, ReceivedFrame { connection, frame, piped, checked }, storage);
    return_here();
}

#[inline(never)]
pub(super) fn handle_reply(server: &mut Server, now: Now, request: RequestId, reply: Reply) {
    server.handle_reply(now, request, reply);
    return_here();
}

#[inline(never)]
pub(super) fn poll_effect(server: &mut Server) -> Option<(Option<RequestId>, Effect)> {
    server.poll_effect()
}

/// Returns the buffer of a frame that was sent.
#[inline(never)]
pub(super) fn handle_sent(server: &mut Server, now: Now, frame: BytesMut) {
    server.handle_sent(now, frame);
    return_here();
}

/// Builds a frame as it is sent.
#[inline(never)]
pub(super) fn poll_transmit(server: &mut Server) -> Option<Transmit> {
    let mut transmit = server.poll_transmit()?;
    transmit.protect();
    Some(transmit)
}

/// Executes an operation of the store in the middle of a call into the engine. Callgrind does not
/// count it: it counts by turns, from one function of this module to the next.
#[inline(never)]
pub(super) fn leave(perform: impl FnOnce() -> ObjectResult) -> ObjectResult {
    let result = perform();
    return_here();
    result
}

/// Keeps the compiler from tail calls: callgrind would not see the function end, and would count
/// nothing from then on.
#[inline(always)]
fn return_here() {
    std::hint::black_box(());
}
