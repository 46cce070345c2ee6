//! SMB2 NEGOTIATE: [MS-SMB2] 3.3.5.4, and the SMB1 message that may precede it: 3.3.5.3.

use std::sync::Arc;

use crypto::{Cipher, SigningAlgorithm};
use dtyp::Guid;
use engine::effect::{Effect, Reply};
use engine::globals::Globals;
use engine::notice::Notice;
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InConnection;
use model::connection::{Connection, Negotiated};
use model::now::Now;
use model::reject::{Disconnect, Reject};
use model::settings::{Policy, ServerSettings};
use wire::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::negotiate_context::{
    EncryptionCapabilities, HashAlgorithmId, NegotiateContextList, NegotiateContextType,
    NegotiateContexts, PosixExtensions, PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::smb1_negotiate::{DIALECT_SMB_2_002, DIALECT_SMB_2_WILDCARD, Smb1Negotiate};
use wire::{Codes, Decode, Dialect};

use crate::command::Command;

/// Agrees on a dialect and on algorithms.
#[derive(Debug)]
pub struct Negotiate;

/// A NEGOTIATE while the worker checks whether another one serves this client already.
#[derive(Debug)]
pub struct Pending;

/// Results of the negotiate contexts of a 3.1.1 client.
#[derive(Debug, Default)]
struct Chosen {
    salt: [u8; 32],
    /// True if the client offered ciphers, even without a common one.
    offered_ciphers: bool,
    cipher: Option<Cipher>,
    /// True if the client offered signing algorithms.
    offered_signing: bool,
    signing: Option<SigningAlgorithm>,
    /// True if the client offered the POSIX extensions and they are enabled.
    posix: bool,
}

/// All supported dialects, best first.
const DIALECTS: [Dialect; 5] = [
    Dialect::SMB_3_1_1,
    Dialect::SMB_3_0_2,
    Dialect::SMB_3_0,
    Dialect::SMB_2_1,
    Dialect::SMB_2_0_2,
];

/// Size limits without multi-credit requests: [MS-SMB2] 3.3.5.4.
const MAX_SIZE_2_0_2: u32 = 65_536;

impl PendingCommand for Pending {}

impl Command for Negotiate {
    type Scope<'s> = InConnection<'s>;
    type Request<'a> = NegotiateRequest<'a>;
    type Pending = Pending;

    fn start(
        scope: InConnection<'_>,
        incoming: &Incoming,
        request: NegotiateRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        let InConnection { connection, globals, .. } = &scope;
        if request.dialects.is_empty() {
            return Err(Reject::NoDialectOffered);
        }
        let dialect = choose_dialect(&globals.settings, |it| request.dialects.contains(it))
            .ok_or(Reject::NoCommonDialect)?;
        // A connection that was handed over stays here, or it would be passed on forever.
        if connection.was_passed || !may_have_channels(&globals.settings, dialect, &request) {
            return agree(scope, incoming, dialect, &request);
        }
        let effect = Effect::ClaimClient {
            connection: incoming.connection,
            client_guid: request.client_guid,
            message: incoming.message.clone(),
            after_smb1: connection.awaits_smb2_negotiate,
        };
        Ok(Step::Wait(effect, Pending))
    }

    fn resume(
        scope: InConnection<'_>,
        incoming: &Incoming,
        Pending: Pending,
        _: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let request = NegotiateRequest::decode(&incoming.message).map_err(Reject::Malformed)?;
        // The settings may have changed meanwhile.
        let settings = &scope.globals.settings;
        let dialect = choose_dialect(settings, |it| request.dialects.contains(it))
            .ok_or(Reject::NoCommonDialect)?;
        agree(scope, incoming, dialect, &request)
    }
}

/// Returns whether the client may bind further connections to its sessions, so that one worker must
/// serve all of them. Before 3.0 it cannot, and unrelated connections stay apart.
fn may_have_channels(
    settings: &ServerSettings,
    dialect: Dialect,
    request: &NegotiateRequest<'_>,
) -> bool {
    settings.multi_channel
        && dialect >= Dialect::SMB_3_0
        && request.capabilities.contains(Capabilities::MULTI_CHANNEL)
        && request.client_guid != Guid::ZERO
}

fn agree(
    scope: InConnection<'_>,
    incoming: &Incoming,
    dialect: Dialect,
    request: &NegotiateRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let InConnection { connection, globals, .. } = scope;
    let chosen = if dialect == Dialect::SMB_3_1_1 {
        let has_channels = may_have_channels(&globals.settings, dialect, request);
        let chosen = choose(globals, request.negotiate_contexts, has_channels)?;
        // Hashed this late, because a refused request is not part of the negotiation.
        connection.preauth.update(&incoming.message);
        chosen
    } else {
        Chosen::default()
    };
    let negotiated = decide(&globals.settings, dialect, request, &chosen);
    let response = respond(globals, &negotiated, &chosen, incoming.now);
    keep_negotiated(connection, globals, negotiated);
    Ok(Step::Done(response))
}

pub(crate) fn choose_dialect(
    settings: &ServerSettings,
    is_offered: impl Fn(Dialect) -> bool,
) -> Option<Dialect> {
    let allowed = settings.dialect_min..=settings.dialect_max;
    DIALECTS.into_iter().find(|dialect| allowed.contains(dialect) && is_offered(*dialect))
}

/// Evaluates the contexts in the order of [MS-SMB2] 3.3.5.4. Unknown ones are ignored.
fn choose(
    globals: &mut Globals,
    contexts: NegotiateContexts<'_>,
    has_channels: bool,
) -> Result<Chosen, Reject> {
    let mut chosen = Chosen { salt: globals.entropy.bytes(), ..Chosen::default() };
    verify_unique(contexts)?;
    let preauth: PreauthIntegrityCapabilities<'_> =
        contexts.find().map_err(Reject::Malformed)?.ok_or(Reject::PreauthMissing)?;
    if preauth.hash_algorithms.is_empty() {
        return Err(Reject::PreauthMissing);
    }
    if !preauth.hash_algorithms.contains(HashAlgorithmId::SHA_512) {
        return Err(Reject::PreauthWithoutCommonHash);
    }
    let settings = &globals.settings;
    let offered: Option<EncryptionCapabilities<'_>> = contexts.find().map_err(Reject::Malformed)?;
    if let Some(offered) = offered {
        if offered.ciphers.is_empty() {
            return Err(Reject::NoCipherOffered);
        }
        chosen.offered_ciphers = true;
        let mut ours = settings.ciphers.iter().copied();
        chosen.cipher = ours.find(|cipher| offered.ciphers.contains(cipher.id().into()));
        if settings.encryption == Policy::Off {
            chosen.cipher = None;
        }
    }
    let offered: Option<SigningCapabilities<'_>> = contexts.find().map_err(Reject::Malformed)?;
    if let Some(offered) = offered {
        if offered.signing_algorithms.is_empty() {
            return Err(Reject::NoSigningAlgorithmOffered);
        }
        chosen.offered_signing = true;
        let ours = settings.signing_algorithms.iter().copied();
        let mut common = ours.filter(|it| offered.signing_algorithms.contains(it.id().into()));
        // [MS-SMB2] 3.1.4.1: the nonce of GMAC is the MessageId. Bindings of connections are signed
        // with the session's key under the same ones each, and that reveals how to sign anything.
        let avoided = has_channels && settings.signing == Policy::Required;
        let is_safe = |it: &SigningAlgorithm| !avoided || *it != SigningAlgorithm::AesGmac;
        chosen.signing = common.clone().find(is_safe).or_else(|| common.next());
    }
    let offered: Option<PosixExtensions> = contexts.find().map_err(Reject::Malformed)?;
    let offered = offered == Some(PosixExtensions::VERSION_1);
    chosen.posix = settings.posix_extensions && offered;
    Ok(chosen)
}

/// Refuses a repeated context of a type that may occur once: [MS-SMB2] 3.3.5.4.
fn verify_unique(contexts: NegotiateContexts<'_>) -> Result<(), Reject> {
    let once = [
        NegotiateContextType::PREAUTH_INTEGRITY_CAPABILITIES,
        NegotiateContextType::ENCRYPTION_CAPABILITIES,
        NegotiateContextType::COMPRESSION_CAPABILITIES,
        NegotiateContextType::RDMA_TRANSFORM_CAPABILITIES,
        NegotiateContextType::SIGNING_CAPABILITIES,
    ];
    let is_repeated =
        |kind| contexts.iter().filter(|context| context.context_type == kind).count() > 1;
    if once.into_iter().any(is_repeated) {
        return Err(Reject::NegotiateContextTwice);
    }
    Ok(())
}

fn decide(
    settings: &ServerSettings,
    dialect: Dialect,
    request: &NegotiateRequest<'_>,
    chosen: &Chosen,
) -> Negotiated {
    let large = dialect >= Dialect::SMB_2_1;
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::DFS, settings.dfs);
    capabilities.set(Capabilities::LARGE_MTU, large);
    capabilities.set(Capabilities::LEASING, large && settings.leases);
    let directory_leasing = settings.leases
        && settings.directory_leases
        && dialect >= Dialect::SMB_3_0
        && request.capabilities.contains(Capabilities::DIRECTORY_LEASING);
    capabilities.set(Capabilities::DIRECTORY_LEASING, directory_leasing);
    // 3.0 and 3.0.2 agree on a cipher by a capability, 3.1.1 by a context.
    let is_3_0 = (Dialect::SMB_3_0..Dialect::SMB_3_1_1).contains(&dialect);
    let ccm = settings.encryption != Policy::Off
        && is_3_0
        && request.capabilities.contains(Capabilities::ENCRYPTION);
    capabilities.set(Capabilities::ENCRYPTION, ccm);
    let multi_channel = settings.multi_channel
        && dialect >= Dialect::SMB_3_0
        && request.capabilities.contains(Capabilities::MULTI_CHANNEL);
    capabilities.set(Capabilities::MULTI_CHANNEL, multi_channel);
    let persistent_handles = settings.persistent_handles
        && dialect >= Dialect::SMB_3_0
        && request.capabilities.contains(Capabilities::PERSISTENT_HANDLES);
    capabilities.set(Capabilities::PERSISTENT_HANDLES, persistent_handles);
    let cipher = if ccm { Some(Cipher::Aes128Ccm) } else { chosen.cipher };
    let mut server_security_mode = SecurityMode::SIGNING_ENABLED;
    server_security_mode.set(SecurityMode::SIGNING_REQUIRED, settings.signing == Policy::Required);
    let bounded = |size: u32| if large { size } else { size.min(MAX_SIZE_2_0_2) };
    Negotiated {
        dialect,
        client_guid: request.client_guid,
        client_capabilities: request.capabilities,
        client_security_mode: request.security_mode,
        client_dialects: request.dialects.iter().collect(),
        server_capabilities: capabilities,
        server_security_mode,
        cipher,
        signing_algorithm: SigningAlgorithm::of_dialect(dialect.0, chosen.signing),
        posix_extensions: chosen.posix,
        max_read_size: bounded(settings.max_read_size),
        max_write_size: bounded(settings.max_write_size),
        max_transact_size: bounded(settings.max_transact_size),
        supports_multi_credit: large,
    }
}

