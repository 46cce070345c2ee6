//! Groups of files that import each other in a circle.

use std::collections::{BTreeSet, VecDeque};

use crate::imports::Import;

/// The files that lie on a circle of imports, and those imports that keep them there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    /// Files on a circle, each once.
    pub files: BTreeSet<usize>,
    /// The imports inside circles, each with the shortest circle it closes: its file, the imported
    /// one, …, its file again.
    pub imports: Vec<(Import, Vec<usize>)>,
}

/// Finds all circles of imports.
#[must_use]
pub fn of(imports: &[Import]) -> Cycles {
    let mut cycles = Cycles::default();
    for import in imports {
        if let Some(back) = shortest_way(imports, import.to, import.from) {
            cycles.files.insert(import.from);
            cycles.files.insert(import.to);
            let circle = [import.from].into_iter().chain(back).collect();
            cycles.imports.push((import.clone(), circle));
        }
    }
    cycles
}

/// The files on the way from one to another, both included.
fn shortest_way(imports: &[Import], from: usize, to: usize) -> Option<Vec<usize>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop_front() {
        let here = *way.last()?;
        if here == to {
            return Some(way);
        }
        for import in imports.iter().filter(|import| import.from == here) {
            if seen.insert(import.to) {
                ways.push_back(way.iter().copied().chain([import.to]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(pairs: &[(usize, usize)]) -> Vec<Import> {
        pairs.iter().map(|&(from, to)| Import { from, to, line: 1, path: String::new() }).collect()
    }

    #[test]
    fn a_tree_has_no_cycle() {
        assert_eq!(of(&imports(&[(0, 1), (0, 2), (1, 2)])), Cycles::default());
    }

    #[test]
    fn each_import_of_a_cycle_has_its_shortest_circle() {
        let found = of(&imports(&[(0, 1), (1, 2), (2, 0), (1, 0), (3, 0)]));
        assert_eq!(found.files, BTreeSet::from([0, 1, 2]));
        let circles: Vec<&[usize]> = found.imports.iter().map(|(_, circle)| &**circle).collect();
        assert_eq!(circles, [&[0, 1, 0][..], &[1, 2, 0, 1], &[2, 0, 1, 2], &[1, 0, 1]]);
    }
}
