//! FileFullEaInformation: [MS-SMB2] 3.3.5.20.1, [MS-FSA] 2.1.5.12.14.

use dtyp::fscc::{EntryListWriter, FullEa, GetEaList, encode_full_ea_entry};
use dtyp::{AccessMask, NtStatus};
use object::{ExtendedAttribute, ObjectOp, ObjectReply};
use wire::query_info::{QueryInfoFlags, QueryInfoRequest};

use super::{Pending, answer};
use crate::effect::Effect;
use crate::open::Open;
use crate::reject::Reject;
use crate::response::Step;

/// What was asked.
#[derive(Debug)]
pub struct Question {
    /// Names that were asked for; nothing for all.
    names: Option<Vec<String>>,
    /// The one to begin with, counted from 1.
    first: usize,
    single: bool,
    output_buffer_length: u32,
}

/// Asks the store for the attributes.
pub(super) fn start(open: &Open, request: &QueryInfoRequest<'_>) -> Result<Step<Pending>, Reject> {
    open.verify_access(AccessMask::READ_EA)?;
    if !open.share.extended_attributes {
        return Err(Reject::Status(NtStatus::EAS_NOT_SUPPORTED));
    }
    let names = if request.input_buffer.is_empty() {
        None
    } else {
        let names: Result<Vec<String>, _> = GetEaList(request.input_buffer).iter().collect();
        Some(names.map_err(|error| Reject::Status(error.status()))?)
    };
    let by_index = request.flags.contains(QueryInfoFlags::INDEX_SPECIFIED);
    let first = if by_index { request.additional_information } else { 1 };
    let question = Question {
        names,
        first: usize::try_from(first).expect("32 bits fit memory").max(1),
        single: request.flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY),
        output_buffer_length: request.output_buffer_length,
    };
    let op = ObjectOp::ReadExtendedAttributes { open: open.file()?.local_open };
    let pending = Pending::ExtendedAttributes(question);
    Ok(Step::Wait(Effect::Object { user: open.user, op }, pending))
}

/// Answers with what the store told.
pub(super) fn resume(
    _: &Open,
    question: &Question,
    reply: ObjectReply,
) -> Result<Step<Pending>, Reject> {
    let ObjectReply::ExtendedAttributes(found) = reply else { panic!("these were asked for") };
    let wanted = match &question.names {
        Some(names) => names.iter().map(|name| named(&found, name)).collect(),
        None if found.is_empty() => return Err(Reject::Status(NtStatus::NO_EAS_ON_FILE)),
        None => found,
    };
    if question.first > wanted.len() {
        return Err(Reject::Status(NtStatus::NONEXISTENT_EA_ENTRY));
    }
    let count = if question.single { 1 } else { wanted.len() };
    let wanted = wanted.into_iter().skip(question.first - 1).take(count);
    let limit = usize::try_from(question.output_buffer_length).expect("32 bits fit memory");
    let mut out = Vec::new();
    let mut writer = EntryListWriter::new(&mut out, limit, 4);
    for attribute in wanted {
        let ea = full_ea(attribute);
        let mut entry = Vec::new();
        if encode_full_ea_entry(&ea, &mut entry).is_none() {
            continue; // A value of more than 64 KiB cannot be told.
        }
        if !writer.push(|out| out.extend_from_slice(&entry)) {
            // [MS-FSA] 2.1.5.12.14: what fits, or a status if that is nothing.
            let status = match writer.entries() {
                0 => NtStatus::BUFFER_TOO_SMALL,
                _ => NtStatus::BUFFER_OVERFLOW,
            };
            return Err(Reject::Status(status));
        }
    }
    answer(out, 0, question.output_buffer_length)
}

/// The attribute of this name; one that the file has not is told with an empty value.
fn named(found: &[ExtendedAttribute], name: &str) -> ExtendedAttribute {
    let same = found.iter().find(|attribute| attribute.name.eq_ignore_ascii_case(name));
    same.cloned().unwrap_or_else(|| ExtendedAttribute {
        flags: 0,
        name: name.to_owned(),
        value: Vec::new(),
    })
}

fn full_ea(attribute: ExtendedAttribute) -> FullEa {
    FullEa { flags: attribute.flags, name: attribute.name, value: attribute.value }
}

/// Bytes that attributes take in all, as EaSize tells them: 4 for the list, and for each 4, its
/// name, a zero and its value.
pub(super) fn encoded_len(attributes: &[ExtendedAttribute]) -> u32 {
    if attributes.is_empty() {
        return 0;
    }
    let bytes: usize = attributes.iter().map(|it| 5 + it.name.len() + it.value.len()).sum();
    u32::try_from(4 + bytes).unwrap_or(u32::MAX)
}
