//! Questions of watches whether their users may list the directories of changes. Changes deep below
//! a watched directory make many at once, so the worker serves everything else in between.

use std::collections::VecDeque;

use proto::traversals::Traversal;

use super::event_loop::Worker;

/// Highest number of questions in one turn of the loop.
const TRAVERSALS_PER_TURN: usize = 16;

/// Questions that wait for a later turn, in order: no more than one for each watch.
#[derive(Debug, Default)]
pub(super) struct Traversing(VecDeque<Box<Traversal>>);

impl Traversing {
    /// True if no question waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a question for [`Worker::continue_traversing`].
    pub(super) fn keep(&mut self, traversal: Box<Traversal>) {
        self.0.push_back(traversal);
    }
}

impl Worker {
    /// Asks the store the next questions; answers may lead to further ones.
    pub(super) fn continue_traversing(&mut self) {
        for _ in 0..TRAVERSALS_PER_TURN {
            let Some(traversal) = self.traversing.0.pop_front() else { return };
            self.traverse(*traversal);
            self.serve_effects();
        }
    }

    fn traverse(&mut self, traversal: Traversal) {
        self.run_in(Ok(traversal.root.store()), move |store| {
            let Traversal { user, root, directory, .. } = &traversal;
            let may = store.ok().and_then(|store| store.may_list(*user, *root, directory));
            Box::new(move |worker| {
                let now = worker.now();
                worker.server.handle_traversed(now, &traversal, may);
            })
        });
    }
}
