//! The kinds of processes that are confined.

/// A kind of process of the server. The supervisor is none: it reads nothing that a client sent,
/// and what it gave up, its children could not have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ProcessKind {
    /// Writes the records of audits.
    Auditd,
    /// Announces the server to other machines.
    Discoveryd,
    /// Checks tickets, and asks the domain.
    Logond,
    /// Reads the requests of clients of `choro metrics`.
    MetricsWeb,
    /// Watches directories for all workers.
    Notifyd,
    /// Serves all connections of one client.
    Worker,
}

impl ProcessKind {
    /// All kinds, each at the place that [`Self::index`] returns.
    pub const ALL: [Self; 6] = [
        Self::Auditd,
        Self::Discoveryd,
        Self::Logond,
        Self::MetricsWeb,
        Self::Notifyd,
        Self::Worker,
    ];

    /// Returns the name in logs, metrics and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auditd => "auditd",
            Self::Discoveryd => "discoveryd",
            Self::Logond => "logond",
            Self::MetricsWeb => "metrics-web",
            Self::Notifyd => "notifyd",
            Self::Worker => "worker",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the place in tables with one entry for each kind.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessKind;

    #[test]
    fn each_kind_is_at_its_place_and_has_a_name_of_its_own() {
        for (place, kind) in ProcessKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), place);
            assert_eq!(ProcessKind::of_name(kind.name()), Some(kind));
        }
        assert_eq!(ProcessKind::of_name("smbd"), None);
    }
}
