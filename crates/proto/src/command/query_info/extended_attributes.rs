//! FileFullEaInformation: [MS-SMB2] 3.3.5.20.1, [MS-FSA] 2.1.5.12.14.

use std::collections::HashMap;

use dtyp::fscc::{EntryListWriter, FullEa, GetEaList, encode_full_ea_entry};
use dtyp::{AccessMask, NtStatus};
use engine::effect::Effect;
use engine::response::Step;
use model::open::Open;
use model::reject::Reject;
use object::{ExtendedAttribute, ObjectOp, ObjectReply};
use wire::query_info::{QueryInfoFlags, QueryInfoRequest};

use super::{Pending, respond};
use crate::command::set_info::extended_attributes::LIST_BYTES_MAX;

/// Parameters of a query of extended attributes.
#[derive(Debug)]
pub struct Question {
    wanted: Selection,
    single: bool,
    output_buffer_length: u32,
}

/// Selection of the extended attributes.
#[derive(Debug)]
enum Selection {
    /// Attributes behind those that the previous query listed.
    Next,
    /// Attributes from this index on, counted from zero.
    From(usize),
    /// Attributes with one of these names.
    Named(Vec<String>),
}

/// Requests the attributes from the store.
pub(super) fn start(open: &Open, request: &QueryInfoRequest<'_>) -> Result<Step<Pending>, Reject> {
    open.verify_access(AccessMask::READ_EA)?;
    if !open.share.extended_attributes {
        return Err(Reject::ExtendedAttributesOff);
    }
    if request.input_buffer.len() > LIST_BYTES_MAX {
        return Err(Reject::ExtendedAttributesTooLarge(request.input_buffer.len()));
    }
    let wanted = if !request.input_buffer.is_empty() {
        let names: Result<Vec<String>, _> = GetEaList(request.input_buffer).iter().collect();
        Selection::Named(names?)
    } else if request.flags.contains(QueryInfoFlags::INDEX_SPECIFIED) {
        // The first attribute has the index 1.
        let index = usize::try_from(request.additional_information).expect("32 bits fit memory");
        Selection::From(index.saturating_sub(1))
    } else if request.flags.contains(QueryInfoFlags::RESTART_SCAN) {
        Selection::From(0)
    } else {
        Selection::Next
    };
    let question = Question {
        wanted,
        single: request.flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY),
        output_buffer_length: request.output_buffer_length,
    };
    let op = ObjectOp::ReadExtendedAttributes { open: open.file()?.local_open };
    let pending = Pending::ExtendedAttributes(question);
    Ok(Step::Wait(Effect::Object { user: open.user, op }, pending))
}

/// Makes the response from the store's reply.
pub(super) fn resume(
    open: &mut Open,
    question: &Question,
    reply: ObjectReply,
) -> Result<Step<Pending>, Reject> {
    let ObjectReply::ExtendedAttributes(found) = reply else { panic!("these were asked for") };
    let file = open.file_mut()?;
    let first = match &question.wanted {
        Selection::Named(names) => {
            let (step, _) = list(named(&found, names), question)?;
            return Ok(step);
        }
        _ if found.is_empty() => return Err(Reject::NoExtendedAttributes),
        Selection::Next => file.attributes_listed,
        Selection::From(first) => *first,
    };
    if first >= found.len() {
        let is_behind_the_last = first == found.len() || matches!(question.wanted, Selection::Next);
        return Err(if is_behind_the_last {
            Reject::NoMoreExtendedAttributes
        } else {
            Reject::ExtendedAttributeNotFound(first)
        });
    }
    let (step, listed) = list(found.into_iter().skip(first).map(full_ea), question)?;
    file.attributes_listed = first + listed;
    Ok(step)
}

/// Lists as many attributes as fit, and returns their number. BUFFER_OVERFLOW reports that there
/// are more.
fn list(
    attributes: impl Iterator<Item = FullEa>,
    question: &Question,
) -> Result<(Step<Pending>, usize), Reject> {
    let limit = usize::try_from(question.output_buffer_length).expect("32 bits fit memory");
    let count_max = if question.single { 1 } else { usize::MAX };
    let mut out = Vec::new();
    let mut left_out = None;
    let mut listed = 0;
    let mut writer = EntryListWriter::new(&mut out, limit, 4);
    for attribute in attributes.take(count_max) {
        let mut entry = Vec::new();
        // The entry has no room for a value of more than 64 KiB.
        if encode_full_ea_entry(&attribute, &mut entry).is_some()
            && !writer.push(|out| out.extend_from_slice(&entry))
        {
            left_out = Some(entry.len());
            break;
        }
        listed += 1;
    }
    let status = match left_out {
        Some(need) if listed == 0 => {
            return Err(Reject::OutputBufferTooSmall { need, room: limit });
        }
        Some(_) => NtStatus::BUFFER_OVERFLOW,
        None => NtStatus::SUCCESS,
    };
    Ok((respond(status, &out), listed))
}

/// Returns the attributes of these names; a missing one has an empty value.
fn named<'n>(
    found: &[ExtendedAttribute],
    names: &'n [String],
) -> impl Iterator<Item = FullEa> + use<'n> {
    let by_name: HashMap<String, FullEa> =
        found.iter().map(|it| (it.name.to_ascii_uppercase(), full_ea(it.clone()))).collect();
    names.iter().map(move |name| {
        let found = by_name.get(&name.to_ascii_uppercase()).cloned();
        found.unwrap_or_else(|| FullEa { flags: 0, name: name.clone(), value: Vec::new() })
    })
}

fn full_ea(attribute: ExtendedAttribute) -> FullEa {
    FullEa { flags: attribute.flags, name: attribute.name, value: attribute.value }
}
