//! PDUs of the connection-oriented protocol: C706 12.6 and [MS-RPCE] 2.2.2.

use dtyp::Guid;

/// Bytes of the common header of all PDUs.
pub(crate) const HEADER_LEN: usize = 16;

/// PTYPE, kind of a PDU: C706 12.6.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PacketType(pub(crate) u8);

impl PacketType {
    pub(crate) const REQUEST: Self = Self(0);
    pub(crate) const RESPONSE: Self = Self(2);
    pub(crate) const FAULT: Self = Self(3);
    pub(crate) const BIND: Self = Self(11);
    pub(crate) const BIND_ACK: Self = Self(12);
    pub(crate) const BIND_NAK: Self = Self(13);
    pub(crate) const ALTER_CONTEXT: Self = Self(14);
    pub(crate) const ALTER_CONTEXT_RESPONSE: Self = Self(15);
    pub(crate) const AUTH3: Self = Self(16);
    pub(crate) const CANCEL: Self = Self(18);
    pub(crate) const ORPHANED: Self = Self(19);
}

/// pfc_flags of a PDU: C706 12.6.3.1.
pub(crate) mod flags {
    pub(crate) const FIRST_FRAGMENT: u8 = 0x01;
    pub(crate) const LAST_FRAGMENT: u8 = 0x02;
    pub(crate) const DID_NOT_EXECUTE: u8 = 0x20;
    pub(crate) const OBJECT_UUID: u8 = 0x80;
}

/// Reason for a failed call, below the operation: C706 appendix E, [MS-RPCE] 2.2.2.11.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The caller may not call the operation, or not in this way.
    AccessDenied,
    /// The parameters are malformed.
    BadStub,
    /// The context handle is unknown to this pipe.
    ContextMismatch,
    /// The interface has no operation of that number, or the server does not support it.
    OperationRange,
    /// The PDU is not allowed at this point.
    Protocol,
    /// The context id was never accepted.
    UnknownInterface,
}

impl Fault {
    pub(crate) fn status(self) -> u32 {
        match self {
            Self::AccessDenied => 0x0000_0005,
            Self::BadStub => 0x0000_06F7,
            Self::ContextMismatch => 0x1C00_001A,
            Self::OperationRange => 0x1C01_0002,
            Self::Protocol => 0x1C01_000B,
            Self::UnknownInterface => 0x1C01_0003,
        }
    }
}

impl From<crate::ndr::BadStub> for Fault {
    fn from(_: crate::ndr::BadStub) -> Self {
        Self::BadStub
    }
}

/// An interface or transfer syntax: p_syntax_id_t.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SyntaxId {
    pub(crate) uuid: Guid,
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

impl SyntaxId {
    pub(crate) const LEN: usize = 20;

    /// NDR, version 2: C706 chapter 14.
    pub(crate) const NDR: Self = Self {
        uuid: Guid::from_fields(
            0x8A88_5D04,
            0x1CEB,
            0x11C9,
            [0x9F, 0xE8, 0x08, 0x00, 0x2B, 0x10, 0x48, 0x60],
        ),
        major: 2,
        minor: 0,
    };

    /// The syntax in the response to a refused context.
    const NONE: Self = Self { uuid: Guid::ZERO, major: 0, minor: 0 };

    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let (uuid, version) = bytes.split_first_chunk().expect("20 bytes");
        let version: [u8; 4] = version.try_into().expect("20 less 16 bytes");
        let [a, b, c, d] = version;
        Self {
            uuid: Guid(*uuid),
            major: u16::from_le_bytes([a, b]),
            minor: u16::from_le_bytes([c, d]),
        }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.uuid.0);
        out.extend_from_slice(&self.major.to_le_bytes());
        out.extend_from_slice(&self.minor.to_le_bytes());
    }
}

/// The common header of all PDUs: C706 12.6.3.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) packet_type: PacketType,
    pub(crate) flags: u8,
    /// The first byte of the data representation: the high half is 1 for little-endian.
    pub(crate) representation: u8,
    pub(crate) frag_length: u16,
    pub(crate) auth_length: u16,
    pub(crate) call_id: u32,
}

