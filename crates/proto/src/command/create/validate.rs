//! Checks of a CREATE before its file is opened: [MS-SMB2] 3.3.5.9, [MS-FSA] 2.1.5.1.

use arbitration::OpenFacts;
use dtyp::{AccessMask, NtStatus};
use object::{Disposition, KindWanted, ObjectPath, PathError};
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess,
};

use super::kind_wanted;
use crate::model::reject::Reject;
use crate::model::share::Share;

/// The fields of a valid CREATE, parsed.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: ObjectPath,
    pub(super) disposition: Disposition,
    pub(super) kind: KindWanted,
    pub(super) desired_access: AccessMask,
}

/// Access bits without a meaning for files; Windows denies them.
const ACCESS_RESERVED: u32 = 0x0CE0_FE00;

/// Attribute bits that no file can have: [MS-FSCC] 2.6.
const ATTRIBUTES_INVALID: u32 = 0xFFFF_8048;

/// Bits of CreateOptions without a meaning.
const OPTIONS_INVALID: u32 = 0xFF00_0000;

/// CreateOptions for features that are not supported: FILE_CREATE_TREE_CONNECTION,
/// FILE_OPEN_BY_FILE_ID, FILE_RESERVE_OPFILTER.
const OPTIONS_UNSUPPORTED: u32 = 0x0010_2080;

/// Checks the fields in the order of [MS-SMB2] 3.3.5.9.
pub(super) fn validate(
    request: &CreateRequest<'_>,
    share: &Share,
    posix: bool,
) -> Result<Wanted, Reject> {
    if request.impersonation_level > ImpersonationLevel::DELEGATE {
        return Err(Reject::Status(NtStatus::BAD_IMPERSONATION_LEVEL));
    }
    let desired_access = verify_access(request.desired_access)?;
    verify_fields(request)?;
    let disposition = disposition(request.create_disposition)?;
    verify_options(request.create_options, disposition, desired_access)?;
    let (path, names_data) = match posix {
        true => (parse_posix_name(request.name)?, false),
        false => parse_name(request.name, share)?,
    };
    if is_vetoed(share, &path) {
        return Err(Reject::Status(NtStatus::OBJECT_NAME_NOT_FOUND));
    }
    let mut kind = kind_wanted(request.create_options);
    if names_data || path.stream().is_some() {
        if kind == KindWanted::Directory {
            return Err(Reject::Status(NtStatus::NOT_A_DIRECTORY));
        }
        if names_data {
            // Directories have no unnamed stream.
            kind = KindWanted::File;
        }
    }
    Ok(Wanted { path, disposition, kind, desired_access })
}

fn verify_access(desired: AccessMask) -> Result<AccessMask, Reject> {
    if desired.is_empty() || desired.bits() & ACCESS_RESERVED != 0 {
        return Err(Reject::Status(NtStatus::ACCESS_DENIED));
    }
    // ACCESS_SYSTEM_SECURITY needs a privilege, which the store checks.
    Ok(desired.map_generic())
}

fn verify_fields(request: &CreateRequest<'_>) -> Result<(), Reject> {
    let known = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    let attributes_invalid = request.file_attributes.bits() & ATTRIBUTES_INVALID != 0;
    if !known.contains(request.share_access) || attributes_invalid {
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    Ok(())
}

fn disposition(disposition: CreateDisposition) -> Result<Disposition, Reject> {
    match disposition {
        CreateDisposition::SUPERSEDE => Ok(Disposition::Supersede),
        CreateDisposition::OPEN => Ok(Disposition::Open),
        CreateDisposition::CREATE => Ok(Disposition::Create),
        CreateDisposition::OPEN_IF => Ok(Disposition::OpenIf),
        CreateDisposition::OVERWRITE => Ok(Disposition::Overwrite),
        CreateDisposition::OVERWRITE_IF => Ok(Disposition::OverwriteIf),
        _ => Err(Reject::Status(NtStatus::INVALID_PARAMETER)),
    }
}

fn verify_options(
    options: CreateOptions,
    disposition: Disposition,
    desired: AccessMask,
) -> Result<(), Reject> {
    let invalid = Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    if options.bits() & OPTIONS_INVALID != 0 {
        return invalid;
    }
    if options.bits() & OPTIONS_UNSUPPORTED != 0 {
        return Err(Reject::Status(NtStatus::NOT_SUPPORTED));
    }
    let is_directory = options.contains(CreateOptions::DIRECTORY_FILE);
    if is_directory && options.contains(CreateOptions::NON_DIRECTORY_FILE) {
        return invalid;
    }
    if is_directory && disposition.overwrites() {
        return invalid;
    }
    let may_delete = desired.intersects(AccessMask::DELETE | AccessMask::MAXIMUM_ALLOWED);
    if options.contains(CreateOptions::DELETE_ON_CLOSE) && !may_delete {
        return invalid;
    }
    Ok(())
}

/// Parses the name of a CREATE ([MS-SMB2] 2.2.13). Returns its path, and whether it names the
/// unnamed stream. On shares without named streams not even the unnamed one can be named, as on
/// FAT.
pub(super) fn parse_name(name: &[u8], share: &Share) -> Result<(ObjectPath, bool), Reject> {
    let name =
        dtyp::utf16::decode(name).map_err(|_| Reject::Status(NtStatus::OBJECT_NAME_INVALID))?;
    if name.starts_with('\\') {
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    if !share.named_streams && name.contains(':') {
        return Err(Reject::Status(NtStatus::OBJECT_NAME_INVALID));
    }
    let path = parse_path(&name)?;
    let names_data = path.stream().is_none() && name.contains(':');
    Ok((path, names_data))
}

/// Parses a name relative to the share's root: [MS-FSCC] 2.1.5.
pub(crate) fn parse_path(name: &str) -> Result<ObjectPath, Reject> {
    ObjectPath::parse(name).map_err(|error| Reject::Status(status_of(error)))
}

/// Returns the path of an open from its file's record.
pub(crate) fn path_of(facts: &OpenFacts) -> Result<ObjectPath, Reject> {
    ObjectPath::from_windows(&facts.path, facts.is_posix)
        .map_err(|error| Reject::Status(status_of(error)))
}

fn status_of(error: PathError) -> NtStatus {
    match error {
        PathError::Escapes => NtStatus::OBJECT_PATH_SYNTAX_BAD,
        PathError::BadComponent | PathError::BadStream | PathError::TooLong => {
            NtStatus::OBJECT_NAME_INVALID
        }
    }
}

/// Parses the name of a CREATE with the POSIX extensions.
fn parse_posix_name(name: &[u8]) -> Result<ObjectPath, Reject> {
    let name =
        dtyp::utf16::decode(name).map_err(|_| Reject::Status(NtStatus::OBJECT_NAME_INVALID))?;
    parse_posix_path(&name)
}

/// Parses a POSIX client's name relative to the share's root.
pub(crate) fn parse_posix_path(name: &str) -> Result<ObjectPath, Reject> {
    ObjectPath::parse_posix(name).map_err(|error| Reject::Status(status_of(error)))
}

/// Returns whether `veto files` hides the path from clients.
pub(crate) fn is_vetoed(share: &Share, path: &ObjectPath) -> bool {
    path.components().any(|name| share.veto_files.iter().any(|vetoed| vetoed.matches(name)))
}
