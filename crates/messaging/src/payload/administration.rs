//! Data of an administrator's requests to the processes of a server, and of the answers.

use dtyp::ServerId;

use super::{TEXT_BYTES_MAX, push_name, take_name, text};
use crate::kind::MessageKind;

/// The data of [`MessageKind::ANNOUNCE`]: a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Announcement {
    /// Line to write into the log.
    pub text: String,
}

impl Announcement {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.text.as_bytes().to_vec()
    }

    /// Reads the data; `None` unless it is a text.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        text(data).map(|text| Self { text })
    }
}

/// The data of [`MessageKind::CLOSE_SESSION`]: a session id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CloseSession {
    /// Id of the session to close.
    pub session_id: u64,
}

impl CloseSession {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.session_id.to_le_bytes().to_vec()
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        Some(Self { session_id: u64::from_le_bytes(data.try_into().ok()?) })
    }
}

/// The data of [`MessageKind::DONE`]: success or failure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Done {
    /// Kind of the request that was executed.
    pub request: MessageKind,
    /// Number of tree connects closed (0 for other requests), or the reason of a failure.
    pub outcome: Result<u64, String>,
}

impl Done {
    /// Returns the data: kind, success flag, and the number or the reason. A reason that is too
    /// long is cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.request.0.to_le_bytes().to_vec();
        match &self.outcome {
            Ok(count) => {
                data.push(1);
                data.extend_from_slice(&count.to_le_bytes());
            }
            Err(reason) => {
                data.push(0);
                let ends = (0..=reason.len().min(TEXT_BYTES_MAX)).rev();
                let end = ends.into_iter().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
                data.extend_from_slice(&reason.as_bytes()[..end]);
            }
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (&[k0, k1, is_done], rest) = data.split_first_chunk()?;
        let outcome = match is_done {
            0 => Err(text(rest)?),
            1 => Ok(u64::from_le_bytes(rest.try_into().ok()?)),
            _ => return None,
        };
        Some(Self { request: MessageKind(u16::from_le_bytes([k0, k1])), outcome })
    }
}

/// Purpose of a process of the server.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ProcessRole {
    /// Listens, and starts and replaces the others.
    Supervisor,
    /// Keeps the watches of directories.
    Notifyd,
    /// Checks tickets and asks the domain.
    Logond,
    /// Writes the records of audits.
    Auditd,
    /// Runs commands of shares for workers.
    Commandd,
    /// Serves the connections of a client.
    Worker,
    /// Idle, ready for a client.
    IdleWorker,
}

impl ProcessRole {
    const ALL: [Self; 7] = [
        Self::Supervisor,
        Self::Notifyd,
        Self::Worker,
        Self::IdleWorker,
        Self::Logond,
        Self::Auditd,
        Self::Commandd,
    ];

    /// Name of the role for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Supervisor => "supervisor",
            Self::Notifyd => "notifyd",
            Self::Logond => "logond",
            Self::Auditd => "auditd",
            Self::Commandd => "commandd",
            Self::Worker => "worker",
            Self::IdleWorker => "idle worker",
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Supervisor => 0,
            Self::Notifyd => 1,
            Self::Worker => 2,
            Self::IdleWorker => 3,
            Self::Logond => 4,
            Self::Auditd => 5,
            Self::Commandd => 6,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.to_byte() == byte)
    }
}

/// A process of a server, with its role.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    /// Id of the process, unique for the server's life.
    pub server_id: ServerId,
    /// Purpose of the process, as of now.
    pub role: ProcessRole,
}

/// The data of [`MessageKind::PROCESSES`]: 13 bytes each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Processes(pub Vec<Process>);

/// Highest number of processes in [`Processes`].
pub const PROCESSES_MAX: usize = 65_536;

/// Encoded size of a process in bytes.
const PROCESS_BYTES: usize = ServerId::ENCODED_LEN + 1;

impl Processes {
    /// Returns the data. Processes beyond [`PROCESSES_MAX`] are left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let processes = self.0.iter().take(PROCESSES_MAX);
        processes
            .flat_map(|it| it.server_id.to_bytes().into_iter().chain([it.role.to_byte()]))
            .collect()
    }

    /// Reads the data; `None` if it is incomplete or contains an unknown role.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        if data.len() > PROCESSES_MAX * PROCESS_BYTES || !data.len().is_multiple_of(PROCESS_BYTES) {
            return None;
        }
        let process = |bytes: &[u8]| {
            let (id, role) = bytes.split_first_chunk()?;
            let role = ProcessRole::from_byte(*role.first()?)?;
            Some(Process { server_id: ServerId::from_bytes(id), role })
        };
        data.chunks_exact(PROCESS_BYTES).map(process).collect::<Option<_>>().map(Self)
    }
}

