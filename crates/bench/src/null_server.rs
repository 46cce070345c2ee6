//! A server without a file store: every response comes from memory, without a file, a check or a
//! lock. Or a bare one, with the files of a folder: it creates, opens, queries, reads, writes and
//! closes them with the fewest possible system calls, and without names in another case, share
//! modes, attributes, leases or security. A READ is `pread` and `send`, or `sendfile`, a WRITE
//! `recv` and `pwrite`, or two `splice`, and the protocol adds only some hundred bytes. Signed or
//! sealed data pass through memory, and are verified and protected there in place.
//!
//! Its results show the limits of the client, the protocol, the file system and the loopback
//! interface: no server is faster in the same way with the same client on the same machine. It
//! speaks 3.1.1, accepts the one user that it was started for, and signs and seals as the client
//! does.
//!
//! Errors of the file system become statuses. An error while data bypass memory ends the
//! connection, because the response has begun by then; so does a READ by `sendfile` beyond a file's
//! end. SET_INFO succeeds without effect: no load depends on it.

mod answers;
mod data;
mod login;
mod opens;
mod splicing;

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use auth::{Acceptor, NtHash};
use client::Channel;
use crypto::{PreauthHash, TransformKey};
use wire::frame::{self, FrameHeader};
use wire::header::{self, Header};
use wire::write::WriteRequest;
use wire::{Command, Decode};

use self::data::{Content, Data, Payload};
use self::splicing::Splicing;

pub use self::data::DataPath;

/// Bytes of the largest READ and WRITE.
const PAYLOAD_BYTES_MAX: usize = 8 << 20;

/// Bytes received at once; the rest of a longer frame is received by itself.
const RECEIVED_BYTES_MAX: usize = 512 << 10;

/// More than stands before the data of any answer.
const HEAD_BYTES_MAX: usize = 4096;

/// Why nothing can be signed or sealed.
const NO_SESSION: &str = "there is no session yet";

/// There is one session in a connection.
const SESSION_ID: u64 = 1;

/// Highest number of credits in a response.
const CREDITS_MAX: u16 = 512;

/// A frame's length and a WRITE up to its data.
const WRITE_FRONT_BYTES: usize = frame::SIZE + WriteRequest::DATA_OFFSET as usize;

/// Password of the only user.
pub const PASSWORD: &str = "bench-Passw0rd";

