//! State of the cluster as this node's ctdbd sees it.

use std::net::IpAddr;

use crate::answer::{Answer, VnnMap};
use crate::control::Control;
use crate::message::{Message, service};
use crate::node::{Node, NodeFlags, RecoveryMode, RunState};

/// State of the cluster, put together from answers and messages.
///
/// After [`ClusterState::changed`] it is unknown until [`ClusterState::QUESTIONS`] have been asked
/// and answered anew.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterState {
    /// Number of this machine's node.
    pub own_number: Option<u32>,
    /// All nodes of the cluster.
    pub nodes: Vec<Node>,
    /// Generation and lmasters of the cluster.
    pub map: Option<VnnMap>,
    /// Whether the cluster recovers now.
    pub recovery: Option<RecoveryMode>,
    /// Phase in the life of this node's ctdbd.
    pub run_state: Option<RunState>,
}

/// Whether records can be used on this node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It takes part in the cluster.
    Active,
    /// It is kept out of the cluster, or keeps out: its records are frozen for as long as that
    /// lasts, and other nodes go on without it.
    Inactive(NodeFlags),
    /// The cluster recovers: records are frozen for a moment.
    Recovering,
    /// Its ctdbd starts or ends.
    Starting(RunState),
    /// Not all answers are there yet.
    Unknown,
}

/// A change that a message of ctdbd tells of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum News {
    /// This node has lost a public address: connections to it have to end.
    AddressReleased(IpAddr),
    /// This node has got a public address.
    AddressTaken(IpAddr),
    /// This node is not part of the cluster any more.
    Left,
    /// A recovery has ended: nodes may have gone or come, and each record may be elsewhere.
    Reconfigured,
}

impl ClusterState {
    /// Controls whose answers make up the state. All are answered by the own ctdbd, also while the
    /// cluster recovers.
    pub const QUESTIONS: [Control<'static>; 5] = [
        Control::OwnNumber,
        Control::Nodes,
        Control::VnnMap,
        Control::RecoveryMode,
        Control::RunState,
    ];

    /// Services whose messages [`ClusterState::hear`] understands.
    pub const SERVICES: [u64; 3] =
        [service::RECONFIGURE, service::RELEASE_ADDRESS, service::TAKE_ADDRESS];

    /// Takes an answer to one of the questions; others are ignored.
    pub fn learn(&mut self, answer: &Answer) {
        match answer {
            Answer::OwnNumber(number) => self.own_number = Some(*number),
            Answer::Nodes(nodes) => self.nodes.clone_from(nodes),
            Answer::VnnMap(map) => self.map = Some(map.clone()),
            Answer::RecoveryMode(mode) => self.recovery = Some(*mode),
            Answer::RunState(state) => self.run_state = Some(*state),
            _ => {}
        }
    }

    /// Takes a message, and returns what it tells. After [`News::Left`] and
    /// [`News::Reconfigured`], the state is unknown.
    pub fn hear(&mut self, message: &Message) -> Option<News> {
        let is_known = Self::SERVICES.contains(&message.service);
        if message.is_from_outside() && is_known {
            self.changed();
            return Some(News::Left);
        }
        match message.service {
            service::RECONFIGURE => {
                self.changed();
                Some(News::Reconfigured)
            }
            service::RELEASE_ADDRESS => message.address().map(News::AddressReleased),
            service::TAKE_ADDRESS => message.address().map(News::AddressTaken),
            _ => None,
        }
    }

    /// Forgets all but the own number, which never changes.
    pub fn changed(&mut self) {
        *self = Self { own_number: self.own_number, ..Self::default() };
    }

    /// Returns the node with this number.
    #[must_use]
    pub fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// Returns whether records can be used on this node.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let own = self.own_number.and_then(|number| self.node(number));
        let (Some(own), Some(recovery), Some(run_state)) = (own, self.recovery, self.run_state)
        else {
            return Standing::Unknown;
        };
        if !own.flags.is_active() {
            return Standing::Inactive(own.flags);
        }
        match (run_state, recovery) {
            (RunState::Running, RecoveryMode::Active) => Standing::Recovering,
            (RunState::Running, RecoveryMode::Normal) => Standing::Active,
            (other, _) => Standing::Starting(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Answer, ClusterState, Message, News, Node, NodeFlags, RecoveryMode, RunState, Standing,
        service,
    };

    fn node(number: u32, flags: u32) -> Node {
        Node { number, flags: NodeFlags(flags), address: None }
    }

    fn active() -> ClusterState {
        let mut state = ClusterState::default();
        state.learn(&Answer::OwnNumber(1));
        state.learn(&Answer::Nodes(vec![node(0, 0x20), node(1, 0x02)]));
        state.learn(&Answer::RecoveryMode(RecoveryMode::Normal));
        assert_eq!(state.standing(), Standing::Unknown, "an answer is missing");
        state.learn(&Answer::RunState(RunState::Running));
        state
    }

    fn message(service: u64, generation: u32, data: &[u8]) -> Message {
        Message { service, generation, data: data.to_vec() }
    }

    #[test]
    fn only_the_own_flags_keep_a_node_out() {
        let mut state = active();
        assert_eq!(state.standing(), Standing::Active, "another node is stopped");
        state.learn(&Answer::Nodes(vec![node(0, 0), node(1, 0x20)]));
        assert_eq!(state.standing(), Standing::Inactive(NodeFlags::STOPPED));
        state.learn(&Answer::Nodes(vec![node(0, 0)]));
        assert_eq!(state.standing(), Standing::Unknown, "the own node is not in the list");
    }

    #[test]
    fn a_node_recovers_or_starts_before_it_is_active() {
        let mut state = active();
        state.learn(&Answer::RecoveryMode(RecoveryMode::Active));
        assert_eq!(state.standing(), Standing::Recovering);
        state.learn(&Answer::RunState(RunState::FirstRecovery));
        assert_eq!(state.standing(), Standing::Starting(RunState::FirstRecovery));
    }

    #[test]
    fn after_a_recovery_the_state_is_unknown() {
        let mut state = active();
        let news = state.hear(&message(service::RECONFIGURE, 77, &[]));
        assert_eq!(news, Some(News::Reconfigured));
        assert_eq!(state.standing(), Standing::Unknown);
        assert_eq!(state.own_number, Some(1));
    }

    #[test]
    fn generation_1_says_that_the_node_has_left() {
        let mut state = active();
        let release = message(service::RELEASE_ADDRESS, 1, b"10.98.0.101\0");
        assert_eq!(state.hear(&release), Some(News::Left));
        assert_eq!(state.standing(), Standing::Unknown);
        assert_eq!(active().hear(&message(0xC0, 1, &[])), None, "a message of a process");
    }

    #[test]
    fn moved_addresses_are_told_by_their_text() {
        let address = "2001:db8::7".parse().expect("an address");
        let mut state = active();
        let heard = state.hear(&message(service::TAKE_ADDRESS, 7, b"2001:db8::7\0"));
        assert_eq!(heard, Some(News::AddressTaken(address)));
        let heard = state.hear(&message(service::RELEASE_ADDRESS, 7, b"2001:db8::7\0rest"));
        assert_eq!(heard, Some(News::AddressReleased(address)));
        for text in [&b"2001:db8::7"[..], b"nowhere\0", b"", b"\xFF\0"] {
            assert_eq!(state.hear(&message(service::TAKE_ADDRESS, 7, text)), None);
        }
        assert_eq!(state.standing(), Standing::Active);
    }
}
