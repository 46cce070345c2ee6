use std::fs;

use super::*;
use crate::{render_effective, render_for_processes};

#[test]
fn a_base_directory_places_the_directories_that_are_not_named() {
    let text = "[global]\nbase directory = /srv/a 100%%/\nlock dir = /run/x\n";
    let (config, warnings) = Config::parse(text, "smb.conf").expect("served");
    assert!(warnings.is_empty(), "{warnings:?}");
    let directories = config.directories();
    assert_eq!(directories.state, Path::new("/srv/a 100%/state"));
    assert_eq!(directories.private, Path::new("/srv/a 100%/private"));
    assert_eq!(directories.cache, Path::new("/srv/a 100%/cache"));
    assert_eq!(directories.pid, Path::new("/srv/a 100%/run"));
    assert_eq!(directories.lock, Path::new("/run/x"));
    // A process that reads the configuration of its parent has the same.
    let (again, _) = Config::parse(&render_effective(&config, false), "again").expect("served");
    assert_eq!(again.directories(), directories);
}

#[test]
fn netbios_name_is_the_name_of_the_server() {
    let called = |text: &str| {
        let (config, _) = Config::parse(text, "smb.conf").expect("served");
        config.substitutions().expand("%L")
    };
    assert_eq!(called("[global]\nnetbios name = nas\n"), "NAS");
    assert_eq!(called("[global]\n"), Substitutions::of_this_process().server_name);
}

#[test]
fn a_file_and_its_includes_are_read_from_disk() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let main = folder.path().join("smb.conf");
    fs::write(&main, "[global]\ninclude = sub/shares.conf\n").expect("written");
    fs::create_dir(folder.path().join("sub")).expect("made");
    let shares = folder.path().join("sub/shares.conf");
    fs::write(&shares, "[a]\npath = /a\ninclude = last.conf\n").expect("written");
    fs::write(folder.path().join("sub/last.conf"), "guest ok = maybe\n").expect("written");
    let (config, warnings) = Config::load(&main).expect("served");
    assert_eq!(config.shares[0].path, "/a");
    assert_eq!((warnings.len(), warnings[0].line), (1, 1));
    assert!(warnings[0].file.ends_with("sub/last.conf"));

    fs::write(&shares, "include = ../smb.conf\n").expect("written");
    assert!(matches!(Config::load(&main), Err(LoadError::IncludeLoop { .. })));
    // The folder that it is in.
    fs::write(&shares, "include = .\n").expect("written");
    assert!(matches!(Config::load(&main), Err(LoadError::IncludeLoop { .. })));
    fs::write(&shares, "include = /dev/null\n").expect("written");
    assert!(matches!(Config::load(&main), Err(LoadError::Unreadable { .. })));
    assert!(matches!(Config::load(&folder.path().join("none")), Err(LoadError::Unreadable { .. })));
}

/// The socket may be named behind the line that is refused.
#[test]
fn the_refusal_of_a_cluster_names_the_socket_of_ctdbd() {
    let refused = |text: &str| match Config::parse(text, "t") {
        Err(LoadError::Clustered { line, socket, .. }) => Some((line, socket)),
        other => other.map(|_| None).expect("it is no other refusal"),
    };
    let text = "[global]\nclustering = yes\nctdbd socket = /run/x\n[data]\npath = /srv\n";
    assert_eq!(refused(text), Some((2, "/run/x".to_owned())));
    assert_eq!(refused("clustering = 1\n"), Some((1, String::new())));
    assert_eq!(refused("clustering = yes\nclustering = no\n"), None, "the last line counts");
}

#[test]
fn text_from_elsewhere_reads_no_files() {
    let (_, warnings) = Config::parse("include = /etc/hostname\n", "t").expect("served");
    assert_eq!(warnings[0].kind, WarningKind::MissingInclude);
}

