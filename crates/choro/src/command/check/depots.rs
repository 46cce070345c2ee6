//! Depots of named streams that cannot be used.

use std::path::Path;

use config::{Config, Share, StreamsDepot};
use rustix::io::Errno;

use super::paths::{self, depends_on_client};

/// Returns each served share whose depot cannot hold streams now, with the depot and the reason.
/// Paths that depend on the client, such as `/srv/%U`, are left out.
pub(super) fn unusable(config: &Config) -> Vec<(&str, String, String)> {
    let served = config.shares.iter().filter(|share| share.available);
    let fault = |share| fault_of(config, share, &StreamsDepot::of(share)?);
    let named = |share| fault(share).map(|(path, fault)| (share.name.as_str(), path, fault));
    served.filter_map(named).collect()
}

fn fault_of(config: &Config, share: &Share, depot: &StreamsDepot) -> Option<(String, String)> {
    if depends_on_client(&share.path) || depends_on_client(&depot.directory) {
        return None;
    }
    let substitutions = config.substitutions();
    let directory = depot.path(share, &substitutions);
    let fault = fault_of_directory(&directory).or_else(|| {
        let folder = substitutions.expand_path(&share.path);
        let is_refused = depot.check_valid && !has_attributes(Path::new(&folder));
        is_refused.then(|| {
            "needs extended attributes, which the share's file system lacks; without them \
             `streams_depot:check_valid = no` is needed"
                .to_owned()
        })
    });
    fault.map(|fault| (directory.display().to_string(), fault))
}

/// Returns the fault of a depot's path; the server makes a missing one in a directory.
fn fault_of_directory(directory: &Path) -> Option<String> {
    let fault = paths::fault(directory)?;
    if fault != paths::MISSING {
        return Some(fault);
    }
    let can_be_made = directory.parent().is_some_and(Path::is_dir);
    (!can_be_made).then(|| "does not exist, nor the directory above it".to_owned())
}

/// False if the file system of a folder is known to keep no extended attributes of users.
fn has_attributes(folder: &Path) -> bool {
    let queried = rustix::fs::getxattr(folder, "user.SAMBA_STREAMS", &mut [0; 1][..]);
    queried != Err(Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::unusable;

    #[test]
    fn depots_that_cannot_be_made_are_named_with_the_reason() {
        let folder = tempfile::tempdir().expect("there is space");
        let root = folder.path().display();
        std::fs::write(folder.path().join("file"), b"").expect("it is ours");
        let share = |name: &str, directory: &str| {
            format!(
                "[{name}]\npath = {root}\nvfs objects = streams_depot\n\
                 streams_depot:directory = {directory}\n"
            )
        };
        let text = [
            share("inside", ""),
            share("made", &format!("{root}/new")),
            share("gone", &format!("{root}/no/new")),
            share("file", "file"),
            share("each", "/no/%U"),
        ];
        let (config, _) = Config::parse(&text.concat(), "test").expect("it is well-formed");
        let found = unusable(&config);
        let found: Vec<_> = found.iter().map(|(name, _, why)| (*name, why.as_str())).collect();
        let nowhere = "does not exist, nor the directory above it";
        assert_eq!(found, [("gone", nowhere), ("file", "is not a directory")]);
    }
}
