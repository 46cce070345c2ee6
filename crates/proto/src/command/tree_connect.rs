//! SMB2 TREE_CONNECT: [MS-SMB2] 3.3.5.7.

use std::sync::Arc;

use dtyp::AccessMask;
use engine::effect::{ConnectShare, Effect, Reply, ShareRefusal};
use engine::notice::Notice;
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InSession;
use model::audit::AuditEvent;
use model::connection::Negotiated;
use model::memory_account::Charge;
use model::reject::{Disconnect, Reject};
use model::settings::Policy;
use model::share::Share;
use model::tree_connect::TREE_CONNECT_BYTES;
use wire::Dialect;
use wire::tree_connect::{
    ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse,
};

use crate::command::Command;

/// Connects a session to a share.
#[derive(Debug)]
pub struct TreeConnect;

/// A TREE_CONNECT whose share the worker is looking up, and its memory: the worker keeps as much of
/// a share while its commands run or its storage hangs, also for a connection that is gone.
#[derive(Debug)]
pub struct Pending(Charge);

impl PendingCommand for Pending {
    fn abandon(self: Box<Self>, reply: Option<Reply>) -> Abandoned {
        let root = match reply {
            Some(Reply::Share(Ok(share))) => share.root,
            _ => None,
        };
        Abandoned { effect: root.map(Effect::DisconnectShare), ..Abandoned::default() }
    }
}

impl Command for TreeConnect {
    type Scope<'s> = InSession<'s>;
    type Request<'a> = TreeConnectRequest<'a>;
    type Pending = Pending;

    fn start(
        InSession { connection, session, globals, .. }: InSession<'_>,
        incoming: &Incoming,
        request: TreeConnectRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let is_known = session.is_users();
        let is_authentic = incoming.sealed || incoming.header.is_signed();
        // [MS-SMB2] 3.3.5.7: a man in the middle could have downgraded the negotiation, and only a
        // signature proves that both sides hashed the same messages.
        if connection.negotiated().dialect == Dialect::SMB_3_1_1 && is_known && !is_authentic {
            return Err(Reject::Disconnect(Disconnect::TreeConnectNotSigned));
        }
        let (server, name) = parse_path(request.path).ok_or(Reject::NoSuchShare)?;
        let memory = globals.memory.keep(TREE_CONNECT_BYTES)?;
        let connect = ConnectShare {
            name,
            server,
            account: Arc::clone(session.account()),
            client: connection.client,
            client_name: session.client_name.clone(),
            server_address: connection.server,
            dialect: connection.negotiated().dialect,
            // Everybody knows the keys of anonymous users.
            encrypted: incoming.sealed && is_known,
            session_id: session.session_id,
        };
        Ok(Step::Wait(Effect::ConnectShare(Box::new(connect)), Pending(memory)))
    }

    fn resume(
        InSession { connection, session, globals, .. }: InSession<'_>,
        incoming: &Incoming,
        Pending(memory): Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let Reply::Share(result) = reply else { panic!("a share was asked for") };
        let mut share = result.map_err(reject)?;
        globals.share_rights(&mut share);
        let cipher = connection.negotiated().cipher;
        let can_encrypt = session.is_users() && session.sealing.is_some();
        let admitted = if share.encryption == Policy::Required && !can_encrypt {
            Err(Reject::NotEncrypted)
        } else {
            session.allocate_tree_id()
        };
        let tree_id = match admitted {
            Ok(tree_id) => tree_id,
            Err(reject) => {
                let release = share.root.map(|root| (None, Effect::DisconnectShare(root)));
                globals.outbox.effects.extend(release);
                return Err(reject);
            }
        };
        let encrypt_data = cipher.is_some() && can_encrypt && share.encryption >= Policy::Desired;
        let response = describe(&share, connection.negotiated(), encrypt_data);
        let user = session.account.as_ref().map_or("", |account| account.user.as_str());
        let tree = model::tree_connect::TreeConnect {
            tree_id,
            maximal_access: share.access_max,
            encrypt_data,
            party: globals.trace.party(&share.name, user),
            classes: Arc::clone(&share.classes),
            memory,
            share: Arc::new(*share),
        };
        if let Some(root) = tree.share.root {
            globals.folders.insert(root, tree.share.folder.clone());
            connection.progress.files_connected();
        }
        globals.audit_share(&tree.share, AuditEvent::Connect);
        globals.outbox.notices.push_back(Notice::TreeConnected {
            session_id: session.session_id,
            tree_id,
            share: tree.share.name.clone(),
            encrypted: encrypt_data || session.encrypt_data,
            read_only: !tree.maximal_access.contains(AccessMask::WRITE_DATA),
        });
        globals.throttle.credits_change();
        incoming.trace.belongs_to(tree.party);
        session.tree_connects.insert(tree_id, tree);
        let mut response = Response::new(&response);
        response.tree_id = Some(tree_id);
        Ok(Step::Done(response))
    }
}

/// Parses `\\server\share` in UTF-16LE. A single leading separator is accepted, too.
fn parse_path(path: &[u8]) -> Option<(String, String)> {
    let path = dtyp::utf16::decode(path).ok()?;
    let (server, share) = path.trim_start_matches('\\').split_once('\\')?;
    if share.is_empty() || share.contains('\\') {
        return None;
    }
    Some((server.to_owned(), share.to_owned()))
}

fn reject(refusal: ShareRefusal) -> Reject {
    match refusal {
        ShareRefusal::AccessDenied => Reject::ShareAccessDenied,
        ShareRefusal::BadNetworkName => Reject::NoSuchShare,
        ShareRefusal::TooManyConnections => Reject::TooManyConnections,
    }
}

/// Returns the configured capabilities that the dialect has: [MS-SMB2] 2.2.10.
fn configured_capabilities(share: &Share, dialect: Dialect) -> ShareCapabilities {
    let mut capabilities = ShareCapabilities::from_bits_retain(share.capabilities);
    if dialect < Dialect::SMB_3_0_2 {
        capabilities.remove(ShareCapabilities::ASYMMETRIC);
    }
    if dialect < Dialect::SMB_3_0 { ShareCapabilities::empty() } else { capabilities }
}

fn describe(share: &Share, negotiated: &Negotiated, encrypt_data: bool) -> TreeConnectResponse {
    let mut flags = ShareFlags::from_bits_retain(share.caching);
    if share.root.is_none() {
        flags = ShareFlags::NO_CACHING;
    }
    flags.set(ShareFlags::ENCRYPT_DATA, encrypt_data);
    flags.set(ShareFlags::DFS | ShareFlags::DFS_ROOT, share.is_dfs_root);
    let mut capabilities = configured_capabilities(share, negotiated.dialect);
    let is_ca = share.is_ca && negotiated.is_smb3();
    capabilities.set(ShareCapabilities::CONTINUOUS_AVAILABILITY, is_ca);
    capabilities.set(ShareCapabilities::DFS, share.is_dfs_root);
    TreeConnectResponse {
        share_type: if share.root.is_some() { ShareType::DISK } else { ShareType::PIPE },
        share_flags: flags,
        capabilities,
        maximal_access: share.access_max,
    }
}
