//! The create context of Apple's clients: not part of [MS-SMB2]; answered as by Samba's
//! `vfs_fruit`.
//!
//! A client sends it once, with the first file that it opens, and relies on the answer until it
//! disconnects.

use model::share::{AppleShare, Share};
use wire::create_context::{
    AppleCapabilities, AppleQuery, AppleRequest, AppleResponse, AppleVolumeCapabilities,
};

/// Makes the answer to a client. READ_DIRECTORY_ATTRIBUTES in it changes the format of later
/// directory listings.
pub(super) fn answer(request: AppleRequest, share: &Share, apple: &AppleShare) -> AppleResponse {
    let asks = |what| request.query.contains(what);
    let both = AppleCapabilities::READ_DIRECTORY_ATTRIBUTES;
    let mut server = AppleCapabilities::UNIX_BASED | (request.client_capabilities & both);
    server.set(AppleCapabilities::COPY_FILE, apple.copies_files);
    server.set(AppleCapabilities::NFS_ACE, apple.nfs_entries);
    let mut volume = AppleVolumeCapabilities::empty();
    volume.set(AppleVolumeCapabilities::CASE_SENSITIVE, share.case_sensitive);
    volume.set(AppleVolumeCapabilities::FULL_SYNC, apple.full_sync);
    AppleResponse {
        server_capabilities: asks(AppleQuery::SERVER_CAPABILITIES).then_some(server),
        volume_capabilities: asks(AppleQuery::VOLUME_CAPABILITIES).then_some(volume),
        model: asks(AppleQuery::MODEL).then(|| apple.model.clone()),
    }
}

/// True if the answer changes the format of directory listings.
pub(super) fn changes_listings(response: &AppleResponse) -> bool {
    let capabilities = response.server_capabilities.unwrap_or_default();
    capabilities.contains(AppleCapabilities::READ_DIRECTORY_ATTRIBUTES)
}
