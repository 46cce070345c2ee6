//! One event is one line.

use std::borrow::Cow;

use crate::terminal_text::is_command;

/// Longest text of an event, in bytes: a path and what is said of it. Names and reasons come from
/// clients and libraries, and one of a message's length would be a line of 64 KiB.
const TEXT_BYTES_MAX: usize = 6 * 1024;

/// Returns a text of at most [`TEXT_BYTES_MAX`], and the number of bytes that are left out.
pub(super) fn cut(text: &[u8]) -> (&[u8], usize) {
    if text.len() <= TEXT_BYTES_MAX {
        return (text, 0);
    }
    let is_inside = |byte: &u8| byte & 0xC0 == 0x80;
    let end = (0..=TEXT_BYTES_MAX).rev().find(|&at| !is_inside(&text[at])).unwrap_or(0);
    (&text[..end], text.len() - end)
}

/// Says at the end of a cut text how much is missing.
pub(super) fn left_out(bytes: usize) -> String {
    format!("... ({bytes} more bytes)")
}

/// Escapes line breaks and terminal control characters within a line: `\
/// `, `\\u{1b}`, and cuts what is too long. Keeps the line's own end.
pub(super) fn escaped(line: &[u8]) -> Cow<'_, [u8]> {
    let (text, more) = cut(line.strip_suffix(b"\n").unwrap_or(line));
    // Nearly all lines are of this kind.
    if more == 0 && text.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(line);
    }
    let mut escaped = String::with_capacity(line.len());
    for character in String::from_utf8_lossy(text).chars() {
        if is_command(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    if more > 0 {
        escaped.push_str(&left_out(more));
    }
    escaped.push('\n');
    Cow::Owned(escaped.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::{TEXT_BYTES_MAX, cut, escaped};

    #[test]
    fn a_clients_text_ends_no_line_and_moves_no_cursor() {
        for (line, want) in [
            ("share a: b\n", "share a: b\n"),
            ("Straße 1\n", "Straße 1\n"),
            ("x\nERROR forged\n", "x\\nERROR forged\n"),
            ("x\r\u{1b}[2Jy\n", "x\\r\\u{1b}[2Jy\n"),
            ("x\u{85}\u{9b}\u{2028}\u{202e}\u{7f}\n", "x\\u{85}\\u{9b}\\u{2028}\\u{202e}\\u{7f}\n"),
        ] {
            assert_eq!(String::from_utf8_lossy(&escaped(line.as_bytes())), want);
        }
        assert_eq!(&*escaped(b"x\xff\n"), "x\u{fffd}\n".as_bytes());
    }

    #[test]
    fn a_line_has_a_longest_length_and_says_how_much_is_missing() {
        let line = |len: usize| format!("{}\n", "x".repeat(len));
        let fits = line(TEXT_BYTES_MAX);
        assert_eq!(&*escaped(fits.as_bytes()), fits.as_bytes());
        let long = escaped(line(60_000).as_bytes()).into_owned();
        let want =
            format!("{}... ({} more bytes)\n", "x".repeat(TEXT_BYTES_MAX), 60_000 - TEXT_BYTES_MAX);
        assert_eq!(String::from_utf8(long).expect("it is text"), want);
        let umlauts = format!("x{}", "ü".repeat(TEXT_BYTES_MAX));
        let (text, more) = cut(umlauts.as_bytes());
        assert_eq!((text.len(), more), (TEXT_BYTES_MAX - 1, TEXT_BYTES_MAX + 2));
        assert_eq!(text.last(), "ü".as_bytes().last(), "no character is divided");
        assert_eq!(cut(&[0x80; TEXT_BYTES_MAX + 1]).0, [], "bytes that are no text");
    }
}
