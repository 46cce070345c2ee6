//! Verdict on a test, from smbtorture's output in the subunit protocol.

use std::fmt;

/// Characters of a failure's message that are kept.
const MESSAGE_CHARS: usize = 300;

/// Verdict on a test of smbtorture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Pass,
    Fail,
    /// The test says that the server, or the way it was called, lacks what it needs.
    Skip,
}

/// A verdict, and why if it is not [`Verdict::Pass`].
#[derive(Clone, Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    pub message: String,
}

impl Verdict {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pass, Self::Fail, Self::Skip].into_iter().find(|verdict| verdict.to_string() == word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        })
    }
}

/// The worst verdict that smbtorture printed. `ended` is its exit code, or `None` with the seconds
/// after which it was ended.
pub fn outcome_of(printed: &str, ended: Result<Option<i32>, u32>) -> Outcome {
    let mut worst: Option<Outcome> = None;
    let mut lines = printed.lines();
    while let Some(line) = lines.next() {
        let verdict = match line.split_once(": ").map(|(word, _)| word) {
            Some("success" | "successful") => Verdict::Pass,
            Some("skip") => Verdict::Skip,
            Some("failure" | "error") => Verdict::Fail,
            _ => continue,
        };
        let mut message = String::new();
        if line.ends_with('[') {
            let words = lines.by_ref().map(str::trim).take_while(|line| *line != "]");
            message = words.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ");
        }
        let is_worse = match &worst {
            None => true,
            Some(outcome) => outcome.verdict != Verdict::Fail && verdict != Verdict::Pass,
        };
        if is_worse {
            worst = Some(Outcome { verdict, message });
        }
    }
    let no_verdict = || {
        let last = printed.lines().map(str::trim).rfind(|line| !line.is_empty() && !is_clock(line));
        let last = last.unwrap_or("nothing");
        let message = match ended {
            Err(seconds) => format!("no end after {seconds} s; last words: {last}"),
            Ok(code) => format!("no verdict, exit code {code:?}; last words: {last}"),
        };
        Outcome { verdict: Verdict::Fail, message }
    };
    // A test that was ended did not pass, whatever it said before.
    let mut outcome = match (worst, ended) {
        (Some(outcome), Ok(_)) => outcome,
        (Some(outcome), Err(_)) if outcome.verdict == Verdict::Fail => outcome,
        _ => no_verdict(),
    };
    let message = outcome.message.replace('\t', " ").replace("../../source4/torture/smb2/", "");
    outcome.message = message.chars().take(MESSAGE_CHARS).collect();
    outcome
}

fn is_clock(line: &str) -> bool {
    line.starts_with("time: ")
}
