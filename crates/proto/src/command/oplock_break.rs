//! SMB2 OPLOCK_BREAK: telling a client that an oplock or lease is taken ([MS-SMB2] 3.3.4.6,
//! 3.3.4.7), and what it answers (3.3.5.22).

use std::convert::Infallible;
use std::sync::Arc;

use arbitration::{AckError, BreakTold, Caching, Deleter, FileKey, LeaseId};
use dtyp::NtStatus;
use object::{ObjectOp, ObjectPath};
use wire::lease::LeaseKey;
use wire::oplock_break::{
    BreakAcknowledgment, LeaseBreak, LeaseBreakFlags, LeaseBreakNotification,
    OplockBreak as OplockBreakBody,
};
use wire::{FileId, OplockLevel};

use crate::break_notification::Holder;
use crate::command::Command;
use crate::command::create::caching::{caching, lease_name, lease_state, oplock_level};
use crate::effect::{Effect, Removal, Reply};
use crate::file_key::key;
use crate::open::Open;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::{Response, Step};
use crate::scope::InTree;
use crate::server::Server;

/// Acknowledges the break of an oplock or a lease.
#[derive(Debug)]
pub struct OplockBreak;

impl Command for OplockBreak {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = BreakAcknowledgment;
    type Pending = Infallible;

    fn start(
        scope: InTree<'_>,
        _: &Incoming,
        request: BreakAcknowledgment,
    ) -> Result<Step, Reject> {
        match request {
            BreakAcknowledgment::Lease(body) => acknowledge_lease(scope, body),
            BreakAcknowledgment::Oplock(body) => acknowledge_oplock(scope, body),
        }
    }

    fn resume(_: InTree<'_>, _: &Incoming, pending: Infallible, _: Reply) -> Result<Step, Reject> {
        match pending {}
    }
}

