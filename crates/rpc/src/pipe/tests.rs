use super::{FRAGMENT_MAX, FRAGMENTS_MAX, Pipe, PipeError, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX};
use crate::ndr::{Reader, Writer};
use crate::{
    Caller, Catalogue, NameQuestion, Outcome, PipeName, Principal, PrincipalKind, ServerEntry,
    ShareEntry, Task, TaskFailure,
};
use dtyp::{FileTime, NtStatus, Sid};
use proptest::prelude::*;
use std::sync::Arc;

struct Shares(Vec<ShareEntry>);

impl Catalogue for Shares {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        self.0.clone().into()
    }

    fn server(&self) -> ServerEntry {
        ServerEntry {
            name: "CHORO".to_owned(),
            domain: "WORKGROUP".to_owned(),
            comment: "files".to_owned(),
            version_major: 6,
            version_minor: 1,
            server_type: 0x0000_9003,
            ..ServerEntry::default()
        }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn find_user(&self, name: &str) -> Option<Principal> {
        (name == "jo").then(jo)
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        (name == "staff").then(staff)
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        [jo(), staff()].into_iter().find(|it| it.sid == *sid)
    }

    fn now(&self) -> FileTime {
        FileTime::from_unix(1_795_205_596, 0)
    }
}

fn jo() -> Principal {
    let domain = "Unix User".to_owned();
    let (kind, name) = (PrincipalKind::User, "jo".to_owned());
    Principal { kind, domain, name, sid: Sid::unix_user(1_000) }
}

fn staff() -> Principal {
    let domain = "Unix Group".to_owned();
    let (kind, name) = (PrincipalKind::Group, "staff".to_owned());
    Principal { kind, domain, name, sid: Sid::unix_group(50) }
}

fn share(name: &str) -> ShareEntry {
    ShareEntry {
        name: name.to_owned(),
        comment: "c".to_owned(),
        path: "/srv/data".to_owned(),
        max_users: u32::MAX,
        current_users: 2,
        ..ShareEntry::default()
    }
}

fn ipc() -> ShareEntry {
    ShareEntry { kind: ShareEntry::IPC, hidden: true, ..share("IPC$") }
}

fn pipe(name: PipeName, shares: &[ShareEntry]) -> Pipe {
    let (user, domain) = ("jo".to_owned(), "WORKGROUP".to_owned());
    let caller = Caller { user, domain, ..Caller::default() };
    Pipe::new(name, Arc::new(Shares(shares.to_vec())), caller)
}

fn fragment(packet_type: u8, flags: u8, call_id: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(16 + body.len()).expect("a test's fragment").to_le_bytes();
    let mut bytes = vec![5, 0, packet_type, flags, 0x10, 0, 0, 0, len[0], len[1], 0, 0];
    bytes.extend([call_id, 0, 0, 0]);
    bytes.extend_from_slice(body);
    bytes
}

const LSARPC: [u8; 20] = [
    0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xCD, 0xAB, 0xEF, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB,
    0, 0, 0, 0,
];
const SAMR: [u8; 20] = [
    0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xCD, 0xAB, 0xEF, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAC,
    1, 0, 0, 0,
];
const SRVSVC: [u8; 20] = [
    0xC8, 0x4F, 0x32, 0x4B, 0x70, 0x16, 0xD3, 0x01, 0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E, 0xE1, 0x88,
    3, 0, 0, 0,
];
const WKSSVC: [u8; 20] = [
    0x98, 0xD0, 0xFF, 0x6B, 0x12, 0xA1, 0x10, 0x36, 0x98, 0x33, 0x46, 0xC3, 0xF8, 0x7E, 0x34, 0x5A,
    1, 0, 0, 0,
];
const NDR: [u8; 20] = [
    0x04, 0x5D, 0x88, 0x8A, 0xEB, 0x1C, 0xC9, 0x11, 0x9F, 0xE8, 0x08, 0x00, 0x2B, 0x10, 0x48, 0x60,
    2, 0, 0, 0,
];
const NDR64: [u8; 20] = [
    0x33, 0x05, 0x71, 0x71, 0xBA, 0xBE, 0x37, 0x49, 0x83, 0x19, 0xB5, 0xDB, 0xEF, 0x9C, 0xCC, 0x36,
    1, 0, 0, 0,
];
/// Bind time feature negotiation with both features.
const FEATURES: [u8; 20] =
    [0x2C, 0x1C, 0xB7, 0x6C, 0x12, 0x98, 0x40, 0x45, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

const WHOLE: u8 = 3;

fn bind_body(max_frag: u16, contexts: &[(u8, [u8; 20], [u8; 20])]) -> Vec<u8> {
    let mut body = [max_frag.to_le_bytes(), max_frag.to_le_bytes()].concat();
    let count = u8::try_from(contexts.len()).expect("a test's contexts");
    body.extend([0, 0, 0, 0, count, 0, 0, 0]);
    for (id, interface, transfer) in contexts {
        body.extend([*id, 0, 1, 0]);
        body.extend(interface);
        body.extend(transfer);
    }
    body
}

fn bind(max_frag: u16, contexts: &[(u8, [u8; 20], [u8; 20])]) -> Vec<u8> {
    fragment(11, WHOLE, 1, &bind_body(max_frag, contexts))
}

fn request_body(context_id: u8, opnum: u8, stub: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, context_id, 0, opnum, 0];
    body.extend_from_slice(stub);
    body
}

