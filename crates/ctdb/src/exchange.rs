//! Requests and their replies on one socket, without the socket: bytes in, events out.
//!
//! Any number of requests may be pending, up to [`REQUESTS_MAX`]; replies come in any order, with
//! messages in between. There is no queue of replies or messages: a packet stays in the input
//! until [`Exchange::next_event`] takes it, and the input is not read from the socket meanwhile.
//! So a caller that is slow slows ctdbd down, which keeps a million messages for it and ends the
//! connection then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::answer::{Answer, Refusal};
use crate::call::Call;
use crate::control::{self, Control, Destination, opcode, push_counted};
use crate::malformed::Malformed;
use crate::message::Message;
use crate::packet::{self, PACKET_BYTES_MAX, Packet, operation, whole_length};

/// Highest number of requests without a reply; a further one is refused.
pub const REQUESTS_MAX: usize = 4096;

/// Highest number of bytes that wait to be written; a further packet is refused.
pub const OUTPUT_BYTES_MAX: usize = PACKET_BYTES_MAX;

/// Written bytes that stay in memory, so that the rest is not moved after each write.
const SENT_BYTES_MAX: usize = 1024 * 1024;

/// Packets that are taken before deadlines are looked at, so that an endless row of messages does
/// not keep requests pending for ever.
const PACKETS_PER_LOOK: u32 = 64;

/// A request that was sent on this connection.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(u32);

/// Reason why something cannot be sent. Nothing has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsent {
    /// Too much waits to be written, or to be answered: ctdbd is slow.
    #[error("too many requests are waiting for ctdbd")]
    Full,
    /// The packet would be longer than [`PACKET_BYTES_MAX`].
    #[error("the packet is too long")]
    TooLong,
}

/// Reason why a request has no result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// There was no reply before its deadline. ctdbd may have done it nevertheless.
    #[error("ctdbd does not answer")]
    Expired,
    /// The reply cannot be understood.
    #[error("ctdbd answers with {0}")]
    Malformed(#[from] Malformed),
    /// ctdbd refuses to carry it out.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Something that happened on the connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A control has a result.
    Answered(RequestId, Result<Answer, Failure>),
    /// A call has a result: empty, or the record, by its function.
    Called(RequestId, Result<Vec<u8>, Failure>),
    /// A message to a registered service.
    Message(Message),
}

/// Kind of request that a reply must fit.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Call,
    /// The reply to a control of this opcode.
    Control(u32),
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    expected: Expected,
    deadline: Instant,
}

/// Requests and replies of one connection.
#[derive(Debug, Default)]
pub struct Exchange {
    input: Vec<u8>,
    /// Bytes at the front of `input` that have been taken.
    taken: usize,
    output: Vec<u8>,
    /// Bytes at the front of `output` that have been written.
    sent: usize,
    pending: BTreeMap<u32, Pending>,
    /// Deadlines of `pending`, the earliest first.
    deadlines: BTreeSet<(Instant, u32)>,
    last_request: u32,
    packets_since_look: u32,
}

impl Exchange {
    /// Sends a control whose result arrives as [`Event::Answered`], at `deadline` at the latest.
    ///
    /// # Errors
    /// [`Unsent`]; nothing was sent.
    pub fn ask(
        &mut self,
        destination: Destination,
        control: &Control<'_>,
        deadline: Instant,
    ) -> Result<RequestId, Unsent> {
        let body = control.encode(true);
        let expected = Expected::Control(control.opcode());
        self.request(control::OPERATION, destination, &body, expected, deadline)
    }

    /// Sends a control without asking for a result.
    ///
    /// # Errors
    /// As [`Exchange::ask`].
    pub fn tell(&mut self, destination: Destination, control: &Control<'_>) -> Result<(), Unsent> {
        let request = self.unused_request();
        self.put(control::OPERATION, destination, request, &control.encode(false))
    }

    /// Sends a call whose result arrives as [`Event::Called`], at `deadline` at the latest. To send
    /// the same again after that is harmless.
    ///
    /// # Errors
    /// As [`Exchange::ask`].
    pub fn call(&mut self, call: Call<'_>, deadline: Instant) -> Result<RequestId, Unsent> {
        let body = call.encode();
        self.request(operation::REQ_CALL, Destination::Own, &body, Expected::Call, deadline)
    }

    /// Sends a message. It may be lost, and nobody says so.
    ///
    /// # Errors
    /// As [`Exchange::ask`].
    pub fn send_message(
        &mut self,
        destination: Destination,
        service: u64,
        data: &[u8],
    ) -> Result<(), Unsent> {
        let mut body = service.to_ne_bytes().to_vec();
        push_counted(&mut body, data);
        self.put(operation::REQ_MESSAGE, destination, 0, &body)
    }

    fn request(
        &mut self,
        operation: u32,
        destination: Destination,
        body: &[u8],
        expected: Expected,
        deadline: Instant,
    ) -> Result<RequestId, Unsent> {
        if self.pending.len() >= REQUESTS_MAX {
            return Err(Unsent::Full);
        }
        let request = self.unused_request();
        self.put(operation, destination, request, body)?;
        self.pending.insert(request, Pending { expected, deadline });
        self.deadlines.insert((deadline, request));
        Ok(RequestId(request))
    }

