use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{alternate, is_8_3, is_legal, is_like_short_name, listed, shorten, shown};
use crate::settings::{MangledNames, RootSettings};

fn settings(mangled_names: MangledNames) -> RootSettings {
    RootSettings { mangled_names, ..RootSettings::new("/") }
}

#[track_caller]
fn check_shown(mangled_names: MangledNames, name: &[u8], want: Option<&str>) {
    let settings = settings(mangled_names);
    assert_eq!(shown(&settings, OsStr::from_bytes(name)).as_deref(), want);
}

#[test]
fn names_without_a_fault_are_shown_as_they_are() {
    for mangled_names in [MangledNames::No, MangledNames::Illegal, MangledNames::Yes] {
        for name in ["a", ".a", "a.b.c", "A long name.text", "ä", "con_", "aux1.txt", " a"] {
            check_shown(mangled_names, name.as_bytes(), Some(name));
        }
    }
}

#[test]
fn names_that_clients_cannot_use_are_shown_by_short_names_or_not_at_all() {
    let names: [&[u8]; 6] = [b"a:b", b"a\\b", b"a\x01", b"\xff\xfe", b"a?", b"tab\t.txt"];
    for name in names {
        assert!(!std::str::from_utf8(name).is_ok_and(is_legal));
        check_shown(MangledNames::No, name, None);
        let short = shorten(name, 1);
        assert!(is_8_3(short.as_bytes()) && is_legal(&short), "{short}");
        check_shown(MangledNames::Illegal, name, Some(&short));
        check_shown(MangledNames::Yes, name, Some(&short));
    }
    // These can be sent, though not by every program of a client.
    for name in ["a.", "a ", "con", "Aux.txt", "..."] {
        check_shown(MangledNames::No, name.as_bytes(), Some(name));
        check_shown(MangledNames::Illegal, name.as_bytes(), Some(&shorten(name.as_bytes(), 1)));
    }
}

#[test]
fn short_names_are_listed_beside_long_ones_only_if_all_have_one() {
    for (name, want) in [("A long name.text", true), ("a.txt", false), ("a:b", false)] {
        let name = OsStr::new(name);
        assert_eq!(listed(&settings(MangledNames::Yes), name).is_some(), want);
        assert_eq!(listed(&settings(MangledNames::Illegal), name), None);
    }
}

#[test]
fn the_alternate_name_of_a_short_name_is_itself() {
    let name = |mangled, name: &str| alternate(&settings(mangled), OsStr::new(name));
    assert_eq!(name(MangledNames::No, "a.txt").as_deref(), Some("A.TXT"));
    assert_eq!(name(MangledNames::No, "a long name"), None);
    assert_eq!(name(MangledNames::Illegal, "a.txt").as_deref(), Some("A.TXT"));
    assert!(name(MangledNames::Yes, "a long name").is_some());
}

#[test]
fn every_short_name_looks_like_one() {
    for prefix in 1..=6 {
        let settings = RootSettings { mangle_prefix: prefix, ..settings(MangledNames::Illegal) };
        for name in ["a:b", "", "x", "ä long name.text", "con.txt", "%%%%%%%%.a b"] {
            let short = shorten(name.as_bytes(), prefix);
            assert!(is_like_short_name(&settings, &short), "{short}");
            assert!(is_like_short_name(&settings, &short.to_lowercase()));
        }
    }
}

#[test]
fn other_names_do_not_look_like_short_ones() {
    let settings = settings(MangledNames::Illegal);
    for name in
        ["", "a", "ABCDEF~", "ABCDEF~1.TEXT", "ABCDEFG1", "AB DEF~1", "ABCDEF~1xTXT", "ABCDEF~ä"]
    {
        assert!(!is_like_short_name(&settings, name), "{name}");
    }
    assert!(!is_like_short_name(&self::settings(MangledNames::No), "ABCDEF~1"));
}

/// Names that Debian's smbd 4.17 shows and accepts for the same files.
#[test]
fn short_names_are_those_of_samba() {
    let names: [(&[u8], &str); 24] = [
        (b"a:.", "A4WTMD~A"),
        (b"a*b?.txt", "A4EC1O~9.TXT"),
        (b"back\\slash.c", "BAYTAM~F.C"),
        (b"ctl\x01x.abc", "CP1MLA~V.ABC"),
        (b"trail.", "TZHRWN~N"),
        (b"trail ", "TZHRWN~X"),
        (b"con", "CSHOFG~F"),
        (b"aux.txt", "AHY9U3~9.TXT"),
        ("äö\"ü.doc".as_bytes(), "_ERP8S~6.DOC"),
        (b"a\"b.tar.gz", "A7MC9O~5.GZ"),
        (b"UPPER:lower.Ext1", "UWCTDK~Q"),
        (b".dot:file", "_FBEBI~M"),
        (b"...", "_AW7IV~D"),
        (b"<", "_2X68Q~B"),
        (b"a|b.e~t", "AOC0P4~W.E~T"),
        (b"noext:thing that is rather long indeed.abcd", "NXY3FC~H"),
        (b"Prn.a.b", "PQWPP9~W.B"),
        ("€:euro.x_y".as_bytes(), "_AS3GD~8.X_Y"),
        (b"a:.", "A4WTMD~A"),
        (b"Xyz:1.a b", "XM2DAR~O"),
        (b"a long name.text", "AKKD5Y~0"),
        (b"a+b.txt", "A0QZKZ~5.TXT"),
        (b"longfilename.txt", "LNHQX6~C.TXT"),
        (b"with space.t", "WUKSK9~J.T"),
    ];
    for (name, want) in names {
        assert_eq!(shorten(name, 1), want, "{}", name.escape_ascii());
    }
}
