//! `lint [--keep]`, in the folder of the repository: checks the rules, or lowers their ceilings.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use lint::ceilings::Ceilings;
use lint::complaint;
use lint::history;
use lint::rule::{Measured, Rule, Tree};
use lint::rules::RULES;
use lint::workspace;

const CEILINGS: &str = "crates/lint/ceilings.tsv";
const ADVICE: &str = "
Mend the places above; a ceiling is not raised. `make lint KEEP=1` lowers it once a count has
fallen. If code moved to another crate, its count moves too. For a new crate, `make lint KEEP=1`
does that as long as all crates together break the rule no more often than before; otherwise
edit crates/lint/ceilings.tsv, and leave the sum as it was.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let keep = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--keep"] => true,
        _ => return fail("usage: lint [--keep]"),
    };
    match run(Path::new("."), keep) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => fail(ADVICE),
        Err(error) => fail(&error),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

/// Checks all rules. Returns whether every crate is under its ceilings.
fn run(root: &Path, keep: bool) -> Result<bool, String> {
    let crates = workspace::read(root)?;
    let tree = Tree { root, crates: &crates };
    let text = fs::read_to_string(root.join(CEILINGS)).unwrap_or_default();
    let mut ceilings = Ceilings::parse(&text)?;
    let mut kept = true;
    for rule in RULES {
        let measured = (rule.measure)(&tree)?;
        if keep {
            ceilings.lower(rule, &measured);
        }
        println!("{}", summary(rule, &measured));
        kept &= check(root, rule, &measured, &ceilings);
    }
    let lowered = ceilings.to_text();
    if keep && lowered != text {
        fs::write(root.join(CEILINGS), lowered).map_err(|error| format!("{CEILINGS}: {error}"))?;
        println!("{CEILINGS} is lowered");
    }
    Ok(kept)
}

fn summary(rule: &Rule, measured: &[Measured]) -> String {
    let sum = measured.iter().fold((0, 0), |(count, of), Measured { findings, .. }| {
        (count + findings.count, of + findings.of)
    });
    format!("{}: {} of {} {}", rule.name, sum.0, sum.1, rule.unit)
}

/// Prints a complaint if a crate is above its ceiling. Returns whether none is.
fn check(root: &Path, rule: &Rule, measured: &[Measured], ceilings: &Ceilings) -> bool {
    let ceiled = measured.iter().map(|one| (one, ceilings.of(rule, &one.subject)));
    let above: Vec<_> =
        ceiled.filter(|(one, ceiling)| !ceiling.allows(rule.goal, &one.findings)).collect();
    if !above.is_empty() {
        let added = history::lines_added_since(root, CEILINGS);
        eprintln!("{}", complaint::text(rule, &above, &added));
    }
    above.is_empty()
}
