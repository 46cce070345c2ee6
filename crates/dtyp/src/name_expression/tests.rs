use super::NameExpression;
use proptest::prelude::*;

#[track_caller]
fn check(pattern: &str, matching: &[&str], others: &[&str]) {
    let expression = NameExpression::new(pattern);
    for name in matching {
        assert!(expression.matches(name), "{pattern:?} must match {name:?}");
    }
    for name in others {
        assert!(!expression.matches(name), "{pattern:?} must not match {name:?}");
    }
}

#[test]
fn star_and_star_dot_star_match_every_name() {
    for pattern in ["*", "*.*"] {
        check(pattern, &["a", ".", "..", "a.b", "ä"], &[""]);
        assert!(NameExpression::new(pattern).matches_all());
    }
    check("", &[""], &["a"]);
}

#[test]
fn literals_match_one_name_in_any_case() {
    check("Ärger.txt", &["äRGER.TXT"], &["Ärger.txt2", "rger.txt", ""]);
    assert!(NameExpression::new("a").is_literal());
    assert!(!NameExpression::new("a?").is_literal());
    let sensitive = NameExpression::case_sensitive("a*B");
    assert!(sensitive.matches("axB") && !sensitive.matches("axb") && !sensitive.matches("AxB"));
}

#[test]
fn star_and_question_mark_are_the_usual_ones() {
    check("*.txt", &["a.txt", ".TXT", "a.b.txt"], &["a.txt2", "atxt", "txt"]);
    check("a*b*c", &["abc", "aXbYc", "abbcc", "a.b.c"], &["ab", "acb", "abcd"]);
    check("a?c", &["abc", "a.c"], &["ac", "abbc"]);
    check("?", &["a", "."], &["ab"]);
    check("????", &["\u{1F600}\u{1F600}"], &["\u{1F600}"]);
    check("*a", &["a", "ba", "aa", "aba"], &["ab"]);
}

/// `dir *.` reaches the server as `<`: names without an extension.
#[test]
fn dos_star_leaves_the_last_dot() {
    check("<", &["a", "abc"], &["a.b", "a.b.c"]);
    check("<.txt", &["a.txt", "a.b.txt"], &["a.txt.b", "atxt"]);
    check("<.", &["a.", "a.b."], &["a", "a.b"]);
    check("<\"", &["a", "a."], &["a.b"]);
    check("a<b", &["ab", "axb", "axbxb"], &["a.b", "a.b.b"]);
}

/// `dir ab??.txt` reaches the server as `ab>>.txt`, which must match `ab.txt`.
#[test]
fn dos_question_marks_may_stand_for_nothing_before_a_dot() {
    check("ab>>.txt", &["ab.txt", "abc.txt", "abcd.txt"], &["abcde.txt", "a.txt"]);
    check("a>>", &["a", "ab", "abc"], &["abcd", "a.b"]);
    check(">", &["a"], &[".", "ab"]);
    check(">>>\">>>", &["abc.def", "abc", "a.b", "abc."], &["abcd", "abc.defg"]);
}

#[test]
fn dos_dot_is_a_dot_or_the_end() {
    check("a\"", &["a", "a."], &["ab", "a.b"]);
    check("a\"b", &["a.b"], &["ab", "a"]);
    check("*\"*", &["a", "a.b", "."], &[""]);
}

/// A pattern that costs a backtracking matcher 2³⁰ steps and more.
#[test]
fn hostile_patterns_are_cheap() {
    let name = "a".repeat(255);
    let mut pattern = "*a".repeat(120);
    pattern.push('b');
    assert!(!NameExpression::new(&pattern).matches(&name));
    let mut pattern = "<*".repeat(2_000);
    pattern.push('b');
    assert!(!NameExpression::new(&pattern).matches(&name));
    check(&"*?".repeat(200), &[&name], &[&name[..199]]);
    check(&"?".repeat(100), &[&name[..100]], &[&name[..99], &name[..101]]);
}

/// The same rules by recursion over the rest of pattern and name: slow and obvious.
fn reference(pattern: &[u8], name: &[u8]) -> bool {
    let Some((&token, rest)) = pattern.split_first() else { return name.is_empty() };
    let last_dot = name.first() == Some(&b'.') && !name[1..].contains(&b'.');
    match token {
        b'*' => reference(rest, name) || (!name.is_empty() && reference(pattern, &name[1..])),
        b'<' => {
            reference(rest, name)
                || (!name.is_empty() && !last_dot && reference(pattern, &name[1..]))
        }
        b'>' => match name.first() {
            None | Some(b'.') => reference(rest, name),
            Some(_) => reference(rest, &name[1..]),
        },
        b'"' => match name.first() {
            None => reference(rest, name),
            Some(b'.') => reference(rest, &name[1..]),
            Some(_) => false,
        },
        b'?' => !name.is_empty() && reference(rest, &name[1..]),
        unit => {
            name.first().is_some_and(|first| first.eq_ignore_ascii_case(&unit))
                && reference(rest, &name[1..])
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_the_rules_by_recursion(
        pattern in "[ab.*?<>\"]{1,9}",
        name in "[abA.]{1,9}",
    ) {
        prop_assume!(pattern != "*.*");
        let want = reference(pattern.as_bytes(), name.as_bytes());
        prop_assert_eq!(NameExpression::new(&pattern).matches(&name), want);
        // The same in a form that is long enough for the heap.
        let long = format!("{}{pattern}", "b?".repeat(40));
        let name = format!("{}{name}", "ba".repeat(40));
        prop_assert_eq!(NameExpression::new(&long).matches(&name), want);
    }

    #[test]
    fn never_panics(pattern in ".{0,40}", name in ".{0,40}") {
        let _ = NameExpression::new(&pattern).matches(&name);
    }
}
