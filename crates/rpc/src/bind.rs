//! Proposals of a client in bind and alter_context: C706 12.6.4.1, 12.6.4.3.

use crate::pdu::{ContextResult, SyntaxId};

/// A bind or alter_context, without its header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Bind {
    pub(crate) max_xmit_frag: u16,
    pub(crate) max_recv_frag: u16,
    pub(crate) assoc_group_id: u32,
    pub(crate) contexts: Vec<Context>,
}

/// A proposed presentation context: p_cont_elem_t.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Context {
    pub(crate) context_id: u16,
    pub(crate) abstract_syntax: SyntaxId,
    pub(crate) transfer_syntaxes: Vec<SyntaxId>,
}

impl Bind {
    /// Decodes the body of the PDU; `None` if it is incomplete. Further bytes are ignored.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let (fixed, mut rest) = body.split_first_chunk::<12>()?;
        let [a, b, c, d, e, f, g, h, count, ..] = *fixed;
        // At most 255, of 24 bytes or more each, and the length of the PDU is limited.
        let mut contexts = Vec::new();
        for _ in 0..count {
            let (head, after) = rest.split_first_chunk::<4>()?;
            let (syntax, mut after) = after.split_first_chunk::<{ SyntaxId::LEN }>()?;
            let mut transfer_syntaxes = Vec::new();
            for _ in 0..head[2] {
                let (syntax, more) = after.split_first_chunk::<{ SyntaxId::LEN }>()?;
                transfer_syntaxes.push(SyntaxId::decode(syntax));
                after = more;
            }
            contexts.push(Context {
                context_id: u16::from_le_bytes([head[0], head[1]]),
                abstract_syntax: SyntaxId::decode(syntax),
                transfer_syntaxes,
            });
            rest = after;
        }
        Some(Self {
            max_xmit_frag: u16::from_le_bytes([a, b]),
            max_recv_frag: u16::from_le_bytes([c, d]),
            assoc_group_id: u32::from_le_bytes([e, f, g, h]),
            contexts,
        })
    }
}

impl Context {
    /// Decides on the context, for a pipe that has the interface `offered`.
    pub(crate) fn negotiate(&self, offered: SyntaxId) -> ContextResult {
        if let Some(features) = self.transfer_syntaxes.iter().find_map(|&s| proposed_features(s)) {
            return ContextResult::Features(features & KEEP_CONNECTION_ON_ORPHAN);
        }
        let wanted = self.abstract_syntax;
        // C706 12.6.4.1: major versions must be equal, and the server's minor version at least the
        // client's.
        let is_ours = wanted.uuid == offered.uuid
            && wanted.major == offered.major
            && wanted.minor <= offered.minor;
        if !is_ours {
            ContextResult::ABSTRACT_SYNTAX_NOT_SUPPORTED
        } else if self.transfer_syntaxes.contains(&SyntaxId::NDR) {
            ContextResult::Accepted
        } else {
            ContextResult::TRANSFER_SYNTAXES_NOT_SUPPORTED
        }
    }
}

/// KeepConnectionOnOrphanSupported: [MS-RPCE] 2.2.2.14. An orphaned call does not cost the pipe.
const KEEP_CONNECTION_ON_ORPHAN: u16 = 0x0002;

/// First half of the uuid 6cb71c2c-9812-4540-…, the second half of which is a bit mask.
const FEATURES_UUID: [u8; 8] = [0x2C, 0x1C, 0xB7, 0x6C, 0x12, 0x98, 0x40, 0x45];

/// Returns the features that a client proposes, if `syntax` is bind time feature negotiation:
/// [MS-RPCE] 3.3.1.5.3.
fn proposed_features(syntax: SyntaxId) -> Option<u16> {
    let (prefix, mask) = syntax.uuid.0.split_first_chunk::<8>()?;
    (*prefix == FEATURES_UUID && syntax.major == 1).then(|| u16::from_le_bytes([mask[0], mask[1]]))
}
