//! Search patterns of directory enumeration: [MS-FSA] 2.1.4.3 and 2.1.4.4.
//!
//! The wildcards are `*` and `?`, and the three that Windows clients send instead of them to match
//! as DOS did: `<` (DOS_STAR), `>` (DOS_QM) and `"` (DOS_DOT). Matching keeps the set of all
//! reachable positions in the pattern, so a hostile pattern costs at most name × pattern steps and
//! no stack.

use crate::upcase::{fold, upcase_unit};

/// A pattern, parsed once and matched with many names.
#[derive(Clone, Debug)]
pub struct NameExpression {
    shape: Shape,
    ignores_case: bool,
}

#[derive(Clone, Debug)]
enum Shape {
    /// `*` and `*.*`: every name, also one without a dot.
    All,
    /// The empty pattern, matching the empty name alone.
    Empty,
    /// Pattern without wildcards; upcased if case is ignored.
    Literal(String),
    Wild {
        tokens: Vec<Token>,
        /// Smallest number of units of a matching name.
        units_min: usize,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token {
    /// A code unit; upcased if case is ignored.
    Unit(u16),
    /// `?`: any single unit.
    Any,
    /// `*`: any number of units.
    Star,
    /// `<`: any number of units, except the last dot of the name.
    DosStar,
    /// `>`: one unit other than a dot; matches the empty string before a dot or at the end.
    DosQuestionMark,
    /// `"`: a dot; matches the empty string at the end.
    DosDot,
}

impl NameExpression {
    /// Parses a pattern that ignores case, as every Windows client expects.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self::with_case(pattern, true)
    }

    /// Parses a pattern that matches case.
    #[must_use]
    pub fn case_sensitive(pattern: &str) -> Self {
        Self::with_case(pattern, false)
    }

    fn with_case(pattern: &str, ignores_case: bool) -> Self {
        let shape = if pattern.is_empty() {
            Shape::Empty
        } else if pattern == "*" || pattern == "*.*" {
            Shape::All
        } else if !has_wildcards(pattern) {
            Shape::Literal(if ignores_case { fold(pattern) } else { pattern.to_owned() })
        } else {
            wild(pattern, ignores_case)
        };
        Self { shape, ignores_case }
    }

    /// True if every name matches, so that an enumeration need not compare names.
    #[must_use]
    pub fn matches_all(&self) -> bool {
        matches!(self.shape, Shape::All)
    }

    /// True for a pattern without wildcards: at most one name matches, and an enumeration may look
    /// it up instead.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        matches!(self.shape, Shape::Literal(_) | Shape::Empty)
    }

    /// True if `name` matches the pattern.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.shape {
            Shape::All => !name.is_empty(),
            Shape::Empty => name.is_empty(),
            Shape::Literal(literal) if self.ignores_case => {
                literal.chars().eq(name.chars().map(crate::upcase::upcase))
            }
            Shape::Literal(literal) => literal == name,
            Shape::Wild { tokens, units_min } => {
                // A UTF-8 name never has fewer bytes than UTF-16 units.
                if name.is_empty() || name.len() < *units_min {
                    return false;
                }
                if tokens.len() < 64 {
                    matches_wild(tokens, name, self.ignores_case, &mut [0], &mut [0])
                } else {
                    let words = tokens.len() / 64 + 1;
                    let (mut now, mut next) = (vec![0; words], vec![0; words]);
                    matches_wild(tokens, name, self.ignores_case, &mut now, &mut next)
                }
            }
        }
    }
}

/// True if `text` has one of the five wildcards: [MS-FSA] 2.1.4.3.
#[must_use]
pub fn has_wildcards(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'*' | b'?' | b'<' | b'>' | b'"'))
}

