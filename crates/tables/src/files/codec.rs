//! Encoding of a file's record, as `files.tdb` has it: a version, then the fields in their order.
//! All processes of a server are of one version; a record of another one counts as damaged.
//!
//! `arbitration` says what each field means: `FileRecord`, `OpenEntry`, `Deleter`, `Cache`. A
//! duration that names a point in time is on the machine's clock, CLOCK_MONOTONIC; after a restart
//! of the machine, persistent opens get new ones from `FileRecord::restore`.

use std::time::Duration;

use arbitration::caching::{BreakNotice, Breaking};
use arbitration::{
    ByteRange, ByteRangeLock, Cache, Caching, Deleter, DeletionProgress, Durability,
    DurabilityKind, FileKey, FileRecord, Holding, Lease, LeaseId, LeaseKey, LockList, LockSequence,
    LockSequences, OpenEntry, OpenFacts, OpenId, PendingDeletion, ShareMode,
};
use dtyp::{AccessMask, Guid, ServerId};

use super::requester::{read_requester, write_requester};
use crate::codec::{Block, Reader, RecordError, Writer, head_without_owner};

/// Version of the encoding: to be raised whenever a field is added, removed or changed.
const VERSION: u8 = 10;

/// First bytes of every record. Workers share a file, so its record has no owner.
const HEAD: [u8; head_without_owner(VERSION).len()] = head_without_owner(VERSION);

/// Bytes of a record beside its opens, as a rule: head, counts, and a lock or a deletion. A larger
/// record grows its buffer.
const RECORD_BYTES_USUAL: usize = 64;

/// Bytes of an open, as a rule: 121 without an oplock or a lease, and the texts of its path.
const OPEN_BYTES_USUAL: usize = 192;

/// Length of a file's key in bytes.
pub(super) const KEY_BYTES: usize = 16;

/// Returns the key of a file's record.
pub(super) fn key_of(key: FileKey) -> [u8; KEY_BYTES] {
    (u128::from(key.device) | u128::from(key.inode) << 64).to_le_bytes()
}

/// Returns the file of a record's key.
pub(super) fn key_from(bytes: &[u8]) -> Option<FileKey> {
    let (device, rest) = bytes.split_first_chunk()?;
    let inode = rest.try_into().ok()?;
    Some(FileKey { device: u64::from_le_bytes(*device), inode: u64::from_le_bytes(inode) })
}

/// Encodes the record of a file.
pub(super) fn encode(record: &FileRecord) -> Result<Vec<u8>, RecordError> {
    let mut out = Vec::with_capacity(RECORD_BYTES_USUAL + OPEN_BYTES_USUAL * record.opens.len());
    out.extend_from_slice(&HEAD);
    let mut writer = Writer::behind(&mut out);
    writer.count(record.opens.len());
    let mut before = None;
    for entry in &record.opens {
        encode_open(&mut writer, entry, before)?;
        before = Some(&entry.facts);
    }
    writer.count(record.leases.len());
    for it in &record.leases {
        write_lease(&mut writer, it);
    }
    writer.count(record.locks.len());
    for lock in record.locks.iter() {
        write_open_id(&mut writer, lock.open);
        writer.u64(lock.stream);
        writer.u64(lock.range.offset);
        writer.u64(lock.range.length);
        writer.bool(lock.exclusive);
    }
    writer.count(record.delete_pending.len());
    for PendingDeletion { mark, parent, requester } in &record.delete_pending {
        writer.u64(*mark);
        write_optional_key(&mut writer, *parent);
        writer.bool(requester.is_some());
        requester.iter().try_for_each(|it| write_requester(&mut writer, it))?;
    }
    writer.count(record.deleters.len());
    for deleter in &record.deleters {
        writer.u64(deleter.mark);
        writer.server_id(deleter.worker);
        writer.u8(match deleter.progress {
            DeletionProgress::ByCloser => 0,
            DeletionProgress::Delegated => 1,
            DeletionProgress::Accepted => 2,
        });
        // Usually that of the mark. Two copies would make most records outgrow their place.
        let is_of_mark = record.requester_of(deleter.mark) == Some(&deleter.requester);
        writer.bool(is_of_mark);
        if !is_of_mark {
            write_requester(&mut writer, &deleter.requester)?;
        }
    }
    writer.count(record.waiters.len());
    record.waiters.iter().for_each(|worker| writer.server_id(*worker));
    Ok(out)
}

