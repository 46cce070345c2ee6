//! Conversations of the client with a small server, built on the same parts.

mod server;

use auth::{Credentials, Framing, Initiator, Randomness};
use crypto::{SigningAlgorithm, TransformKey};
use dtyp::{FileTime, NtStatus};
use server::Server;
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::session_setup::{SessionFlags, SessionSetupFlags};
use wire::transform::Protocol;
use wire::{Command, Dialect, Encode, Header, frame};

use super::{Connection, Kind};
use crate::error::ProtocolError;
use crate::logon::{Logon, LogonState};
use crate::offer::Offer;

const ALL: [Dialect; 5] = [
    Dialect::SMB_2_0_2,
    Dialect::SMB_2_1,
    Dialect::SMB_3_0,
    Dialect::SMB_3_0_2,
    Dialect::SMB_3_1_1,
];

const WITH_CIPHER: [Dialect; 3] = [Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1];

fn initiator(credentials: Credentials) -> Initiator {
    let randomness = Randomness { client_challenge: [1; 8], session_key: [2; 16] };
    Initiator::new(credentials, randomness, FileTime(1), Framing::Spnego)
}

fn user() -> Credentials {
    Credentials::password("user", "", server::PASSWORD)
}

/// A connection that has negotiated, and its server.
fn negotiated(dialect: Dialect) -> (Connection, Server) {
    let (mut client, mut server) = (Connection::new(8), Server::new());
    let offer = Offer::dialects(&[dialect]);
    let frame = client.negotiate(&offer).expect("the first credit").to_vec();
    let mut answer = server.answer(&frame);
    let received = client.receive(&mut answer).expect("well-formed");
    assert_eq!((received.kind, received.length), (Kind::Final, answer.len()));
    client.handle_negotiate(&offer, &answer).expect("as it was offered");
    assert_eq!(client.negotiated.dialect, dialect);
    (client, server)
}

fn authenticate(
    (client, server): (&mut Connection, &mut Server),
    credentials: Credentials,
    flags: SessionSetupFlags,
) -> Result<LogonState, ProtocolError> {
    let mut logon = Logon::new(initiator(credentials), client.preauth())?;
    logon.flags = flags;
    loop {
        let frame = client.session_setup(&mut logon)?.to_vec();
        let mut answer = server.answer(&frame);
        client.receive(&mut answer)?;
        match client.handle_session_setup(&mut logon, &mut answer)? {
            LogonState::More => {}
            done @ LogonState::Done(_) => return Ok(done),
        }
    }
}

/// A connection that has logged on, and signs.
fn logged_on(dialect: Dialect) -> (Connection, Server) {
    let (mut client, mut server) = negotiated(dialect);
    let sides = (&mut client, &mut server);
    authenticate(sides, user(), SessionSetupFlags::empty()).expect("the right password");
    client.signs = true;
    (client, server)
}

fn push_echo(client: &mut Connection) -> u64 {
    client.push(Command::ECHO, 0, HeaderFlags::empty(), &EchoRequest)
}

#[test]
fn every_dialect_ends_in_a_session_with_signed_messages() {
    for dialect in ALL {
        let (mut client, mut server) = logged_on(dialect);
        let message_id = push_echo(&mut client);
        let frame = client.finish().expect("there are credits").to_vec();
        let mut answer = server.answer(&frame);
        let received = client.receive(&mut answer).expect("the key of the session");
        assert_eq!(received.header.message_id, message_id, "{dialect:?}");
        assert!(received.header.is_signed(), "{dialect:?}");
    }
}

#[test]
fn gmac_is_negotiated_if_both_sides_have_it() {
    let (client, _) = logged_on(Dialect::SMB_3_1_1);
    let key = client.channel().expect("a session").signing_key();
    assert_eq!(key.algorithm(), SigningAlgorithm::AesGmac);
}

#[test]
fn a_sealed_compound_is_answered_sealed() {
    for dialect in WITH_CIPHER {
        let (mut client, mut server) = logged_on(dialect);
        client.seals = true;
        let ids = [(); 2].map(|()| push_echo(&mut client));
        let frame = client.finish().expect("there is a cipher").to_vec();
        assert_eq!(Protocol::of(&frame[frame::SIZE..]), Ok(Protocol::Encrypted));
        let mut answer = server.answer(&frame);
        let mut at = client.open(&mut answer).expect("the key of the server");
        assert_eq!(at, TransformKey::HEADER_LEN);
        for id in ids {
            let received = client.receive(&mut answer[at..]).expect("a whole chain");
            assert_eq!(received.header.message_id, id);
            at += received.length;
        }
        assert_eq!(at, answer.len());
    }
}

