//! Measurements of the two paths, for each share.

use object::RootId;

use super::probe::Probe;

/// Measurements for each share that is read from, or written to, over one connection; bounded by
/// the number of the store's roots.
#[derive(Debug, Default)]
pub(crate) struct Probes(Vec<(RootId, Probe)>);

impl Probes {
    pub(super) fn of(&mut self, root: RootId) -> &mut Probe {
        let found = self.0.iter().position(|(it, _)| *it == root);
        let index = found.unwrap_or_else(|| {
            self.0.push((root, Probe::default()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }
}
