//! FSCTL_LMR_REQUEST_RESILIENCY: [MS-SMB2] 3.3.5.15.9.

use std::time::Duration;

use arbitration::{Durability, DurabilityKind};
use dtyp::Guid;
use engine::scope::InOpen;
use model::file_key::key;
use model::open::DurableState;
use model::reject::Reject;
use wire::Dialect;
use wire::ioctl::{FsctlCode, IoctlRequest, NetworkResiliencyRequest};

use super::{ImmediateFsctl, Output, invalid};

/// `MaxResiliencyTimeout`: longest time for which a client can have an open kept; the same as in
/// Windows.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Time for which an open is kept if its client leaves the choice to the server; the same as in
/// Windows.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);

/// Makes an open survive its connection, even without caching.
pub(crate) struct LmrRequestResiliency;

impl ImmediateFsctl for LmrRequestResiliency {
    const CODE: FsctlCode = FsctlCode::LMR_REQUEST_RESILIENCY;
    type Scope<'s> = InOpen<'s>;

    /// Checks the request in the order of [MS-SMB2] 3.3.5.15.9.
    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        let InOpen { connection, session, open, globals, .. } = scope;
        if connection.negotiated().dialect < Dialect::SMB_2_1 {
            return Err(Reject::ResiliencyBefore21);
        }
        let owner = session.owner.as_ref().filter(|_| open.share.durable_handles);
        let owner = owner.ok_or(Reject::ResiliencyNotOffered)?;
        let resiliency =
            NetworkResiliencyRequest::decode(request.input).map_err(|_| invalid(request.input))?;
        let timeout = match resiliency.timeout {
            0 => TIMEOUT_DEFAULT,
            given => Duration::from_millis(given.into()),
        };
        if timeout > TIMEOUT_MAX {
            return Err(Reject::ResiliencyTooLong(resiliency.timeout));
        }
        let id = globals.files.open_id(open.file_id.volatile);
        let file = open.file_mut()?;
        if file.is_directory {
            return Err(Reject::ResiliencyNotOffered);
        }
        globals.files.change(key(file.identity), |record, _| {
            let Some(entry) = record.open_mut(id) else { return (Err(Reject::NoSuchOpen), false) };
            // A persistent open stays persistent, because that also survives the server.
            if entry.is_persistent() {
                return (Ok(()), false);
            }
            let create_guid = entry.durability.as_ref().map_or(Guid::ZERO, |it| it.create_guid);
            entry.durability = Some(Durability {
                expires_at: None,
                timeout,
                kind: DurabilityKind::Resilient,
                create_guid,
                owner: owner.clone(),
                position: 0,
                lock_sequences: file.lock_sequences.clone(),
            });
            (Ok(()), true)
        })??;
        file.durable.get_or_insert(DurableState { is_persistent: false });
        Ok(Output::none())
    }
}
