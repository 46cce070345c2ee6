//! File system information classes: [MS-SMB2] 3.3.5.20.2, [MS-FSA] 2.1.5.13.

use dtyp::fscc::file_system::FileSystemAttributes;
use dtyp::fscc::{
    FileFsAttributeInformation, FileFsControlInformation, FileFsDeviceInformation,
    FileFsFullSizeInformation, FileFsObjectIdInformation, FileFsSectorSizeInformation,
    FileFsSizeInformation, FileFsVolumeInformation, FsInformationClass,
};
use dtyp::{AccessMask, NtStatus};
use engine::effect::{Effect, Reply};
use engine::globals::Globals;
use engine::response::Step;
use model::open::Open;
use model::posix;
use model::reject::Reject;
use model::tree_connect::TreeConnect;
use object::{
    ObjectOp, ObjectReply, QuotaLimits, QuotaOp, QuotaState, QuotaSubject, ToldQuota, Volume,
};
use wire::query_info::QueryInfoRequest;

use super::quota::limit_bytes;
use super::{Pending, answer, file_system_minimum, verify_limit};

/// Parameters of a query of file system information.
#[derive(Debug)]
pub struct Question {
    class: FsInformationClass,
    output_buffer_length: u32,
    /// Figures of the file system, while a command of the share determines its own.
    volume: Option<Box<Volume>>,
}

/// Requests the figures of the volume from the store.
pub(super) fn start(
    tree: &TreeConnect,
    open: &Open,
    class: FsInformationClass,
    request: &QueryInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let output_buffer_length = request.output_buffer_length;
    match class {
        FsInformationClass::ATTRIBUTE
        | FsInformationClass::CONTROL
        | FsInformationClass::DEVICE
        | FsInformationClass::FULL_SIZE
        | FsInformationClass::OBJECT_ID
        | FsInformationClass::SECTOR_SIZE
        | FsInformationClass::SIZE
        | FsInformationClass::VOLUME => {}
        FsInformationClass::POSIX if open.file()?.path.is_posix() => {}
        _ => return Err(Reject::FsClassUnknown(class)),
    }
    let limit = usize::try_from(output_buffer_length).expect("32 bits fit memory");
    verify_limit(limit, file_system_minimum(class))?;
    let question = Question { class, output_buffer_length, volume: None };
    let local_open = open.file()?.local_open;
    let effect = match (class, tree.share.root) {
        (FsInformationClass::CONTROL, Some(root)) if tree.share.quota_commands.get => {
            Effect::FindQuota { root, subject: QuotaSubject::Defaults }
        }
        (FsInformationClass::CONTROL, _) => {
            let op = ObjectOp::Quotas { open: local_open, op: QuotaOp::QueryState };
            Effect::Object { user: open.user, op }
        }
        _ => {
            let op = ObjectOp::QueryVolume { open: local_open };
            Effect::Object { user: open.user, op }
        }
    };
    Ok(Step::Wait(effect, Pending::FileSystem(question)))
}

/// Makes the response from the reply of the store, and of the command for free space or quotas.
pub(super) fn resume(
    tree: &TreeConnect,
    open: &Open,
    globals: &Globals,
    mut question: Question,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    if question.class == FsInformationClass::CONTROL {
        return respond_with_state(&question, reply);
    }
    let volume = match (question.volume.take(), reply) {
        (Some(mut volume), Reply::FreeSpace(free_space)) => {
            free_space.into_iter().for_each(|free_space| volume.set_free_space(free_space));
            volume
        }
        (Some(mut volume), Reply::Quota(told)) => {
            told.into_iter().for_each(|told| volume.limit_to_quota(&told.quota));
            volume
        }
        (_, reply) => {
            let ObjectReply::Volume(mut volume) = reply.object()? else {
                panic!("the volume was asked for")
            };
            if tree.share.quota_commands.get {
                volume.attributes |= FileSystemAttributes::VOLUME_QUOTAS.bits();
            }
            let root = tree.share.root.filter(|_| has_free_space(question.class));
            let effect = match root {
                Some(root) if tree.share.has_free_space_command => {
                    Effect::FindFreeSpace { root, path: open.file()?.path.clone() }
                }
                Some(root) if tree.share.quota_commands.get => {
                    Effect::FindQuota { root, subject: QuotaSubject::Requester }
                }
                _ => return respond_with(tree, globals, &question, *volume),
            };
            let question = Question { volume: Some(volume), ..question };
            return Ok(Step::Wait(effect, Pending::FileSystem(question)));
        }
    };
    respond_with(tree, globals, &question, *volume)
}

/// True for the classes with the size of the volume.
fn has_free_space(class: FsInformationClass) -> bool {
    let classes =
        [FsInformationClass::FULL_SIZE, FsInformationClass::POSIX, FsInformationClass::SIZE];
    classes.contains(&class)
}

