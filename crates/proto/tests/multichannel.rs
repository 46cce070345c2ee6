//! Sessions over several connections: [MS-SMB2] 3.3.5.5 with SMB2_SESSION_FLAG_BINDING, 3.3.7.1,
//! and the requests of a lost channel.

use std::time::Duration;

use dtyp::{Guid, NtStatus};
use proto::effect::LentSession;
use proto::{Disconnect, Effect};
use testkit::accounts::{ALICE, BOB};
use testkit::peer::Offer;
use testkit::{Create, Login, Outcome, Peer, Response, World};
use trace::Reason;
use wire::create::CreateResponse;
use wire::create_context::{DurableFlags, DurableHandleRequestV2};
use wire::header::HeaderFlags;
use wire::ioctl::{
    FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, NetworkInterface,
    NetworkInterfaceCapability, NetworkInterfaces,
};
use wire::lock::LockFlags;
use wire::negotiate::{Capabilities, NegotiateResponse};
use wire::negotiate_context::{CipherId, SigningAlgorithmId};
use wire::session_setup::{SessionSetupFlags, SessionSetupResponse};
use wire::{Command, Dialect, FileId, OplockLevel};

const SMB3: [Dialect; 3] = [Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1];

fn alice() -> Login {
    Login::user(ALICE.0, ALICE.1)
}

fn negotiated(world: &World, dialect: Dialect) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([dialect]);
    peer
}

/// Begins a session of Alice in `data`, over two connections.
fn two_channels(world: &World, dialect: Dialect) -> (Peer, Peer) {
    let first = Peer::ready(world, dialect);
    let mut second = negotiated(world, dialect);
    second.bind(&first, &alice()).ok();
    (first, second)
}

#[test]
fn a_session_is_used_over_every_connection_that_is_bound_to_it() {
    for dialect in SMB3 {
        let world = World::new();
        let (mut first, mut second) = two_channels(&world, dialect);
        let file = first.create(&Create::new("file")).file_id;
        second.write(file, 0, b"from the second").ok();
        assert_eq!(first.read(file, 0, 15), b"from the second", "{dialect:?}");
        second.close(file).ok();
        assert_eq!(first.close(file).outcome(), Reason::NoSuchOpen);
        assert_eq!(world.ledger().session_count(), 1, "binding makes no session");
    }
}

/// The peers verify every signature with the key that they derived for their own connection.
#[test]
fn every_channel_signs_with_a_key_of_its_own() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    let file = first.create(&Create::new("file")).file_id;
    second.write(file, 0, b"right").ok();
    // The key of the first channel differs from that of the second.
    second.claim_key(&first);
    let request = second.write_request(file, 0, b"wrong");
    second.send(request);
    assert_eq!(world.contents("data", "file").as_deref(), Some(&b"right"[..]));
}

#[test]
fn losing_a_channel_leaves_the_session_to_the_others() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    let file = first.create(&Create::new("file")).file_id;
    first.disconnect();
    second.write(file, 0, b"still here").ok();
    // The key of the session outlives the channel that it came from.
    let mut third = negotiated(&world, Dialect::SMB_3_1_1);
    third.bind(&first, &alice()).ok();
    assert_eq!(third.read(file, 0, 10), b"still here");
    second.disconnect();
    third.disconnect();
    world.assert_nothing_left();
}

#[test]
fn logging_off_ends_the_session_on_every_channel() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    first.create(&Create::new("file"));
    second.logoff().ok();
    world.ledger().assert_empty();
    assert_eq!(first.try_tree("data").outcome(), Reason::NoSuchSession);
    assert_eq!(second.try_tree("data").outcome(), Reason::NoSuchSession);
}

#[test]
fn a_connection_that_is_not_bound_cannot_use_the_session() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_0);
    let mut stranger = negotiated(&world, Dialect::SMB_3_0);
    stranger.claim_key(&first);
    assert_eq!(stranger.try_tree("data").outcome(), Reason::NoSuchSession);
    // Nor while the connection is being bound.
    let login = alice().flags(SessionSetupFlags::BINDING);
    let (_, token) = stranger.begin(&login);
    let request = stranger.session_setup(&login, &token);
    let response = stranger.call(request);
    assert_eq!(response.outcome(), NtStatus::MORE_PROCESSING_REQUIRED);
    assert!(response.is_signed(), "with the key of the session");
    assert_eq!(stranger.try_tree("data").outcome(), Reason::NoSuchSession);
}

