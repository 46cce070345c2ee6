//! Users of a container: from variables of the environment, or from a file.
//!
//! `CHORO_USER_ANNA_FILE` names a file with the password of the user `anna`, such as a secret of
//! Docker or Podman; `CHORO_USER_ANNA_UID` and `_GID` are the ids on files. A file of users has one
//! line for each: `name uid gids secret`.
//!
//! The list decides who may log on: users who are not in it any more are removed. Users added with
//! `choro user add` are not in it, and stay.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use auth::NtHash;
use users::{Identity, UserDatabase, UserEntry, check_name};
use zeroize::Zeroizing;

use crate::default_share::{USER_NAME, random_password};
use crate::replaced_file::replace_file;

/// Variable with the file of users.
const FILE_VARIABLE: &str = "CHORO_USERS";

/// The file of users that is read if there is one.
const FILE: &str = "/etc/choro/users.conf";

/// Beginning of the variables of a user.
const PREFIX: &str = "CHORO_USER_";

/// Ids of users who are given none, as in many images.
const ID: u32 = 1_000;

/// Largest file of users. 10,000 lines are shorter.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest password in bytes, as of `choro user`.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// The file beside the user database with the names of the last list.
const NAMES_FILE: &str = "container_users";

/// Word for a field without a value.
const NOTHING: &str = "-";

/// A user of the list.
#[derive(Debug)]
pub struct ListedUser {
    name: String,
    identity: Identity,
    secret: Secret,
}

/// Source of a user's password.
#[derive(Debug)]
enum Secret {
    /// The first line of this file.
    File(PathBuf),
    /// Only its hash is known.
    Hash(NtHash),
    /// It is made up when the user is new.
    MadeUp,
}

/// A user whose password was made up now.
#[derive(Debug)]
pub struct NewUser {
    /// Name of the user, as listed.
    pub name: String,
    /// The password, which is nowhere else.
    pub password: Zeroizing<String>,
}

/// Reads the list of users. Without one there is a single user, [`USER_NAME`].
///
/// # Errors
/// A variable or a line cannot be understood.
pub fn list() -> anyhow::Result<Vec<ListedUser>> {
    let mut users = of_variables(env::vars_os())?;
    let named = env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let is_named = named.is_some();
    let path = named.unwrap_or_else(|| FILE.into());
    if is_named || path.exists() {
        users.extend(of_file(&path)?);
    }
    if users.is_empty() {
        users.push(ListedUser::of(USER_NAME, None, None, Secret::MadeUp)?);
    }
    let mut names: Vec<String> = users.iter().map(|user| user.name.to_lowercase()).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("the user {} is listed twice", pair[0]);
    }
    Ok(users)
}

/// Returns the ids that new volumes are given to: those of the first user.
pub fn owner(users: &[ListedUser]) -> (u32, u32) {
    users.first().map_or((ID, ID), |user| (user.identity.uid(), user.identity.gid()))
}

/// Brings the user database into line with the list. Returns the users whose passwords were made
/// up, to be shown once.
///
/// # Errors
/// A secret cannot be read, or the database cannot be changed.
pub fn apply(list: &[ListedUser], database: &Path) -> anyhow::Result<Vec<NewUser>> {
    let names_file = database.with_file_name(NAMES_FILE);
    let before = match fs::read_to_string(&names_file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {names_file:?}")),
    };
    let hashes: Vec<Option<NtHash>> =
        list.iter().map(|user| user.secret.hash(&user.name)).collect::<Result<_, _>>()?;
    let mut new = Vec::new();
    UserDatabase::update(database, |database| {
        for name in before.lines().filter(|name| !is_listed(list, name)) {
            // An administrator may have removed the user already.
            let _ = database.remove(name);
        }
        for (user, hash) in list.iter().zip(&hashes) {
            if let Ok(known) = database.get_mut(&user.name) {
                known.identity = Some(user.identity.clone());
                if let Some(hash) = hash {
                    known.nt_hash = hash.clone();
                }
                continue;
            }
            let nt_hash = hash.clone().unwrap_or_else(|| {
                let password = random_password();
                let hash = NtHash::of_password(&password);
                new.push(NewUser { name: user.name.clone(), password });
                hash
            });
            let identity = Some(user.identity.clone());
            database.add(UserEntry { identity, ..UserEntry::new(&user.name, nt_hash) })?;
        }
        Ok(())
    })?;
    let names: String = list.iter().map(|user| format!("{}\n", user.name)).collect();
    replace_file(&names_file, names.as_bytes(), 0o600)
        .with_context(|| format!("cannot write {names_file:?}"))?;
    Ok(new)
}

