//! A server that serves nothing: every answer comes from memory, without a file, a check or a lock.
//! Or with one file, which all data come from and go to: then a READ is `pread` and `send`, or
//! `sendfile`, a WRITE `recv` and `pwrite`, or two `splice`, and all that is left of the protocol are some
//! hundred bytes. What is signed or sealed passes through memory, and is opened and protected there in place.
//!
//! What a client gets from it is what the client itself, the protocol and the loopback interface
//! allow: no server does better in the same way with the same client on the same machine. It speaks 3.1.1,
//! takes the one user that it was started for, and signs and seals what the client does.

mod data;

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use auth::{Acceptor, AcceptorSettings, NtHash, Step};
use crypto::{Cipher, KeyMaterial, PreauthHash, Role, SessionKeys, SigningAlgorithm, TransformKey};
use dtyp::{AccessMask, FileTime, Guid, NtStatus};
use wire::close::CloseResponse;
use wire::create::{CreateAction, CreateResponse};
use wire::echo::EchoResponse;
use wire::frame::{self, FrameHeader};
use wire::header::{self, Header, HeaderFlags};
use wire::logoff::LogoffResponse;
use wire::negotiate::{Capabilities, NegotiateResponse, SecurityMode};
use wire::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList,
    PreauthIntegrityCapabilities, SigningAlgorithmId, SigningCapabilities,
};
use wire::query_info::QueryInfoResponse;
use wire::read::{ReadRequest, ReadResponseHead};
use wire::session_setup::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
use wire::set_info::SetInfoResponse;
use wire::tree_connect::{ShareType, TreeConnectResponse};
use wire::write::WriteResponse;
use wire::{Codes, Command, Decode, Dialect, Encode, FileId};

use self::data::{Content, Data, Splicing};
use crate::client::Keys;

pub use self::data::Way;

/// Bytes of the largest READ and WRITE.
const PAYLOAD_BYTES_MAX: usize = 8 << 20;

/// Bytes that are received at once; what is left of a longer frame is received alone.
const RECEIVED_BYTES_MAX: usize = 512 << 10;

/// More than stands before the data of any answer.
const HEAD_BYTES_MAX: usize = 4096;

/// Why nothing can be signed or sealed.
const NO_SESSION: &str = "there is no session yet";

/// There is one session in a connection.
const SESSION_ID: u64 = 1;

/// FileAllInformation with an empty name: [MS-FSCC] 2.4.2.
const ALL_INFORMATION_BYTES: usize = 104;

/// Credits of every answer, if so many are asked for.
const CREDITS_MAX: u16 = 512;

/// Where the length of the data and their place in the file are in a WRITE, and the data, if they come
/// first, counted from its header: [MS-SMB2] 2.2.21.
const WRITE_LENGTH_OFFSET: usize = 64 + 4;
const WRITE_PLACE_OFFSET: usize = 64 + 8;
const WRITE_DATA_OFFSET: usize = 64 + 48;

/// A frame's length and a WRITE up to its data.
const WRITE_FRONT_BYTES: usize = frame::SIZE + WRITE_DATA_OFFSET;

/// The password of whoever logs on.
pub const PASSWORD: &str = "bench-Passw0rd";

/// Serves on `port` of the loopback interface until the process ends: from memory, or with the file of
/// `folder` that streams are read from and written to.
///
/// # Errors
///
/// When nobody can be listened to.
pub fn serve(port: u16, folder: Option<(&Path, Way)>) -> Result<()> {
    let content = match folder {
        Some((folder, way)) => Content::File(folder.into(), way),
        None => Content::memory(),
    };
    serve_on(&TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("listening")?, &content)
}

fn serve_on(listener: &TcpListener, content: &Content) -> Result<()> {
    let account = NtHash::of_password(PASSWORD);
    for stream in listener.incoming() {
        let (stream, account, content) = (stream?, account.clone(), content.clone());
        thread::spawn(move || {
            let run = || Connection::new(stream, account, content)?.run();
            if let Err(error) = run() {
                // If standard error is closed as well, nobody wants to know.
                let _ = writeln!(io::stderr(), "null server: {error:#}");
            }
        });
    }
    Ok(())
}

/// One connection with one session.
struct Connection {
    stream: TcpStream,
    account: NtHash,
    acceptor: Acceptor,
    preauth: PreauthHash,
    keys: Option<Keys>,
    data: Data,
    /// Answers that were not sent yet.
    outbox: Vec<u8>,
    last_file_id: u64,
}

/// Data that follow an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Payload {
    place: u64,
    bytes: usize,
    is_signed: bool,
}