fn respond(globals: &Globals, negotiated: &Negotiated, chosen: &Chosen, now: Now) -> Response {
    let contexts = if negotiated.dialect == Dialect::SMB_3_1_1 {
        answer_contexts(chosen)
    } else {
        NegotiateContextList::new()
    };
    let hint = auth::Acceptor::negotiate_hint(globals.settings.mechanisms);
    Response::new(&NegotiateResponse {
        security_mode: negotiated.server_security_mode,
        dialect_revision: negotiated.dialect,
        server_guid: globals.settings.server_guid,
        capabilities: negotiated.server_capabilities,
        max_transact_size: negotiated.max_transact_size,
        max_read_size: negotiated.max_read_size,
        max_write_size: negotiated.max_write_size,
        system_time: now.wall,
        server_start_time: dtyp::FileTime::ZERO,
        security_buffer: &hint,
        negotiate_contexts: contexts.contexts(),
    })
}

fn answer_contexts(chosen: &Chosen) -> NegotiateContextList {
    let mut contexts = NegotiateContextList::new();
    contexts.push(&PreauthIntegrityCapabilities {
        hash_algorithms: Codes::new(&[HashAlgorithmId::SHA_512]),
        salt: &chosen.salt,
    });
    if chosen.offered_ciphers {
        // Zero means that there is no common cipher.
        let cipher = chosen.cipher.map_or(0, Cipher::id);
        contexts.push(&EncryptionCapabilities { ciphers: Codes::new(&[cipher.into()]) });
    }
    if let Some(signing) = chosen.signing {
        let signing = [signing.id().into()];
        contexts.push(&SigningCapabilities { signing_algorithms: Codes::new(&signing) });
    }
    if chosen.posix {
        contexts.push(&PosixExtensions::VERSION_1);
    }
    contexts
}

