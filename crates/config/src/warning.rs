//! Remarks and errors of loading: warnings, and reasons not to serve at all.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::limits::QUOTED_CHARACTERS_MAX;
use crate::place::Place;

/// A remark about one line of the configuration, which is usable all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// File as it was named, by the caller or in an `include`.
    pub file: String,
    /// Line on which the statement starts, from 1; 0 when the remark is about the whole file.
    pub line: u32,
    /// Sort of remark, for filters and machine-readable output.
    pub kind: WarningKind,
    /// The remark, one line, without file and line.
    pub message: String,
}

impl Warning {
    /// A remark about the line of a setting.
    #[must_use]
    pub fn at(place: &Place, kind: WarningKind, message: String) -> Self {
        Self { file: place.file.clone(), line: place.line, kind, message }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

/// Sorts of [`Warning`], one for each cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WarningKind {
    /// All users of the setting act as root.
    ActsAsRoot,
    /// The value is unreadable in whole or in part; the message gives the value in use.
    BadValue,
    /// Two settings do not go together.
    Contradiction,
    /// An `include` of a missing file.
    MissingInclude,
    /// A command whose program is missing or cannot be executed.
    MissingProgram,
    /// Samba knows the parameter; here it has no effect, or not yet.
    NoEffect,
    /// A module in `vfs objects` that this server does not have.
    NotBuiltIn,
    /// The section is kept, but is not served as written.
    NotServed,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A line that is neither a section nor `name = value`.
    Syntax,
    /// Number of warnings beyond [`crate::limits::WARNINGS_MAX`] that are not shown.
    NotShown,
    /// Files that are read for each client.
    PerClient,
    /// An interface or address that this machine does not have.
    UnknownInterface,
    /// A user or group that neither the system nor the user database has.
    UnknownName,
    /// A parameter that neither this server nor Samba knows.
    UnknownParameter,
    /// A protection that Samba has and this server does not.
    WeakerThanSamba,
    /// A parameter of `[global]` in a share.
    WrongScope,
}

impl WarningKind {
    /// True for a remark that needs no action by the operator.
    #[must_use]
    pub fn is_note(self) -> bool {
        matches!(self, Self::NoEffect | Self::PerClient)
    }

    /// Stable name, for machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ActsAsRoot => "acts-as-root",
            Self::BadValue => "bad-value",
            Self::Contradiction => "contradiction",
            Self::MissingInclude => "missing-include",
            Self::MissingProgram => "missing-program",
            Self::NoEffect => "no-effect",
            Self::NotBuiltIn => "not-built-in",
            Self::NotServed => "not-served",
            Self::NotUtf8 => "not-utf8",
            Self::Syntax => "syntax",
            Self::NotShown => "too-many",
            Self::PerClient => "per-client",
            Self::UnknownInterface => "unknown-interface",
            Self::UnknownName => "unknown-name",
            Self::UnknownParameter => "unknown-parameter",
            Self::WeakerThanSamba => "weaker-than-samba",
            Self::WrongScope => "wrong-scope",
        }
    }
}

/// Reasons not to serve a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// An unreadable value of a protective parameter; every guess could be the weaker one.
    #[error("{file}:{line}: `{parameter} = {value}`: {reason}")]
    BadProtection {
        /// File with the bad value.
        file: String,
        /// Line of the setting, from 1.
        line: u32,
        /// Canonical name of the parameter.
        parameter: &'static str,
        /// The value, shortened for the message.
        value: String,
        /// Accepted values, or another reason.
        reason: String,
    },
    /// A section `[qos:NAME]` that is not understood, or whose limits contradict each other.
    #[error("{file}:{line}: [qos:{class}]: {reason}")]
    BadClass {
        /// File that has the section.
        file: String,
        /// Line of the fault, from 1.
        line: u32,
        /// Name of the class, without `qos:`.
        class: String,
        /// Fault of the section, in words.
        reason: String,
    },
    /// The server would be a node of a cluster.
    #[error("{file}:{line}: `clustering = {value}` is not supported: {reason}")]
    Clustered {
        /// File that has the setting.
        file: String,
        /// Line of the setting, from 1.
        line: u32,
        /// The value, shortened for the message.
        value: String,
        /// Harm of ignoring the setting, and a remedy.
        reason: &'static str,
        /// Socket of ctdbd, as `ctdbd socket` names it; empty for the usual one.
        socket: String,
    },
    /// A section header without name or without `]`. The lines below it would land in the section
    /// above it.
    #[error("{file}:{line}: section header without {missing}")]
    BadSection {
        /// File that has the header.
        file: String,
        /// Line of the header, from 1.
        line: u32,
        /// Missing part: "name" or "closing bracket".
        missing: &'static str,
    },
    /// Parameters that contradict each other, or one without another that it needs.
    #[error("{0}")]
    Contradiction(&'static str),
    /// A limit of [`crate::limits`] was exceeded.
    #[error("{file}:{line}: more than {limit} {unit}")]
    Limit {
        /// File that exceeded the limit.
        file: String,
        /// Line, 0 for the file.
        line: u32,
        /// Highest count that is accepted.
        limit: u64,
        /// Unit of the count, in words.
        unit: &'static str,
    },
    /// A file includes itself, directly or through others.
    #[error("{file}:{line}: include loop: {} is being read already", path.display())]
    IncludeLoop {
        /// File that has the `include`.
        file: String,
        /// Line of the `include`, from 1.
        line: u32,
        /// File that is included again.
        path: PathBuf,
    },
    /// No dialect is left: `server min protocol` is above `server max protocol`.
    #[error("server min protocol = {min} is above server max protocol = {max}: no dialect is left")]
    NoDialect {
        /// Word of the configured lowest dialect.
        min: String,
        /// Word of the configured highest dialect.
        max: String,
    },
    /// A setting that Samba acts on and this server does not, although serving without its effect
    /// would harm users.
    #[error("{file}:{line}: `{parameter} = {value}` is not supported: {reason}")]
    Unsupported {
        /// File that has the setting.
        file: String,
        /// Line of the setting, from 1.
        line: u32,
        /// Canonical name of the parameter.
        parameter: &'static str,
        /// The value, shortened for the message.
        value: String,
        /// Harm of ignoring the setting, and a remedy.
        reason: &'static str,
    },
    /// An included file cannot be read, or the main file is unreadable or missing.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// Path of the unreadable file.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        error: io::Error,
    },
}

/// Question at the end of a message about an unknown word, if there is one near it.
#[must_use]
pub fn hint(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"))
}

/// The operator's text for a message: shortened, and unable to move a terminal's cursor.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut characters = text.chars();
    let head: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("{}{more}", head.escape_debug())
}
