//! The protocol without a socket: hostile bytes, limits and deadlines.

use std::time::{Duration, Instant};

use ctdb::{
    Answer, Call, Control, Destination, Event, Exchange, Failure, Function, Malformed,
    OUTPUT_BYTES_MAX, PACKET_BYTES_MAX, REQUESTS_MAX, Unsent,
};

const MAGIC: u32 = 0x4354_4442;
const REPLY_CALL: u32 = 1;
const REPLY_ERROR: u32 = 4;
const MESSAGE: u32 = 5;
const REPLY_CONTROL: u32 = 8;

/// Number of the first request of an exchange.
const FIRST: u32 = 1;

fn packet(operation: u32, request: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(32 + body.len()).expect("it is short");
    let header = [length, MAGIC, 1, 77, operation, 0, 0, request];
    let mut packet: Vec<u8> = header.into_iter().flat_map(u32::to_ne_bytes).collect();
    packet.extend(body);
    packet
}

/// Fields of a reply to a control.
fn control_reply(status: i32, data: &[u8], error: &[u8]) -> Vec<u8> {
    let mut body = status.to_ne_bytes().to_vec();
    for part in [data, error] {
        body.extend(u32::try_from(part.len()).expect("it is short").to_ne_bytes());
    }
    body.extend(data);
    body.extend(error);
    body
}