/// Decodes the record of a file.
pub(super) fn decode(bytes: &[u8]) -> Result<FileRecord, RecordError> {
    let (mut reader, _) = Reader::new(bytes, VERSION)?;
    let mut opens: Vec<OpenEntry> = Vec::new();
    for at in 0..reader.u32()? {
        let entry = read_open(&mut reader, opens.last().map(|it| &it.facts))?;
        // Not by the count, which may be damaged: space for one open first, the usual number, and
        // for more as they are read.
        if at == 0 {
            opens.reserve_exact(1);
        }
        opens.push(entry);
    }
    let leases = reader.list(read_lease)?;
    let locks = reader.list(|reader| {
        Ok(ByteRangeLock {
            open: read_open_id(reader)?,
            stream: reader.u64()?,
            range: ByteRange { offset: reader.u64()?, length: reader.u64()? },
            exclusive: reader.bool()?,
        })
    })?;
    let delete_pending = reader.list(|reader| {
        Ok(PendingDeletion {
            mark: reader.u64()?,
            parent: read_optional_key(reader)?,
            requester: if reader.bool()? { Some(read_requester(reader)?) } else { None },
        })
    })?;
    let requester_of = |mark: u64| {
        let found = delete_pending.iter().find(|it: &&PendingDeletion| it.mark == mark);
        found.and_then(|it| it.requester.clone()).ok_or(RecordError::Value(1))
    };
    let deleters = reader.list(|reader| {
        let mark = reader.u64()?;
        Ok(Deleter {
            mark,
            worker: reader.server_id()?,
            progress: match reader.u8()? {
                0 => DeletionProgress::ByCloser,
                1 => DeletionProgress::Delegated,
                2 => DeletionProgress::Accepted,
                other => return Err(RecordError::Value(other)),
            },
            requester: if reader.bool()? { requester_of(mark)? } else { read_requester(reader)? },
        })
    })?;
    let waiters = reader.list(Reader::server_id)?;
    reader.finish()?;
    let locks = LockList::from_iter(locks);
    Ok(FileRecord { opens, leases, locks, delete_pending, deleters, waiters })
}

/// Encodes an open; `before` has the facts of the previous open in the record.
fn encode_open(
    writer: &mut Writer<'_>,
    entry: &OpenEntry,
    before: Option<&OpenFacts>,
) -> Result<(), RecordError> {
    let flags = [
        entry.mode.share_read,
        entry.mode.share_write,
        entry.mode.share_delete,
        entry.delete_on_close,
        entry.evicted,
    ];
    let mut head = Block::<33>::default();
    head.put(entry.id.worker.pid.to_le_bytes());
    head.put(entry.id.worker.unique_id.to_le_bytes());
    head.put(entry.id.number.to_le_bytes());
    head.put(entry.stream.to_le_bytes());
    head.put(entry.mode.granted_access.bits().to_le_bytes());
    head.put([flags_byte(&flags)]);
    writer.block(&head);
    match &entry.holding {
        Holding::Nothing => writer.u8(0),
        Holding::Oplock(it) => {
            writer.u8(1);
            write_cache(writer, *it);
        }
        Holding::Lease(id) => {
            writer.u8(2);
            write_lease_id(writer, *id);
        }
    }
    writer.bool(entry.durability.is_some());
    if let Some(it) = &entry.durability {
        writer.optional_duration(it.expires_at);
        writer.duration(it.timeout);
        writer.u8(match it.kind {
            DurabilityKind::Durable => 0,
            DurabilityKind::DurableV2 => 1,
            DurabilityKind::Persistent => 2,
            DurabilityKind::Resilient => 3,
        });
        writer.guid(it.create_guid);
        writer.text(&it.owner)?;
        writer.u64(it.position);
        writer.count(it.lock_sequences.as_slice().len());
        for LockSequence { index, number } in it.lock_sequences.as_slice() {
            writer.u8(*index);
            writer.u8(*number);
        }
    }
    let facts = &entry.facts;
    let mut ids = Block::<68>::default();
    ids.put(facts.link.to_le_bytes());
    ids.put(facts.client.0);
    ids.put(facts.user.to_le_bytes());
    ids.put(facts.app_instance_id.0);
    ids.put(facts.session_id.to_le_bytes());
    ids.put(facts.tree_id.to_le_bytes());
    ids.put(facts.persistent.to_le_bytes());
    writer.block(&ids);
    // Usually the path of the previous open, which is not repeated.
    let is_as_before = before.is_some_and(|it| it.has_path_of(facts));
    writer.bool(is_as_before);
    if !is_as_before {
        writer.text(&facts.share)?;
        writer.text(&facts.folder)?;
        writer.text(&facts.path)?;
    }
    let on_disk = facts.path_on_disk.as_deref().filter(|_| !is_as_before);
    let mut tail = Block::<17>::default();
    tail.put([flags_byte(&[facts.is_posix, facts.expects_lost_names, on_disk.is_some()])]);
    tail.put(facts.create_options.to_le_bytes());
    tail.put(facts.create_action.to_le_bytes());
    tail.put(facts.opened_at.0.to_le_bytes());
    writer.block(&tail);
    on_disk.map_or(Ok(()), |it| writer.text(it))
}

