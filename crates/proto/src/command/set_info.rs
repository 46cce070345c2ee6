//! SMB2 SET_INFO: [MS-SMB2] 3.3.5.21.

mod basic;
mod disposition;
mod extended_attributes;
pub mod rename;
mod security;
mod size;
#[cfg(test)]
mod tests;

use arbitration::FileKey;
use dtyp::fscc::{
    FileInformationClass, FileModeInformation, FilePositionInformation, FsInformationClass,
};
use dtyp::{AccessMask, NtStatus};
use object::ObjectOp;
use wire::Decode;
use wire::change_notify::CompletionFilter;
use wire::create::CreateOptions;
use wire::query_info::InfoType;
use wire::set_info::{SetInfoRequest, SetInfoResponse};

use crate::command::Command;
use crate::engine::change::{Change, ChangeKind};
use crate::engine::effect::{Effect, Reply};
use crate::engine::pending_command::PendingCommand;
use crate::engine::request::Incoming;
use crate::engine::response::{Response, Step};
use crate::engine::scope::InTree;
use crate::model::open::{Open, Target};
use crate::model::reject::Reject;

/// Changes a file, its name or its security.
#[derive(Debug)]
pub struct SetInfo;

/// A change that the store is making.
#[derive(Debug)]
pub enum Pending {
    /// Nothing is left to do but to tell watchers, who see it by these filters.
    Changing(CompletionFilter),
    /// Whether the directory is empty, before it is marked for deletion.
    Emptiness,
    /// The file's attributes, before it is marked for deletion.
    Deletability {
        /// A read-only file may go, too.
        ignores_read_only: bool,
    },
    /// Which directory a name is to be in.
    Directory(Box<rename::Wanted>),
    /// Whether the target of a rename is there.
    Target(Box<rename::Wanted>),
    /// The name is being changed.
    Renaming(Box<rename::Wanted>),
    /// A further name is being made.
    Linking(Box<rename::Wanted>),
    /// Others have to let their handles go first: then the request begins anew.
    Handles(FileKey),
}

impl PendingCommand for Pending {
    fn waits_for(&self) -> Option<FileKey> {
        match self {
            Self::Handles(file) => Some(*file),
            _ => None,
        }
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
    ) -> Result<Step, Reject> {
        scope.open()?;
        let negotiated = scope.connection.negotiated();
        let length = u32::try_from(request.buffer.len()).expect("a frame is below 16 MiB");
        let max = negotiated.max_transact_size;
        if length > max {
            return Err(Reject::LengthAboveMax { length, max });
        }
        if request.buffer.is_empty() {
            return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
        }
        negotiated.verify_credit_charge(incoming.header.credit_charge, length)?;
        match request.info_type {
            InfoType::FILE => set_file(scope, &request),
            InfoType::FILESYSTEM => set_file_system(scope.open()?, &request),
            InfoType::SECURITY => security::start(scope.open()?, &request),
            InfoType::QUOTA => Err(Reject::Status(NtStatus::NOT_SUPPORTED)),
            _ => Err(Reject::Status(NtStatus::INVALID_PARAMETER)),
        }
    }

