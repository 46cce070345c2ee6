//! AV_PAIR, the elements of target information: [MS-NLMP] 2.2.2.1.

use crate::error::AuthError;

/// AvId: [MS-NLMP] 2.2.2.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AvId {
    Eol = 0,
    NbComputerName = 1,
    NbDomainName = 2,
    DnsComputerName = 3,
    DnsDomainName = 4,
    Flags = 6,
    Timestamp = 7,
    TargetName = 9,
    ChannelBindings = 10,
}

/// Bit in the value of [`AvId::Flags`]: the AUTHENTICATE_MESSAGE has a MIC.
pub(crate) const AV_FLAG_MIC: u32 = 0x0000_0002;

/// Highest number of pairs of a list; Windows sends ten.
const AV_PAIRS_MAX: usize = 32;

/// Appends a pair to `list`.
pub(crate) fn push(list: &mut Vec<u8>, id: AvId, value: &[u8]) {
    let len = u16::try_from(value.len()).expect("the values of pairs are short");
    list.extend_from_slice(&(id as u16).to_le_bytes());
    list.extend_from_slice(&len.to_le_bytes());
    list.extend_from_slice(value);
}

/// Parses a list up to its end, as ids and values. The end mark may be missing; a truncated pair is
/// refused.
pub(crate) fn parse(mut list: &[u8]) -> Result<Vec<(u16, &[u8])>, AuthError> {
    const CUT_OFF: AuthError = AuthError::Malformed("an AV_PAIR is cut off");
    let mut pairs = Vec::new();
    while !list.is_empty() {
        let (head, rest) = list.split_first_chunk::<4>().ok_or(CUT_OFF)?;
        let id = u16::from_le_bytes([head[0], head[1]]);
        if id == AvId::Eol as u16 {
            break;
        }
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (value, rest) = rest.split_at_checked(len).ok_or(CUT_OFF)?;
        if pairs.len() == AV_PAIRS_MAX {
            return Err(AuthError::Malformed("too many AV_PAIRs"));
        }
        pairs.push((id, value));
        list = rest;
    }
    Ok(pairs)
}

/// Returns the value of the first pair with this id.
pub(crate) fn find<'a>(pairs: &[(u16, &'a [u8])], id: AvId) -> Option<&'a [u8]> {
    pairs.iter().find(|pair| pair.0 == id as u16).map(|pair| pair.1)
}

/// True if the flags among the pairs announce a MIC.
pub(crate) fn has_mic(pairs: &[(u16, &[u8])]) -> bool {
    find(pairs, AvId::Flags)
        .and_then(|value| value.try_into().ok())
        .is_some_and(|value| u32::from_le_bytes(value) & AV_FLAG_MIC != 0)
}

#[cfg(test)]
mod tests {
    use super::{AV_PAIRS_MAX, AvId, find, has_mic, parse, push};
    use crate::error::AuthError;

    #[test]
    fn pairs_end_at_eol() {
        let mut list = Vec::new();
        push(&mut list, AvId::NbDomainName, b"D\0");
        push(&mut list, AvId::Flags, &[2, 0, 0, 0]);
        push(&mut list, AvId::Eol, &[]);
        push(&mut list, AvId::TargetName, b"behind the end");
        let pairs = parse(&list).expect("parses");
        assert_eq!(pairs, [(2, &b"D\0"[..]), (6, &[2, 0, 0, 0])]);
        assert!(has_mic(&pairs));
        assert_eq!(find(&pairs, AvId::TargetName), None);
    }

    #[test]
    fn cut_off_pairs_are_refused() {
        let mut list = Vec::new();
        push(&mut list, AvId::NbDomainName, b"D\0");
        for len in 1..list.len() {
            assert!(parse(&list[..len]).is_err(), "{len}");
        }
        assert_eq!(parse(&[]), Ok(vec![]));
    }

    #[test]
    fn pairs_are_bounded() {
        let mut list = Vec::new();
        for _ in 0..AV_PAIRS_MAX {
            push(&mut list, AvId::TargetName, &[]);
        }
        assert_eq!(parse(&list).expect("the most there may be").len(), AV_PAIRS_MAX);
        push(&mut list, AvId::TargetName, &[]);
        assert_eq!(parse(&list), Err(AuthError::Malformed("too many AV_PAIRs")));
    }
}
