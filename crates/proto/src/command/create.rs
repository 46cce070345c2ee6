//! SMB2 CREATE: [MS-SMB2] 3.3.5.9.
//!
//! A machine of three states. The store opens without truncating, so that sharing is judged on the
//! file that the name leads to before anything of it is lost:
//!
//! ```text
//! request ── validate ──> Opening ── sharing ──> (Overwriting ──>) response
//! ```

mod contexts;
mod pipe;
mod symbolic_link;
mod validate;

use std::sync::Arc;

use arbitration::ShareMode;
use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{Disposition, KindWanted, Metadata, ObjectOp, ObjectReply, OpenRequest, Opened};
use wire::FileId;
use wire::create::{
    CreateAction, CreateOptions, CreateRequest, CreateResponse, CreateResponseFlags, ShareAccess,
};

use crate::change::{Change, ChangeKind};
use crate::channel_sequence::ChannelSequence;
use crate::command::lock::LockSequences;
use crate::command::{Abandoned, Command};
use crate::effect::{Effect, Reply};
use crate::notice::{Notice, OpenedFile};
use crate::open::{OPENS_MAX, Open, OpenFile, Target};
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::{Response, Step};
use crate::scope::InTree;

use contexts::Contexts;

pub(crate) use validate::{is_vetoed, parse_path};

/// Opens or creates a file, a directory or a pipe.
#[derive(Debug)]
pub struct Create;

/// How far CREATE got.
#[derive(Debug)]
pub enum Pending {
    /// The store is opening.
    Opening(Opening),
    /// The store is emptying the file. The open is in the tables already, so that no other open
    /// slips in between.
    Overwriting(Overwriting),
}

/// What was asked for.
#[derive(Debug)]
pub struct Opening {
    root: object::RootId,
    user: object::UserId,
    disposition: Disposition,
    attributes: FileAttributes,
    share_access: ShareAccess,
    create_options: CreateOptions,
    contexts: Contexts,
}

/// What was opened, and is being emptied.
#[derive(Debug)]
pub struct Overwriting {
    opening: Opening,
    file_id: FileId,
    maximal_access: AccessMask,
}

impl Command for Create {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = CreateRequest<'a>;
    type Pending = Pending;

    fn start(
        scope: InTree<'_>,
        _: &Incoming,
        request: CreateRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        if scope.opens.len() >= OPENS_MAX {
            return Err(Reject::TooManyOpens);
        }
        let Some(root) = scope.tree.share.root else { return pipe::open(scope, &request) };
        let wanted = validate::validate(&request, &scope.tree.share)?;
        let contexts = Contexts::read(&request)?;
        let user = scope.tree.share.user;
        let open = OpenRequest {
            root,
            path: wanted.path.with_snapshot(contexts.snapshot),
            disposition: wanted.disposition,
            kind: wanted.kind,
            desired_access: wanted.desired_access,
            share_access_max: scope.tree.maximal_access,
            attributes: request.file_attributes,
            allocation_size: contexts.allocation_size,
            open_reparse_point: request.create_options.contains(CreateOptions::OPEN_REPARSE_POINT),
            delete_on_close: request.create_options.contains(CreateOptions::DELETE_ON_CLOSE),
            write_through: request.create_options.contains(CreateOptions::WRITE_THROUGH),
            security: contexts.security.clone(),
            extended_attributes: contexts.extended_attributes.clone(),
        };
        let opening = Opening {
            root,
            user,
            disposition: wanted.disposition,
            attributes: request.file_attributes,
            share_access: request.share_access,
            create_options: request.create_options,
            contexts,
        };
        let op = ObjectOp::Open(Box::new(open));
        Ok(Step::Wait(Effect::Object { user, op }, Pending::Opening(opening)))
    }

    fn resume(
        scope: InTree<'_>,
        _: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        match pending {
            Pending::Opening(opening) => match reply.object()? {
                ObjectReply::Opened(opened) => opened_by_store(scope, opening, *opened),
                ObjectReply::Stopped(link) => {
                    Ok(Step::Done(symbolic_link::stopped(scope.connection, &link)))
                }
                other => panic!("{other:?} does not answer an open"),
            },
            Pending::Overwriting(overwriting) => overwritten(scope, overwriting, reply),
        }
    }

