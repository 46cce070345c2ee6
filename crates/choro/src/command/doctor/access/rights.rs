//! What may a user do with an object of a share, and what refuses the rest?
//!
//! The store opens the object as it does for the user's clients, with the rights of the user. The
//! cause of a refusal is then looked for in the order in which the kernel and the store find it:
//! directories on the way, the mount, flags, permissions, the NT descriptor, attributes, space.

use std::io::ErrorKind;
use std::path::Path;

use dtyp::{AccessMask, NtStatus};
use object::UserId;
use shares::opening::Opening;
use store::{Credentials, HostRights};

use super::Inquiry;
use super::connect::ADD_AGAIN;
use super::permission::{READ, SEARCH, STICKY, WRITE, permission};
use super::place::{Case, Place, Target};
use crate::command::doctor::finding::{Change, Finding, path_word, word};
use crate::command::doctor::user_name::name_of;

/// Parameters that say which folders users may share.
const RULES: &str = "change the rules in [global]: `usershare owner only`, `usershare prefix allow \
                     list`, `usershare prefix deny list`";

/// Root of the system, by which the server looks at what the user may not see.
fn root() -> Credentials {
    Credentials { sids: Credentials::well_known(), ..Credentials::default() }
}

impl Inquiry<'_> {
    pub(super) fn examine_objects(&mut self, access_max: AccessMask, opening: Opening) {
        let credentials = usize::try_from(opening.user.0)
            .ok()
            .and_then(|index| self.store.users().nth(index).cloned())
            .unwrap_or_default();
        let name = name_of(credentials.uid, &self.request.account.user);
        self.answer.acts_as.clone_from(&name);
        let (settings, user) = (opening.settings.clone(), opening.user);
        let folder = settings.path.clone();
        let root_user = self.store.register_user(root());
        let root_opening = opening.clone();
        let opened = match opening.carry_out(self.store) {
            Ok(opened) => opened,
            Err(status) => {
                let rule = root_opening.broken_rule(self.store);
                return self.explain_root((&folder, rule), user, &name, status);
            }
        };
        let folder = Path::new("/").join(self.store.folder(opened.root).as_str());
        let root = opened.root;
        let place = Place { root, settings, access_max, user, name, folder, root_user };
        if self.explain_names(&place)
            && let Some(target) = self.find(&place)
        {
            self.examine_target(&place, &target);
        }
        self.store.close_root(root);
    }

    /// The directory of the share could not be opened.
    fn explain_root(
        &mut self,
        (folder, broken_rule): (&Path, Option<String>),
        user: UserId,
        name: &str,
        status: NtStatus,
    ) {
        self.store.revert_to_server();
        let fact = format!("{name} may not connect to the share {}.", self.request.name);
        let path = folder.display();
        let metadata = std::fs::metadata(folder);
        let is_missing = metadata.as_ref().is_err_and(|it| it.kind() == ErrorKind::NotFound);
        if is_missing && let Some(parameter) = self.command_before() {
            let fact = format!("{path} does not exist yet.");
            let reason = format!(
                "The share {} has a command, `{parameter}`, which may make it when {name} connects",
                self.request.name
            );
            return self.add(Finding::note("made_at_connect", fact, reason));
        }
        self.answer.may_connect = false;
        match metadata {
            Ok(metadata) if metadata.is_dir() => {
                if let Some(rule) = broken_rule {
                    let reason = format!("The server does not serve this usershare: {rule}.");
                    let finding = Finding::fault("usershare", fact, reason).advice(ADD_AGAIN);
                    return self.add(finding.advice(RULES));
                }
                if !self.explain_refused(folder, user, name, &fact) {
                    let reason = format!("The system refuses {path}: {status}.");
                    self.add(Finding::fault("share_folder", fact, reason));
                }
            }
            Ok(_) => {
                let reason = format!("The path of the share, {path}, is not a directory.");
                let change = Change::line(&self.section(), "path = DIRECTORY");
                self.add(Finding::fault("share_folder", fact, reason).change(change));
            }
            Err(error) => {
                let reason = format!("The path of the share, {path}, cannot be reached: {error}.");
                let finding = Finding::fault("share_folder", fact, reason);
                self.add(match self.is_of_user {
                    true => finding.advice("its owner makes the folder, or deletes the usershare"),
                    false => finding.command(self.making(folder, name)),
                });
            }
        }
    }

    /// The parameter of a command that may make the folder of the share.
    fn command_before(&self) -> Option<&'static str> {
        let share = self.share()?;
        let commands = [("root preexec", &share.root_preexec), ("preexec", &share.preexec)];
        commands.into_iter().find(|(_, text)| !text.trim().is_empty()).map(|(name, _)| name)
    }

    /// The command that makes the folder of the share: as one of the user, if its path names this
    /// user.
    fn making(&self, folder: &Path, user: &str) -> String {
        let is_home = self.config.share(&self.request.name).is_none();
        let path = self.share().map(|share| share.path.replace("%%", "")).unwrap_or_default();
        let names_user = |name: &&str| path.contains(name) && (*name != "%S" || is_home);
        let is_own = path.is_empty() || ["%U", "%u", "%H", "%S"].iter().any(names_user);
        match is_own {
            true => format!("install -d -o {} -m 700 {}", word(user), path_word(folder)),
            false => format!("mkdir -p {}", path_word(folder)),
        }
    }

    /// Explains a directory that the user does not reach, or may neither list nor search.
    pub(super) fn explain_refused(
        &mut self,
        path: &Path,
        user: UserId,
        name: &str,
        fact: &str,
    ) -> bool {
        if self.explain_way(path, user, name, fact) {
            return true;
        }
        let Ok(rights) = self.store.host_rights(user, path) else { return false };
        let needed = if rights.is_directory { READ | SEARCH } else { READ };
        if rights.granted & needed == needed {
            return false;
        }
        self.add(permission(fact, path, &rights, name, needed, "read"));
        true
    }

    fn examine_target(&mut self, place: &Place, target: &Target) {
        let fact = format!("{} does not reach {}.", place.name, target.host.display());
        if self.explain_way(&target.host, place.user, &place.name, &fact) {
            return self.refuse_all();
        }
        let Ok(rights) = self.store.host_rights(place.user, &target.host) else { return };
        let maximum = self.open(place, place.user, &target.path, AccessMask::MAXIMUM_ALLOWED);
        let maximal = maximum.as_ref().map_or(AccessMask::empty(), |opened| opened.maximal_access);
        let case = Case { place, target, rights, maximal };
        if self.answer.exists {
            self.examine_reading(&case);
        }
        if !self.leaves_out_writing() {
            self.examine_writing(&case);
        }
        if self.answer.exists && !target.path.is_root() {
            self.examine_deletion(&case);
        }
        self.note_hidden(place, target);
        if self.answer.may_write != Some(false) {
            self.examine_bin(place);
        }
    }

    /// Explains the first directories on the way to a path that the user may not search.
    fn explain_way(&mut self, path: &Path, user: UserId, name: &str, fact: &str) -> bool {
        let mut directories: Vec<&Path> = path.ancestors().skip(1).collect();
        directories.reverse();
        let mut is_refused = false;
        for directory in directories {
            let Ok(rights) = self.store.host_rights(user, directory) else { continue };
            if rights.granted & SEARCH == 0 {
                let finding = permission(fact, directory, &rights, name, SEARCH, "search");
                self.add(finding);
                is_refused = true;
            }
        }
        is_refused
    }

    fn examine_reading(&mut self, case: &Case<'_>) {
        let Case { place, target, rights, .. } = case;
        let opened = self.open(place, place.user, &target.path, AccessMask::READ_DATA);
        let before = self.added;
        let fact = format!("{} may not read {}.", place.name, target.host.display());
        let needed = if rights.is_directory { READ | SEARCH } else { READ };
        if opened.is_err() || rights.is_directory {
            self.explain_rights(case, &fact, needed, AccessMask::READ_DATA);
        }
        if let Err(status) = opened
            && self.added == before
        {
            let reason = format!("The system refuses to open it for reading: {status}.");
            self.add(Finding::fault("open", fact, reason));
        }
        self.answer.may_read = Some(self.added == before);
    }

    fn examine_writing(&mut self, case: &Case<'_>) {
        let Case { place, target, rights, .. } = case;
        let (directory, attempt) = match rights.is_directory {
            true => (target.host.as_path(), Ok(())),
            false => {
                let opened = self.open(place, place.user, &target.path, AccessMask::WRITE_DATA);
                (target.host.parent().unwrap_or(&target.host), opened.map(drop))
            }
        };
        let before = self.added;
        let verb = if rights.is_directory { "add files to" } else { "write" };
        let fact = format!("{} may not {verb} {}.", place.name, target.host.display());
        let needed = if rights.is_directory { WRITE | SEARCH } else { WRITE };
        self.explain_flags(&fact, &target.host, rights, rights.is_directory);
        if !self.explain_mount(&fact, &target.host) {
            self.explain_rights(case, &fact, needed, AccessMask::WRITE_DATA);
        }
        self.explain_read_only(place, target, &fact, "write");
        if self.added == before {
            self.explain_space(place, directory, &fact, rights.is_directory);
        }
        if let Err(status) = attempt
            && self.added == before
        {
            let reason = format!("The system refuses to open it for writing: {status}.");
            self.add(Finding::fault("open", fact, reason));
        }
        self.answer.may_write.get_or_insert(self.added == before);
    }

    fn examine_deletion(&mut self, case: &Case<'_>) {
        let Case { place, target, rights, maximal } = case;
        let before = self.added;
        let fact = format!("{} may not delete {}.", place.name, target.host.display());
        let is_mounted_for_reading = self.explain_mount(&fact, &target.host);
        self.explain_flags(&fact, &target.host, rights, false);
        if let Some(directory) = target.host.parent()
            && let Ok(of_parent) = self.store.host_rights(place.user, directory)
        {
            self.explain_flags(&fact, directory, &of_parent, false);
            if !maximal.contains(AccessMask::DELETE) && !is_mounted_for_reading {
                self.explain_parent(place, target, &fact, directory, &of_parent);
            }
        }
        if !place.settings.delete_readonly {
            self.explain_read_only(place, target, &fact, "delete");
        }
        let may_delete = self.added == before;
        self.answer.may_delete.get_or_insert(may_delete);
    }

    /// Explains a missing right by the NT descriptor of the object if it has one, else by the
    /// permissions of the system. A change of the permissions would discard a descriptor.
    fn explain_rights(&mut self, case: &Case<'_>, fact: &str, needed: u16, right: AccessMask) {
        let Case { place, target, rights, maximal } = case;
        let (word, verb) = match right {
            AccessMask::READ_DATA => ("READ", "read"),
            _ => ("CHANGE", "write"),
        };
        self.store.revert_to_server();
        if place.has_descriptor(&target.host) && !maximal.contains(right) {
            self.explain_descriptor(place, target, fact, right, word);
        } else if rights.granted & needed != needed {
            self.add(permission(fact, &target.host, rights, &place.name, needed, verb));
        }
    }

    /// Explains by its directory why a file may not be deleted.
    fn explain_parent(
        &mut self,
        place: &Place,
        target: &Target,
        fact: &str,
        directory: &Path,
        rights: &HostRights,
    ) {
        let needed = WRITE | SEARCH;
        self.store.revert_to_server();
        if [&target.host, directory].into_iter().any(|path| place.has_descriptor(path)) {
            self.explain_descriptor(place, target, fact, AccessMask::DELETE, "CHANGE");
        } else if rights.granted & needed != needed {
            self.add(permission(fact, directory, rights, &place.name, needed, "change"));
        } else if rights.mode & STICKY != 0 {
            let reason = format!(
                "{} is sticky (mode {:04o}): only owners of file or directory delete there.",
                directory.display(),
                rights.mode
            );
            let command = format!("chmod -t {}", path_word(directory));
            self.add(Finding::fault("sticky", fact, reason).command(command));
        }
    }
}
