//! Shares whose folder is missing.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use config::Config;

/// Returns each served share whose folder cannot be served now, with the folder and the reason.
/// Paths that depend on the client, such as `/srv/%U`, are left out, and missing ones that a
/// command (`preexec`, `root preexec`) may make.
pub(in crate::command) fn missing(config: &Config) -> Vec<(&str, String, String)> {
    let substitutions = config.substitutions();
    let served =
        config.shares.iter().filter(|share| share.available && !depends_on_client(&share.path));
    served
        .filter_map(|share| {
            let path = substitutions.expand_path(&share.path);
            let may_be_made = !share.preexec.is_empty() || !share.root_preexec.is_empty();
            let reason = fault(Path::new(&path)).filter(|it| !may_be_made || it != MISSING)?;
            Some((share.name.as_str(), path, reason))
        })
        .collect()
}

/// Fault of a path that does not exist.
pub(super) const MISSING: &str = "does not exist";

/// True if a path has a variable, other than `%%`.
pub(super) fn depends_on_client(path: &str) -> bool {
    path.replace("%%", "").contains('%')
}

/// Returns why a path is no directory that can be used, in words.
pub(super) fn fault(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some("is not a directory".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(MISSING.to_owned()),
        Err(error) => Some(format!("cannot be reached: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::missing;

    #[test]
    fn folders_that_are_missing_are_named_with_the_reason() {
        let folder = tempfile::tempdir().expect("there is space");
        let root = folder.path().display();
        std::fs::write(folder.path().join("file"), b"").expect("it is ours");
        let text = format!(
            "[good]\npath = {root}\n[gone]\npath = {root}/no\n[file]\npath = {root}/file\n\
             [off]\npath = {root}/no\navailable = no\n[each]\npath = {root}/%U\n\
             [made]\npath = {root}/no\nroot preexec = mkdir -p %P\n\
             [bad]\npath = {root}/file\nroot preexec = mkdir -p %P\n"
        );
        let (config, _) = Config::parse(&text, "test").expect("it is well-formed");
        let found = missing(&config);
        let found: Vec<_> = found.iter().map(|(name, _, why)| (*name, why.as_str())).collect();
        let not_one = "is not a directory";
        assert_eq!(found, [("gone", super::MISSING), ("file", not_one), ("bad", not_one)]);
    }
}
