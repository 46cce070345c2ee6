//! Shares that are added and removed by a command, or by an administrator over the network.
//!
//! They are in shares.conf in the `state directory`, which the configuration has to include; that
//! is a link to the file, which workers may replace (`shares_folder`). The configuration itself is
//! the operator's: nothing here changes it.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use config::Config;
use dtyp::security_descriptor::Control;
use dtyp::{SecurityDescriptor, SecurityInformation};
use rustix::fs::{FlockOperation, OFlags, flock};
use settings::{Settings, Source, replace_file};
use tracing::warn;

use super::{share_security, shares_folder};

/// Name of the file in the state directory.
const FILE_NAME: &str = "shares.conf";

/// Name of the lock file, which no change replaces.
const LOCK_NAME: &str = "shares.lock";

/// Permissions of the lock file: its owner's alone.
const LOCK_MODE: u32 = 0o600;

/// Permissions of the file: it has no secrets, and root reads it as configuration.
const FILE_MODE: u32 = 0o644;

/// Permissions of the state directory, if the server has not made it yet.
const STATE_MODE: u32 = 0o755;

/// Permission of others to write.
const OTHERS_WRITE: u32 = 0o002;

/// First line of a new file.
const HEADER: &str =
    "# Shares added by commands and administrators; the configuration includes it.\n";

/// Bytes of the file at most: some ten thousand shares.
const FILE_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Longest name of a share in characters: NNLEN of Windows (lmcons.h).
const NAME_CHARS_MAX: usize = 80;

/// Longest description in characters: MAXCOMMENTSZ of Windows (lmcons.h).
const COMMENT_CHARS_MAX: usize = 256;

/// Highest value of `max connections`; above it there is no limit.
const USERS_MAX: u32 = 0x7FFF_FFFF;

/// Reason why shares were not changed.
#[derive(Debug)]
pub enum ChangeFault {
    /// There is a share of this name already.
    Duplicate(String),
    /// The name cannot be that of a share.
    InvalidName(String),
    /// The file cannot be read or written.
    Io(anyhow::Error),
    /// The folder does not exist.
    NoFolder(PathBuf),
    /// The file has no such share; the configuration may.
    NoShare(PathBuf, String),
    /// The configuration does not have what was added.
    NotIncluded(String),
    /// A value cannot be written into the file.
    Unfit(&'static str),
}

/// A share to be added.
#[derive(Clone, Debug, Default)]
pub struct NewShare {
    /// Name that the share gets.
    pub name: String,
    /// Folder to share, an absolute path.
    pub path: PathBuf,
    /// Description in lists of shares.
    pub comment: String,
    /// True if nobody may write.
    pub read_only: bool,
    /// True if guests may connect.
    pub guest_ok: bool,
    /// Highest number of connections; 0 for any.
    pub max_connections: u32,
    /// Rights of users in the share; `None` for all rights for everyone.
    pub security: Option<SecurityDescriptor>,
}

/// Changed properties of a share.
#[derive(Clone, Debug, Default)]
pub struct ChangedShare {
    /// Description in lists of shares.
    pub comment: Option<String>,
    /// Highest number of connections; 0 for any.
    pub max_connections: Option<u32>,
    /// Word of the parameter `csc policy`.
    pub csc_policy: Option<&'static str>,
}

impl ChangedShare {
    /// True if nothing is to be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { comment, max_connections, csc_policy } = self;
        comment.is_none() && max_connections.is_none() && csc_policy.is_none()
    }
}

/// The file, locked against other commands and workers.
#[derive(Debug)]
pub struct AddedShares<'a> {
    settings: &'a Settings,
    path: PathBuf,
    text: String,
    /// Directory of the file itself.
    folder: PathBuf,
    _lock: File,
}

