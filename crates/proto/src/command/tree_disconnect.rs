//! SMB2 TREE_DISCONNECT: [MS-SMB2] 3.3.5.8.

use std::convert::Infallible;

use model::reject::Reject;
use wire::tree_disconnect::{TreeDisconnectRequest, TreeDisconnectResponse};

use crate::command::Command;
use crate::engine::effect::Reply;
use crate::engine::request::Incoming;
use crate::engine::response::{Response, Step};
use crate::engine::scope::InSession;

/// Ends a tree connect and its opens.
#[derive(Debug)]
pub struct TreeDisconnect;

impl Command for TreeDisconnect {
    type Scope<'s> = InSession<'s>;
    type Request<'a> = TreeDisconnectRequest;
    type Pending = Infallible;

    fn start(
        InSession { session, opens, globals, .. }: InSession<'_>,
        incoming: &Incoming,
        TreeDisconnectRequest: TreeDisconnectRequest,
    ) -> Result<Step<Infallible>, Reject> {
        let tree_id = incoming.header.tree_id;
        let tree = session.tree_connects.get(&tree_id).ok_or(Reject::NoSuchTreeConnect)?;
        if tree.encrypt_data && !incoming.sealed {
            return Err(Reject::NotEncrypted);
        }
        globals.end_tree_connect(session, tree_id, opens);
        Ok(Step::Done(Response::new(&TreeDisconnectResponse)))
    }

    fn resume(
        _: InSession<'_>,
        _: &Incoming,
        pending: Infallible,
        _: Reply,
    ) -> Result<Step<Infallible>, Reject> {
        match pending {}
    }
}
