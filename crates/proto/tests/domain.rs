//! Logons that a domain decides: Kerberos tickets, and NTLM responses of domain users.

use std::net::Ipv4Addr;
use std::time::Duration;

use auth::{AuthError, Mechanisms, NtHash, SessionBaseKey};
use dtyp::NtStatus;
use proto::settings::MapToGuest;
use proto::{Effect, Notice, Reject};
use testkit::accounts::ALICE;
use testkit::domain::{AP_REP, CLIENT_MIC, KRB_ERROR, SKEWED, VALID};
use testkit::peer::Offer;
use testkit::{Create, Login, Peer, Response, World};
use trace::Reason;
use wire::Dialect;
use wire::lock::LockFlags;
use wire::negotiate_context::CipherId;
use wire::session_setup::SessionSetupResponse;

const MS_KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x82, 0xF7, 0x12, 0x01, 0x02, 0x02];
const KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02];
const NEGOEX: &[u8] = &[0x2B, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x1E];

/// An ASN.1 element with a short length.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = u8::try_from(content.len()).ok().filter(|len| *len < 0x80).expect("a short one");
    [&[tag, len], content].concat()
}

/// NegTokenInit of a client that prefers `oids` in this order.
fn init(oids: &[&[u8]], token: &[u8]) -> Vec<u8> {
    let oids: Vec<u8> = oids.iter().flat_map(|oid| element(0x06, oid)).collect();
    let list = element(0xA0, &element(0x30, &oids));
    let token = element(0xA2, &element(0x04, token));
    let fields = element(0xA0, &element(0x30, &[list, token].concat()));
    let spnego = element(0x06, &[0x2B, 0x06, 0x01, 0x05, 0x05, 0x02]);
    element(0x60, &[spnego, fields].concat())
}

/// NegTokenResp of a client, with a responseToken or a mechListMIC.
fn resp(tag: u8, token: &[u8]) -> Vec<u8> {
    element(0xA1, &element(0x30, &element(tag, &element(0x04, token))))
}

const RESPONSE_TOKEN: u8 = 0xA2;
const MECH_LIST_MIC: u8 = 0xA3;

fn ticket_of(user: &str) -> Vec<u8> {
    [VALID, user.as_bytes()].concat()
}

fn first_of(user: &str) -> Vec<u8> {
    init(&[MS_KERBEROS, KERBEROS], &ticket_of(user))
}

fn member() -> World {
    World::with(|settings| {
        settings.mechanisms = Mechanisms { kerberos: true, ntlm: true };
        settings.is_member = true;
    })
}

fn connected(world: &World) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer
}

#[track_caller]
fn has_token(response: &Response, token: &[u8]) {
    let body: SessionSetupResponse<'_> = response.body();
    let found = body.security_buffer.windows(token.len()).any(|window| window == token);
    assert!(found, "{:x?}", body.security_buffer);
}

#[test]
fn a_ticket_sets_a_session_up_in_one_round_trip_with_the_key_of_32_bytes() {
    let world = member();
    let mut peer = connected(&world);
    let response = peer.send_ticket(&first_of("alice"), 0).ok();
    has_token(&response, AP_REP);
    peer.tree("data");
    peer.create(&Create::new("file"));
}

#[test]
fn ciphers_of_256_bits_use_all_of_the_key() {
    let world = World::with(|settings| {
        settings.mechanisms.kerberos = true;
        settings.ciphers = vec![crypto::Cipher::Aes256Gcm];
        settings.encryption = proto::settings::Policy::Required;
    });
    let mut peer = world.connect();
    let ciphers = vec![CipherId::AES_256_GCM];
    peer.negotiate_with(&Offer { ciphers, ..Offer::dialects(&[Dialect::SMB_3_1_1]) }).ok();
    peer.send_ticket(&first_of("alice"), 0).ok();
    peer.seals = true;
    peer.tree("data");
}

#[test]
fn invalid_tickets_are_failed_logons() {
    let world = member();
    let mut peer = connected(&world);
    let invalid = init(&[MS_KERBEROS], b"forged");
    let response = peer.send_ticket(&invalid, 0).expect(Reason::Authentication);
    assert_eq!(response.status(), NtStatus::LOGON_FAILURE);
    world.change_domain(|domain| domain.refuses = Some(NtStatus::NO_LOGON_SERVERS));
    let response = peer.send_ticket(&first_of("alice"), 0).expect(Reason::DomainRefused);
    assert_eq!(response.status(), NtStatus::NO_LOGON_SERVERS);
}

