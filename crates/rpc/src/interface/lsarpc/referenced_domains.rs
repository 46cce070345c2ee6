//! LSAPR_REFERENCED_DOMAIN_LIST: [MS-LSAT] 2.2.12.

use dtyp::Sid;

use crate::Principal;
use crate::ndr::Writer;

/// The domains that the answers of a look-up belong to, each once.
#[derive(Debug, Default)]
pub(super) struct ReferencedDomains {
    domains: Vec<(String, Sid)>,
}

/// What MaxEntries says: [MS-LSAT] 2.2.12 has it ignored, Windows and Samba say this.
const ENTRIES_MAX: u32 = 32;

impl ReferencedDomains {
    /// The index of a principal's domain, which is added if it is new.
    pub(super) fn index_of(&mut self, principal: &Principal) -> u32 {
        let sid = principal.domain_sid();
        let at = self.domains.iter().position(|(_, known)| *known == sid).unwrap_or_else(|| {
            self.domains.push((principal.domain.clone(), sid));
            self.domains.len() - 1
        });
        u32::try_from(at).expect("as many as names in a request")
    }

    /// Appends the pointer and what it leads to.
    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.referent();
        writer.count(self.domains.len());
        if self.domains.is_empty() {
            writer.null();
            writer.u32(ENTRIES_MAX);
            return;
        }
        writer.referent();
        writer.u32(ENTRIES_MAX);
        writer.count(self.domains.len());
        for (name, _) in &self.domains {
            writer.unicode_string(name);
            writer.referent();
        }
        for (name, sid) in &self.domains {
            writer.unicode_buffer(name);
            writer.sid(sid);
        }
    }
}
