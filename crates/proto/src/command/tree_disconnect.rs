//! SMB2 TREE_DISCONNECT: [MS-SMB2] 3.3.5.8.

use std::convert::Infallible;

use engine::effect::Reply;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InSession;
use model::reject::Reject;
use wire::tree_disconnect::{TreeDisconnectRequest, TreeDisconnectResponse};

use crate::command::Command;

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

#[cfg(test)]
mod tests {
    use model::now::Now;

    use crate::scene::Scene;

    #[test]
    fn a_share_is_closed_by_its_name_in_any_case() {
        for (asked, closed) in [("ÄPFEL", 1), ("äpfel", 1), ("apfel", 0)] {
            let mut scene = Scene::new();
            scene.open("file");
            scene.change_share(|share| {
                if share.root.is_some() {
                    share.name = "Äpfel".to_owned();
                }
            });
            assert_eq!(scene.server.handle_close_share(Now::default(), Some(asked)), closed);
        }
    }
}
