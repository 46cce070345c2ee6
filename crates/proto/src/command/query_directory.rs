//! SMB2 QUERY_DIRECTORY: [MS-SMB2] 3.3.5.18.
//!
//! The store hands out entries in batches; what does not fit into one answer waits in the open's
//! [`Enumeration`] for the next request, so that nothing is listed twice or left out.

mod enumeration;
#[cfg(test)]
mod tests;

use dtyp::fscc::FileInformationClass;
use dtyp::{AccessMask, NtStatus};
use object::{EntryDetail, ObjectOp, ObjectReply};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};

use crate::command::Command;
use crate::effect::{Effect, Reply};
use crate::open::Open;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::{Response, Step};
use crate::scope::InOpen;

pub use enumeration::Enumeration;

/// Lists a directory.
#[derive(Debug)]
pub struct QueryDirectory;

/// A listing for which the store fetches entries.
#[derive(Debug)]
pub struct Pending {
    class: FileInformationClass,
    detail: EntryDetail,
    single: bool,
    limit: usize,
}

/// Entries to ask the store for at once: about what fills an answer of 64 KiB. A request with a
/// larger buffer asks again.
const BATCH_ENTRIES: u32 = 512;

/// UTF-16 code units in a search pattern. Windows takes no longer one either.
const PATTERN_UNITS_MAX: usize = 255;

impl Command for QueryDirectory {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = QueryDirectoryRequest<'a>;
    type Pending = Pending;

    /// The checks stand in the order of the section.
    fn start(
        InOpen { connection, open, .. }: InOpen<'_>,
        incoming: &Incoming,
        request: QueryDirectoryRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let negotiated = connection.negotiated();
        let (length, max) = (request.output_buffer_length, negotiated.max_transact_size);
        let charge = incoming.header.credit_charge;
        if !open.file()?.is_directory {
            return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
        }
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        negotiated.verify_credit_charge(charge, length)?;
        let detail = detail(request.file_information_class, open.share.extended_attributes)?;
        open.verify_access(AccessMask::READ_DATA)?;
        let pattern = read_pattern(request.file_name)?;
        begin_if_due(open, request.flags, &pattern)?;
        let pending = Pending {
            class: request.file_information_class,
            detail,
            single: request.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY),
            limit: usize::try_from(length).expect("32 bits fit memory"),
        };
        go_on(open, pending)
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
        enumeration.take(entries);
        go_on(open, pending)
    }
}

/// What of an entry a class tells; the size of extended attributes only where they are kept.
fn detail(class: FileInformationClass, keeps_attributes: bool) -> Result<EntryDetail, Reject> {
    match class {
        FileInformationClass::NAMES => Ok(EntryDetail::Name),
        FileInformationClass::DIRECTORY => Ok(EntryDetail::Metadata),
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
        _ => Err(Reject::Status(NtStatus::INVALID_INFO_CLASS)),
    }
}

fn read_pattern(name: &[u8]) -> Result<String, Reject> {
    let invalid = Reject::Status(NtStatus::OBJECT_NAME_INVALID);
    let pattern = dtyp::utf16::decode(name).map_err(|_| invalid)?;
    if dtyp::utf16::units(&pattern) > PATTERN_UNITS_MAX || pattern.contains(['\\', '/']) {
        return Err(invalid);
    }
    Ok(pattern)
}

/// A new enumeration, or the one that is going on. The pattern is that of the request that began
/// it; REOPEN takes a new one, RESTART_SCANS does if one is given.
fn begin_if_due(open: &mut Open, flags: QueryDirectoryFlags, pattern: &str) -> Result<(), Reject> {
    let share = std::sync::Arc::clone(&open.share);
    let file = open.file_mut()?;
    let restarts =
        flags.intersects(QueryDirectoryFlags::RESTART_SCANS | QueryDirectoryFlags::REOPEN);
    if file.enumeration.is_some() && !restarts {
        return Ok(());
    }
    if pattern.is_empty() && file.enumeration.is_none() {
        // [MS-SMB2] 3.3.5.18: the first request has to say what it looks for.
        return Err(Reject::Status(NtStatus::OBJECT_NAME_INVALID));
    }
    match &mut file.enumeration {
        Some(enumeration) if pattern.is_empty() => enumeration.restart(),
        place => *place = Some(Box::new(Enumeration::new(pattern, &share))),
    }
    Ok(())
}

/// Answers from what is there, or asks the store for more.
fn go_on(open: &mut Open, pending: Pending) -> Result<Step<Pending>, Reject> {
    let user = open.user;
    let file = open.file_mut()?;
    let local_open = file.local_open;
    let enumeration = file.enumeration.as_mut().expect("`start` made it");
    if enumeration.needs_entries(pending.single, pending.limit) {
        let op = ObjectOp::ReadDirectory {
            open: local_open,
            restart: enumeration.begin_batch(),
            detail: pending.detail,
            entries_max: BATCH_ENTRIES,
        };
        return Ok(Step::Wait(Effect::Object { user, op }, pending));
    }
    let mut buffer = Vec::new();
    enumeration.fill(pending.class, pending.single, pending.limit, &mut buffer)?;
    Ok(Step::Done(Response::new(&QueryDirectoryResponse { output_buffer: &buffer })))
}
