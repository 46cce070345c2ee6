//! LSAPR_REFERENCED_DOMAIN_LIST: [MS-LSAT] 2.2.12.

use dtyp::Sid;

use crate::Principal;
use crate::ndr::Writer;

/// The domains of a lookup's results, each once.
#[derive(Debug, Default)]
pub(super) struct ReferencedDomains {
    domains: Vec<(String, Sid)>,
}

/// Value of MaxEntries: ignored by [MS-LSAT] 2.2.12, and the same in Windows and Samba.
const ENTRIES_MAX: u32 = 32;

impl ReferencedDomains {
    /// Returns the index of a principal's domain, and adds the domain if it is new.
    pub(super) fn index_of(&mut self, principal: &Principal) -> u32 {
        let sid = principal.domain_sid();
        let at = self.domains.iter().position(|(_, known)| *known == sid).unwrap_or_else(|| {
            self.domains.push((principal.domain.clone(), sid));
            self.domains.len() - 1
        });
        u32::try_from(at).expect("as many as names in a request")
    }

    /// Appends the pointer and the list behind it.
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
