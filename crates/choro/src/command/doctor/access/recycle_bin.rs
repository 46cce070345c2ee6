//! The recycle bin of a share: a file that cannot be moved there is deleted.

use std::path::Path;

use super::Inquiry;
use super::permission::{SEARCH, WRITE, permission};
use super::place::Place;
use crate::command::doctor::finding::{Finding, Severity};

impl Inquiry<'_> {
    /// Warns of a bin that the user may neither use nor make.
    pub(super) fn examine_bin(&mut self, place: &Place) {
        let Some(recycle) = &place.settings.recycle else { return };
        let mut path = place.folder.clone();
        let mut names = recycle.repository.iter().peekable();
        while let Some(name) = names.next() {
            let bin = path.join(name);
            let is_there = bin.symlink_metadata().is_ok();
            let (directory, needed) = match (is_there, names.peek()) {
                // The first missing directory is made in the one before it.
                (false, _) => (path.as_path(), WRITE | SEARCH),
                (true, Some(_)) => (bin.as_path(), SEARCH),
                (true, None) => (bin.as_path(), WRITE | SEARCH),
            };
            if let Some(finding) = self.missing_right(place, directory, needed) {
                // Beside a closed folder of one user, but not the first, another one is used.
                let may_have_other = is_there
                    && path != place.folder
                    && names.peek().is_none()
                    && recycle.has_private_folders();
                if may_have_other && self.missing_right(place, &path, WRITE | SEARCH).is_none() {
                    return;
                }
                return self.add(finding);
            }
            if !is_there {
                return;
            }
            path = bin;
        }
    }

    fn missing_right(&mut self, place: &Place, path: &Path, needed: u16) -> Option<Finding> {
        let rights = self.store.host_rights(place.user, path).ok()?;
        self.store.revert_to_server();
        let fact = format!(
            "Files that {} deletes in the share {} are gone: none is moved to the recycle bin.",
            place.name, self.request.name
        );
        if rights.granted & needed == needed {
            return None;
        }
        let finding = permission(&fact, path, &rights, &place.name, needed, "use");
        Some(Finding { cause: "recycle_bin", severity: Severity::Warning, ..finding })
    }
}
