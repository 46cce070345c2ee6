//! One open of a pipe, from fragments to fragments.
//!
//! The state machine of a server's association: C706 12.5 and [MS-RPCE] 3.3. The response to a
//! mistake within a call is a fault. Bytes that are no PDU break the pipe, because the begin of the
//! next PDU is unknown then.

mod error;
mod questions;

pub use error::PipeError;

use crate::answers::{Found, WithAnswers};
use crate::bind::Bind;
use crate::handles::Handles;
use crate::interface::Environment;
use crate::pdu::{
    self, Agreement, BindNak, Call, ContextResult, Fault, HEADER_LEN, Header, PacketType, flags,
};
use crate::{Caller, Catalogue, Outcome, PipeName};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Longest fragment that is sent or announced, in bytes; the value of Windows for pipes.
const FRAGMENT_MAX: u16 = 4_280;

/// Longest fragment that is accepted, in bytes. Some clients send the first before they know the
/// announced limit.
const FRAGMENT_RECEIVED_MAX: u16 = 5_840;

/// Shortest maximum that a client may announce: MustRecvFragSize, C706 12.6.3.
const FRAGMENT_MIN: u16 = 1_432;

/// Highest number of bytes of stub data of one request, in all its fragments. The supported
/// requests have a few names.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Highest number of unread bytes of responses at which another request is accepted. A client that
/// never reads gets one more response than these at most.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;

/// Highest number of fragments in one write. A request of [`REQUEST_BYTES_MAX`] has some fifty of
/// [`FRAGMENT_MIN`], and clients write them one by one.
const FRAGMENTS_MAX: usize = 256;

/// Highest number of presentation contexts of one pipe; clients propose one to three.
const CONTEXTS_MAX: usize = 16;

/// Fixed memory of a pipe in bytes: the pipe itself, its caller, contexts and handles.
const PIPE_BYTES: usize = size_of::<Pipe>() + 2_048;

/// The association group of all pipes: they share no state, so one group suffices.
const ASSOCIATION_GROUP: u32 = 0x0000_53F0;

/// One open of a named pipe, in message mode.
pub struct Pipe {
    name: PipeName,
    catalogue: Arc<dyn Catalogue>,
    caller: Caller,
    handles: Handles,
    /// Bytes of an incomplete fragment; fewer than [`FRAGMENT_RECEIVED_MAX`].
    input: Vec<u8>,
    association: Option<Association>,
    request: Option<Request>,
    /// Answers of a domain, for one write.
    found: Found,
    /// Outcome of the task of one write.
    outcome: Option<Outcome>,
    /// Fragments to be read, oldest first.
    output: VecDeque<Vec<u8>>,
    /// Number of bytes of the oldest fragment that were read.
    output_read: usize,
    /// Number of unread bytes in `output`.
    output_len: usize,
    broken: bool,
}

/// Result of an accepted bind.
#[derive(Debug)]
struct Association {
    agreement: Agreement,
    /// Ids of accepted contexts; at most [`CONTEXTS_MAX`].
    contexts: Vec<u16>,
}

/// A request without its last fragment.
#[derive(Debug)]
struct Request {
    call: Call,
    opnum: u16,
    stub: Vec<u8>,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe")
            .field("name", &self.name)
            .field("association", &self.association)
            .field("request", &self.request)
            .field("pending_len", &self.pending_len())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Pipe {
    /// Opens a pipe for `caller`.
    #[must_use]
    pub fn new(name: PipeName, catalogue: Arc<dyn Catalogue>, caller: Caller) -> Self {
        Self {
            name,
            catalogue,
            caller,
            handles: Handles::default(),
            input: Vec::new(),
            association: None,
            request: None,
            found: Vec::new(),
            outcome: None,
            output: VecDeque::new(),
            output_read: 0,
            output_len: 0,
            broken: false,
        }
    }

    /// Name of the pipe, as opened.
    #[must_use]
    pub fn name(&self) -> PipeName {
        self.name
    }

    /// Takes new data behind the interface: those of the configuration as it is now.
    pub fn renew(&mut self, catalogue: Arc<dyn Catalogue>) {
        self.catalogue = catalogue;
    }

    /// Processes bytes that a client wrote: a part of a fragment, one, or several. The response can
    /// be read when this returns. Of one write, the last fragment alone may complete a request: a
    /// client has the answer to a request before it sends another one, and a worker that answered
    /// thousands at once would serve nobody else meanwhile.
    ///
    /// # Errors
    /// If the bytes are malformed or have another request behind the first one, or too many bytes
    /// of responses are unread.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PipeError> {
        if self.broken {
            return Err(PipeError::Broken);
        }
        if self.output_len > RESPONSE_BYTES_MAX {
            return Err(PipeError::ResponsesUnread);
        }
        let result = self.take_fragments(bytes);
        self.found = Vec::new();
        self.outcome = None;
        if result.is_err() {
            self.broken = true;
            self.input = Vec::new();
            self.request = None;
        }
        result
    }