fn request(context_id: u8, opnum: u8, stub: &[u8]) -> Vec<u8> {
    fragment(0, WHOLE, 2, &request_body(context_id, opnum, stub))
}

fn values(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// NetrShareEnum without a server name: level, an empty container, length, resume handle.
fn share_enum(level: u32, length: u32, resume: u32) -> Vec<u8> {
    values(&[0, level, level, 0x0002_0000, 0, 0, length, 0x0002_0004, resume])
}

/// NetrShareGetInfo for a name of three letters.
fn share_get_info(name: [u8; 3], level: u32) -> Vec<u8> {
    let mut stub = values(&[0, 4, 0, 4]);
    for letter in name {
        stub.extend([letter, 0]);
    }
    stub.extend([0, 0]);
    stub.extend(level.to_le_bytes());
    stub
}

fn bound(name: PipeName, shares: &[ShareEntry]) -> Pipe {
    let interface = match name {
        PipeName::Lsarpc => LSARPC,
        PipeName::Samr => SAMR,
        PipeName::Srvsvc => SRVSVC,
        PipeName::Wkssvc => WKSSVC,
    };
    let mut pipe = pipe(name, shares);
    pipe.write(&bind(FRAGMENT_MAX, &[(0, interface, NDR)])).expect("a good bind");
    assert_eq!(pipe.read(4096)[2], 12);
    pipe
}

/// The stub of the response to one call, over all its fragments.
#[track_caller]
fn call(pipe: &mut Pipe, opnum: u8, stub: &[u8]) -> Vec<u8> {
    pipe.write(&request(0, opnum, stub)).expect("a good request");
    response(pipe).0
}

/// The stub of a response, and its fragments.
#[track_caller]
fn response(pipe: &mut Pipe) -> (Vec<u8>, usize) {
    let (mut stub, mut count) = (Vec::new(), 0);
    loop {
        let fragment = pipe.read(usize::MAX);
        assert_eq!(fragment[2], 2, "a response");
        assert_eq!(usize::from(u16::from_le_bytes([fragment[8], fragment[9]])), fragment.len());
        assert_eq!(fragment[3] & 1 == 1, count == 0, "the first is marked as such");
        stub.extend_from_slice(&fragment[24..]);
        count += 1;
        if fragment[3] & 2 == 2 {
            return (stub, count);
        }
    }
}

#[track_caller]
fn fault(pipe: &mut Pipe) -> u32 {
    let fragment = pipe.read(usize::MAX);
    assert_eq!((fragment[2], fragment.len()), (3, 32), "a fault");
    u32::from_le_bytes([fragment[24], fragment[25], fragment[26], fragment[27]])
}

/// The bytes that Samba's client library accepts as a positive response.
#[test]
fn bind_is_acknowledged_with_sizes_group_address_and_result() {
    let mut pipe = pipe(PipeName::Srvsvc, &[]);
    pipe.write(&bind(5840, &[(0, SRVSVC, NDR)])).expect("a good bind");
    let mut want = vec![5, 0, 12, 3, 0x10, 0, 0, 0, 68, 0, 0, 0, 1, 0, 0, 0];
    want.extend([0xB8, 0x10, 0xB8, 0x10, 0xF0, 0x53, 0, 0]);
    want.extend([13, 0]);
    want.extend(b"\\PIPE\\srvsvc\0");
    want.extend([0]);
    want.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    want.extend(NDR);
    assert_eq!(pipe.read(4096), want);
    assert_eq!(pipe.pending_len(), 0);
}

/// The proposal of Windows: the interface with NDR, with NDR64, and the features.
#[test]
fn contexts_are_negotiated_one_by_one() {
    let mut pipe = pipe(PipeName::Srvsvc, &[]);
    let mut newer = SRVSVC;
    newer[16] = 4;
    let proposed = [
        (0, SRVSVC, NDR),
        (1, SRVSVC, NDR64),
        (2, SRVSVC, FEATURES),
        (3, WKSSVC, NDR),
        (4, newer, NDR),
    ];
    pipe.write(&bind(4280, &proposed)).expect("a good bind");
    let ack = pipe.read(4096);
    let results: Vec<_> =
        ack[44..].chunks(24).map(|result| (result[0], result[2], &result[4..])).collect();
    let none = &[0; 20][..];
    assert_eq!(results, [(0, 0, &NDR[..]), (2, 2, none), (3, 2, none), (2, 1, none), (2, 1, none)]);
    for (context, status) in [(1, 0x1C01_0003), (3, 0x1C01_0003), (9, 0x1C01_0003)] {
        pipe.write(&request(context, 15, &share_enum(1, u32::MAX, 0))).expect("a request");
        assert_eq!(fault(&mut pipe), status);
    }
}

#[test]
fn a_context_can_be_added_later() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    let alter = fragment(14, WHOLE, 7, &bind_body(4280, &[(5, SRVSVC, NDR)]));
    pipe.write(&alter).expect("a good alter_context");
    let answer = pipe.read(4096);
    assert_eq!((answer[2], answer[12], answer.len()), (15, 7, 56));
    assert_eq!(answer[24..32], [0, 0, 0, 0, 1, 0, 0, 0]);
    pipe.write(&request(5, 15, &share_enum(1, u32::MAX, 0))).expect("a good request");
    assert_eq!(pipe.read(4096)[2], 2);
}

