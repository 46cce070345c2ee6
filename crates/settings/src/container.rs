//! The configuration of a container: each folder below one is a share.
//!
//! The volumes of a container are mounted below `/shares`, and the server's own files are in one
//! volume, `/state`. Both, and the port, are variables of the environment, so that `choro status`
//! and the other commands find the server that runs beside them.

pub mod users;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use config::{Warning, WarningKind};
use rustix::fs::Access;
use rustix::thread::CapabilitySet;

use super::CONFIG_FILE;
use super::default_share::PORT;

/// Variable that makes every command take this configuration. Images set it.
const MARK_VARIABLE: &str = "CHORO_CONTAINER";

/// Variable with the folder of the shares.
const SHARES_VARIABLE: &str = "CHORO_SHARES";

/// Variable with the folder of the server's own files.
const STATE_VARIABLE: &str = "CHORO_STATE";

/// Variable with the port to listen on.
const PORT_VARIABLE: &str = "CHORO_PORT";

/// Longest name of a share in characters, as Windows has it.
const NAME_CHARS_MAX: usize = 80;

/// Highest number of shares. More folders are more likely a mistake than shares.
const SHARES_MAX: usize = 1_000;

/// Attribute with Windows ACLs. The default for root, `security.NTACL`, needs a capability that
/// containers do not have (SYS_ADMIN).
const ACL_ATTRIBUTE: &str = "\tacl_xattr:security_acl_name = user.NTACL\n";

/// Folders and port of a server in a container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Container {
    /// Folder whose folders are the shares.
    pub shares: PathBuf,
    /// Folder of all directories that the server writes to.
    pub state: PathBuf,
    /// Port that the server listens on.
    pub port: u16,
    /// File with lines for single shares or for `[global]`, if there is one.
    more: PathBuf,
}

impl Container {
    /// Whether the environment says that this is a container.
    pub fn is_here() -> bool {
        env::var_os(MARK_VARIABLE).is_some_and(|value| !value.is_empty())
    }