    /// Reads the next bytes of the oldest fragment, `max_len` at most; empty if there is none. A
    /// read never crosses the end of a fragment, which is the end of a message of a pipe in message
    /// mode.
    pub fn read(&mut self, max_len: usize) -> Vec<u8> {
        let Some(fragment) = self.output.front() else { return Vec::new() };
        let rest = &fragment[self.output_read..];
        let bytes = rest[..rest.len().min(max_len)].to_vec();
        self.output_read += bytes.len();
        self.output_len -= bytes.len();
        if self.output_read == fragment.len() {
            self.output.pop_front();
            self.output_read = 0;
        }
        if self.output.is_empty() {
            // Frees the memory that many small fragments took.
            self.output = VecDeque::new();
        }
        bytes
    }

    /// Returns the result of the next [`Pipe::read`] without reading.
    #[must_use]
    pub fn peek(&self, max_len: usize) -> &[u8] {
        let Some(fragment) = self.output.front() else { return &[] };
        let rest = &fragment[self.output_read..];
        &rest[..rest.len().min(max_len)]
    }

    /// Number of unread bytes in all fragments.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.output_len
    }

    /// Memory of the pipe in bytes, with all its buffers.
    #[must_use]
    pub fn memory(&self) -> usize {
        /// Overhead of the allocator for each fragment.
        const ALLOCATION_BYTES: usize = 16;
        let request = self.request.as_ref().map_or(0, |request| request.stub.capacity());
        let fragments = self.output.capacity() * size_of::<Vec<u8>>()
            + self.output.len() * ALLOCATION_BYTES
            + self.output_len
            + self.output_read;
        PIPE_BYTES + self.input.capacity() + request + fragments
    }

    /// Number of bytes that a short read left of its fragment. If it is not zero after a read, the
    /// status of that read is STATUS_BUFFER_OVERFLOW.
    #[must_use]
    pub fn message_left(&self) -> usize {
        match self.output.front() {
            Some(fragment) if self.output_read > 0 => fragment.len() - self.output_read,
            _ => 0,
        }
    }

    /// Unread bytes of the oldest fragment, and number of unread fragments, for FSCTL_PIPE_PEEK
    /// ([MS-FSCC] 2.3.46).
    #[must_use]
    pub fn next_message_len(&self) -> (usize, usize) {
        let next = self.output.front().map_or(0, |fragment| fragment.len() - self.output_read);
        (next, self.output.len())
    }

    fn take_fragments(&mut self, mut bytes: &[u8]) -> Result<(), PipeError> {
        for _ in 0..FRAGMENTS_MAX {
            self.fill(&mut bytes, HEADER_LEN);
            let Some(header) = self.input.first_chunk() else { return Ok(()) };
            let len = fragment_len(Header::decode(header))?;
            self.fill(&mut bytes, len);
            if self.input.len() < len {
                return Ok(());
            }
            let fragment = std::mem::take(&mut self.input);
            let is_answered = self.handle_fragment(&fragment)?;
            if is_answered && !bytes.is_empty() {
                return Err(PipeError::TooManyRequests);
            }
        }
        if bytes.is_empty() { Ok(()) } else { Err(PipeError::TooManyRequests) }
    }

    /// Moves bytes to the input until it has `len`, or `bytes` is empty.
    fn fill(&mut self, bytes: &mut &[u8], len: usize) {
        let missing = len.saturating_sub(self.input.len());
        let (now, later) = bytes.split_at(missing.min(bytes.len()));
        self.input.extend_from_slice(now);
        *bytes = later;
    }

    /// Returns whether the fragment was the last one of a request, which is answered now.
    fn handle_fragment(&mut self, fragment: &[u8]) -> Result<bool, PipeError> {
        let (header, body) = fragment.split_first_chunk().expect("a fragment has a header");
        let header = Header::decode(header);
        match header.packet_type {
            PacketType::BIND => self.handle_bind(header, body),
            PacketType::ALTER_CONTEXT => self.handle_alter_context(header, body),
            PacketType::REQUEST => return self.handle_request(header, body),
            // No authentication can be completed, and no call is running that could be cancelled.
            PacketType::AUTH3 | PacketType::CANCEL => {}
            PacketType::ORPHANED => {
                self.request.take_if(|request| request.call.call_id == header.call_id);
            }
            _ => {
                self.answer_fault(Call { call_id: header.call_id, context_id: 0 }, Fault::Protocol)
            }
        }
        Ok(false)
    }

    fn handle_bind(&mut self, header: Header, body: &[u8]) {
        if self.association.is_some() {
            let call = Call { call_id: header.call_id, context_id: 0 };
            return self.answer_fault(call, Fault::Protocol);
        }
        let nak = |reason| pdu::bind_nak(header.call_id, reason);
        if asks_for_authentication(header, body) {
            return self.push(nak(BindNak::AuthenticationTypeNotRecognized));
        }
        let Some(bind) = Bind::decode(body).filter(|bind| !bind.contexts.is_empty()) else {
            return self.push(nak(BindNak::NotSpecified));
        };
        let group = bind.assoc_group_id;
        let agreement = Agreement {
            max_xmit_frag: bind.max_recv_frag.clamp(FRAGMENT_MIN, FRAGMENT_MAX),
            max_recv_frag: bind.max_xmit_frag.clamp(FRAGMENT_MIN, FRAGMENT_MAX),
            assoc_group_id: if group == 0 { ASSOCIATION_GROUP } else { group },
        };
        let mut association = Association { agreement, contexts: Vec::new() };
        let results = association.negotiate(&bind, self.name);
        let address = format!("\\PIPE\\{}", self.name.as_str());
        self.push(pdu::bind_ack(
            PacketType::BIND_ACK,
            header.call_id,
            agreement,
            &address,
            &results,
        ));
        self.association = Some(association);
    }

    fn handle_alter_context(&mut self, header: Header, body: &[u8]) {
        let call = Call { call_id: header.call_id, context_id: 0 };
        let bind = Bind::decode(body).filter(|bind| !bind.contexts.is_empty());
        let refused = asks_for_authentication(header, body);
        let (Some(association), Some(bind), false) = (&mut self.association, bind, refused) else {
            return self.answer_fault(call, Fault::Protocol);
        };
        let results = association.negotiate(&bind, self.name);
        let agreement = association.agreement;
        let packet_type = PacketType::ALTER_CONTEXT_RESPONSE;
        self.push(pdu::bind_ack(packet_type, header.call_id, agreement, "", &results));
    }

    fn handle_request(&mut self, header: Header, body: &[u8]) -> Result<bool, PipeError> {
        let Some((fixed, stub)) = body.split_first_chunk::<8>() else {
            return Err(PipeError::FragmentLength { frag_length: header.frag_length });
        };
        let [_, _, _, _, a, b, c, d] = *fixed;
        let call = Call { call_id: header.call_id, context_id: u16::from_le_bytes([a, b]) };
        let object_len = if header.has(flags::OBJECT_UUID) { 16 } else { 0 };
        let stub = stub.get(object_len..);
        let started = match (self.request.take(), header.has(flags::FIRST_FRAGMENT)) {
            (None, true) => {
                Some(Request { call, opnum: u16::from_le_bytes([c, d]), stub: Vec::new() })
            }
            (Some(request), false) if request.call == call => Some(request),
            _ => None,
        };
        // Without authentication in the bind, no request can have a verifier.
        let (Some(mut request), Some(stub), 0) = (started, stub, header.auth_length) else {
            self.answer_fault(call, Fault::Protocol);
            return Ok(false);
        };
        if request.stub.len() + stub.len() > REQUEST_BYTES_MAX {
            return Err(PipeError::RequestTooLong);
        }
        request.stub.extend_from_slice(stub);
        let is_last = header.has(flags::LAST_FRAGMENT);
        if is_last {
            self.answer(&request);
        } else {
            self.request = Some(request);
        }
        Ok(is_last)
    }

    fn answer(&mut self, request: &Request) {
        let Some(association) = &self.association else {
            return self.answer_fault(request.call, Fault::Protocol);
        };
        if !association.contexts.contains(&request.call.context_id) {
            return self.answer_fault(request.call, Fault::UnknownInterface);
        }
        let interface = self.name.interface();
        let max_fragment = association.agreement.max_xmit_frag;
        let catalogue = WithAnswers {
            catalogue: &*self.catalogue,
            found: &self.found,
            missing: Mutex::default(),
            outcome: self.outcome.as_ref(),
            task: Mutex::default(),
        };
        let environment = &mut Environment {
            catalogue: &catalogue,
            caller: &self.caller,
            handles: &mut self.handles,
        };
        match interface.call(request.opnum, &request.stub, environment) {
            Ok(stub) => {
                for fragment in pdu::response(request.call, &stub, max_fragment) {
                    self.push(fragment);
                }
            }
            Err(fault) => self.answer_fault(request.call, fault),
        }
    }

    fn push(&mut self, fragment: Vec<u8>) {
        self.output_len += fragment.len();
        self.output.push_back(fragment);
    }

    fn answer_fault(&mut self, call: Call, fault: Fault) {
        self.push(pdu::fault(call, fault));
    }
}

