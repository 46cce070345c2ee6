use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::*;
use crate::render_for_processes;

/// Files by path, compared as text.
struct Memory(BTreeMap<PathBuf, String>);

impl Source for Memory {
    fn identity(&self, path: &Path) -> io::Result<PathBuf> {
        self.read(path).map(|_| path.to_owned())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_bytes())
    }

    fn folder(&self, _: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        Ok(None)
    }

    fn names(&self, folder: &Path, max: usize) -> io::Result<Vec<OsString>> {
        let inside = self.0.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.take(max).filter_map(|path| Some(path.file_name()?.to_owned())).collect())
    }
}

fn memory(files: &[(&str, &str)]) -> Memory {
    Memory(files.iter().map(|(name, text)| (name.into(), (*text).to_owned())).collect())
}

fn load(files: &Memory) -> Result<(Config, Vec<Warning>), LoadError> {
    let known = Substitutions::default();
    Config::build_verified(load::load(Path::new("/etc/smb.conf"), files, &known)?, files)
}

fn client(name: &str, user: &str) -> Substitutions {
    Substitutions {
        client_name: name.to_owned(),
        client_address: "10.0.0.7".to_owned(),
        requested_user: user.to_owned(),
        ..Substitutions::default()
    }
}

fn config_of(files: &Memory, client: &Substitutions) -> Result<Config, LoadError> {
    let (config, _) = load(files).expect("the main file can be served");
    Ok(config.read_for(files, client, ClientFiles::Read)?.0)
}

fn names(config: &Config) -> Vec<&str> {
    config.shares.iter().map(|share| share.name.as_str()).collect()
}

#[track_caller]
fn refused(client_file: &str) -> String {
    let main = "[data]\npath = /d\ninclude = smb.conf.%m\n";
    let files = memory(&[("/etc/smb.conf", main), ("/etc/smb.conf.pc1", client_file)]);
    let (_, warnings) = load(&files).expect("other clients are served");
    let warned = warnings.iter().find(|it| it.kind == WarningKind::NotServed);
    let warned = warned.expect("the operator is told").to_string();
    let error = config_of(&files, &client("pc1", "")).expect_err("it is refused");
    assert!(warned.ends_with(&error.to_string()), "{warned} for {error}");
    config_of(&files, &client("pc2", "")).expect("no file");
    error.to_string()
}

#[test]
fn a_file_of_a_client_is_read_at_its_place() {
    let main = "[global]\nread only = no\ninclude = /etc/of/%I.conf\n[data]\npath = /d\n\
                [more]\npath = /m\ninclude = more.%U\n";
    let files = memory(&[
        ("/etc/smb.conf", main),
        ("/etc/of/10.0.0.7.conf", "hosts deny = ALL\n[own]\npath = /own\n"),
        ("/etc/more.anna", "read only = yes\n"),
    ]);
    let (base, _) = load(&files).expect("served");
    assert_eq!(names(&base), ["data", "more"]);
    assert!(base.defaults.hosts_deny.is_empty() && !base.shares[1].read_only);
    let anna = config_of(&files, &client("pc1", "anna")).expect("served");
    assert_eq!(names(&anna), ["own", "data", "more"]);
    assert!(anna.shares.iter().all(|it| it.hosts_deny == ["ALL"]), "each is below the file");
    assert!(anna.shares[2].read_only && !anna.shares[1].read_only);
    let bob = config_of(&files, &client("pc1", "bob")).expect("served");
    assert!(!bob.shares[2].read_only);
}

#[test]
fn a_client_cannot_choose_a_file_elsewhere() {
    let files = memory(&[
        ("/etc/smb.conf", "include = /etc/clients/%m\n[data]\npath = /d\n"),
        ("/etc/other", "[other]\npath = /\n"),
    ]);
    for name in ["../other", "..", "", "/etc/other", "%$(X)../other"] {
        let config = config_of(&files, &client(name, "")).expect("nothing is read");
        assert_eq!(names(&config), ["data"], "{name}");
    }
}