#[test]
fn contexts_of_a_pipe_are_bounded() {
    let mut pipe = pipe(PipeName::Srvsvc, &[]);
    let proposed: Vec<_> = (0..17).map(|id| (id, SRVSVC, NDR)).collect();
    pipe.write(&bind(4280, &proposed)).expect("a good bind");
    let ack = pipe.read(4096);
    assert_eq!(ack[ack.len() - 48..][..4], [0, 0, 0, 0]);
    assert_eq!(ack[ack.len() - 24..][..4], [2, 0, 3, 0]);
}

#[test]
fn share_enum_has_the_bytes_of_the_document() {
    let mut pipe = bound(PipeName::Srvsvc, &[share("d"), ipc()]);
    let stub = call(&mut pipe, 15, &share_enum(1, u32::MAX, 0));
    let mut want = values(&[1, 1, 0x0002_0000, 2, 0x0002_0004, 2]);
    want.extend(values(&[0x0002_0008, 0, 0x0002_000C, 0x0002_0010, 0x8000_0003, 0x0002_0014]));
    want.extend([2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'd', 0, 0, 0]);
    want.extend([2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'c', 0, 0, 0]);
    want.extend([5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    want.extend([b'I', 0, b'P', 0, b'C', 0, b'$', 0, 0, 0, 0, 0]);
    want.extend([2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'c', 0, 0, 0]);
    want.extend(values(&[2, 0x0002_0018, 0, 0]));
    assert_eq!(stub, want);
}

/// The members of each level, by the offset of the array's first string.
#[test]
fn share_enum_knows_every_level_of_the_document() {
    for (level, members) in [(0, 1), (1, 3), (2, 8), (501, 4), (502, 10), (503, 11)] {
        for opnum in [15, 36] {
            if (opnum, level) == (36, 501) {
                continue;
            }
            let mut pipe = managed(&[share("d")]);
            let stub = call(&mut pipe, opnum, &share_enum(level, u32::MAX, 0));
            let mut reader = Reader::new(&stub[24 + 4 * members..]);
            assert_eq!(reader.string().as_deref(), Ok("d"), "level {level}");
            assert_eq!(stub[stub.len() - 4..], [0; 4]);
        }
    }
    let mut pipe = bound(PipeName::Srvsvc, &[share("d")]);
    let stub = call(&mut pipe, 15, &share_enum(1005, u32::MAX, 0));
    assert_eq!(stub, values(&[1005, 1005, 0, 0x0002_0000, 0, 124]));
}

#[test]
fn level_2_shows_the_path_as_a_drive() {
    let mut pipe = managed(&[share("dat")]);
    let stub = call(&mut pipe, 16, &share_get_info(*b"DAT", 2));
    let mut reader = Reader::new(&stub);
    let head: Vec<u32> = (0..10).map(|_| reader.u32().expect("a member")).collect();
    let (any, path) = (u32::MAX, 0x0002_000C);
    assert_eq!(head, [2, 0x0002_0000, 0x0002_0004, 0, 0x0002_0008, 0, any, 2, path, 0]);
    assert_eq!(reader.string().as_deref(), Ok("dat"));
    assert_eq!(reader.string().as_deref(), Ok("c"));
    assert_eq!(reader.string().as_deref(), Ok("C:\\srv\\data"));
    assert_eq!(reader.u32(), Ok(0));
}

#[test]
fn a_share_that_is_not_there_is_not_found() {
    let mut pipe = bound(PipeName::Srvsvc, &[share("dat")]);
    assert_eq!(call(&mut pipe, 16, &share_get_info(*b"nix", 1)), values(&[1, 0, 2310]));
    assert_eq!(call(&mut pipe, 16, &share_get_info(*b"dat", 77)), values(&[77, 124]));
}

/// A catalogue that admits nobody, and fails the test that has it look anything up.
struct Closed;

impl Catalogue for Closed {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        panic!("shares were listed for somebody who is not admitted")
    }

    fn share(&self, _: &Caller, name: &str) -> Option<ShareEntry> {
        panic!("{name} was looked up for somebody who is not admitted")
    }

    fn admits(&self, _: &Caller) -> bool {
        false
    }

    fn server(&self) -> ServerEntry {
        Shares(Vec::new()).server()
    }

    fn domain_sid(&self) -> Sid {
        Shares(Vec::new()).domain_sid()
    }

    fn find_user(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_group(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_sid(&self, _: &Sid) -> Option<Principal> {
        None
    }

    fn now(&self) -> FileTime {
        Shares(Vec::new()).now()
    }
}

#[test]
fn no_share_is_looked_up_for_a_refused_requester() {
    let mut pipe = Pipe::new(PipeName::Srvsvc, Arc::new(Closed), Caller::default());
    pipe.write(&bind(FRAGMENT_MAX, &[(0, SRVSVC, NDR)])).expect("a good bind");
    assert_eq!(pipe.read(4096)[2], 12);
    assert_eq!(call(&mut pipe, 16, &share_get_info(*b"dat", 1)), values(&[1, 0, 5]));
    let stub = call(&mut pipe, 15, &share_enum(1, u32::MAX, 0));
    assert_eq!(stub[stub.len() - 4..], values(&[5]));
}

/// An enumeration in steps returns every share once and then ends.
#[test]
fn share_enum_resumes_where_it_stopped() {
    let shares: Vec<_> = (0..10).map(|number| share(&format!("share{number}"))).collect();
    let mut pipe = bound(PipeName::Srvsvc, &shares);
    let (mut listed, mut resume, mut steps) = (0, 0, 0);
    loop {
        let stub = call(&mut pipe, 15, &share_enum(0, 80, resume));
        let count = u32::from_le_bytes([stub[12], stub[13], stub[14], stub[15]]);
        let tail = stub.len() - 16;
        let mut reader = Reader::new(&stub[tail..]);
        assert_eq!(reader.u32(), Ok(10 - listed), "the total is what was left");
        listed += count;
        resume = reader.unique_u32().expect("a resume handle").expect("not null");
        steps += 1;
        match reader.u32() {
            Ok(0) => break,
            result => assert_eq!((result, resume), (Ok(234), listed)),
        }
    }
    assert_eq!((listed, resume, steps), (10, 0, 5));
    let stub = call(&mut pipe, 15, &share_enum(0, 1, 9));
    assert_eq!(stub[12], 1, "one at least, or a client would ask forever");
    let stub = call(&mut pipe, 15, &share_enum(0, u32::MAX, 99));
    assert_eq!(stub, values(&[0, 0, 0x0002_0000, 0, 0, 0, 0x0002_0004, 0, 0]));
}

#[test]
fn the_server_reports_its_name_and_version() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    let stub = call(&mut pipe, 21, &values(&[0, 101]));
    let mut reader = Reader::new(&stub);
    let head: Vec<u32> = (0..8).map(|_| reader.u32().expect("a member")).collect();
    assert_eq!(head, [101, 0x0002_0000, 500, 0x0002_0004, 6, 1, 0x9003, 0x0002_0008]);
    assert_eq!(reader.string().as_deref(), Ok("CHORO"));
    assert_eq!(reader.string().as_deref(), Ok("files"));
    assert_eq!(reader.u32(), Ok(0));
    assert_eq!(call(&mut pipe, 21, &values(&[0, 99])), values(&[99, 124]));
    let stub = call(&mut pipe, 28, &values(&[0]));
    assert_eq!(stub.len(), 4 * 14);
    assert_eq!(stub[4..8], 1_795_205_596_u32.to_le_bytes());
}

#[test]
fn the_workstation_reports_its_domain() {
    let mut pipe = bound(PipeName::Wkssvc, &[]);
    let stub = call(&mut pipe, 0, &values(&[0, 100]));
    let mut reader = Reader::new(&stub);
    let head: Vec<u32> = (0..7).map(|_| reader.u32().expect("a member")).collect();
    assert_eq!(head, [100, 0x0002_0000, 500, 0x0002_0004, 0x0002_0008, 6, 1]);
    assert_eq!(reader.string().as_deref(), Ok("CHORO"));
    assert_eq!(reader.string().as_deref(), Ok("WORKGROUP"));
    let stub = call(&mut pipe, 2, &values(&[0, 1, 1, 0x0002_0000, 0, 0, u32::MAX, 0]));
    assert_eq!(stub, values(&[1, 1, 0x0002_0000, 0, 0, 0, 0, 0]));
}

#[test]
fn enumerations_of_others_are_denied() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    let tail = [10, 10, 0x0002_0000, 0, 0, u32::MAX, 0];
    for (opnum, names) in [(8, 2), (9, 3), (12, 3)] {
        let stub = [values(&vec![0; names]), values(&tail)].concat();
        let denied = values(&[10, 10, 0x0002_0000, 0, 0, 0, 0, 5]);
        assert_eq!(call(&mut pipe, opnum, &stub), denied, "{opnum}");
    }
}

#[test]
fn calls_that_cannot_be_made_are_faults() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    pipe.write(&request(0, 200, &[])).expect("a request");
    assert_eq!(fault(&mut pipe), 0x1C01_0002);
    pipe.write(&request(0, 15, &[1, 0, 0])).expect("a request");
    assert_eq!(fault(&mut pipe), 0x0000_06F7);
    pipe.write(&fragment(12, WHOLE, 3, &[])).expect("a PDU, though not a client's");
    assert_eq!(fault(&mut pipe), 0x1C01_000B);
    assert_eq!(call(&mut pipe, 21, &values(&[0, 100])).len(), 44, "and the pipe goes on");
}