impl<'a> AddedShares<'a> {
    /// Opens the file, and waits for the lock.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(settings: &'a Settings) -> anyhow::Result<Self> {
        Self::lock(settings, FlockOperation::LockExclusive)
    }

    /// Opens the file, without waiting for another command.
    ///
    /// # Errors
    /// Another command changes shares, or the file cannot be read.
    pub fn open_at_once(settings: &'a Settings) -> anyhow::Result<Self> {
        Self::lock(settings, FlockOperation::NonBlockingLockExclusive)
    }

    /// Refuses a file that any user of this machine may have written.
    ///
    /// # Errors
    /// It is such a file, or cannot be looked at.
    pub fn verify_writers(state: &Path) -> anyhow::Result<()> {
        let path = state.join(FILE_NAME);
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.mode(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let path = path.display();
        ensure!(
            mode & OTHERS_WRITE == 0,
            "every user may write to {path}: see that it has your shares only, then run \
             `chmod 644 {path}`"
        );
        Ok(())
    }

    fn lock(settings: &'a Settings, operation: FlockOperation) -> anyhow::Result<Self> {
        let folder = &settings.directories.state;
        let made = DirBuilder::new().recursive(true).mode(STATE_MODE).create(folder);
        made.with_context(|| folder.display().to_string())?;
        let folder = Self::prepare_folder(folder)?;
        let lock = lock_file(&folder)?;
        flock(&lock, operation).context("cannot lock the file of added shares")?;
        let (path, text) = Self::read(settings)?;
        Ok(Self { settings, path, text, folder, _lock: lock })
    }

    /// Makes the directory of the files that are changed here, and returns it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn prepare_folder(state: &Path) -> anyhow::Result<PathBuf> {
        shares_folder::prepare(state, &[FILE_NAME, share_security::FILE_NAME])
    }

    /// Reads name and content of the file. It is always replaced as a whole, so this needs no lock.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(settings: &Settings) -> anyhow::Result<(PathBuf, String)> {
        let path = settings.directories.state.join(FILE_NAME);
        match fs::read_to_string(&path) {
            Ok(text) => Ok((path, text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((path, HEADER.to_owned())),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Name and content of the file.
    #[must_use]
    pub fn text(&self) -> (&Path, &str) {
        (&self.path, &self.text)
    }

    /// Adds a share, and verifies that the configuration has it now.
    ///
    /// # Errors
    /// The share cannot be served as it is described; then nothing has changed.
    pub fn add(&self, new: &NewShare) -> Result<(), ChangeFault> {
        let path = self.write(new)?;
        is_served(&self.settings.source, &new.name, &path, &self.path).or_else(|fault| {
            self.replace(&self.text)?;
            self.set_security(&new.name, None)?;
            Err(fault)
        })
    }

    /// Adds a share without a look at the configuration, which has to include it. Returns its
    /// folder without links.
    ///
    /// # Errors
    /// The share cannot be written as it is described; then nothing has changed.
    pub fn write(&self, new: &NewShare) -> Result<PathBuf, ChangeFault> {
        let NewShare { name, path, comment, .. } = new;
        let config = &self.settings.config;
        if !config::is_share_name(name) || name.chars().count() > NAME_CHARS_MAX {
            return Err(ChangeFault::InvalidName(name.clone()));
        }
        if config.share(name).is_some() || self.has(name) {
            return Err(ChangeFault::Duplicate(name.clone()));
        }
        let path = folder(path)?;
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        let mut section = format!("[{name}]\n");
        for (parameter, value) in [
            ("path", path_value(&path)?),
            ("comment", comment_value(comment)?),
            ("read only", yes_or_no(new.read_only).to_owned()),
            ("guest ok", yes_or_no(new.guest_ok).to_owned()),
        ] {
            section.push_str(&line(parameter, &value));
        }
        if let max @ 1.. = new.max_connections {
            section.push_str(&line("max connections", &connections_value(max)));
        }
        let text = format!("{}{section}", self.text);
        let config = self.parse(&text)?;
        if !has_share(&config, name, &path) {
            return Err(ChangeFault::Unfit("the folder would be read as another one"));
        }
        // Before the share is there: a former one of the name may have left a descriptor.
        self.set_security(name, new.security.as_ref())?;
        self.replace(&text)?;
        Ok(path)
    }

    /// Changes a share that was added.
    ///
    /// # Errors
    /// There is no such share, or a value cannot be written; then nothing has changed.
    pub fn change(&self, name: &str, changed: &ChangedShare) -> Result<(), ChangeFault> {
        let mut values = Vec::new();
        if let Some(comment) = &changed.comment {
            values.push(("comment", comment_value(comment)?));
        }
        if let Some(max) = changed.max_connections {
            values.push(("max connections", connections_value(max)));
        }
        if let Some(policy) = changed.csc_policy {
            values.push(("csc policy", policy.to_owned()));
        }
        let text = with_values(&self.text, name, &values);
        let text = text.ok_or_else(|| ChangeFault::NoShare(self.path.clone(), name.to_owned()))?;
        self.parse(&text)?;
        self.replace(&text)
    }

    /// Removes a share that was added, and its descriptor, unless the configuration has another
    /// share of the name, or cannot be read.
    ///
    /// # Errors
    /// There is no such share.
    pub fn remove(&self, name: &str) -> Result<(), ChangeFault> {
        let Some(rest) = without(&self.text, name) else {
            return Err(ChangeFault::NoShare(self.path.clone(), name.to_owned()));
        };
        self.replace(&rest)?;
        match Settings::load(self.settings.source.clone()) {
            Ok(now) if now.config.share(name).is_none() => self.set_security(name, None),
            Ok(_) => Ok(()),
            Err(error) => {
                warn!("the descriptor of the removed share {name} stays: {error:#}");
                Ok(())
            }
        }
    }

    fn set_security(
        &self,
        name: &str,
        security: Option<&SecurityDescriptor>,
    ) -> Result<(), ChangeFault> {
        let path = self.folder.join(share_security::FILE_NAME);
        share_security::write(&path, name, security).map_err(ChangeFault::Io)
    }

    /// Replaces the descriptor of a share, also of one of the configuration. Without DACL_PRESENT
    /// ([MS-DTYP] 2.4.6) the old entries stay: nobody has asked for a share that is open to all.
    ///
    /// # Errors
    /// The descriptors cannot be read or written.
    pub fn change_security(
        &self,
        name: &str,
        mut security: SecurityDescriptor,
    ) -> Result<(), ChangeFault> {
        if security.dacl.is_none() && !security.control.contains(Control::DACL_PRESENT) {
            let path = self.folder.join(share_security::FILE_NAME);
            let old = share_security::read(&path, name).map_err(ChangeFault::Io)?;
            let old = old.unwrap_or_else(share_security::everyone);
            security.replace(SecurityInformation::DACL, old);
        }
        self.set_security(name, Some(&security))
    }

    /// True if the file has a share of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        without(&self.text, name).is_some()
    }

    /// Reads a text as the configuration would: one that it refuses must never be in the file, or
    /// the server does not start again. What is removed needs no such look.
    fn parse(&self, text: &str) -> Result<Config, ChangeFault> {
        let parsed = Config::parse(text, &self.path.display().to_string());
        let parsed = parsed.inspect_err(|error| warn!("a share cannot be written: {error}"));
        let fault = "the configuration could not be read with such a share";
        parsed.map(|(config, _)| config).map_err(|_| ChangeFault::Unfit(fault))
    }

    /// Replaces the file at once, so that nobody reads a part of it.
    fn replace(&self, text: &str) -> Result<(), ChangeFault> {
        if text.len() > FILE_BYTES_MAX {
            return Err(ChangeFault::Unfit("the file of added shares is full"));
        }
        let written = replace_file(&self.folder.join(FILE_NAME), text.as_bytes(), FILE_MODE);
        let written = written.with_context(|| format!("cannot write {}", self.path.display()));
        written.map_err(ChangeFault::Io)
    }
}

impl fmt::Display for ChangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(name) => write!(f, "there is a share {name:?} already"),
            Self::InvalidName(name) => write!(f, "{name:?} cannot be the name of a share"),
            Self::Io(error) => write!(f, "{error:#}"),
            Self::NoFolder(path) => write!(f, "{} is not a directory", path.display()),
            Self::NoShare(file, name) => write!(f, "{} has no share {name:?}", file.display()),
            Self::NotIncluded(reason) => f.write_str(reason),
            Self::Unfit(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ChangeFault {}

/// Opens the file to lock. Whoever can open a file or folder can lock it, and so keep all others
/// from changing shares: this one is the server's alone.
fn lock_file(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK_NAME);
    let open = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(LOCK_MODE);
        // The owner of the folder could lead root to any other file.
        let lock = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&path)?;
        let (owner, found) = (fs::metadata(folder)?.uid(), lock.metadata()?);
        if found.uid() != owner {
            // Root has run a command, and the server runs as another user.
            let is_lock = found.is_file() && found.nlink() == 1 && found.len() == 0;
            if !is_lock {
                return Err(io::Error::other("it is no lock file of this server"));
            }
            fchown(&lock, Some(owner), None)?;
        }
        io::Result::Ok(lock)
    };
    open().with_context(|| path.display().to_string())
}

