use super::{equal_ignoring_case, fold, fold_cow, upcase, upcase_unit};
use std::borrow::Cow;

#[test]
fn letters_with_one_uppercase_are_mapped() {
    for (lower, upper) in [
        ('a', 'A'),
        ('z', 'Z'),
        ('ä', 'Ä'),
        ('ÿ', '\u{178}'),
        ('σ', 'Σ'),
        ('я', 'Я'),
        ('\u{1C6}', '\u{1C4}'),
        ('\u{1FB3}', '\u{1FBC}'),
        ('\u{2D00}', '\u{10A0}'),
        ('\u{A78C}', '\u{A78B}'),
        ('\u{FF41}', '\u{FF21}'),
        ('\u{2C65}', '\u{23A}'),
    ] {
        assert_eq!(upcase(lower), upper);
        assert_eq!(upcase(upper), upper);
    }
}

#[test]
fn exceptions_of_windows_stay_as_they_are() {
    for character in "ßŉıſµςϐϑϕϖϰϱϵ\u{1C5}\u{1E9B}ﬁﬀ\u{10428}\u{525}\u{252}ა".chars()
    {
        assert_eq!(upcase(character), character, "{character}");
    }
}

#[test]
fn upper_case_is_stable_and_surrogates_are_never_touched() {
    let mut mapped = 0;
    for unit in 0..=u16::MAX {
        let upper = upcase_unit(unit);
        assert_eq!(upcase_unit(upper), upper, "{unit:#x}");
        assert!(!(0xD800..0xE000).contains(&unit) || upper == unit);
        assert!(!(0xD800..0xE000).contains(&upper) || upper == unit);
        mapped += usize::from(upper != unit);
    }
    // The number of lines in Microsoft's table.
    assert_eq!(mapped, 973);
}

/// Rust's own, newer data must agree for every letter that it knows, except for the exceptions in
/// the module's documentation. No other unit may map.
#[test]
fn every_mapping_is_an_uppercase_of_unicode() {
    for unit in 0..=u16::MAX {
        let upper = upcase_unit(unit);
        if upper != unit {
            let lower = char::from_u32(u32::from(unit)).expect("not a surrogate");
            let upper = char::from_u32(u32::from(upper)).expect("not a surrogate");
            assert_eq!(upper.to_lowercase().collect::<String>(), lower.to_string());
        }
    }
}

#[test]
fn comparison_follows_the_fold() {
    assert_eq!(fold("Straße ärger.TXT"), "STRAßE ÄRGER.TXT");
    assert!(equal_ignoring_case("readme.TXT", "README.txt"));
    assert!(equal_ignoring_case("Ärger", "äRGER"));
    assert!(!equal_ignoring_case("STRASSE", "straße"));
    assert!(!equal_ignoring_case("ı", "I"));
    assert!(!equal_ignoring_case("ſ", "S"));
    assert!(!equal_ignoring_case("a", "ab"));
    assert!(matches!(fold_cow("README.ÄÖ"), Cow::Borrowed("README.ÄÖ")));
    assert_eq!(fold_cow("readme.äö"), "README.ÄÖ");
}
