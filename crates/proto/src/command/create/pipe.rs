//! Opens a named pipe of IPC$: [MS-SMB2] 3.3.5.9, for a ShareType of pipe.

use std::sync::Arc;

use dtyp::{AccessMask, FileAttributes};
use engine::response::{Response, Step};
use engine::scope::InTree;
use model::channel_sequence::ChannelSequence;
use model::open::{OPEN_BYTES, Open, Target};
use model::reject::Reject;
use wire::create::{CreateAction, CreateRequest, CreateResponse};

use crate::command::create::Pending;

/// Opens the pipe that a request names.
pub(super) fn open(
    scope: InTree<'_>,
    request: &CreateRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let name = dtyp::utf16::decode(request.name).map_err(|_| Reject::NoSuchPipe)?;
    let name = rpc::PipeName::from_name(&name).ok_or(Reject::NoSuchPipe)?;
    let catalogue: Arc<dyn rpc::Catalogue> = scope.globals.settings.catalogue.clone();
    let account = scope.session.account();
    let caller = rpc::Caller {
        user: account.user.clone(),
        requested_user: account.requested_user.clone(),
        domain: account.domain.clone(),
        sid: Some(account.sid.clone()),
        groups: Arc::clone(&account.groups),
        is_guest: account.is_guest,
        origin: rpc::Origin {
            client: Some(scope.connection.client.ip()),
            client_name: scope.session.client_name.clone(),
            server: Some(scope.connection.server.ip()),
            dialect: scope.connection.negotiated().dialect.0,
        },
    };
    let memory = scope.globals.memory.keep(OPEN_BYTES)?;
    let pipe = scope.globals.pipes.open(&scope.globals.memory, name, catalogue, caller)?;
    let file_id = scope.globals.allocate_file_id();
    let granted_access = request.desired_access.map_generic();
    let open = Open {
        file_id,
        session_id: scope.session.session_id,
        tree_id: scope.tree.tree_id,
        share: Arc::clone(&scope.tree.share),
        user: scope.tree.share.user,
        target: Target::Pipe(Box::new(pipe)),
        channel_sequence: ChannelSequence::default(),
        classes: None,
        is_closing: false,
        memory,
        granted_access: granted_access | AccessMask::READ_DATA | AccessMask::WRITE_DATA,
        maximal_access: AccessMask::FILE_ALL,
    };
    scope.opens.insert(file_id.volatile, open);
    let response = CreateResponse {
        create_action: CreateAction::OPENED,
        file_attributes: FileAttributes::NORMAL,
        // The size of every pipe on Windows.
        allocation_size: 4_096,
        file_id,
        ..CreateResponse::default()
    };
    Ok(Step::Done(Response::new(&response).naming(file_id)))
}
