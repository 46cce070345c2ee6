//! The table of parameters.
//!
//! A parameter is one entry of `parameter_table!` in `global.rs` or `share.rs`: field, type, name,
//! synonyms, kind, default and documentation together; nothing else has to change to add one.
//! Parameters of Samba that have no effect here are names in `accepted.rs`.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::accepted;
use crate::global;
use crate::kind::Kind;
use crate::share;

/// A parameter as an entry of the table.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name that is written back.
    pub name: &'static str,
    /// Other names, with the same or the opposite meaning.
    pub synonyms: &'static [Synonym],
    /// Sections in which it is accepted.
    pub scope: Scope,
    /// Kind of value that it accepts.
    pub kind: Kind,
    /// Default value, in canonical form.
    pub default: &'static str,
    /// Effect of setting it in this version.
    pub effect: Effect,
    /// Documentation for operators, one or more sentences.
    pub doc: &'static str,
}

/// Effect of setting a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The server acts on it.
    Now,
    /// The value is checked and stored; the function is not implemented yet.
    NotYet,
    /// Accepted so that files of Samba load, and ignored.
    Never,
}

/// Sections in which a parameter is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Accepted in the section `[global]` only.
    Global,
    /// In a share, or in `[global]` as the default of the shares below it.
    Share,
}

/// Another name of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synonym {
    /// Name with the opposite meaning.
    Inverse(&'static str),
    /// Name with the same meaning.
    Same(&'static str),
}

impl Parameter {
    /// True if the default can be weaker than the operator's intention, so that an unreadable value
    /// refuses the configuration instead of falling back.
    #[must_use]
    pub fn refuses_bad_values(&self) -> bool {
        REFUSED_WHEN_BAD.contains(&self.name)
    }
}

/// All parameters, also those without effect.
#[must_use]
pub fn parameters() -> &'static [Parameter] {
    static PARAMETERS: OnceLock<Vec<Parameter>> = OnceLock::new();
    PARAMETERS.get_or_init(|| {
        global::PARAMETERS.iter().chain(share::PARAMETERS).copied().chain(accepted::all()).collect()
    })
}

/// Returns the parameter called `name`, and true if that name means its opposite. Case and white
/// space in names do not matter.
#[must_use]
pub fn find(name: &str) -> Option<(&'static Parameter, bool)> {
    // The two tables are small constants. The table of all names is built only when a name is
    // written in another way, never in a process that reads a configuration already checked.
    let ours = || global::PARAMETERS.iter().chain(share::PARAMETERS);
    let of_ours = || ours().flat_map(names_of);
    // Each process asks for the default of every parameter, by name and in the order of the tables.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.load(Ordering::Relaxed);
    if let Some(parameter) = ours().nth(next).filter(|parameter| parameter.name == name) {
        NEXT.store(next + 1, Ordering::Relaxed);
        return Some((parameter, false));
    }
    let found = of_ours().find(|(known, _, _)| *known == name);
    if let Some((_, parameter, _)) = found {
        let place = ours().position(|it| it.name == parameter.name);
        place.into_iter().for_each(|at| NEXT.store(at + 1, Ordering::Relaxed));
    }
    let found = found.map(|(_, parameter, inverse)| (parameter, inverse));
    found.or_else(|| by_name().get(&folded(name)).copied())
}

/// Returns the known name closest to a misspelled one, if it is close enough to suggest.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    nearest_of(name, names().map(|(known, _, _)| known))
}

/// Returns the one of some names that is closest to a misspelled one, if it is close enough to
/// suggest. Case and white space do not matter.
#[must_use]
pub fn nearest_of<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = folded(name);
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    // Any word of three letters is two changes away from some other.
    let length = name.chars().count();
    let far = ((length / 4).max(1) + 1).min((length / 2).max(1));
    let names = names.into_iter().map(|known| (folded(known), known));
    names
        .filter(|(other, _)| other.len().abs_diff(name.len()) <= far)
        .map(|(other, known)| (distance(&name, &other), known))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Name without case and white space.
