//! Position in the listing of a directory.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use dtyp::fscc::{
    AppleFields, DirectoryEntryFields, EntryListWriter, FileInformationClass,
    encode_directory_entry,
};
use dtyp::name_expression::NameExpression;
use object::{AppleMetadata, DirectoryEntry, EntryDetail, Metadata, ObjectKind};

use crate::memory_account::{Charge, MemoryAccount};
use crate::posix;
use crate::reject::Reject;
use crate::share::Share;

/// `Open.EnumerationLocation` and `Open.EnumerationSearchPattern`: [MS-SMB2] 3.3.1.10.
#[derive(Debug)]
pub struct Enumeration {
    pattern: NameExpression,
    /// The share, for its `veto files`: those names are left out.
    share: Arc<Share>,
    /// Matching entries that were not sent yet.
    entries: VecDeque<DirectoryEntry>,
    /// Highest number of bytes that their names take in a response.
    names_bytes: usize,
    /// Memory charged for the enumeration, including its entries.
    memory: Charge,
    /// Least detail that the store has given for each entry.
    detail: EntryDetail,
    /// Number of entries sent since the start.
    answered: u64,
    /// Number of entries to skip, because they were sent before the store began again.
    skip: u64,
    /// True if the next batch begins at the start of the directory.
    at_start: bool,
    /// True if the store has no more entries.
    is_complete: bool,
    /// Number of restarts. A batch requested before the last restart is not part of this listing.
    generation: u64,
}

/// Demand of one request on a listing.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub class: FileInformationClass,
    /// SMB2_RETURN_SINGLE_ENTRY of [MS-SMB2] 2.2.33.
    pub single: bool,
    /// Highest number of bytes in the response.
    pub limit: usize,
    /// True if the file ids of all entries are zero.
    pub hides_file_ids: bool,
}

/// A batch to request from the store.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub restart: bool,
    pub detail: EntryDetail,
    pub entries_max: u32,
    pub generation: u64,
}

/// Highest number of entries to request from the store at once.
///
/// They fill a response of about 128 KiB. A larger response takes several batches, so that a worker
/// never spends long in one directory while its other requests wait.
const BATCH_ENTRIES_MAX: usize = 1_024;

/// Memory of an enumeration without its entries, in bytes.
const ENUMERATION_BYTES: usize = size_of::<Enumeration>() + 2_048;

/// Memory that the store needs for a directory until it is listed to its end, in bytes.
const UNLISTED_BYTES: usize = 32 * 1024;

/// Memory of an entry without its names, in bytes: the entry, Apple's metadata, and the allocator's
/// overhead.
const ENTRY_BYTES: usize = size_of::<DirectoryEntry>() + size_of::<AppleMetadata>() + 32;

/// Length of a usual name in a response, in bytes.
const USUAL_NAME_BYTES: usize = 24;

impl Demand {
    /// Returns the length of an entry without its name.
    fn fixed_bytes(&self) -> usize {
        self.class.minimum_len().expect("a directory class has a fixed part")
    }

    /// Refuses a response that is too short even for an entry with an empty name: [MS-FSA]
    /// 2.1.5.6.3.
    pub fn verify_limit(&self) -> Result<(), Reject> {
        let (need, room) = (self.fixed_bytes(), self.limit);
        if room < need {
            return Err(Reject::InformationBufferTooSmall { need, room });
        }
        Ok(())
    }
}

impl Enumeration {
    /// Starts a listing. The pattern is compared with case if `exact` is set.
    ///
    /// # Errors
    /// If the client has reached its memory limit.
    pub fn new(
        pattern: &str,
        share: &Arc<Share>,
        detail: EntryDetail,
        exact: bool,
        memory: &MemoryAccount,
    ) -> Result<Self, Reject> {
        let memory = memory.keep(ENUMERATION_BYTES + UNLISTED_BYTES)?;
        let pattern = if exact {
            NameExpression::case_sensitive(pattern)
        } else {
            NameExpression::new(pattern)
        };
        Ok(Self {
            pattern,
            share: Arc::clone(share),
            entries: VecDeque::new(),
            names_bytes: 0,
            memory,
            detail,
            answered: 0,
            skip: 0,
            at_start: true,
            is_complete: false,
            generation: 0,
        })
    }