/// Serves on `port` of the loopback interface until the process ends: from memory, or the files of
/// a folder.
///
/// # Errors
///
/// The port is in use, or the folder missing.
pub fn serve(port: u16, folder: Option<(&Path, DataPath)>) -> Result<()> {
    let content = match folder {
        Some((folder, way)) => Content::folder(folder, way)?,
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
                // If standard error is closed as well, the message is lost.
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
    channel: Option<Channel>,
    data: Data,
    /// Answers that were not sent yet.
    outbox: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream, account: NtHash, content: Content) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            account,
            acceptor: login::acceptor()?,
            preauth: PreauthHash::ZERO,
            channel: None,
            data: Data::of(content),
            outbox: Vec::new(),
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
                    self.answer_frame(&mut inbox[whole.clone()], 0)?;
                    start = whole.end;
                    continue;
                } else if !is_long || end - start < WRITE_FRONT_BYTES {
                    break;
                }
                ensure!(whole.end <= inbox.len(), "a frame of {length} bytes");
                let (front, behind) = (&mut inbox[whole.start..end], whole.end - end);
                match splicing.as_ref().and_then(|it| Some((it, self.spliced(front, behind)?))) {
                    Some((splicing, (file, place))) => {
                        // The response contains the result of the transfer.
                        splicing.receive(&self.stream, file, place, behind)?;
                        self.answer_frame(front, behind)?;
                    }
                    None => {
                        self.stream.read_exact(&mut inbox[end..whole.end]).context("receiving")?;
                        self.answer_frame(&mut inbox[whole], 0)?;
                    }
                }
                (start, end) = (0, 0);
            }
            send(&self.stream, &mut self.outbox, &[])?;
            inbox.copy_within(start..end, 0);
            (start, end) = (0, end - start);
            let count = match &splicing {
                // Of a long WRITE only the part before its data.
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

    /// Returns the target of data that are still in the socket, if a frame begins with a WRITE that
    /// is neither signed nor sealed.
    fn spliced(&self, front: &[u8], behind: usize) -> Option<(&OwnedFd, u64)> {
        Header::decode(front)
            .ok()
            .filter(|it| it.command == Command::WRITE && !it.is_signed() && it.next_command == 0)?;
        let request = WriteRequest::decode_front(front, behind).ok()?;
        let came = u64::try_from(request.data().len()).ok()?;
        Some((self.data.file(request.file_id)?, request.offset.checked_add(came)?))
    }

    /// Answers the messages of a frame in one frame, with the same protection. `behind` bytes of
    /// its data are in their file already.
    fn answer_frame(&mut self, frame: &mut [u8], behind: usize) -> Result<()> {
        self.data.begin_frame();
        if TransformKey::session_id(frame).is_none() {
            return self.answer_messages(frame, behind, false);
        }
        let opened = self.channel.as_ref().context(NO_SESSION)?.open(frame)?;
        self.answer_messages(opened, behind, true)
    }

    fn answer_messages(&mut self, frame: &mut [u8], behind: usize, seals: bool) -> Result<()> {
        let begin = self.outbox.len();
        let room = frame::SIZE + if seals { TransformKey::HEADER_LEN } else { 0 };
        self.outbox.resize(begin + room, 0);
        let mut offset = 0;
        let payload = loop {
            let next = usize::try_from(Header::decode(&frame[offset..])?.next_command)?;
            let end = if next == 0 { frame.len() } else { offset + next };
            let message = frame.get_mut(offset..end).context("a compound leaves its frame")?;
            let at = self.outbox.len();
            let payload = self.answer(message, behind, seals)?;
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
            let channel = self.channel.as_mut().context(NO_SESSION)?;
            channel.seal(&mut self.outbox[begin + frame::SIZE..])?;
        }
        if payload.bytes == 0 { Ok(()) } else { self.send_data(payload) }
    }

    /// Sends the queued responses, and data behind them.
    fn send_data(&mut self, Payload { bytes, unread, .. }: Payload) -> Result<()> {
        let Some((file_id, mut place)) = unread else {
            return send(&self.stream, &mut self.outbox, self.data.last_read(bytes));
        };
        send(&self.stream, &mut self.outbox, &[])?;
        let file = self.data.file(file_id).context("there is no file")?;
        let mut missing = bytes;
        while missing > 0 {
            let count = rustix::fs::sendfile(&self.stream, file, Some(&mut place), missing)?;
            ensure!(count > 0, "the file ends");
            missing -= count;
        }
        Ok(())
    }

    /// Sends the queued responses, and the frame that begins at `begin` with the data behind it,
    /// signed or sealed. Its message begins after `room` bytes.
    fn send_protected(
        &mut self,
        begin: usize,
        room: usize,
        Payload { bytes, is_signed, .. }: Payload,
        seals: bool,
    ) -> Result<()> {
        let head = self.outbox.split_off(begin);
        send(&self.stream, &mut self.outbox, &[])?;
        let frame = self.data.last_read_behind(&head, bytes)?;
        let channel = self.channel.as_mut().context(NO_SESSION)?;
        if is_signed {
            channel.sign(&mut frame[room..]);
        }
        if seals {
            channel.seal(&mut frame[frame::SIZE..])?;
        }
        self.stream.write_all(frame).context("sending")
    }
}

/// Sends the queued responses, and `payload` behind them.
fn send(mut stream: &TcpStream, outbox: &mut Vec<u8>, payload: &[u8]) -> Result<()> {
    let (mut head, mut payload) = (&outbox[..], payload);
    while !payload.is_empty() {
        let slices = [IoSlice::new(head), IoSlice::new(payload)];
        let count = stream.write_vectored(&slices).context("sending")?;
        ensure!(count > 0, "the socket takes nothing");
        let of_head = count.min(head.len());
        (head, payload) = (&head[of_head..], &payload[count - of_head..]);
    }
    stream.write_all(head).context("sending")?;
    outbox.clear();
    Ok(())
}

#[cfg(test)]
mod tests;
