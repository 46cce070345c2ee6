//! SMB2 SET_INFO: [MS-SMB2] 3.3.5.21.

mod basic;
mod disposition;
pub(crate) mod extended_attributes;
pub mod name_conflicts;
pub mod quota;
pub mod rename;
mod security;
mod size;
#[cfg(test)]
mod tests;

use arbitration::FileKey;
use dtyp::AccessMask;
use dtyp::fscc::{
    FileInformationClass, FileModeInformation, FilePositionInformation, FsInformationClass,
};
use engine::change::{Change, ChangeKind};
use engine::effect::{Effect, Reply};
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InTree;
use model::audit::AuditEvent;
use model::open::{Open, Target};
use model::reject::Reject;
use object::ObjectOp;
use wire::Decode;
use wire::change_notify::CompletionFilter;
use wire::create::CreateOptions;
use wire::query_info::InfoType;
use wire::set_info::{SetInfoRequest, SetInfoResponse};

use crate::command::Command;
use name_conflicts::AskedToClose;

/// Changes a file, its name or its security.
#[derive(Debug)]
pub struct SetInfo;

/// State of a pending SET_INFO.
#[derive(Debug)]
pub enum Pending {
    /// The store makes a change that is reported to watches with these filters.
    Changing(CompletionFilter),
    /// The store checks whether a directory is empty, before the directory becomes delete pending.
    Emptiness,
    /// The store reads the file's attributes, before the file becomes delete pending.
    Deletability {
        /// True if a read-only file may be deleted, too.
        ignores_read_only: bool,
    },
    /// The store looks up the directory of a new name.
    Directory(Box<rename::NewName>),
    /// The store looks up the target of a rename.
    Target(Box<rename::NewName>),
    /// The store renames the file.
    Renaming(Box<rename::NewName>),
    /// The store makes a hard link.
    Linking(Box<rename::NewName>),
    /// The store or a command sets quotas.
    Quota(quota::Change),
    /// Clients must release cached handles of the file first; then the request begins anew.
    Handles(FileKey),
    /// Clients must release cached handles that refuse a new name; then the request begins anew.
    AskedToClose(Box<AskedToClose>),
}

impl PendingCommand for Pending {
    fn waits_for(&self) -> Option<FileKey> {
        match self {
            Self::Handles(file) => Some(*file),
            Self::AskedToClose(opens) => Some(opens.file),
            _ => None,
        }
    }

    /// As by Windows, which sends an interim response for no SET_INFO.
    fn is_silent(&self) -> bool {
        true
    }
}

impl Command for SetInfo {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = SetInfoRequest<'a>;
    type Pending = Pending;

