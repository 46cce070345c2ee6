//! The comments of a source file, found without parsing it: syn drops those that are no docs.

/// The marker of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `///`, for the item below.
    Outer,
    /// `//!`, for the module around it.
    Inner,
    /// `//`, for the reader of the code.
    Plain,
}

/// A block of adjacent comment lines of one kind, or one comment after code.
#[derive(Debug)]
pub struct Comment {
    /// Marker, the same on all lines.
    pub kind: Kind,
    /// Number of the first line, from 1.
    pub first: usize,
    /// Number of the last line.
    pub last: usize,
    /// The lines without their markers.
    pub text: String,
}

/// Comments and raw strings of a source file.
#[derive(Debug, Default)]
pub struct Scan {
    /// Comments, in the order of lines.
    pub comments: Vec<Comment>,
    /// First and last line of each raw string.
    pub raw_strings: Vec<(usize, usize)>,
}

impl Scan {
    /// Reads a source file that compiles.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut scanner = Scanner {
            rest: text,
            line: 1,
            after_code: false,
            joins: false,
            found: Self::default(),
        };
        while !scanner.rest.is_empty() {
            scanner.step();
        }
        scanner.found
    }
}

struct Scanner<'t> {
    rest: &'t str,
    line: usize,
    /// Whether code stands before this place on its line.
    after_code: bool,
    /// Whether a comment on this line may continue the last block.
    joins: bool,
    found: Scan,
}

impl Scanner<'_> {
    fn step(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            self.line_comment();
        } else if rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(len) = raw_string_len(rest) {
            let first = self.line;
            self.skip(len);
            self.found.raw_strings.push((first, self.line));
        } else if rest.starts_with('"') {
            self.skip(string_len(rest));
        } else if let Some(len) = char_len(rest) {
            self.skip(len);
        } else {
            // A word is skipped whole, so that the `r` of `for"` begins no raw string.
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.skip(word.max(rest.chars().next().map_or(0, char::len_utf8)));
        }
    }

    /// Passes over code or white space.
    fn skip(&mut self, len: usize) {
        let (passed, rest) = self.rest.split_at(len);
        for c in passed.chars() {
            if c == '\n' {
                self.line += 1;
                // A line with nothing on it ends a block.
                self.joins = !self.after_code && self.joins && self.last_line() + 1 == self.line;
                self.after_code = false;
            } else if !c.is_whitespace() {
                self.after_code = true;
            }
        }
        self.rest = rest;
    }

    fn last_line(&self) -> usize {
        self.found.comments.last().map_or(0, |comment| comment.last)
    }

    fn line_comment(&mut self) {
        let len = self.rest.find('\n').unwrap_or(self.rest.len());
        let (whole, rest) = self.rest.split_at(len);
        let (kind, text) = match whole {
            _ if whole.starts_with("////") => (Kind::Plain, whole.trim_start_matches('/')),
            _ if whole.starts_with("///") => (Kind::Outer, &whole[3..]),
            _ if whole.starts_with("//!") => (Kind::Inner, &whole[3..]),
            _ => (Kind::Plain, &whole[2..]),
        };
        let text = text.strip_prefix(' ').unwrap_or(text).trim_end();
        let trailing = self.after_code;
        match self.found.comments.last_mut() {
            Some(last) if self.joins && !trailing && last.kind == kind => {
                last.text.push('\n');
                last.text.push_str(text);
                last.last = self.line;
            }
            _ => self.found.comments.push(Comment {
                kind,
                first: self.line,
                last: self.line,
                text: text.to_owned(),
            }),
        }
        self.joins = !trailing;
        self.rest = rest;
    }

    fn block_comment(&mut self) {
        let len = block_comment_len(self.rest);
        let whole = &self.rest[..len];
        let kind = match whole {
            _ if whole.starts_with("/**") && len > 4 => Kind::Outer,
            _ if whole.starts_with("/*!") => Kind::Inner,
            _ => Kind::Plain,
        };
        let inside = whole.trim_start_matches(['/', '*', '!']).trim_end_matches(['/', '*']);
        let lines: Vec<&str> =
            inside.lines().map(|line| line.trim().trim_start_matches("* ")).collect();
        let first = self.line;
        let after_code = self.after_code;
        self.skip(len);
        self.after_code = after_code;
        let text = lines.join("\n").trim().to_owned();
        self.found.comments.push(Comment { kind, first, last: self.line, text });
        self.joins = false;
    }
}

fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of the raw string that begins here, if one does.
fn raw_string_len(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let hashes = rest[prefix.len()..].chars().take_while(|&c| c == '#').count();
    let start = prefix.len() + hashes;
    if !rest[start..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = &rest[start + 1..];
    Some(inside.find(&end).map_or(rest.len(), |at| start + 1 + at + end.len()))
}

fn string_len(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of the character literal that begins here; `None` for anything else, also a lifetime.
fn char_len(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        let end = inside.char_indices().skip(2).find(|&(_, c)| c == '\'')?;
        return Some(end.0 + 2);
    }
    let c = inside.chars().next()?;
    inside[c.len_utf8()..].starts_with('\'').then(|| c.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(usize, usize, String)> {
        let found = Scan::of(source).comments;
        found.into_iter().map(|comment| (comment.first, comment.last, comment.text)).collect()
    }

    fn block(first: usize, last: usize, text: &str) -> (usize, usize, String) {
        (first, last, text.to_owned())
    }

    #[test]
    fn adjacent_lines_of_one_kind_are_one_block() {
        let source = "/// One\n/// two.\nfn f() {}\n// Three\n\n// four\n";
        let expected = vec![block(1, 2, "One\ntwo."), block(4, 4, "Three"), block(6, 6, "four")];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn kinds_are_told_apart_and_not_joined() {
        let found = Scan::of("//! module\n/// item\n// plain\n//// plain too\n").comments;
        let kinds: Vec<Kind> = found.iter().map(|comment| comment.kind).collect();
        assert_eq!(kinds, [Kind::Inner, Kind::Outer, Kind::Plain]);
    }

    #[test]
    fn a_comment_after_code_is_a_block_of_its_own() {
        let source = "let a = 1; // one\n// two\n";
        assert_eq!(texts(source), vec![block(1, 1, "one"), block(2, 2, "two")]);
    }

    #[test]
    fn strings_and_characters_hold_no_comments() {
        let source = r##"f("// no", r#"// no "quote" "#, '"', '\'', b"//", '\u{2f}'); // yes"##;
        assert_eq!(texts(source), vec![block(1, 1, "yes")]);
    }

    #[test]
    fn a_lifetime_begins_no_character() {
        let source = "fn f<'a>(x: &'a str) {} // yes\n";
        assert_eq!(texts(source), vec![block(1, 1, "yes")]);
    }

    #[test]
    fn block_comments_nest() {
        assert_eq!(
            texts("/* a /* b */ c */ // d\n"),
            vec![block(1, 1, "a /* b */ c"), block(1, 1, "d")]
        );
    }

    #[test]
    fn lines_of_raw_strings_are_known() {
        assert_eq!(Scan::of("let a = r\"x\n// y\";\n").raw_strings, [(1, 2)]);
    }
}