/// A server encrypts what a share with encryption answers, even to a request that was signed.
#[test]
fn an_encrypted_response_needs_no_signature() {
    for dialect in WITH_CIPHER {
        let (mut client, mut server) = logged_on(dialect);
        client.seals = true;
        let id = push_echo(&mut client);
        let frame = client.finish().expect("there is a cipher").to_vec();
        let mut answer = server.answer(&frame);
        client.seals = false;
        let at = client.open(&mut answer).expect("the key of the server");
        let received = client.receive(&mut answer[at..]).expect("no signature is missing");
        assert_eq!(received.header.message_id, id, "{dialect:?}");
    }
}

#[test]
fn a_plain_frame_and_one_of_smb1_are_no_answer_of_an_encrypted_session() {
    let (mut client, _) = logged_on(Dialect::SMB_3_1_1);
    client.seals = true;
    let mut plain = Header::default().to_bytes();
    assert_eq!(client.open(&mut plain), Err(ProtocolError::NotEncrypted));
    let smb1 = ProtocolError::UnexpectedProtocol(Protocol::Smb1);
    assert_eq!(client.open(&mut [0xFF, b'S', b'M', b'B']), Err(smb1));
    client.seals = false;
    assert_eq!(client.open(&mut plain), Ok(0));
}

#[test]
fn a_response_without_a_signature_or_with_a_wrong_one_is_refused() {
    let (mut client, mut server) = logged_on(Dialect::SMB_3_0);
    push_echo(&mut client);
    let frame = client.finish().expect("there are credits").to_vec();
    let answer = server.answer(&frame);
    let mut changed = answer.clone();
    changed[66] ^= 1;
    assert!(matches!(client.receive(&mut changed), Err(ProtocolError::BadSignature(_))));
    let mut unsigned = answer.clone();
    wire::header::set_flags(&mut unsigned, HeaderFlags::SERVER_TO_REDIR);
    let want = ProtocolError::NotSigned(Command::ECHO);
    assert_eq!(client.receive(&mut unsigned).map(|_| ()), Err(want));
    client.receive(&mut answer.clone()).expect("as the server has sent it");
}

#[test]
fn interim_responses_and_notifications_need_no_signature() {
    let (mut client, _) = logged_on(Dialect::SMB_3_0);
    let credits = client.window.credits();
    let interim = Header { status: NtStatus::PENDING, async_id: Some(7), credits: 3, ..response() };
    let received = client.receive(&mut interim.to_bytes()).expect("unsigned");
    assert_eq!((received.kind, client.window.credits()), (Kind::Interim, credits + 3));
    let notification = Header { message_id: u64::MAX, credits: 3, ..response() };
    let received = client.receive(&mut notification.to_bytes()).expect("unsigned");
    assert_eq!((received.kind, client.window.credits()), (Kind::Notification, credits + 3));
}

fn response() -> Header {
    Header { flags: HeaderFlags::SERVER_TO_REDIR, ..Header::default() }
}

#[test]
fn a_message_that_leaves_its_frame_is_malformed() {
    let mut client = Connection::new(0);
    let mut message = Header { next_command: 128, ..response() }.to_bytes();
    assert!(matches!(client.receive(&mut message), Err(ProtocolError::Decode(_))));
    assert!(matches!(client.receive(&mut message[..9]), Err(ProtocolError::Decode(_))));
}

#[test]
fn a_wrong_password_is_refused_with_the_status_of_the_server() {
    let (mut client, mut server) = negotiated(Dialect::SMB_3_1_1);
    let credentials = Credentials::password("user", "", "wrong");
    let sides = (&mut client, &mut server);
    let refused = authenticate(sides, credentials, SessionSetupFlags::empty());
    let want = ProtocolError::Refused(Command::SESSION_SETUP, NtStatus::LOGON_FAILURE);
    assert_eq!(refused, Err(want));
    assert!(client.channel().is_none());
}

