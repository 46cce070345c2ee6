//! A rule: goal, measurement, explanation.

use std::path::Path;

use crate::place::Findings;
use crate::workspace::Crate;

/// The count or share that a crate is to reach in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Not a single place breaks the rule.
    None,
    /// Not a single place in the end. Until then, new code may be as bad as old code: the count may
    /// rise as long as the number of good things does not fall.
    NoneOfOld,
    /// At most this share of all things checked.
    Percent(usize),
}

impl Goal {
    /// Whether these findings reach the goal.
    #[must_use]
    pub fn is_reached(self, findings: &Findings) -> bool {
        match self {
            Self::None | Self::NoneOfOld => findings.count == 0,
            Self::Percent(percent) => findings.count * 100 <= percent * findings.of,
        }
    }
}

/// Findings of one subject: a crate, or the commits.
#[derive(Debug)]
pub struct Measured {
    /// Name of the crate, or `commits`.
    pub subject: String,
    /// Number and places of faults.
    pub findings: Findings,
}

/// A rule of the house.
#[derive(Debug)]
pub struct Rule {
    /// Name in complaints and in the ceilings file.
    pub name: &'static str,
    /// The rule in one sentence.
    pub demand: &'static str,
    /// Reason that a complaint gives.
    pub reason: &'static str,
    /// Advice for the author of a fault.
    pub remedy: &'static str,
    /// A bad form, and a better one.
    pub example: (&'static str, &'static str),
    /// The unit of its count, such as `comment blocks`.
    pub unit: &'static str,
    /// Count or share to reach in the end.
    pub goal: Goal,
    /// Measures every subject of the rule.
    pub measure: fn(&Tree<'_>) -> Result<Vec<Measured>, String>,
}

/// Everything that a rule may look at.
#[derive(Debug)]
pub struct Tree<'t> {
    /// The folder of the repository.
    pub root: &'t Path,
    /// Crates with their parsed files.
    pub crates: &'t [Crate],
}

impl Tree<'_> {
    /// Measures each crate by itself.
    pub(crate) fn each_crate(&self, measure: fn(&Crate) -> Findings) -> Vec<Measured> {
        let crates = self.crates.iter();
        crates.map(|one| Measured { subject: one.name.clone(), findings: measure(one) }).collect()
    }
}