    /// Begins the listing again with the same pattern.
    pub fn restart(&mut self) {
        self.answered = 0;
        self.read_again();
    }

    /// Begins the listing again with the pattern of `new`.
    pub fn reopen(&mut self, new: Self) {
        *self = Self { generation: self.generation + 1, ..new };
    }

    /// Raises the detail of the entries to the demand of a request. If entries with less detail are
    /// queued, the store begins again, and entries already sent are skipped.
    pub fn provide(&mut self, detail: EntryDetail) {
        if self.entries.is_empty() {
            self.detail = detail;
        } else if detail > self.detail {
            self.detail = detail;
            self.read_again();
        }
    }

    fn read_again(&mut self) {
        self.entries = VecDeque::new();
        self.names_bytes = 0;
        self.memory.set(self.bytes());
        self.skip = self.answered;
        self.at_start = true;
        self.is_complete = false;
        self.generation += 1;
    }

    /// Returns the next batch that the response needs from the store; none if enough entries are
    /// queued.
    ///
    /// The batch is no larger than the response, where that can be predicted: queued entries are
    /// sent as they were, even if their files are gone by then.
    pub fn next_batch(&mut self, demand: &Demand) -> Option<Batch> {
        let fixed = demand.fixed_bytes();
        let waiting = self.entries.len() * fixed + self.names_bytes;
        let is_enough =
            if demand.single { !self.entries.is_empty() } else { waiting >= demand.limit };
        if self.is_complete || is_enough {
            return None;
        }
        let entries_max = if !self.pattern.matches_all() || self.skip > 0 {
            BATCH_ENTRIES_MAX
        } else if demand.single {
            1
        } else {
            let fitting = (demand.limit - waiting) / (fixed + USUAL_NAME_BYTES);
            fitting.clamp(1, BATCH_ENTRIES_MAX)
        };
        Some(Batch {
            restart: std::mem::take(&mut self.at_start),
            detail: self.detail,
            entries_max: u32::try_from(entries_max).expect("at most BATCH_ENTRIES_MAX"),
            generation: self.generation,
        })
    }

    /// Takes a batch from the store; an empty one is the end.
    ///
    /// # Errors
    /// If the client has reached its memory limit. Entries that were not sent are read again for
    /// the next request.
    pub fn take(&mut self, generation: u64, batch: Vec<DirectoryEntry>) -> Result<(), Reject> {
        if generation != self.generation {
            return Ok(());
        }
        self.keep(batch);
        self.memory.resize(self.bytes()).inspect_err(|_| self.read_again())
    }

    /// Returns the memory of the enumeration in bytes.
    fn bytes(&self) -> usize {
        let unlisted = if self.is_complete { 0 } else { UNLISTED_BYTES };
        ENUMERATION_BYTES + unlisted + self.entries.capacity() * ENTRY_BYTES + self.names_bytes
    }

    /// Queues the entries of a batch that match and were not sent before.
    fn keep(&mut self, batch: Vec<DirectoryEntry>) {
        self.is_complete = batch.is_empty();
        let vetoed = &self.share.veto_files;
        let takes_all = self.pattern.matches_all() && vetoed.is_empty() && self.skip == 0;
        if takes_all && self.entries.is_empty() {
            self.names_bytes += batch.iter().map(|entry| name_bytes(&entry.name)).sum::<usize>();
            self.entries = batch.into();
            return;
        }
        for entry in batch {
            let is_dots = entry.name == "." || entry.name == "..";
            let is_vetoed = !is_dots && matches_any(vetoed, &entry.name);
            // [MS-FSA] 2.1.5.6.3: a pattern may also match the short name.
            let by_short_name =
                || entry.short_name.as_ref().is_some_and(|name| self.pattern.matches(name));
            if is_vetoed || !(self.pattern.matches(&entry.name) || by_short_name()) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.names_bytes += name_bytes(&entry.name);
            self.entries.push_back(entry);
        }
    }

