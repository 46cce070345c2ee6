//! Outcomes of requests, for tests.

use dtyp::NtStatus;
use trace::Reason;

/// Outcome of a request, as tests expect it.
///
/// Several rules share a status, so a refusal equals its reason and no status. Only what the file
/// store refuses has no rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The engine refused the request.
    Refused(Reason),
    /// The request succeeded, or the file store refused it.
    Status(NtStatus),
}

impl Outcome {
    /// Success without a warning, for comparison.
    pub const SUCCESS: Self = Self::Status(NtStatus::SUCCESS);

    /// True if the request succeeded, without a warning.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }

    /// Outcome of a request with this status, and this reason of a refusal.
    #[must_use]
    pub fn of(status: NtStatus, reason: Reason) -> Self {
        match reason {
            Reason::NotRefused | Reason::Object => Self::Status(status),
            reason => Self::Refused(reason),
        }
    }
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl From<NtStatus> for Outcome {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

impl PartialEq<Reason> for Outcome {
    fn eq(&self, reason: &Reason) -> bool {
        *self == Self::from(*reason)
    }
}

impl PartialEq<NtStatus> for Outcome {
    fn eq(&self, status: &NtStatus) -> bool {
        *self == Self::from(*status)
    }
}
