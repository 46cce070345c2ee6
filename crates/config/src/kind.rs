//! Kinds of values: what text they accept, and the one form in which it is kept.

use crate::interface::InterfaceSpec;
use crate::list;
use crate::startups::Startups;
use crate::user_list::UserList;

/// Form of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// yes, true, 1, on and their opposites.
    Bool,
    /// A number of bytes, with or without `K`, `M`, `G` or `T` behind it.
    Bytes {
        /// Smallest number accepted as it is.
        min: u64,
        /// Largest number accepted as it is.
        max: u64,
    },
    /// One character, the first of the value.
    Character,
    /// One of the words, stored as the word next to it in the pair.
    Choice(&'static [(&'static str, &'static str)]),
    /// A list of such words. `+word` and `-word` change the default instead of replacing it.
    Choices(&'static [(&'static str, &'static str)]),
    /// A number in C's notation: decimal, `0x` hexadecimal, `0` octal.
    Integer {
        /// Smallest number accepted as it is.
        min: u32,
        /// Largest number accepted as it is.
        max: u32,
    },
    /// Interfaces, addresses and networks: a list of [`InterfaceSpec`].
    Interfaces,
    /// Words; lists of users give them a meaning, see [`crate::UserList`].
    List,
    /// Permission bits in octal digits.
    Mode,
    /// A file or folder; may contain substitutions.
    Path,
    /// TCP port numbers from 1.
    Ports,
    /// Clients that are logging on: a [`crate::Startups`].
    Startups,
    /// Text, in which substitutions may occur.
    Text,
    /// Text, kept in capital letters.
    Upper,
}

/// A valid value in its canonical form, and a remark if it was corrected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    /// Text that is stored and written back.
    pub text: String,
    /// Fault of the value that was corrected, in words.
    pub remark: Option<String>,
}

/// A value that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct BadValue {
    /// Accepted values, in words for the message.
    pub expected: String,
}

impl Kind {
    /// Reads `text`. `default` is the parameter's default, to which `+word` and `-word` apply.
    ///
    /// # Errors
    /// The value is none of this kind.
    pub fn canonical(self, text: &str, default: &str) -> Result<Canonical, BadValue> {
        match self {
            Self::Bool => boolean(text).map(plain).ok_or_else(|| expected("yes or no")),
            Self::Bytes { min, max } => bytes(text, min, max),
            Self::Character => match text.chars().next() {
                Some(first) => Ok(plain(first)),
                None => Err(expected("a character")),
            },
            Self::Choice(words) => {
                choice(words, text).map(plain).ok_or_else(|| expected(&one_of(words)))
            }
            Self::Choices(words) => choices(words, text, default),
            Self::Integer { min, max } => integer(text, min, max),
            Self::Interfaces => Ok(interfaces(text)),
            Self::List => Ok(plain(list::joined(&list::words(text), " "))),
            Self::Mode => mode(text),
            Self::Path if text.contains('\0') => Err(expected("a path without zero bytes")),
            Self::Path | Self::Text => Ok(plain(text)),
            Self::Ports => ports(text),
            Self::Startups => startups(text),
            Self::Upper => Ok(plain(text.to_uppercase())),
        }
    }
}

/// A type that a canonical value converts to. The text comes from [`Kind::canonical`] or is a
/// default of the table, which `parameter::tests` reads in the same way.
pub(crate) trait Typed {
    fn typed(canonical: &str) -> Self;
}

impl Typed for bool {
    fn typed(canonical: &str) -> Self {
        canonical == "Yes"
    }
}

impl Typed for u32 {
    fn typed(canonical: &str) -> Self {
        // Only permission bits are kept with a leading zero.
        let radix = if canonical.len() > 1 && canonical.starts_with('0') { 8 } else { 10 };
        Self::from_str_radix(canonical, radix).expect("a stored number was checked")
    }
}

impl Typed for u64 {
    fn typed(canonical: &str) -> Self {
        canonical.parse().expect("a stored number of bytes was checked")
    }
}

/// Quotes around the whole value are no part of it; quotes inside are.
impl Typed for String {
    fn typed(canonical: &str) -> Self {
        canonical
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .filter(|inner| !inner.contains('"'))
            .unwrap_or(canonical)
            .to_owned()
    }
}

impl Typed for Vec<String> {
    fn typed(canonical: &str) -> Self {
        list::words(canonical)
    }
}

impl Typed for Vec<InterfaceSpec> {
    fn typed(canonical: &str) -> Self {
        list::words(canonical).iter().map(|word| InterfaceSpec::parse(word)).collect()
    }
}

impl Typed for Vec<u16> {
    fn typed(canonical: &str) -> Self {
        list::words(canonical)
            .iter()
            .map(|word| word.parse().expect("a stored port was checked"))
            .collect()
    }
}

impl Typed for Vec<crate::choice::EncryptionAlgorithm> {
    fn typed(canonical: &str) -> Self {
        list::words(canonical).iter().map(|word| Typed::typed(word)).collect()
    }
}

impl Typed for Vec<crate::choice::SigningAlgorithm> {
    fn typed(canonical: &str) -> Self {
        list::words(canonical).iter().map(|word| Typed::typed(word)).collect()
    }
}

impl Typed for UserList {
    fn typed(canonical: &str) -> Self {
        Self::new(list::words(canonical))
    }
}

/// Returns "Yes" or "No" for the words with that meaning.
pub(crate) fn boolean(text: &str) -> Option<&'static str> {
    choice(BOOLEAN_WORDS, text)
}

