//! The questions of a request to others, before the request runs.

use std::borrow::Cow;

use super::Pipe;
use crate::answers::WithAnswers;
use crate::interface::Environment;
use crate::pdu::{Header, PacketType, flags};
use crate::{NameQuestion, Outcome, PipeName, Principal, Task};

impl Pipe {
    /// Returns the names and SIDs in a request that only a domain may know. After
    /// [`Pipe::learn`] of the answers, the same bytes can be written. A request in several
    /// fragments has none.
    pub fn questions(&mut self, bytes: &[u8]) -> Vec<NameQuestion> {
        if self.name != PipeName::Lsarpc || !self.catalogue.is_member() || self.request.is_some() {
            return Vec::new();
        }
        let asked = self.collect(bytes, |it| it.missing.into_inner().unwrap_or_default());
        asked.unwrap_or_default()
    }

    /// Returns the task that a request asks for, which another part of the server carries out.
    /// After [`Pipe::learn_outcome`], the same bytes can be written.
    pub fn task(&mut self, bytes: &[u8]) -> Option<Task> {
        if self.name != PipeName::Srvsvc {
            return None;
        }
        self.collect(bytes, |it| it.task.into_inner().unwrap_or_default()).flatten()
    }

    /// Takes the domain's answers for the next write.
    pub fn learn(&mut self, found: Vec<(NameQuestion, Principal)>) {
        self.found = found;
    }

    /// Takes the outcome of a task for the next write.
    pub fn learn_outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Runs the request that `bytes` complete, without answers and without an effect. `None` if
    /// they complete none that asks others.
    fn collect<T>(&mut self, bytes: &[u8], take: impl FnOnce(WithAnswers<'_>) -> T) -> Option<T> {
        let association = self.association.as_ref().filter(|_| self.input.is_empty())?;
        let (header, body) = bytes.split_first_chunk()?;
        let header = Header::decode(header);
        let is_last = header.packet_type == PacketType::REQUEST
            && header.has(flags::LAST_FRAGMENT)
            && !header.has(flags::OBJECT_UUID)
            && header.auth_length == 0
            && usize::from(header.frag_length) == bytes.len();
        let (&[_, _, _, _, a, b, c, d], stub) = body.split_first_chunk()?;
        let (context_id, mut opnum) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let stub = match (&self.request, header.has(flags::FIRST_FRAGMENT)) {
            (None, true) => Cow::Borrowed(stub),
            (Some(request), false) if request.call.call_id == header.call_id => {
                opnum = request.opnum;
                Cow::Owned([&request.stub[..], stub].concat())
            }
            _ => return None,
        };
        let interface = self.name.interface();
        let asks = interface.asking.contains(&opnum) && association.contexts.contains(&context_id);
        if !is_last || !asks || stub.len() > super::REQUEST_BYTES_MAX {
            return None;
        }
        let catalogue = WithAnswers::collecting(&*self.catalogue);
        let (caller, handles) = (&self.caller, &mut self.handles);
        let environment = &mut Environment { catalogue: &catalogue, caller, handles };
        // The result is that of the same request with answers.
        drop(interface.call(opnum, &stub, environment));
        Some(take(catalogue))
    }
}
