//! Attacks, and the layers that stop them.

use nix::errno::Errno;

use crate::scene::Scene;
use crate::taken_over::{Answer, Failure};

/// A part of the server's defense.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Layer {
    /// The process has not the capability.
    Capabilities,
    /// The process for commands takes texts of the configuration only.
    Commandd,
    /// The kernel names the sender of a message.
    Credentials,
    /// The process with the hashes lends keys for right proofs only.
    Logond,
    /// The process makes no such call, or not with these arguments.
    Filter,
    /// Nobody without CAP_SYS_PTRACE reads memory and descriptors of the server's processes.
    Memory,
    /// The process has no rule for the path, or for processes outside of its rules.
    Paths,
    /// The rings of workers take nine operations.
    Ring,
    /// The supervisor takes three orders of workers.
    Supervisor,
    /// The process has no rule for TCP.
    Tcp,
    /// The worker that has a session lends its key only for a message that this has signed.
    Workers,
}

/// The known outcome of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// A layer of the server stops it.
    Stopped(Layer),
    /// Nothing stops it; with the consequence.
    Open(&'static str),
}

/// An attack from within a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) known: Known,
    /// Makes the attack; a success is the attacker's.
    pub(crate) attempt: fn(&mut Scene<'_>) -> Answer,
}

/// An attack that a layer stops.
pub(crate) const fn stopped(
    name: &'static str,
    layer: Layer,
    attempt: fn(&mut Scene<'_>) -> Answer,
) -> Attack {
    Attack { name, known: Known::Stopped(layer), attempt }
}

/// An attack that nothing stops, with its consequence.
pub(crate) const fn open(
    name: &'static str,
    consequence: &'static str,
    attempt: fn(&mut Scene<'_>) -> Answer,
) -> Attack {
    Attack { name, known: Known::Open(consequence), attempt }
}

impl Layer {
    /// Returns the name on the page of attacks.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::Commandd => "commandd",
            Self::Credentials => "credentials of messages",
            Self::Filter => "filter",
            Self::Logond => "logond",
            Self::Memory => "closed memory",
            Self::Paths => "paths",
            Self::Ring => "restricted ring",
            Self::Supervisor => "supervisor",
            Self::Tcp => "TCP",
            Self::Workers => "the other worker",
        }
    }

    /// Returns the reason why this kernel lacks the layer; none if it has it.
    fn lack(self) -> Option<String> {
        match self {
            Self::Paths => confinement::paths_unavailable(),
            Self::Tcp => confinement::tcp_unavailable(),
            _ => None,
        }
    }

    /// Whether an attack that failed so was stopped by this layer.
    fn has_stopped(self, failure: &Failure) -> bool {
        match self {
            Self::Filter => *failure == Failure::Filtered,
            Self::Capabilities | Self::Memory | Self::Paths | Self::Ring | Self::Tcp => {
                matches!(failure, Failure::Refused(Errno::EPERM | Errno::EACCES))
            }
            Self::Commandd
            | Self::Credentials
            | Self::Logond
            | Self::Supervisor
            | Self::Workers => *failure == Failure::Unheeded,
        }
    }
}

impl Attack {
    /// Returns the complaint if the outcome is another than the known one.
    pub(crate) fn judge(&self, answer: &Answer) -> Option<String> {
        let name = self.name;
        match (self.known, answer) {
            (_, Err(Failure::Absent(_))) => None,
            (Known::Open(_), Ok(_)) => None,
            (Known::Stopped(layer), Ok(_)) if layer.lack().is_some() => None,
            (Known::Stopped(layer), Err(failure)) if layer.has_stopped(failure) => None,
            (Known::Stopped(layer), _) => {
                Some(format!("{name}: not stopped by {}: {answer:?}", layer.name()))
            }
            (Known::Open(_), Err(failure)) => Some(format!("{name}: stopped now: {failure:?}")),
        }
    }
}