fn message(data: &[u8]) -> Vec<u8> {
    let mut body = 9u64.to_ne_bytes().to_vec();
    body.extend(u32::try_from(data.len()).expect("it is short").to_ne_bytes());
    body.extend(data);
    packet(MESSAGE, 0, &body)
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Returns the result of a control whose reply has these bytes.
#[track_caller]
fn answer(
    control: &Control<'_>,
    status: i32,
    data: &[u8],
    error: &[u8],
) -> Result<Answer, Failure> {
    let mut exchange = Exchange::default();
    let now = Instant::now();
    exchange.ask(Destination::Own, control, now).expect("it is short");
    exchange.receive(&packet(REPLY_CONTROL, FIRST, &control_reply(status, data, error)));
    match exchange.next_event(now) {
        Ok(Some(Event::Answered(_, result))) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_that_begin_no_packet_end_the_connection() {
    let good = packet(MESSAGE, 0, &[0; 12]);
    let with = |at: usize, field: u32| {
        let mut packet = good.clone();
        packet[at..at + 4].copy_from_slice(&field.to_ne_bytes());
        let mut exchange = Exchange::default();
        exchange.receive(&packet);
        exchange.next_event(Instant::now())
    };
    assert!(matches!(with(8, 1), Ok(Some(Event::Message(_)))));
    let too_long = u32::try_from(PACKET_BYTES_MAX + 1).expect("it has a number");
    for length in [0, 31, too_long, u32::MAX] {
        assert_eq!(with(0, length), Err(Malformed::Length(length)));
    }
    assert_eq!(with(4, 7), Err(Malformed::Magic(7)));
    assert_eq!(with(8, 2), Err(Malformed::Version(2)));
    // The message claims more bytes than the packet has.
    assert_eq!(with(40, 1), Err(Malformed::Short));
    assert_eq!(with(40, u32::MAX), Err(Malformed::Short));
}

#[test]
fn a_packet_is_not_read_before_it_is_whole() {
    let whole = message(b"whole");
    let mut exchange = Exchange::default();
    for byte in &whole[..whole.len() - 1] {
        exchange.receive(&[*byte]);
        assert_eq!(exchange.next_event(Instant::now()), Ok(None));
    }
    exchange.receive(&whole[whole.len() - 1..]);
    let event = exchange.next_event(Instant::now());
    assert!(matches!(event, Ok(Some(Event::Message(it))) if it.data == b"whole"));
}

#[test]
fn counts_of_lists_are_not_believed() {
    for control in [Control::Nodes, Control::Databases, Control::PublicAddresses] {
        for claim in [5_000, u32::MAX] {
            let result = answer(&control, 0, &numbers(&[claim]), &[]);
            assert_eq!(result, Err(Malformed::Count(claim).into()), "{control:?}");
        }
        let result = answer(&control, 0, &numbers(&[2, 0]), &[]);
        assert_eq!(result, Err(Malformed::Short.into()), "{control:?}");
        assert_eq!(answer(&control, 0, &[], &[]), Err(Malformed::Short.into()), "{control:?}");
    }
    let map = answer(&Control::VnnMap, 0, &numbers(&[7, 257]), &[]);
    assert_eq!(map, Err(Malformed::Count(257).into()));
}

#[test]
fn states_and_texts_without_a_meaning_are_malformed() {
    let state = answer(&Control::RunState, 0, &numbers(&[7]), &[]);
    assert_eq!(state, Err(Malformed::State(7).into()));
    let recovery = answer(&Control::RecoveryMode, 2, &[], &[]);
    assert_eq!(recovery, Err(Malformed::State(2).into()));
    let long = [&[b'x'; 4097][..], &[0]].concat();
    for text in [&b"no end"[..], b"", b"\xFF\xFE\0", &long] {
        let path = answer(&Control::DatabasePath(1), 0, text, &[]);
        assert_eq!(path, Err(Malformed::Text.into()));
    }
}

#[test]
fn a_refusal_has_the_text_of_its_reason() {
    let result = answer(&Control::Nodes, -1, &[], b"it recovers\n\0");
    let Err(Failure::Refused(refusal)) = result else { panic!("{result:?}") };
    assert_eq!((refusal.status, refusal.text.as_str()), (-1, "it recovers"));
    let absent = answer(&Control::CheckService { process: 1, service: 2 }, -1, &[], &[]);
    assert_eq!(absent, Ok(Answer::IsRegistered(false)));
    let positive = answer(&Control::Register(1), 5, &[], &[]);
    assert!(matches!(positive, Err(Failure::Refused(it)) if it.status == 5));
}

#[test]
fn a_reply_of_another_kind_fails_its_request_alone() {
    let mut exchange = Exchange::default();
    let now = Instant::now();
    let control = exchange.ask(Destination::Own, &Control::Nodes, now).expect("it is short");
    let call = Call { database: 1, function: Function::Migrate, key: b"k" };
    let call = exchange.call(call, now).expect("it is short");
    exchange.receive(&packet(REPLY_CALL, FIRST, &[0; 8]));
    exchange.receive(&packet(REPLY_CONTROL, FIRST + 1, &[0; 12]));
    let unexpected = || Failure::from(Malformed::Unexpected);
    let first = exchange.next_event(now);
    assert_eq!(first, Ok(Some(Event::Answered(control, Err(unexpected())))));
    let second = exchange.next_event(now);
    assert_eq!(second, Ok(Some(Event::Called(call, Err(unexpected())))));
}

#[test]
fn a_packet_of_an_error_fails_its_request() {
    let mut exchange = Exchange::default();
    let now = Instant::now();
    let call = Call { database: 1, function: Function::Fetch, key: b"k" };
    exchange.call(call, now).expect("it is short");
    let mut body = numbers(&[3, 4]);
    body.extend(b"gone");
    exchange.receive(&packet(REPLY_ERROR, FIRST, &body));
    let event = exchange.next_event(now);
    let Ok(Some(Event::Called(_, Err(Failure::Refused(refusal))))) = event else {
        panic!("{event:?}")
    };
    assert_eq!((refusal.status, refusal.text.as_str()), (3, "gone"));
}

#[test]
fn replies_that_nobody_waits_for_and_unknown_packets_are_left_out() {
    let mut exchange = Exchange::default();
    exchange.receive(&packet(REPLY_CONTROL, 99, &control_reply(0, &[], &[])));
    exchange.receive(&packet(4_000, 0, b"of a newer ctdbd"));
    exchange.receive(&message(b"last"));
    let event = exchange.next_event(Instant::now());
    assert!(matches!(event, Ok(Some(Event::Message(it))) if it.data == b"last"));
}

#[test]
fn a_request_expires_at_its_deadline_and_its_late_reply_is_left_out() {
    let mut exchange = Exchange::default();
    let now = Instant::now();
    let later = now + Duration::from_secs(30);
    let slow = exchange.ask(Destination::Own, &Control::OwnNumber, later).expect("it is short");
    let soon = now + Duration::from_secs(1);
    let quick = exchange.ask(Destination::Own, &Control::OwnNumber, soon).expect("it is short");
    assert_eq!(exchange.next_deadline(), Some(soon));
    assert_eq!(exchange.expire(now), None);
    assert_eq!(exchange.expire(soon), Some(Event::Answered(quick, Err(Failure::Expired))));
    assert_eq!(exchange.expire(soon), None);
    let reply = |request| packet(REPLY_CONTROL, request, &control_reply(2, &[], &[]));
    exchange.receive(&reply(FIRST + 1));
    exchange.receive(&reply(FIRST));
    let answered = Event::Answered(slow, Ok(Answer::OwnNumber(2)));
    assert_eq!(exchange.next_event(later), Ok(Some(answered)), "it came before it was looked for");
    assert_eq!(exchange.next_deadline(), None);
}

#[test]
fn an_endless_row_of_messages_does_not_keep_a_request_pending() {
    let mut exchange = Exchange::default();
    let now = Instant::now();
    exchange.ask(Destination::Own, &Control::OwnNumber, now).expect("it is short");
    for _ in 0..1_000 {
        exchange.receive(&message(b"again"));
        match exchange.next_event(now) {
            Ok(Some(Event::Message(_))) => {}
            Ok(Some(Event::Answered(_, Err(Failure::Expired)))) => return,
            other => panic!("{other:?}"),
        }
    }
    panic!("the request is pending still");
}

#[test]
fn requests_beyond_the_limit_are_refused_until_one_ends() {
    let mut exchange = Exchange::default();
    let now = Instant::now();
    let ask = |exchange: &mut Exchange| {
        let sent = exchange.ask(Destination::Own, &Control::OwnNumber, now);
        exchange.written(exchange.output().len());
        sent
    };
    for _ in 0..REQUESTS_MAX {
        ask(&mut exchange).expect("it is below the limit");
    }
    assert_eq!(ask(&mut exchange), Err(Unsent::Full));
    assert!(exchange.expire(now).is_some());
    ask(&mut exchange).expect("one has ended");
}

#[test]
fn output_that_ctdbd_does_not_read_is_limited() {
    let mut exchange = Exchange::default();
    let piece = vec![0; 1 << 20];
    let mut send = |data: &[u8]| exchange.send_message(Destination::Own, 1, data);
    let sent = std::iter::repeat_with(|| send(&piece)).take(64).take_while(Result::is_ok).count();
    assert_eq!(sent, 16, "a record of the highest length fits, and no second one");
    assert_eq!(send(&piece), Err(Unsent::Full));
    assert_eq!(send(&vec![0; PACKET_BYTES_MAX]), Err(Unsent::TooLong));
    send(b"a short one fits still").expect("there is room");
    assert!(exchange.output().len() <= OUTPUT_BYTES_MAX);
    let call = Call { database: 1, function: Function::Fetch, key: &vec![0; PACKET_BYTES_MAX] };
    assert_eq!(exchange.call(call, Instant::now()), Err(Unsent::TooLong));
    assert_eq!(exchange.next_deadline(), None, "nothing is pending of what was refused");
}