#[test]
fn wrong_tickets_are_reported_and_delay_the_next_logons_from_their_address() {
    let world = member();
    world.count_failed_logons();
    let seen = world.record_sleeps();
    let from = |address: [u8; 4]| {
        let mut peer = world.connect_from(Ipv4Addr::from(address).into());
        peer.negotiate([Dialect::SMB_3_1_1]);
        peer
    };
    let invalid = init(&[MS_KERBEROS], b"forged");
    for _ in 0..6 {
        from([192, 0, 2, 1]).send_ticket(&invalid, 0).expect(Reason::Authentication);
    }
    // Of these the client may send two in one logon.
    let skewed = init(&[MS_KERBEROS], SKEWED);
    for _ in 0..4 {
        let response = from([192, 0, 2, 1]).send_ticket(&skewed, 0);
        assert_eq!(response.status(), NtStatus::MORE_PROCESSING_REQUIRED);
    }
    assert_eq!(*seen.borrow(), [1, 2].map(Duration::from_secs));
    let ledger = world.ledger();
    let reported = ledger.notices().iter().filter(|notice| {
        let refused = Reject::Authentication(AuthError::InvalidTicket);
        matches!(notice, Notice::LogonRefused(it) if it.reject == refused)
    });
    assert_eq!(reported.count(), 10);
    drop(ledger);
    from([192, 0, 2, 2]).send_ticket(&first_of("alice"), 0).ok();
    assert_eq!(seen.borrow().len(), 2, "another address does not wait");
    from([192, 0, 2, 1]).send_ticket(&first_of("alice"), 0).ok();
    assert_eq!(seen.borrow().len(), 3);
    from([192, 0, 2, 1]).send_ticket(&first_of("alice"), 0).ok();
    assert_eq!(seen.borrow().len(), 3, "a right ticket makes tickets familiar at its address");
}

#[test]
fn a_ticket_that_the_domain_cannot_decide_on_is_no_failed_logon() {
    let world = member();
    world.count_failed_logons();
    world.change_domain(|domain| domain.refuses = Some(NtStatus::NO_LOGON_SERVERS));
    world.delay_replies(|effect| {
        assert!(!matches!(effect, Effect::Sleep(_)), "nobody has to wait");
        false
    });
    for _ in 0..50 {
        let mut peer = connected(&world);
        peer.send_ticket(&first_of("alice"), 0).expect(Reason::DomainRefused);
    }
}

#[test]
fn a_client_with_a_wrong_clock_learns_the_time_and_tries_once_more() {
    let world = member();
    let mut peer = connected(&world);
    let response = peer.send_ticket(&init(&[MS_KERBEROS], SKEWED), 0);
    assert_eq!(response.status(), NtStatus::MORE_PROCESSING_REQUIRED);
    has_token(&response, KRB_ERROR);
    let second = resp(RESPONSE_TOKEN, &ticket_of("alice"));
    peer.send_ticket(&second, peer.session_id).ok();
    let response = peer.send_ticket(&init(&[MS_KERBEROS], SKEWED), 0);
    let again = resp(RESPONSE_TOKEN, SKEWED);
    peer.send_ticket(&again, response.header.session_id).expect(Reason::Authentication);
}

#[test]
fn behind_another_mechanism_the_client_signs_the_list() {
    let world = member();
    for (mic, is_right) in [(CLIENT_MIC, true), (&b"another MIC"[..], false)] {
        let mut peer = connected(&world);
        let first = init(&[NEGOEX, MS_KERBEROS], b"for NEGOEX");
        let response = peer.send_ticket(&first, 0);
        assert_eq!(response.status(), NtStatus::MORE_PROCESSING_REQUIRED);
        let second = resp(RESPONSE_TOKEN, &ticket_of("alice"));
        let response = peer.send_ticket(&second, peer.session_id);
        assert_eq!(response.status(), NtStatus::MORE_PROCESSING_REQUIRED);
        has_token(&response, b"server's MIC");
        let response = peer.send_ticket(&resp(MECH_LIST_MIC, mic), peer.session_id);
        match is_right {
            true => drop(response.ok()),
            false => drop(response.expect(Reason::Authentication)),
        }
    }
}

