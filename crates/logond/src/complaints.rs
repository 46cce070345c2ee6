//! Lines in the log about clients that were refused. Strangers can cause many.

use std::time::Instant;

use tracing::{debug, warn};

use crate::line_limit::LineLimit;

/// Cause of a line. Each has a rate of its own: tickets of strangers hide no failure of the domain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cause {
    /// A ticket is not valid, as anybody can send it.
    Ticket,
    /// A valid ticket whose owner is nobody here.
    Owner,
    /// The keys of this server cannot be used.
    Keytab,
    /// The domain or winbindd does not answer.
    Domain,
    /// A user of the domain who has no right ids here.
    Account,
}

impl Cause {
    const COUNT: usize = 5;
}

/// The rates of all causes.
#[derive(Debug, Default)]
pub(crate) struct Complaints([LineLimit; Cause::COUNT]);

impl Complaints {
    /// Logs a reason why a client was refused.
    pub(crate) fn log(&self, cause: Cause, text: &str) {
        match self.0[cause as usize].permit(Instant::now()) {
            Some(0) => warn!("{text}"),
            Some(more) => warn!("{text} ({more} more in between)"),
            None => debug!("{text}"),
        }
    }
}

/// Quotes a reason of a library, which may contain a client's text of any length.
pub(crate) fn quoted(reason: &str) -> String {
    let end = reason.char_indices().nth(REASON_CHARS_MAX).map(|(end, _)| end);
    match end {
        Some(end) => format!("{:?}...", &reason[..end]),
        None => format!("{reason:?}"),
    }
}

/// Characters of a quoted reason: enough for a library's sentence with a usual name.
const REASON_CHARS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::{REASON_CHARS_MAX, quoted};

    #[test]
    fn a_name_in_a_reason_is_quoted_and_cut() {
        let short = "no key for cifs/x\" WARN logon refused: address=192.0.2.7";
        assert_eq!(quoted(short), format!("{short:?}"));
        let long = format!("no key for {}", "ü".repeat(60_000));
        let line = quoted(&long);
        assert!(line.starts_with("\"no key for ü") && line.ends_with("ü\"..."), "{line}");
        assert_eq!(line.chars().count(), REASON_CHARS_MAX + 5);
    }
}