impl Association {
    /// Responds to each proposed context, in order, and keeps the accepted ones.
    fn negotiate(&mut self, bind: &Bind, name: PipeName) -> Vec<ContextResult> {
        let offered = name.interface().syntax;
        let negotiate = |context: &crate::bind::Context| {
            let result = context.negotiate(offered);
            if result != ContextResult::Accepted || self.contexts.contains(&context.context_id) {
                return result;
            }
            if self.contexts.len() == CONTEXTS_MAX {
                return ContextResult::LOCAL_LIMIT_EXCEEDED;
            }
            self.contexts.push(context.context_id);
            result
        };
        bind.contexts.iter().map(negotiate).collect()
    }
}

/// Length of the whole fragment, if `header` is valid.
fn fragment_len(header: Header) -> Result<usize, PipeError> {
    if header.version != 5 {
        return Err(PipeError::Version { version: header.version });
    }
    if !header.is_little_endian() {
        return Err(PipeError::BigEndian);
    }
    let frag_length = header.frag_length;
    let len = usize::from(frag_length);
    if len < HEADER_LEN || frag_length > FRAGMENT_RECEIVED_MAX {
        return Err(PipeError::FragmentLength { frag_length });
    }
    Ok(len)
}

/// True if a bind has a verifier of a level above "none": [MS-RPCE] 2.2.2.11.
fn asks_for_authentication(header: Header, body: &[u8]) -> bool {
    /// RPC_C_AUTHN_LEVEL_NONE: [MS-RPCE] 2.2.1.1.8.
    const LEVEL_NONE: u8 = 1;
    const TRAILER_LEN: usize = 8;
    if header.auth_length == 0 {
        return false;
    }
    let trailer = body.len().checked_sub(TRAILER_LEN + usize::from(header.auth_length));
    let level = trailer.and_then(|trailer| body.get(trailer + 1));
    level.is_none_or(|&level| level > LEVEL_NONE)
}

#[cfg(test)]
mod tests;
