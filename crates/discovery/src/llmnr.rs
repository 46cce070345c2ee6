//! LLMNR (RFC 4795): the address of a name, for Windows in a network without DNS.
//!
//! Only questions are read, and only those for one of the server's names are answered.

use std::net::IpAddr;

/// Port of LLMNR, for questions and answers: RFC 4795 2.
pub const PORT: u16 = 5355;

/// Longest question that is read. A name has 255 bytes at most; Windows adds nothing.
pub const QUERY_BYTES_MAX: usize = 512;

/// Addresses of one answer, so that it is not much larger than its question.
const ADDRESSES_MAX: usize = 8;

/// Seconds for which the answer is valid: RFC 4795 2.8.
const TTL: u32 = 30;

const HEADER_BYTES: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const TYPE_ANY: u16 = 255;
const CLASS_IN: u16 = 1;

/// QR, the opcode, and the bits C and TC of RFC 4795 2.1.1: none may be set in a question.
const FLAGS_REFUSED: u16 = 0xFE00;
const FLAG_RESPONSE: u16 = 0x8000;

/// A question for the address of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Query<'a> {
    id: u16,
    /// The question as it was sent, which the answer repeats.
    question: &'a [u8],
    /// The name, which is one label.
    name: &'a str,
    kind: u16,
}

impl<'a> Query<'a> {
    /// Reads a question; `None` for everything else.
    #[must_use]
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        if packet.len() > QUERY_BYTES_MAX {
            return None;
        }
        let (header, rest) = packet.split_first_chunk::<HEADER_BYTES>()?;
        let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        // One question, no answer and no authority. Additional records are not read.
        let is_question = field(2) & FLAGS_REFUSED == 0 && field(4) == 1;
        if !is_question || field(6) != 0 || field(8) != 0 {
            return None;
        }
        let (length, rest) = rest.split_first()?;
        let length = usize::from(*length);
        // Names of servers have one label; 64 and more would be a pointer.
        if !(1..64).contains(&length) {
            return None;
        }
        let name = str::from_utf8(rest.get(..length)?).ok()?;
        let &[0, k0, k1, c0, c1] = rest.get(length..)?.first_chunk::<5>()? else { return None };
        let (kind, class) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([c0, c1]));
        let question = &packet[HEADER_BYTES..HEADER_BYTES + 1 + length + 5];
        (class == CLASS_IN).then_some(Self { id: field(0), question, name, kind })
    }

    /// Returns the name in the request.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Returns the answer with the addresses that the question is for. It has none if the server
    /// has no such address: that is an answer as well.
    #[must_use]
    pub fn answer(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let is_asked = |address: &&IpAddr| match address {
            IpAddr::V4(_) => matches!(self.kind, TYPE_A | TYPE_ANY),
            IpAddr::V6(_) => matches!(self.kind, TYPE_AAAA | TYPE_ANY),
        };
        let asked: Vec<&IpAddr> = addresses.iter().filter(is_asked).take(ADDRESSES_MAX).collect();
        let count = u16::try_from(asked.len()).expect("there are at most eight");
        let mut packet = Vec::new();
        for field in [self.id, FLAG_RESPONSE, 1, count, 0, 0] {
            packet.extend(field.to_be_bytes());
        }
        packet.extend(self.question);
        for address in asked {
            // A pointer to the name in the question: RFC 1035 4.1.4.
            packet.extend([0xC0, 0x0C]);
            let (kind, bytes) = match address {
                IpAddr::V4(address) => (TYPE_A, address.octets().to_vec()),
                IpAddr::V6(address) => (TYPE_AAAA, address.octets().to_vec()),
            };
            packet.extend(kind.to_be_bytes());
            packet.extend(CLASS_IN.to_be_bytes());
            packet.extend(TTL.to_be_bytes());
            packet.extend(u16::try_from(bytes.len()).expect("16 at most").to_be_bytes());
            packet.extend(bytes);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Query;

    fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut packet = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.push(u8::try_from(name.len()).expect("short"));
        packet.extend(name.as_bytes());
        packet.push(0);
        packet.extend(kind.to_be_bytes());
        packet.extend([0, 1]);
        packet
    }

    fn addresses() -> [IpAddr; 2] {
        ["192.0.2.7".parse().expect("one"), "fe80::7".parse().expect("one")]
    }

    #[test]
    fn an_answer_repeats_the_question_and_has_the_addresses_of_its_kind() {
        let packet = question("Nas", 1);
        let query = Query::parse(&packet).expect("it is a question");
        assert_eq!(query.name(), "Nas");
        let answer = query.answer(&addresses());
        assert_eq!(answer[..4], [0x12, 0x34, 0x80, 0]);
        assert_eq!(answer[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[12..packet.len()], packet[12..]);
        let record = [0xC0, 0x0C, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, 7];
        assert_eq!(answer[packet.len()..], record);
        for (kind, count) in [(28, 1), (255, 2), (12, 0)] {
            let packet = question("nas", kind);
            let answer = Query::parse(&packet).expect("it is one").answer(&addresses());
            assert_eq!(answer[7], count, "{kind}");
        }
    }

    #[test]
    fn an_answer_is_bounded() {
        let packet = question("nas", 1);
        let many = vec![addresses()[0]; 100];
        let answer = Query::parse(&packet).expect("it is one").answer(&many);
        assert_eq!(answer.len(), packet.len() + 8 * 16);
    }

    #[test]
    fn a_message_that_is_no_question_is_not_answered() {
        let whole = question("nas", 1);
        for len in 0..whole.len() {
            assert!(Query::parse(&whole[..len]).is_none(), "{len} bytes");
        }
        for (at, value) in [(2, 0x80), (2, 0x04), (5, 2), (7, 1), (12, 0xC0), (16, 3), (20, 3)] {
            let mut packet = whole.clone();
            packet[at] = value;
            assert!(Query::parse(&packet).is_none(), "{value} at {at}");
        }
        assert!(Query::parse(&[whole, vec![0; 512]].concat()).is_none());
    }
}
