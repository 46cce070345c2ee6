//! Inheritance of parameters: from `[global]` at the start of a section, and by `copy`.

use super::{Loader, Place, limit};
use crate::kind::boolean;
use crate::limits::INHERITED_BYTES_MAX;
use crate::section::Section;
use crate::warning::{LoadError, WarningKind, quoted};

impl Loader<'_> {
    /// Copies parameters from a section above, except those that this section sets itself.
    pub(super) fn copy(&mut self, value: &str, place: &Place) -> Result<(), LoadError> {
        let Some(target) = self.current else {
            let text = "`copy` has no meaning in [global] and is ignored";
            self.warn(place, WarningKind::WrongScope, text.to_owned());
            return Ok(());
        };
        let source = self.by_name.get(&value.trim_matches('"').to_lowercase()).copied();
        match source {
            Some(index) if index != target => {
                let source = &self.loaded.sections[index];
                // Settings missing in the source are missing in the copy, too.
                let incomplete = source.incomplete;
                let section = source.section.clone();
                self.inherit(&section, place)?;
                let target = &mut self.loaded.sections[target];
                target.section.copy(&section);
                target.incomplete |= incomplete;
            }
            Some(_) => {
                let text = "a section that copies itself stays as it is";
                self.warn(place, WarningKind::Contradiction, text.to_owned());
            }
            None => {
                let text = format!(
                    "there is no section `{}` above to copy; this one is not available",
                    quoted(value)
                );
                self.warn(place, WarningKind::NotServed, text);
                self.loaded.sections[target].incomplete = true;
            }
        }
        Ok(())
    }

    /// Handles `-valid`: a section with the value "no" is left out.
    pub(super) fn drop_section(&mut self, value: &str) {
        if let (Some(index), Some(valid)) = (self.current, boolean(value)) {
            self.loaded.sections[index].dropped = valid == "No";
        }
    }

    /// Counts the bytes of inherited values against the limit.
    pub(super) fn inherit(&mut self, section: &Section, place: &Place) -> Result<(), LoadError> {
        self.inherited_bytes = self.inherited_bytes.saturating_add(section.value_bytes());
        if self.inherited_bytes > INHERITED_BYTES_MAX {
            let unit = "bytes of values taken over by sections";
            return Err(limit(INHERITED_BYTES_MAX as u64, unit, place));
        }
        Ok(())
    }
}
