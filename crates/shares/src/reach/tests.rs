use std::path::{Path, PathBuf};

use config::Config;
use confinement::Place;
use settings::{Settings, Source};

use super::{FolderPlace, Reach, fixed_part};

fn settings(text: &str) -> Settings {
    let (config, warnings) = Config::parse(text, "test").expect("it is well-formed");
    let directories = config.directories();
    let source = Source::File("/etc/choro/smb.conf".into());
    Settings { config: config.into(), directories, source, warnings }
}

/// Finds the paths of a configuration whose shares are on a file system that begins at `/srv`.
fn reach(text: &str) -> Reach {
    let locate = |path: &Path| Some(FolderPlace { path: path.into(), mount_point: "/srv".into() });
    Reach::of(&settings(text), locate)
}

fn paths(reach: &Reach, place: Place) -> Vec<&str> {
    let of_place = reach.places.iter().filter(|it| it.0 == place);
    of_place.map(|it| it.1.to_str().expect("it is UTF-8")).collect()
}

#[track_caller]
fn check(text: &str, want: &[&str]) {
    let reach = reach(text);
    assert_eq!(reach.everything, None, "{text}");
    assert_eq!(paths(&reach, Place::Share), want, "{text}");
}

#[track_caller]
fn check_all(text: &str, why: &str) {
    let reason = reach(text).everything;
    assert!(reason.as_deref().is_some_and(|it| it.contains(why)), "{text}: {reason:?}");
}

#[test]
fn a_path_is_known_up_to_its_first_variable() {
    for (path, want) in [
        ("/srv/data", "/srv/data"),
        ("/srv/%U", "/srv"),
        ("/srv/homes-%U/files", "/srv"),
        ("/srv/a/%S/b/%U", "/srv/a"),
        ("/srv/100%%/a", "/srv/100%/a"),
        ("/%U", "/"),
        ("%H/files", "/"),
    ] {
        assert_eq!(fixed_part(path), PathBuf::from(want), "{path}");
    }
}

#[test]
fn workers_reach_the_folders_of_shares() {
    check("[a]\npath = /srv/a\n[b]\npath = /mnt/%U/b\n", &["/mnt", "/srv/a"]);
    check("[homes]\npath = /srv/homes/%S\n", &["/srv/homes"]);
}

#[test]
fn workers_reach_everything_where_a_share_may_be_anywhere() {
    check_all("[a]\npath = /srv/a\n[all]\npath = /\n", "share all is `/`");
    check_all("[a]\npath = /%U\n", "share a is `/%U`");
    check_all("[a]\npath = /srv/../%U\n", "share a");
    check_all("[a]\npath = /srv/a\nwide links = yes\n", "`wide links = yes`");
    check_all("security = ads\nrealm = A.B\n[homes]\n", "path = /home/%S");
    check_all("security = ads\nrealm = A.B\n[a]\npath = %H/a\n", "[a]");
    check_all("usershare max shares = 5\n", "usershare prefix allow list");
    check_all("username map = /etc/names\n", "a directory of its own");
}

#[test]
fn links_that_do_not_lead_out_of_a_share_open_nothing() {
    let unix = "smb3 unix extensions = yes\n[a]\npath = /srv/a\nwide links = yes\n";
    check(unix, &["/srv/a"]);
    check("[a]\npath = /srv/a\nwide links = yes\nfollow symlinks = no\n", &["/srv/a"]);
}

#[test]
fn shares_of_users_are_below_the_prefixes_that_are_allowed() {
    let text = "usershare max shares = 5\nusershare prefix allow list = /home /srv/media\n\
                usershare path = /srv/usershares\n";
    check(text, &["/home", "/srv/media"]);
    assert_eq!(paths(&reach(text), Place::Usershares), ["/srv/usershares"]);
}

#[test]
fn depots_and_snapshots_outside_of_a_share_are_reached() {
    let text = "[a]\npath = /srv/a\nvfs objects = shadow_copy2 streams_depot\n";
    let found = reach(text);
    assert_eq!(paths(&found, Place::Snapshots), ["/srv/.snapshots"]);
    assert!(paths(&found, Place::Depot).is_empty(), "it is in the share");
    let other = format!("{text}streams_depot:directory = /mnt/s/%S\nshadow:snapdir = /mnt/%S\n");
    let found = reach(&other);
    assert_eq!(paths(&found, Place::Snapshots), ["/mnt"]);
    assert_eq!(paths(&found, Place::Depot), ["/mnt/s"]);
}

#[test]
fn the_private_directory_and_the_state_directory_are_not_reached() {
    let found = reach("username map = /etc/choro/names\n[a]\npath = /srv/a\n");
    let own = found.places.iter().filter(|it| it.0 != Place::Share).map(|it| it.1.as_path());
    let private = Path::new("/var/lib/choro/private");
    assert!(own.clone().all(|it| !private.starts_with(it) && !it.starts_with(private)));
    assert_eq!(paths(&found, Place::UsernameMap), ["/etc/choro"]);
}