    /// Reads the variables of the environment.
    ///
    /// # Errors
    /// A variable has a value that cannot be used.
    pub fn from_environment() -> anyhow::Result<Self> {
        Self::of(&|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn of(variable: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<Self> {
        let folder = |name: &str, default: &str| -> anyhow::Result<PathBuf> {
            let path = PathBuf::from(variable(name).unwrap_or_else(|| default.into()));
            ensure!(path.is_absolute(), "{name} is not an absolute path");
            Ok(path)
        };
        let port = match variable(PORT_VARIABLE) {
            None => PORT,
            Some(text) => text
                .to_str()
                .and_then(|text| text.parse().ok())
                .filter(|port| *port != 0)
                .with_context(|| format!("{PORT_VARIABLE} is not a port"))?,
        };
        let shares = folder(SHARES_VARIABLE, "/shares")?;
        let state = folder(STATE_VARIABLE, "/state")?;
        Ok(Self { shares, state, port, more: CONFIG_FILE.into() })
    }

    /// Checks what the server needs of its surroundings, and gives new volumes to their users.
    ///
    /// # Errors
    /// Root lacks the capabilities to act as other users.
    pub fn prepare(&self, owner: (u32, u32)) -> anyhow::Result<()> {
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            let capabilities = rustix::thread::capabilities(None).context("capabilities")?;
            let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
            ensure!(
                capabilities.effective.contains(needed),
                "root needs the capabilities SETUID and SETGID to act as the users; give them \
                 back, or start the container as another user"
            );
        }
        for (_, path) in self.folders()?.fit {
            if is_root && is_new(&path) {
                let (uid, gid) = owner;
                match std::os::unix::fs::lchown(&path, Some(uid), Some(gid)) {
                    Ok(()) => tracing::info!(
                        "gave the empty folder {path:?} of root to the user id {uid}"
                    ),
                    Err(error) => {
                        tracing::warn!("cannot give {path:?} to the user id {uid}: {error}")
                    }
                }
            } else if !is_root {
                warn_of_rights(&path);
            }
        }
        Ok(())
    }

    /// Returns the configuration as the text of an smb.conf.
    ///
    /// # Errors
    /// There is no share.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        let fit = self.folders()?.fit;
        ensure!(
            !fit.is_empty(),
            "there is no folder to share: mount volumes below {:?}",
            self.shares
        );
        let quote = |path: &Path| path.to_string_lossy().replace('%', "%%");
        // A container knows neither the name of its host nor its addresses: any name is accepted,
        // and no further connections are offered.
        let mut text = format!(
            "[global]\n\tsmb ports = {}\n\tbase directory = {}\n\tserver signing = mandatory\n\
             \tadditional dns hostnames = *\n\tserver multi channel support = no\n\
             \tchoro:log format = json\n\tread only = no\n\
             \tvfs objects = acl_xattr streams_xattr\n",
            self.port,
            quote(&self.state)
        );
        // First, because lines in `[global]` change only the shares below them.
        if self.more.exists() {
            text.push_str(&format!("\tinclude = {}\n", quote(&self.more)));
        }
        for (name, path) in fit {
            text.push_str(&format!("[{name}]\n\tpath = {}\n{ACL_ATTRIBUTE}", quote(&path)));
        }
        Ok(text)
    }

    /// Returns a warning for each folder that is not shared.
    ///
    /// # Errors
    /// The folders cannot be listed.
    pub(crate) fn warnings(&self) -> anyhow::Result<Vec<Warning>> {
        let warning = |name: OsString| Warning {
            file: self.shares.display().to_string(),
            line: 0,
            kind: WarningKind::NotServed,
            message: format!("{name:?} is not shared: its name cannot be that of a share"),
        };
        Ok(self.folders()?.unfit.into_iter().map(warning).collect())
    }

    /// Returns the folders, sorted by name. Files, links and hidden folders are no shares.
    fn folders(&self) -> anyhow::Result<Folders> {
        let reading = || format!("cannot read {:?}", self.shares);
        let mut folders = Folders::default();
        for entry in fs::read_dir(&self.shares).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let name = entry.file_name();
            let is_hidden = name.as_bytes().starts_with(b".") || name == "lost+found";
            if is_hidden || !entry.file_type().with_context(reading)?.is_dir() {
                continue;
            }
            match name.to_str().filter(|name| is_fit(name)) {
                Some(name) => folders.fit.push((name.to_owned(), entry.path())),
                None => folders.unfit.push(name),
            }
            if folders.fit.len() > SHARES_MAX {
                bail!("{:?} has more than {SHARES_MAX} folders", self.shares);
            }
        }
        folders.fit.sort();
        folders.unfit.sort();
        Ok(folders)
    }
}

/// Folders below that of the shares.
#[derive(Debug, Default)]
struct Folders {
    /// Names and paths of shares.
    fit: Vec<(String, PathBuf)>,
    /// Names that no share can have.
    unfit: Vec<OsString>,
}

fn is_fit(name: &str) -> bool {
    // A folder of this name is hardly one with drivers of printers.
    let is_reserved = name.eq_ignore_ascii_case("print$");
    config::is_share_name(name) && name.chars().count() <= NAME_CHARS_MAX && !is_reserved
}

/// Logs what this process may not do in a folder that it serves.
fn warn_of_rights(path: &Path) {
    let uid = rustix::process::geteuid().as_raw();
    let may = |access| rustix::fs::access(path, access | Access::EXEC_OK).is_ok();
    if !may(Access::READ_OK) {
        tracing::warn!("{path:?} cannot be served: the user id {uid} may not read it");
    } else if !may(Access::WRITE_OK) {
        tracing::warn!("{path:?} is read-only: the user id {uid} may not write to it");
    }
}

