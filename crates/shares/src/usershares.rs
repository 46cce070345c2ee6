//! Shares of users: `net usershare`.
//!
//! Each is a file in `usershare path`, which its owner writes and which is read when a client asks,
//! so that a share is there at once and gone at once. Files and paths are those of users who may be
//! hostile: a file is read if it is one, small, and the only name of its inode; the folder that it
//! shares is checked after it is open, since a user can move a link between a check and an open.

mod faults;
mod file;
mod folder;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use config::Config;
use dtyp::{AccessMask, SecurityDescriptor, Sid};
use proto::Account;
use rpc::Caller;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;
use store::Store;
use tracing::debug;

use super::{served, share_security};
use file::UsershareFile;
pub use folder::FolderRules;

/// Bytes of a file; Samba's limit.
const FILE_BYTES_MAX: u64 = 10 * 1_024;

/// Entries of the folder that are no shares, before a listing ends.
const BAD_ENTRIES_MAX: u32 = 1_000;

/// Bytes of a name, like those of a file.
const NAME_BYTES_MAX: usize = 255;

/// Bit of a mode: only owners remove their files from the folder.
const STICKY: u32 = 0o1000;

/// Bit of a mode: everyone may write.
const OTHERS_WRITE: u32 = 0o002;

/// A share of a user.
#[derive(Debug)]
pub(super) struct Usershare {
    /// The share, with the parameters of the template.
    pub(super) share: config::Share,
    /// Rights of users in the share.
    descriptor: SecurityDescriptor,
    /// Folders that it may lead to.
    pub(super) rules: FolderRules,
}

/// Returns the share of a user by its name, in any case of letters.
pub(super) fn find(config: &Config, name: &str) -> Option<Usershare> {
    if config.global.usershare_max_shares == 0 || !is_valid_name(name) {
        return None;
    }
    let folder = open_folder(config).inspect_err(|fault| faults::tell_of_folder(fault)).ok()?;
    let file_name = name.to_lowercase();
    match load(config, &folder, &file_name) {
        Ok(found) => found,
        Err(fault) => {
            faults::tell(&folder, &file_name, &fault);
            None
        }
    }
}

/// True if a user has a share of this name.
#[must_use]
pub fn is_one(config: &Config, name: &str) -> bool {
    find(config, name).is_some()
}

/// Returns the reason why a user's file of this name is no share; `None` if it is one, if there is
/// no such file, or if no user can have a share.
#[must_use]
pub fn fault_of(config: &Config, name: &str) -> Option<String> {
    if config.global.usershare_max_shares == 0 || !is_valid_name(name) {
        return None;
    }
    load(config, &open_folder(config).ok()?, &name.to_lowercase()).err()
}

/// Returns the shares of users, as many as `usershare max shares`.
pub(super) fn list(config: &Config) -> Vec<Usershare> {
    let max = usize::try_from(config.global.usershare_max_shares).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    if max == 0 {
        return found;
    }
    let Ok(folder) = open_folder(config).inspect_err(|fault| faults::tell_of_folder(fault)) else {
        return found;
    };
    let Ok(mut entries) = Dir::read_from(&folder) else { return found };
    let mut bad = 0;
    while let Some(Ok(entry)) = entries.read()
        && found.len() < max
        && bad < BAD_ENTRIES_MAX
    {
        let name = entry.file_name().to_str().ok();
        let name = name.filter(|name| is_valid_name(name) && **name == name.to_lowercase());
        match name.map(|name| load(config, &folder, name)) {
            Some(Ok(Some(share))) if config.share(&share.share.name).is_none() => found.push(share),
            Some(Err(fault)) => {
                debug!("usershare {name:?} is not listed: {fault}");
                bad += 1;
            }
            _ => bad += 1,
        }
    }
    found
}

/// Calls a function with the server's rights, on a thread of its own: this one may have those of a
/// user. `None` without such a thread. It serves the same request.
pub(super) fn with_server_rights<T: Send>(call: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let is_guest = served::serves_guest();
        let call = move || served::serving(is_guest, call);
        let as_server = move || store::take_server_rights().ok().map(|()| call());
        let thread = std::thread::Builder::new().name("usershares".to_owned());
        thread.spawn_scoped(scope, as_server).ok()?.join().ok()?
    })
}