fn wild(pattern: &str, ignores_case: bool) -> Shape {
    let mut tokens: Vec<Token> = Vec::new();
    for unit in pattern.encode_utf16() {
        let token = match u8::try_from(unit) {
            Ok(b'*') => Token::Star,
            Ok(b'?') => Token::Any,
            Ok(b'<') => Token::DosStar,
            Ok(b'>') => Token::DosQuestionMark,
            Ok(b'"') => Token::DosDot,
            _ => Token::Unit(if ignores_case { upcase_unit(unit) } else { unit }),
        };
        // A run of stars equals its most general member.
        match (tokens.last_mut(), token) {
            (Some(Token::Star), Token::Star | Token::DosStar)
            | (Some(Token::DosStar), Token::DosStar) => {}
            (Some(last @ Token::DosStar), Token::Star) => *last = Token::Star,
            _ => tokens.push(token),
        }
    }
    let units_min = tokens.iter().filter(|t| matches!(t, Token::Unit(_) | Token::Any)).count();
    Shape::Wild { tokens, units_min }
}

/// Matches `name`, with all reachable positions in `tokens` at once. Bit `i` of `now` is set if the
/// tokens before `i` can consume the name so far.
fn matches_wild(
    tokens: &[Token],
    name: &str,
    ignores_case: bool,
    now: &mut [u64],
    next: &mut [u64],
) -> bool {
    let (mut now, mut next) = (now, next);
    let mut dots_left = name.bytes().filter(|&byte| byte == b'.').count();
    now[0] = 1;
    for unit in name.encode_utf16() {
        let is_dot = unit == u16::from(b'.');
        dots_left -= usize::from(is_dot);
        let here = Unit {
            value: if ignores_case { upcase_unit(unit) } else { unit },
            is_dot,
            is_last_dot: is_dot && dots_left == 0,
        };
        next.fill(0);
        let mut alive = false;
        // Ascending, so that a position reached without consuming is visited in the same pass.
        let mut from = 0;
        while let Some(state) = first_at_or_after(now, from).filter(|&s| s < tokens.len()) {
            let step = step(tokens[state], here);
            if step.stays {
                set(next, state);
            }
            if step.advances {
                set(next, state + 1);
            }
            if step.skips {
                set(now, state + 1);
            }
            alive |= step.stays || step.advances;
            from = state + 1;
        }
        if !alive {
            return false;
        }
        std::mem::swap(&mut now, &mut next);
    }
    // At the end of the name, tokens that match the empty string are skipped.
    let mut from = 0;
    while let Some(state) = first_at_or_after(now, from) {
        match tokens.get(state) {
            None => return true,
            Some(Token::Unit(_) | Token::Any) => {}
            Some(_) => set(now, state + 1),
        }
        from = state + 1;
    }
    false
}

/// One unit of the name, with its properties for the DOS wildcards.
#[derive(Clone, Copy)]
struct Unit {
    value: u16,
    is_dot: bool,
    is_last_dot: bool,
}

/// Ways in which a token can handle a unit.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Consumes it, and may consume more.
    stays: bool,
    /// Consumes it, and the next token follows.
    advances: bool,
    /// Leaves it to the next token.
    skips: bool,
}

fn step(token: Token, unit: Unit) -> Step {
    let nothing = Step::default();
    match token {
        Token::Unit(value) => Step { advances: value == unit.value, ..nothing },
        Token::Any => Step { advances: true, ..nothing },
        Token::Star => Step { stays: true, skips: true, ..nothing },
        Token::DosStar => Step { stays: !unit.is_last_dot, skips: true, ..nothing },
        Token::DosQuestionMark => Step { advances: !unit.is_dot, skips: unit.is_dot, ..nothing },
        Token::DosDot => Step { advances: unit.is_dot, ..nothing },
    }
}

fn set(words: &mut [u64], state: usize) {
    words[state / 64] |= 1 << (state % 64);
}

fn first_at_or_after(words: &[u64], state: usize) -> Option<usize> {
    let mut index = state / 64;
    let mut word = words.get(index)? & (u64::MAX << (state % 64));
    while word == 0 {
        index += 1;
        word = *words.get(index)?;
    }
    Some(index * 64 + usize::try_from(word.trailing_zeros()).expect("at most 64"))
}

#[cfg(test)]
mod tests;
