//! Checks of a CREATE before its file is opened: [MS-SMB2] 3.3.5.9, [MS-FSA] 2.1.5.1.

use arbitration::OpenFacts;
use dtyp::AccessMask;
use model::reject::Reject;
use model::share::Share;
use object::{Disposition, ObjectPath, RequestedKind};
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess,
};

/// The fields of a valid CREATE, parsed.
#[derive(Debug)]
pub(super) struct ValidCreate {
    pub(super) path: ObjectPath,
    pub(super) disposition: Disposition,
    pub(super) kind: RequestedKind,
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

/// CreateOptions that do not go with all others, or with everything else in a request.
const OPTIONS_CHECKED: u32 = OPTIONS_INVALID
    | OPTIONS_UNSUPPORTED
    | CreateOptions::DIRECTORY_FILE.bits()
    | CreateOptions::DELETE_ON_CLOSE.bits();

/// Checks the fields in the order of [MS-SMB2] 3.3.5.9.
pub(super) fn validate(
    request: &CreateRequest<'_>,
    share: &Share,
    posix: bool,
) -> Result<ValidCreate, Reject> {
    if request.impersonation_level > ImpersonationLevel::DELEGATE {
        return Err(Reject::ImpersonationLevelUnknown(request.impersonation_level));
    }
    let (desired, attributes) = (request.desired_access, request.file_attributes);
    if desired.is_empty() || desired.bits() & ACCESS_RESERVED != 0 {
        return Err(Reject::DesiredAccessInvalid(desired));
    }
    // ACCESS_SYSTEM_SECURITY needs a privilege, which the store checks.
    let is_generic = desired.intersects(AccessMask::GENERIC);
    let desired_access = if is_generic { desired.map_generic() } else { desired };
    let known = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    if !known.contains(request.share_access) {
        return Err(Reject::ShareAccessInvalid(request.share_access));
    }
    if attributes.bits() & ATTRIBUTES_INVALID != 0 {
        return Err(Reject::AttributesInvalid(attributes));
    }
    let disposition = disposition(request.create_disposition)?;
    if request.create_options.bits() & OPTIONS_CHECKED != 0 {
        verify_options(request.create_options, disposition, desired_access)?;
    }
    let (path, names_data) = match posix {
        true => (parse_posix_name(request.name)?, false),
        false => parse_name(request.name, share)?,
    };
    if is_vetoed(share, &path) {
        return Err(Reject::NameVetoed);
    }
    let is_directory = request.create_options.contains(CreateOptions::DIRECTORY_FILE);
    if is_directory && (names_data || path.stream().is_some()) {
        return Err(Reject::StreamIsDirectory);
    }
    // Directories have no unnamed stream.
    let is_file = names_data || request.create_options.contains(CreateOptions::NON_DIRECTORY_FILE);
    let kind = match (is_directory, is_file) {
        (true, _) => RequestedKind::Directory,
        (false, true) => RequestedKind::File,
        (false, false) => RequestedKind::Any,
    };
    Ok(ValidCreate { path, disposition, kind, desired_access })
}

fn disposition(disposition: CreateDisposition) -> Result<Disposition, Reject> {
    match disposition {
        CreateDisposition::SUPERSEDE => Ok(Disposition::Supersede),
        CreateDisposition::OPEN => Ok(Disposition::Open),
        CreateDisposition::CREATE => Ok(Disposition::Create),
        CreateDisposition::OPEN_IF => Ok(Disposition::OpenIf),
        CreateDisposition::OVERWRITE => Ok(Disposition::Overwrite),
        CreateDisposition::OVERWRITE_IF => Ok(Disposition::OverwriteIf),
        unknown => Err(Reject::DispositionUnknown(unknown)),
    }
}

fn verify_options(
    options: CreateOptions,
    disposition: Disposition,
    desired: AccessMask,
) -> Result<(), Reject> {
    if options.bits() & OPTIONS_INVALID != 0 {
        return Err(Reject::CreateOptionsReserved(options));
    }
    if options.bits() & OPTIONS_UNSUPPORTED != 0 {
        return Err(Reject::CreateOptionsUnsupported(options));
    }
    let is_directory = options.contains(CreateOptions::DIRECTORY_FILE);
    if is_directory && options.contains(CreateOptions::NON_DIRECTORY_FILE) {
        return Err(Reject::CreateOptionsContradict(options));
    }
    if is_directory && disposition.overwrites() {
        return Err(Reject::OverwriteOfDirectory(options));
    }
    let may_delete = desired.intersects(AccessMask::DELETE | AccessMask::MAXIMUM_ALLOWED);
    if options.contains(CreateOptions::DELETE_ON_CLOSE) && !may_delete {
        return Err(Reject::DeleteOnCloseWithoutDelete(desired));
    }
    Ok(())
}

/// Parses the name of a CREATE ([MS-SMB2] 2.2.13). Returns its path, and whether it names the
/// unnamed stream. On shares without named streams not even the unnamed one can be named, as on
/// FAT.
pub(super) fn parse_name(name: &[u8], share: &Share) -> Result<(ObjectPath, bool), Reject> {
    let name = dtyp::utf16::decode(name).map_err(|_| Reject::NameNotUnicode)?;
    if name.starts_with('\\') {
        return Err(Reject::NameBeginsWithSeparator);
    }
    if !share.named_streams && name.contains(':') {
        return Err(Reject::StreamsOff);
    }
    let path = parse_path(&name)?;
    let names_data = path.stream().is_none() && name.contains(':');
    Ok((path, names_data))
}

/// Parses a name relative to the share's root: [MS-FSCC] 2.1.5.
pub(crate) fn parse_path(name: &str) -> Result<ObjectPath, Reject> {
    Ok(ObjectPath::parse(name)?)
}

/// Returns the path of an open from its file's record.
pub(crate) fn path_of(facts: &OpenFacts) -> ObjectPath {
    ObjectPath::from_windows(&facts.path, facts.is_posix)
}

/// Parses the name of a CREATE with the POSIX extensions.
fn parse_posix_name(name: &[u8]) -> Result<ObjectPath, Reject> {
    let name = dtyp::utf16::decode(name).map_err(|_| Reject::NameNotUnicode)?;
    parse_posix_path(&name)
}

/// Parses a POSIX client's name relative to the share's root.
pub(crate) fn parse_posix_path(name: &str) -> Result<ObjectPath, Reject> {
    Ok(ObjectPath::parse_posix(name)?)
}

/// Returns whether `veto files` hides the path from clients.
pub(crate) fn is_vetoed(share: &Share, path: &ObjectPath) -> bool {
    let is_hidden = |name| share.veto_files.iter().any(|vetoed| vetoed.matches(name));
    !share.veto_files.is_empty() && path.components().any(is_hidden)
}
