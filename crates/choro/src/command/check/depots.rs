//! Depots of named streams that cannot be used, or that users can rename.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::{Config, Share, StreamsDepot};
use rustix::io::Errno;

use super::paths::{self, depends_on_client};

/// Returns each served share whose depot cannot hold streams now, with the depot and the reason.
/// Paths that depend on the client, such as `/srv/%U`, are left out.
pub(super) fn unusable(config: &Config) -> Vec<(&str, String, String)> {
    with_fault(config, |share, depot, directory| {
        fault_of_directory(directory).or_else(|| {
            let folder = config.substitutions().expand_path(&share.path);
            let is_refused = depot.check_valid && !has_attributes(Path::new(&folder));
            is_refused.then(|| {
                "needs extended attributes, which the share's file system lacks; without them \
                 `streams_depot:check_valid = no` is needed"
                    .to_owned()
            })
        })
    })
}

/// Returns each served share whose depot users can rename, with the depot and the reason: they may
/// write the directory that it is in. Paths that depend on the client are left out.
pub(super) fn exposed(config: &Config) -> Vec<(&str, String, String)> {
    with_fault(config, |_, _, directory| {
        let mode = directory.parent()?.metadata().ok()?.permissions().mode();
        let is_exposed = mode & WRITABLE != 0 && mode & STICKY == 0;
        is_exposed.then(|| "is in a directory that users may write and is not sticky".to_owned())
    })
}

/// Bits of a mode that let others than the owner write.
const WRITABLE: u32 = 0o022;

/// Bit of a directory whose entries only their owners rename.
const STICKY: u32 = 0o1000;

/// Returns the served shares whose depot has a fault. The depot is passed with its path.
fn with_fault(
    config: &Config,
    fault: impl Fn(&Share, &StreamsDepot, &Path) -> Option<String>,
) -> Vec<(&str, String, String)> {
    let of = |share: &Share| {
        let depot = StreamsDepot::of(share)?;
        let directory = path_of(config, share, &depot)?;
        Some((directory.display().to_string(), fault(share, &depot, &directory)?))
    };
    let served = config.shares.iter().filter(|share| share.available);
    served
        .filter_map(|share| of(share).map(|(path, fault)| (share.name.as_str(), path, fault)))
        .collect()
}

/// Path of a depot, unless it depends on the client.
fn path_of(config: &Config, share: &Share, depot: &StreamsDepot) -> Option<PathBuf> {
    let depends = depends_on_client(&share.path) || depends_on_client(&depot.directory);
    (!depends).then(|| depot.path(share, &config.substitutions()))
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
    use std::os::unix::fs::PermissionsExt;

    use config::Config;

    use super::{exposed, unusable};

    #[test]
    fn depots_that_users_can_rename_are_named() {
        let folder = tempfile::tempdir().expect("there is space");
        let root = folder.path().display();
        let text = format!(
            "[inside]\npath = {root}\nvfs objects = streams_depot\n\
             [outside]\npath = {root}\nvfs objects = streams_depot\n\
             streams_depot:directory = /depot\n[plain]\npath = {root}\n"
        );
        let (config, _) = Config::parse(&text, "test").expect("it is well-formed");
        for (mode, is_named) in [(0o755, false), (0o1777, false), (0o775, true), (0o2777, true)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path(), permissions).expect("it is ours");
            let shares: Vec<_> = exposed(&config).iter().map(|(name, ..)| *name).collect();
            assert_eq!(shares, ["inside"][..usize::from(is_named)], "{mode:o}");
        }
    }

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