    fn start(
        mut scope: InTree<'_>,
        incoming: &Incoming,
        request: SetInfoRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        scope.open()?;
        let negotiated = scope.connection.negotiated();
        let length = u32::try_from(request.buffer.len()).expect("a frame is below 16 MiB");
        let max = negotiated.max_transact_size;
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        if request.buffer.is_empty() {
            return Err(Reject::InformationEmpty);
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        match request.info_type {
            InfoType::FILE => set_file(scope, &request),
            InfoType::FILESYSTEM => set_file_system(scope, &request),
            InfoType::SECURITY => security::start(scope, &request),
            InfoType::QUOTA => quota::start(scope, request.buffer),
            unknown => Err(Reject::InfoTypeUnknown(unknown)),
        }
    }

    fn resume(
        mut scope: InTree<'_>,
        incoming: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        match pending {
            Pending::Changing(filter) => {
                reply.object()?;
                report(&mut scope, filter)?;
                audit(&mut scope, filter)?;
                done()
            }
            Pending::Deletability { ignores_read_only } => {
                disposition::verify_deletable(scope, ignores_read_only, reply)
            }
            Pending::Emptiness => disposition::verify_empty(scope, reply),
            Pending::Directory(wanted) => rename::directory_found(scope, *wanted, reply),
            Pending::Target(wanted) => rename::target_found(scope, *wanted, reply),
            Pending::Quota(change) => quota::resume(scope, change, reply),
            Pending::Renaming(wanted) => rename::renamed(scope, &wanted, reply),
            Pending::Linking(wanted) => rename::linked(&mut scope, &wanted, reply),
            Pending::Handles(_) => {
                let request = SetInfoRequest::decode(&incoming.message);
                Self::start(scope, incoming, request.map_err(Reject::Malformed)?)
            }
            Pending::AskedToClose(asked) => {
                let request = SetInfoRequest::decode(&incoming.message);
                let request = request.map_err(Reject::Malformed)?;
                match FileInformationClass(request.file_info_class) {
                    FileInformationClass::LINK => rename::start_link(scope, request.buffer, *asked),
                    _ => rename::start(scope, request.buffer, *asked),
                }
            }
        }
    }
}

/// Sets a class of the tables in [MS-SMB2] 3.3.5.21.1. Each class checks its own rights.
fn set_file(mut scope: InTree<'_>, request: &SetInfoRequest<'_>) -> Result<Step<Pending>, Reject> {
    let class = FileInformationClass(request.file_info_class);
    let buffer = request.buffer;
    let (length, minimum) = (buffer.len(), class.minimum_len().unwrap_or_default());
    if length < minimum {
        return Err(Reject::InformationTooShort { length, minimum });
    }
    if let Target::Pipe(_) = &scope.open()?.target {
        return set_pipe(scope.open()?, class);
    }
    match class {
        FileInformationClass::ALLOCATION => size::set_allocation(scope, buffer),
        FileInformationClass::BASIC => basic::start(scope.open()?, buffer),
        FileInformationClass::DISPOSITION => disposition::start(scope, buffer),
        FileInformationClass::DISPOSITION_EX => disposition::start_ex(scope, buffer),
        FileInformationClass::END_OF_FILE => size::set_end_of_file(scope, buffer),
        FileInformationClass::FULL_EA => extended_attributes::start(scope.open()?, buffer),
        FileInformationClass::LINK => rename::start_link(scope, buffer, AskedToClose::default()),
        FileInformationClass::MODE => set_mode(scope.open()?, buffer),
        FileInformationClass::POSITION => set_position(scope.open()?, buffer),
        FileInformationClass::RENAME => rename::start(scope, buffer, AskedToClose::default()),
        FileInformationClass::VALID_DATA_LENGTH => {
            size::set_valid_data_length(scope.open()?, buffer)
        }
        // Classes that [MS-FSCC] 2.4 permits for sets and SMB2 does not; and short names cannot be
        // set.
        FileInformationClass::LINK_EX
        | FileInformationClass::RENAME_EX
        | FileInformationClass::SHORT_NAME => Err(Reject::FileClassNotOffered(class)),
        _ => Err(Reject::FileClassUnknown(class)),
    }
}

/// Changes the state of quotas, and nothing else of a file system: [MS-SMB2] 3.3.5.21.2. The
/// administrator chooses its label and object id.
fn set_file_system(
    mut scope: InTree<'_>,
    request: &SetInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let class = FsInformationClass(request.file_info_class);
    match class {
        FsInformationClass::CONTROL => quota::start_control(scope, request.buffer),
        FsInformationClass::OBJECT_ID => {
            scope.open()?.verify_access(AccessMask::WRITE_DATA)?;
            Err(Reject::FsClassNotOffered(class))
        }
        FsInformationClass::LABEL => Err(Reject::FsClassNotOffered(class)),
        _ => Err(Reject::FsClassUnknown(class)),
    }
}

/// Accepts the modes of a pipe without a change: a message pipe remains one.
fn set_pipe(open: &Open, class: FileInformationClass) -> Result<Step<Pending>, Reject> {
    match class {
        FileInformationClass::PIPE => {
            open.verify_access(AccessMask::WRITE_ATTRIBUTES)?;
            done()
        }
        _ => Err(Reject::FileClassNotOffered(class)),
    }
}

/// Sets the modes that may change on an open file: [MS-FSA] 2.1.5.15.9.
fn set_mode(open: &mut Open, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    const SETTABLE: CreateOptions = CreateOptions::from_bits_retain(
        CreateOptions::WRITE_THROUGH.bits()
            | CreateOptions::SEQUENTIAL_ONLY.bits()
            | CreateOptions::SYNCHRONOUS_IO_ALERT.bits()
            | CreateOptions::SYNCHRONOUS_IO_NONALERT.bits(),
    );
    let mode = decode(FileModeInformation::decode(buffer))?.mode;
    let options = CreateOptions::from_bits_retain(mode);
    let both = CreateOptions::SYNCHRONOUS_IO_ALERT | CreateOptions::SYNCHRONOUS_IO_NONALERT;
    if !SETTABLE.contains(options) || options.contains(both) {
        return Err(Reject::ModeInvalid(mode));
    }
    open.file_mut()?.mode = mode;
    done()
}

/// Sets the position of the open: [MS-FSA] 2.1.5.15.10.
fn set_position(open: &mut Open, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    let position = decode(FilePositionInformation::decode(buffer))?.current_byte_offset;
    let data = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    if !open.granted_access.intersects(data) {
        open.verify_access(AccessMask::READ_DATA)?;
    }
    verify_size(position)?;
    open.file_mut()?.position = position;
    done()
}

/// Refuses a size or offset that was negative on the wire.
fn verify_size(size: u64) -> Result<(), Reject> {
    if i64::try_from(size).is_err() {
        return Err(Reject::OffsetNegative(size));
    }
    Ok(())
}

/// Refuses a class with a malformed variable part. The fixed part is complete.
fn decode<T>(decoded: Option<T>) -> Result<T, Reject> {
    decoded.ok_or(Reject::InformationInvalid)
}

fn done() -> Result<Step<Pending>, Reject> {
    Ok(Step::Done(Response::new(&SetInfoResponse)))
}

fn change(open: &Open, op: ObjectOp, filter: CompletionFilter) -> Step<Pending> {
    Step::Wait(Effect::Object { user: open.user, op }, Pending::Changing(filter))
}

/// Records new rights or another size, if the open is audited.
fn audit(scope: &mut InTree<'_>, filter: CompletionFilter) -> Result<(), Reject> {
    let InTree { opens, globals, file_id, .. } = scope;
    let open = file_id.and_then(|it| opens.get_mut(&it.volatile)).ok_or(Reject::NoSuchOpen)?;
    if filter.intersects(CompletionFilter::SIZE | CompletionFilter::STREAM_SIZE) {
        globals.audit_written(open, 0);
    }
    if filter.contains(CompletionFilter::SECURITY) {
        globals.audit_change(open.file()?, AuditEvent::SetRights, None);
    }
    Ok(())
}

/// Reports a change of the open's file to watches.
fn report(scope: &mut InTree<'_>, filter: CompletionFilter) -> Result<(), Reject> {
    let open = scope.open()?;
    let file = open.file()?;
    let (root, path, is_directory) = (open.share.root, file.path.clone(), file.is_directory);
    if let Some(parent) = file.parent {
        let lease = file.parent_lease;
        scope.globals.files.break_for_listing(parent, lease);
    }
    if let Some(root) = root {
        let kind = ChangeKind::Modified(filter);
        scope.globals.report(|| Change { root, path, is_directory, kind });
    }
    Ok(())
}
