//! Requests that wait for their responses.

/// Names one of the jobs that share a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Slot(pub usize);

/// The requests in flight: message id and the slot that waits for the answer.
///
/// A list, because there are never more than a few dozen, and servers mostly answer the oldest
/// first.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    waiting: Vec<(u64, Slot)>,
}

impl Outstanding {
    /// Adds a request that was sent.
    pub(super) fn insert(&mut self, message_id: u64, slot: Slot) {
        self.waiting.push((message_id, slot));
    }

    /// A request was answered; nothing when there is no such request.
    pub(super) fn take(&mut self, message_id: u64) -> Option<Slot> {
        let at = self.waiting.iter().position(|(waiting, _)| *waiting == message_id)?;
        Some(self.waiting.remove(at).1)
    }

    /// The request that was sent first was answered.
    pub(super) fn take_oldest(&mut self) {
        if !self.waiting.is_empty() {
            self.waiting.remove(0);
        }
    }

    /// Whether an answer to this request is awaited.
    pub(super) fn contains(&self, message_id: u64) -> bool {
        self.waiting.iter().any(|(waiting, _)| *waiting == message_id)
    }

    /// Number of responses that are pending.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Outstanding, Slot};

    #[test]
    fn answers_find_their_slot_in_any_order_and_only_once() {
        let mut outstanding = Outstanding::default();
        for (message_id, slot) in [(7, 0), (8, 1), (24, 2), (25, 0)] {
            outstanding.insert(message_id, Slot(slot));
        }
        assert!(outstanding.contains(24));
        assert_eq!(outstanding.take(24), Some(Slot(2)));
        assert_eq!(outstanding.take(7), Some(Slot(0)));
        assert_eq!(outstanding.take(25), Some(Slot(0)));
        assert_eq!(outstanding.take(7), None, "it was answered");
        assert_eq!(outstanding.take(9), None, "it was never sent");
        assert_eq!(outstanding.len(), 1);
        assert!(outstanding.contains(8) && !outstanding.contains(24));
    }
}
