//! Where a listing stands.

use std::collections::VecDeque;

use dtyp::fscc::{
    DirectoryEntryFields, EntryListWriter, FileInformationClass, encode_directory_entry,
};
use dtyp::name_expression::NameExpression;
use dtyp::{FileAttributes, NtStatus};
use object::DirectoryEntry;

use crate::effect::Share;
use crate::reject::Reject;

/// `Open.EnumerationLocation` and `Open.EnumerationSearchPattern`: [MS-SMB2] 3.3.1.10.
#[derive(Debug)]
pub struct Enumeration {
    pattern: NameExpression,
    hidden: Vec<NameExpression>,
    vetoed: Vec<NameExpression>,
    /// Entries that matched and were not answered yet.
    entries: VecDeque<DirectoryEntry>,
    /// Bytes that they take at most in an answer.
    entries_bytes: usize,
    /// The next batch begins at the start of the directory.
    at_start: bool,
    /// The store has no more.
    is_complete: bool,
    /// Something was answered since the start.
    has_answered: bool,
}

/// Bytes of the largest fixed part of an entry, padding included, beside two for each unit of its
/// name.
const ENTRY_BYTES: usize = 136;

impl Enumeration {
    pub(super) fn new(pattern: &str, share: &Share) -> Self {
        let compile = |list: &[String]| list.iter().map(|it| NameExpression::new(it)).collect();
        let pattern = if share.case_sensitive {
            NameExpression::case_sensitive(pattern)
        } else {
            NameExpression::new(pattern)
        };
        Self {
            pattern,
            hidden: compile(&share.hide_files),
            vetoed: compile(&share.veto_files),
            entries: VecDeque::new(),
            entries_bytes: 0,
            at_start: true,
            is_complete: false,
            has_answered: false,
        }
    }

    /// Begins again with the same pattern.
    pub(super) fn restart(&mut self) {
        self.entries.clear();
        self.entries_bytes = 0;
        self.at_start = true;
        self.is_complete = false;
        self.has_answered = false;
    }

    /// Whether the store has to be asked before a request can be answered fully.
    pub(super) fn needs_entries(&self, single: bool, limit: usize) -> bool {
        let is_enough = if single { !self.entries.is_empty() } else { self.entries_bytes >= limit };
        !self.is_complete && !is_enough
    }

    /// Whether the batch that is about to be asked for begins at the start of the directory.
    pub(super) fn begin_batch(&mut self) -> bool {
        std::mem::take(&mut self.at_start)
    }

    /// Takes a batch of the store; an empty one is the end.
    pub(super) fn take(&mut self, batch: Vec<DirectoryEntry>) {
        self.is_complete = batch.is_empty();
        for mut entry in batch {
            let is_dots = entry.name == "." || entry.name == "..";
            let is_vetoed = !is_dots && matches_any(&self.vetoed, &entry.name);
            if is_vetoed || !self.pattern.matches(&entry.name) {
                continue;
            }
            if !is_dots
                && matches_any(&self.hidden, &entry.name)
                && let Some(metadata) = &mut entry.metadata
            {
                metadata.attributes = (metadata.attributes | FileAttributes::HIDDEN).shown();
            }
            self.entries_bytes += ENTRY_BYTES + 2 * entry.name.len();
            self.entries.push_back(entry);
        }
    }

    /// Moves as many entries as fit into an answer.
    ///
    /// # Errors
    /// If there is none left, or the buffer is too small for the first one.
    pub(super) fn fill(
        &mut self,
        class: FileInformationClass,
        single: bool,
        limit: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Reject> {
        if self.entries.is_empty() {
            let first = !self.has_answered;
            let status = if first { NtStatus::NO_SUCH_FILE } else { NtStatus::NO_MORE_FILES };
            return Err(Reject::Status(status));
        }
        let minimum = class.minimum_len().expect("a directory class has a fixed part");
        if limit < minimum {
            return Err(Reject::Status(NtStatus::INFO_LENGTH_MISMATCH));
        }
        let mut writer = EntryListWriter::new(buffer, limit, 8);
        while let Some(entry) = self.entries.front() {
            let fields = fields(entry);
            let fits = writer.push(|out| {
                encode_directory_entry(class, &fields, out).expect("the class was checked");
            });
            if !fits {
                break;
            }
            self.entries_bytes -= ENTRY_BYTES + 2 * entry.name.len();
            self.entries.pop_front();
            if single {
                break;
            }
        }
        if writer.entries() == 0 {
            // The fixed part would fit, the name does not.
            return Err(Reject::Status(NtStatus::BUFFER_OVERFLOW));
        }
        self.has_answered = true;
        Ok(())
    }
}

fn matches_any(expressions: &[NameExpression], name: &str) -> bool {
    expressions.iter().any(|expression| expression.matches(name))
}

fn fields(entry: &DirectoryEntry) -> DirectoryEntryFields {
    let file_name = entry.name.clone();
    let Some(metadata) = &entry.metadata else {
        return DirectoryEntryFields { file_name, ..DirectoryEntryFields::default() };
    };
    // The share's root has no parent to tell of.
    let file_id = if entry.name == ".." { 0 } else { metadata.identity.inode };
    let mut file_id_128 = [0; 16];
    file_id_128[..8].copy_from_slice(&file_id.to_le_bytes());
    DirectoryEntryFields {
        file_index: 0,
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        end_of_file: metadata.end_of_file,
        allocation_size: metadata.allocation_size,
        file_attributes: metadata.attributes,
        ea_size: metadata.ea_size,
        reparse_tag: metadata.reparse_tag,
        short_name: String::new(),
        file_id,
        file_id_128,
        file_name,
    }
}