    /// Returns a number that no pending request has, and not zero, which messages have.
    fn unused_request(&mut self) -> u32 {
        loop {
            self.last_request = self.last_request.wrapping_add(1).max(1);
            if !self.pending.contains_key(&self.last_request) {
                return self.last_request;
            }
        }
    }

    fn put(
        &mut self,
        operation: u32,
        destination: Destination,
        request: u32,
        body: &[u8],
    ) -> Result<(), Unsent> {
        if !packet::fits(body) {
            return Err(Unsent::TooLong);
        }
        if self.output().len() + packet::packet_bytes(body) > OUTPUT_BYTES_MAX {
            return Err(Unsent::Full);
        }
        packet::encode(&mut self.output, operation, destination.number(), request, body);
        Ok(())
    }

    /// Bytes that are to be written to the socket.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Removes bytes from the front of the output: they have been written.
    pub fn written(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.output.len() || self.sent >= SENT_BYTES_MAX {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Adds bytes that were read from the socket. Call it only if [`Exchange::next_event`] has
    /// returned nothing: then the input is never longer than one packet and these bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..self.taken);
        self.taken = 0;
        self.input.extend(bytes);
    }

    /// Returns the next result or message of the input; `None` if it has no whole packet. Requests
    /// whose deadline has passed are looked for only after many packets in a row: their replies
    /// may be in the socket, so the caller reads that first and calls [`Exchange::expire`] then.
    ///
    /// Packets that nobody waits for are left out: replies after their deadline, and unknown ones.
    ///
    /// # Errors
    /// The input is no row of packets: the connection is of no use any more.
    pub fn next_event(&mut self, now: Instant) -> Result<Option<Event>, Malformed> {
        if self.packets_since_look >= PACKETS_PER_LOOK
            && let Some(event) = self.expire(now)
        {
            return Ok(Some(event));
        }
        loop {
            let rest = self.input.get(self.taken..).unwrap_or_default();
            let Some(length) = whole_length(rest)? else { return Ok(None) };
            let Some(packet) = rest.get(..length) else { return Ok(None) };
            let (header, packet) = Packet::decode(packet)?;
            let event = match packet {
                Packet::Message { service, data } => Some(Event::Message(Message {
                    service,
                    generation: header.generation,
                    data: data.to_vec(),
                })),
                Packet::Other => None,
                reply => {
                    let pending = self.pending.remove(&header.request);
                    pending.map(|pending| {
                        self.deadlines.remove(&(pending.deadline, header.request));
                        result(RequestId(header.request), pending.expected, reply)
                    })
                }
            };
            self.taken += length;
            self.packets_since_look = self.packets_since_look.saturating_add(1);
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Ends a request whose deadline has passed. Its reply, if it comes still, is left out.
    pub fn expire(&mut self, now: Instant) -> Option<Event> {
        let Some(&(deadline, request)) = self.deadlines.first().filter(|(it, _)| *it <= now) else {
            self.packets_since_look = 0;
            return None;
        };
        self.deadlines.remove(&(deadline, request));
        let expected = self.pending.remove(&request).map(|pending| pending.expected);
        let id = RequestId(request);
        Some(match expected {
            Some(Expected::Call) => Event::Called(id, Err(Failure::Expired)),
            _ => Event::Answered(id, Err(Failure::Expired)),
        })
    }

    /// Time at which the next request expires.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

/// Returns the event of a reply to a request.
fn result(id: RequestId, expected: Expected, reply: Packet<'_>) -> Event {
    let refused = |status: u32, text| Failure::from(Refusal::new(i64::from(status), text));
    match (expected, reply) {
        (Expected::Call, Packet::ReplyCall { status: 0, data }) => {
            Event::Called(id, Ok(data.to_vec()))
        }
        (Expected::Call, Packet::ReplyCall { status, .. }) => {
            Event::Called(id, Err(refused(status, &[])))
        }
        (Expected::Call, Packet::ReplyError { status, text }) => {
            Event::Called(id, Err(refused(status, text)))
        }
        (Expected::Call, _) => Event::Called(id, Err(Malformed::Unexpected.into())),
        (Expected::Control(opcode), Packet::ReplyControl { status, data, error }) => {
            Event::Answered(id, control_result(opcode, status, data, error))
        }
        (Expected::Control(_), Packet::ReplyError { status, text }) => {
            Event::Answered(id, Err(refused(status, text)))
        }
        (Expected::Control(_), _) => Event::Answered(id, Err(Malformed::Unexpected.into())),
    }
}

fn control_result(opcode: u32, status: i32, data: &[u8], error: &[u8]) -> Result<Answer, Failure> {
    if opcode == opcode::CHECK_SERVICE {
        return Ok(Answer::IsRegistered(status == 0));
    }
    let has_result = matches!(opcode, opcode::OWN_NUMBER | opcode::RECOVERY_MODE);
    match u32::try_from(status) {
        Ok(status) if status == 0 || has_result => Ok(Answer::decode(opcode, status, data)?),
        _ => Err(Refusal::new(status.into(), error).into()),
    }
}
