//! Places in configuration files, for remarks about a setting.

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// File as it was named, by the caller or in an `include`.
    pub file: String,
    /// Line on which the statement starts, from 1; 0 for the whole file.
    pub line: u32,
}