    /// Moves as many entries as fit into a response.
    ///
    /// # Errors
    /// If no entry is left, or the buffer is too small for the first one.
    pub fn fill(&mut self, demand: &Demand, buffer: &mut Vec<u8>) -> Result<(), Reject> {
        if self.entries.is_empty() {
            let is_first = self.answered == 0;
            return Err(if is_first { Reject::NoMatchingEntry } else { Reject::NoMoreEntries });
        }
        let padded = demand.fixed_bytes() + 8;
        buffer.reserve(demand.limit.min(self.entries.len() * padded + self.names_bytes));
        let mut writer = EntryListWriter::new(buffer, demand.limit, 8);
        let answers_max = if demand.single { 1 } else { usize::MAX };
        for entry in self.entries.iter().take(answers_max) {
            if !writer.push(|out| encode(demand, entry, out)) {
                break;
            }
            self.names_bytes -= name_bytes(&entry.name);
            self.answered += 1;
        }
        if writer.entries() == 0 {
            // The fixed part would fit, but the name does not.
            return Err(Reject::EntryTooLong(demand.limit));
        }
        let answered = writer.entries();
        self.entries.drain(..answered);
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
        self.memory.set(self.bytes());
        Ok(())
    }
}

fn matches_any(expressions: &[NameExpression], name: &str) -> bool {
    expressions.iter().any(|expression| expression.matches(name))
}

/// Returns an upper bound of a name's length in UTF-16: no UTF-8 name has more UTF-16 units than
/// bytes.
fn name_bytes(name: &str) -> usize {
    2 * name.len()
}

fn encode(demand: &Demand, entry: &DirectoryEntry, out: &mut Vec<u8>) {
    let class = demand.class;
    match &entry.metadata {
        Some(metadata) if class == FileInformationClass::POSIX => {
            posix::information(metadata).encode_entry(&entry.name, out);
        }
        _ => {
            let fields = fields(entry, demand.hides_file_ids);
            encode_directory_entry(class, &fields, out).expect("the class was checked");
        }
    }
}

fn fields(entry: &DirectoryEntry, hides_file_ids: bool) -> DirectoryEntryFields<'_> {
    let file_name = Cow::Borrowed(entry.name.as_str());
    let short_name = Cow::Borrowed(entry.short_name.as_deref().unwrap_or_default());
    let Some(metadata) = &entry.metadata else {
        return DirectoryEntryFields { file_name, short_name, ..DirectoryEntryFields::default() };
    };
    // The parent of the share's root is outside of the share, and clients can learn the id of any
    // other parent by listing the directory above.
    let is_hidden = hides_file_ids || file_name == "..";
    let file_id = if is_hidden { 0 } else { metadata.identity.inode };
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
        file_attributes: metadata.attributes.shown(),
        ea_size: metadata.ea_size,
        reparse_tag: metadata.reparse_tag,
        short_name,
        file_id,
        file_id_128,
        file_name,
        apple: entry.apple.as_deref().map(|apple| apple_fields(apple, metadata)),
    }
}

/// Seconds between the epochs of Unix and of AppleDouble, 2000-01-01.
const APPLE_EPOCH: i64 = 946_684_800;

/// Returns the fields of an entry for Apple's clients. Numbers in them are big-endian.
fn apple_fields(apple: &AppleMetadata, metadata: &Metadata) -> AppleFields {
    let stored = &apple.finder_info;
    let mut finder_info = [0; 16];
    if metadata.kind == ObjectKind::File {
        // Type and creator; other fields take their place in directories.
        finder_info[..8].copy_from_slice(&stored[..8]);
    }
    // The flags, the extended flags and the creation time.
    finder_info[8..10].copy_from_slice(&stored[8..10]);
    finder_info[10..12].copy_from_slice(&stored[24..26]);
    let (born, _) = metadata.creation_time.to_unix();
    let since = born.saturating_sub(APPLE_EPOCH);
    let since = i32::try_from(since).unwrap_or(if since < 0 { i32::MIN } else { i32::MAX });
    finder_info[12..].copy_from_slice(&since.to_be_bytes());
    AppleFields {
        maximal_access: apple.maximal_access,
        resource_fork_size: apple.resource_fork_size,
        finder_info,
        // File type and permissions; Linux uses no higher bits.
        unix_mode: u16::try_from(metadata.mode & 0xFFFF).expect("16 bits"),
    }
}
