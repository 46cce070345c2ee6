//! The counts that a rule's findings must not rise above, until the goal is reached.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::place::Findings;
use crate::rule::{Goal, Measured, Rule};

/// Highest count of a rule for one crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// No worse than so many places of so many.
    Kept {
        /// The count when the ceiling was written.
        count: usize,
        /// The number of things checked then.
        of: usize,
    },
    /// The goal was reached once, and holds from then on.
    Goal,
}

impl Ceiling {
    /// Whether these findings are under the ceiling. A count that has not risen always is, also if
    /// good code was removed and the share of faults is higher than before.
    #[must_use]
    pub fn allows(self, goal: Goal, findings: &Findings) -> bool {
        let Self::Kept { count, of } = self else { return goal.is_reached(findings) };
        let fits = match goal {
            Goal::None => false,
            Goal::NoneOfOld => findings.good() >= of.saturating_sub(count),
            Goal::Percent(_) => findings.count * of <= count * findings.of,
        };
        fits || findings.count <= count || goal.is_reached(findings)
    }

    fn count(self) -> usize {
        match self {
            Self::Kept { count, .. } => count,
            Self::Goal => 0,
        }
    }

    fn of(goal: Goal, findings: &Findings) -> Self {
        if goal.is_reached(findings) {
            return Self::Goal;
        }
        Self::Kept { count: findings.count, of: findings.of }
    }

    /// The lower one of a ceiling and the findings of today.
    fn lowered(self, goal: Goal, findings: &Findings) -> Self {
        let now = Self::of(goal, findings);
        let Self::Kept { count, of } = self else { return self };
        if now == Self::Goal {
            return now;
        }
        let is_lower = match goal {
            Goal::None => findings.count < count,
            Goal::NoneOfOld => {
                findings.count < count || findings.count == count && findings.of > of
            }
            Goal::Percent(_) => {
                findings.count <= count && findings.count * of <= count * findings.of
            }
        };
        if is_lower { now } else { self }
    }
}

/// The ceilings of all rules and subjects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    kept: BTreeMap<(String, String), Ceiling>,
}

const HEADER: &str = "\
# Ceilings of the rules that `make lint` checks: rule, crate, count, number of things checked.
# `make lint KEEP=1` lowers them to the counts of now. Where the goal is reached, it stays reached.
";

