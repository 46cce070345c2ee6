//! Lists for display: SamrQueryDisplayInformation, [MS-SAMR] 3.1.5.3.

use dtyp::NtStatus;

use super::access::LIST_ACCOUNTS;
use super::enumeration::ENTRIES_MAX;
use super::group::{ATTRIBUTES, NONE, NONE_RID};
use super::object::domain;
use super::user::control;
use crate::handles::SamDomain;
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Bytes of an entry without its texts, near enough for the limit on a response.
const ENTRY_BYTES: usize = 64;

/// An entry of any list.
#[derive(Debug)]
struct Entry {
    rid: u32,
    /// Control bits of a user, or attributes of a group.
    bits: u32,
    name: String,
    full_name: String,
}

impl Entry {
    fn len(&self) -> usize {
        ENTRY_BYTES + 2 * (self.name.len() + self.full_name.len())
    }
}

/// SamrQueryDisplayInformation, 2 and 3: [MS-SAMR] 3.1.5.3.3 to 3.1.5.3.1.
pub(super) fn query(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let of = domain(reader, environment, LIST_ACCOUNTS)?;
    let (level, index) = (reader.u16()?, reader.u32()?);
    let (entry_count, preferred_maximum_length) = (reader.u32()?, reader.u32()?);
    let Some(all) = entries(environment, of, level) else {
        return Ok(respond(level, 0, &[], NtStatus::INSUFFICIENT_RESOURCES));
    };
    if !(1..=5).contains(&level) {
        return Ok(respond(level, 0, &[], NtStatus::INVALID_INFO_CLASS));
    }
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let begin = size(index).min(all.len());
    let rest = &all[begin..];
    let mut len = 0_usize;
    let fits = |entry: &&Entry| {
        len = len.saturating_add(entry.len());
        len <= size(preferred_maximum_length)
    };
    let limit = size(entry_count).min(ENTRIES_MAX);
    let count = rest.iter().take(limit).take_while(fits).count().max(1).min(rest.len());
    let status = if count == rest.len() { NtStatus::SUCCESS } else { NtStatus::MORE_ENTRIES };
    let page: Vec<_> = (begin + 1..).zip(&rest[..count]).collect();
    Ok(respond(level, all.iter().map(Entry::len).sum(), &page, status))
}

/// Returns the entries of a list; `None` if users cannot be read. There are no machines.
fn entries(environment: &Environment<'_>, of: SamDomain, level: u16) -> Option<Vec<Entry>> {
    Some(match (of, level) {
        (SamDomain::Account, 1 | 4) => {
            let accounts = environment.catalogue.accounts()?;
            let entry = |account: crate::AccountEntry| Entry {
                rid: account.rid,
                bits: control(&account),
                name: account.name,
                full_name: account.full_name,
            };
            accounts.into_iter().map(entry).collect()
        }
        (SamDomain::Account, 3 | 5) => {
            let (name, full_name) = (NONE.to_owned(), String::new());
            vec![Entry { rid: NONE_RID, bits: ATTRIBUTES, name, full_name }]
        }
        _ => Vec::new(),
    })
}

/// Returns the response: sizes, the union's tag, count and entries ([MS-SAMR] 2.2.8). Sizes are
/// estimates, as the specification allows.
fn respond(level: u16, total_len: usize, page: &[(usize, &Entry)], status: NtStatus) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.count(total_len);
    writer.count(page.iter().map(|(_, entry)| entry.len()).sum());
    writer.u32(u32::from(level));
    if status == NtStatus::INVALID_INFO_CLASS {
        // The union has no arm for this level.
        return writer.finish_status(status);
    }
    writer.count(page.len());
    if page.is_empty() {
        writer.null();
        return writer.finish_status(status);
    }
    writer.referent();
    writer.count(page.len());
    let is_ascii = matches!(level, 4 | 5);
    for (index, entry) in page {
        writer.count(*index);
        if is_ascii {
            oem_string(&mut writer, &entry.name);
            continue;
        }
        writer.u32(entry.rid);
        writer.u32(entry.bits);
        writer.unicode_string(&entry.name);
        writer.unicode_string("");
        if level == 1 {
            writer.unicode_string(&entry.full_name);
        }
    }
    for (_, entry) in page {
        if is_ascii {
            oem_buffer(&mut writer, &entry.name);
            continue;
        }
        writer.unicode_buffer(&entry.name);
        writer.unicode_buffer("");
        if level == 1 {
            writer.unicode_buffer(&entry.full_name);
        }
    }
    writer.finish_status(status)
}

/// Appends the fixed part of an RPC_STRING in the OEM character set: [MS-SAMR] 2.2.2.3.
fn oem_string(writer: &mut Writer, text: &str) {
    let len = u32::try_from(oem(text).len()).unwrap_or_default();
    writer.u32(len | len << 16);
    writer.referent();
}

fn oem_buffer(writer: &mut Writer, text: &str) {
    let bytes = oem(text);
    writer.count(bytes.len());
    writer.u32(0);
    writer.count(bytes.len());
    writer.bytes(&bytes);
}

/// Returns a name in ASCII, with `?` for what is none. Names are far below 64 KiB.
fn oem(text: &str) -> Vec<u8> {
    let byte = |letter: char| u8::try_from(letter).ok().filter(u8::is_ascii).unwrap_or(b'?');
    text.chars().take(256).map(byte).collect()
}