impl Connection {
    fn new(stream: TcpStream, account: NtHash, content: Content) -> Result<Self> {
        stream.set_nodelay(true)?;
        let data = Data::of(content);
        let challenge = crate::client::random()?;
        let name = || "NULL".to_owned();
        let settings = AcceptorSettings {
            netbios_name: name(),
            netbios_domain: name(),
            dns_name: name(),
            dns_domain: name(),
        };
        Ok(Self {
            stream,
            account,
            acceptor: Acceptor::new(&settings, challenge, now()?),
            preauth: PreauthHash::ZERO,
            keys: None,
            data,
            outbox: Vec::new(),
            last_file_id: 0,
        })
    }

    /// Answers until the client leaves.
    fn run(&mut self) -> Result<()> {
        let mut inbox = vec![0; 2 * RECEIVED_BYTES_MAX + PAYLOAD_BYTES_MAX];
        let splicing = self.data.is_spliced().then(Splicing::new).transpose()?;
        let (mut start, mut end) = (0, 0);
        loop {
            while let Some(head) = inbox[start..end].first_chunk::<{ frame::SIZE }>() {
                let length = FrameHeader::decode(*head).length;
                let whole = start + frame::SIZE..start + frame::SIZE + length;
                let is_long = length > RECEIVED_BYTES_MAX / 2;
                if whole.end <= end {
                    self.answer_frame(&mut inbox[whole.clone()])?;
                    start = whole.end;
                    continue;
                } else if !is_long || end - start < WRITE_FRONT_BYTES {
                    break;
                }
                ensure!(whole.end <= inbox.len(), "a frame of {length} bytes");
                match &splicing {
                    Some(splicing) if is_plain_write(&inbox[whole.start..end]) => {
                        // What came of the data is written when it is answered.
                        let front = &mut inbox[whole.start..end];
                        let place =
                            write_place(front)? + u64::try_from(front.len() - WRITE_DATA_OFFSET)?;
                        splicing.receive(&self.stream, &self.data, place, whole.end - end)?;
                        self.answer_frame(front)?;
                    }
                    _ => {
                        self.stream.read_exact(&mut inbox[end..whole.end]).context("receiving")?;
                        self.answer_frame(&mut inbox[whole])?;
                    }
                }
                (start, end) = (0, 0);
            }
            self.flush(&[])?;
            inbox.copy_within(start..end, 0);
            (start, end) = (0, end - start);
            let count = match &splicing {
                // Of a long WRITE no more than what stands before its data.
                Some(_) if end < WRITE_FRONT_BYTES => WRITE_FRONT_BYTES - end,
                Some(_) => WRITE_FRONT_BYTES,
                None => RECEIVED_BYTES_MAX,
            };
            match self.stream.read(&mut inbox[end..end + count]) {
                Ok(0) => return Ok(()),
                Ok(count) => end += count,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error).context("receiving"),
            }
        }
    }

    /// Answers the messages of a frame in one, and protects it as they were.
    fn answer_frame(&mut self, frame: &mut [u8]) -> Result<()> {
        if TransformKey::session_id(frame).is_none() {
            return self.answer_messages(frame, false);
        }
        let keys = self.keys.as_mut().context(NO_SESSION)?;
        let opened = keys.sealing()?.open(frame)?;
        self.answer_messages(opened, true)
    }

    fn answer_messages(&mut self, frame: &mut [u8], seals: bool) -> Result<()> {
        let begin = self.outbox.len();
        let room = frame::SIZE + if seals { TransformKey::HEADER_LEN } else { 0 };
        self.outbox.resize(begin + room, 0);
        let mut offset = 0;
        let payload = loop {
            let next = usize::try_from(Header::decode(&frame[offset..])?.next_command)?;
            let end = if next == 0 { frame.len() } else { offset + next };
            let message = frame.get_mut(offset..end).context("a compound leaves its frame")?;
            let at = self.outbox.len();
            let payload = self.answer(message, seals)?;
            if next == 0 {
                break payload;
            }
            ensure!(payload.bytes == 0, "a READ with something behind it");
            let length = (self.outbox.len() - at).next_multiple_of(8);
            self.outbox.resize(at + length, 0);
            header::set_next_command(&mut self.outbox[at..], u32::try_from(length)?);
            offset = end;
        };
        let length = self.outbox.len() - begin - frame::SIZE + payload.bytes;
        let head = FrameHeader::message(length).context("the answer is too long")?;
        self.outbox[begin..begin + frame::SIZE].copy_from_slice(&head);
        if payload.bytes > 0 && (seals || payload.is_signed) {
            return self.send_protected(begin, room, payload, seals);
        }
        if seals {
            let keys = self.keys.as_mut().context(NO_SESSION)?;
            keys.sealing()?.seal(SESSION_ID, &mut self.outbox[begin..])?;
        }
        if payload.bytes == 0 { Ok(()) } else { self.send_data(payload) }
    }

    /// Sends what waits, and data behind it.
    fn send_data(&mut self, Payload { place, bytes, .. }: Payload) -> Result<()> {
        let mut data = std::mem::replace(&mut self.data, Data::None);
        match &mut data {
            Data::Memory(data) => self.flush(&data[..bytes])?,
            Data::File { file, way: Way::Pread, buffer } => {
                file.read_exact_at(&mut buffer[..bytes], place)?;
                self.flush(&buffer[..bytes])?;
            }
            Data::File { file, way: Way::Sendfile, .. } => {
                self.flush(&[])?;
                let (mut at, mut missing) = (place, bytes);
                while missing > 0 {
                    let count = rustix::fs::sendfile(&self.stream, &*file, Some(&mut at), missing)?;
                    ensure!(count > 0, "the file ends");
                    missing -= count;
                }
            }
            Data::None => bail!("there is no file"),
        }
        self.data = data;
        Ok(())
    }

    /// Sends what waits, and the frame that begins at `begin` with the data behind it, signed or sealed. Its
    /// message stands behind `room` bytes.
    fn send_protected(
        &mut self,
        begin: usize,
        room: usize,
        Payload { place, bytes, is_signed }: Payload,
        seals: bool,
    ) -> Result<()> {
        let head = self.outbox.split_off(begin);
        self.flush(&[])?;
        let frame = self.data.read_behind(&head, place, bytes)?;
        let keys = self.keys.as_mut().context(NO_SESSION)?;
        if is_signed {
            keys.signing.sign(&mut frame[room..]);
        }
        if seals {
            keys.sealing()?.seal(SESSION_ID, frame)?;
        }
        self.stream.write_all(frame).context("sending")
    }

    /// Appends the answer to a message, and returns what data follow it.
    fn answer(&mut self, message: &mut [u8], is_sealed: bool) -> Result<Payload> {
        let request = Header::decode(message)?;
        // What is sealed needs no signature: [MS-SMB2] 3.3.4.1.1.
        let is_signed = request.is_signed() && !is_sealed;
        if is_signed {
            self.keys.as_ref().context(NO_SESSION)?.signing.verify(message)?;
        }
        let at = self.outbox.len();
        let answer = Header {
            credits: request.credits.clamp(1, CREDITS_MAX),
            flags: HeaderFlags::SERVER_TO_REDIR,
            status: NtStatus::SUCCESS,
            next_command: 0,
            session_id: SESSION_ID,
            tree_id: 1,
            signature: [0; 16],
            ..request
        };
        if request.command == Command::NEGOTIATE {
            self.preauth.update(message);
        }
        if request.command == Command::SESSION_SETUP {
            self.preauth.update(message);
            return self.session_setup(message, answer).map(|()| Payload::default());
        }
        answer.encode(&mut self.outbox);
        let mut payload = Payload::default();
        match request.command {
            Command::NEGOTIATE => self.negotiate(),
            Command::TREE_CONNECT => {
                let share_type = ShareType::DISK;
                let maximal_access = AccessMask::FILE_ALL;
                let body = TreeConnectResponse { share_type, maximal_access, ..Default::default() };
                body.encode(&mut self.outbox);
            }
            Command::CREATE => {
                self.last_file_id += 1;
                let file_id = FileId { persistent: 1, volatile: self.last_file_id };
                let create_action = CreateAction::OPENED;
                let body = CreateResponse { create_action, file_id, ..Default::default() };
                body.encode(&mut self.outbox);
            }
            Command::CLOSE => CloseResponse::default().encode(&mut self.outbox),
            Command::READ => {
                let ReadRequest { length, offset, .. } = ReadRequest::decode(message)?;
                let bytes = usize::try_from(length)?;
                payload = Payload { place: offset, bytes, is_signed };
                ensure!(payload.bytes <= PAYLOAD_BYTES_MAX, "a READ of {length} bytes");
                ReadResponseHead { data_length: length, ..Default::default() }
                    .encode(&mut self.outbox);
            }
            Command::WRITE => {
                let too_short = "a WRITE that is too short";
                let length = message.get(WRITE_LENGTH_OFFSET..).and_then(<[u8]>::first_chunk);
                let count = u32::from_le_bytes(*length.context(too_short)?);
                let data = message.get(WRITE_DATA_OFFSET..).context(too_short)?;
                self.data.write(data, write_place(message)?)?;
                WriteResponse { count, ..Default::default() }.encode(&mut self.outbox);
            }
            Command::QUERY_INFO => {
                let body = QueryInfoResponse { output_buffer: &[0; ALL_INFORMATION_BYTES] };
                body.encode(&mut self.outbox);
            }
            Command::SET_INFO => SetInfoResponse.encode(&mut self.outbox),
            Command::ECHO => EchoResponse.encode(&mut self.outbox),
            Command::LOGOFF => LogoffResponse.encode(&mut self.outbox),
            other => bail!("{other:?} is not answered"),
        }
        if request.command == Command::NEGOTIATE {
            self.preauth.update(&self.outbox[at..]);
        } else if is_signed && payload.bytes == 0 {
            let keys = self.keys.as_ref().context(NO_SESSION)?;
            keys.signing.sign(&mut self.outbox[at..]);
        }
        Ok(payload)
    }

    fn negotiate(&mut self) {
        let mut contexts = NegotiateContextList::new();
        contexts.push(&PreauthIntegrityCapabilities {
            hash_algorithms: Codes::new(&[HashAlgorithmId::SHA_512]),
            salt: &[0; 32],
        });
        contexts.push(&EncryptionCapabilities { ciphers: Codes::new(&[CipherId::AES_128_GCM]) });
        contexts.push(&SigningCapabilities {
            signing_algorithms: Codes::new(&[SigningAlgorithmId::AES_GMAC]),
        });
        let max = u32::try_from(PAYLOAD_BYTES_MAX).expect("8 MiB");
        let body = NegotiateResponse {
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialect_revision: Dialect::SMB_3_1_1,
            server_guid: Guid([1; 16]),
            capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
            max_transact_size: max,
            max_read_size: max,
            max_write_size: max,
            security_buffer: &Acceptor::negotiate_hint(),
            negotiate_contexts: contexts.contexts(),
            ..Default::default()
        };
        body.encode(&mut self.outbox);
    }

    fn session_setup(&mut self, message: &[u8], mut answer: Header) -> Result<()> {
        let token = SessionSetupRequest::decode(message)?.security_buffer;
        let mut step = self.acceptor.step(token)?;
        if let Step::Account { .. } = step {
            step = self.acceptor.resume(Some(self.account.clone()))?;
        }
        let (token, key) = match step {
            Step::Continue(token) => (token, None),
            Step::Done(outcome) => (outcome.token, Some(outcome.session_key)),
            Step::Account { .. } => bail!("the account was given"),
        };
        if key.is_none() {
            answer.status = NtStatus::MORE_PROCESSING_REQUIRED;
        }
        let at = self.outbox.len();
        answer.encode(&mut self.outbox);
        let session_flags = SessionFlags::default();
        SessionSetupResponse { session_flags, security_buffer: &token }.encode(&mut self.outbox);
        let Some(key) = key else {
            self.preauth.update(&self.outbox[at..]);
            return Ok(());
        };
        let keys = SessionKeys::derive(KeyMaterial {
            dialect: Dialect::SMB_3_1_1.0,
            session_key: key.as_bytes(),
            full_session_key: key.as_bytes(),
            preauth_hash: Some(&self.preauth),
            cipher: Some(Cipher::Aes128Gcm),
            signing_algorithm: SigningAlgorithm::from_id(SigningAlgorithmId::AES_GMAC.0),
        });
        let keys = Keys::new(&keys, Role::Server);
        keys.signing.sign(&mut self.outbox[at..]);
        self.keys = Some(keys);
        Ok(())
    }

    /// Sends what waits, and `payload` behind it.
    fn flush(&mut self, payload: &[u8]) -> Result<()> {
        let (mut head, mut payload) = (&self.outbox[..], payload);
        while !head.is_empty() || !payload.is_empty() {
            let slices = [IoSlice::new(head), IoSlice::new(payload)];
            let count = self.stream.write_vectored(&slices).context("sending")?;
            ensure!(count > 0, "the socket takes nothing");
            let of_head = count.min(head.len());
            (head, payload) = (&head[of_head..], &payload[count - of_head..]);
        }
        self.outbox.clear();
        Ok(())
    }
}

