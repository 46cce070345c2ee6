//! Properties of every codec, for the tests of this crate.

use std::fmt::Debug;

use crate::header::Header;
use crate::message::{Decode, Encode};

/// A message of `body`: a default header, and the body behind it.
///
/// It is also encoded behind other bytes, as in a compound: the result must not depend on the
/// position.
pub(crate) fn message(body: &impl Encode) -> Vec<u8> {
    let encode_behind = |junk: usize| {
        let mut out = vec![0xEE; junk];
        Header::default().encode(&mut out);
        body.encode(&mut out);
        out.split_off(junk)
    };
    let message = encode_behind(0);
    assert_eq!(message, encode_behind(24), "offsets depend on the place in the buffer");
    message
}

/// Asserts that `value` survives encoding and decoding.
#[track_caller]
pub(crate) fn survives<'a, T>(value: &T, message: &'a mut Vec<u8>)
where
    T: Decode<'a> + Encode + Debug + PartialEq,
{
    *message = self::message(value);
    let message = &*message;
    assert_eq!(T::decode(message).as_ref(), Ok(value));
}

/// Decodes every prefix of `message`, and copies with one wrong byte. The test is that none panics.
pub(crate) fn hostile(message: &[u8], decode: impl Fn(&[u8])) {
    for end in 0..message.len() {
        decode(&message[..end]);
    }
    let mut message = message.to_vec();
    for at in 64..message.len() {
        let byte = message[at];
        for wrong in [0x00, 0x01, 0x7F, 0x80, 0xFF] {
            message[at] = wrong;
            decode(&message);
        }
        message[at] = byte;
    }
}

/// Asserts that each of these bodies round-trips, and that no corruption of them panics.
macro_rules! round_trip {
    ($type:ty, $($value:expr),+ $(,)?) => {{$(
        let value = $value;
        let mut message = Vec::new();
        $crate::check::survives(&value, &mut message);
        $crate::check::hostile(&message, |bytes| {
            let _decoded = <$type as $crate::message::Decode<'_>>::decode(bytes);
        });
    )+}};
}
pub(crate) use round_trip;
