//! Texts of clients and users, for a terminal and the log.

use std::borrow::Cow;

/// Returns true for control characters, line ends that only some programs know, and characters that
/// reverse the direction of text.
pub fn is_command(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || turns
}

/// Returns a text with `?` in the place of each command to the terminal, line breaks included.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if is_command(character) { '?' } else { character }).collect()
}

/// Returns a JSON text with its commands to the terminal escaped, but for the line breaks that it
/// is laid out with. The others are within strings, where each may be escaped.
#[must_use]
pub fn escape_json(text: &str) -> Cow<'_, str> {
    let is_escaped = |it: char| is_command(it) && it != '\n';
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let escape = |it: char| match is_escaped(it) {
        // All of them have one unit of UTF-16.
        true => format!("\\u{:04x}", u32::from(it)),
        false => it.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

#[cfg(test)]
mod tests {
    use super::{escape_json, printable};

    #[test]
    fn json_has_no_commands_but_line_breaks() {
        let name = "x\u{9b}31m\u{202e}\u{85}y\u{2028}ß";
        let text = format!("[\n  \"{name}\"\n]");
        assert_eq!(escape_json(&text), "[\n  \"x\\u009b31m\\u202e\\u0085y\\u2028ß\"\n]");
        assert_eq!(escape_json("[\n]"), "[\n]");
    }

    #[test]
    fn a_text_moves_no_cursor_and_turns_no_text_around() {
        for (text, shown) in [
            ("Straße 1", "Straße 1"),
            ("a\n\u{1b}[2Jb\u{9b}", "a??[2Jb?"),
            ("exe.\u{202e}gpj", "exe.?gpj"),
            ("\u{61c}\u{200e}\u{200f}\u{2066}x\u{2069}\u{2028}", "????x??"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