fn folded(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

fn by_name() -> &'static HashMap<String, (&'static Parameter, bool)> {
    static BY_NAME: OnceLock<HashMap<String, (&'static Parameter, bool)>> = OnceLock::new();
    BY_NAME.get_or_init(|| {
        names().map(|(name, parameter, inverse)| (folded(name), (parameter, inverse))).collect()
    })
}

fn names() -> impl Iterator<Item = (&'static str, &'static Parameter, bool)> {
    parameters().iter().flat_map(names_of)
}

/// Names of a parameter, each with true if it means the opposite.
fn names_of(
    parameter: &'static Parameter,
) -> impl Iterator<Item = (&'static str, &'static Parameter, bool)> {
    let synonyms = parameter.synonyms.iter().map(move |synonym| match synonym {
        Synonym::Inverse(name) => (*name, parameter, true),
        Synonym::Same(name) => (*name, parameter, false),
    });
    std::iter::once((parameter.name, parameter, false)).chain(synonyms)
}

/// Insertions, removals and replacements that turn one name into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Makes the table and the struct of one scope from one list.
macro_rules! parameter_table {
    ($(#[$meta:meta])* $type:ident in $scope:ident {
        $( $(#[doc = $doc:literal])+
           $field:ident: $value:ty = $name:literal $(/ $same:literal)* $(/ not $inverse:literal)*,
           $kind:expr, $default:literal $(, $effect:ident)?; )+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $type {
            /// Name of the section as it was written first; `global` for [`crate::Global`].
            pub name: String,
            $( $(#[doc = $doc])+ pub $field: $value, )+
            pub(crate) section: crate::section::Section,
        }

        impl $type {
            pub(crate) fn new(name: String, section: crate::section::Section) -> Self {
                Self { name, $( $field: section.typed($name), )+ section }
            }
        }

        pub(crate) const PARAMETERS: &[crate::parameter::Parameter] = &[ $(
            crate::parameter::Parameter {
                name: $name,
                synonyms: &[ $(crate::parameter::Synonym::Same($same),)*
                             $(crate::parameter::Synonym::Inverse($inverse),)* ],
                scope: crate::parameter::Scope::$scope,
                kind: $kind, default: $default, doc: concat!($($doc),+),
                effect: crate::parameter::effect(&[$(crate::parameter::Effect::$effect)?]),
            }, )+ ];
    };
}
pub(crate) use parameter_table;

/// Returns the effect at the end of an entry of the table; [`Effect::Now`] if it has none.
pub(crate) const fn effect(entry: &[Effect]) -> Effect {
    if let [effect, ..] = entry { *effect } else { Effect::Now }
}

/// Protective parameters that a misspelled value must not disable.
const REFUSED_WHEN_BAD: &[&str] = &[
    "available",
    "bind interfaces only",
    "follow symlinks",
    "kerberos method",
    "ntlm auth",
    "preexec close",
    "restrict anonymous",
    "root preexec close",
    "security",
    "server min protocol",
    "server role",
    "server signing",
    "server smb encrypt",
    "server smb3 encryption algorithms",
    "server smb3 signing algorithms",
];

/// Longest name worth comparing with all others.
const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_its_canonical_form() {
        for parameter in parameters().iter().filter(|parameter| parameter.effect != Effect::Never) {
            let read = parameter.kind.canonical(parameter.default, parameter.default);
            let read = read.unwrap_or_else(|bad| panic!("{}: {bad}", parameter.name));
            assert_eq!(read.text, parameter.default, "{}", parameter.name);
            assert_eq!(read.remark, None, "{}", parameter.name);
        }
    }

    #[test]
    fn every_name_means_one_parameter() {
        assert_eq!(by_name().len(), names().count());
        for (name, parameter, inverse) in names() {
            let (found, found_inverse) = find(name).expect("a name of the table is found");
            assert_eq!((found.name, found_inverse), (parameter.name, inverse), "{name}");
        }
    }

    #[test]
    fn only_booleans_have_an_opposite() {
        for (name, parameter, inverse) in names() {
            assert!(
                !inverse || parameter.kind == Kind::Bool || parameter.effect == Effect::Never,
                "{name}"
            );
        }
    }

    #[test]
    fn every_parameter_of_the_tables_has_a_description() {
        for parameter in parameters().iter().filter(|parameter| parameter.effect != Effect::Never) {
            assert!(parameter.doc.trim().ends_with('.'), "{}", parameter.name);
        }
        for name in REFUSED_WHEN_BAD {
            assert_eq!(find(name).map(|(found, _)| found.name), Some(*name));
        }
    }

    #[test]
    fn names_ignore_case_and_white_space() {
        for name in ["READ only", "readonly", "read\t only"] {
            assert_eq!(
                find(name).map(|(p, inverse)| (p.name, inverse)),
                Some(("read only", false))
            );
        }
        assert_eq!(
            find("writeable").map(|(p, inverse)| (p.name, inverse)),
            Some(("read only", true))
        );
        assert!(find("read-only").is_none());
    }

    #[test]
    fn a_misspelled_name_finds_its_neighbour() {
        assert_eq!(nearest("vaild users"), Some("valid users"));
        assert_eq!(nearest("read-only"), Some("read only"));
        assert_eq!(nearest("brwseable"), Some("browseable"));
        assert_eq!(nearest_of("ana", ["man", "ann"]), Some("ann"));
        assert_eq!(nearest_of("ana", ["man", "bin"]), None);
        assert_eq!(nearest("quantum entanglement mode"), None);
        assert_eq!(nearest(&"x".repeat(10_000)), None);
    }
}
