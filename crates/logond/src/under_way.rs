//! Questions of workers that are under way.

use std::collections::HashMap;

use dtyp::ServerId;

/// Number of the questions of each worker.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(HashMap<ServerId, u32>);

impl UnderWay {
    /// True if a worker has fewer than `max` questions.
    pub(crate) fn permits(&self, asker: ServerId, max: u32) -> bool {
        self.0.get(&asker).is_none_or(|count| *count < max)
    }

    pub(crate) fn add(&mut self, asker: ServerId) {
        *self.0.entry(asker).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, asker: ServerId) {
        if let Some(count) = self.0.get_mut(&asker) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&asker);
            }
        }
    }
}