    fn abandon(pending: Pending, reply: Option<Reply>) -> Abandoned {
        match (pending, reply) {
            (Pending::Opening(opening), Some(Reply::Object(Ok(ObjectReply::Opened(opened))))) => {
                let op = ObjectOp::Close { open: opened.open, unlink: false };
                let effect = Some(Effect::Object { user: opening.user, op });
                Abandoned { effect, reject: None }
            }
            // What is being overwritten is in the tables, and was closed with them.
            _ => Abandoned::default(),
        }
    }
}

/// The store has opened: judge sharing, enter the open, and go on to overwrite if that is due.
fn opened_by_store(
    mut scope: InTree<'_>,
    opening: Opening,
    opened: Opened,
) -> Result<Step<Pending>, Reject> {
    if let Err(reject) = admit(&scope, &opening, &opened) {
        let op = ObjectOp::Close { open: opened.open, unlink: false };
        let close = Effect::Object { user: opening.user, op };
        scope.globals.outbox.effects.push_back((None, close));
        return Err(reject);
    }
    let overwrites = !opened.created && opening.disposition.overwrites();
    let (local_open, maximal_access) = (opened.open, opened.maximal_access);
    if opened.created {
        scope.globals.report(|| Change {
            root: opening.root,
            path: opened.path.clone(),
            is_directory: opened.metadata.is_directory(),
            kind: ChangeKind::Added,
        });
    }
    let metadata = opened.metadata.clone();
    let created = opened.created;
    let file_id = enter(&mut scope, &opening, opened);
    if !overwrites {
        let action = if created { CreateAction::CREATED } else { CreateAction::OPENED };
        let response = respond(&opening, file_id, maximal_access, action, &metadata);
        return Ok(Step::Done(response));
    }
    let op = ObjectOp::Overwrite {
        open: local_open,
        supersede: opening.disposition == Disposition::Supersede,
        attributes: opening.attributes,
        extended_attributes: opening.contexts.extended_attributes.clone(),
        allocation_size: opening.contexts.allocation_size,
    };
    let effect = Effect::Object { user: opening.user, op };
    let overwriting = Overwriting { opening, file_id, maximal_access };
    Ok(Step::Wait(effect, Pending::Overwriting(overwriting)))
}

/// [MS-FSA] 2.1.5.1.2: whether this open may stand beside the others, and may do to the file what
/// it is about to do.
fn admit(scope: &InTree<'_>, opening: &Opening, opened: &Opened) -> Result<(), Reject> {
    let mut mode = share_mode(opened.granted_access, opening.share_access);
    if !opened.created && opening.disposition.overwrites() {
        // Emptying a file is writing to it, whatever rights were asked for.
        mode.granted_access |= AccessMask::WRITE_DATA;
    }
    scope.globals.files.verify_sharing(opened.metadata.identity, mode)?;
    if opened.created {
        return Ok(());
    }
    let attributes = opened.metadata.attributes;
    if opening.disposition.overwrites() {
        // [MS-FSA] 2.1.5.1.2.1: hidden and system files are overwritten only by those who know.
        let known = FileAttributes::HIDDEN | FileAttributes::SYSTEM;
        let hidden = attributes & known;
        if attributes.contains(FileAttributes::READONLY) || !opening.attributes.contains(hidden) {
            return Err(Reject::Status(NtStatus::ACCESS_DENIED));
        }
    }
    Ok(())
}

fn share_mode(granted_access: AccessMask, share_access: ShareAccess) -> ShareMode {
    ShareMode {
        granted_access,
        share_read: share_access.contains(ShareAccess::READ),
        share_write: share_access.contains(ShareAccess::WRITE),
        share_delete: share_access.contains(ShareAccess::DELETE),
    }
}