#[test]
fn a_request_before_the_bind_or_a_second_bind_is_a_fault() {
    let mut pipe = pipe(PipeName::Srvsvc, &[]);
    pipe.write(&request(0, 21, &values(&[0, 100]))).expect("a request");
    assert_eq!(fault(&mut pipe), 0x1C01_000B);
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    pipe.write(&bind(4280, &[(0, SRVSVC, NDR)])).expect("a bind");
    assert_eq!(fault(&mut pipe), 0x1C01_000B);
}

#[test]
fn a_bind_that_wants_authentication_is_refused_and_level_none_is_not() {
    for (level, answer) in [(6, 13), (2, 13), (1, 12)] {
        let mut pipe = pipe(PipeName::Srvsvc, &[]);
        let mut bytes = bind(4280, &[(0, SRVSVC, NDR)]);
        bytes.extend([10, level, 0, 0, 0, 0, 0, 0, b'N', b'T', b'L', b'M']);
        let len = u8::try_from(bytes.len()).expect("small");
        (bytes[8], bytes[10]) = (len, 4);
        pipe.write(&bytes).expect("a PDU");
        let reply = pipe.read(4096);
        assert_eq!(reply[2], answer, "level {level}");
        if answer == 13 {
            assert_eq!(reply[16..], [8, 0, 1, 5, 0, 0, 0, 0]);
        }
    }
}

