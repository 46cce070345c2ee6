//! Receivers of a message, as named on the command line.

use std::str::FromStr;

use anyhow::bail;
use messaging::{Process, ProcessRole};

use super::requester::Requester;

/// Receivers of a message, as named on the command line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Target {
    All,
    Logond,
    Notifyd,
    Pid(u32),
    Supervisor,
    Workers,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "all" => Self::All,
            "logond" => Self::Logond,
            "notifyd" => Self::Notifyd,
            "supervisor" => Self::Supervisor,
            "workers" => Self::Workers,
            _ => match text.parse() {
                Ok(pid) => Self::Pid(pid),
                Err(_) => {
                    let expected = "expected a pid, all, logond, notifyd, supervisor or workers";
                    return Err(expected.to_owned());
                }
            },
        })
    }
}

impl Target {
    /// Returns the matching processes.
    ///
    /// # Errors
    /// There is none, or the supervisor does not answer.
    pub(super) fn find(self, requester: &mut Requester) -> anyhow::Result<Vec<Process>> {
        let supervisor = requester.supervisor();
        if matches!(self, Self::Supervisor) || self == Self::Pid(supervisor.server_id.pid) {
            // The supervisor's id is known, and it may be unable to answer.
            return Ok(vec![supervisor]);
        }
        let mut processes = requester.processes()?;
        processes.retain(|process| self.means(process));
        match self {
            Self::Logond if processes.is_empty() => bail!("there is no logond at the moment"),
            Self::Notifyd if processes.is_empty() => bail!("there is no notifyd at the moment"),
            Self::Pid(pid) if processes.is_empty() => {
                bail!("no process of the server has the pid {pid}; `choro message list` names them")
            }
            _ => Ok(processes),
        }
    }

    fn means(self, process: &Process) -> bool {
        match self {
            Self::All => true,
            Self::Logond => process.role == ProcessRole::Logond,
            Self::Notifyd => process.role == ProcessRole::Notifyd,
            Self::Pid(pid) => process.server_id.pid == pid,
            Self::Supervisor => process.role == ProcessRole::Supervisor,
            Self::Workers => {
                matches!(process.role, ProcessRole::Worker | ProcessRole::IdleWorker)
            }
        }
    }
}