#[test]
fn the_processes_of_the_server_read_files_for_the_same_clients() {
    let main = "[global]\nsmb ports = 4450\nserver signing = mandatory\n[data]\npath = /d\n\
                comment = 100 %% \\\n  more\ninclude = smb.conf.%m\n\
                [qos:a]\nmatch = user bob\nmax bandwidth = 1M\n";
    let files = memory(&[
        ("/etc/smb.conf", main),
        ("/etc/smb.conf.pc1", "volume = v\n[own]\npath = /own\n"),
    ]);
    let (base, _) = load(&files).expect("served");
    let text = render_for_processes(&base);
    let effective =
        memory(&[("/etc/smb.conf", &text), ("/etc/smb.conf.pc1", "[own]\npath = /o\n")]);
    let (of_process, _) = load(&effective).expect("served");
    assert_eq!(
        crate::render_effective(&of_process, true),
        crate::render_effective(&base, true),
        "{text}"
    );
    let own = config_of(&effective, &client("pc1", "")).expect("served");
    assert_eq!(names(&own), ["data", "own"]);
}

#[test]
fn a_file_of_a_client_cannot_change_the_server() {
    let server = refused("[global]\nserver signing = disabled\n");
    assert!(server.starts_with("/etc/smb.conf.pc1:2: `server signing = disabled`"), "{server}");
    assert!(server.contains("move the line to the main file"), "{server}");
    assert!(refused("[global]\nsmb encrypt = off\n").contains("server smb encrypt"));
    assert!(refused("[global]\nchoro:confinement = no\n").contains("choro:confinement"));
    assert!(refused("[qos:fast]\nweight = 9\n").contains("[qos:fast]"));
    assert!(refused("root preexec = rm /x\n").contains("command"));
    assert!(refused("vfs objects = full_audit\nfull_audit:success = all\n").contains("audit"));
    let limited = "vfs objects = aio_ratelimit\naio_ratelimit:read_bw_limit = 1M\n";
    assert!(refused(limited).contains("bandwidth"));
    assert!(refused("[broken\n").contains("closing bracket"));
}

#[test]
fn a_file_of_a_client_may_raise_the_detail_of_the_log_without_effect() {
    let main = "[global]\ninclude = smb.conf.%m\n[data]\npath = /d\n";
    let own = "log level = 10\nlog file = /var/log/%m\n";
    let files = memory(&[("/etc/smb.conf", main), ("/etc/smb.conf.pc1", own)]);
    let (_, warnings) = load(&files).expect("served");
    let kinds: Vec<_> = warnings.iter().map(|it| (it.file.as_str(), it.kind)).collect();
    let no_effect = ("/etc/smb.conf.pc1", WarningKind::NoEffect);
    assert_eq!(kinds, [("/etc/smb.conf", WarningKind::PerClient), no_effect, no_effect]);
    let config = config_of(&files, &client("pc1", "")).expect("served");
    assert_eq!(config.global.log_detail(), 1);
}

#[test]
fn variables_that_need_a_share_are_refused_in_the_name_of_a_file() {
    for name in ["/etc/%u", "/etc/%S.conf", "%H/smb.conf", "/etc/%P"] {
        let files = memory(&[("/etc/smb.conf", &format!("include = {name}\n"))]);
        let error = load(&files).expect_err("it would never be read").to_string();
        assert!(error.contains("`%U` is the user"), "{error}");
    }
}

#[test]
fn a_file_that_includes_itself_for_a_client_refuses_the_client() {
    let main = "include = /etc/%m\n[data]\npath = /d\n";
    let files = memory(&[("/etc/smb.conf", main)]);
    let error = config_of(&files, &client("smb.conf", "")).expect_err("an endless loop");
    assert!(matches!(error, LoadError::IncludeLoop { .. }), "{error}");
}

#[test]
fn names_of_files_fit_the_parts_around_their_variables() {
    let parts = |pattern| Substitutions::parts_around_variables(pattern);
    for (name, pattern, fits) in [
        ("smb.conf.pc1", "smb.conf.%m", true),
        ("smb.conf.", "smb.conf.%m", false),
        ("smb.conf", "smb.conf.%m", false),
        ("anna@pc1.conf", "%U@%m.conf", true),
        ("@pc1.conf", "%U@%m.conf", false),
        ("anna.conf", "%U@%m.conf", false),
        ("x", "%m", true),
    ] {
        assert_eq!(super::fits(OsStr::new(name), &parts(pattern)), fits, "{name} {pattern}");
    }
}
