//! What loading has to say: warnings, and the reasons not to serve at all.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::limits::QUOTED_CHARACTERS_MAX;

/// A remark about one line of the configuration. The configuration is usable all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// File as it was named, by the caller or in an `include`.
    pub file: String,
    /// Line on which the statement starts, from 1; 0 when the remark is about the whole file.
    pub line: u32,
    /// What sort of remark it is.
    pub kind: WarningKind,
    /// The remark, one line, without file and line.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// The sorts of [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WarningKind {
    /// Whoever connects acts as root.
    ActsAsRoot,
    /// The value cannot be read, or only a part of it; the message says what is used instead.
    BadValue,
    /// Two settings do not go together.
    Contradiction,
    /// An `include` that is not there.
    MissingInclude,
    /// Samba knows the parameter; here it has no effect, or none yet.
    NoEffect,
    /// A module of `vfs objects` that is not part of this server.
    NotBuiltIn,
    /// The section is kept, but is not served as written.
    NotServed,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A line that is neither a section nor `name = value`.
    Syntax,
    /// More warnings than [`crate::limits::WARNINGS_MAX`].
    TooMany,
    /// Nobody knows the parameter.
    UnknownParameter,
    /// A parameter of `[global]` in a share.
    WrongScope,
}

impl WarningKind {
    /// True for a remark that asks nothing of the operator.
    #[must_use]
    pub fn is_note(self) -> bool {
        self == Self::NoEffect
    }

    /// Stable name, for machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ActsAsRoot => "acts-as-root",
            Self::BadValue => "bad-value",
            Self::Contradiction => "contradiction",
            Self::MissingInclude => "missing-include",
            Self::NoEffect => "no-effect",
            Self::NotBuiltIn => "not-built-in",
            Self::NotServed => "not-served",
            Self::NotUtf8 => "not-utf8",
            Self::Syntax => "syntax",
            Self::TooMany => "too-many",
            Self::UnknownParameter => "unknown-parameter",
            Self::WrongScope => "wrong-scope",
        }
    }
}

/// Why a configuration cannot be served safely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A value that decides about protection cannot be read, and every guess could be the weaker
    /// one.
    #[error("{file}:{line}: `{parameter} = {value}`: {reason}")]
    BadProtection {
        /// File.
        file: String,
        /// Line.
        line: u32,
        /// Canonical name of the parameter.
        parameter: &'static str,
        /// The value, shortened.
        value: String,
        /// What would have been understood.
        reason: String,
    },
    /// A section `[qos:NAME]` that cannot be understood, or that would not do what it says.
    #[error("{file}:{line}: [qos:{class}]: {reason}")]
    BadClass {
        /// File.
        file: String,
        /// Line.
        line: u32,
        /// The class's name.
        class: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A section header without name or without `]`. The lines below it would land in the section
    /// above it.
    #[error("{file}:{line}: section header without {missing}")]
    BadSection {
        /// File.
        file: String,
        /// Line.
        line: u32,
        /// "name" or "closing bracket".
        missing: &'static str,
    },
    /// One of [`crate::limits`] was exceeded.
    #[error("{file}:{line}: more than {limit} {what}")]
    Limit {
        /// File.
        file: String,
        /// Line, 0 for the file.
        line: u32,
        /// The limit.
        limit: u64,
        /// What is counted.
        what: &'static str,
    },
    /// A file includes itself, directly or through others.
    #[error("{file}:{line}: include loop: {} is being read already", path.display())]
    IncludeLoop {
        /// File with the `include`.
        file: String,
        /// Line.
        line: u32,
        /// File that is included again.
        path: PathBuf,
    },
    /// `server min protocol` is above `server max protocol`.
    #[error("server min protocol = {min} is above server max protocol = {max}: no dialect is left")]
    NoDialect {
        /// Lowest dialect asked for.
        min: String,
        /// Highest dialect asked for.
        max: String,
    },
    /// A file is there but cannot be read, or the main file is not there.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// The operator's text for a message: shortened, and unable to move a terminal's cursor.
pub(crate) fn quoted(text: &str) -> String {
    let mut characters = text.chars();
    let head: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("{}{more}", head.escape_debug())
}
