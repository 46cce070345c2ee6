//! States of a node: its flags, its ctdbd's phase of life, and whether the cluster recovers.

use std::fmt;
use std::net::IpAddr;

use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::socket_address;

/// Highest number of nodes: a session id has eight bits for its node.
pub const NODES_MAX: usize = 256;

/// A line of the file that lists the cluster's nodes, with that node's state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Node {
    /// Place in that file, from 0.
    pub number: u32,
    /// Reasons why it takes no part, or serves no clients.
    pub flags: NodeFlags,
    /// Address for the other nodes; `None` if it is of no known family.
    pub address: Option<IpAddr>,
}

impl Node {
    pub(crate) fn decode(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (number, flags) = (fields.u32()?, NodeFlags(fields.u32()?));
        Ok(Self { number, flags, address: socket_address::decode_ip(fields)? })
    }
}

/// Flags of a node, as ctdbd has them; none is set for a node that is well.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NodeFlags(pub u32);

impl NodeFlags {
    /// The others cannot reach it.
    pub const DISCONNECTED: Self = Self(0x01);
    /// An event script has found a fault; it has no public addresses.
    pub const UNHEALTHY: Self = Self(0x02);
    /// The administrator has disabled it; it has no public addresses.
    pub const DISABLED: Self = Self(0x04);
    /// It failed too often, and is kept out for some minutes.
    pub const BANNED: Self = Self(0x08);
    /// Its line was removed from the list of nodes.
    pub const DELETED: Self = Self(0x10);
    /// The administrator has stopped it.
    pub const STOPPED: Self = Self(0x20);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::DISCONNECTED, "disconnected"),
        (Self::UNHEALTHY, "unhealthy"),
        (Self::DISABLED, "disabled"),
        (Self::BANNED, "banned"),
        (Self::DELETED, "deleted"),
        (Self::STOPPED, "stopped"),
    ];

    /// Returns true if one of `flags` is set.
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns true if the node takes part: it has records, and is dmaster and lmaster of some.
    #[must_use]
    pub const fn is_active(self) -> bool {
        let out = Self::DISCONNECTED.0 | Self::BANNED.0 | Self::DELETED.0 | Self::STOPPED.0;
        self.0 & out == 0
    }
}

/// The flags in words; `ok` if none is set.
impl fmt::Display for NodeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name);
        let mut words: Vec<&str> = names.collect();
        let known = Self::NAMES.iter().fold(0, |all, (flag, _)| all | flag.0);
        if self.0 & !known != 0 {
            words.push("unknown flags");
        }
        f.write_str(if words.is_empty() { "ok" } else { "" })?;
        f.write_str(&words.join(" "))
    }
}

/// Whether the cluster recovers: its databases are frozen and collected anew.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecoveryMode {
    /// Records of all databases can be used.
    Normal,
    /// All chains of all databases are locked.
    Active,
}

impl RecoveryMode {
    pub(crate) fn decode(status: u32) -> Result<Self, Malformed> {
        match status {
            0 => Ok(Self::Normal),
            1 => Ok(Self::Active),
            other => Err(Malformed::State(other)),
        }
    }

    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Active => "recovering",
        }
    }
}

/// Phase in the life of a ctdbd. Databases can be used in the phase `Running` alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunState {
    /// ctdbd reads its own configuration.
    Init,
    /// Event scripts prepare the machine.
    Setup,
    /// It waits for its first recovery.
    FirstRecovery,
    /// Event scripts start services of the node.
    Startup,
    /// It takes part in the cluster.
    Running,
    /// ctdbd ends services of the node.
    Shutdown,
}

impl RunState {
    pub(crate) fn decode(number: u32) -> Result<Self, Malformed> {
        Ok(match number {
            1 => Self::Init,
            2 => Self::Setup,
            3 => Self::FirstRecovery,
            4 => Self::Startup,
            5 => Self::Running,
            6 => Self::Shutdown,
            other => return Err(Malformed::State(other)),
        })
    }

    /// Its name in reports: that of CTDB's own tool.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "INIT",
            Self::Setup => "SETUP",
            Self::FirstRecovery => "FIRST_RECOVERY",
            Self::Startup => "STARTUP",
            Self::Running => "RUNNING",
            Self::Shutdown => "SHUTDOWN",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NodeFlags;

    #[test]
    fn flags_are_shown_in_words() {
        assert_eq!(NodeFlags(0).to_string(), "ok");
        assert_eq!(NodeFlags(0x22).to_string(), "unhealthy stopped");
        assert_eq!(NodeFlags(0x81).to_string(), "disconnected unknown flags");
    }

    #[test]
    fn an_unhealthy_or_disabled_node_takes_part_still() {
        let active = [0x00, 0x02, 0x04, 0x06];
        let inactive = [0x01, 0x08, 0x10, 0x20, 0x21];
        assert!(active.into_iter().all(|flags| NodeFlags(flags).is_active()));
        assert!(!inactive.into_iter().any(|flags| NodeFlags(flags).is_active()));
    }
}
