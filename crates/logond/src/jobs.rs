//! Work of the threads, and its results.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use dtyp::{NtStatus, ServerId};
use messaging::{LogonProof, LogonVerdict};

use crate::checks::{Checked, Checker, ProvenTicket, TicketStep};
use crate::lookup::Lookup;

/// Work that one thread does at once.
#[derive(Debug)]
pub(crate) enum Job {
    /// Check a ticket, or the signature that follows one.
    Ticket {
        asker: ServerId,
        question: u64,
        proof: LogonProof,
    },
    Password(PasswordJob),
    Ids(IdsJob),
    /// Look up some more names of the domain.
    Names(Lookup),
    /// Ask the own domain for a sign of life.
    Ping,
}

/// A password to be checked by a domain.
#[derive(Debug)]
pub(crate) struct PasswordJob {
    pub(crate) number: u64,
    pub(crate) proof: LogonProof,
    /// Name of another domain than the own one.
    pub(crate) domain: Option<String>,
    pub(crate) begin: Begin,
}

/// The ids of a ticket's owner, to be asked of winbindd.
#[derive(Debug)]
pub(crate) struct IdsJob {
    pub(crate) number: u64,
    pub(crate) asker: ServerId,
    /// Name of another realm than the own one.
    pub(crate) realm: Option<String>,
    pub(crate) ticket: Box<ProvenTicket>,
    pub(crate) begin: Begin,
}

/// Start of a job, which happens once, or is prevented: a job that waits for too long is answered
/// without having begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begin(Arc<OnceLock<Option<Instant>>>);

impl Begin {
    /// Begins the job. False if that was prevented.
    pub(crate) fn begin(&self, now: Instant) -> bool {
        self.0.set(Some(now)).is_ok()
    }

    /// Prevents the job, unless it has begun: then returns the time of that.
    pub(crate) fn prevent(&self) -> Option<Instant> {
        *self.0.get_or_init(|| None)
    }

    /// Returns the time at which the job has begun.
    pub(crate) fn begun(&self) -> Option<Instant> {
        self.0.get().copied().flatten()
    }
}

/// Result of a job, in the mailbox of the threads.
#[derive(Debug)]
pub(crate) enum Done {
    Ticket {
        asker: ServerId,
        question: u64,
        verdict: LogonVerdict,
    },
    /// A valid ticket whose owner's ids are to be found.
    Proven {
        asker: ServerId,
        question: u64,
        ticket: Box<ProvenTicket>,
    },
    /// The ids of a ticket's owner; without a result if the job was prevented.
    Ids {
        number: u64,
        realm: Option<String>,
        verdict: Option<LogonVerdict>,
    },
    /// A password; without a result if the job was prevented.
    Password {
        number: u64,
        domain: Option<String>,
        checked: Option<Checked>,
    },
    /// Names of the domain, all of them or those of one turn.
    Names(Lookup),
    Pinged(bool),
}

/// An answer for a worker.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) asker: ServerId,
    pub(crate) question: u64,
    pub(crate) verdict: LogonVerdict,
}

impl Answer {
    pub(crate) fn refused(asker: ServerId, question: u64, status: NtStatus) -> Self {
        Self { asker, question, verdict: LogonVerdict::Refused(status) }
    }
}

impl Job {
    /// Returns the number of a job that has one: of a password, or of ids.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Password(job) => Some(job.number),
            Self::Ids(job) => Some(job.number),
            Self::Ticket { .. } | Self::Names(_) | Self::Ping => None,
        }
    }

    pub(crate) fn run(self, checker: &mut Checker) -> Done {
        match self {
            Self::Ticket { asker, question, proof } => match checker.check_ticket(asker, proof) {
                TicketStep::Answered(verdict) => Done::Ticket { asker, question, verdict },
                TicketStep::NeedsIds(ticket) => Done::Proven { asker, question, ticket },
            },
            Self::Ids(IdsJob { number, asker, realm, ticket, begin }) => {
                let begun = begin.begin(Instant::now());
                let verdict = begun.then(|| checker.find_ids(asker, *ticket));
                Done::Ids { number, realm, verdict }
            }
            Self::Password(PasswordJob { number, proof, domain, begin }) => {
                let checked = begin.begin(Instant::now()).then(|| checker.check_password(&proof));
                Done::Password { number, domain, checked }
            }
            Self::Names(mut lookup) => {
                checker.find_names(&mut lookup);
                Done::Names(lookup)
            }
            Self::Ping => Done::Pinged(checker.ping()),
        }
    }
}