/// Begins a session with one offer, and binds a connection with another to it.
#[track_caller]
fn check_binding(first: &Offer, second: &Offer, want: impl Into<Outcome>) {
    let want = want.into();
    let world = World::new();
    let mut owner = world.connect();
    owner.negotiate_with(first).ok();
    owner.login_alice();
    owner.tree("data");
    let mut peer = world.connect();
    peer.negotiate_with(second).ok();
    let response = peer.bind(&owner, &alice());
    assert_eq!(response.outcome(), want);
    assert!(response.is_signed(), "the client can check who refused");
    owner.create(&Create::new("the session is not harmed"));
}

fn offer(dialect: Dialect) -> Offer {
    Offer::dialects(&[dialect])
}

fn signing(algorithm: SigningAlgorithmId) -> Offer {
    Offer { signing: vec![algorithm], ..offer(Dialect::SMB_3_1_1) }
}

fn cipher(cipher: CipherId) -> Offer {
    Offer { ciphers: vec![cipher], ..offer(Dialect::SMB_3_1_1) }
}

#[test]
fn the_connection_must_have_the_dialect_of_the_session() {
    let cmac = signing(SigningAlgorithmId::AES_CMAC);
    let wrong = Reason::BindingOfOtherDialect;
    check_binding(&offer(Dialect::SMB_3_0), &offer(Dialect::SMB_3_0_2), wrong);
    check_binding(&cmac, &offer(Dialect::SMB_3_0), wrong);
    check_binding(&offer(Dialect::SMB_2_1), &cmac, wrong);
}

#[test]
fn before_3_0_nothing_is_bound() {
    let cmac = signing(SigningAlgorithmId::AES_CMAC);
    let refused = Reason::BindingNotOffered;
    check_binding(&offer(Dialect::SMB_2_1), &offer(Dialect::SMB_2_1), refused);
    check_binding(&cmac, &offer(Dialect::SMB_2_1), refused);
    check_binding(&offer(Dialect::SMB_2_0_2), &offer(Dialect::SMB_2_0_2), refused);
}

#[test]
fn the_connection_must_have_the_cipher_of_the_session() {
    let (gcm, ccm) = (cipher(CipherId::AES_128_GCM), cipher(CipherId::AES_128_CCM));
    check_binding(&gcm, &ccm, Reason::BindingOfOtherCipher);
    check_binding(&gcm, &gcm, NtStatus::SUCCESS);
}

#[test]
fn gmac_and_the_other_algorithms_do_not_mix() {
    let gmac = signing(SigningAlgorithmId::AES_GMAC);
    let cmac = signing(SigningAlgorithmId::AES_CMAC);
    let hmac = signing(SigningAlgorithmId::HMAC_SHA256);
    check_binding(&gmac, &cmac, Reason::BindingWithoutGmac);
    check_binding(&gmac, &offer(Dialect::SMB_3_0_2), Reason::BindingWithoutGmac);
    check_binding(&gmac, &offer(Dialect::SMB_2_1), Reason::BindingWithoutGmac);
    check_binding(&cmac, &gmac, Reason::BindingWithGmac);
    check_binding(&offer(Dialect::SMB_3_0), &gmac, Reason::BindingWithGmac);
    check_binding(&offer(Dialect::SMB_2_1), &gmac, Reason::BindingWithGmac);
    check_binding(&cmac, &hmac, NtStatus::SUCCESS);
    check_binding(&hmac, &cmac, NtStatus::SUCCESS);
}

#[test]
fn binding_needs_a_signature_and_the_right_one() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_0);
    let mut second = negotiated(&world, Dialect::SMB_3_0);
    let login = alice().flags(SessionSetupFlags::BINDING);
    let (_, token) = second.begin(&login);
    second.session_id = first.session_id;
    let unsigned = second.session_setup(&login, &token);
    let response = second.call(unsigned);
    assert_eq!(response.outcome(), Reason::BindingNotSigned);
    assert!(!response.is_signed(), "nobody has proven anything");
    second.claim_key(&first);
    let forged = second.session_setup(&login, &token).tampered(70);
    let response = second.call(forged);
    assert_eq!(response.outcome(), Reason::BadSignature);
    assert!(!response.is_signed(), "strangers have nothing signed for them");
}

