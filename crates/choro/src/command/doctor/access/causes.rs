//! Causes of a refusal other than permissions: mount, flags, attributes, space, hidden names.

use std::path::Path;

use dtyp::FileAttributes;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use shares::mount_point::mount_point;
use store::HostRights;

use super::Inquiry;
use super::place::{Place, Target};
use crate::command::doctor::finding::{Change, Finding, path_word, word};

impl Inquiry<'_> {
    pub(super) fn explain_mount(&mut self, fact: &str, path: &Path) -> bool {
        self.store.revert_to_server();
        let is_read_only =
            rustix::fs::statvfs(path).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::RDONLY));
        if is_read_only {
            let mount = mount_point(path);
            let reason = format!("The file system of {} is mounted for reading.", mount.display());
            let command = format!("mount -o remount,rw {}", path_word(&mount));
            self.add(Finding::fault("read_only_mount", fact, reason).command(command));
        }
        is_read_only
    }

    /// Flags of chattr(1). Files may be added to a directory whose flag is `a`.
    pub(super) fn explain_flags(
        &mut self,
        fact: &str,
        path: &Path,
        rights: &HostRights,
        adds: bool,
    ) {
        let flag = match (rights.immutable, rights.append_only && !adds) {
            (true, _) => 'i',
            (false, true) => 'a',
            (false, false) => return,
        };
        let reason = format!("{} has the attribute `{flag}` of chattr(1).", path.display());
        let command = format!("chattr -{flag} {}", path_word(path));
        self.add(Finding::fault("immutable", fact, reason).command(command));
    }

    pub(super) fn explain_read_only(
        &mut self,
        place: &Place,
        target: &Target,
        fact: &str,
        verb: &str,
    ) {
        let metadata = &target.opened.metadata;
        let is_read_only = metadata.attributes.contains(FileAttributes::READONLY);
        if !self.answer.exists || metadata.is_directory() && verb == "write" || !is_read_only {
            return;
        }
        let reason = format!(
            "The file has the attribute \"read-only\" of Windows, and nobody may {verb} it."
        );
        let finding = Finding::fault("read_only_attribute", fact, reason);
        let mut finding = match set_mode(&target.path.to_windows()) {
            Some(set_mode) => finding.command(format!(
                "smbclient //localhost/{} -U {} -c {}",
                word(&self.request.name),
                word(&place.name),
                word(&set_mode)
            )),
            None => finding.advice("clear the attribute in the properties of the file, in Windows"),
        };
        if verb == "delete" {
            finding = finding.change(Change::line(&self.section(), "delete readonly = yes"));
        }
        self.add(finding);
    }

    /// Writes a block to a file without a name, as the user. `adds` if the question is about a new
    /// file there, and not about the space only.
    pub(super) fn explain_space(
        &mut self,
        place: &Place,
        directory: &Path,
        fact: &str,
        adds: bool,
    ) {
        let Err(error) = self.store.try_new_file(place.user, directory) else { return };
        self.store.revert_to_server();
        let mount = mount_point(directory);
        let shown = mount.display();
        let finding = match Errno::from_io_error(&error) {
            Some(Errno::NOSPC) => {
                let reason = format!("The file system of {shown} is full.");
                let command = format!("du -xh --max-depth=2 {} | sort -h", path_word(&mount));
                Finding::fault("full", fact, reason).command(command)
            }
            Some(Errno::DQUOT) => {
                let reason = format!("The quota of {} on {shown} is used up.", place.name);
                let command = format!("edquota -f {} {}", path_word(&mount), word(&place.name));
                Finding::fault("quota", fact, reason).command(command)
            }
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) if adds => {
                let reason = format!("The system refuses a new file there: {error}.");
                Finding::fault("open", fact, reason)
            }
            // The file system may be unable to make files without a name.
            _ => return,
        };
        self.add(finding);
    }

    /// An object may be there, and still not be shown.
    pub(super) fn note_hidden(&mut self, place: &Place, target: &Target) {
        let name = target.path.file_name().to_owned();
        let metadata = &target.opened.metadata;
        if !self.answer.exists || name.is_empty() {
            return;
        }
        let section = self.section();
        let fact = format!("Lists of files do not show {name}, or only with hidden files.");
        if name.starts_with('.') && place.settings.hide_dot_files {
            let reason = "Its name begins with a dot, and the share has `hide dot files = yes`.";
            let change = Change::line(&section, "hide dot files = no");
            self.add(Finding::note("hide_dot_files", fact, reason).change(change));
        } else if place.settings.hide_files.iter().any(|it| it.matches(&name)) {
            let reason = "`hide files` of the share has its name.";
            let change = Change::line(&section, "hide files =");
            self.add(Finding::note("hide_files", fact, reason).change(change));
        } else if place.settings.hide.unreadable && self.answer.may_read == Some(false) {
            let reason = "The user may not read it, and the share has `hide unreadable = yes`.";
            let change = Change::line(&section, "hide unreadable = no");
            self.add(Finding::note("hide_unreadable", fact, reason).change(change));
        } else if place.settings.hide.unwriteable
            && !metadata.is_directory()
            && self.answer.may_write == Some(false)
        {
            let reason =
                "The user may not write it, and the share has `hide unwriteable files = yes`.";
            let change = Change::line(&section, "hide unwriteable files = no");
            self.add(Finding::note("hide_unwriteable", fact, reason).change(change));
        }
    }
}

/// The command of smbclient that clears the attribute of a file. `None` if the name would end it:
/// smbclient splits its commands at each semicolon, within quotes too.
fn set_mode(path: &str) -> Option<String> {
    let ends_a_command = |c: char| matches!(c, ';' | '"') || c.is_control();
    (!path.contains(ends_a_command)).then(|| format!("setmode \"{path}\" -r"))
}

#[cfg(test)]
mod tests {
    use super::set_mode;

    #[test]
    fn no_name_of_a_file_is_a_command_of_smbclient() {
        assert_eq!(set_mode("a b\\c").as_deref(), Some("setmode \"a b\\c\" -r"));
        for evil in ["a;lcd ..;get b;c", "a\" -r;get b", "a\nget b"] {
            assert_eq!(set_mode(evil), None, "{evil}");
        }
    }
}
