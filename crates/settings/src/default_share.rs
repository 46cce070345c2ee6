//! The share without a configuration file: one folder, for one user.
//!
//! A server of root's accesses it as the folder's owner, and never as root: a folder that belongs
//! to root is accessed as a system user made for it.

mod folder;
mod system_user;

use std::env;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use auth::NtHash;
use users::{UserDatabase, UserEntry, UsersError};
use zeroize::Zeroizing;

/// The user that is created. Root's server and anyone else's call it the same.
pub const USER_NAME: &str = "choro";

/// Name of the share, for clients.
pub const SHARE_NAME: &str = "share";

/// The folder that a server of root's shares unless another is named.
const PATH_OF_ROOT: &str = "/srv/choro";

/// The port that clients expect; only root may use it, as a rule.
pub const PORT: u16 = 445;

/// Ports to try, in this order, when [`PORT`] is not for us.
pub const OTHER_PORTS: std::ops::Range<u16> = 4450..4460;

/// Characters of a password that we make up, from an alphabet of 31: 79 bits.
const PASSWORD_CHARS: usize = 16;

/// The file beside the user database that keeps a password which could not be shown.
const PASSWORD_FILE: &str = "first_password";

/// Letters and digits that cannot be mistaken for each other when they are typed.
const PASSWORD_ALPHABET: &[u8; 31] = b"abcdefghijkmnpqrstuvwxyz2345678";

/// One folder, and where the server keeps its own files.
#[derive(Clone, Debug)]
pub struct DefaultShare {
    /// The folder that is served.
    pub path: PathBuf,
    /// The port to listen on.
    pub port: u16,
    /// The folder is that of the command line.
    pub(crate) is_named: bool,
    /// Below it are state, private, cache and run; `None` for the system's folders.
    base: Option<PathBuf>,
    /// System user that root's server accesses the folder as; `None` for a server of any other
    /// user.
    acts_as: Option<String>,
}

impl DefaultShare {
    /// The share of the user who runs the command: `path` if given, else `/srv/choro` for root and
    /// `ChoroShare` in the home folder of anyone else.
    ///
    /// # Errors
    /// There is no home folder.
    pub fn for_this_user(path: Option<&Path>) -> anyhow::Result<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let home = || {
            env::var_os("HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute())
                .context("HOME is not set, so the default share has no directory; use --config")
        };
        let is_named = path.is_some();
        let path = match path {
            Some(path) => std::path::absolute(path)?,
            None if is_root => PATH_OF_ROOT.into(),
            None => home()?.join("ChoroShare"),
        };
        let state_home = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let base = match state_home.filter(|path| path.is_absolute()) {
            Some(state_home) => Some(state_home.join("choro")),
            None if is_root => None,
            None => Some(home()?.join(".local/state/choro")),
        };
        let acts_as = is_root.then(|| system_user::NAME.to_owned());
        Ok(Self { path, port: PORT, is_named, base, acts_as })
    }

    /// Makes the folder if need be, and finds out as whom it is served.
    ///
    /// # Errors
    /// The folder cannot be made or is none, or there is nobody to serve it as.
    pub fn prepare(&mut self) -> anyhow::Result<()> {
        if self.acts_as.is_none() {
            // Every file is ours in any case, and becoming someone else is impossible.
            return folder::make(&self.path, folder::OWN_MODE).map(drop);
        }
        self.acts_as = Some(folder::prepare_for_root(&self.path)?);
        Ok(())
    }

    /// The share as the text of an smb.conf.
    pub(crate) fn text(&self) -> String {
        let quote = |path: &Path| path.to_string_lossy().replace('%', "%%");
        let mut text =
            format!("[global]\n\tsmb ports = {}\n\tserver signing = mandatory\n", self.port);
        if let Some(base) = &self.base {
            text.push_str(&format!("\tbase directory = {}\n", quote(base)));
        }
        text.push_str(&format!("[{SHARE_NAME}]\n\tpath = {}\n", quote(&self.path)));
        text.push_str(&format!("\tread only = No\n\tvalid users = {USER_NAME}\n"));
        text.push_str("\tvfs objects = acl_xattr streams_xattr\n");
        if let Some(user) = &self.acts_as {
            text.push_str(&format!("\tforce user = {user}\n"));
        }
        text
    }
}

/// Place of the password of [`USER_NAME`].
pub enum Password {
    /// Shown or stored when the user was created.
    Known,
    /// Nowhere else: it was made just now, and only its hash is stored.
    New(Zeroizing<String>),
    /// In this file, which only its owner can read.
    Kept(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known => "Known",
            Self::New(_) => "New",
            Self::Kept(_) => "Kept",
        })
    }
}

