//! Caching by clients: oplocks and leases in one form.
//!
//! [MS-FSA] 2.1.5.18 defines oplocks of five kinds and [MS-SMB2] 2.2.13.2.8 leases; each is a set
//! of three permissions, and a conflict removes permissions. A batch oplock has all three, an
//! exclusive one reading and writing, a level II oplock reading alone.

use std::time::Duration;

bitflags::bitflags! {
    /// Rights of a holder. The bits are those of [MS-SMB2] 2.2.13.2.8.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct Caching: u8 {
        /// Cache data that was read.
        const READ = 0x01;
        /// Keep the file open after the application has closed it.
        const HANDLE = 0x02;
        /// Cache data to be written.
        const WRITE = 0x04;
    }
}

impl Caching {
    /// Rights of a batch oplock: all three.
    pub const BATCH: Self = Self::all();
    /// Rights of an exclusive oplock: reading and writing.
    pub const EXCLUSIVE: Self = Self::READ.union(Self::WRITE);

    /// Returns the valid part of requested rights: none without reading.
    #[must_use]
    pub fn sensible(self) -> Self {
        if self.contains(Self::READ) { self } else { Self::empty() }
    }

    /// Rounds rights down to those of an oplock: handles are cached only together with writes.
    #[must_use]
    pub fn as_oplock(self) -> Self {
        match self.sensible() {
            it if it.contains(Self::WRITE) => it,
            it => it & Self::READ,
        }
    }
}

/// Rights of an oplock or lease, and the state of its break.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cache {
    /// Rights of the holder now: during a break with waiting requests, those before the break.
    pub state: Caching,
    /// Break that waits for the holder's acknowledgment.
    pub breaking: Option<Breaking>,
    /// Break notification not sent yet.
    pub notice: Option<BreakNotice>,
}

/// A break that waits for its acknowledgment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Breaking {
    /// Rights left after it, as sent to the holder.
    pub to: Caching,
    /// Rights left in the end. Like Windows, the server breaks a lease in steps: see
    /// `Cache::settle`.
    pub required: Caching,
    /// Time at which all rights are removed without an acknowledgment. On the clock of the machine.
    pub deadline: Duration,
}

/// Contents of a break notification.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakNotice {
    /// Rights until the holder's acknowledgment.
    pub from: Caching,
    /// Rights after the holder's acknowledgment.
    pub to: Caching,
    /// True if an acknowledgment is required.
    pub ack_required: bool,
}

/// Reason why an acknowledgment is refused: [MS-SMB2] 3.3.5.22.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AckError {
    /// The client holds no such oplock or lease.
    NotHeld,
    /// No break is in progress.
    NotBreaking,
    /// The client claims more rights than the break leaves.
    TooMuch,
}

impl Cache {
    /// Creates a cache with newly granted rights.
    #[must_use]
    pub fn granted(state: Caching) -> Self {
        Self { state, breaking: None, notice: None }
    }

    /// True during a break with its rights removed before the acknowledgment.
    #[must_use]
    pub fn is_reduced(&self) -> bool {
        self.breaking.is_some_and(|it| it.required == self.state)
    }

    /// Breaks the rights down to `to`. Returns whether anything changed, so that a lease's epoch
    /// advances.
    ///
    /// Reading alone is removed at once, because no data have to be written back. A break in
    /// progress is extended, and its holder notified after the first acknowledgment.
    pub(crate) fn start_break(&mut self, to: Caching, deadline: Duration) -> Started {
        let to = to & self.state;
        if let Some(breaking) = &mut self.breaking {
            let harder = breaking.required & to;
            let changed = breaking.required != harder;
            breaking.required = harder;
            breaking.deadline = breaking.deadline.min(deadline);
            return if changed { Started::Harder } else { Started::Nothing };
        }
        if self.state == to {
            return Started::Nothing;
        }
        let from = self.state;
        let ack_required = from != Caching::READ;
        if ack_required {
            self.breaking = Some(Breaking { to, required: to, deadline });
        } else {
            self.state = to;
        }
        self.notice = Some(BreakNotice { from, to, ack_required });
        Started::Notified
    }

    /// Breaks the rights down to `to`, as [`Cache::start_break`], and removes them at once: nobody
    /// waits for the acknowledgment, which is required all the same.
    pub(crate) fn start_break_at_once(&mut self, to: Caching, deadline: Duration) -> Started {
        let started = self.start_break(to, deadline);
        self.state &= to;
        if let (Some(breaking), Some(unsent)) = (&mut self.breaking, &mut self.notice) {
            breaking.to &= to;
            unsent.to = breaking.to;
        }
        started
    }

    /// Handles an acknowledgment. The rights that it claims must lie within the break.
    ///
    /// If they exceed the final rights by now, the next step follows at once: like Windows, the
    /// server removes reading last and without an acknowledgment. Rights that were removed before
    /// the acknowledgment do not come back by it, and have no such step.
    pub(crate) fn settle(&mut self, kept: Caching, deadline: Duration) -> Result<(), AckError> {
        let breaking = self.breaking.ok_or(AckError::NotBreaking)?;
        if !breaking.to.contains(kept) {
            return Err(AckError::TooMuch);
        }
        let is_removed = self.is_reduced();
        self.state &= kept;
        self.breaking = None;
        if breaking.required.contains(kept) {
            return Ok(());
        }
        let mut to = breaking.required;
        let ack_required = kept.intersects(Caching::WRITE | Caching::HANDLE);
        if ack_required {
            if !is_removed {
                to |= Caching::READ & kept;
            }
            self.breaking = Some(Breaking { to, required: breaking.required, deadline });
        } else {
            self.state &= to;
        }
        self.notice = Some(BreakNotice { from: kept, to, ack_required });
        Ok(())
    }

    /// Repeats the notification of a pending break for a holder that has reconnected.
    ///
    /// The response on its return has the rights that are left. If they were removed before the
    /// acknowledgment, the break ends, or goes on from there.
    pub(crate) fn notify_again(&mut self) {
        if self.end_if_reduced() {
            return;
        }
        let Some(breaking) = &mut self.breaking else { return };
        if breaking.to == self.state || !self.state.contains(breaking.to) {
            breaking.to = breaking.required;
            self.notice = None;
        }
        let (from, to) = (self.state, breaking.to);
        self.notice.get_or_insert(BreakNotice { from, to, ack_required: true });
    }

    /// Ends a break whose rights are removed already, since a response states those that are left.
    /// Returns true if there was one.
    pub(crate) fn end_if_reduced(&mut self) -> bool {
        let is_reduced = self.is_reduced();
        if is_reduced {
            *self = Self::granted(self.state);
        }
        is_reduced
    }

    /// Ends a pending break at its deadline: removes all rights. Returns true if one has expired.
    ///
    /// A notification that the worker has not sent yet is still sent.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let late = self.breaking.is_some_and(|breaking| breaking.deadline <= now);
        if late {
            let to = Caching::empty();
            let unsent = self.notice.map(|it| BreakNotice { to, ack_required: false, ..it });
            *self = Self { notice: unsent, ..Self::default() };
        }
        late
    }
}

/// Result of starting a break.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Started {
    /// No change: no right has to be removed, or a break already does it.
    Nothing,
    /// A break in progress will remove more rights.
    Harder,
    /// The holder has to be notified.
    Notified,
}
