//! What the fuzz targets share.

/// Decodes a body; what was understood must survive being encoded and decoded again. The third
/// argument says what of it counts, where that is not all.
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