#[test]
fn a_session_that_cannot_be_bound_to_is_not_bound() {
    let world = World::new();
    let mut second = negotiated(&world, Dialect::SMB_3_0);
    let first = Peer::ready(&world, Dialect::SMB_3_0);
    // The session does not exist.
    second.claim_key(&first);
    let login = alice().flags(SessionSetupFlags::BINDING);
    let request = second.session_setup(&login, b"").session(first.session_id ^ 1).unsigned();
    assert_eq!(second.call(request).outcome(), Reason::NoSuchSession);
    // The connection is bound already.
    let mut second = negotiated(&world, Dialect::SMB_3_0);
    second.bind(&first, &alice()).ok();
    let request = second.session_setup(&login, b"");
    assert_eq!(second.call(request).outcome(), Reason::AlreadyBound);
    // Without the flag, a session of other connections does not exist.
    let mut third = negotiated(&world, Dialect::SMB_3_0);
    third.claim_key(&first);
    let request = third.session_setup(&alice(), b"");
    let response = third.call(request);
    assert_eq!(response.outcome(), Reason::NoSuchSession);
    assert!(response.is_signed());
}

#[test]
fn nothing_is_bound_if_multichannel_is_off() {
    let world = World::with(|settings| settings.multi_channel = false);
    let first = Peer::ready(&world, Dialect::SMB_3_0);
    let mut second = world.connect();
    let response = second.negotiate([Dialect::SMB_3_0]);
    let capabilities = response.body::<NegotiateResponse<'_>>().capabilities;
    assert!(!capabilities.contains(Capabilities::MULTI_CHANNEL));
    let response = second.bind(&first, &alice());
    assert_eq!(response.outcome(), Reason::BindingNotOffered);
}

#[test]
fn another_user_and_a_wrong_password_bind_nothing_and_end_nothing() {
    let world = World::new();
    let (mut first, _second) = two_channels(&world, Dialect::SMB_3_1_1);
    for (login, want) in [
        (Login::user(BOB.0, BOB.1), Reason::BoundByAnotherUser),
        (Login::user(ALICE.0, "wrong"), Reason::Authentication),
        (Login::anonymous(), Reason::BoundByAnotherUser),
    ] {
        let mut third = negotiated(&world, Dialect::SMB_3_1_1);
        assert_eq!(third.bind(&first, &login).outcome(), want);
        third.claim_key(&first);
        assert_eq!(third.try_tree("data").outcome(), Reason::NoSuchSession);
        // The same connection may try again.
        third.bind(&first, &alice()).ok();
        third.tree("data");
    }
    first.tree("data");
}

/// A request that waits belongs to the authentication that it came with, and to no later one.
#[test]
fn a_logon_that_waits_does_not_go_on_with_a_later_one_of_its_connection() {
    for (held, wanted) in [("Sleep", Login::user(ALICE.0, "wrong")), ("CheckResponse", alice())] {
        let world = World::with(|settings| settings.logon_throttle.delays = true);
        world.count_failed_logons();
        let (first, mut second) =
            (Peer::ready(&world, Dialect::SMB_3_1_1), negotiated(&world, Dialect::SMB_3_1_1));
        if held == "Sleep" {
            for _ in 0..9 {
                negotiated(&world, Dialect::SMB_3_1_1).authenticate(&wanted);
            }
        }
        world.delay_replies(move |effect| format!("{effect:?}").starts_with(held));
        second.claim_key(&first);
        let login = wanted.flags(SessionSetupFlags::BINDING);
        let (mut initiator, token) = second.begin(&login);
        let request = second.session_setup(&login, &token);
        let response = second.call(request).expect(NtStatus::MORE_PROCESSING_REQUIRED);
        let body: SessionSetupResponse<'_> = response.body();
        let proof = initiator.step(body.security_buffer).expect("a challenge").token;
        let request = second.session_setup(&login, &proof);
        second.send(request);
        assert_eq!(world.delayed_replies(), 1, "{held}");
        // Anything out of order gives the binding up, and the next token begins another.
        let request = second.session_setup(&login, b"out of order");
        assert_eq!(second.call(request).outcome(), Reason::Authentication);
        let (_, token) = second.begin(&login);
        let request = second.session_setup(&login, &token);
        assert_eq!(second.call(request).outcome(), NtStatus::MORE_PROCESSING_REQUIRED);
        world.release_all();
        world.stop_delaying();
        let answers: Vec<Outcome> = second.receive().iter().map(Response::outcome).collect();
        assert_eq!(answers, [Outcome::from(Reason::NoSuchSession)], "{held}");
        // The other one goes on, and can be given up and begun anew as any.
        assert_eq!(second.bind(&first, &alice()).outcome(), Reason::Authentication);
        second.bind(&first, &alice()).ok();
    }
}

