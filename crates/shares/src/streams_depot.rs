//! Depot for the named streams of a share: the options of Samba's `vfs_streams_depot`.

use std::path::PathBuf;

use config::{Config, Share, StreamsDepot, Substitutions};
use store::DepotSettings;

/// The settings of a share's depot; `None` if it has none.
pub(super) fn depot_settings(
    share: &Share,
    substitutions: &Substitutions,
) -> Option<DepotSettings> {
    let depot = StreamsDepot::of(share)?;
    Some(DepotSettings {
        directory: depot.path(share, substitutions),
        delete_lost: depot.delete_lost,
        check_valid: depot.check_valid,
    })
}

/// Names of the depots that are in the folder of a share, so that clients do not see their files:
/// its own, and those of other shares, which it may lead to without the module.
pub(super) fn names_in_share(
    config: &Config,
    (share, folder): (&Share, &str),
    substitutions: &Substitutions,
) -> Vec<String> {
    let depots = depots(config, share, substitutions).filter(|it| it.starts_with(folder));
    let mut names: Vec<_> =
        depots.filter_map(|it| Some(it.file_name()?.to_str()?.to_owned())).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Paths of the depots of all shares. Links may lead to the folder of a share, and have other
/// names than [`names_in_share`] finds.
pub(super) fn all_depots(
    config: &Config,
    share: &Share,
    substitutions: &Substitutions,
) -> Vec<PathBuf> {
    depots(config, share, substitutions).collect()
}

/// Paths of the depots of a share and of all others. Variables of other shares' paths stand for the
/// same client.
fn depots<'a>(
    config: &'a Config,
    share: &'a Share,
    substitutions: &'a Substitutions,
) -> impl Iterator<Item = PathBuf> + 'a {
    let depot_of = move |other: &Share| {
        let named = Substitutions { share: other.name.clone(), ..substitutions.clone() };
        let is_it = other.name == share.name;
        Some(depot_settings(other, if is_it { substitutions } else { &named })?.directory)
    };
    let others = config.shares.iter().chain(&config.homes).filter(move |it| it.name != share.name);
    [share].into_iter().chain(others).filter_map(depot_of)
}

#[cfg(test)]
mod tests {
    use config::{Config, Substitutions};

    use super::{depot_settings, names_in_share};

    fn directory(options: &str) -> (String, Option<String>) {
        let text = format!("[a]\npath = /srv/a\nvfs objects = streams_depot\n{options}\n");
        let (config, _) = Config::parse(&text, "test").expect("it is well-formed");
        let depot = depot_settings(&config.shares[0], &Substitutions::default());
        let depot = depot.expect("it has the module");
        let share = (&config.shares[0], "/srv/a");
        let name = names_in_share(&config, share, &Substitutions::default()).pop();
        (depot.directory.to_str().expect("it is UTF-8").to_owned(), name)
    }

    #[test]
    fn a_depot_is_in_the_share_unless_its_path_is_absolute() {
        let hidden = Some(".streams".to_owned());
        assert_eq!(directory(""), ("/srv/a/.streams".to_owned(), hidden));
        let named = directory("streams_depot:directory = x/depot");
        assert_eq!(named, ("/srv/a/x/depot".to_owned(), Some("depot".to_owned())));
        let outside = directory("streams_depot:directory = /srv/streams");
        assert_eq!(outside, ("/srv/streams".to_owned(), None));
        let beside = directory("streams_depot:directory = /srv/ab");
        assert_eq!(beside, ("/srv/ab".to_owned(), None), "a name that begins as the share's");
    }

    #[test]
    fn a_share_hides_the_depots_of_other_shares_in_its_folder() {
        let text = "[data]\npath = /srv/data\nvfs objects = streams_depot\n\
                    [named]\npath = /srv/%S\nvfs objects = streams_depot\n\
                    streams_depot:directory = depot\n\
                    [all]\npath = /srv\n[data-read]\npath = /srv/data\n[other]\npath = /other\n";
        let (config, _) = Config::parse(text, "test").expect("it is well-formed");
        let hidden = |name: &str| {
            let share = config.share(name).expect("above");
            let substitutions =
                Substitutions { share: share.name.clone(), ..Substitutions::default() };
            let folder = substitutions.expand_path(&share.path);
            names_in_share(&config, (share, &folder), &substitutions)
        };
        assert_eq!(hidden("data"), [".streams"]);
        assert_eq!(hidden("all"), [".streams", "depot"]);
        assert_eq!(hidden("data-read"), [".streams"]);
        assert_eq!(hidden("named"), ["depot"]);
        assert_eq!(hidden("other"), [""; 0]);
    }
}
