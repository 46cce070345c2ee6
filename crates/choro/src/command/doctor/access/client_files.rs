//! Files for single clients: a line of one of them outweighs the line of smb.conf that it replaces.

use std::fs;
use std::path::Path;

use config::{Substitutions, WarningKind};
use settings::Settings;

use crate::command::doctor::finding::{Change, Finding};

/// A file that `include` names for a client.
struct ClientFile {
    path: String,
    text: String,
    /// Section that the `include` stands in.
    section: String,
}

/// Has changes of lines that a file of this client contains name this file.
pub(super) fn name_files(settings: &Settings, client: &Substitutions, findings: &mut [Finding]) {
    let files = files_of(settings, client);
    for change in findings.iter_mut().flat_map(|finding| &mut finding.changes) {
        if let Change::Line { file: named, section, line } = change {
            // The last one counts.
            let has_line = |it: &&ClientFile| it.sets(section, line);
            *named = files.iter().rev().find(has_line).map(|it| it.path.clone());
        }
    }
}

/// Returns the files that are read for a client.
fn files_of(settings: &Settings, client: &Substitutions) -> Vec<ClientFile> {
    let includes = settings.warnings.iter().filter(|it| it.kind == WarningKind::PerClient);
    let found = includes.filter_map(|it| {
        let text = fs::read_to_string(&it.file).ok()?;
        let at = usize::try_from(it.line).ok()?.checked_sub(1)?;
        let (_, pattern) = text.lines().nth(at)?.split_once('=')?;
        let named = client.expand_path(pattern.trim());
        let path = Path::new(&it.file).parent().unwrap_or_else(|| Path::new("/")).join(named);
        let before = text.lines().take(at);
        let section = before.filter_map(header).last().unwrap_or("global").to_owned();
        let text = fs::read_to_string(&path).ok()?;
        Some(ClientFile { path: path.display().to_string(), text, section })
    });
    found.collect()
}

impl ClientFile {
    /// True if the file has a line with the same parameter in the section.
    fn sets(&self, section: &str, line: &str) -> bool {
        let mut current = self.section.as_str();
        let wanted = parameter(line);
        self.text.lines().any(|line| {
            current = header(line).unwrap_or(current);
            current.eq_ignore_ascii_case(section) && wanted.is_some() && parameter(line) == wanted
        })
    }
}

/// Returns the name of the section that a line begins.
fn header(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix('[')?.split_once(']')?.0.trim())
}

/// Returns the parameter of a line, as it is compared; synonyms are one.
fn parameter(line: &str) -> Option<String> {
    let (name, _) =
        line.trim().split_once('=').filter(|(name, _)| !name.starts_with(['#', ';']))?;
    if let Some((parameter, _)) = config::find(name) {
        return Some(parameter.name.to_owned());
    }
    Some(name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::ClientFile;

    #[test]
    fn a_line_is_found_in_its_section_and_in_the_one_of_the_include() {
        let text = "Read Only = yes\n; guest ok = yes\n[films]\nwritable = no\n";
        let (path, section) = ("/f".to_owned(), "data".to_owned());
        let file = ClientFile { path, text: text.to_owned(), section };
        assert!(file.sets("Data", "read only = no") && file.sets("films", "read only = no"));
        for (section, line) in
            [("data", "guest ok = no"), ("data", "path = /a"), ("tv", "read only = no")]
        {
            assert!(!file.sets(section, line), "[{section}] {line}");
        }
    }
}