#[test]
fn a_connection_binds_at_most_16_sessions_at_once() {
    let world = World::new();
    let mut second = negotiated(&world, Dialect::SMB_3_1_1);
    let login = alice().flags(SessionSetupFlags::BINDING);
    let mut begin = |first: &Peer| {
        second.claim_key(first);
        let (_, token) = second.begin(&login);
        let request = second.session_setup(&login, &token);
        second.call(request).outcome()
    };
    let firsts: Vec<Peer> = (0..17).map(|_| Peer::ready(&world, Dialect::SMB_3_1_1)).collect();
    for first in &firsts[..16] {
        assert_eq!(begin(first), NtStatus::MORE_PROCESSING_REQUIRED);
    }
    assert_eq!(begin(&firsts[16]), Reason::TooManySessions);
}

#[test]
fn a_session_has_at_most_32_channels() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_0);
    let mut channels = Vec::new();
    for _ in 1..proto::session::CHANNELS_MAX {
        let mut peer = negotiated(&world, Dialect::SMB_3_0);
        peer.bind(&first, &alice()).ok();
        channels.push(peer);
    }
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    assert_eq!(peer.bind(&first, &alice()).outcome(), Reason::TooManyChannels);
    channels.pop().expect("there are 31").disconnect();
    peer.bind(&first, &alice()).ok();
}

#[test]
fn a_session_authenticates_again_over_any_channel() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    let session_id = second.session_id;
    second.authenticate(&alice().again(session_id)).ok();
    first.tree("data");
    let failed = second.authenticate(&Login::user(ALICE.0, "wrong").again(session_id));
    assert_eq!(failed.outcome(), Reason::Authentication);
    assert_eq!(first.try_tree("data").outcome(), Reason::NoSuchSession);
}

#[test]
fn a_connection_that_goes_while_it_is_being_bound_leaves_nothing() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut second = negotiated(&world, Dialect::SMB_3_1_1);
    second.claim_key(&first);
    let login = alice().flags(SessionSetupFlags::BINDING);
    let (_, token) = second.begin(&login);
    let request = second.session_setup(&login, &token);
    assert_eq!(second.call(request).outcome(), NtStatus::MORE_PROCESSING_REQUIRED);
    // The other way round, too: a connection that is only being bound does not keep a session.
    first.disconnect();
    world.ledger().assert_empty();
    second.disconnect();
    world.assert_nothing_left();
}

fn lent(world: &World, peer: &Peer) -> LentSession {
    world.lend_session(peer.session_id).expect("a session with a key")
}

#[test]
fn a_session_of_another_worker_is_refused_in_its_own_name() {
    let elsewhere = World::with_seed(7, |_| {});
    let here = World::new();
    for (dialect, want) in [
        (Dialect::SMB_3_1_1, Reason::BoundElsewhere),
        (Dialect::SMB_3_0, Reason::BindingWithoutGmac),
    ] {
        let owner = Peer::ready(&elsewhere, Dialect::SMB_3_1_1);
        here.put_elsewhere(owner.session_id, lent(&elsewhere, &owner));
        let mut peer = negotiated(&here, dialect);
        let response = peer.bind(&owner, &alice());
        assert_eq!(response.outcome(), want);
        assert!(response.is_signed());
        let mut peer = negotiated(&here, dialect);
        peer.claim_key(&owner);
        let request = peer.session_setup(&alice(), b"");
        let response = peer.call(request);
        assert_eq!(response.outcome(), Reason::NoSuchSession);
        assert!(response.is_signed());
        peer.claim_key(&owner);
        // Whoever does not have the key gets what comes for a session that nobody has.
        let request = peer.session_setup(&alice(), b"").tampered(70);
        let response = peer.call(request);
        assert_eq!(
            (response.outcome(), response.is_signed()),
            (Reason::NoSuchSession.into(), false)
        );
        here.delay_replies(|effect| matches!(effect, Effect::FindSession { .. }));
        let mut stranger = negotiated(&here, dialect);
        stranger.session_id = owner.session_id;
        let login = alice().flags(SessionSetupFlags::BINDING);
        let request = stranger.session_setup(&login, b"");
        assert_eq!(stranger.call(request).outcome(), Reason::NoSuchSession);
        here.stop_delaying();
    }
}

/// A worker that has a session verifies what others ask it, so a stranger could keep it busy.
#[test]
fn unproven_requests_for_a_session_elsewhere_are_asked_about_a_few_times_only() {
    let elsewhere = World::with_seed(7, |_| {});
    let here = World::new();
    here.count_failed_logons();
    let owner = Peer::ready(&elsewhere, Dialect::SMB_3_1_1);
    here.put_elsewhere(owner.session_id, lent(&elsewhere, &owner));
    for _ in 0..30 {
        let mut stranger = negotiated(&here, Dialect::SMB_3_1_1);
        stranger.claim_key(&owner);
        let request = stranger.session_setup(&alice(), b"").tampered(70);
        assert_eq!(stranger.call(request).outcome(), Reason::NoSuchSession);
    }
    let asked = here.session_questions();
    assert!((1..=10).contains(&asked), "{asked}");
}

