use super::*;
use crate::choice::{Encryption, MapToGuest, Protocol, SigningAlgorithm};

#[track_caller]
fn reads(kind: Kind, text: &str, want: &str) {
    assert_eq!(kind.canonical(text, ""), Ok(plain(want)), "{text:?}");
}

#[track_caller]
fn remarks(kind: Kind, text: &str, want: &str) {
    let got = kind.canonical(text, "").expect("understood, with a remark");
    assert_eq!(got.text, want, "{text:?}");
    assert!(got.remark.is_some(), "{text:?} has a remark");
}

#[track_caller]
fn refuses(kind: Kind, text: &str) {
    assert!(kind.canonical(text, "").is_err(), "{text:?} is refused");
}

const NUMBER: Kind = Kind::Integer { min: 0, max: 100 };
const SIZE: Kind = Kind::Bytes { min: 0, max: 1 << 30 };

#[test]
fn booleans_have_four_words_each_and_no_others() {
    for text in ["yes", "True", "1", "ON"] {
        reads(Kind::Bool, text, "Yes");
    }
    for text in ["no", "False", "0", "off"] {
        reads(Kind::Bool, text, "No");
    }
    for text in ["", "y", "perhaps", "enabled"] {
        refuses(Kind::Bool, text);
    }
}

#[test]
fn integers_are_read_as_c_does() {
    reads(NUMBER, "15", "15");
    reads(NUMBER, "0x10", "16");
    reads(NUMBER, "010", "8");
    reads(NUMBER, "0", "0");
    remarks(NUMBER, "15x", "15");
    remarks(NUMBER, "101", "100");
    reads(NUMBER, "100", "100");
    remarks(NUMBER, "-5", "0");
    remarks(NUMBER, "99999999999999999999999", "100");
    refuses(NUMBER, "");
    refuses(NUMBER, "abc");
    refuses(NUMBER, "0x");
}

#[test]
fn sizes_take_units_and_are_never_octal() {
    reads(SIZE, "5k", "5120");
    reads(SIZE, "1 K", "1024");
    reads(SIZE, "010", "10");
    reads(SIZE, "1g", "1073741824");
    remarks(SIZE, "2g", "1073741824");
    remarks(SIZE, "99999999999999999999t", "1073741824");
    for text in ["", "k", "15x", "-3", "1KB", "0x10"] {
        refuses(SIZE, text);
    }
}

#[test]
fn modes_are_octal_and_written_with_four_digits() {
    reads(Kind::Mode, "644", "0644");
    reads(Kind::Mode, "0", "0000");
    reads(Kind::Mode, "01777", "01777");
    for text in ["", "8", "999", "-1", "+1", "0x1f", "755 junk", "777777"] {
        refuses(Kind::Mode, text);
    }
}

#[test]
fn choices_ignore_case_and_fold_synonyms() {
    reads(Kind::Choice(Encryption::WORDS), "Mandatory", "required");
    reads(Kind::Choice(Encryption::WORDS), "auto", "if_required");
    reads(Kind::Choice(MapToGuest::WORDS), "bad user", "Bad User");
    reads(Kind::Choice(Protocol::WORDS), "smb3_11", "SMB3");
    refuses(Kind::Choice(Encryption::WORDS), "requird");
    refuses(Kind::Choice(Encryption::WORDS), "");
}

#[test]
fn lists_of_choices_replace_or_change_the_default() {
    let kind = Kind::Choices(SigningAlgorithm::WORDS);
    let default = "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256";
    let read = |text| kind.canonical(text, default).map(|canonical| canonical.text);
    assert_eq!(read("hmac-sha256 aes-128-cmac").as_deref(), Ok("HMAC-SHA256, AES-128-CMAC"));
    assert_eq!(read("-AES-128-CMAC").as_deref(), Ok("AES-128-GMAC, HMAC-SHA256"));
    assert_eq!(
        read("-AES-128-CMAC +aes-128-cmac").as_deref(),
        Ok("AES-128-GMAC, HMAC-SHA256, AES-128-CMAC")
    );
    read("").expect_err("an empty list negotiates nothing");
    read("MD5").expect_err("none of the words is known");
    let mixed = kind.canonical("MD5 HMAC-SHA256", default).expect("one is known");
    assert_eq!(mixed.text, "HMAC-SHA256");
    assert!(mixed.remark.is_some());
}

#[test]
fn ports_are_numbers_of_16_bits_or_transports() {
    reads(Kind::Startups, "64 : 30:512", "64:30:512");
    refuses(Kind::Startups, "64:30");
    reads(Kind::Ports, "445,139 \"8445\"", "445 139 8445");
    reads(Kind::Ports, "TCP, nbt tcp:8445 NBT:1139", "445 139 8445 1139");
    let read = Kind::Ports.canonical("tcp quic:443", "445").expect("a port is left");
    assert_eq!((read.text.as_str(), read.remark.is_some()), ("445", true));
    for text in ["", "0", "65536", "smb", "-1", "quic", "tcp:0", "tcp:"] {
        refuses(Kind::Ports, text);
    }
}

#[test]
fn quotes_around_a_whole_text_are_not_part_of_it() {
    assert_eq!(String::typed("\"a b\""), "a b");
    assert_eq!(String::typed("\"a\" \"b\""), "\"a\" \"b\"");
    assert_eq!(String::typed("\""), "\"");
    assert_eq!(String::typed("\"\""), "");
}

#[test]
fn permission_bits_and_numbers_have_their_own_radix() {
    assert_eq!(u32::typed("0744"), 0o744);
    assert_eq!(u32::typed("744"), 744);
    assert_eq!(u32::typed("0"), 0);
}
