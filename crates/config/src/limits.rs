//! Limits on the cost of a configuration, whatever its text.
//!
//! The file is the operator's, but a file made by a broken script must not take the supervisor
//! down with it. Each limit is far above what people write.

/// Bytes of one file; includes count separately.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Bytes of all files together, counted once per inclusion.
pub const TOTAL_BYTES_MAX: u64 = 16 << 20;

/// Bytes of one logical line, after its continuation lines were joined.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Files that include one another. Samba's number.
pub const INCLUDE_DEPTH_MAX: usize = 100;

/// Inclusions in all; depth alone does not bound a file that includes another one twice.
pub const INCLUSIONS_MAX: usize = 1_024;

/// Entries of a folder that is included.
pub const FOLDER_ENTRIES_MAX: usize = 4_096;

/// Files for single clients that are verified when the configuration is loaded. Others are
/// verified when a client needs them.
pub const CLIENT_FILES_VERIFIED_MAX: usize = 256;

/// Names looked at in the folder of such files.
pub const CLIENT_FILE_NAMES_MAX: usize = 10_000;

/// Sections, shares and others together.
pub const SECTIONS_MAX: usize = 4_096;

/// Parametric options (`module:option`) of one section.
pub const OPTIONS_MAX: usize = 1_024;

/// Bytes of all values that sections take over from `[global]` or by `copy`.
pub const INHERITED_BYTES_MAX: usize = 64 << 20;

/// Warnings kept; the rest is counted.
pub const WARNINGS_MAX: usize = 1_000;

/// Characters of the operator's text that a message repeats.
pub const QUOTED_CHARACTERS_MAX: usize = 80;