#[test]
fn a_connection_has_few_questions_about_sessions_elsewhere_pending() {
    let here = World::new();
    here.delay_replies(|effect| matches!(effect, Effect::FindSession { .. }));
    let mut stranger = negotiated(&here, Dialect::SMB_3_1_1);
    let elsewhere = World::with_seed(7, |_| {});
    stranger.claim_key(&Peer::ready(&elsewhere, Dialect::SMB_3_1_1));
    for _ in 0..4 {
        let request = stranger.session_setup(&alice(), b"");
        stranger.send(request);
    }
    let request = stranger.session_setup(&alice(), b"");
    assert_eq!(stranger.call(request).outcome(), Reason::NoSuchSession);
    assert_eq!(here.delayed_replies(), 4);
    here.release(0);
    let request = stranger.session_setup(&alice(), b"");
    stranger.send(request);
    assert_eq!(here.delayed_replies(), 4, "an answer makes room for the next question");
}

#[test]
fn requests_for_a_session_elsewhere_that_nobody_verifies_do_not_count_as_failed() {
    let elsewhere = World::with_seed(7, |_| {});
    let here = World::new();
    here.count_failed_logons();
    let owner = Peer::ready(&elsewhere, Dialect::SMB_3_1_1);
    here.put_elsewhere(owner.session_id, lent(&elsewhere, &owner));
    for number in 0..40 {
        let mut peer = negotiated(&here, Dialect::SMB_3_1_1);
        peer.claim_key(&owner);
        let request = peer.session_setup(&alice(), b"");
        let request = if number < 15 { request.tampered(70) } else { request };
        let response = peer.call(request);
        assert_eq!(response.outcome(), Reason::NoSuchSession);
        assert!(!response.is_signed(), "nobody verifies it: {number}");
    }
    // Each count falls by one every ten seconds.
    here.advance(Duration::from_secs(20));
    let response = negotiated(&here, Dialect::SMB_3_1_1).bind(&owner, &alice());
    assert_eq!(response.outcome(), Reason::BoundElsewhere);
}

#[test]
fn a_guest_has_no_channels() {
    let world = World::new();
    let mut guest = negotiated(&world, Dialect::SMB_3_0);
    guest.authenticate(&Login::anonymous()).ok();
    assert!(world.lend_session(guest.session_id).is_none(), "there is no key to lend");
    let mut second = negotiated(&world, Dialect::SMB_3_0);
    second.session_id = guest.session_id;
    let login = alice().flags(SessionSetupFlags::BINDING);
    let request = second.session_setup(&login, b"");
    assert_eq!(second.call(request).outcome(), Reason::BindingNotSigned);
}

#[test]
fn a_write_of_a_lost_channel_is_done_once_and_repeated_on_another() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    let file = first.create(&Create::new("file")).file_id;
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let write = first.write_request(file, 0, b"data");
    first.send(write);
    first.disconnect();
    world.stop_delaying();
    let repeated = |peer: &Peer| {
        peer.write_request(file, 0, b"data")
            .flags(HeaderFlags::REPLAY_OPERATION)
            .channel_sequence(1)
    };
    // The server cannot tell pending requests from lost ones: the client has to wait.
    let request = repeated(&second);
    assert_eq!(second.call(request).outcome(), Reason::ChannelSequence);
    world.release_all();
    let request = repeated(&second);
    second.call(request).ok();
    assert_eq!(world.contents("data", "file").as_deref(), Some(&b"data"[..]));
    second.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_request_of_an_earlier_channel_sequence_changes_nothing() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    let file = first.create(&Create::new("file")).file_id;
    let new = second.write_request(file, 0, b"new").channel_sequence(1);
    second.call(new).ok();
    let late = first.write_request(file, 0, b"old").channel_sequence(0);
    assert_eq!(first.call(late).outcome(), Reason::ChannelSequence);
    assert_eq!(first.read(file, 0, 3), b"new", "READ changes nothing, and is answered");
}

#[test]
fn before_3_0_the_field_is_a_status_and_means_nothing() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_2_1);
    let file = peer.create(&Create::new("file")).file_id;
    for number in [5, 4] {
        let request = peer.write_request(file, 0, b"data").channel_sequence(number);
        peer.call(request).ok();
    }
}

