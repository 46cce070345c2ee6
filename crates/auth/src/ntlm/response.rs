//! The NTLMv2 response: [MS-NLMP] 2.2.2.7, 3.3.2.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use zeroize::Zeroizing;

use super::av_pair::{self, AvId};
use super::layout::unicode;
use crate::error::AuthError;
use crate::nt_hash::NtHash;

/// HMAC_MD5 of the concatenated pieces.
pub(crate) fn hmac_md5(key: &[u8], pieces: &[&[u8]]) -> Zeroizing<[u8; 16]> {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes keys of any length");
    for piece in pieces {
        mac.update(piece);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// NTOWFv2: the key of this user of this domain.
pub(crate) fn ntowf_v2(hash: &NtHash, user: &str, domain: &str) -> Zeroizing<[u8; 16]> {
    hmac_md5(hash.as_bytes(), &[&unicode(&uppercase(user)), &unicode(domain)])
}

/// Upper case as in Windows: character by character, so that "ß" stays.
pub(crate) fn uppercase(text: &str) -> String {
    text.chars()
        .map(|character| {
            let mut upper = character.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(single), None) => single,
                _ => character,
            }
        })
        .collect()
}

/// NTProofStr of a challenge and the client's own bytes.
pub(crate) fn nt_proof(key: &[u8; 16], challenge: [u8; 8], temp: &[u8]) -> Zeroizing<[u8; 16]> {
    hmac_md5(key, &[&challenge, temp])
}

/// SessionBaseKey, in NTLMv2 also the KeyExchangeKey.
pub(crate) fn session_base_key(key: &[u8; 16], nt_proof: &[u8; 16]) -> Zeroizing<[u8; 16]> {
    hmac_md5(key, &[nt_proof])
}

/// An NTLMv2_RESPONSE in its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NtlmV2Response<'a> {
    pub(crate) nt_proof: &'a [u8; 16],
    /// NTLMv2_CLIENT_CHALLENGE, covered by the proof.
    pub(crate) temp: &'a [u8],
    /// True if the AV_PAIRs announce a MIC.
    pub(crate) has_mic: bool,
    /// MsvAvTargetName: the service that the client intends to log on to. `None` if it is empty.
    pub(crate) target_name: Option<&'a [u8]>,
}

impl<'a> NtlmV2Response<'a> {
    /// Parses an NtChallengeResponse that is not empty.
    pub(crate) fn parse(response: &'a [u8]) -> Result<Self, AuthError> {
        if response.len() == NTLM_V1_LEN {
            return Err(AuthError::NtlmV1);
        }
        let (nt_proof, temp) = response
            .split_first_chunk()
            .filter(|(_, temp)| temp.len() >= CLIENT_CHALLENGE_LEN)
            .ok_or(AuthError::Malformed("an NTLMv2 response is cut off"))?;
        if temp[..2] != RESPONSE_VERSION {
            return Err(AuthError::Malformed("an NTLM response of another version"));
        }
        let pairs = av_pair::parse(&temp[CLIENT_CHALLENGE_LEN..])?;
        let target_name = av_pair::find(&pairs, AvId::TargetName).filter(|name| !name.is_empty());
        Ok(Self { nt_proof, temp, has_mic: av_pair::has_mic(&pairs), target_name })
    }
}

/// NTLMv2_CLIENT_CHALLENGE, `temp` of [MS-NLMP] 3.3.2.
pub(crate) fn client_challenge(timestamp: u64, challenge: [u8; 8], target_info: &[u8]) -> Vec<u8> {
    let mut temp = vec![0; CLIENT_CHALLENGE_LEN];
    temp[..2].copy_from_slice(&RESPONSE_VERSION);
    temp[8..16].copy_from_slice(&timestamp.to_le_bytes());
    temp[16..24].copy_from_slice(&challenge);
    temp.extend_from_slice(target_info);
    temp.extend_from_slice(&[0; 4]);
    temp
}

/// RespType and HiRespType: [MS-NLMP] 2.2.2.7.
const RESPONSE_VERSION: [u8; 2] = [1, 1];
/// Bytes of NTLMv2_CLIENT_CHALLENGE before its AV_PAIRs.
const CLIENT_CHALLENGE_LEN: usize = 28;
/// Bytes of an NTLMv1 response, with or without extended session security.
const NTLM_V1_LEN: usize = 24;