/// Returns the folder without links; a relative one has no meaning for a server.
fn folder(path: &Path) -> Result<PathBuf, ChangeFault> {
    let none = || ChangeFault::NoFolder(path.to_owned());
    let found = path.canonicalize().ok().filter(|_| path.is_absolute()).ok_or_else(none)?;
    if found.is_dir() { Ok(found) } else { Err(none()) }
}

fn path_value(path: &Path) -> Result<String, ChangeFault> {
    let text = path.to_str().ok_or(ChangeFault::Unfit("the folder's name is not UTF-8"))?;
    text_value(text)
}

fn comment_value(comment: &str) -> Result<String, ChangeFault> {
    if comment.chars().count() > COMMENT_CHARS_MAX {
        return Err(ChangeFault::Unfit("a comment has at most 256 characters"));
    }
    text_value(comment)
}

/// Returns a text as the value of a parameter. What follows a percent sign would be replaced.
fn text_value(text: &str) -> Result<String, ChangeFault> {
    // The parser trims a line before it looks for the backslash that joins the next line to it.
    if text.contains(char::is_control) || text.trim().ends_with('\\') {
        return Err(ChangeFault::Unfit(
            "a folder or comment with control characters or a `\\` at its end cannot be written",
        ));
    }
    if text.trim() != text || !config::is_read_as_written(text) {
        return Err(ChangeFault::Unfit(
            "outer spaces of a folder or comment, and runs of inner ones, would be lost",
        ));
    }
    Ok(text.replace('%', "%%"))
}