/// The data of [`MessageKind::STATISTICS`]: the counters of [`crate::Counters::named`] by name, so
/// that processes of two versions understand each other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Statistics {
    /// Transport, by its name in `messaging type`.
    pub transport: String,
    /// Names and values of the counters.
    pub counters: Vec<(String, u64)>,
}

/// Highest number of counters in [`Statistics`].
const COUNTERS_MAX: usize = 1_024;

impl Statistics {
    /// Returns the data: the transport's name, then names and values; each name follows its length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        push_name(&mut data, &self.transport);
        for (name, value) in self.counters.iter().take(COUNTERS_MAX) {
            push_name(&mut data, name);
            data.extend_from_slice(&value.to_le_bytes());
        }
        data
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(mut data: &[u8]) -> Option<Self> {
        let transport = take_name(&mut data)?;
        let mut counters = Vec::new();
        while !data.is_empty() {
            if counters.len() == COUNTERS_MAX {
                return None;
            }
            let name = take_name(&mut data)?;
            let (value, rest) = data.split_first_chunk()?;
            counters.push((name, u64::from_le_bytes(*value)));
            data = rest;
        }
        Some(Self { transport, counters })
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{
        Announcement, CloseSession, Done, Process, ProcessRole, Processes, Statistics,
        TEXT_BYTES_MAX,
    };
    use crate::kind::MessageKind;

    #[test]
    fn an_outcome_round_trips_and_every_other_length_of_a_count_is_refused() {
        let done = Done { request: MessageKind::CLOSE_SHARE, outcome: Ok(3) };
        let mut data = done.encode();
        assert_eq!(Done::decode(&data), Some(done));
        for len in 0..data.len() {
            assert_eq!(Done::decode(&data[..len]), None, "{len}");
        }
        data.push(0);
        assert_eq!(Done::decode(&data), None);
        let failed = Done { request: MessageKind::RELOAD_CONFIG, outcome: Err("no".to_owned()) };
        assert_eq!(Done::decode(&failed.encode()), Some(failed));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let outcome = Err("ä".repeat(TEXT_BYTES_MAX));
        let data = Done { request: MessageKind::LOG_LEVEL, outcome }.encode();
        let cut = Done::decode(&data).and_then(|done| done.outcome.err());
        assert_eq!(cut, Some("ä".repeat(TEXT_BYTES_MAX / 2)));
    }

    #[test]
    fn processes_round_trip_and_an_unknown_role_is_refused() {
        let process = |pid, role| Process { server_id: ServerId { pid, unique_id: 7 }, role };
        let roles = ProcessRole::ALL.into_iter().zip(1..).map(|(role, pid)| process(pid, role));
        let processes = Processes(roles.collect());
        let mut data = processes.encode();
        assert_eq!(Processes::decode(&data), Some(processes));
        assert_eq!(Processes::decode(&data[1..]), None);
        let unknown = u8::try_from(ProcessRole::ALL.len()).expect("there are few");
        *data.last_mut().expect("one for each role") = unknown;
        assert_eq!(Processes::decode(&data), None);
    }

    #[test]
    fn statistics_round_trip_and_are_whole_or_refused() {
        let statistics = Statistics {
            transport: "dgram".to_owned(),
            counters: vec![("sent".to_owned(), 7), ("received".to_owned(), u64::MAX)],
        };
        let data = statistics.encode();
        for len in 0..data.len() {
            assert_ne!(Statistics::decode(&data[..len]).as_ref(), Some(&statistics), "{len}");
        }
        assert_eq!(Statistics::decode(&data), Some(statistics));
        assert_eq!(Statistics::decode(&[5, b'd']), None);
    }

    #[test]
    fn the_id_of_a_session_to_close_round_trips_and_other_lengths_are_refused() {
        let close = CloseSession { session_id: 0x0102_0304_0506_0708 };
        let data = close.encode();
        assert_eq!(CloseSession::decode(&data), Some(close));
        assert_eq!(CloseSession::decode(&data[1..]), None);
        assert_eq!(CloseSession::decode(&[&*data, &[0]].concat()), None);
    }

    #[test]
    fn an_announcement_is_a_text() {
        let announcement = Announcement { text: "backup begins".to_owned() };
        assert_eq!(Announcement::decode(&announcement.encode()), Some(announcement));
        assert_eq!(Announcement::decode(&[0xff]), None);
    }
}
