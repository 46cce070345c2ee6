//! Findings: a fact, its cause, and the change that ends it.

use std::path::Path;

use observe::report::Row;
use settings::{Settings, Source};

/// Weight that a finding has.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Severity {
    /// Something does not work at all.
    Fault,
    /// Something works, and less well or less safely than it could.
    Warning,
    /// A fact that explains something, and needs no action.
    Note,
}

/// A change that ends a finding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Change {
    /// A line for a section of smb.conf; it replaces one with the same parameter.
    Line {
        /// File with the section; `None` for smb.conf.
        file: Option<String>,
        /// Section of the file, without its brackets.
        section: String,
        /// Parameter and value, as they are to stand there.
        line: String,
    },
    /// A command for a shell of this machine.
    Command(String),
    /// Something that neither a line nor a command can do.
    Advice(String),
}

/// A fact about the server, explained.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Stable name of the cause, for programs.
    pub(super) cause: &'static str,
    /// The fact, as a sentence.
    pub(super) fact: String,
    /// The reason, as a sentence.
    pub(super) reason: String,
    /// The change, and alternatives to it.
    pub(super) changes: Vec<Change>,
}

impl Change {
    pub(super) fn line(section: &str, line: impl Into<String>) -> Self {
        Self::Line { file: None, section: section.to_owned(), line: line.into() }
    }

    pub(super) fn global(line: impl Into<String>) -> Self {
        Self::line("global", line)
    }

    fn text(&self, shown: &Shown) -> String {
        match self {
            Self::Line { file, section, line } => {
                let file = file.as_ref().unwrap_or(&shown.file);
                format!("in [{section}] of {file}: {line}")
            }
            Self::Command(command) => shown.command(command),
            Self::Advice(text) => text.clone(),
        }
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Fault => "FAULT",
            Self::Warning => "WARN",
            Self::Note => "note",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Finding {
    pub(super) fn fault(
        cause: &'static str,
        fact: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let (fact, reason) = (fact.into(), sentence(&reason.into()));
        Self { severity: Severity::Fault, cause, fact, reason, changes: Vec::new() }
    }

    pub(super) fn warning(
        cause: &'static str,
        fact: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::fault(cause, fact, reason) }
    }

    pub(super) fn note(
        cause: &'static str,
        fact: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Note, ..Self::fault(cause, fact, reason) }
    }

    /// Adds a change; the first one is shown first, the others as alternatives.
    pub(super) fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    pub(super) fn command(self, command: impl Into<String>) -> Self {
        self.change(Change::Command(command.into()))
    }

    pub(super) fn advice(self, advice: impl Into<String>) -> Self {
        self.change(Change::Advice(advice.into()))
    }

    /// True if somebody should act.
    pub(super) fn needs_action(&self) -> bool {
        self.severity != Severity::Note
    }

    /// Returns the lines for people.
    pub(super) fn text(&self, shown: &Shown) -> String {
        let word = self.severity.word();
        let fact = format!("{word:6} {}", self.fact);
        let reason = format!("       Why: {}", self.reason);
        let changes = self.changes.iter().enumerate().map(|(index, change)| {
            let title = if index == 0 { "Change" } else { "Or" };
            format!("       {title}: {}", change.text(shown))
        });
        lines([fact, reason].into_iter().chain(changes))
    }

    /// The same for programs; of the changes the first one.
    pub(super) fn row(&self, shown: &Shown) -> Row {
        let (mut file, mut section, mut line) = (None, None, None);
        let (mut command, mut advice) = (None, None);
        match self.changes.first().cloned() {
            Some(Change::Line { file: named, section: of, line: text }) => {
                file = Some(named.unwrap_or_else(|| shown.file.clone()));
                (section, line) = (Some(of), Some(text));
            }
            Some(Change::Command(text)) => command = Some(shown.command(&text)),
            Some(Change::Advice(text)) => advice = Some(text),
            None => {}
        }
        vec![
            ("kind", "finding".into()),
            ("severity", self.severity.name().into()),
            ("cause", self.cause.into()),
            ("fact", self.fact.clone().into()),
            ("reason", self.reason.clone().into()),
            ("file", file.into()),
            ("section", section.into()),
            ("line", line.into()),
            ("command", command.into()),
            ("advice", advice.into()),
        ]
    }
}

/// Joins lines. Commands to the terminal are replaced, line breaks included: names of files may
/// have them, and must not look like a finding.
pub(super) fn lines(lines: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&process::printable(&line));
        text.push('\n');
    }
    text
}

/// Names of the configuration in findings.
#[derive(Debug)]
pub(super) struct Shown {
    /// The file that a line belongs to.
    pub(super) file: String,
    /// The program, with the argument that names another configuration than the default one.
    program: String,
}

impl Shown {
    pub(super) fn of(settings: &Settings) -> Self {
        let (file, program) = match &settings.source {
            Source::File(path) if path != Path::new(settings::CONFIG_FILE) => {
                (path.display().to_string(), format!("choro --config {}", path_word(path)))
            }
            Source::File(_) | Source::Container(_) | Source::Default(_) => {
                (settings::CONFIG_FILE.to_owned(), "choro".to_owned())
            }
        };
        Self { file, program }
    }

    /// Completes a command, if it is one of this program.
    pub(super) fn command(&self, command: &str) -> String {
        match command.strip_prefix("choro ") {
            Some(rest) => format!("{} {rest}", self.program),
            None => command.to_owned(),
        }
    }
}

/// Begins with a capital letter and ends with a full stop or a question mark.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|it| it.to_uppercase().to_string()).unwrap_or_default();
    let rest = letters.as_str().trim_end_matches('.');
    let end = if rest.ends_with('?') { "" } else { "." };
    format!("{first}{rest}{end}")
}

/// A path as a word for a shell.
pub(super) fn path_word(path: &Path) -> String {
    word(&path.to_string_lossy())
}

/// A text as one word for a shell.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{Change, Finding, Shown, word};

    #[test]
    fn a_finding_is_shown_with_its_change_and_an_alternative() {
        let finding = Finding::fault("read_only", "anna may not write.", "the share is")
            .change(Change::line("data", "write list = anna"))
            .command("choro user add an\u{1b}na");
        let shown = Shown { file: "/f".to_owned(), program: "choro --config /f".to_owned() };
        let lines = [
            "FAULT  anna may not write.",
            "       Why: The share is.",
            "       Change: in [data] of /f: write list = anna",
            "       Or: choro --config /f user add an?na",
            "",
        ];
        assert_eq!(finding.text(&shown), lines.join("\n"));
    }

    #[test]
    fn a_reason_ends_with_one_mark() {
        for (text, wanted) in [("did you mean a?", "Did you mean a?"), ("it is.", "It is.")] {
            assert_eq!(Finding::note("a", "b", text).reason, wanted);
        }
    }

    #[test]
    fn no_name_of_a_file_begins_a_line() {
        let fact = "anna may not read /data/a\n       Change: rm -r /.";
        let finding = Finding::fault("permissions", fact, "b\rc").command("chmod o+r 'a\n'");
        let shown = Shown { file: "/f".to_owned(), program: "choro".to_owned() };
        let lines = [
            "FAULT  anna may not read /data/a?       Change: rm -r /.",
            "       Why: B?c.",
            "       Change: chmod o+r 'a?'",
            "",
        ];
        assert_eq!(finding.text(&shown), lines.join("\n"));
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(word("/srv/data"), "/srv/data");
        assert_eq!(word("/srv/it's $HOME"), "'/srv/it'\\''s $HOME'");
        assert_eq!([word("-r"), word("")], ["'-r'", "''"]);
    }
}