fn is_listed(list: &[ListedUser], name: &str) -> bool {
    list.iter().any(|user| user.name.to_lowercase() == name.to_lowercase())
}

impl ListedUser {
    fn of(
        name: &str,
        uid: Option<&str>,
        gids: Option<&str>,
        secret: Secret,
    ) -> anyhow::Result<Self> {
        check_name(name)?;
        let id = ID.to_string();
        let identity = Identity::parse(uid.unwrap_or(&id), gids.unwrap_or(&id));
        let identity = identity.map_err(|why| anyhow::anyhow!("user {name}: {why}"))?;
        Ok(Self { name: name.to_owned(), identity, secret })
    }
}

impl Secret {
    /// Returns the hash of the password; `None` if it is to be made up.
    fn hash(&self, user: &str) -> anyhow::Result<Option<NtHash>> {
        match self {
            Self::File(path) => {
                let password = read_password(path)
                    .with_context(|| format!("cannot read the password of {user} in {path:?}"))?;
                Ok(Some(NtHash::of_password(&password)))
            }
            Self::Hash(hash) => Ok(Some(hash.clone())),
            Self::MadeUp => Ok(None),
        }
    }
}

/// Reads the first line of a file, and leaves no copy of it in memory.
fn read_password(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(vec![0; PASSWORD_BYTES_MAX + 2]);
    let mut file = File::open(path)?;
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..])? {
            0 => break,
            count => length += count,
        }
    }
    let line = bytes[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    ensure!(!line.is_empty(), "it is empty");
    ensure!(line.len() <= PASSWORD_BYTES_MAX, "it is longer than {PASSWORD_BYTES_MAX} bytes");
    let text = str::from_utf8(line).context("it is not UTF-8")?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Variables of one user, without its name.
#[derive(Debug, Default)]
struct Variables {
    file: Option<PathBuf>,
    uid: Option<String>,
    gids: Option<String>,
}

fn of_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> anyhow::Result<Vec<ListedUser>> {
    let mut users: BTreeMap<String, Variables> = BTreeMap::new();
    for (variable, value) in variables {
        let Some(rest) = variable.to_str().and_then(|it| it.strip_prefix(PREFIX)) else { continue };
        let (name, field) = rest.rsplit_once('_').unwrap_or_default();
        let user = users.entry(name.to_lowercase()).or_default();
        let number = || {
            let text = value.to_str().map(str::to_owned);
            text.with_context(|| format!("{PREFIX}{rest} is not a number")).map(Some)
        };
        match field {
            "FILE" => user.file = Some(value.into()),
            "UID" => user.uid = number()?,
            "GID" => user.gids = number()?,
            // A password in the environment is seen by whoever may inspect the container.
            _ => bail!(
                "{PREFIX}{rest} is unknown: {PREFIX}NAME_FILE names a file with the password; \
                 {PREFIX}NAME_UID and {PREFIX}NAME_GID are ids"
            ),
        }
    }
    let user = |(name, variables): (String, Variables)| {
        let Variables { file, uid, gids } = variables;
        let secret = file.map_or(Secret::MadeUp, Secret::File);
        ListedUser::of(&name, uid.as_deref(), gids.as_deref(), secret)
    };
    users.into_iter().map(user).collect()
}

fn of_file(path: &Path) -> anyhow::Result<Vec<ListedUser>> {
    let reading = || format!("cannot read {path:?}");
    let size = fs::metadata(path).with_context(reading)?.len();
    ensure!(size <= FILE_BYTES_MAX, "{path:?} has more than {FILE_BYTES_MAX} bytes");
    let text = Zeroizing::new(fs::read_to_string(path).with_context(reading)?);
    let mut users = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        // The line may hold a hash, and is not shown.
        let user = of_line(line).with_context(|| format!("{}, line {number}", path.display()))?;
        users.extend(user);
    }
    Ok(users)
}

