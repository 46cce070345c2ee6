//! What a client may keep at its side: oplocks and leases in one form.
//!
//! [MS-FSA] 2.1.5.18 speaks of oplocks of five kinds and [MS-SMB2] 2.2.13.2.8 of leases; each is a
//! set of three permissions, and a conflict takes permissions away. A batch oplock is all three, an
//! exclusive one reading and writing, a level II oplock reading alone.

use std::time::Duration;

bitflags::bitflags! {
    /// What a holder may do without asking. The bits are those of [MS-SMB2] 2.2.13.2.8.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct Caching: u8 {
        /// Keep what was read.
        const READ = 0x01;
        /// Keep the file open after the application closed it.
        const HANDLE = 0x02;
        /// Keep what is to be written.
        const WRITE = 0x04;
    }
}

impl Caching {
    /// What a batch oplock allows.
    pub const BATCH: Self = Self::all();
    /// What an exclusive oplock allows.
    pub const EXCLUSIVE: Self = Self::READ.union(Self::WRITE);

    /// What of a wish makes sense: nothing without reading.
    #[must_use]
    pub fn sensible(self) -> Self {
        if self.contains(Self::READ) { self } else { Self::empty() }
    }

    /// What an oplock of this strength is rounded down to: handles are only kept with writes.
    #[must_use]
    pub fn as_oplock(self) -> Self {
        match self.sensible() {
            it if it.contains(Self::WRITE) => it,
            it => it & Self::READ,
        }
    }
}

/// What is cached under one oplock or lease, and what is being taken away.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cache {
    /// What its holder may do.
    pub state: Caching,
    /// Set while the holder's answer to a break is awaited.
    pub breaking: Option<Breaking>,
    /// What the holder was not told yet.
    pub notice: Option<BreakNotice>,
}

/// A break that waits for its acknowledgment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Breaking {
    /// What the holder was told will be left.
    pub to: Caching,
    /// What must be left in the end. Windows takes a lease down in steps: see `Cache::settle`.
    pub required: Caching,
    /// When everything is taken, acknowledged or not. On the clock of the machine.
    pub deadline: Duration,
}

/// What the holder is to be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakNotice {
    /// What it may do until it answers.
    pub from: Caching,
    /// What will be left.
    pub to: Caching,
    /// Whether an answer is awaited.
    pub ack_required: bool,
}

/// Why an acknowledgment is refused: [MS-SMB2] 3.3.5.22.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AckError {
    /// Nothing is held under that name.
    NotHeld,
    /// No break is going on.
    NotBreaking,
    /// The holder wants to keep more than it was told.
    TooMuch,
}

impl Cache {
    /// A cache that was just granted.
    #[must_use]
    pub fn granted(state: Caching) -> Self {
        Self { state, breaking: None, notice: None }
    }

    /// Takes permissions away until `to` is left. Says whether anything changed, so that the epoch
    /// of a lease goes on.
    ///
    /// Reading alone is taken at once: nobody has to write anything back. A break that goes on
    /// already is made harder, and its holder told when it answers the first.
    pub(crate) fn start_break(&mut self, to: Caching, deadline: Duration) -> Started {
        let to = to & self.state;
        if let Some(breaking) = &mut self.breaking {
            let harder = breaking.required & to;
            let changed = breaking.required != harder;
            breaking.required = harder;
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

    /// Takes the holder's answer. What it keeps must lie within what it was told.
    ///
    /// If that is still more than what is required by now, the next step follows at once: as
    /// Windows does, what is left of reading goes last and unanswered.
    pub(crate) fn settle(&mut self, kept: Caching, deadline: Duration) -> Result<(), AckError> {
        let breaking = self.breaking.ok_or(AckError::NotBreaking)?;
        if !breaking.to.contains(kept) {
            return Err(AckError::TooMuch);
        }
        self.state = kept;
        self.breaking = None;
        if breaking.required.contains(kept) {
            return Ok(());
        }
        let mut to = breaking.required;
        let ack_required = kept.intersects(Caching::WRITE | Caching::HANDLE);
        if ack_required {
            to |= Caching::READ & kept;
            self.breaking = Some(Breaking { to, required: breaking.required, deadline });
        } else {
            self.state = to;
        }
        self.notice = Some(BreakNotice { from: kept, to, ack_required });
        Ok(())
    }

    /// The holder is back, and may not know of the break that goes on: it is told again.
    pub(crate) fn remind(&mut self) {
        if let (Some(breaking), None) = (self.breaking, self.notice) {
            let Breaking { to, .. } = breaking;
            self.notice = Some(BreakNotice { from: self.state, to, ack_required: true });
        }
    }

    /// Gives up waiting: everything is taken. Whether there was anything to wait for.
    ///
    /// A holder who was not told yet, because its worker did not come to it, still will be.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let late = self.breaking.is_some_and(|breaking| breaking.deadline <= now);
        if late {
            let to = Caching::empty();
            let untold = self.notice.map(|it| BreakNotice { to, ack_required: false, ..it });
            *self = Self { notice: untold, ..Self::default() };
        }
        late
    }
}

/// What came of the wish to break.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Started {
    /// Nothing had to be taken, or it is being taken already.
    Nothing,
    /// A break that goes on will take more.
    Harder,
    /// The holder has to be told.
    Notified,
}
