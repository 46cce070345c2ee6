//! Message ids that a client may use: [MS-SMB2] 3.3.1.1 and 3.3.5.2.3.

/// Reason for refusing a message id. In both cases the client has lost count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SequenceError {
    /// The id, or one that its credit charge covers, is below or above the window.
    OutsideWindow {
        /// Message id of the request.
        message_id: u64,
    },
    /// The id was used before.
    UsedTwice {
        /// Message id of the request.
        message_id: u64,
    },
}

/// `Connection.CommandSequenceWindow`.
///
/// Invariant: `first..first + span` contains every id that was granted and not yet consumed; a bit
/// in `used` marks a consumed one inside it, and the bit of `first` is never set. The window slides
/// when the lowest id is consumed, so a client that skips one id stops its own progress.
#[derive(Debug)]
pub struct CommandSequenceWindow {
    first: u64,
    span: u32,
    unused: u32,
    max: u32,
    used: Vec<u64>,
}

impl CommandSequenceWindow {
    /// Makes the window of a new connection: id 0 alone.
    ///
    /// # Panics
    /// If `max`, the largest span of the window, is zero.
    #[must_use]
    pub fn new(max: u32) -> Self {
        assert!(max > 0, "a connection needs one credit to begin");
        let words = usize::try_from(max.next_power_of_two().max(64) / 64).expect("fits memory");
        Self { first: 0, span: 1, unused: 1, max, used: vec![0; words] }
    }

    /// Consumes the ids of a request: `message_id` and the `charge - 1` after it.
    ///
    /// # Errors
    /// If the client may not use one of them. Nothing is consumed then.
    pub fn consume(&mut self, message_id: u64, charge: u16) -> Result<(), SequenceError> {
        let count = u64::from(charge.max(1));
        let outside = SequenceError::OutsideWindow { message_id };
        let offset = message_id.checked_sub(self.first).ok_or(outside)?;
        if offset.checked_add(count).is_none_or(|end| end > u64::from(self.span)) {
            return Err(outside);
        }
        if count == 1 && offset == 0 {
            // The oldest id, as a rule: its bit is not set.
            (self.first, self.span, self.unused) = (self.first + 1, self.span - 1, self.unused - 1);
            if self.unused < self.span {
                self.slide();
            }
            return Ok(());
        }
        if (message_id..message_id + count).any(|id| self.is_used(id)) {
            return Err(SequenceError::UsedTwice { message_id });
        }
        (message_id..message_id + count).for_each(|id| self.mark(id, true));
        self.unused -= u32::try_from(count).expect("inside the span");
        self.slide();
        Ok(())
    }

    /// Adds `credits` ids at the end.
    ///
    /// # Panics
    /// If the window would exceed its maximum: `qos::grant` promises that it does not.
    pub fn grant(&mut self, credits: u16) {
        self.span += u32::from(credits);
        self.unused += u32::from(credits);
        assert!(self.span <= self.max, "more credits granted than the window holds");
    }

    /// Returns the figures for `qos::grant`.
    #[must_use]
    pub fn figures(&self) -> qos::Window {
        qos::Window { unused: self.unused, span: self.span, max: self.max }
    }

    fn slide(&mut self) {
        while self.span > 0 && self.is_used(self.first) {
            self.mark(self.first, false);
            self.first += 1;
            self.span -= 1;
        }
        debug_assert!(self.unused <= self.span);
    }

    fn position(&self, id: u64) -> (usize, u64) {
        let bits = self.used.len() as u64 * 64;
        let bit = id & (bits - 1);
        (usize::try_from(bit / 64).expect("an index of `used`"), 1 << (bit % 64))
    }

    fn is_used(&self, id: u64) -> bool {
        let (word, bit) = self.position(id);
        self.used[word] & bit != 0
    }

    fn mark(&mut self, id: u64, used: bool) {
        let (word, bit) = self.position(id);
        if used { self.used[word] |= bit } else { self.used[word] &= !bit }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CommandSequenceWindow, SequenceError};

    #[test]
    fn a_connection_begins_with_id_0() {
        let mut window = CommandSequenceWindow::new(8192);
        assert_eq!(window.consume(1, 1), Err(SequenceError::OutsideWindow { message_id: 1 }));
        assert_eq!(window.consume(0, 1), Ok(()));
        assert_eq!(window.consume(0, 1), Err(SequenceError::OutsideWindow { message_id: 0 }));
    }

    #[test]
    fn an_id_is_used_once_even_while_a_lower_one_is_open() {
        let mut window = CommandSequenceWindow::new(64);
        window.grant(9);
        assert_eq!(window.consume(5, 1), Ok(()));
        assert_eq!(window.consume(5, 1), Err(SequenceError::UsedTwice { message_id: 5 }));
        assert_eq!(window.consume(4, 2), Err(SequenceError::UsedTwice { message_id: 4 }));
        assert_eq!(window.figures().span, 10);
    }

    #[test]
    fn a_charge_covers_the_ids_after_its_own() {
        let mut window = CommandSequenceWindow::new(64);
        window.grant(9);
        assert_eq!(window.consume(0, 10), Ok(()));
        assert_eq!(window.figures().unused, 0);
        window.grant(1);
        assert_eq!(window.consume(10, 2), Err(SequenceError::OutsideWindow { message_id: 10 }));
        assert_eq!(window.consume(10, 0), Ok(()));
    }

    #[test]
    fn the_largest_id_is_outside_and_not_an_overflow() {
        let mut window = CommandSequenceWindow::new(64);
        let outside = Err(SequenceError::OutsideWindow { message_id: u64::MAX });
        assert_eq!(window.consume(u64::MAX, u16::MAX), outside);
    }

    proptest! {
        /// Compares the window with a plain set of the ids that the client holds.
        #[test]
        fn agrees_with_a_set(
            steps in prop::collection::vec((0_u64..80, 0_u16..5, 0_u16..9), 1..200),
        ) {
            let mut window = CommandSequenceWindow::new(64);
            let mut held: std::collections::BTreeSet<u64> = [0].into();
            let mut next = 1_u64;
            for (id, charge, credits) in steps {
                let ids: Vec<u64> = (id..id + u64::from(charge.max(1))).collect();
                let want = ids.iter().all(|id| held.contains(id));
                prop_assert_eq!(window.consume(id, charge).is_ok(), want);
                if want { ids.iter().for_each(|id| { held.remove(id); }); }
                let granted = qos::grant(qos::Demand { credit_request: credits }, window.figures());
                window.grant(granted);
                held.extend(next..next + u64::from(granted));
                next += u64::from(granted);
                prop_assert_eq!(window.figures().unused as usize, held.len());
            }
        }
    }
}