fn of_line(line: &str) -> anyhow::Result<Option<ListedUser>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.first().is_none_or(|word| word.starts_with('#')) {
        return Ok(None);
    }
    let [name, uid, gids, secret] = words[..] else {
        bail!("expected `name uid gid secret`");
    };
    let given = |word| Some(word).filter(|word| *word != NOTHING);
    let secret = match secret {
        NOTHING => Secret::MadeUp,
        path if path.starts_with('/') => Secret::File(path.into()),
        hash => Secret::Hash(
            NtHash::from_hex(hash)
                .context("the secret is neither a path, nor an NT hash, nor `-`")?,
        ),
    };
    ListedUser::of(name, given(uid), given(gids), secret).map(Some)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;

    use auth::NtHash;
    use users::UserDatabase;

    use super::{ListedUser, Secret, apply, of_line, of_variables};

    fn listed(variables: &[(&str, &str)]) -> anyhow::Result<Vec<ListedUser>> {
        of_variables(variables.iter().map(|(name, value)| (OsString::from(name), value.into())))
    }

    fn line(text: &str) -> ListedUser {
        of_line(text).expect("it is a line").expect("it is a user")
    }

    #[test]
    fn variables_name_users_with_secrets_and_ids() {
        let users = listed(&[
            ("CHORO_USER_ANNA_FILE", "/run/secrets/anna"),
            ("CHORO_USER_ANNA_UID", "1001"),
            ("CHORO_USER_ANNA_GID", "100,44"),
            ("CHORO_USER_SCAN_USER_FILE", "/run/secrets/scan"),
            ("PATH", "/bin"),
        ]);
        let users = users.expect("they are fit");
        let names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(names, ["anna", "scan_user"]);
        assert_eq!(users[0].identity.to_string(), "1001 100,44");
        assert_eq!(users[1].identity.to_string(), "1000 1000");
    }

    #[test]
    fn a_password_in_the_environment_is_refused() {
        for name in ["CHORO_USER_ANNA", "CHORO_USER_ANNA_PASSWORD", "CHORO_USER_"] {
            let error = listed(&[(name, "secret")]).expect_err("everybody could see it");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        listed(&[("CHORO_USER_ANNA_UID", "0")]).expect_err("nobody is root");
    }

    #[test]
    fn an_id_that_is_not_utf8_is_refused() {
        for name in ["CHORO_USER_ANNA_UID", "CHORO_USER_ANNA_GID"] {
            let value = OsString::from_vec(vec![b'1', 0xFF]);
            let error = of_variables([(name.into(), value)].into_iter()).expect_err("no number");
            assert_eq!(error.to_string(), format!("{name} is not a number"));
        }
    }

    #[test]
    fn lines_name_users_too() {
        let anna = line("anna 1001 100,44 /run/secrets/anna");
        assert!(matches!(anna.secret, Secret::File(_)));
        let bob = line("bob - - 878d8014606cda29677a44efa1353fc7");
        assert!(matches!(bob.secret, Secret::Hash(_)));
        assert_eq!(bob.identity.to_string(), "1000 1000");
        assert!(matches!(line("carl 7 7 -").secret, Secret::MadeUp));
        assert!(of_line("# comment").expect("none").is_none());
        for unfit in ["anna", "anna 1 1 secret", "anna x 1 -", "a:b 1 1 -", "anna 1 1 - more"] {
            of_line(unfit).expect_err(unfit);
        }
    }

    #[test]
    fn the_list_decides_on_logons_and_passwords_are_generated_once() {
        let folder = tempfile::tempdir().expect("there is space");
        let database = folder.path().join("private/users");
        let secret = folder.path().join("secret");
        fs::write(&secret, "first\nsecond\n").expect("there is space");
        let anna = || line(&format!("anna 1001 100 {}", secret.display()));
        let new = apply(&[anna(), line("bob - - -")], &database).expect("it can be written");
        let [bob] = &new[..] else { panic!("{new:?}") };
        assert_eq!(bob.name, "bob");
        let hash = |name: &str| {
            let found = UserDatabase::open(&database).expect("ours").find(name).expect("ours");
            found.map(|user| *user.nt_hash.as_bytes())
        };
        assert_eq!(hash("anna"), Some(*NtHash::of_password("first").as_bytes()));
        let bobs = Some(*NtHash::of_password(&bob.password).as_bytes());
        assert_eq!(hash("bob"), bobs);

        fs::write(&secret, "other").expect("there is space");
        let new = apply(&[anna(), line("bob - - -")], &database).expect("it can be written");
        assert!(new.is_empty(), "{new:?}");
        assert_eq!(hash("anna"), Some(*NtHash::of_password("other").as_bytes()));
        assert_eq!(hash("bob"), bobs);

        apply(&[anna()], &database).expect("it can be written");
        assert_eq!(hash("bob"), None);
        fs::write(&secret, "").expect("there is space");
        apply(&[anna()], &database).expect_err("an empty password");
    }
}