/// Whether a frame is a WRITE that is neither signed nor sealed.
fn is_plain_write(front: &[u8]) -> bool {
    Header::decode(front).is_ok_and(|it| it.command == Command::WRITE && !it.is_signed())
}

/// Where in the file a WRITE begins.
fn write_place(message: &[u8]) -> Result<u64> {
    let place = message.get(WRITE_PLACE_OFFSET..).and_then(<[u8]>::first_chunk);
    Ok(u64::from_le_bytes(*place.context("a WRITE that is too short")?))
}

fn now() -> Result<FileTime> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(FileTime::from_unix(i64::try_from(now.as_secs())?, now.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use wire::read::ReadResponse;
    use wire::{Command, Decode, Dialect};

    use super::{Content, PASSWORD, PAYLOAD_BYTES_MAX, Way, serve_on};
    use crate::client::requests::{
        Purpose, close, open, push_read, push_set_basic, push_stat, push_write, verify_read,
    };
    use crate::client::{Client, Destination, Protection, Slot, Terms};
    use crate::load::fixture;

    fn client(content: Content, protection: Protection) -> Client {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || serve_on(&listener, &content).expect("it listens"));
        let (share, user) = ("bench".to_owned(), "bench".to_owned());
        let destination = Destination { address, share, user, password: PASSWORD.to_owned() };
        let terms = Terms { dialect: Dialect::SMB_3_1_1, protection };
        Client::connect(&destination, terms).expect("it lets everybody in")
    }

    #[test]
    fn it_answers_all_that_the_loads_ask_and_reads_frames_of_any_length() {
        let mut client = client(Content::memory(), Protection::Plain);
        let file = open(&mut client, Purpose::NewFile, "file").expect("there is any file");
        for bytes in [1, 64 << 10, 1 << 20, PAYLOAD_BYTES_MAX] {
            client.gather_credits(2, bytes).expect("it grants what is asked for");
            // Two at once, of which the second follows in the same segments.
            for _ in 0..2 {
                push_write(&mut client, file, 0, &vec![1; bytes]);
                client.flush(Slot(0)).expect("it reads");
            }
            for _ in 0..2 {
                client.receive().and_then(|it| it.succeeded()).expect("written");
            }
            push_read(&mut client, file, 0, bytes);
            client.flush(Slot(0)).expect("it reads");
            let reply = client.receive().expect("an answer");
            verify_read(&client, &reply, bytes).expect("as much as was asked for");
        }
        push_set_basic(&mut client, file);
        client.flush(Slot(0)).expect("it reads");
        client.receive().and_then(|it| it.succeeded()).expect("set");
        let name = dtyp::utf16::to_bytes("any");
        push_stat(&mut client, &name);
        client.flush(Slot(0)).expect("it reads");
        for command in [Command::CREATE, Command::QUERY_INFO, Command::CLOSE] {
            let reply = client.receive().and_then(|it| it.succeeded()).expect("an answer");
            assert_eq!(reply.header.command, command);
        }
        close(&mut client, file).expect("closed");
        client.logoff().expect("it agrees");
    }

    #[test]
    fn with_a_file_it_reads_and_writes_that() {
        let (plain, signed, sealed) = (Protection::Plain, Protection::Signed, Protection::Sealed);
        let ways =
            [Way::Pread, Way::Sendfile].map(|way| [plain, signed, sealed].map(|it| (way, it)));
        for (way, protection) in ways.into_iter().flatten() {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(fixture::STREAM);
            let content: Vec<u8> = (0..=u8::MAX).cycle().take(3 << 20).collect();
            std::fs::write(&path, &content).expect("there is room");
            let mut client = client(Content::File(folder.path().into(), way), protection);
            let file = open(&mut client, Purpose::Open, fixture::STREAM).expect("any");
            client.gather_credits(1, 1 << 20).expect("granted");
            for (place, bytes) in [(1 << 20, 1 << 20), (7, 100)] {
                push_read(&mut client, file, place, bytes);
                client.flush(Slot(0)).expect("it reads");
                let reply = client.receive().expect("an answer");
                let start = usize::try_from(place).expect("small");
                let read = ReadResponse::decode(client.message(&reply)).expect("it is one").data;
                assert!(read == &content[start..start + bytes], "{way:?}, {protection}");
            }
            push_write(&mut client, file, 1 << 20, &vec![7; 1 << 20]);
            client.flush(Slot(0)).expect("it reads");
            client.receive().and_then(|it| it.succeeded()).expect("written");
            let written = std::fs::read(&path).expect("there");
            assert!(
                written[1 << 20..2 << 20].iter().all(|byte| *byte == 7),
                "{way:?}, {protection}"
            );
            assert!(
                written[..1 << 20] == content[..1 << 20]
                    && written[2 << 20..] == content[2 << 20..]
            );
        }
    }
}