#[test]
fn an_open_that_nobody_can_ask_for_again_is_closed_with_its_channel() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let create = first.request(Command::CREATE, &Create::new("file"));
    first.send(create);
    first.disconnect();
    world.release_all();
    assert_eq!(world.store().open_count(), 0);
    second.tree("data");
}

/// Logs on as Bob, with a batch oplock on a file.
fn holder_of(world: &World, name: &str) -> (Peer, FileId) {
    let mut peer = world.connect();
    let offer = Offer { client_guid: Guid([0xB0; 16]), ..offer(Dialect::SMB_3_1_1) };
    peer.negotiate_with(&offer).ok();
    peer.authenticate(&Login::user(BOB.0, BOB.1)).ok();
    peer.tree("data");
    let file = peer.create(&Create::open_if(name).oplock(OplockLevel::BATCH)).file_id;
    (peer, file)
}

#[test]
fn a_create_that_waits_for_a_break_goes_on_when_its_channel_is_lost_and_opens_once() {
    for is_known in [true, false] {
        let world = World::new();
        let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
        let (mut holder, held) = holder_of(&world, "file");
        let (timeout_ms, flags, create_guid) = (0, DurableFlags::empty(), Guid([9; 16]));
        let durable = DurableHandleRequestV2 { timeout_ms, flags, create_guid };
        let wanted = Create::open("file").context(&durable);
        let request = first.request(Command::CREATE, &wanted);
        first.send(request);
        assert_eq!(outcomes(&mut first), [NtStatus::PENDING]);
        if is_known {
            first.disconnect();
        }
        let repeated = |peer: &Peer| {
            let request = peer.request(Command::CREATE, &wanted);
            request.flags(HeaderFlags::REPLAY_OPERATION).channel_sequence(1)
        };
        let request = repeated(&second);
        assert_eq!(second.call(request).outcome(), Reason::FileNotAvailable);
        assert_eq!(holder.receive()[0].header.command, Command::OPLOCK_BREAK);
        holder.close(held).ok();
        let request = repeated(&second);
        let opened = second.call(request).ok();
        assert_eq!(world.open_count(), 1, "{is_known}");
        second.close(opened.body::<CreateResponse<'_>>().file_id).ok();
        assert_eq!(world.open_count(), 0);
    }
}

fn watch(peer: &mut Peer, directory: FileId) {
    let request = peer.watch_request(directory);
    peer.send(request);
}

fn lock(peer: &mut Peer, file_id: FileId) {
    let request = peer.lock_request(file_id, LockFlags::EXCLUSIVE_LOCK, 0);
    peer.send(request);
}

/// Returns a lock sequence for the first entry of the open's list.
fn numbered(number: u32) -> u32 {
    (1 << 4) | number
}

/// Returns the statuses of all responses.
fn outcomes(peer: &mut Peer) -> Vec<Outcome> {
    peer.receive().iter().map(Response::outcome).collect()
}

/// Makes a file that the second channel has locked, and an open of it whose LOCK, with a number,
/// waits on the first.
fn waiting_lock(world: &World) -> (Peer, Peer, FileId, FileId) {
    let (mut first, mut second) = two_channels(world, Dialect::SMB_3_1_1);
    let holder = second.create(&Create::new("file")).file_id;
    lock(&mut second, holder);
    assert_eq!(outcomes(&mut second), [NtStatus::SUCCESS]);
    let waiter = second.create(&Create::open("file")).file_id;
    let request = first.lock_request(waiter, LockFlags::EXCLUSIVE_LOCK, numbered(1));
    first.send(request);
    assert_eq!(outcomes(&mut first), [NtStatus::PENDING]);
    (first, second, holder, waiter)
}

/// Repeats the LOCK over another channel.
fn repeat_lock(peer: &mut Peer, file_id: FileId) {
    let request = peer
        .lock_request(file_id, LockFlags::EXCLUSIVE_LOCK, numbered(1))
        .flags(HeaderFlags::REPLAY_OPERATION)
        .channel_sequence(1);
    peer.send(request);
}

/// Returns the number of locks on the range: each UNLOCK releases one.
fn lock_count(peer: &mut Peer, file_id: FileId) -> usize {
    let mut unlock = || {
        let request = peer.lock_request(file_id, LockFlags::UNLOCK, 0).channel_sequence(1);
        peer.call(request).status()
    };
    std::iter::repeat_with(&mut unlock).take_while(|it| it.is_success()).count()
}

#[test]
fn a_lock_that_waits_goes_on_when_its_channel_is_lost_and_is_taken_once() {
    let world = World::new();
    let (first, mut second, holder, waiter) = waiting_lock(&world);
    first.disconnect();
    second.close(holder).ok();
    // The lock is granted already, and the client learns that from its repetition.
    let mut other = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file = other.create(&Create::open("file")).file_id;
    let at_once = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let request = other.lock_request(file, at_once, 0);
    assert_eq!(other.call(request).outcome(), Reason::LockNotGranted);
    repeat_lock(&mut second, waiter);
    assert_eq!(outcomes(&mut second), [NtStatus::SUCCESS]);
    assert_eq!(lock_count(&mut second, waiter), 1);
}

/// With and without the server knowing that the first channel is lost.
#[test]
fn a_lock_that_is_repeated_while_it_waits_is_taken_once() {
    for is_known in [true, false] {
        let world = World::new();
        let (first, mut second, holder, waiter) = waiting_lock(&world);
        if is_known {
            first.disconnect();
        }
        repeat_lock(&mut second, waiter);
        assert_eq!(outcomes(&mut second), [NtStatus::PENDING]);
        let close = second.close_request(holder);
        second.send(close);
        assert_eq!(outcomes(&mut second), [NtStatus::SUCCESS; 2], "LOCK and CLOSE");
        assert_eq!(lock_count(&mut second, waiter), 1);
    }
}

#[test]
fn a_lock_that_was_asked_for_twice_is_cancelled_wholly() {
    for is_known in [true, false] {
        let world = World::new();
        let (mut first, mut second, holder, waiter) = waiting_lock(&world);
        if is_known {
            first.disconnect();
        }
        let request = second
            .lock_request(waiter, LockFlags::EXCLUSIVE_LOCK, numbered(1))
            .flags(HeaderFlags::REPLAY_OPERATION)
            .channel_sequence(1);
        let id = second.send(request);
        assert_eq!(outcomes(&mut second), [NtStatus::PENDING]);
        let cancel = second.request(Command::CANCEL, &wire::cancel::CancelRequest).message_id(id);
        second.send(cancel);
        assert_eq!(outcomes(&mut second), [Reason::Cancelled]);
        if !is_known {
            assert_eq!(outcomes(&mut first), [Reason::Cancelled]);
        }
        second.close(holder).ok();
        assert_eq!(lock_count(&mut second, waiter), 0);
    }
}

/// A lock granted without a client to learn of it would conflict with the client's own requests.
#[test]
fn requests_without_a_time_limit_end_with_their_channel() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    let directory = first.create(&Create::directory("dir")).file_id;
    watch(&mut first, directory);
    let holder = second.create(&Create::new("file")).file_id;
    lock(&mut second, holder);
    assert!(second.receive()[0].status().is_success());
    let waiter = second.create(&Create::open("file")).file_id;
    lock(&mut first, waiter);
    assert!(first.receive().iter().all(Response::is_interim));
    first.disconnect();
    second.close(holder).ok();
    let third = second.create(&Create::open("file")).file_id;
    lock(&mut second, third);
    assert!(second.receive()[0].status().is_success(), "nobody holds it");
    // The directory is still watched, and a new request may wait for changes.
    watch(&mut second, directory);
    assert!(second.receive()[0].is_interim());
}