/// Makes the Open and enters it wherever it has to be known.
fn enter(scope: &mut InTree<'_>, opening: &Opening, opened: Opened) -> FileId {
    let file_id = scope.globals.allocate_file_id();
    let mode = share_mode(opened.granted_access, opening.share_access);
    let identity = opened.metadata.identity;
    scope.globals.files.open(identity, file_id.volatile, mode);
    let options = opening.create_options;
    scope.globals.outbox.notices.push_back(Notice::Opened(Box::new(OpenedFile {
        session_id: scope.session.session_id,
        tree_id: scope.tree.tree_id,
        file_id,
        share: scope.tree.share.name.clone(),
        path: opened.path.to_windows(),
        granted_access: opened.granted_access.bits(),
        share_access: opening.share_access.bits(),
        create_options: options.bits(),
        oplock_level: 0,
        identity,
    })));
    let file = OpenFile {
        local_open: opened.open,
        identity,
        // A stream of a directory holds data.
        is_directory: opened.metadata.is_directory() && opened.path.stream().is_none(),
        path: opened.path,
        share_access: opening.share_access,
        create_options: options,
        delete_on_close: options.contains(CreateOptions::DELETE_ON_CLOSE),
        position: 0,
        mode: 0,
        enumeration: None,
        attributes_listed: 0,
        watch: None,
        lock_sequences: LockSequences::default(),
    };
    let open = Open {
        file_id,
        session_id: scope.session.session_id,
        tree_id: scope.tree.tree_id,
        share: Arc::clone(&scope.tree.share),
        user: opening.user,
        target: Target::File(Box::new(file)),
        granted_access: opened.granted_access,
        maximal_access: opened.maximal_access,
        channel_sequence: ChannelSequence::default(),
    };
    scope.opens.insert(file_id.volatile, open);
    file_id
}

fn overwritten(
    scope: InTree<'_>,
    overwriting: Overwriting,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let Overwriting { opening, file_id, maximal_access } = overwriting;
    let metadata = match reply.object() {
        Ok(ObjectReply::Metadata(metadata)) => metadata,
        Ok(other) => panic!("{other:?} does not answer an overwrite"),
        Err(reject) => {
            let mut failed = scope.opens.remove(&file_id.volatile);
            // Only an open that went well takes the file along when it is closed.
            if let Some(Open { target: Target::File(file), .. }) = &mut failed {
                file.delete_on_close = false;
            }
            let close = failed.and_then(|open| scope.globals.retire(open));
            let close = close.map(|(user, op)| (None, Effect::Object { user, op }));
            scope.globals.outbox.effects.extend(close);
            return Err(reject);
        }
    };
    if let Some(open) = scope.opens.get(&file_id.volatile) {
        scope.globals.report_written(open);
    }
    let action = match opening.disposition {
        Disposition::Supersede => CreateAction::SUPERSEDED,
        _ => CreateAction::OVERWRITTEN,
    };
    Ok(Step::Done(respond(&opening, file_id, maximal_access, action, &metadata)))
}

fn respond(
    opening: &Opening,
    file_id: FileId,
    maximal_access: AccessMask,
    action: CreateAction,
    metadata: &Metadata,
) -> Response {
    let contexts = opening.contexts.answer(metadata, maximal_access);
    let mut flags = CreateResponseFlags::empty();
    let is_reparse_point = metadata.attributes.contains(FileAttributes::REPARSE_POINT);
    flags.set(CreateResponseFlags::REPARSEPOINT, is_reparse_point);
    Response::new(&CreateResponse {
        oplock_level: wire::OplockLevel::default(),
        flags,
        create_action: action,
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        allocation_size: metadata.allocation_size,
        end_of_file: metadata.end_of_file,
        file_attributes: metadata.attributes,
        file_id,
        create_contexts: contexts.contexts(),
    })
    .naming(file_id)
}

/// What of the kind of object the options insist on.
fn kind_wanted(options: CreateOptions) -> KindWanted {
    if options.contains(CreateOptions::DIRECTORY_FILE) {
        KindWanted::Directory
    } else if options.contains(CreateOptions::NON_DIRECTORY_FILE) {
        KindWanted::File
    } else {
        KindWanted::Any
    }
}