/// A client may split its bytes anywhere, and may write several PDUs at once: a bind and a request,
/// and the fragments of one.
#[test]
fn bytes_may_be_cut_anywhere() {
    let requests = [
        bind(4280, &[(0, SRVSVC, NDR)]),
        fragment(0, 1, 2, &request_body(0, 15, &share_enum(1, u32::MAX, 0)[..8])),
        fragment(0, 2, 2, &request_body(0, 15, &share_enum(1, u32::MAX, 0)[8..])),
    ]
    .concat();
    let answer = |pieces: &[&[u8]]| {
        let mut pipe = pipe(PipeName::Srvsvc, &[share("d")]);
        for piece in pieces {
            pipe.write(piece).expect("good bytes");
        }
        let mut bytes = Vec::new();
        while pipe.pending_len() > 0 {
            bytes.extend(pipe.read(usize::MAX));
        }
        bytes
    };
    let whole = answer(&[&requests]);
    assert!(whole.len() > 150);
    for cut in 0..=requests.len() {
        assert_eq!(answer(&[&requests[..cut], &requests[cut..]]), whole, "{cut}");
    }
    assert_eq!(answer(&requests.chunks(1).collect::<Vec<_>>()), whole);
}

#[test]
fn a_request_in_fragments_is_answered_at_the_last() {
    let mut pipe = bound(PipeName::Srvsvc, &[share("d")]);
    let stub = share_enum(1, u32::MAX, 0);
    for (flags, part) in [(1, &stub[..8]), (0, &stub[8..20]), (2, &stub[20..])] {
        assert_eq!(pipe.pending_len(), 0);
        pipe.write(&fragment(0, flags, 2, &request_body(0, 15, part))).expect("a fragment");
    }
    assert_eq!(response(&mut pipe).0, call(&mut pipe, 15, &stub));
}

#[test]
fn fragments_of_another_call_or_without_a_first_are_faults() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    let body = request_body(0, 21, &values(&[0]));
    pipe.write(&fragment(0, 2, 2, &body)).expect("a fragment");
    assert_eq!(fault(&mut pipe), 0x1C01_000B);
    pipe.write(&fragment(0, 1, 2, &body)).expect("a fragment");
    pipe.write(&fragment(0, 2, 3, &body)).expect("a fragment");
    assert_eq!(fault(&mut pipe), 0x1C01_000B);
    pipe.write(&fragment(0, 1, 2, &body)).expect("a fragment");
    pipe.write(&fragment(0, 1, 2, &body)).expect("a fragment");
    assert_eq!(fault(&mut pipe), 0x1C01_000B);
}

#[test]
fn an_orphaned_request_is_forgotten_and_a_cancel_is_ignored() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    let body = request_body(0, 21, &values(&[0]));
    pipe.write(&fragment(0, 1, 2, &body)).expect("a fragment");
    pipe.write(&fragment(18, WHOLE, 2, &[])).expect("a cancel");
    pipe.write(&fragment(19, WHOLE, 2, &[])).expect("an orphaned");
    assert_eq!(pipe.pending_len(), 0);
    assert_eq!(call(&mut pipe, 21, &values(&[0, 100])).len(), 44);
}

#[test]
fn a_long_response_is_cut_into_fragments_that_the_client_can_take() {
    let shares: Vec<_> = (0..200).map(|number| share(&format!("share{number}"))).collect();
    for (max_frag, longest) in [(1432_u16, 1432), (4280, 4280), (65_535, 4280), (100, 1432)] {
        let mut pipe = pipe(PipeName::Srvsvc, &shares);
        pipe.write(&bind(max_frag, &[(0, SRVSVC, NDR)])).expect("a good bind");
        assert_eq!(pipe.read(4096)[2], 12);
        pipe.write(&request(0, 15, &share_enum(1, u32::MAX, 0))).expect("a request");
        let (first, count) = pipe.next_message_len();
        assert!(first <= longest && first > longest - 8, "{first} of {longest}");
        let pending = pipe.pending_len();
        let (stub, fragments) = response(&mut pipe);
        assert_eq!((fragments, stub.len() + 24 * count), (count, pending));
        assert_eq!(stub[stub.len() - 4..], [0; 4]);
    }
}

/// A read does not reach into the next message, and reports the rest of its own.
#[test]
fn a_read_ends_with_its_fragment() {
    let shares: Vec<_> = (0..200).map(|number| share(&format!("share{number}"))).collect();
    let mut pipe = bound(PipeName::Srvsvc, &shares);
    pipe.write(&request(0, 15, &share_enum(1, u32::MAX, 0))).expect("a request");
    let (len, _) = pipe.next_message_len();
    assert_eq!(pipe.message_left(), 0);
    assert_eq!(pipe.read(1024).len(), 1024);
    assert_eq!(pipe.message_left(), len - 1024);
    assert_eq!(pipe.read(usize::MAX).len(), len - 1024);
    assert_eq!(pipe.message_left(), 0);
    assert!(pipe.pending_len() > 0, "the next fragment waits");
    assert_eq!(pipe.read(0).len(), 0);
}

