//! Report of unexpected results: by suite, and in each suite by failure, because one fault often
//! fails many tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::expectations::{Difference, Expectations};
use super::suite_of;
use super::verdict::{Outcome, Verdict};

/// Tests that are named for one fault; of more, only the number is shown.
const NAMES_SHOWN: usize = 12;

/// The differences as text, empty if there are none.
pub fn differences(differences: &[Difference]) -> String {
    let mut suites: BTreeMap<&str, BTreeMap<(String, &str), Vec<&Difference>>> = BTreeMap::new();
    for difference in differences {
        let expected =
            difference.expected.map_or_else(|| "not listed".to_owned(), |v| v.to_string());
        let change = format!("{expected} -> {}", difference.outcome.verdict);
        let fault = (change, first_line(&difference.outcome));
        let faults = suites.entry(suite_of(&difference.test)).or_default();
        faults.entry(fault).or_default().push(difference);
    }
    let mut text = String::new();
    for (suite, faults) in suites {
        let count: usize = faults.values().map(Vec::len).sum();
        line(&mut text, &format!("{suite}: {count} not as expected"));
        for ((change, fault), tests) in faults {
            line(&mut text, &format!("  {change}: {fault}"));
            let names = tests.iter().take(NAMES_SHOWN).map(|difference| name(difference));
            let mut names: Vec<String> = names.collect();
            if tests.len() > NAMES_SHOWN {
                names.push(format!("and {} more", tests.len() - NAMES_SHOWN));
            }
            line(&mut text, &format!("    {}", names.join(", ")));
        }
    }
    text
}

/// Returns the number of passed tests, and the comparison with Samba.
pub fn summary(expectations: &Expectations, results: &BTreeMap<String, Outcome>) -> String {
    let count = |wanted| results.values().filter(|outcome| outcome.verdict == wanted).count();
    let compared = |ours: bool| {
        let differ = results.iter().filter(|(test, outcome)| {
            let samba = expectations.samba(test) == Verdict::Pass;
            (outcome.verdict == Verdict::Pass) == ours && samba != ours
        });
        differ.count()
    };
    format!(
        "{} pass, {} fail, {} are skipped; {} of them pass with Samba only, {} here only",
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::Skip),
        compared(false),
        compared(true)
    )
}

/// Tests that did not get the same verdict in each of several runs, with how often which.
pub fn flicker(runs: &[BTreeMap<String, Outcome>]) -> String {
    let mut verdicts: BTreeMap<&str, BTreeMap<Verdict, (usize, &str)>> = BTreeMap::new();
    for (test, outcome) in runs.iter().flatten() {
        let counts = verdicts.entry(test).or_default();
        counts.entry(outcome.verdict).or_insert_with(|| (0, first_line(outcome))).0 += 1;
    }
    let mut text = String::new();
    for (test, counts) in verdicts {
        if counts.len() > 1 {
            line(&mut text, test);
            for (verdict, (count, fault)) in counts {
                line(&mut text, &format!("  {count} x {verdict} {fault}"));
            }
        }
    }
    text
}

/// The test without its suite, and a mark if Samba does better.
fn name(difference: &Difference) -> String {
    let test = &difference.test;
    let short = test.splitn(3, '.').nth(2).unwrap_or(test);
    let worse = difference.outcome.verdict != Verdict::Pass && difference.samba == Verdict::Pass;
    format!("{short}{}", if worse { " (Samba passes)" } else { "" })
}

fn first_line(outcome: &Outcome) -> &str {
    outcome.message.split(" / ").next().unwrap_or_default()
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("memory takes it");
}
