//! Negotiation of a mechanism: RFC 4178, [MS-SPNG].

use crate::der::{self, Reader};
use crate::error::AuthError;

/// Mechanism of an authentication, in SPNEGO.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MechType {
    /// Kerberos V5: RFC 4120.
    Kerberos,
    /// Kerberos V5 under the identifier that Windows 2000 used by mistake. All later versions of
    /// Windows still list it first.
    MicrosoftKerberos,
    /// NTLM: [MS-NLMP].
    Ntlm,
}

impl MechType {
    /// Content of its OBJECT IDENTIFIER.
    pub(crate) fn oid(self) -> &'static [u8] {
        match self {
            Self::Kerberos => &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02],
            Self::MicrosoftKerberos => &[0x2A, 0x86, 0x48, 0x82, 0xF7, 0x12, 0x01, 0x02, 0x02],
            Self::Ntlm => &[0x2B, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0A],
        }
    }

    /// Returns the mechanism with this identifier.
    pub(crate) fn from_oid(oid: &[u8]) -> Option<Self> {
        [Self::Kerberos, Self::MicrosoftKerberos, Self::Ntlm].into_iter().find(|it| it.oid() == oid)
    }

    /// True for both identifiers of Kerberos.
    pub(crate) fn is_kerberos(self) -> bool {
        matches!(self, Self::Kerberos | Self::MicrosoftKerberos)
    }
}

/// Returns the mechanism of a token without SPNEGO, in the frame of RFC 2743 3.1.
pub(crate) fn mechanism_of_bare(token: &[u8]) -> Option<MechType> {
    let framed = der::expect(token, der::APPLICATION_0).ok()?;
    MechType::from_oid(der::expect(framed, der::OBJECT_IDENTIFIER).ok()?)
}

/// State of the negotiation, RFC 4178 4.2.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NegState {
    AcceptCompleted,
    AcceptIncomplete,
    Reject,
    RequestMic,
}

/// First token of the initiator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NegTokenInit<'a> {
    /// The MechTypeList element as received: the mechListMIC covers these bytes.
    pub(crate) mech_list: &'a [u8],
    /// Token for the first mechanism of the list.
    pub(crate) mech_token: Option<&'a [u8]>,
}

/// Later tokens of both sides.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct NegTokenResp<'a> {
    pub(crate) neg_state: Option<NegState>,
    pub(crate) supported_mech: Option<&'a [u8]>,
    pub(crate) response_token: Option<&'a [u8]>,
    pub(crate) mech_list_mic: Option<&'a [u8]>,
}

/// Encodes the offer of a NEGOTIATE response: NegTokenInit2 of [MS-SPNG] 2.2.1, with the hint that
/// every implementation sends and all others ignore.
pub(crate) fn neg_token_init2(mech_types: &[MechType]) -> Vec<u8> {
    let hint = der::element(der::GENERAL_STRING, b"not_defined_in_RFC4178@please_ignore");
    let hints = der::element(der::SEQUENCE, &der::element(der::context(0), &hint));
    let mut token = der::element(der::context(0), &mech_list(mech_types));
    token.extend(der::element(der::context(3), &hints));
    initial_token(&token)
}

/// Encodes a MechTypeList in DER.
pub(crate) fn mech_list(mech_types: &[MechType]) -> Vec<u8> {
    let oids: Vec<u8> = mech_types
        .iter()
        .flat_map(|mech_type| der::element(der::OBJECT_IDENTIFIER, mech_type.oid()))
        .collect();
    der::element(der::SEQUENCE, &oids)
}

/// Wraps the fields of a NegTokenInit in the frame of RFC 2743 3.1.
fn initial_token(fields: &[u8]) -> Vec<u8> {
    let mut token = der::element(der::OBJECT_IDENTIFIER, SPNEGO);
    token.extend(der::element(der::context(0), &der::element(der::SEQUENCE, fields)));
    der::element(der::APPLICATION_0, &token)
}

impl<'a> NegTokenInit<'a> {
    /// Parses an initial token with its frame.
    pub(crate) fn parse(token: &'a [u8]) -> Result<Self, AuthError> {
        let mut framed = Reader::new(der::expect(token, der::APPLICATION_0)?);
        if framed.expect(der::OBJECT_IDENTIFIER)? != SPNEGO {
            return Err(AuthError::NoCommonMechanism);
        }
        let fields = der::expect(framed.expect(der::context(0))?, der::SEQUENCE)?;
        let (mut mech_list, mut mech_token) = (None, None);
        let mut fields = Reader::new(fields);
        while !fields.is_empty() {
            let field = fields.element()?;
            match field.tag {
                MECH_TYPES => mech_list = Some(field.content),
                MECH_TOKEN => mech_token = Some(der::expect(field.content, der::OCTET_STRING)?),
                // reqFlags has no meaning (RFC 4178 4.2.1), and [3] is either a mechListMIC without
                // a key or the hints of [MS-SPNG].
                _ => {}
            }
        }
        let mech_list = mech_list.ok_or(AuthError::Malformed("a token without mechTypes"))?;
        if mech_list.len() > MECH_LIST_BYTES_MAX {
            return Err(AuthError::TooLong(mech_list.len()));
        }
        Ok(Self { mech_list, mech_token })
    }