#[test]
fn bytes_that_are_no_pdu_break_the_pipe() {
    let with = |at: usize, value: u8| {
        let mut bytes = bind(4280, &[(0, SRVSVC, NDR)]);
        bytes[at] = value;
        bytes
    };
    for (bytes, error) in [
        (with(0, 4), PipeError::Version { version: 4 }),
        (with(4, 0), PipeError::BigEndian),
        (with(9, 0xFF), PipeError::FragmentLength { frag_length: 0xFF48 }),
        (with(8, 15), PipeError::FragmentLength { frag_length: 15 }),
        (fragment(0, 3, 1, &[0; 7]), PipeError::FragmentLength { frag_length: 23 }),
    ] {
        let mut pipe = pipe(PipeName::Srvsvc, &[]);
        assert_eq!(pipe.write(&bytes), Err(error));
        assert_eq!(error.status(), NtStatus::PIPE_DISCONNECTED);
        assert_eq!(pipe.write(&[]), Err(PipeError::Broken));
    }
}

#[test]
fn a_request_is_bounded_in_all_its_fragments() {
    let mut pipe = bound(PipeName::Srvsvc, &[]);
    let part = [0; 4096];
    for number in 0..REQUEST_BYTES_MAX / part.len() {
        let flags = u8::from(number == 0);
        pipe.write(&fragment(0, flags, 2, &request_body(0, 15, &part))).expect("within the limit");
    }
    let more = fragment(0, 2, 2, &request_body(0, 15, &[0]));
    assert_eq!(pipe.write(&more), Err(PipeError::RequestTooLong));
}

#[test]
fn a_client_that_never_reads_gets_no_further() {
    let shares: Vec<_> = (0..200).map(|number| share(&format!("share{number}"))).collect();
    let mut pipe = managed(&shares);
    let ask = request(0, 15, &share_enum(2, u32::MAX, 0));
    let mut writes = 0;
    while pipe.write(&ask).is_ok() {
        writes += 1;
        assert!(writes < 100);
    }
    assert!(writes > 1 && pipe.pending_len() > RESPONSE_BYTES_MAX);
    assert_eq!(pipe.write(&ask), Err(PipeError::ResponsesUnread));
    assert_eq!(PipeError::ResponsesUnread.status(), NtStatus::PIPE_BUSY);
    while pipe.pending_len() > 0 {
        assert!(!pipe.read(usize::MAX).is_empty());
    }
    assert_eq!(pipe.write(&ask), Ok(()));
}

/// Thousands of short requests in one write would keep a worker from everything else.
#[test]
fn a_second_request_in_a_write_breaks_the_pipe_unanswered() {
    let ask = request(0, 15, &share_enum(1, u32::MAX, 0));
    let answer_len = {
        let mut pipe = bound(PipeName::Srvsvc, &[share("d")]);
        pipe.write(&ask).expect("one request");
        pipe.pending_len()
    };
    for rest in [&ask.repeat(8_000), &ask, &ask[..1]] {
        let mut pipe = bound(PipeName::Srvsvc, &[share("d")]);
        assert_eq!(pipe.write(&[&ask[..], rest].concat()), Err(PipeError::TooManyRequests));
        assert_eq!(pipe.pending_len(), answer_len);
        assert_eq!(pipe.write(&ask), Err(PipeError::Broken));
    }
    assert_eq!(PipeError::TooManyRequests.status(), NtStatus::PIPE_DISCONNECTED);
}

/// They cause faults, or nothing at all, and so no end of a write.
#[test]
fn fragments_of_one_write_are_bounded() {
    for packet_type in [1, 16, 18] {
        let fragments = fragment(packet_type, WHOLE, 2, &[]).repeat(FRAGMENTS_MAX);
        let mut pipe = bound(PipeName::Srvsvc, &[]);
        assert_eq!(pipe.write(&fragments), Ok(()));
        let more = [&fragments[..], &[5]].concat();
        assert_eq!(pipe.write(&more), Err(PipeError::TooManyRequests));
    }
}

#[test]
fn pipes_are_found_by_name_in_any_case() {
    assert_eq!(PipeName::from_name("SrvSvc"), Some(PipeName::Srvsvc));
    assert_eq!(PipeName::from_name("wkssvc"), Some(PipeName::Wkssvc));
    assert_eq!(PipeName::from_name("LSARPC"), Some(PipeName::Lsarpc));
    assert_eq!(PipeName::from_name("samr"), Some(PipeName::Samr));
    assert_eq!(PipeName::from_name("spoolss"), None);
    for name in PipeName::ALL {
        assert_eq!(PipeName::from_name(name.as_str()), Some(*name));
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(
        packet_type in 0_u8..20,
        flags in any::<u8>(),
        body in proptest::collection::vec(any::<u8>(), 0..100),
        auth_length in 0_u8..40,
    ) {
        let mut pipe = bound(PipeName::Srvsvc, &[share("d")]);
        let mut bytes = fragment(packet_type, flags, 2, &body);
        bytes[10] = auth_length;
        let _ = pipe.write(&bytes);
        let _ = pipe.write(&body);
        let mut fresh = super::tests::pipe(PipeName::Wkssvc, &[]);
        let _ = fresh.write(&bytes);
        let _ = fresh.write(&body);
        while pipe.pending_len() > 0 {
            prop_assert!(!pipe.read(64).is_empty());
        }
    }

    #[test]
    fn hostile_stubs_are_answered(
        name in proptest::sample::select(PipeName::ALL),
        opnum in 0_u8..70,
        stub in proptest::collection::vec(0_u8..4, 0..100),
    ) {
        let mut pipe = bound(name, &[share("d")]);
        pipe.write(&request(0, opnum, &stub)).expect("a whole PDU");
        prop_assert!(pipe.pending_len() > 0);
    }

    #[test]
    fn hostile_stubs_behind_a_handle_are_answered(
        kind in 0..3_u32,
        opnum in 0_u8..70,
        stub in proptest::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..100),
    ) {
        let (mut pipe, handles) = opened_samr();
        let handle = &handles[usize::try_from(kind).expect("one of three")];
        pipe.write(&request(0, opnum, &[handle, &stub[..]].concat())).expect("a whole PDU");
        prop_assert!(pipe.pending_len() > 0);
    }

    #[test]
    fn hostile_stubs_of_administrators_are_answered(
        opnum in 8_u8..23,
        level in prop_oneof![Just(2_u32), Just(502), Just(503), Just(1501), 0..1_600_u32],
        stub in proptest::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..100),
    ) {
        let mut pipe = managed(&[share("d")]);
        let name = Writer::default();
        let stub = [values(&[0]), name_of_share(name), values(&[level, level]), stub].concat();
        let request = request(0, opnum, &stub);
        if pipe.task(&request).is_some() {
            pipe.learn_outcome(Outcome::Done);
        }
        pipe.write(&request).expect("a whole PDU");
        prop_assert!(pipe.pending_len() > 0);
    }
}