fn connections_value(max: u32) -> String {
    if max > USERS_MAX { "0".to_owned() } else { max.to_string() }
}

fn line(parameter: &str, value: &str) -> String {
    format!("\t{parameter} = {value}\n")
}

/// True if a configuration has a share with this folder.
#[must_use]
pub fn has_share(config: &Config, name: &str, path: &Path) -> bool {
    let folder = config.share(name).map(|it| config.substitutions().expand_path(&it.path));
    folder.is_some_and(|folder| Path::new(&folder) == path)
}

/// Verifies that the configuration has the share now.
fn is_served(source: &Source, name: &str, path: &Path, file: &Path) -> Result<(), ChangeFault> {
    let config = Settings::load(source.clone()).map_err(ChangeFault::Io)?.config;
    if has_share(&config, name, path) {
        return Ok(());
    }
    let Some(share) = config.share(name) else {
        let file = file.display();
        return Err(ChangeFault::NotIncluded(format!(
            "{source} does not include the file of this command; add to its end: include = {file}"
        )));
    };
    let served = config.substitutions().expand_path(&share.path);
    let reason = format!("the configuration would read the folder as {served}");
    Err(ChangeFault::NotIncluded(reason))
}

/// Returns the text without the section of a share; `None` if there is none.
fn without(text: &str, name: &str) -> Option<String> {
    let (mut rest, mut is_in, mut found) = (String::new(), false, false);
    for line in text.split_inclusive('\n') {
        if let Some(section) = section_name(line) {
            is_in = section.to_lowercase() == name.to_lowercase();
            found |= is_in;
        }
        if !is_in {
            rest.push_str(line);
        }
    }
    found.then_some(rest)
}