#[test]
fn a_rule_that_is_broken_on_a_lost_channel_ends_no_other() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world, Dialect::SMB_3_1_1);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let create = first.request(Command::CREATE, &Create::new("file"));
    let flush = first.request(Command::FLUSH, &wire::flush::FlushRequest { file_id: FileId::ANY });
    // The second request of the frame has not begun when the channel is lost, and never does.
    first.send_all([create, flush.related()]);
    first.disconnect();
    world.release_all();
    second.tree("data");
    assert_eq!(second.closed(), None::<Disconnect>);
}

#[test]
fn a_connection_is_served_by_the_worker_that_has_its_client() {
    let first_worker = World::new();
    let second_worker = World::with_seed(2, |_| {});
    let owner = Peer::ready(&first_worker, Dialect::SMB_3_1_1);
    second_worker.delay_replies(|effect| matches!(effect, Effect::ClaimClient { .. }));
    let mut newcomer = second_worker.connect();
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    let request = newcomer.negotiate_request(&offer, &offer.contexts());
    newcomer.send(request);
    assert!(newcomer.receive().is_empty(), "it is not decided who answers");
    let frame = second_worker.frames().pop().expect("one was sent");
    let mut passed = second_worker.pass_on(&newcomer, (&frame, false), &first_worker);
    passed.take_over(&mut newcomer);
    assert!(second_worker.is_idle());
    second_worker.assert_nothing_left();
    passed.bind(&owner, &alice()).ok();
    passed.create(&Create::new("file"));
}

