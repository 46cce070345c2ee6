//! Texts of clients and users, for a terminal and the log.

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

#[cfg(test)]
mod tests {
    use super::printable;

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