#[test]
fn nobody_in_particular_has_a_session_without_keys() {
    let (mut client, mut server) = negotiated(Dialect::SMB_3_1_1);
    let sides = (&mut client, &mut server);
    let state = authenticate(sides, Credentials::anonymous(), SessionSetupFlags::empty());
    assert_eq!(state, Ok(LogonState::Done(SessionFlags::IS_NULL)));
    assert!(client.channel().is_none());
    assert_eq!(client.session_id, server::SESSION_ID);
    client.signs = true;
    push_echo(&mut client);
    assert_eq!(client.finish().map(|_| ()), Err(ProtocolError::NoKey));
}

#[test]
fn a_server_that_does_not_sign_its_last_answer_proves_nothing() {
    let (mut client, mut server) = negotiated(Dialect::SMB_3_1_1);
    server.proves = false;
    let sides = (&mut client, &mut server);
    let refused = authenticate(sides, user(), SessionSetupFlags::empty());
    assert_eq!(refused, Err(ProtocolError::NotSigned(Command::SESSION_SETUP)));
}

#[test]
fn a_further_channel_is_bound_with_the_key_of_the_session_and_gets_its_own() {
    for dialect in WITH_CIPHER {
        let (first, first_server) = logged_on(dialect);
        let session = first.channel().expect("logged on").session().clone();
        let (mut client, mut server) = negotiated(dialect);
        server.bind(&first_server);
        client.nonce_prefix = [1, 0, 0];
        client.bind(session.clone());
        let sides = (&mut client, &mut server);
        authenticate(sides, user(), SessionSetupFlags::BINDING).expect("bound");
        let channel = client.channel().expect("bound");
        assert_eq!((channel.session().id, channel.is_being_bound()), (session.id, false));
        push_echo(&mut client);
        let frame = client.finish().expect("there are credits").to_vec();
        let mut answer = server.answer(&frame);
        client.receive(&mut answer).expect("the key of the channel");
    }
}

#[test]
fn a_dialect_that_was_not_offered_is_refused() {
    let (mut client, mut server) = (Connection::new(0), Server::new());
    let frame = client.negotiate(&Offer::dialects(&[Dialect::SMB_3_0])).expect("a credit").to_vec();
    let answer = server.answer(&frame);
    let refused = client.handle_negotiate(&Offer::dialects(&[Dialect::SMB_2_1]), &answer);
    assert_eq!(refused, Err(ProtocolError::Dialect(Dialect::SMB_3_0)));
}

#[test]
fn requests_without_credits_are_not_sent() {
    let mut client = Connection::new(0);
    push_echo(&mut client);
    push_echo(&mut client);
    assert_eq!(client.finish().map(|_| ()), Err(ProtocolError::Overdrawn(2)));
}

#[test]
fn a_request_asks_for_the_credits_that_are_missing_and_pays_for_its_payload() {
    let (mut client, _) = negotiated(Dialect::SMB_2_1);
    client.window.grant(100);
    client.credits_wanted = 200;
    let have = client.window.credits();
    let header = client.next_header(Command::READ, 1 << 20, HeaderFlags::empty());
    assert_eq!(header.credit_charge, 16);
    assert_eq!(u32::from(header.credits), 200 - (have - 16));
    client.credits_wanted = 0;
    let header = client.next_header(Command::READ, 1 << 20, HeaderFlags::empty());
    assert_eq!(header.credits, 16, "as many as it takes");
    let (mut client, _) = negotiated(Dialect::SMB_2_0_2);
    let header = client.next_header(Command::READ, 1, HeaderFlags::empty());
    assert_eq!(header.credit_charge, 0, "a reserved field");
}

#[test]
fn a_frame_of_the_owner_is_protected_like_those_of_the_connection() {
    for seals in [false, true] {
        let (mut client, mut server) = logged_on(Dialect::SMB_3_1_1);
        client.seals = seals;
        let header = client.next_header(Command::ECHO, 0, HeaderFlags::empty());
        let mut frame = vec![0; client.room()];
        header.encode(&mut frame);
        EchoRequest.encode(&mut frame);
        client.protect(&mut frame).expect("there are keys");
        let mut answer = server.answer(&frame);
        let at = client.open(&mut answer).expect("like the request");
        client.receive(&mut answer[at..]).expect("like the request");
    }
}
