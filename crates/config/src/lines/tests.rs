use super::*;

#[track_caller]
fn check(text: &str, want: &[(u32, Statement)]) {
    let got: Vec<(u32, Statement)> =
        statements(text).map(|line| (line.number, line.statement)).collect();
    assert_eq!(got, want);
}

fn assignment(name: &str, value: &str) -> Statement {
    Statement::Assignment { name: name.into(), value: value.into() }
}

fn section(name: &str) -> Statement {
    Statement::Section(name.into())
}

#[test]
fn comments_are_whole_lines() {
    check("; a\n  # b\nx = y ; z # w\n", &[(3, assignment("x", "y ; z # w"))]);
}

#[test]
fn comments_do_not_continue() {
    check("; c \\\nx = y", &[(2, assignment("x", "y"))]);
}

#[test]
fn a_backslash_joins_the_next_line_even_a_comment() {
    check("x = \\\n # y\nz = 1", &[(1, assignment("x", "# y")), (3, assignment("z", "1"))]);
    check("x = a \\  \ny = b", &[(1, assignment("x", "a y = b"))]);
    check("fo\\\n\\\no = 1", &[(1, assignment("foo", "1"))]);
}

/// Samba 4.17 takes `;x` for the name of a parameter, and writes out what it reads as a comment.
#[test]
fn a_comment_that_continues_an_empty_line_is_one() {
    check("\\\n;x = 1\ny = 2", &[(3, assignment("y", "2"))]);
    check("\\\n  # x\\\n = 1\ny = 2", &[(4, assignment("y", "2"))]);
}

#[test]
fn values_may_contain_equal_signs_and_keep_their_quotes() {
    check("x = a = \"b\"", &[(1, assignment("x", "a = \"b\""))]);
}

#[test]
fn white_space_is_squeezed_to_its_first_character() {
    check("a  b =\t c \td\te \r\n", &[(1, assignment("a b", "c d\te"))]);
}

#[test]
fn a_section_ends_at_the_first_bracket() {
    check("[a]b]\n [ c  d ] e", &[(1, section("a")), (2, section("c d"))]);
}

#[test]
fn a_section_without_name_or_bracket_is_told_apart() {
    check("[ ]", &[(1, Statement::BadSection { missing: "name" })]);
    check("[a", &[(1, Statement::BadSection { missing: "closing bracket" })]);
}

#[test]
fn lines_without_name_or_equal_sign_are_junk() {
    check("a\n= b", &[(1, Statement::Junk("a".into())), (2, Statement::Junk("= b".into()))]);
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_name() {
    check("\u{feff}[a]", &[(1, section("a"))]);
}

/// The limit counts the joined line, and lies exactly where its name says.
#[test]
fn a_line_at_the_limit_is_read_and_one_above_is_refused() {
    let fits = format!("x={}", "a".repeat(LINE_BYTES_MAX - 2));
    assert!(matches!(
        statements(&fits).next(),
        Some(Line { statement: Statement::Assignment { .. }, .. })
    ));
    check(&format!("{fits}a"), &[(1, Statement::TooLong)]);
    let joined = format!("x=a\\\n{}", "a".repeat(LINE_BYTES_MAX));
    check(&joined, &[(1, Statement::TooLong)]);
}

/// A trailing backslash would swallow the parameter after it in the text for processes. Samba keeps
/// one before the end of a file.
#[test]
fn no_value_ends_with_a_backslash() {
    let ends = [
        "x = y\\",
        "x = y\\\n",
        "x = y\\\\",
        "x = y \\ \\ ",
        "x = y\\ \\\n \\\n",
        "x = y\\\t\\\r\n",
    ];
    for text in ends {
        check(text, &[(1, assignment("x", "y"))]);
    }
    check("x = \\", &[(1, assignment("x", ""))]);
    check("x = \\\\server\\share", &[(1, assignment("x", "\\\\server\\share"))]);
}