/// Returns the text with other values in the section of a share; `None` if there is none. Lines of
/// these parameters go, and new ones follow the section's header.
fn with_values(text: &str, name: &str, values: &[(&str, String)]) -> Option<String> {
    let (mut changed, mut is_in, mut found) = (String::new(), false, false);
    for line_of_file in text.split_inclusive('\n') {
        if let Some(section) = section_name(line_of_file) {
            is_in = section.to_lowercase() == name.to_lowercase();
            changed.push_str(line_of_file);
            if is_in && !found {
                found = true;
                values.iter().for_each(|(parameter, value)| {
                    changed.push_str(&line(parameter, value));
                });
            }
            continue;
        }
        let parameter = line_of_file.split_once('=').map(|(parameter, _)| parameter.trim());
        let is_replaced = is_in && values.iter().any(|(replaced, _)| parameter == Some(*replaced));
        if !is_replaced {
            changed.push_str(line_of_file);
        }
    }
    found.then_some(changed)
}

fn section_name(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use dtyp::security_descriptor::Control;
    use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};
    use rustix::fs::{FlockOperation, flock};
    use settings::{Settings, Source};
    use tempfile::TempDir;

    use super::{
        AddedShares, COMMENT_CHARS_MAX, ChangeFault, ChangedShare, NAME_CHARS_MAX, NewShare,
        has_share, share_security, text_value, with_values, without,
    };

    const TEXT: &str = "# head\n[one]\n\tpath = /1\n[Two]\n\tpath = /2\n\tcomment = old\n\
                        [three]\n\tpath = /3\n";

    /// A configuration that includes the file of added shares, in a folder with `operators`.
    fn site(operators: &str) -> (TempDir, Settings) {
        let folder = tempfile::tempdir().expect("there is space");
        let state = folder.path().canonicalize().expect("it is there");
        let include = state.join(super::FILE_NAME);
        let text = format!(
            "[global]\nstate directory = {}\n{operators}\ninclude = {}\n",
            state.display(),
            include.display()
        );
        let file = state.join("smb.conf");
        fs::write(&file, text).expect("there is space");
        (folder, Settings::load(Source::File(file)).expect("it is well-formed"))
    }

    /// A share of a folder that exists.
    fn new(settings: &Settings, name: &str) -> NewShare {
        let path = settings.directories.state.join("data");
        fs::create_dir_all(&path).expect("there is space");
        NewShare { name: name.to_owned(), path, ..NewShare::default() }
    }

    /// A descriptor for one user alone.
    fn only(uid: u32) -> SecurityDescriptor {
        let entry = Ace::allow(Sid::unix_user(uid), AccessMask::FILE_ALL, AceFlags::empty());
        let dacl = Some(Acl::new(vec![entry]));
        let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
        SecurityDescriptor::decode(&descriptor.to_bytes()).expect("well-formed")
    }

    #[track_caller]
    fn is_unfit<T: std::fmt::Debug>(done: Result<T, ChangeFault>) {
        assert!(matches!(done, Err(ChangeFault::Unfit(_))), "{done:?}");
    }

    #[test]
    fn nothing_is_written_with_which_the_configuration_cannot_be_read() {
        let (_folder, settings) = site("");
        let shares = AddedShares::open(&settings).expect("ours");
        let films = new(&settings, "films");
        shares
            .add(&NewShare { comment: "ä".repeat(COMMENT_CHARS_MAX), ..films.clone() })
            .expect("Windows allows as many");
        drop(shares);
        let shares = AddedShares::open(&settings).expect("ours");
        let before = shares.text().1.to_owned();
        for len in [COMMENT_CHARS_MAX + 1, 70_000, 1_000_000] {
            let comment = "x".repeat(len);
            let other = new(&settings, "other");
            is_unfit(shares.write(&NewShare { comment: comment.clone(), ..other }));
            let comment = Some(comment);
            is_unfit(shares.change("films", &ChangedShare { comment, ..ChangedShare::default() }));
        }
        let long = new(&settings, &"n".repeat(NAME_CHARS_MAX + 1));
        assert!(matches!(shares.write(&long), Err(ChangeFault::InvalidName(_))));
        drop(shares);
        let shares = AddedShares::open(&settings).expect("ours");
        assert_eq!(shares.text().1, before);
        let config = Settings::load(settings.source.clone()).expect("it starts again").config;
        assert!(has_share(&config, "films", &films.path));
    }

    #[test]
    fn a_comment_never_swallows_the_line_behind_it() {
        let (_folder, settings) = site("");
        let shares = AddedShares::open(&settings).expect("ours");
        let films = new(&settings, "films");
        for comment in ["x\\", "x\\ ", "x\\   "] {
            is_unfit(shares.write(&NewShare { comment: comment.to_owned(), ..films.clone() }));
        }
        shares
            .add(&NewShare { comment: "\\ x".to_owned(), read_only: true, ..films })
            .expect("a backslash elsewhere is a letter");
        drop(shares);
        let shares = AddedShares::open(&settings).expect("ours");
        let comment = Some("x\\ ".to_owned());
        is_unfit(shares.change("films", &ChangedShare { comment, ..ChangedShare::default() }));
        let config = Settings::load(settings.source.clone()).expect("it is well-formed").config;
        assert!(config.share("films").expect("it was added").read_only);
    }

    #[test]
    fn no_share_or_folder_becomes_another_one_by_its_spaces() {
        let (_folder, settings) = site("[a b]\npath = /srv\nread only = yes");
        let shares = AddedShares::open(&settings).expect("ours");
        let other = new(&settings, "a  b");
        assert!(matches!(shares.write(&other), Err(ChangeFault::InvalidName(_))));
        let path = settings.directories.state.join("a  b");
        fs::create_dir(&path).expect("there is space");
        is_unfit(shares.write(&NewShare { path, ..new(&settings, "films") }));
        assert_eq!(shares.text().1, super::HEADER);
        drop(shares);
        let config = Settings::load(settings.source.clone()).expect("it is well-formed").config;
        assert_eq!(config.share("a b").map(|it| it.path.as_str()), Some("/srv"));
    }

    #[test]
    fn a_descriptor_without_a_dacl_changes_nobodys_rights() {
        let (_folder, settings) = site("");
        let shares = AddedShares::open(&settings).expect("ours");
        let path = share_security::path_of(&settings.directories.state);
        let dacl_now = || share_security::read(&path, "films").expect("readable").map(|it| it.dacl);
        let owner = Some(Sid::administrators());
        let without = SecurityDescriptor { owner, ..SecurityDescriptor::default() };
        let without = SecurityDescriptor::decode(&without.to_bytes()).expect("well-formed");
        shares.change_security("films", without.clone()).expect("there is space");
        assert_eq!(dacl_now(), Some(share_security::everyone().dacl), "all rights, as before");
        let restricted = only(7);
        shares.change_security("films", restricted.clone()).expect("there is space");
        shares.change_security("films", without).expect("there is space");
        assert_eq!(dacl_now(), Some(restricted.dacl));
        let control = Control::DACL_PRESENT;
        let null = SecurityDescriptor { control, ..SecurityDescriptor::default() };
        shares.change_security("films", null).expect("there is space");
        assert_eq!(dacl_now(), Some(None), "the NULL DACL is one");
    }

    #[test]
    fn the_descriptor_of_an_operators_share_stays_when_an_added_one_of_its_name_goes() {
        let (_folder, settings) = site("");
        let path = share_security::path_of(&settings.directories.state);
        let descriptor = || share_security::read(&path, "films").expect("readable");
        let films = NewShare { security: Some(only(7)), ..new(&settings, "films") };
        let remove = || {
            let shares = AddedShares::open(&settings).expect("ours");
            shares.remove("Films").expect("it is there");
        };
        AddedShares::open(&settings).expect("ours").add(&films).expect("it is served");
        remove();
        assert_eq!(descriptor(), None);
        AddedShares::open(&settings).expect("ours").add(&films).expect("it is served");
        let Source::File(file) = &settings.source else { unreachable!("it is a file") };
        let text = fs::read_to_string(file).expect("ours");
        fs::write(file, format!("{text}[films]\npath = /srv\n")).expect("there is space");
        remove();
        assert_eq!(descriptor(), Some(only(7)));
    }

    #[test]
    fn a_lock_on_the_state_directory_keeps_nobody_from_changing_shares() {
        let (_folder, settings) = site("");
        let state = &settings.directories.state;
        let attack = fs::File::open(state).expect("everybody may open it");
        flock(&attack, FlockOperation::LockExclusive).expect("it is free");
        let shares = AddedShares::open_at_once(&settings).expect("nobody else changes shares");
        AddedShares::open_at_once(&settings).expect_err("somebody changes shares");
        let lock = fs::metadata(state.join("shares").join(super::LOCK_NAME)).expect("it is there");
        assert_eq!(lock.permissions().mode() & 0o777, 0o600);
        drop(shares);
        AddedShares::open_at_once(&settings).expect("the other one has ended");
    }

    #[test]
    fn a_text_that_the_configuration_refuses_is_found_before_it_is_written() {
        let (_folder, settings) = site("");
        let shares = AddedShares::open(&settings).expect("ours");
        shares.parse("[a]\n\tpath = /srv\n").expect("it is well-formed");
        is_unfit(shares.parse(&format!("[a]\n\tcomment = {}\n", "x".repeat(70_000))));
        // A share that breaks the file of somebody else can still be removed.
        let broken = format!("[a]\n\tcomment = {}\n[b]\n\tpath = /b\n", "x".repeat(70_000));
        fs::write(&shares.path, broken).expect("there is space");
        drop(shares);
        let shares = AddedShares::open(&settings).expect("ours");
        is_unfit(shares.write(&new(&settings, "c")));
        shares.remove("a").expect("it is there");
        Settings::load(settings.source.clone()).expect("it starts again");
    }

    #[test]
    fn no_link_in_the_state_directory_leads_a_command_to_another_file() {
        let (folder, settings) = site("");
        let (other, state) = (folder.path().join("other"), &settings.directories.state);
        let [lock, draft] =
            [super::LOCK_NAME, "shares.conf.new"].map(|name| state.join("shares").join(name));
        AddedShares::prepare_folder(state).expect("there is space");
        fs::write(&other, "of somebody else").expect("there is space");
        symlink(&other, &draft).expect("there is space");
        let shares = AddedShares::open(&settings).expect("ours");
        shares.add(&new(&settings, "films")).expect("the link is removed");
        drop(shares);
        fs::remove_file(&lock).expect("it is there");
        symlink(&other, &lock).expect("there is space");
        assert!(AddedShares::open(&settings).is_err(), "a link in the place of the lock");
        assert_eq!(fs::read_to_string(&other).expect("it is there"), "of somebody else");
    }

    #[test]
    fn a_section_goes_and_all_others_stay() {
        let rest = "# head\n[one]\n\tpath = /1\n[three]\n\tpath = /3\n";
        assert_eq!(without(TEXT, "tWO").as_deref(), Some(rest));
        assert_eq!(without(rest, "two"), None);
    }

    #[test]
    fn values_change_in_one_section_alone() {
        let values = [("comment", "new".to_owned()), ("max connections", "3".to_owned())];
        let wanted = "# head\n[one]\n\tpath = /1\n[Two]\n\tcomment = new\n\tmax connections = 3\n\
                      \tpath = /2\n[three]\n\tpath = /3\n";
        assert_eq!(with_values(TEXT, "TWO", &values).as_deref(), Some(wanted));
        assert_eq!(with_values(TEXT, "four", &values), None);
    }

    #[test]
    fn no_value_becomes_another_line_or_a_substitution() {
        for text in ["a\nb", "a\r", "a\\", "a\0", "a\\ ", "a\\  ", " a", "a ", " ", "a  b"] {
            assert!(text_value(text).is_err(), "{text:?}");
        }
        assert_eq!(text_value("50 % of %U").expect("one line"), "50 %% of %%U");
    }

    #[test]
    fn a_file_that_every_user_may_write_to_is_refused() {
        let (folder, settings) = site("");
        let state = &settings.directories.state;
        AddedShares::verify_writers(state).expect("there is none yet");
        let file = folder.path().join(super::FILE_NAME);
        fs::write(&file, TEXT).expect("there is space");
        for (mode, is_refused) in [(0o644, false), (0o666, true), (0o600, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(AddedShares::verify_writers(state).is_err(), is_refused, "{mode:o}");
        }
    }
}