#[test]
fn a_session_expires_with_its_ticket_and_goes_on_with_another_of_the_same_user() {
    let world = member();
    world.change_domain(|domain| domain.lifetime = Duration::from_secs(600));
    let mut peer = connected(&world);
    peer.send_ticket(&first_of("alice"), 0).ok();
    let session_id = peer.session_id;
    peer.tree("data");
    peer.create(&Create::open_if("file"));
    world.advance(Duration::from_secs(599));
    peer.echo().ok();
    peer.create(&Create::open_if("other"));
    world.advance(Duration::from_secs(1));
    peer.try_create(&Create::open_if("file")).expect(Reason::SessionExpired);
    let response = peer.send_ticket(&first_of("alice"), session_id);
    response.ok();
    assert_eq!(peer.session_id, session_id);
    peer.create(&Create::open_if("file"));
    world.advance(Duration::from_secs(600));
    peer.try_create(&Create::open_if("file")).expect(Reason::SessionExpired);
    peer.send_ticket(&first_of("bob"), session_id).expect(Reason::UserChanged);
}

#[test]
fn an_expired_session_unlocks_and_takes_no_lock() {
    let world = member();
    world.change_domain(|domain| domain.lifetime = Duration::from_secs(600));
    let mut peer = connected(&world);
    peer.send_ticket(&first_of("alice"), 0).ok();
    peer.tree("data");
    let file_id = peer.create(&Create::open_if("file")).file_id;
    let exclusive = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let mut lock = |flags| {
        let request = peer.lock_request(file_id, flags, 0);
        peer.call(request)
    };
    lock(exclusive).ok();
    world.advance(Duration::from_secs(600));
    lock(LockFlags::UNLOCK).ok();
    lock(exclusive).expect(Reason::SessionExpired);
}

#[test]
fn a_logon_without_a_proof_does_not_prolong_a_session() {
    let world = member();
    world.change_domain(|domain| domain.lifetime = Duration::from_secs(600));
    let mut peer = connected(&world);
    peer.send_ticket(&first_of("alice"), 0).ok();
    let anonymous = Login::anonymous().again(peer.session_id);
    peer.tree("data");
    peer.authenticate(&anonymous).ok();
    peer.create(&Create::open_if("file"));
    world.advance(Duration::from_secs(600));
    peer.try_create(&Create::open_if("file")).expect(Reason::SessionExpired);
    peer.authenticate(&anonymous).expect(Reason::UserChanged);
}

/// Answer of a controller that knows one password.
fn base_key(response: &auth::NtlmResponse) -> Option<SessionBaseKey> {
    Some(response.verify(&[Some(NtHash::of_password(ALICE.1))]).ok()?.1)
}

#[test]
fn a_password_of_the_domain_is_checked_by_the_domain_alone() {
    let world = member();
    world.change_domain(|domain| domain.response = Some(base_key));
    let mut peer = connected(&world);
    peer.authenticate(&Login::user("dora", ALICE.1)).ok();
    peer.tree("data");
    let mut wrong = connected(&world);
    let refused = wrong.authenticate(&Login::user("dora", "wrong")).expect(Reason::Authentication);
    assert_eq!(refused.status(), NtStatus::LOGON_FAILURE);
}

#[test]
fn the_domain_s_reasons_are_reported_and_an_outage_is_no_unknown_user() {
    let world = World::with(|settings| {
        settings.is_member = true;
        settings.map_to_guest = MapToGuest::BadPassword;
    });
    // LOGON_FAILURE is a refusal of this server: a wrong password has a status of its own.
    let statuses =
        [NtStatus::PASSWORD_EXPIRED, NtStatus::NO_LOGON_SERVERS, NtStatus::LOGON_FAILURE];
    for status in statuses {
        world.change_domain(|domain| domain.refuses = Some(status));
        let mut peer = connected(&world);
        let login = Login::user("dora", "secret");
        let refused = peer.authenticate(&login).expect(Reason::DomainRefused);
        assert_eq!(refused.status(), status);
    }
}

#[test]
fn a_user_that_the_domain_does_not_know_may_be_one_of_this_server() {
    let world = member();
    let mut peer = connected(&world);
    peer.authenticate(&Login::user(ALICE.0, ALICE.1)).ok();
    let mut wrong = connected(&world);
    wrong.authenticate(&Login::user(ALICE.0, "wrong")).expect(Reason::Authentication);
}

#[test]
fn without_kerberos_here_tickets_are_no_mechanism() {
    let world = World::new();
    let mut peer = connected(&world);
    let response = peer.send_ticket(&first_of("alice"), 0).expect(Reason::Authentication);
    assert_eq!(response.status(), NtStatus::INVALID_PARAMETER);
}
