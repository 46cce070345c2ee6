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
        if message_id != self.first || charge > 1 || self.span == 0 {
            return self.consume_other(message_id, charge);
        }
        // The oldest id, as a rule: its bit is not set.
        (self.first, self.span, self.unused) = (self.first + 1, self.span - 1, self.unused - 1);
        if self.unused < self.span {
            self.slide();
        }
        Ok(())
    }

    fn consume_other(&mut self, message_id: u64, charge: u16) -> Result<(), SequenceError> {
        let count = u64::from(charge.max(1));
        let outside = SequenceError::OutsideWindow { message_id };
        let offset = message_id.checked_sub(self.first).ok_or(outside)?;
        if offset.checked_add(count).is_none_or(|end| end > u64::from(self.span)) {
            return Err(outside);
        }
        if (message_id..message_id + count).any(|id| self.is_used(id)) {
            return Err(SequenceError::UsedTwice { message_id });
        }
        (message_id..message_id + count).for_each(|id| self.mark(id, true));
        self.unused -= u32::try_from(count).expect("inside the span");
        self.slide();
        Ok(())
    }

    /// True if the client has used all of its credits: it can send nothing until it has another.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.unused == 0
    }

    /// Grants credits with a response, of as many as its request asks for: [MS-SMB2] 3.3.1.2 and
    /// 3.3.4.1.2. Returns their number.
    ///
    /// The span never grows beyond its maximum, and a client is never left without any credit,
    /// because it could never ask for more. A client with more ids than `limit` gets none, or one
    /// if it has used all of them.
    ///
    /// # Panics
    /// If the client would be left without any credit.
    pub fn grant(&mut self, credit_request: u16, limit: Option<u32>) -> u16 {
        let has_used_all = u32::from(self.is_used_up());
        let least = self.span + has_used_all;
        let max = self.max.min(limit.map_or(self.max, |limit| limit.max(least)));
        let room = max.saturating_sub(self.span);
        // A request for zero credits asks to keep the present number; it consumes a credit of its
        // own, so the last one is granted again.
        let wanted = u32::from(credit_request).max(has_used_all);
        let granted = u16::try_from(wanted.min(room)).unwrap_or(u16::MAX);
        self.span += u32::from(granted);
        self.unused += u32::from(granted);
        assert!(self.unused > 0, "the client is stranded");
        granted
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
        assert_eq!(window.grant(9, None), 9);
        assert_eq!(window.consume(5, 1), Ok(()));
        assert_eq!(window.consume(5, 1), Err(SequenceError::UsedTwice { message_id: 5 }));
        assert_eq!(window.consume(4, 2), Err(SequenceError::UsedTwice { message_id: 4 }));
        assert_eq!(window.span, 10);
    }

    #[test]
    fn a_charge_covers_the_ids_after_its_own() {
        let mut window = CommandSequenceWindow::new(64);
        assert_eq!(window.grant(9, None), 9);
        assert_eq!(window.consume(0, 10), Ok(()));
        assert_eq!(window.unused, 0);
        assert_eq!(window.grant(1, None), 1);
        assert_eq!(window.consume(10, 2), Err(SequenceError::OutsideWindow { message_id: 10 }));
        assert_eq!(window.consume(10, 0), Ok(()));
    }

    #[test]
    fn the_largest_id_is_outside_and_not_an_overflow() {
        let mut window = CommandSequenceWindow::new(64);
        let outside = Err(SequenceError::OutsideWindow { message_id: u64::MAX });
        assert_eq!(window.consume(u64::MAX, u16::MAX), outside);
    }

    /// A window of at most 512 ids.
    fn window(unused: u32, span: u32) -> CommandSequenceWindow {
        CommandSequenceWindow { unused, span, ..CommandSequenceWindow::new(512) }
    }

    #[track_caller]
    fn check(credit_request: u16, unused: u32, span: u32, want: u16) {
        assert_eq!(window(unused, span).grant(credit_request, None), want);
    }

    #[test]
    fn requested_credits_are_granted_while_there_is_room() {
        check(33, 10, 10, 33);
        check(u16::MAX, 0, 0, 512);
        check(10, 505, 505, 7);
    }

    #[test]
    fn a_client_with_nothing_left_gets_one() {
        check(0, 0, 0, 1);
        check(0, 1, 1, 0);
    }

    #[test]
    fn a_client_above_its_limit_gets_nothing_until_it_is_below() {
        let of = |unused, span| window(unused, span).grant(100, Some(64));
        assert_eq!(of(10, 10), 54);
        assert_eq!(of(200, 200), 0);
        assert_eq!(of(0, 200), 1);
        assert_eq!(of(0, 0), 64);
    }

    proptest! {
        #[test]
        fn promises_hold(
            credit_request: u16,
            unused in 0_u32..600,
            holes in 0_u32..600,
            max in 1_u32..9000,
        ) {
            let span = if unused == 0 { 0 } else { unused + holes };
            let window = CommandSequenceWindow::new(max);
            let mut window = CommandSequenceWindow { unused, span, ..window };
            let granted = u32::from(window.grant(credit_request, None));
            prop_assert!(span + granted <= max.max(span));
            prop_assert!(unused + granted > 0);
        }

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
                let granted = window.grant(credits, None);
                held.extend(next..next + u64::from(granted));
                next += u64::from(granted);
                prop_assert_eq!(window.unused as usize, held.len());
            }
        }
    }
}
