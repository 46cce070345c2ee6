//! One event is one line.

use std::borrow::Cow;

/// Escapes line breaks and terminal control characters within a line: `\
/// `, `\\u{1b}`. Keeps the line's own end.
pub(super) fn escaped(line: &[u8]) -> Cow<'_, [u8]> {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    // Nearly all lines are of this kind.
    if text.iter().all(|byte| matches!(byte, b' '..=b'~')) {
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
    escaped.push('\n');
    Cow::Owned(escaped.into_bytes())
}

/// Returns true for control characters, line ends that only some programs know, and characters that
/// reverse the direction of text.
pub(super) fn is_command(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(character, '\u{2066}'..='\u{2069}');
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || turns
}

#[cfg(test)]
mod tests {
    use super::escaped;

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
}