const BOOLEAN_WORDS: &[(&str, &str)] = &[
    ("yes", "Yes"),
    ("true", "Yes"),
    ("1", "Yes"),
    ("on", "Yes"),
    ("no", "No"),
    ("false", "No"),
    ("0", "No"),
    ("off", "No"),
];

fn choice(words: &[(&'static str, &'static str)], text: &str) -> Option<&'static str> {
    words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, canonical)| *canonical)
}

fn choices(
    words: &'static [(&'static str, &'static str)],
    text: &str,
    default: &str,
) -> Result<Canonical, BadValue> {
    let given = list::words(text);
    let changes = given.first().is_some_and(|word| word.starts_with(['+', '-']));
    let mut kept: Vec<&'static str> = Vec::new();
    if changes {
        kept.extend(list::words(default).iter().filter_map(|word| choice(words, word)));
    }
    let mut unknown = Vec::new();
    for word in &given {
        let (remove, name) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
            (Some(name), _) if changes => (true, name),
            (_, Some(name)) if changes => (false, name),
            _ => (false, word.as_str()),
        };
        match choice(words, name) {
            None => unknown.push(crate::warning::quoted(word)),
            Some(known) if remove => kept.retain(|other| *other != known),
            Some(known) if !kept.contains(&known) => kept.push(known),
            Some(_) => {}
        }
    }
    if kept.is_empty() {
        return Err(expected(&format!("a list of {}", one_of(words))));
    }
    let remark = (!unknown.is_empty()).then(|| format!("unknown: {}", unknown.join(" ")));
    Ok(Canonical { text: list::joined(&kept, ", "), remark })
}

fn interfaces(text: &str) -> Canonical {
    let words = list::words(text);
    let remarks: Vec<String> =
        words.iter().filter_map(|word| InterfaceSpec::parse(word).remark()).collect();
    let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
    Canonical { text: list::joined(&words, " "), remark }
}

fn integer(text: &str, min: u32, max: u32) -> Result<Canonical, BadValue> {
    let bad = || expected(&format!("a number from {min} to {max}"));
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => (hexadecimal, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, tail) = digits.split_at(end);
    if number.is_empty() {
        return Err(bad());
    }
    // A number that overflows is outside the range, too.
    let value = u64::from_str_radix(number, radix).unwrap_or(u64::MAX);
    let value = if negative { 0 } else { value };
    let used = value.clamp(u64::from(min), u64::from(max));
    let remark = if used != value || (negative && number.contains(|c| c != '0')) {
        Some(format!("outside of {min} to {max}, {used} is used"))
    } else if tail.is_empty() {
        None
    } else {
        Some(format!("text behind the number is ignored, {used} is used"))
    };
    Ok(Canonical { text: used.to_string(), remark })
}

fn bytes(text: &str, min: u64, max: u64) -> Result<Canonical, BadValue> {
    let bad = || expected("a number of bytes such as 65536 or 64K");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err(bad());
    }
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(bad()),
    };
    let value = number.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1 << shift);
    let used = value.clamp(min, max);
    let remark =
        (used != value).then(|| format!("outside of {min} to {max} bytes, {used} is used"));
    Ok(Canonical { text: used.to_string(), remark })
}

fn mode(text: &str) -> Result<Canonical, BadValue> {
    // `from_str_radix` would accept a sign, and no permission has one.
    match u32::from_str_radix(text, 8) {
        Ok(bits) if bits <= MODE_MAX && !text.starts_with('+') => Ok(plain(format!("0{bits:03o}"))),
        _ => Err(expected("octal permission bits such as 0644")),
    }
}

/// Ports as numbers or as transports of Samba: `tcp` (445), `nbt` (139), `tcp:PORT`, `nbt:PORT`.
fn ports(text: &str) -> Result<Canonical, BadValue> {
    let words = list::words(text);
    let (quic, words): (Vec<&String>, _) = words.iter().partition(|word| is_quic(word));
    let ports: Option<Vec<u16>> = words.into_iter().map(|word| port(word)).collect();
    let ports = ports.filter(|ports| (1..=PORTS_MAX).contains(&ports.len()));
    let ports = ports.ok_or_else(|| expected("port numbers, tcp, nbt, tcp:PORT or nbt:PORT"))?;
    let remark = (!quic.is_empty()).then(|| "QUIC is not served".to_owned());
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    Ok(Canonical { text: ports.join(" "), remark })
}

fn port(word: &str) -> Option<u16> {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "tcp" => return Some(445),
        "nbt" => return Some(139),
        _ => {}
    }
    let number = word.strip_prefix("tcp:").or_else(|| word.strip_prefix("nbt:")).unwrap_or(&word);
    number.parse().ok().filter(|port| *port != 0)
}

fn is_quic(word: &str) -> bool {
    word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("quic"))
}

fn startups(text: &str) -> Result<Canonical, BadValue> {
    let read = Startups::parse(text).ok_or_else(|| expected(Startups::EXPECTED))?;
    Ok(plain(read.to_string()))
}

fn one_of(words: &[(&str, &str)]) -> String {
    let mut canonical: Vec<&str> = words.iter().map(|(_, canonical)| *canonical).collect();
    canonical.dedup();
    canonical.join(", ")
}

fn plain(text: impl Into<String>) -> Canonical {
    Canonical { text: text.into(), remark: None }
}

fn expected(what: &str) -> BadValue {
    BadValue { expected: what.to_owned() }
}

/// Largest mode: permission bits and some of the file type, as in `create mask = 077777` of old
/// files.
const MODE_MAX: u32 = 0o177_777;

/// Highest number of ports to listen on.
const PORTS_MAX: usize = 16;

#[cfg(test)]
mod tests;