    /// Returns the client's most preferred mechanism among those of this server, and its position
    /// in the client's order.
    pub(crate) fn choose(
        &self,
        has: impl Fn(MechType) -> bool,
    ) -> Result<Option<(usize, MechType)>, AuthError> {
        let mut mech_types = Reader::new(der::expect(self.mech_list, der::SEQUENCE)?);
        let mut rank = 0;
        while !mech_types.is_empty() {
            let oid = mech_types.expect(der::OBJECT_IDENTIFIER)?;
            if let Some(mech_type) = MechType::from_oid(oid).filter(|it| has(*it)) {
                return Ok(Some((rank, mech_type)));
            }
            rank += 1;
        }
        Ok(None)
    }

    /// Encodes the token with its frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fields = der::element(MECH_TYPES, self.mech_list);
        if let Some(token) = self.mech_token {
            fields.extend(octets(MECH_TOKEN, token));
        }
        initial_token(&fields)
    }
}

impl<'a> NegTokenResp<'a> {
    /// Parses a token other than the first.
    pub(crate) fn parse(token: &'a [u8]) -> Result<Self, AuthError> {
        let fields = der::expect(der::expect(token, der::context(1))?, der::SEQUENCE)?;
        let mut resp = Self::default();
        let mut fields = Reader::new(fields);
        while !fields.is_empty() {
            let field = fields.element()?;
            match field.tag {
                NEG_STATE => {
                    resp.neg_state = Some(match der::expect(field.content, der::ENUMERATED)? {
                        [0] => NegState::AcceptCompleted,
                        [1] => NegState::AcceptIncomplete,
                        [2] => NegState::Reject,
                        [3] => NegState::RequestMic,
                        _ => return Err(AuthError::Malformed("an unknown negState")),
                    });
                }
                SUPPORTED_MECH => {
                    resp.supported_mech = Some(der::expect(field.content, der::OBJECT_IDENTIFIER)?);
                }
                RESPONSE_TOKEN => {
                    resp.response_token = Some(der::expect(field.content, der::OCTET_STRING)?);
                }
                MECH_LIST_MIC => {
                    resp.mech_list_mic = Some(der::expect(field.content, der::OCTET_STRING)?);
                }
                _ => {}
            }
        }
        Ok(resp)
    }

    /// Encodes the token, without a frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(neg_state) = self.neg_state {
            let number = match neg_state {
                NegState::AcceptCompleted => 0,
                NegState::AcceptIncomplete => 1,
                NegState::Reject => 2,
                NegState::RequestMic => 3,
            };
            fields.extend(der::element(NEG_STATE, &der::element(der::ENUMERATED, &[number])));
        }
        if let Some(oid) = self.supported_mech {
            let oid = der::element(der::OBJECT_IDENTIFIER, oid);
            fields.extend(der::element(SUPPORTED_MECH, &oid));
        }
        if let Some(token) = self.response_token {
            fields.extend(octets(RESPONSE_TOKEN, token));
        }
        if let Some(mic) = self.mech_list_mic {
            fields.extend(octets(MECH_LIST_MIC, mic));
        }
        der::element(der::context(1), &der::element(der::SEQUENCE, &fields))
    }
}

fn octets(tag: u8, content: &[u8]) -> Vec<u8> {
    der::element(tag, &der::element(der::OCTET_STRING, content))
}

/// The identifier of SPNEGO itself, 1.3.6.1.5.5.2.
const SPNEGO: &[u8] = &[0x2B, 0x06, 0x01, 0x05, 0x05, 0x02];
/// Highest length of a MechTypeList in bytes, which is kept for the mechListMIC: about 80
/// mechanisms, where Windows offers four.
const MECH_LIST_BYTES_MAX: usize = 1_024;

// The fields of a NegTokenInit.
const MECH_TYPES: u8 = der::context(0);
const MECH_TOKEN: u8 = der::context(2);
// The fields of a NegTokenResp.
const NEG_STATE: u8 = der::context(0);
const SUPPORTED_MECH: u8 = der::context(1);
const RESPONSE_TOKEN: u8 = der::context(2);
const MECH_LIST_MIC: u8 = der::context(3);

#[cfg(test)]
mod tests;
