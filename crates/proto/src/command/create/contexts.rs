//! Create contexts: [MS-SMB2] 2.2.13.2 and 3.3.5.9.1 to 3.3.5.9.14.

use bytes::Bytes;
use dtyp::{AccessMask, FileTime, NtStatus};
use engine::globals::Globals;
use model::connection::Negotiated;
use model::posix;
use model::reject::Reject;
use model::share::Share;
use object::{ExtendedAttribute, Metadata};
use wire::create::CreateRequest;
use wire::create_context::{
    AllocationSize, AppleRequest, AppleResponse, CreateContextData, CreateContextList,
    CreateContexts, ExtendedAttributes, PosixRequest, QueryMaximalAccessRequest,
    QueryMaximalAccessResponse, QueryOnDiskIdRequest, QueryOnDiskIdResponse, SecurityDescriptor,
    TimewarpToken,
};

use super::apple;
use crate::command::set_info::extended_attributes;

/// Create contexts of a request. Unknown ones, and those of features that were not negotiated, are
/// ignored, as [MS-SMB2] 3.3.5.9 demands.
#[derive(Clone, Debug, Default)]
pub(super) struct Contexts {
    pub(super) extended_attributes: Vec<ExtendedAttribute>,
    pub(super) security: Option<Bytes>,
    pub(super) allocation_size: u64,
    /// Time of the requested snapshot; none for the current file.
    pub(super) snapshot: Option<FileTime>,
    maximal_access: Option<QueryMaximalAccessRequest>,
    on_disk_id: bool,
    pub(super) posix: Option<PosixRequest>,
    apple_request: Option<AppleRequest>,
    apple: Option<Box<AppleResponse>>,
    /// True if the on-disk id of the response is zero.
    hides_file_id: bool,
}

/// Length of the shortest name in bytes: [MS-SMB2] 2.2.13.2.
const NAME_BYTES_MIN: usize = 4;

impl Contexts {
    /// Reads the contexts, and checks their values.
    pub(super) fn read(request: &CreateRequest<'_>) -> Result<Self, Reject> {
        let contexts = request.create_contexts;
        let mut lengths = contexts.iter().map(|context| context.name.0.len());
        if let Some(length) = lengths.find(|length| *length < NAME_BYTES_MIN) {
            return Err(Reject::CreateContextNameTooShort(length));
        }
        let extended_attributes = match find::<ExtendedAttributes<'_>>(contexts)? {
            Some(found) => extended_attributes::decode(found.entries)?,
            None => Vec::new(),
        };
        let security = find::<SecurityDescriptor<'_>>(contexts)?
            .map(|found| Bytes::copy_from_slice(found.descriptor));
        if let Some(descriptor) = &security
            && dtyp::security_descriptor::SecurityDescriptor::decode(descriptor).is_none()
        {
            return Err(Reject::SecurityDescriptorInvalid);
        }
        // [MS-SMB2] 3.3.5.9.4: the version of the file from then.
        let snapshot = find::<TimewarpToken>(contexts)?.map(|found| found.timestamp);
        Ok(Self {
            extended_attributes,
            security,
            snapshot: snapshot.filter(|at| *at != FileTime::ZERO),
            allocation_size: find::<AllocationSize>(contexts)?.map_or(0, |it| it.allocation_size),
            maximal_access: find(contexts)?,
            on_disk_id: find::<QueryOnDiskIdRequest>(contexts)?.is_some(),
            posix: None,
            // A malformed context is ignored, like an unknown one.
            apple_request: contexts.find().ok().flatten(),
            apple: None,
            hides_file_id: false,
        })
    }

    /// Answers the context of an Apple client, on shares with Apple's extensions.
    pub(super) fn answer_apple(&mut self, share: &Share, session_id: u64, globals: &mut Globals) {
        if let (Some(request), Some(apple)) = (self.apple_request, &share.apple) {
            let response = apple::answer(request, share, apple);
            let session = globals.apple_sessions.entry(session_id).or_default();
            session.has_own_listings |= apple::changes_listings(&response);
            self.apple = Some(Box::new(response));
        }
        self.hides_file_id = globals.hides_file_ids(session_id, share);
    }

    /// Returns whether the response has contexts for these.
    pub(super) fn have_answers(&self) -> bool {
        let has_file = self.maximal_access.is_some() || self.on_disk_id;
        has_file || self.posix.is_some() || self.apple.is_some()
    }

    /// Makes the contexts of the response.
    pub(super) fn answer(&self, metadata: &Metadata, maximal: AccessMask) -> CreateContextList {
        let mut list = CreateContextList::new();
        if let Some(request) = &self.maximal_access {
            // [MS-SMB2] 3.3.5.9.5: not repeated to a client that knows the file's current state.
            let is_known =
                request.timestamp.is_some_and(|at| at.0 != 0 && at == metadata.last_write_time);
            let query_status = if is_known { NtStatus::NONE_MAPPED } else { NtStatus::SUCCESS };
            let maximal_access = if is_known { AccessMask::empty() } else { maximal };
            list.push(&QueryMaximalAccessResponse { query_status, maximal_access });
        }
        if self.on_disk_id {
            list.push(&QueryOnDiskIdResponse {
                disk_file_id: if self.hides_file_id { 0 } else { metadata.identity.inode },
                volume_id: metadata.identity.device,
            });
        }
        if self.posix.is_some() {
            list.push(&posix::response(metadata));
        }
        if let Some(apple) = &self.apple {
            list.push(&**apple);
        }
        list
    }
}

/// Returns the POSIX context, on connections that negotiated the extensions.
pub(super) fn read_posix(
    request: &CreateRequest<'_>,
    negotiated: &Negotiated,
) -> Result<Option<PosixRequest>, Reject> {
    if !negotiated.posix_extensions {
        return Ok(None);
    }
    find(request.create_contexts)
}

fn find<'a, T: CreateContextData<'a>>(contexts: CreateContexts<'a>) -> Result<Option<T>, Reject> {
    contexts.find().map_err(Reject::Malformed)
}