/// A pipe of samr, and handles of a server, its own domain and the domain of well-known groups.
fn opened_samr() -> (Pipe, [Vec<u8>; 3]) {
    let mut pipe = bound(PipeName::Samr, &[]);
    let server = call(&mut pipe, 57, &values(&[0, 0x0200_0000]))[..20].to_vec();
    let mut open = |sid: &Sid| {
        let mut writer = Writer::default();
        writer.bytes(&server);
        writer.u32(0x0200_0000);
        writer.sid(sid);
        call(&mut pipe, 7, &writer.finish_status(NtStatus::SUCCESS))[..20].to_vec()
    };
    let domains = [Sid::new(5, &[21, 1, 2, 3]), Sid::new(5, &[32])].map(|sid| open(&sid));
    let [own, builtin] = domains;
    (pipe, [server, own, builtin])
}

fn name_of_share(mut writer: Writer) -> Vec<u8> {
    writer.string("d");
    let mut stub = writer.finish_status(NtStatus::SUCCESS);
    stub.truncate(16);
    stub
}

/// A server whose callers are all administrators.
struct Managed(Shares);

impl Catalogue for Managed {
    fn shares(&self, caller: &Caller) -> Arc<[ShareEntry]> {
        self.0.shares(caller)
    }

    fn is_administrator(&self, _: &Caller) -> bool {
        true
    }

    fn server(&self) -> ServerEntry {
        self.0.server()
    }

    fn domain_sid(&self) -> Sid {
        self.0.domain_sid()
    }

    fn find_user(&self, name: &str) -> Option<Principal> {
        self.0.find_user(name)
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        self.0.find_group(name)
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        self.0.find_sid(sid)
    }

    fn now(&self) -> FileTime {
        self.0.now()
    }
}

/// A pipe of an administrator.
fn managed(shares: &[ShareEntry]) -> Pipe {
    let catalogue = Arc::new(Managed(Shares(shares.to_vec())));
    let mut pipe = Pipe::new(PipeName::Srvsvc, catalogue, Caller::default());
    pipe.write(&bind(FRAGMENT_MAX, &[(0, SRVSVC, NDR)])).expect("a good bind");
    pipe.read(4096);
    pipe
}

/// Result of the oldest response.
fn result(pipe: &mut Pipe) -> u32 {
    let (stub, _) = response(pipe);
    u32::from_le_bytes(*stub.last_chunk().expect("a result"))
}

#[test]
fn a_task_is_carried_out_by_others_and_its_outcome_counts_for_one_write() {
    let mut pipe = managed(&[share("d")]);
    let close = request(0, 11, &values(&[0, 7]));
    assert_eq!(pipe.task(&close), Some(Task::CloseFile(7)));
    assert_eq!(pipe.pending_len(), 0, "nothing is answered yet");
    pipe.learn_outcome(Outcome::Done);
    for wanted in [0, 50] {
        pipe.write(&close).expect("a good request");
        assert_eq!(result(&mut pipe), wanted);
    }
    let mut other = bound(PipeName::Srvsvc, &[share("d")]);
    assert_eq!(other.task(&close), None, "of a user who is no administrator");
    for len in 0..close.len() {
        assert_eq!(pipe.task(&close[..len]), None, "{len}");
    }
    let mut unbound =
        Pipe::new(PipeName::Srvsvc, Arc::new(Managed(Shares(Vec::new()))), Caller::default());
    assert_eq!(unbound.task(&close), None);
}

#[test]
fn the_last_fragment_of_a_request_asks_for_its_task() {
    let mut pipe = managed(&[share("d")]);
    let stub = values(&[0, 7]);
    pipe.write(&fragment(0, 1, 2, &request_body(0, 11, &stub[..4]))).expect("a good fragment");
    let last = fragment(0, 2, 2, &request_body(0, 11, &stub[4..]));
    assert_eq!(pipe.task(&last), Some(Task::CloseFile(7)));
    let other = fragment(0, 2, 3, &request_body(0, 11, &stub[4..]));
    assert_eq!(pipe.task(&other), None, "of another call");
    pipe.learn_outcome(Outcome::Failed(TaskFailure::NoSuchFile));
    pipe.write(&last).expect("a good fragment");
    assert_eq!(result(&mut pipe), 2_314);
}

