//! The questions of a request to a domain, before the request runs.

use std::sync::Mutex;

use super::Pipe;
use crate::domain_names::WithDomain;
use crate::interface::Environment;
use crate::pdu::{Header, PacketType, flags};
use crate::{NameQuestion, PipeName, Principal};

/// LsarLookupNames, LsarLookupSids and their successors: [MS-LSAT] 3.1.4.
const LOOKUPS: &[u16] = &[14, 15, 57, 58, 68];

impl Pipe {
    /// Returns the names and SIDs in a request that only a domain may know. After
    /// [`Pipe::learn`] of the answers, the same bytes can be written. A request in several
    /// fragments has none.
    pub fn questions(&mut self, bytes: &[u8]) -> Vec<NameQuestion> {
        const WHOLE: u8 = flags::FIRST_FRAGMENT | flags::LAST_FRAGMENT;
        let is_between_requests = self.input.is_empty() && self.request.is_none();
        if self.name != PipeName::Lsarpc || !self.catalogue.is_member() || !is_between_requests {
            return Vec::new();
        }
        let Some((header, body)) = bytes.split_first_chunk() else { return Vec::new() };
        let header = Header::decode(header);
        let is_whole = header.packet_type == PacketType::REQUEST
            && header.flags & WHOLE == WHOLE
            && !header.has(flags::OBJECT_UUID)
            && usize::from(header.frag_length) == bytes.len();
        let Some((&[_, _, _, _, _, _, c, d], stub)) = body.split_first_chunk() else {
            return Vec::new();
        };
        let opnum = u16::from_le_bytes([c, d]);
        if !is_whole || !LOOKUPS.contains(&opnum) {
            return Vec::new();
        }
        let catalogue =
            WithDomain { catalogue: &*self.catalogue, found: &[], missing: Mutex::default() };
        let (caller, handles) = (&self.caller, &mut self.handles);
        let environment = &mut Environment { catalogue: &catalogue, caller, handles };
        // The result is that of the same request with answers.
        drop(self.name.interface().call(opnum, stub, environment));
        catalogue.missing.into_inner().unwrap_or_default()
    }

    /// Takes the domain's answers for the next write.
    pub fn learn(&mut self, found: Vec<(NameQuestion, Principal)>) {
        self.found = found;
    }
}
