//! Shared code of the fuzz targets.

/// Decodes a body; the result must survive encoding and decoding. The third argument selects the
/// part to compare, if not all of it.
#[macro_export]
macro_rules! round_trip {
    ($type:ty, $message:expr) => {
        $crate::round_trip!($type, $message, |it: &$type| format!("{it:?}"))
    };
    ($type:ty, $message:expr, $counts:expr) => {
        if let Ok(body) = <$type as ::wire::Decode<'_>>::decode($message) {
            let mut encoded = vec![0; ::wire::header::SIZE];
            ::wire::Encode::encode(&body, &mut encoded);
            let again = <$type as ::wire::Decode<'_>>::decode(&encoded);
            let again = again.expect("what we encode decodes");
            let counts = $counts;
            assert_eq!(counts(&again), counts(&body), "understood alike both times");
        }
    };
}