/// Makes sure that [`USER_NAME`] exists. Returns the password of a new user if `can_show`;
/// otherwise stores it in a file beside the database, since output that is not a terminal is mostly
/// a log, with more readers than users.
///
/// # Errors
/// As [`UsersError`].
pub fn ensure_user(users: &Path, can_show: bool) -> Result<Password, UsersError> {
    if UserDatabase::open(users)?.find(USER_NAME)?.is_some() {
        return Ok(Password::Known);
    }
    let password = random_password();
    let file = users.with_file_name(PASSWORD_FILE);
    UserDatabase::update(users, |database| {
        if !can_show {
            keep(&file, &password).map_err(|error| UsersError::Io {
                doing: "write",
                path: file.clone(),
                error,
            })?;
        }
        database.add(UserEntry::new(USER_NAME, NtHash::of_password(&password)))
    })?;
    Ok(if can_show { Password::New(password) } else { Password::Kept(file) })
}

/// Writes the password to a new file, in place of one that an earlier user had.
fn keep(file: &Path, password: &str) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(password.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

pub(crate) fn random_password() -> Zeroizing<String> {
    let mut password = Zeroizing::new(String::with_capacity(PASSWORD_CHARS));
    let mut random = Zeroizing::new([0_u8; 64]);
    while password.len() < PASSWORD_CHARS {
        let count = rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())
            .expect("the kernel has a source of randomness on every system we run on");
        // Of 256 values, 248 are eight full alphabets; the rest would favor the first letters.
        let letters = random[..count].iter().filter(|&&byte| byte < 248);
        for &byte in letters.take(PASSWORD_CHARS - password.len()) {
            password.push(char::from(PASSWORD_ALPHABET[usize::from(byte) % 31]));
        }
    }
    password
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use auth::NtHash;
    use config::Config;

    use super::{
        DefaultShare, PASSWORD_ALPHABET, PASSWORD_FILE, Password, USER_NAME, ensure_user,
        random_password,
    };
    use users::UserDatabase;

    #[test]
    fn the_text_is_a_configuration_without_warnings() {
        let default = DefaultShare {
            path: "/srv/100% ours".into(),
            port: 4451,
            is_named: true,
            base: Some("/home/x/.local/state/choro".into()),
            acts_as: Some("x".to_owned()),
        };
        let (config, warnings) = Config::parse(&default.text(), "test").expect("it is well-formed");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(config.global.smb_ports, [4451]);
        assert_eq!(config.directories().lock, Path::new("/home/x/.local/state/choro/run"));
        let share = config.share("share").expect("it is there");
        assert_eq!(config::Substitutions::default().expand_path(&share.path), "/srv/100% ours");
        assert_eq!(share.force_user, "x");
        assert!(!share.read_only && !share.guest_ok);
        assert!(config.global.signing_required());
    }

    #[test]
    fn passwords_are_random_and_typeable() {
        let (first, second) = (random_password(), random_password());
        assert_eq!(first.len(), 16);
        assert_ne!(first, second);
        assert!(first.bytes().all(|byte| PASSWORD_ALPHABET.contains(&byte)));
    }

    #[test]
    fn the_password_is_shown_once() {
        let directory = tempfile::tempdir().expect("there is space");
        let users = directory.path().join("private/users");
        let Password::New(password) = ensure_user(&users, true).expect("it can be made") else {
            panic!("it is new, and there is a terminal");
        };
        assert_eq!(password.len(), 16);
        assert!(!users.with_file_name(PASSWORD_FILE).exists());
        let again = ensure_user(&users, true).expect("it can be read");
        assert!(matches!(again, Password::Known), "it was shown already");
    }

    #[test]
    fn a_password_that_a_log_would_show_is_kept_for_the_owners_eyes() {
        let directory = tempfile::tempdir().expect("there is space");
        let users = directory.path().join("private/users");
        let Password::Kept(file) = ensure_user(&users, false).expect("it can be made") else {
            panic!("it is not to be shown");
        };
        let metadata = fs::metadata(&file).expect("it was written");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let password = fs::read_to_string(&file).expect("ours");
        let user = UserDatabase::open(&users).expect("ours").find(USER_NAME).expect("ours");
        let hash = user.expect("it is there").nt_hash;
        assert_eq!(hash.as_bytes(), NtHash::of_password(password.trim_end()).as_bytes());
    }
}
