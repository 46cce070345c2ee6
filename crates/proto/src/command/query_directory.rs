//! SMB2 QUERY_DIRECTORY: [MS-SMB2] 3.3.5.18.
//!
//! The store returns entries in batches; entries that do not fit into a response stay in the open's
//! [`Enumeration`] for the next request, so that no entry is listed twice or left out.
//!
//! Entries have no FileIndex for INDEX_SPECIFIED: such a request continues after the previous one.

#[cfg(test)]
mod tests;

use dtyp::fscc::FileInformationClass;
use dtyp::{AccessMask, NtStatus};
use engine::effect::{Effect, Reply};
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{HEADROOM, Response, Step, buffer_from_vec};
use engine::scope::InOpen;
use model::enumeration::{Demand, Enumeration};
use model::open::{Open, Target};
use model::reject::Reject;
use object::{EntryDetail, ObjectOp, ObjectReply};
use wire::Encode;
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};

use crate::command::Command;

/// Lists the entries of a directory.
#[derive(Debug)]
pub struct QueryDirectory;

/// A listing for which the store fetches entries.
#[derive(Debug)]
pub struct Pending {
    demand: Demand,
    /// Generation of the enumeration at the time of the request to the store.
    generation: u64,
}

/// Highest number of UTF-16 code units in a search pattern: names have no more.
const PATTERN_UNITS_MAX: usize = 255;

/// Length of the response before the entries: [MS-SMB2] 2.2.34.
const HEAD_LEN: usize = 8;

impl PendingCommand for Pending {}

impl Command for QueryDirectory {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = QueryDirectoryRequest<'a>;
    type Pending = Pending;

    /// Checks the request in the order of [MS-SMB2] 3.3.5.18.
    fn start(
        InOpen { connection, open, globals, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: QueryDirectoryRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = connection.negotiated();
        let (length, max) = (request.output_buffer_length, negotiated.max_transact_size);
        verify_directory(open)?;
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        let class = request.file_information_class;
        let apple = open.share.apple.is_some()
            && globals.apple_sessions.get(&open.session_id).is_some_and(|it| it.has_own_listings);
        let is_posix = open.file()?.path.is_posix();
        let detail = match detail(class, open.share.extended_attributes, is_posix)? {
            _ if apple && class == FileInformationClass::ID_BOTH_DIRECTORY => EntryDetail::Apple,
            detail => detail,
        };
        open.verify_access(AccessMask::READ_DATA)?;
        let demand = Demand {
            class,
            single: request.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY),
            limit: usize::try_from(length).expect("32 bits fit memory"),
            hides_file_ids: globals.hides_file_ids(open.session_id, &open.share),
        };
        demand.verify_limit()?;
        let pattern = read_pattern(request.file_name)?;
        begin_if_due(open, request.flags, &pattern, detail)?;
        list_next_batch(open, demand)
    }

    fn resume(
        InOpen { open, .. }: InOpen<'_>,
        _: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let ObjectReply::Entries(entries) = reply.object()? else {
            panic!("entries were asked for")
        };
        let enumeration = open.file_mut()?.enumeration.as_mut().expect("`start` made it");
        enumeration.take(pending.generation, entries)?;
        list_next_batch(open, pending.demand)
    }
}

fn verify_directory(open: &Open) -> Result<(), Reject> {
    match &open.target {
        Target::File(file) if file.is_directory => Ok(()),
        _ => Err(Reject::NotDirectory),
    }
}