#[test]
fn a_file_at_the_limit_is_read_and_one_above_is_refused() {
    let max = usize::try_from(crate::limits::FILE_BYTES_MAX).expect("fits");
    let mut text = "#\n".repeat(max / 2);
    Config::parse(&text, "t").expect("a file of that size is read");
    text.push('#');
    assert!(matches!(Config::parse(&text, "t"), Err(LoadError::Limit { .. })));
}

#[test]
fn defaults_are_those_of_the_compiled_server() {
    let (config, warnings) = Config::parse("", "t").expect("served");
    assert!(warnings.is_empty() && config.shares.is_empty());
    let directories = config.directories();
    assert_eq!(directories.state, Path::new("/var/lib/choro"));
    assert_eq!(directories.lock, Path::new("/run/choro"));
    assert_eq!(config.global.dialects(), (0x0202, 0x0311));
    assert_eq!(config.global.smb_ports, [445]);
    assert!(config.ipc.available && !config.ipc.guest_ok);
    assert_eq!(render_effective(&config, false), "# Global parameters\n[global]\n");
}

#[test]
fn ipc_has_parameters_and_is_no_share() {
    let text = "[global]\nhosts deny = ALL\n[ipc$]\nhosts allow = 10.\n";
    let (config, warnings) = Config::parse(text, "t").expect("served");
    assert!(warnings.is_empty() && config.shares.is_empty());
    assert_eq!(
        (&config.ipc.hosts_allow[..], &config.ipc.hosts_deny[..]),
        (&["10.".to_owned()][..], &["ALL".to_owned()][..])
    );
    assert!(render_effective(&config, false).contains("[ipc$]\n\thosts allow = 10.\n"));
}

#[test]
fn admission_follows_the_four_lists() {
    let (config, _) = Config::parse(
        "[a]\npath=/a\nvalid users = alice bob @staff\ninvalid users = eve\n\
         read list = alice\nwrite list = bob eve\nread only = no\n\
         [b]\npath=/b\ninvalid users = root\nwrite list = bob\n",
        "t",
    )
    .expect("served");
    let in_staff = |_: crate::GroupKind, group: &str| group == "staff";
    let nobody = |_: crate::GroupKind, _: &str| false;
    let (a, b) = (&config.shares[0], &config.shares[1]);
    assert!(a.admits("Alice", nobody) && a.admits("carl", in_staff));
    assert!(!a.admits("carl", nobody) && !a.admits("eve", in_staff));
    assert!(b.admits("anyone", nobody) && !b.admits("ROOT", nobody));
    assert!(a.is_read_only_for("alice", nobody) && !a.is_read_only_for("carl", nobody));
    assert!(b.is_read_only_for("alice", nobody) && !b.is_read_only_for("bob", nobody));
}

#[test]
fn rendering_shows_changed_parameters_and_verbose_shows_all() {
    let text = "[global]\nserver signing = mandatory\nread only = no\n\
                [a]\nwriteable = no\npath = /a\nfruit:model = Mac\n[b]\npath=/b\ncopy=a\n";
    let (config, _) = Config::parse(text, "t").expect("served");
    assert_eq!(
        render_effective(&config, false),
        "# Global parameters\n[global]\n\tserver signing = required\n\tread only = No\n\
         \n\n[a]\n\tpath = /a\n\tread only = Yes\n\tfruit:model = Mac\n\
         \n\n[b]\n\tpath = /b\n\tread only = Yes\n\tfruit:model = Mac\n"
    );
    let verbose = render_effective(&config, true);
    assert!(verbose.contains("\tsmb2 max credits = 8192\n"));
    assert!(verbose.contains("\tcreate mask = 0744\n"));
    assert!(
        !verbose.contains("password server"),
        "parameters without effect have no default to show"
    );
}