/// Decodes the share, folder and path by which the file was opened; and the path on disk, if it is
/// that of the previous open.
fn read_full_path(
    reader: &mut Reader<'_>,
    before: Option<&OpenFacts>,
) -> Result<([String; 3], Option<String>), RecordError> {
    match (reader.bool()?, before) {
        (true, Some(it)) => {
            let path = [it.share.clone(), it.folder.clone(), it.path.clone()];
            Ok((path, it.path_on_disk.clone()))
        }
        (true, None) => Err(RecordError::Value(1)),
        (false, _) => Ok(([reader.text()?, reader.text()?, reader.text()?], None)),
    }
}

fn read_open(
    reader: &mut Reader<'_>,
    before: Option<&OpenFacts>,
) -> Result<OpenEntry, RecordError> {
    let id = read_open_id(reader)?;
    let stream = reader.u64()?;
    let granted_access = AccessMask::from_bits_retain(reader.u32()?);
    let [share_read, share_write, share_delete, delete_on_close, evicted] = reader.flags()?;
    let mode = ShareMode { granted_access, share_read, share_write, share_delete };
    let holding = match reader.u8()? {
        0 => Holding::Nothing,
        1 => Holding::Oplock(read_cache(reader)?),
        2 => Holding::Lease(read_lease_id(reader)?),
        other => return Err(RecordError::Value(other)),
    };
    let durability =
        match reader.bool()? {
            false => None,
            true => Some(Durability {
                expires_at: reader.optional_duration()?,
                timeout: reader.duration()?,
                kind: match reader.u8()? {
                    0 => DurabilityKind::Durable,
                    1 => DurabilityKind::DurableV2,
                    2 => DurabilityKind::Persistent,
                    3 => DurabilityKind::Resilient,
                    other => return Err(RecordError::Value(other)),
                },
                create_guid: reader.guid()?,
                owner: reader.text()?,
                position: reader.u64()?,
                lock_sequences: LockSequences::from_entries(reader.list(|reader| {
                    Ok(LockSequence { index: reader.u8()?, number: reader.u8()? })
                })?),
            }),
        };
    let (link, client, user) = (reader.u64()?, reader.guid()?, reader.u64()?);
    let app_instance_id = reader.guid()?;
    let (session_id, tree_id, persistent) = (reader.u64()?, reader.u32()?, reader.u64()?);
    let ([share, folder, path], path_on_disk) = read_full_path(reader, before)?;
    let [is_posix, expects_lost_names, has_other_on_disk] = reader.flags()?;
    let mut facts = OpenFacts {
        link,
        client,
        user,
        app_instance_id,
        session_id,
        tree_id,
        persistent,
        share,
        folder,
        path,
        path_on_disk,
        is_posix,
        expects_lost_names,
        create_options: reader.u32()?,
        create_action: reader.u32()?,
        opened_at: reader.file_time()?,
    };
    if has_other_on_disk {
        facts.path_on_disk = Some(reader.text()?);
    }
    Ok(OpenEntry { id, stream, mode, holding, delete_on_close, durability, evicted, facts })
}

fn write_lease(writer: &mut Writer<'_>, it: &Lease) {
    write_lease_id(writer, it.id);
    writer.u64(it.stream);
    write_cache(writer, it.cache);
    writer.u16(it.epoch);
    writer.bool(it.is_v2);
    write_optional_key(writer, it.parent);
}

fn write_optional_key(writer: &mut Writer<'_>, key: Option<LeaseKey>) {
    writer.bool(key.is_some());
    if let Some(key) = key {
        writer.guid(Guid(key));
    }
}