/// Returns the detail that a class needs. It includes the size of extended attributes only on
/// shares that support them.
fn detail(
    class: FileInformationClass,
    keeps_attributes: bool,
    is_posix: bool,
) -> Result<EntryDetail, Reject> {
    match class {
        FileInformationClass::NAMES => Ok(EntryDetail::Name),
        FileInformationClass::DIRECTORY => Ok(EntryDetail::Metadata),
        FileInformationClass::POSIX if is_posix => Ok(EntryDetail::Metadata),
        FileInformationClass::FULL_DIRECTORY
        | FileInformationClass::BOTH_DIRECTORY
        | FileInformationClass::ID_FULL_DIRECTORY
        | FileInformationClass::ID_BOTH_DIRECTORY
        | FileInformationClass::ID_EXTD_DIRECTORY
        | FileInformationClass::ID_EXTD_BOTH_DIRECTORY
        | FileInformationClass::ID_64_EXTD_DIRECTORY
        | FileInformationClass::ID_64_EXTD_BOTH_DIRECTORY
        | FileInformationClass::ID_ALL_EXTD_DIRECTORY
        | FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY => Ok(if keeps_attributes {
            EntryDetail::MetadataAndEaSize
        } else {
            EntryDetail::Metadata
        }),
        _ => Err(Reject::FileClassUnknown(class)),
    }
}

/// Parses the search pattern. An empty one matches all names: [MS-FSA] 2.1.5.6.
fn read_pattern(name: &[u8]) -> Result<String, Reject> {
    let pattern = dtyp::utf16::decode(name).map_err(|_| Reject::PatternInvalid)?;
    if dtyp::utf16::units(&pattern) > PATTERN_UNITS_MAX || pattern.contains(['\\', '/']) {
        return Err(Reject::PatternInvalid);
    }
    Ok(pattern)
}

/// Starts an enumeration, or continues the current one. The first request sets the pattern; REOPEN
/// takes a new one, and so does RESTART_SCANS with a pattern.
fn begin_if_due(
    open: &mut Open,
    flags: QueryDirectoryFlags,
    pattern: &str,
    detail: EntryDetail,
) -> Result<(), Reject> {
    let restarts =
        flags.intersects(QueryDirectoryFlags::RESTART_SCANS | QueryDirectoryFlags::REOPEN);
    let share = std::sync::Arc::clone(&open.share);
    let exact = share.case_sensitive || open.file()?.path.is_posix();
    let memory = open.memory.account().clone();
    let begin = |pattern: &str| {
        let pattern = if pattern.is_empty() { "*" } else { pattern };
        Enumeration::new(pattern, &share, detail, exact, &memory)
    };
    match &mut open.file_mut()?.enumeration {
        place @ None => *place = Some(Box::new(begin(pattern)?)),
        Some(enumeration) if restarts && !pattern.is_empty() => {
            enumeration.reopen(begin(pattern)?);
        }
        Some(enumeration) if restarts => {
            enumeration.restart();
            enumeration.provide(detail);
        }
        Some(enumeration) => enumeration.provide(detail),
    }
    Ok(())
}

/// Answers from the queued entries, or requests more from the store.
fn list_next_batch(open: &mut Open, demand: Demand) -> Result<Step<Pending>, Reject> {
    let user = open.user;
    let file = open.file_mut()?;
    let local_open = file.local_open;
    let enumeration = file.enumeration.as_mut().expect("`start` made it");
    if let Some(batch) = enumeration.next_batch(&demand) {
        let op = ObjectOp::ReadDirectory {
            open: local_open,
            restart: batch.restart,
            detail: batch.detail,
            entries_max: batch.entries_max,
        };
        let pending = Pending { demand, generation: batch.generation };
        return Ok(Step::Wait(Effect::Object { user, op }, pending));
    }
    // Laid out where the response is signed and sent, because a listing is large.
    let mut buffer = vec![0; HEADROOM];
    QueryDirectoryResponse::default().encode(&mut buffer);
    debug_assert_eq!(buffer.len(), HEADROOM + HEAD_LEN);
    enumeration.fill(&demand, &mut buffer)?;
    let length = u32::try_from(buffer.len() - HEADROOM - HEAD_LEN).expect("at most the limit");
    buffer[HEADROOM + HEAD_LEN - 4..HEADROOM + HEAD_LEN].copy_from_slice(&length.to_le_bytes());
    Ok(Step::Done(Response::from_buffer(NtStatus::SUCCESS, buffer_from_vec(buffer))))
}