fn keep_negotiated(connection: &mut Connection, globals: &mut Globals, negotiated: Negotiated) {
    globals.outbox.notices.push_back(Notice::ConnectionNegotiated {
        client_guid: negotiated.client_guid,
        client: connection.client,
        server: connection.server,
        dialect: negotiated.dialect,
        signing_algorithm: negotiated.signing_algorithm.id(),
        cipher: negotiated.cipher.map_or(0, Cipher::id),
    });
    connection.negotiated = Some(Arc::new(negotiated));
}

/// Answers an SMB1 NEGOTIATE that offers an SMB2 dialect: [MS-SMB2] 3.3.5.3. A client that offers
/// "SMB 2.???" must negotiate again with SMB2; one that offers "SMB 2.002" alone gets that dialect.
pub(crate) fn smb1(
    connection: &mut Connection,
    globals: &mut Globals,
    frame: &[u8],
    now: Now,
) -> Result<Response, Disconnect> {
    let request = Smb1Negotiate::decode(frame).map_err(Disconnect::Malformed)?;
    let settings = Arc::clone(&globals.settings);
    if connection.negotiated.is_some() || connection.awaits_smb2_negotiate {
        return Err(Disconnect::NegotiatedTwice);
    }
    connection.command_sequence_window.consume(0, 1).map_err(Disconnect::Sequence)?;
    let wildcard =
        request.offers(DIALECT_SMB_2_WILDCARD) && settings.dialect_max >= Dialect::SMB_2_1;
    let is_2_0_2 = |dialect| dialect == Dialect::SMB_2_0_2 && request.offers(DIALECT_SMB_2_002);
    let dialect = if wildcard {
        Dialect::SMB_2_WILDCARD
    } else {
        choose_dialect(&settings, is_2_0_2).ok_or(Disconnect::Smb1Only)?
    };
    let unsaid = NegotiateRequest { dialects: Codes::default(), ..NegotiateRequest::default() };
    let negotiated = decide(&settings, dialect, &unsaid, &Chosen::default());
    let response = respond(globals, &negotiated, &Chosen::default(), now);
    if wildcard {
        connection.awaits_smb2_negotiate = true;
    } else {
        keep_negotiated(connection, globals, negotiated);
    }
    Ok(response)
}