/// [MS-SMB2] 3.3.5.22.1.
fn acknowledge_oplock(mut scope: InTree<'_>, body: OplockBreakBody) -> Result<Step, Reject> {
    let open = scope.open()?;
    let file_id = open.file_id;
    let file = open.file()?;
    if file.lease.is_some() {
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    let file = key(file.identity);
    let kept = match body.oplock_level {
        OplockLevel::NONE => Caching::empty(),
        OplockLevel::II => Caching::READ,
        OplockLevel::LEASE => return Err(Reject::Status(NtStatus::INVALID_PARAMETER)),
        _ => {
            // What cannot be kept is no answer, and the oplock is lost.
            settle_oplock(&mut scope, file, file_id, Caching::empty()).ok();
            return Err(Reject::Status(NtStatus::INVALID_OPLOCK_PROTOCOL));
        }
    };
    settle_oplock(&mut scope, file, file_id, kept)?;
    scope.globals.breaks.acknowledged(Holder::Oplock(file_id.volatile));
    let oplock_level = oplock_level(kept);
    Ok(Step::Done(Response::new(&OplockBreakBody { oplock_level, file_id })))
}

fn settle_oplock(
    scope: &mut InTree<'_>,
    file: FileKey,
    file_id: FileId,
    kept: Caching,
) -> Result<(), Reject> {
    let files = &mut scope.globals.files;
    let (id, deadline) = (files.open_id(file_id.volatile), files.break_deadline());
    let settled = files.change(file, |record, look| {
        let settled = record.acknowledge_oplock(id, kept, deadline, look);
        if settled == Err(AckError::TooMuch) {
            // As above: the oplock is lost.
            let lost = record.acknowledge_oplock(id, Caching::empty(), deadline, look);
            debug_assert_eq!(lost, Ok(()), "nothing is never too much");
        }
        (settled, matches!(settled, Ok(()) | Err(AckError::TooMuch)))
    })?;
    settled.map_err(|error| match error {
        AckError::NotBreaking => Reject::Status(NtStatus::INVALID_DEVICE_STATE),
        AckError::NotHeld | AckError::TooMuch => Reject::Status(NtStatus::INVALID_OPLOCK_PROTOCOL),
    })
}

/// [MS-SMB2] 3.3.5.22.2.
fn acknowledge_lease(scope: InTree<'_>, body: LeaseBreak) -> Result<Step, Reject> {
    let client = scope.connection.negotiated().client_guid;
    let id = LeaseId { client, key: body.lease_key.0 };
    let files = &mut scope.globals.files;
    let not_found = Reject::Status(NtStatus::OBJECT_NAME_NOT_FOUND);
    let (kept, deadline) = (caching(body.lease_state), files.break_deadline());
    let mut settled = Err(AckError::NotHeld);
    // An entry for each open; each file is asked once.
    let mut leased = files.files_of_lease(id).to_vec();
    leased.sort_unstable();
    leased.dedup();
    for file in leased {
        settled = files.change(file, |record, look| {
            let settled = record.acknowledge_lease(id, kept, deadline, look);
            (settled, settled.is_ok())
        })?;
        if !matches!(settled, Err(AckError::NotHeld | AckError::NotBreaking)) {
            break;
        }
    }
    settled.map_err(|error| match error {
        AckError::NotHeld => not_found,
        AckError::NotBreaking => Reject::Status(NtStatus::UNSUCCESSFUL),
        AckError::TooMuch => Reject::Status(NtStatus::REQUEST_NOT_ACCEPTED),
    })?;
    scope.globals.breaks.acknowledged(Holder::Lease(id));
    Ok(Step::Done(Response::new(&LeaseBreak { lease_state: lease_state(kept), ..body })))
}

impl Server {
    /// The record of a file changed in a way that concerns this worker: tells clients what is
    /// taken from them, closes and deletes what has to go, and wakes who waits.
    pub(crate) fn look_at(&mut self, file: FileKey) {
        let opens = &self.opens;
        // A client is told nothing of an open that it does not know yet.
        let knows = |volatile| {
            let open: Option<&Open> = opens.get(&volatile);
            open.is_none_or(|it| it.file().is_ok_and(|file| !file.is_being_made))
        };
        let files = &mut self.globals.files;
        let (own, now) = (files.server(), files.now());
        let seen = files.change(file, |record, look| {
            let expired = record.expire(now, look);
            let told = record.take_notices(own, knows);
            let evicted: Vec<u64> = record
                .opens
                .iter()
                .filter(|it| it.id.server == own && it.evicted)
                .map(|it| it.id.number)
                .collect();
            let own_opens = record.opens.iter().filter(|it| it.id.server == own);
            let paths: Vec<(u64, String, u64)> =
                own_opens.map(|it| (it.id.number, it.facts.path.clone(), it.facts.link)).collect();
            let inherited = record.take_inheritance(own);
            let changed = expired || !told.is_empty() || !inherited.is_empty();
            ((told, evicted, paths, inherited, record.next_deadline()), changed)
        });
        let waiting = files.take_waiting(file);
        self.globals.outbox.wakes.extend(waiting);
        // A record that cannot be read has nobody to be told; those who wait find out themselves.
        let Ok((told, evicted, paths, inherited, deadline)) = seen else { return };
        self.globals.files.set_deadline(file, deadline);
        for told in told {
            self.tell_break(&told);
        }
        for (volatile, path, link) in paths {
            self.follow_rename(volatile, &path, link);
        }
        for volatile in evicted {
            if let Some(open) = self.opens.remove(&volatile) {
                self.globals.retire_unasked(open);
            }
        }
        for deleter in inherited {
            self.remove(file, deleter);
        }
    }

    /// Deletes in place of a worker that is dead, or a client that is away: [MS-FSA] 2.1.5.5.
    fn remove(&mut self, file: FileKey, deleter: Deleter) {
        let Deleter { mark, share, folder, path, is_posix, .. } = deleter;
        let Ok(path) = ObjectPath::from_windows(&path, is_posix) else {
            // No name that a client could have given.
            return self.globals.files.deleted(file, mark);
        };
        let folder = ObjectPath::from_stored(folder, None);
        let removal = Removal { file, mark, share, folder, path };
        self.globals.outbox.effects.push_back((None, Effect::Remove(Box::new(removal))));
    }

    /// An open whose file another worker has renamed goes by the new name.
    fn follow_rename(&mut self, volatile: u64, path: &str, link: u64) {
        let Some(open) = self.opens.get_mut(&volatile) else { return };
        let (user, share) = (open.user, Arc::clone(&open.share));
        let Ok(file) = open.file_mut() else { return };
        file.link = link;
        if file.path.to_windows() == path {
            return;
        }
        let is_posix = file.path.is_posix();
        let stored = if is_posix { Some(path) } else { path.split(':').next() };
        let stored = stored.unwrap_or_default().replace('\\', "/");
        let path = ObjectPath::from_stored(stored, file.path.stream().map(str::to_owned));
        file.path = path.meant_as(&file.path);
        if let Some(lease) = file.lease {
            self.globals.files.rename_lease(lease, lease_name(&share, &file.path));
        }
        let op = ObjectOp::Relocate { open: file.local_open, path: file.path.clone().into() };
        self.globals.outbox.effects.push_back((None, Effect::Object { user, op }));
    }

    /// Sends the notification: [MS-SMB2] 3.3.4.6, 3.3.4.7.
    fn tell_break(&mut self, told: &BreakTold) {
        let Some(open) = self.opens.get(&told.open) else { return };
        let notice = told.notice;
        let body = match &told.lease {
            None => Response::new(&OplockBreakBody {
                oplock_level: oplock_level(notice.to & Caching::READ),
                file_id: open.file_id,
            }),
            Some(lease) => {
                let mut flags = LeaseBreakFlags::empty();
                flags.set(LeaseBreakFlags::ACK_REQUIRED, notice.ack_required);
                Response::new(&LeaseBreakNotification {
                    new_epoch: if lease.is_v2 { lease.epoch } else { 0 },
                    flags,
                    lease_key: LeaseKey(lease.id.key),
                    current_lease_state: lease_state(notice.from),
                    new_lease_state: lease_state(notice.to),
                })
            }
        };
        let holder = told.lease.map_or(Holder::Oplock(told.open), |it| Holder::Lease(it.id));
        self.send_break(holder, body.buffer);
    }
}
