//! Lists: words between separators, with quotes around what contains one.

/// Words of `text`: separated by white space, comma or semicolon. A quote starts or ends a
/// stretch in which separators are ordinary; it is itself never part of a word.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for character in text.chars() {
        if character == '"' {
            quoted = !quoted;
        } else if !quoted && is_separator(character) {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        } else {
            word.push(character);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Returns the list as the value of a parameter, from which the same list is read again.
pub fn joined<W: AsRef<str>>(words: &[W], separator: &str) -> String {
    let mut text = String::new();
    for word in words {
        let word = word.as_ref();
        if !text.is_empty() {
            text.push_str(separator);
        }
        if word.chars().any(is_separator) {
            text.push('"');
            text.push_str(word);
            text.push('"');
        } else {
            text.push_str(word);
        }
    }
    text
}

fn is_separator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | ',' | ';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let got = words(text);
        assert_eq!(got, want);
        assert_eq!(words(&joined(&got, " ")), want, "the list survives being written");
    }

    #[test]
    fn words_are_parted_by_white_space_commas_and_semicolons() {
        check("a b,c;d\te", &["a", "b", "c", "d", "e"]);
        check(" ,a,, b ;", &["a", "b"]);
        check("", &[]);
    }

    #[test]
    fn quotes_keep_separators_and_vanish() {
        check("\"a b\", @\"d e\" f", &["a b", "@d e", "f"]);
        check(
            "\"192.168.1.1;if_index=1,speed=1000\" eth0",
            &["192.168.1.1;if_index=1,speed=1000", "eth0"],
        );
    }

    #[test]
    fn an_open_quote_runs_to_the_end() {
        check("a \"b c, d", &["a", "b c, d"]);
    }
}