#[test]
fn a_member_of_a_domain_needs_its_realm_and_a_role_that_fits() {
    let check = |lines: &str| Config::parse(&format!("[global]\n{lines}"), "t").map(|it| it.0);
    for lines in [
        "security = ads\n",
        "security = user\nserver role = member server\n",
        "security = ads\nserver role = standalone\nrealm = ad.lab\n",
        "realm = lab\nkerberos method = dedicated keytab\n",
        "security = domain\n",
        "ntlm auth = disabled\n",
        "ntlm auth = never\n",
        "server role = dc\n",
        "security = nonsense\n",
    ] {
        check(lines).expect_err(lines);
    }
    let member = "security = ads\nrealm = ad.lab\nkerberos method = system keytab\n";
    check(&format!("{member}ntlm auth = disabled\n")).expect("tickets are enough");
    let member = check(member);
    let member = member.expect("a member").global;
    assert!(member.is_member() && member.signing_required());
    assert_eq!((&*member.realm, member.keytab()), ("AD.LAB", Some(crate::Keytab::OfSystem)));
    let by_role = check("server role = member server\nrealm = ad.lab\nserver signing = auto\n");
    let by_role = by_role.expect("a member").global;
    assert!(by_role.is_member() && !by_role.signing_required());
    assert_eq!(by_role.keytab(), Some(crate::Keytab::Secrets { or_system: false }));
}

#[test]
fn a_server_of_its_own_users_has_keys_of_its_realm_only_by_a_keytab() {
    let check = |lines: &str| {
        let (config, _) = Config::parse(&format!("[global]\n{lines}"), "t").expect(lines);
        (config.global.keytab().is_some(), config.global.signing_required())
    };
    assert_eq!(check(""), (false, false));
    assert_eq!(check("realm = lab\nsecurity = user\n"), (false, false));
    assert_eq!(check("kerberos method = system keytab\n"), (false, false));
    assert_eq!(check("realm = lab\nkerberos method = system keytab\n"), (true, false));
    let file = "realm = lab\nkerberos method = dedicated keytab\ndedicated keytab file = /k\n";
    assert_eq!(check(file), (true, false));
}

#[test]
fn keys_of_a_member_are_those_of_winbindd_unless_a_keytab_is_named() {
    let check = |lines: &str| {
        let text = format!("[global]\nsecurity = ads\nrealm = ad.lab\n{lines}");
        Config::parse(&text, "t").expect("a member").0.global
    };
    let secrets = |or_system| Some(crate::Keytab::Secrets { or_system });
    assert_eq!(check("").keytab(), secrets(false));
    assert_eq!(check("kerberos method = secrets only\n").keytab(), secrets(false));
    assert_eq!(check("kerberos method = secrets and keytab\n").keytab(), secrets(true));
    let files = |lines| check(lines).secrets_files();
    let both = ["/p/secrets.tdb", "/var/lib/samba/private/secrets.tdb"];
    assert_eq!(files("private dir = /p\n"), both.map(PathBuf::from));
    let own = ["/s.tdb"].map(PathBuf::from);
    assert_eq!(files("private dir = /p\ndomain secrets = /s.tdb\n"), own);
}

#[test]
fn parameters_without_effect_are_not_rendered_for_processes() {
    let text = "[global]\nncalrpc dir = /n\nserver signing = mandatory\n\
                [a]\npath = /a\nfruit:model = Mac\n";
    let (config, warnings) = Config::parse(text, "t").expect("served");
    assert_eq!(warnings.len(), 1, "ncalrpc dir has no effect");
    assert!(render_effective(&config, false).contains("ncalrpc dir"));
    assert_eq!(
        render_for_processes(&config),
        "# Global parameters\n[global]\n\tserver signing = required\n\
         \n\n[a]\n\tpath = /a\n\tfruit:model = Mac\n"
    );
}

#[test]
fn a_share_without_a_path_is_not_available() {
    for path in ["", "path =\n", "path = \"\"\n", "path = /a\npath =\n"] {
        let (config, warnings) = Config::parse(&format!("[a]\n{path}"), "t").expect("served");
        assert!(!config.shares[0].available, "{path:?}");
        assert_eq!(warnings[0].kind, WarningKind::NotServed);
    }
}