#[test]
fn a_client_that_began_with_smb1_is_handed_over_in_its_state() {
    let first_worker = World::new();
    let second_worker = World::with_seed(2, |_| {});
    let owner = Peer::ready(&first_worker, Dialect::SMB_3_1_1);
    let after_smb1 =
        |effect: &Effect| matches!(effect, Effect::ClaimClient { after_smb1: true, .. });
    second_worker.delay_replies(after_smb1);
    let mut newcomer = second_worker.connect();
    assert_eq!(newcomer.negotiate_smb1(&[c"SMB 2.???"]).len(), 1);
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    let request = newcomer.negotiate_request(&offer, &offer.contexts());
    newcomer.send(request);
    let frame = second_worker.frames().pop().expect("one was sent");
    let mut passed = second_worker.pass_on(&newcomer, (&frame, true), &first_worker);
    passed.take_over(&mut newcomer);
    passed.bind(&owner, &alice()).ok();
}

#[test]
fn only_clients_that_can_have_channels_are_claimed() {
    for (offer, claimed) in [
        (Offer::dialects(&[Dialect::SMB_3_1_1]), true),
        (Offer::dialects(&[Dialect::SMB_3_0]), true),
        (Offer::dialects(&[Dialect::SMB_2_1]), false),
        (Offer { capabilities: Capabilities::LARGE_MTU, ..offer(Dialect::SMB_3_0) }, false),
        (Offer { client_guid: Guid::ZERO, ..offer(Dialect::SMB_3_0) }, false),
    ] {
        let world = World::new();
        world.delay_replies(|effect| matches!(effect, Effect::ClaimClient { .. }));
        let mut peer = world.connect();
        let request = peer.negotiate_request(&offer, &offer.contexts());
        peer.send(request);
        assert_eq!(world.delayed_replies() == 1, claimed, "{offer:?}");
        assert_eq!(peer.receive().is_empty(), claimed);
    }
}

fn interfaces(peer: &mut Peer, max: u32) -> (NtStatus, Vec<NetworkInterface>) {
    let body = IoctlRequest {
        ctl_code: FsctlCode::QUERY_NETWORK_INTERFACE_INFO,
        file_id: FileId::ANY,
        max_output_response: max,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    let request = peer.request(Command::IOCTL, &body);
    let response = peer.call(request);
    if !response.status().is_success() {
        return (response.status(), Vec::new());
    }
    let output = response.body::<IoctlResponse<'_>>().output;
    let found = NetworkInterfaces::new(output).map(|it| it.expect("well-formed")).collect();
    (response.status(), found)
}

#[test]
fn administrators_are_told_of_every_channel_of_every_session() {
    let world = World::new();
    let (mut first, second) = two_channels(&world, Dialect::SMB_3_1_1);
    let other = negotiated(&world, Dialect::SMB_3_1_1);
    let reported = |world: &World| -> Vec<(u64, bool, u32)> {
        let row =
            |it: proto::ChannelInfo| (it.session_id, it.asked_for_interfaces, it.repeated_breaks);
        world.channels().into_iter().map(row).collect()
    };
    let id = first.session_id;
    assert_eq!(reported(&world), [(id, false, 0), (id, false, 0)], "no session, no channel");
    assert_eq!(interfaces(&mut first, 0x1_0000).0, NtStatus::SUCCESS);
    assert_eq!(reported(&world), [(id, true, 0), (id, false, 0)]);
    assert!(world.channels().iter().all(|it| it.can_be_bound && it.client != it.server));
    second.disconnect();
    other.disconnect();
    assert_eq!(reported(&world), [(id, true, 0)]);
}

#[test]
fn clients_are_offered_the_present_addresses() {
    let world = World::new();
    let interface = |if_index, address: &str| NetworkInterface {
        if_index,
        capability: NetworkInterfaceCapability::RSS_CAPABLE,
        link_speed: 10_000_000_000,
        address: Some(address.parse().expect("an address")),
    };
    let two = [interface(2, "192.0.2.1"), interface(2, "2001:db8::1")];
    world.set_interfaces(vec![two[0], interface(0, "192.0.2.2"), two[1]]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert_eq!(interfaces(&mut peer, 0x1_0000), (NtStatus::SUCCESS, two.to_vec()));
    assert_eq!(interfaces(&mut peer, 100).0, NtStatus::BUFFER_TOO_SMALL);
    let mut old = Peer::ready(&world, Dialect::SMB_2_1);
    assert_eq!(interfaces(&mut old, 0x1_0000).0, NtStatus::NOT_SUPPORTED);
}