/// Returns the reason why no user can have a share, although the configuration lets them.
#[must_use]
pub fn fault(config: &Config) -> Option<String> {
    if config.global.usershare_max_shares == 0 {
        return None;
    }
    let template = &config.global.usershare_template_share;
    if config.usershare_template().is_none() {
        return Some(format!("`usershare template share`: there is no section [{template}]"));
    }
    open_folder(config).err()
}

/// Opens the folder of the files, if its permissions are right.
fn open_folder(config: &Config) -> Result<OwnedFd, String> {
    let path = config.substitutions().expand_path(&config.global.usershare_path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, Path::new(&path), flags, Mode::empty());
    let folder = folder.map_err(|error| format!("usershare path {path}: {error}"))?;
    let status = fstat(&folder).map_err(|error| format!("usershare path {path}: {error}"))?;
    let mode = status.st_mode;
    if status.st_uid != 0 || mode & STICKY == 0 || mode & OTHERS_WRITE != 0 {
        return Err(format!(
            "usershare path {path} must belong to root, have the sticky bit, and not be writable \
             by everyone: chown root, chmod 1770"
        ));
    }
    Ok(folder)
}

/// A name that a share of a user may have. Temporary files of `net` begin with a colon.
fn is_valid_name(name: &str) -> bool {
    config::is_share_name(name) && name.len() <= NAME_BYTES_MAX && !name.starts_with('.')
}

/// Reads the share of a file; `None` if there is no such file.
fn load(config: &Config, folder: &OwnedFd, name: &str) -> Result<Option<Usershare>, String> {
    let (text, status) = match read(folder, name) {
        Ok(read) => read,
        Err(fault) if fault.is_empty() => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let template = config.usershare_template().ok_or("its template is missing")?;
    let UsershareFile { path, comment, descriptor, guest_ok, name } =
        UsershareFile::parse(&text, name)?;
    let rules = FolderRules::of(&config.global, status.st_uid);
    rules.verify_written(&path)?;
    // What users write is text, without substitutions.
    let (path, comment) = (path.replace('%', "%%"), comment.replace('%', "%%"));
    let mut values = vec![("path", &*path), ("comment", &*comment), ("read only", "No")];
    values.push(("available", "Yes"));
    if config.global.usershare_allow_guests {
        values.push(("guest ok", if guest_ok { "Yes" } else { "No" }));
    }
    let share = template.derived(&name, &values);
    Ok(Some(Usershare { share, descriptor, rules }))
}

/// Reads a file and its status. An empty fault means that there is none.
fn read(folder: &OwnedFd, name: &str) -> Result<(String, Stat), String> {
    // Nothing that waits is opened, and no link followed. A user can mount a file system of a
    // program of their own on a file.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    let file = match openat2(folder, name, flags | OFlags::NOCTTY, Mode::empty(), resolve) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(String::new()),
        Err(error) => return Err(error.to_string()),
    };
    let status = fstat(&file).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_nlink != 1 {
        return Err("it is no file, or has other names".to_owned());
    }
    let mut bytes = Vec::new();
    let read = File::from(file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    Ok((text, status))
}

impl Usershare {
    /// Rights of an account in the share, by its access control list.
    pub(super) fn access_of(
        &self,
        account: &Account,
        is_administrator: bool,
        store: &Store,
    ) -> AccessMask {
        share_security::access_of(&self.descriptor, account, is_administrator, store)
    }

    /// True if its access control list lets a caller read. An entry with the id that a user of a
    /// domain has on this system is none for the user here.
    pub(super) fn admits(&self, caller: &Caller) -> bool {
        let sid = caller.sid.clone().unwrap_or_else(Sid::anonymous);
        let groups = caller.groups.to_vec();
        let access = share_security::access(&self.descriptor, &sid, groups, caller.is_guest);
        access.contains(AccessMask::READ_DATA)
    }

    /// The access control list, as srvsvc returns it.
    pub(super) fn security(&self) -> Vec<u8> {
        self.descriptor.to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::is_valid_name;

    #[test]
    fn names_of_shares_are_no_paths_and_no_sections() {
        for name in ["films", "anna's films", "ä", "a.b", "x$"] {
            assert!(is_valid_name(name), "{name}");
        }
        let bad = ["", ".", "..", "a/b", "a\\b", ":tmpX", "a:b", "a\nb", "a%U", "Homes", "IPC$"];
        for name in bad {
            assert!(!is_valid_name(name), "{name}");
        }
        assert!(!is_valid_name(&"a".repeat(256)));
    }
}
