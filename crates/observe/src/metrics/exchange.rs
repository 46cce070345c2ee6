//! Protocol between the process that parses what clients send and the one that may read the
//! server's state. A request is a byte, an answer a header and a text. The same request is repeated
//! only after its answer.

/// Bytes before the text of an answer: request, success, and the text's length.
pub(super) const HEADER_LEN: usize = 6;

/// A request of the process for clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Question {
    /// All points of the charts, as JSON.
    Charts,
    /// Latest points of the charts, as JSON.
    Latest,
    /// Metrics in the text format of Prometheus.
    Figures,
}

/// The text, or the error to show instead.
pub(super) type Answer = Result<String, String>;

impl Question {
    pub(super) const ALL: [Self; 3] = [Self::Charts, Self::Latest, Self::Figures];

    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Charts => b'c',
            Self::Latest => b'l',
            Self::Figures => b'f',
        }
    }

    pub(super) fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.byte() == byte)
    }
}

/// Encodes an answer for the socket.
pub(super) fn encode(question: Question, answer: &Answer) -> Vec<u8> {
    let (Ok(text) | Err(text)) = answer;
    let len = u32::try_from(text.len()).expect("pages of a few workers are no 4 GiB");
    let mut bytes = vec![question.byte(), u8::from(answer.is_ok())];
    bytes.extend(len.to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Decodes a header: the request, whether it succeeded, and the length of the text.
pub(super) fn decode(header: [u8; HEADER_LEN]) -> Option<(Question, bool, u32)> {
    let [question, is_known, len @ ..] = header;
    Some((Question::of_byte(question)?, is_known != 0, u32::from_le_bytes(len)))
}

#[cfg(test)]
mod tests {
    use super::{HEADER_LEN, Question, decode, encode};

    #[test]
    fn answers_come_as_they_were_sent() {
        for question in Question::ALL {
            let bytes = encode(question, &Ok("text".to_owned()));
            let header = *bytes.first_chunk::<HEADER_LEN>().expect("it is there");
            assert_eq!(decode(header), Some((question, true, 4)));
            assert_eq!(&bytes[HEADER_LEN..], b"text");
        }
        let bytes = encode(Question::Figures, &Err(String::new()));
        assert_eq!(bytes, [b'f', 0, 0, 0, 0, 0]);
        assert_eq!(decode([0; HEADER_LEN]), None);
    }
}
