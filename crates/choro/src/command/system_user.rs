//! The command that adds a user to this system.

/// Returns the command that adds a user who logs on over SMB only.
pub(in crate::command) fn adding(word: &str) -> String {
    format!("useradd --no-create-home --shell /usr/sbin/nologin {word}")
}
