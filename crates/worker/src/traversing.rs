//! Questions of watches whether their users may list the directories of changes. Changes deep below
//! a watched directory make many at once, so the worker serves everything else in between.

use std::collections::VecDeque;

use proto::traversals::Traversal;

/// Highest number of questions in one turn of the loop.
pub(super) const TRAVERSALS_PER_TURN: usize = 16;

/// Questions that wait for a later turn, in order: no more than one for each watch.
#[derive(Debug, Default)]
pub(super) struct Traversing(VecDeque<Box<Traversal>>);

impl Traversing {
    /// True if no question waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a question for the end of this turn, or later.
    pub(super) fn keep(&mut self, traversal: Box<Traversal>) {
        self.0.push_back(traversal);
    }

    /// Takes the question that has waited longest.
    pub(super) fn take(&mut self) -> Option<Box<Traversal>> {
        self.0.pop_front()
    }
}
