//! Places that break a rule, and their number.

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Path from the root of the repository, or a commit.
    pub path: String,
    /// First line, from 1; 0 if there is none.
    pub line: usize,
    /// Last line, for a place of several lines.
    pub last: usize,
    /// Text that a complaint shows, such as the sentence.
    pub text: String,
    /// Severity: a complaint shows higher values first.
    pub weight: usize,
}

/// The places of one crate that break one rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number to compare with the ceiling. Several places may explain one.
    pub count: usize,
    /// Number of things checked, good and bad.
    pub of: usize,
    /// Places that a complaint may show.
    pub places: Vec<Place>,
}

impl Findings {
    /// Number of things without a fault.
    #[must_use]
    pub fn good(&self) -> usize {
        self.of.saturating_sub(self.count)
    }

    /// Findings in which each place counts once.
    #[must_use]
    pub fn each(places: Vec<Place>, of: usize) -> Self {
        Self { count: places.len(), of, places }
    }
}
