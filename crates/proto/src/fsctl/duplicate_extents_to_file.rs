//! FSCTL_DUPLICATE_EXTENTS_TO_FILE and FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX: [MS-FSCC] 2.3.7 and
//! 2.3.9, [MS-SMB2] 3.3.5.15.17 and 3.3.5.15.18.
//!
//! The store checks the ranges, because it knows the sizes of the files: [MS-FSA] 2.1.5.10.4.

#[cfg(test)]
mod tests;

use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::scope::InTree;
use model::open::Open;
use model::reject::Reject;
use object::ObjectOp;
use wire::FileId;
use wire::ioctl::{DuplicateExtents, DuplicateExtentsEx, FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress};

/// Shares the storage of a range of another open with this one.
pub(crate) struct DuplicateExtentsToFile;

/// The same operation, with additional flags.
pub(crate) struct DuplicateExtentsToFileEx;

/// The store is sharing the range.
#[derive(Debug)]
pub(crate) struct Duplicating;

impl Fsctl for DuplicateExtentsToFile {
    const CODE: FsctlCode = FsctlCode::DUPLICATE_EXTENTS_TO_FILE;
    type Scope<'s> = InTree<'s>;
    type Pending = Duplicating;

    fn start(
        scope: InTree<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<Duplicating>, Reject> {
        let extents = DuplicateExtents::decode(request.input).map_err(|_| too_short(request))?;
        start(scope, &extents)
    }

    fn resume(
        scope: InTree<'_>,
        Duplicating: Duplicating,
        reply: Reply,
    ) -> Result<Progress<Duplicating>, Reject> {
        resume(scope, reply)
    }
}

impl Fsctl for DuplicateExtentsToFileEx {
    const CODE: FsctlCode = FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX;
    type Scope<'s> = InTree<'s>;
    type Pending = Duplicating;

    /// Ignores the flags: SOURCE_ATOMIC demands a single call for the range, as is always the case.
    fn start(
        scope: InTree<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<Duplicating>, Reject> {
        let extended = DuplicateExtentsEx::decode(request.input).map_err(|_| too_short(request))?;
        start(scope, &extended.extents)
    }

    fn resume(
        scope: InTree<'_>,
        Duplicating: Duplicating,
        reply: Reply,
    ) -> Result<Progress<Duplicating>, Reject> {
        resume(scope, reply)
    }
}

fn start(
    mut scope: InTree<'_>,
    extents: &DuplicateExtents,
) -> Result<Progress<Duplicating>, Reject> {
    let open = scope.open()?;
    let (user, target) = (open.user, open.file()?);
    if target.is_directory {
        return Err(Reject::NotOnDirectories);
    }
    let target = target.local_open;
    open.verify_access(AccessMask::WRITE_DATA)?;
    let source = find_source(&scope, extents.source_file_id);
    // [MS-FSCC] 2.3.8 says INVALID_PARAMETER; Windows answers INVALID_HANDLE.
    let source = source.ok_or(Reject::DuplicateSourceNotFound)?;
    let file = source.file()?;
    if file.is_directory {
        return Err(Reject::NotOnDirectories);
    }
    if !source.granted_access.contains(AccessMask::READ_DATA) {
        return Err(Reject::DuplicateSourceNotReadable(source.granted_access));
    }
    let unsigned = |value: i64| {
        u64::try_from(value).map_err(|_| Reject::OffsetNegative(value.cast_unsigned()))
    };
    let op = ObjectOp::DuplicateExtents {
        source: file.local_open,
        target,
        source_offset: unsigned(extents.source_file_offset)?,
        target_offset: unsigned(extents.target_file_offset)?,
        length: unsigned(extents.byte_count)?,
    };
    Ok(Progress::Wait(Effect::Object { user, op }, Duplicating))
}

fn resume(scope: InTree<'_>, reply: Reply) -> Result<Progress<Duplicating>, Reject> {
    reply.object()?;
    let target = scope.into_open()?;
    target.globals.report_written(target.open, 0);
    Ok(Progress::Done(Output::none()))
}

/// Finds the source, an open of the same session and tree connect: [MS-SMB2] 3.3.5.15.17.
fn find_source<'t>(scope: &'t InTree<'_>, source: FileId) -> Option<&'t Open> {
    let open = scope.opens.get(&source.volatile)?;
    let session_id = scope.session.session_id;
    let is_it = open.file_id == source && open.session_id == session_id;
    (is_it && open.tree_id == scope.tree.tree_id).then_some(open)
}

fn too_short(request: &IoctlRequest<'_>) -> Reject {
    Reject::FsctlInputTooShort(request.input.len())
}