/// A member of a domain, without own users.
struct Member;

impl Catalogue for Member {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        [].into()
    }

    fn server(&self) -> ServerEntry {
        let (name, domain) = ("CHORO".to_owned(), "ADLAB".to_owned());
        ServerEntry { name, domain, ..ServerEntry::default() }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn is_member(&self) -> bool {
        true
    }

    /// A local user with the name of one of the domain.
    fn find_user(&self, name: &str) -> Option<Principal> {
        (name == "jo").then(jo)
    }

    fn find_group(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_sid(&self, _: &Sid) -> Option<Principal> {
        None
    }

    fn now(&self) -> FileTime {
        FileTime::ZERO
    }
}

/// A pipe of a member, and the handle of a policy in it.
fn member() -> (Pipe, Vec<u8>) {
    let mut pipe = Pipe::new(PipeName::Lsarpc, Arc::new(Member), Caller::default());
    pipe.write(&bind(FRAGMENT_MAX, &[(0, LSARPC, NDR)])).expect("a good bind");
    pipe.read(4096);
    let mut open = values(&[0, 24, 0, 0, 0, 0, 1, 12]);
    open.extend([2, 0, 1, 0, 0, 0, 0, 2]);
    let handle = call(&mut pipe, 44, &open)[..20].to_vec();
    (pipe, handle)
}

/// LsarLookupSids2 of SIDs, and LsarLookupNames3 of names.
fn lookups(handle: &[u8], sids: &[Sid], names: &[&str]) -> [Vec<u8>; 2] {
    let mut by_sid = Writer::default();
    by_sid.bytes(handle);
    by_sid.count(sids.len());
    by_sid.referent();
    by_sid.count(sids.len());
    sids.iter().for_each(|_| by_sid.referent());
    sids.iter().for_each(|sid| by_sid.sid(sid));
    let mut by_name = Writer::default();
    by_name.bytes(handle);
    by_name.count(names.len());
    by_name.count(names.len());
    names.iter().for_each(|name| by_name.unicode_string(name));
    names.iter().for_each(|name| by_name.unicode_buffer(name));
    [(57, by_sid), (68, by_name)].map(|(opnum, mut writer)| {
        [0, 0, 1, 0, 0, 2].into_iter().for_each(|value| writer.u32(value));
        request(0, opnum, &writer.finish_status(NtStatus::SUCCESS))
    })
}

#[test]
fn a_member_asks_its_domain_for_names_of_no_other_authority() {
    let (mut pipe, handle) = member();
    let foreign = Sid::new(5, &[21, 7, 8, 9, 1_103]);
    let sids = [
        foreign.clone(),
        Sid::new(5, &[21, 1, 2, 3, 500]),
        Sid::everyone(),
        Sid::unix_user(7),
        foreign.clone(),
    ];
    let names = ["ADLAB\\jo", "alice", "CHORO\\nobody", "Everyone", "jo", "Unix User\\nobody"];
    let [by_sid, by_name] = lookups(&handle, &sids, &names);
    assert_eq!(pipe.questions(&by_sid), [NameQuestion::Sid(foreign)]);
    let name = |domain: &str, name: &str| NameQuestion::Name {
        domain: domain.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(pipe.questions(&by_name), [name("ADLAB", "jo"), name("", "alice")]);
    // Bytes that are no whole lookup have no questions, and a stranger's handle neither.
    for len in 0..by_sid.len() {
        assert_eq!(pipe.questions(&by_sid[..len]), []);
    }
    let [stranger, _] = lookups(&[9; 20], &sids, &[]);
    assert_eq!(pipe.questions(&stranger), []);
    assert_eq!(pipe.pending_len(), 0, "questions alone are answered by nobody");
}

#[test]
fn answers_of_the_domain_count_for_one_write() {
    let (mut pipe, handle) = member();
    let sid = Sid::new(5, &[21, 7, 8, 9, 1_103]);
    let [by_sid, _] = lookups(&handle, std::slice::from_ref(&sid), &[]);
    let status = |pipe: &mut Pipe| {
        pipe.write(&by_sid).expect("a good request");
        let (stub, _) = response(pipe);
        NtStatus(u32::from_le_bytes(*stub.last_chunk().expect("a status at the end")))
    };
    assert_eq!(status(&mut pipe), NtStatus::NONE_MAPPED);
    let (domain, name) = ("ADLAB".to_owned(), "alice".to_owned());
    let alice = Principal { kind: PrincipalKind::User, domain, name, sid: sid.clone() };
    pipe.learn(vec![(NameQuestion::Sid(sid), alice)]);
    assert_eq!(status(&mut pipe), NtStatus::SUCCESS);
    assert_eq!(status(&mut pipe), NtStatus::NONE_MAPPED);
}

#[test]
fn a_server_of_its_own_users_has_no_questions() {
    let mut pipe = bound(PipeName::Lsarpc, &[]);
    let open = [values(&[0, 24, 0, 0, 0, 0, 1, 12]), vec![2, 0, 1, 0, 0, 0, 0, 2]].concat();
    let handle = call(&mut pipe, 44, &open)[..20].to_vec();
    let [by_sid, by_name] = lookups(&handle, &[Sid::new(5, &[21, 7, 8, 9, 1])], &["X\\alice"]);
    assert_eq!((pipe.questions(&by_sid), pipe.questions(&by_name)), (vec![], vec![]));
}