impl Header {
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Self {
        let b = bytes;
        Self {
            version: b[0],
            packet_type: PacketType(b[2]),
            flags: b[3],
            representation: b[4],
            frag_length: u16::from_le_bytes([b[8], b[9]]),
            auth_length: u16::from_le_bytes([b[10], b[11]]),
            call_id: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    pub(crate) fn is_little_endian(self) -> bool {
        self.representation >> 4 == 1
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Call that a PDU responds to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Call {
    pub(crate) call_id: u32,
    pub(crate) context_id: u16,
}

fn packet(packet_type: PacketType, flags: u8, call_id: u32, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(HEADER_LEN + body.len()).expect("a fragment is below 64 KiB");
    let mut out = Vec::with_capacity(usize::from(len));
    out.extend_from_slice(&[5, 0, packet_type.0, flags, 0x10, 0, 0, 0]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&call_id.to_le_bytes());
    out.extend_from_slice(body);
    out
}

fn whole(packet_type: PacketType, call_id: u32, body: &[u8]) -> Vec<u8> {
    packet(packet_type, flags::FIRST_FRAGMENT | flags::LAST_FRAGMENT, call_id, body)
}

/// Bytes of a response before its stub data.
const RESPONSE_HEADER_LEN: usize = HEADER_LEN + 8;

/// Splits a response into fragments of at most `max_fragment` bytes: C706 12.6.4.10.
pub(crate) fn response(call: Call, stub: &[u8], max_fragment: u16) -> Vec<Vec<u8>> {
    // All but the last have a multiple of 8 bytes, which keeps a receiver's copy aligned.
    let room = (usize::from(max_fragment) - RESPONSE_HEADER_LEN) & !7;
    let mut fragments = Vec::new();
    let mut rest = stub;
    loop {
        let (now, later) = rest.split_at(rest.len().min(room));
        let mut flags = 0;
        if fragments.is_empty() {
            flags |= flags::FIRST_FRAGMENT;
        }
        if later.is_empty() {
            flags |= flags::LAST_FRAGMENT;
        }
        let alloc_hint = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(8 + now.len());
        body.extend_from_slice(&alloc_hint.to_le_bytes());
        body.extend_from_slice(&call.context_id.to_le_bytes());
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(now);
        fragments.push(packet(PacketType::RESPONSE, flags, call.call_id, &body));
        rest = later;
        if rest.is_empty() {
            return fragments;
        }
    }
}

/// Builds a fault: C706 12.6.4.7. No operation fails half-way, so every fault is marked as not
/// executed.
pub(crate) fn fault(call: Call, fault: Fault) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&call.context_id.to_le_bytes());
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(&fault.status().to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    let flags = flags::FIRST_FRAGMENT | flags::LAST_FRAGMENT | flags::DID_NOT_EXECUTE;
    packet(PacketType::FAULT, flags, call.call_id, &body)
}

/// Response to one proposed context: p_result_t.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContextResult {
    /// The context is accepted, with NDR.
    Accepted,
    /// Bind time feature negotiation, with the supported features: [MS-RPCE] 2.2.2.14.
    Features(u16),
    /// provider_rejection, with its reason.
    Rejected(u16),
}

impl ContextResult {
    pub(crate) const ABSTRACT_SYNTAX_NOT_SUPPORTED: Self = Self::Rejected(1);
    pub(crate) const TRANSFER_SYNTAXES_NOT_SUPPORTED: Self = Self::Rejected(2);
    pub(crate) const LOCAL_LIMIT_EXCEEDED: Self = Self::Rejected(3);

    fn encode(self, out: &mut Vec<u8>) {
        let (result, reason, syntax) = match self {
            Self::Accepted => (0_u16, 0_u16, SyntaxId::NDR),
            Self::Rejected(reason) => (2, reason, SyntaxId::NONE),
            Self::Features(features) => (3, features, SyntaxId::NONE),
        };
        out.extend_from_slice(&result.to_le_bytes());
        out.extend_from_slice(&reason.to_le_bytes());
        syntax.encode(out);
    }
}

/// Sizes and group that both ends of an association agree on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Agreement {
    /// Length of the longest fragment to the client.
    pub(crate) max_xmit_frag: u16,
    /// Length of the longest fragment from the client.
    pub(crate) max_recv_frag: u16,
    pub(crate) assoc_group_id: u32,
}

/// Builds a bind_ack, or an alter_context_resp, which has no secondary address: C706 12.6.4.2,
/// 12.6.4.4.
pub(crate) fn bind_ack(
    packet_type: PacketType,
    call_id: u32,
    agreement: Agreement,
    secondary_address: &str,
    results: &[ContextResult],
) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&agreement.max_xmit_frag.to_le_bytes());
    body.extend_from_slice(&agreement.max_recv_frag.to_le_bytes());
    body.extend_from_slice(&agreement.assoc_group_id.to_le_bytes());
    if secondary_address.is_empty() {
        body.extend_from_slice(&[0, 0]);
    } else {
        let len = u16::try_from(secondary_address.len() + 1).expect("the name of a pipe is short");
        body.extend_from_slice(&len.to_le_bytes());
        body.extend_from_slice(secondary_address.as_bytes());
        body.push(0);
    }
    // The header has 16 bytes, so aligning the body aligns the PDU.
    body.resize(body.len().next_multiple_of(4), 0);
    body.push(u8::try_from(results.len()).expect("as many as were proposed, in one byte"));
    body.extend_from_slice(&[0; 3]);
    for result in results {
        result.encode(&mut body);
    }
    whole(packet_type, call_id, &body)
}

/// Reason for refusing a whole bind: p_reject_reason_t, C706 12.6.4.5 and [MS-RPCE] 2.2.2.5.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BindNak {
    AuthenticationTypeNotRecognized,
    NotSpecified,
}

pub(crate) fn bind_nak(call_id: u32, reason: BindNak) -> Vec<u8> {
    let reason: u16 = match reason {
        BindNak::NotSpecified => 0,
        BindNak::AuthenticationTypeNotRecognized => 8,
    };
    let mut body = reason.to_le_bytes().to_vec();
    // The supported versions: one, 5.0. Padded to a multiple of 4.
    body.extend_from_slice(&[1, 5, 0, 0, 0, 0]);
    whole(PacketType::BIND_NAK, call_id, &body)
}