impl Ceilings {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// If a line is not as [`Ceilings::to_text`] writes it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut kept = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let bad = || format!("line {number} of the ceilings is no row of four: {line:?}");
            let fields: Vec<&str> = line.split('\t').collect();
            let (rule, subject, ceiling) = match *fields {
                [rule, subject, "goal"] => (rule, subject, Ceiling::Goal),
                [rule, subject, count, of] => {
                    let number = |field: &str| field.parse().map_err(|_| bad());
                    (rule, subject, Ceiling::Kept { count: number(count)?, of: number(of)? })
                }
                _ => return Err(bad()),
            };
            kept.insert((rule.to_owned(), subject.to_owned()), ceiling);
        }
        Ok(Self { kept })
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = HEADER.to_owned();
        for ((rule, subject), ceiling) in &self.kept {
            let row = match ceiling {
                Ceiling::Kept { count, of } => format!("{count}\t{of}"),
                Ceiling::Goal => "goal".to_owned(),
            };
            let _ = writeln!(text, "{rule}\t{subject}\t{row}");
        }
        text
    }

    /// The ceiling of a rule for a crate. A crate without one must reach the goal at once.
    #[must_use]
    pub fn of(&self, rule: &Rule, subject: &str) -> Ceiling {
        let key = (rule.name.to_owned(), subject.to_owned());
        self.kept.get(&key).copied().unwrap_or(Ceiling::Goal)
    }

    /// Lowers the ceilings of a rule to what was measured. A new crate gets one too, if all crates
    /// together break the rule no more often than before: code may move. A crate that is gone loses
    /// its own.
    pub fn lower(&mut self, rule: &Rule, measured: &[Measured]) {
        let goal = rule.goal;
        let own = |key: &(String, String)| key.0 == rule.name;
        let rows = self.kept.iter().filter(|(key, _)| own(key));
        let (rows, before) = rows.fold((0, 0), |sum, row| (sum.0 + 1, sum.1 + row.1.count()));
        let now: usize = measured.iter().map(|one| Ceiling::of(goal, &one.findings).count()).sum();
        let takes_new = rows == 0 || now <= before;
        let mut lowered = BTreeMap::new();
        for Measured { subject, findings } in measured {
            let key = (rule.name.to_owned(), subject.clone());
            let new = || takes_new.then(|| Ceiling::of(goal, findings));
            let ceiling = self.kept.get(&key).map(|kept| kept.lowered(goal, findings)).or_else(new);
            lowered.extend(ceiling.map(|ceiling| (key, ceiling)));
        }
        self.kept.retain(|key, _| !own(key));
        self.kept.extend(lowered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{relative_openers, width};

    const WIDTH: &Rule = &width::RULE;
    const OPENERS: &Rule = &relative_openers::RULE;

    fn findings(count: usize, of: usize) -> Findings {
        Findings { count, of, places: Vec::new() }
    }

    fn measured(rows: &[(&str, usize)]) -> Vec<Measured> {
        let one = |&(subject, count): &(&str, usize)| Measured {
            subject: subject.to_owned(),
            findings: findings(count, 100),
        };
        rows.iter().map(one).collect()
    }

    fn kept(rows: &[(&str, usize)]) -> Ceilings {
        let mut ceilings = Ceilings::default();
        ceilings.lower(WIDTH, &measured(rows));
        ceilings
    }

    #[test]
    fn a_count_above_its_ceiling_is_not_allowed() {
        let ceiling = Ceiling::Kept { count: 5, of: 100 };
        assert!(ceiling.allows(Goal::None, &findings(5, 50)));
        assert!(!ceiling.allows(Goal::None, &findings(6, 900)));
    }

    #[test]
    fn a_share_is_allowed_if_it_or_its_count_did_not_rise() {
        let ceiling = Ceiling::Kept { count: 10, of: 100 };
        let goal = Goal::Percent(3);
        assert!(ceiling.allows(goal, &findings(11, 110)), "ten good ones for a bad one");
        assert!(ceiling.allows(goal, &findings(10, 90)), "ten good ones were removed");
        assert!(!ceiling.allows(goal, &findings(11, 105)));
    }

    #[test]
    fn a_new_file_may_join_a_circle_and_an_old_one_may_not() {
        let ceiling = Ceiling::Kept { count: 40, of: 90 };
        let goal = Goal::NoneOfOld;
        assert!(ceiling.allows(goal, &findings(41, 91)), "a new file is as tied as its neighbours");
        assert!(ceiling.allows(goal, &findings(40, 80)), "free files were removed");
        assert!(!ceiling.allows(goal, &findings(41, 90)), "a free file was tied");
        assert_eq!(ceiling.lowered(goal, &findings(41, 91)), ceiling);
        let lower = Ceiling::Kept { count: 39, of: 90 };
        assert_eq!(ceiling.lowered(goal, &findings(39, 90)), lower);
    }

    #[test]
    fn a_goal_that_was_reached_stays() {
        assert!(!Ceiling::Goal.allows(Goal::None, &findings(1, 100)));
        assert!(!Ceiling::Goal.allows(Goal::Percent(3), &findings(4, 100)));
        assert!(Ceiling::Goal.allows(Goal::Percent(3), &findings(3, 100)));
        let mut ceilings = kept(&[("a", 0)]);
        ceilings.lower(WIDTH, &measured(&[("a", 7)]));
        assert_eq!(ceilings.of(WIDTH, "a"), Ceiling::Goal);
    }

    #[test]
    fn ceilings_are_lowered_and_never_raised() {
        let mut ceilings = kept(&[("a", 5), ("b", 5)]);
        ceilings.lower(WIDTH, &measured(&[("a", 4), ("b", 6)]));
        assert_eq!(ceilings, kept(&[("a", 4), ("b", 5)]));
    }

    #[test]
    fn a_share_is_lowered_only_if_the_count_is_not_higher() {
        let ceiling = Ceiling::Kept { count: 10, of: 100 };
        let goal = Goal::Percent(3);
        assert_eq!(ceiling.lowered(goal, &findings(9, 80)), ceiling);
        let lower = Ceiling::Kept { count: 9, of: 100 };
        assert_eq!(ceiling.lowered(goal, &findings(9, 100)), lower);
        assert_eq!(ceiling.lowered(goal, &findings(3, 100)), Ceiling::Goal);
    }

    #[test]
    fn a_new_crate_takes_the_count_another_one_lost() {
        let mut ceilings = kept(&[("a", 5)]);
        ceilings.lower(WIDTH, &measured(&[("a", 3), ("b", 2)]));
        assert_eq!(ceilings, kept(&[("a", 3), ("b", 2)]));
    }

    #[test]
    fn a_new_crate_gets_no_ceiling_for_new_faults() {
        let mut ceilings = kept(&[("a", 5)]);
        ceilings.lower(WIDTH, &measured(&[("a", 5), ("b", 2)]));
        assert_eq!(ceilings.of(WIDTH, "b"), Ceiling::Goal);
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let mut ceilings = kept(&[("a", 5), ("b", 0)]);
        ceilings.lower(OPENERS, &measured(&[("a", 50)]));
        assert_eq!(Ceilings::parse(&ceilings.to_text()), Ok(ceilings));
        Ceilings::parse("width\ta\tmany\t1\n").unwrap_err();
        Ceilings::parse("width\ta\n").unwrap_err();
    }
}