fn respond_with(
    tree: &TreeConnect,
    globals: &Globals,
    question: &Question,
    mut volume: Volume,
) -> Result<Step<Pending>, Reject> {
    tree.share.volume_bytes_max.into_iter().for_each(|max| volume.limit(max));
    let volume = &volume;
    let mut out = Vec::with_capacity(64);
    match question.class {
        FsInformationClass::ATTRIBUTE => FileFsAttributeInformation {
            file_system_attributes: FileSystemAttributes::from_bits_retain(volume.attributes),
            maximum_component_name_length: volume.component_units_max,
            file_system_name: volume.file_system_name.clone(),
        }
        .encode(&mut out),
        FsInformationClass::DEVICE => device(tree).encode(&mut out),
        FsInformationClass::FULL_SIZE => full_size(volume).encode(&mut out),
        FsInformationClass::OBJECT_ID => FileFsObjectIdInformation {
            object_id: globals.settings.server_guid,
            ..FileFsObjectIdInformation::default()
        }
        .encode(&mut out),
        FsInformationClass::POSIX => posix::file_system(volume).encode(&mut out),
        FsInformationClass::SECTOR_SIZE => sector_size(volume).encode(&mut out),
        FsInformationClass::SIZE => size(volume).encode(&mut out),
        FsInformationClass::VOLUME => FileFsVolumeInformation {
            volume_creation_time: volume.creation_time,
            volume_serial_number: volume.serial_number,
            supports_objects: false,
            volume_label: volume.label.clone(),
        }
        .encode(&mut out),
        other => panic!("{other:?} was refused by `start`"),
    }
    answer(out, file_system_minimum(question.class), question.output_buffer_length)
}

/// Responds with the state of quotas: [MS-FSA] 2.1.5.13.6. A file system without quotas counts
/// nothing and has no limits.
fn respond_with_state(question: &Question, reply: Reply) -> Result<Step<Pending>, Reject> {
    let (state, defaults) = match reply {
        Reply::Quota(told) => {
            let ToldQuota { state, quota } = told.ok_or(Reject::QuotaCommandFailed)?;
            (state, quota.limits)
        }
        reply => match reply.object() {
            Ok(ObjectReply::QuotaState(state)) => (state, QuotaLimits::default()),
            Err(Reject::Object(NtStatus::NOT_SUPPORTED)) => Default::default(),
            Err(reject) => return Err(reject),
            Ok(other) => panic!("{other:?} is no state of quotas"),
        },
    };
    let mut out = Vec::with_capacity(48);
    FileFsControlInformation {
        default_quota_threshold: limit_bytes(defaults.soft_bytes),
        default_quota_limit: limit_bytes(defaults.hard_bytes),
        file_system_control_flags: match state {
            QuotaState::Off => 0,
            QuotaState::Tracked => FileFsControlInformation::QUOTA_TRACK,
            QuotaState::Enforced => FileFsControlInformation::QUOTA_ENFORCE,
        },
        ..FileFsControlInformation::default()
    }
    .encode(&mut out);
    answer(out, file_system_minimum(question.class), question.output_buffer_length)
}

fn device(tree: &TreeConnect) -> FileFsDeviceInformation {
    let may_write = tree.maximal_access.contains(AccessMask::WRITE_DATA);
    let read_only = if may_write { 0 } else { FileFsDeviceInformation::READ_ONLY };
    FileFsDeviceInformation {
        device_type: FileFsDeviceInformation::DISK,
        characteristics: FileFsDeviceInformation::IS_MOUNTED | read_only,
    }
}

fn full_size(volume: &Volume) -> FileFsFullSizeInformation {
    let cluster = u64::from(volume.cluster_bytes.max(1));
    FileFsFullSizeInformation {
        total_allocation_units: volume.total_bytes / cluster,
        caller_available_allocation_units: volume.available_bytes / cluster,
        actual_available_allocation_units: volume.free_bytes / cluster,
        sectors_per_allocation_unit: sectors_per_unit(volume),
        bytes_per_sector: volume.sector_bytes,
    }
}

fn size(volume: &Volume) -> FileFsSizeInformation {
    let cluster = u64::from(volume.cluster_bytes.max(1));
    FileFsSizeInformation {
        total_allocation_units: volume.total_bytes / cluster,
        available_allocation_units: volume.available_bytes / cluster,
        sectors_per_allocation_unit: sectors_per_unit(volume),
        bytes_per_sector: volume.sector_bytes,
    }
}

fn sectors_per_unit(volume: &Volume) -> u32 {
    (volume.cluster_bytes / volume.sector_bytes.max(1)).max(1)
}

fn sector_size(volume: &Volume) -> FileFsSectorSizeInformation {
    let (sector, cluster) = (volume.sector_bytes, volume.cluster_bytes);
    let trim = if volume.supports_trim { FileFsSectorSizeInformation::TRIM_ENABLED } else { 0 };
    FileFsSectorSizeInformation {
        logical_bytes_per_sector: sector,
        physical_bytes_per_sector_for_atomicity: cluster,
        physical_bytes_per_sector_for_performance: cluster,
        effective_physical_bytes_per_sector_for_atomicity: cluster,
        flags: FileFsSectorSizeInformation::ALIGNED_DEVICE
            | FileFsSectorSizeInformation::PARTITION_ALIGNED_ON_DEVICE
            | trim,
        byte_offset_for_sector_alignment: 0,
        byte_offset_for_partition_alignment: 0,
    }
}