/// Returns true for an empty folder of root's: a volume that nobody has used.
fn is_new(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_roots = fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && it.uid() == 0);
    is_roots && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use config::Config;

    use super::{Container, is_fit};

    fn container(root: &Path) -> Container {
        Container {
            shares: root.join("shares"),
            state: "/state".into(),
            port: 4_450,
            more: root.join("smb.conf"),
        }
    }

    #[test]
    fn each_folder_is_a_share_and_nothing_else_is() {
        let root = tempfile::tempdir().expect("there is space");
        for name in ["b", "a share", ".hidden", "lost+found", "a=b", "homes"] {
            fs::create_dir_all(root.path().join("shares").join(name)).expect("there is space");
        }
        fs::write(root.path().join("shares/file"), "").expect("there is space");
        symlink("b", root.path().join("shares/link")).expect("it is new");
        let text = container(root.path()).text().expect("there are shares");
        let (config, warnings) =
            Config::parse_with_includes(&text, "test").expect("it is well-formed");
        assert!(warnings.is_empty(), "{warnings:?}");
        let names: Vec<&str> = config.shares.iter().map(|share| share.name.as_str()).collect();
        assert_eq!(names, ["a share", "b"]);
        let warnings = container(root.path()).warnings().expect("there are folders");
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let shares = root.path().join("shares");
        let not_shared = |name| {
            let shares = shares.display();
            format!("{shares}: \"{name}\" is not shared: its name cannot be that of a share")
        };
        assert_eq!(warnings, ["a=b", "homes"].map(not_shared));
        let share = config.share("b").expect("it is there");
        assert_eq!(Path::new(&share.path), root.path().join("shares/b"));
        assert!(!share.read_only && share.has_module("acl_xattr"));
        assert_eq!(share.option("acl_xattr", "security_acl_name"), Some("user.NTACL"));
        assert_eq!(config.global.smb_ports, [4_450]);
        assert_eq!(config.directories().private, Path::new("/state/private"));
    }

    #[test]
    fn lines_of_a_file_change_a_share() {
        let root = tempfile::tempdir().expect("there is space");
        fs::create_dir_all(root.path().join("shares/films")).expect("there is space");
        fs::write(
            root.path().join("smb.conf"),
            "[films]\nread only = yes\n[global]\nhide dot files = no\n",
        )
        .expect("there is space");
        let text = container(root.path()).text().expect("there are shares");
        let (config, warnings) =
            Config::parse_with_includes(&text, "test").expect("it is well-formed");
        assert!(warnings.is_empty(), "{warnings:?}");
        let share = config.share("films").expect("it is there");
        assert!(share.read_only && share.path.ends_with("shares/films"));
        // As in any smb.conf, for the shares below it.
        fs::create_dir(root.path().join("shares/music")).expect("there is space");
        let text = container(root.path()).text().expect("there are shares");
        let (config, _) = Config::parse_with_includes(&text, "test").expect("it is well-formed");
        let hides = |name| config.share(name).expect("it is there").hide_dot_files;
        assert!(hides("films") && !hides("music"));
    }

    #[test]
    fn without_a_folder_there_is_no_server() {
        let root = tempfile::tempdir().expect("there is space");
        container(root.path()).text().expect_err("nothing is mounted");
        fs::create_dir(root.path().join("shares")).expect("there is space");
        let error = container(root.path()).text().expect_err("nothing is mounted");
        assert!(error.to_string().contains("mount volumes below"), "{error}");
    }

    #[test]
    fn variables_replace_folders_and_port() {
        let of = |variables: &[(&str, &str)]| {
            Container::of(&|name| {
                let found = variables.iter().find(|(it, _)| *it == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let default = of(&[]).expect("nothing is needed");
        assert_eq!((default.shares, default.port), (PathBuf::from("/shares"), 445));
        let other = of(&[("CHORO_SHARES", "/srv"), ("CHORO_PORT", "4450")]).expect("both are fit");
        assert_eq!((other.shares, other.port), (PathBuf::from("/srv"), 4_450));
        for unfit in [("CHORO_STATE", "state"), ("CHORO_PORT", "0"), ("CHORO_PORT", "smb")] {
            let error = of(&[unfit]).expect_err("it is not fit");
            assert!(error.to_string().starts_with(unfit.0), "{error}");
        }
    }

    #[test]
    fn names_that_mean_something_else_are_no_shares() {
        for name in ["", "IPC$", "Global", "a/b", "a:b", " a", "a\nb", "100%", &"x".repeat(81)] {
            assert!(!is_fit(name), "{name}");
        }
        assert!(is_fit("Bücher & Filme (2026)") && is_fit("hidden$"));
    }
}
