//! One open of a pipe: fragments in, fragments out.
//!
//! The state machine of a server's association: C706 12.5 and [MS-RPCE] 3.3. A mistake within a
//! call is answered by a fault; bytes that are no PDU at all break the pipe, because nothing after
//! them can be trusted to begin where it seems to.

mod error;

pub use error::PipeError;

use crate::bind::Bind;
use crate::handles::Handles;
use crate::interface::Environment;
use crate::pdu::{
    self, Agreement, BindNak, Call, ContextResult, Fault, HEADER_LEN, Header, PacketType, flags,
};
use crate::{Caller, Catalogue, PipeName};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The longest fragment we send or announce to receive; what Windows uses on pipes.
const FRAGMENT_MAX: u16 = 4_280;

/// The longest fragment we take. Some clients send the first before they know what we announce.
const FRAGMENT_RECEIVED_MAX: u16 = 5_840;

/// The shortest maximum that a client may announce: MustRecvFragSize, C706 12.6.3.
const FRAGMENT_MIN: u16 = 1_432;

/// Stub data of one request, in all its fragments. The requests served here have a few names.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Responses that wait to be read when another request comes. A client that never reads gets no
/// further than this and one more response.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;

/// Presentation contexts of one pipe; clients propose one to three.
const CONTEXTS_MAX: usize = 16;

/// Bytes of a pipe without what it keeps for its client: itself, its caller, contexts and handles.
const PIPE_BYTES: usize = size_of::<Pipe>() + 2_048;

/// The association group that we give: no state of ours is shared between pipes, so one will do.
const ASSOCIATION_GROUP: u32 = 0x0000_53F0;

/// One open of a named pipe, in message mode.
pub struct Pipe {
    name: PipeName,
    catalogue: Arc<dyn Catalogue>,
    caller: Caller,
    handles: Handles,
    /// Bytes of a fragment that is not whole yet; shorter than [`FRAGMENT_RECEIVED_MAX`].
    input: Vec<u8>,
    association: Option<Association>,
    request: Option<Request>,
    /// Fragments to be read, oldest first.
    output: VecDeque<Vec<u8>>,
    /// How much of the oldest was read already.
    output_read: usize,
    /// Bytes in `output` that were not read.
    output_len: usize,
    broken: bool,
}

/// What a bind established.
#[derive(Debug)]
struct Association {
    agreement: Agreement,
    /// The ids of accepted contexts; at most [`CONTEXTS_MAX`].
    contexts: Vec<u16>,
}

