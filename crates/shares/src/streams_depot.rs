//! Depot for the named streams of a share: the options of Samba's `vfs_streams_depot`.

use std::path::Path;

use config::{Share, StreamsDepot, Substitutions};
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

/// The name of a depot that is in the share, so that clients do not see its files.
pub(super) fn name_in_share<'d>(depot: &'d DepotSettings, folder: &str) -> Option<&'d str> {
    let is_in_share = depot.directory.starts_with(Path::new(folder));
    depot.directory.file_name().and_then(|name| name.to_str()).filter(|_| is_in_share)
}

#[cfg(test)]
mod tests {
    use config::{Config, Substitutions};

    use super::{depot_settings, name_in_share};

    fn directory(options: &str) -> (String, Option<String>) {
        let text = format!("[a]\npath = /srv/a\nvfs objects = streams_depot\n{options}\n");
        let (config, _) = Config::parse(&text, "test").expect("it is well-formed");
        let depot = depot_settings(&config.shares[0], &Substitutions::default());
        let depot = depot.expect("it has the module");
        let name = name_in_share(&depot, "/srv/a").map(str::to_owned);
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
}