    fn resume(
        mut scope: InTree<'_>,
        incoming: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step, Reject> {
        match pending {
            Pending::Changing(filter) => {
                reply.object()?;
                report(&mut scope, filter)?;
                done()
            }
            Pending::Deletability { ignores_read_only } => {
                disposition::judge(scope, ignores_read_only, reply)
            }
            Pending::Emptiness => disposition::judge_directory(scope, reply),
            Pending::Directory(wanted) => rename::directory_found(scope, *wanted, reply),
            Pending::Target(wanted) => rename::target_found(scope, *wanted, reply),
            Pending::Renaming(wanted) => rename::renamed(scope, &wanted, reply),
            Pending::Linking(wanted) => rename::linked(&mut scope, &wanted, reply),
            Pending::Handles(_) => {
                let request = SetInfoRequest::decode(&incoming.message);
                Self::start(scope, incoming, request.map_err(Reject::Malformed)?)
            }
        }
    }
}

/// The tables of [MS-SMB2] 3.3.5.21.1: which classes there are. Each checks its own rights.
fn set_file(mut scope: InTree<'_>, request: &SetInfoRequest<'_>) -> Result<Step, Reject> {
    let class = FileInformationClass(request.file_info_class);
    let buffer = request.buffer;
    if class.minimum_len().is_some_and(|minimum| buffer.len() < minimum) {
        return Err(Reject::Status(NtStatus::INFO_LENGTH_MISMATCH));
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
        FileInformationClass::LINK => rename::start_link(scope, buffer),
        FileInformationClass::MODE => set_mode(scope.open()?, buffer),
        FileInformationClass::POSITION => set_position(scope.open()?, buffer),
        FileInformationClass::RENAME => rename::start(scope, buffer),
        FileInformationClass::VALID_DATA_LENGTH => {
            size::set_valid_data_length(scope.open()?, buffer)
        }
        // Classes that [MS-FSCC] 2.4 has for sets, and SMB2 has not; and there are no short names.
        FileInformationClass::LINK_EX
        | FileInformationClass::RENAME_EX
        | FileInformationClass::SHORT_NAME => Err(Reject::Status(NtStatus::NOT_SUPPORTED)),
        _ => Err(Reject::Status(NtStatus::INVALID_INFO_CLASS)),
    }
}

/// [MS-SMB2] 3.3.5.21.2. Nothing of a file system can be changed: there are no quotas, and its
/// label and object id are for the administrator to choose.
fn set_file_system(open: &Open, request: &SetInfoRequest<'_>) -> Result<Step, Reject> {
    match FsInformationClass(request.file_info_class) {
        FsInformationClass::CONTROL | FsInformationClass::OBJECT_ID => {
            open.verify_access(AccessMask::WRITE_DATA)?;
            Err(Reject::Status(NtStatus::NOT_SUPPORTED))
        }
        FsInformationClass::LABEL => Err(Reject::Status(NtStatus::NOT_SUPPORTED)),
        _ => Err(Reject::Status(NtStatus::INVALID_INFO_CLASS)),
    }
}

/// A message pipe stays one: the modes that can be asked for are those that it has.
fn set_pipe(open: &Open, class: FileInformationClass) -> Result<Step, Reject> {
    match class {
        FileInformationClass::PIPE => {
            open.verify_access(AccessMask::WRITE_ATTRIBUTES)?;
            done()
        }
        _ => Err(Reject::Status(NtStatus::NOT_SUPPORTED)),
    }
}

/// [MS-FSA] 2.1.5.15.9: modes that may be changed on an open file.
fn set_mode(open: &mut Open, buffer: &[u8]) -> Result<Step, Reject> {
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
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    open.file_mut()?.mode = mode;
    done()
}

/// [MS-FSA] 2.1.5.15.10.
fn set_position(open: &mut Open, buffer: &[u8]) -> Result<Step, Reject> {
    let position = decode(FilePositionInformation::decode(buffer))?.current_byte_offset;
    let data = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    if !open.granted_access.intersects(data) {
        open.verify_access(AccessMask::READ_DATA)?;
    }
    verify_size(position)?;
    open.file_mut()?.position = position;
    done()
}

/// A size or offset that was negative on the wire.
fn verify_size(size: u64) -> Result<(), Reject> {
    if i64::try_from(size).is_err() {
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    Ok(())
}

/// A class whose fixed part is there, but whose variable part is not.
fn decode<T>(decoded: Option<T>) -> Result<T, Reject> {
    decoded.ok_or(Reject::Status(NtStatus::INVALID_PARAMETER))
}

fn done() -> Result<Step, Reject> {
    Ok(Step::Done(Response::new(&SetInfoResponse)))
}

fn change(open: &Open, op: ObjectOp, filter: CompletionFilter) -> Step {
    Step::wait(Effect::Object { user: open.user, op }, Pending::Changing(filter))
}

/// Tells watchers what changed about the open's file.
fn report(scope: &mut InTree<'_>, filter: CompletionFilter) -> Result<(), Reject> {
    let open = scope.open()?;
    let file = open.file()?;
    let (root, path, is_directory) = (open.share.root, file.path.clone(), file.is_directory);
    if let Some(parent) = file.parent {
        let lease = file.parent_lease;
        scope.globals.files.listing_changes(parent, lease);
    }
    if let Some(root) = root {
        let kind = ChangeKind::Modified(filter);
        scope.globals.report(|| Change { root, path, is_directory, kind });
    }
    Ok(())
}