/// A request whose last fragment has not come.
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
    /// A pipe that `caller` just opened.
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
            output: VecDeque::new(),
            output_read: 0,
            output_len: 0,
            broken: false,
        }
    }

    /// Which pipe it is.
    #[must_use]
    pub fn name(&self) -> PipeName {
        self.name
    }

    /// Takes what a client wrote: any part of a fragment, one, or several. What the answer is can be
    /// read when this returns.
    ///
    /// # Errors
    /// If the bytes are no PDUs that can be answered, or too much waits to be read.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PipeError> {
        if self.broken {
            return Err(PipeError::Broken);
        }
        if self.output_len > RESPONSE_BYTES_MAX {
            return Err(PipeError::ResponsesUnread);
        }
        let result = self.take_fragments(bytes);
        if result.is_err() {
            self.broken = true;
            self.input = Vec::new();
            self.request = None;
        }
        result
    }

    /// The next bytes of the oldest fragment, `max_len` at most; empty if there is none. A read never
    /// reaches into a second fragment, as it does not reach into a second message of a pipe in
    /// message mode.
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
            // What many small fragments took is not kept.
            self.output = VecDeque::new();
        }
        bytes
    }

    /// What the next read would bring, without reading it.
    #[must_use]
    pub fn peek(&self, max_len: usize) -> &[u8] {
        let Some(fragment) = self.output.front() else { return &[] };
        let rest = &fragment[self.output_read..];
        &rest[..rest.len().min(max_len)]
    }

    /// Bytes that wait to be read, in all fragments.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.output_len
    }

    /// Bytes of memory that the pipe takes, with all that it keeps.
    #[must_use]
    pub fn memory(&self) -> usize {
        /// What the allocator adds to each fragment.
        const ALLOCATION_BYTES: usize = 16;
        let request = self.request.as_ref().map_or(0, |request| request.stub.capacity());
        let fragments = self.output.capacity() * size_of::<Vec<u8>>()
            + self.output.len() * ALLOCATION_BYTES
            + self.output_len
            + self.output_read;
        PIPE_BYTES + self.input.capacity() + request + fragments
    }

    /// Bytes of a fragment that were left by a read that was too short for it. If it is not zero
    /// after a read, the answer to that read is STATUS_BUFFER_OVERFLOW.
    #[must_use]
    pub fn message_left(&self) -> usize {
        match self.output.front() {
            Some(fragment) if self.output_read > 0 => fragment.len() - self.output_read,
            _ => 0,
        }
    }

    /// Bytes of the oldest fragment that wait to be read, and how many fragments wait: what
    /// FSCTL_PIPE_PEEK tells ([MS-FSCC] 2.3.46).
    #[must_use]
    pub fn next_message_len(&self) -> (usize, usize) {
        let next = self.output.front().map_or(0, |fragment| fragment.len() - self.output_read);
        (next, self.output.len())
    }

    fn take_fragments(&mut self, mut bytes: &[u8]) -> Result<(), PipeError> {
        loop {
            self.fill(&mut bytes, HEADER_LEN);
            let Some(header) = self.input.first_chunk() else { return Ok(()) };
            let len = fragment_len(Header::decode(header))?;
            self.fill(&mut bytes, len);
            if self.input.len() < len {
                return Ok(());
            }
            let fragment = std::mem::take(&mut self.input);
            self.handle_fragment(&fragment)?;
            if self.output_len > RESPONSE_BYTES_MAX && !bytes.is_empty() {
                return Err(PipeError::TooManyRequests);
            }
        }
    }

    /// Moves bytes to the input until it has `len`, or there are no more.
    fn fill(&mut self, bytes: &mut &[u8], len: usize) {
        let missing = len.saturating_sub(self.input.len());
        let (now, later) = bytes.split_at(missing.min(bytes.len()));
        self.input.extend_from_slice(now);
        *bytes = later;
    }

    fn handle_fragment(&mut self, fragment: &[u8]) -> Result<(), PipeError> {
        let (header, body) = fragment.split_first_chunk().expect("a fragment has a header");
        let header = Header::decode(header);
        match header.packet_type {
            PacketType::BIND => self.handle_bind(header, body),
            PacketType::ALTER_CONTEXT => self.handle_alter_context(header, body),
            PacketType::REQUEST => return self.handle_request(header, body),
            // There is no authentication to complete, and nothing runs that could be cancelled.
            PacketType::AUTH3 | PacketType::CANCEL => {}
            PacketType::ORPHANED => {
                self.request.take_if(|request| request.call.call_id == header.call_id);
            }
            _ => {
                self.answer_fault(Call { call_id: header.call_id, context_id: 0 }, Fault::Protocol)
            }
        }
        Ok(())
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
        let results = association.judge(&bind, self.name);
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
        let results = association.judge(&bind, self.name);
        let agreement = association.agreement;
        let packet_type = PacketType::ALTER_CONTEXT_RESPONSE;
        self.push(pdu::bind_ack(packet_type, header.call_id, agreement, "", &results));
    }

    fn handle_request(&mut self, header: Header, body: &[u8]) -> Result<(), PipeError> {
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
        // Without authentication in the bind, no request can carry a verifier.
        let (Some(mut request), Some(stub), 0) = (started, stub, header.auth_length) else {
            self.answer_fault(call, Fault::Protocol);
            return Ok(());
        };
        if request.stub.len() + stub.len() > REQUEST_BYTES_MAX {
            return Err(PipeError::RequestTooLong);
        }
        request.stub.extend_from_slice(stub);
        if header.has(flags::LAST_FRAGMENT) {
            self.answer(&request);
        } else {
            self.request = Some(request);
        }
        Ok(())
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
        let environment = &mut Environment {
            catalogue: &*self.catalogue,
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
    /// The answer to each proposed context, in order; accepted ones are remembered.
    fn judge(&mut self, bind: &Bind, name: PipeName) -> Vec<ContextResult> {
        let offered = name.interface().syntax;
        let judge = |context: &crate::bind::Context| {
            let result = context.judge(offered);
            if result != ContextResult::Accepted || self.contexts.contains(&context.context_id) {
                return result;
            }
            if self.contexts.len() == CONTEXTS_MAX {
                return ContextResult::LOCAL_LIMIT_EXCEEDED;
            }
            self.contexts.push(context.context_id);
            result
        };
        bind.contexts.iter().map(judge).collect()
    }
}

/// The length of the whole fragment, if this can be one's header.
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

/// Whether a bind comes with a verifier of a level above "none": [MS-RPCE] 2.2.2.11.
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