fn read_optional_key(reader: &mut Reader<'_>) -> Result<Option<LeaseKey>, RecordError> {
    Ok(if reader.bool()? { Some(reader.guid()?.0) } else { None })
}

fn read_lease(reader: &mut Reader<'_>) -> Result<Lease, RecordError> {
    Ok(Lease {
        id: read_lease_id(reader)?,
        stream: reader.u64()?,
        cache: read_cache(reader)?,
        epoch: reader.u16()?,
        is_v2: reader.bool()?,
        parent: read_optional_key(reader)?,
    })
}

fn write_cache(writer: &mut Writer<'_>, it: Cache) {
    writer.u8(it.state.bits());
    writer.bool(it.breaking.is_some());
    if let Some(breaking) = it.breaking {
        writer.u8(breaking.to.bits());
        writer.u8(breaking.required.bits());
        writer.duration(breaking.deadline);
    }
    writer.bool(it.notice.is_some());
    if let Some(notice) = it.notice {
        writer.u8(notice.from.bits());
        writer.u8(notice.to.bits());
        writer.bool(notice.ack_required);
    }
}

fn read_cache(reader: &mut Reader<'_>) -> Result<Cache, RecordError> {
    let state = read_caching(reader)?;
    let breaking = match reader.bool()? {
        false => None,
        true => Some(Breaking {
            to: read_caching(reader)?,
            required: read_caching(reader)?,
            deadline: reader.duration()?,
        }),
    };
    let notice = match reader.bool()? {
        false => None,
        true => Some(BreakNotice {
            from: read_caching(reader)?,
            to: read_caching(reader)?,
            ack_required: reader.bool()?,
        }),
    };
    Ok(Cache { state, breaking, notice })
}

fn read_caching(reader: &mut Reader<'_>) -> Result<Caching, RecordError> {
    let bits = reader.u8()?;
    Caching::from_bits(bits).ok_or(RecordError::Value(bits))
}

fn write_open_id(writer: &mut Writer<'_>, id: OpenId) {
    writer.server_id(id.worker);
    writer.u64(id.number);
}

fn read_open_id(reader: &mut Reader<'_>) -> Result<OpenId, RecordError> {
    Ok(OpenId { worker: reader.server_id()?, number: reader.u64()? })
}

fn write_lease_id(writer: &mut Writer<'_>, id: LeaseId) {
    writer.guid(id.client);
    writer.guid(Guid(id.key));
}

fn read_lease_id(reader: &mut Reader<'_>) -> Result<LeaseId, RecordError> {
    Ok(LeaseId { client: reader.guid()?, key: reader.guid()?.0 })
}

impl Writer<'_> {
    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("lists have limits"));
    }

    fn server_id(&mut self, id: ServerId) {
        self.u32(id.pid);
        self.u64(id.unique_id);
    }

    fn duration(&mut self, it: Duration) {
        self.u64(u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
    }

    fn optional_duration(&mut self, it: Option<Duration>) {
        self.bool(it.is_some());
        if let Some(it) = it {
            self.duration(it);
        }
    }
}

/// Returns up to eight flags in one byte.
fn flags_byte(flags: &[bool]) -> u8 {
    flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag))
}

impl Reader<'_> {
    /// Reads a count and that number of items. Does not allocate by the count, which may be
    /// damaged: space for one item first, the usual number, and for more as they are read.
    pub(super) fn list<I>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<I, RecordError>,
    ) -> Result<Vec<I>, RecordError> {
        let count = self.u32()?;
        let mut items = Vec::with_capacity(usize::from(count != 0));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn server_id(&mut self) -> Result<ServerId, RecordError> {
        Ok(ServerId { pid: self.u32()?, unique_id: self.u64()? })
    }

    fn duration(&mut self) -> Result<Duration, RecordError> {
        self.u64().map(Duration::from_nanos)
    }

    fn optional_duration(&mut self) -> Result<Option<Duration>, RecordError> {
        Ok(if self.bool()? { Some(self.duration()?) } else { None })
    }

    fn flags<const N: usize>(&mut self) -> Result<[bool; N], RecordError> {
        let byte = self.u8()?;
        if usize::from(byte) >> N != 0 {
            return Err(RecordError::Value(byte));
        }
        Ok(std::array::from_fn(|at| byte >> at & 1 == 1))
    }
}
