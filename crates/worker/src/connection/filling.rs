//! In from the socket past memory: the data of large WRITEs, into pipes.

use std::io;
use std::os::fd::AsFd;

use bytes::{Buf, BytesMut};
use object::Piped;
use rustix::io::{Errno, ioctl_fionread};
use trace::Moment;
use wire::frame;
use wire::write::WriteRequest;

use super::{Transport, missing};

/// Bytes of a frame with its length that tell whether it is a WRITE, and which one.
pub(super) const FRONT_LEN: usize = frame::SIZE + WriteRequest::DATA_OFFSET as usize;

/// Number of times that a pipe gets twice as many pages because those of this connection are nearly
/// empty: a network card may put as little as one packet of 536 bytes into each.
const PAGE_DOUBLINGS_MAX: u32 = 3;

/// A frame whose end is received into a pipe.
#[derive(Debug)]
pub(super) struct Filling {
    /// Bytes of the frame in memory, with its length.
    front: BytesMut,
    piped: Piped,
    /// Bytes that are to come.
    missing: usize,
    pub(super) source: Source,
}

/// Readiness of the socket that a pipe is filled from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// The socket may have bytes.
    Unknown,
    /// The socket had no bytes left.
    Dry,
    /// There was nothing, and the kernel is asked when there is.
    Polled,
    /// The kernel says that there is something, or the end of the stream.
    Ready,
}

/// Result of filling a pipe.
#[derive(Debug)]
pub(crate) enum Filled {
    /// The frame is whole, without its length.
    Whole(BytesMut, Piped),
    /// The rest has not come yet.
    Part,
    /// The following bytes go into no pipe: their pages are so nearly empty that there are too many
    /// of them, or there is an urgent byte, which only `recv` skips. The bytes are in memory; the
    /// pipe is empty.
    NoRoom(Piped),
}

impl Transport {
    /// From now on the data of WRITEs go into pipes if so many bytes of them are to come, or never.
    pub(crate) fn pipe_writes_from(&mut self, bytes: Option<usize>) {
        self.piped_write_min = bytes;
    }

    /// Returns the partly received frame, without its length, and the number of missing bytes: if a
    /// pipe may take them as far as can be told here.
    pub(crate) fn front(&self) -> Option<(&[u8], usize)> {
        let buffer = self.received.as_ref().filter(|it| it.len() >= FRONT_LEN)?;
        let behind = missing(buffer);
        (behind >= self.piped_write_min?.max(1)).then(|| (&buffer[frame::SIZE..], behind))
    }

    /// The rest of the frame that is here in part goes into this pipe.
    pub(crate) fn begin_filling(&mut self, piped: Piped) {
        let front = self.received.replace(BytesMut::new()).unwrap_or_default();
        let missing = missing(&front);
        self.filling = Some(Filling { front, piped, missing, source: Source::Unknown });
    }

    /// Returns the capacity of a pipe for `bytes` to come: more if pages have turned out to be
    /// nearly empty.
    pub(crate) fn room_for(&self, bytes: usize) -> usize {
        bytes << self.page_doublings
    }

    /// Whether a pipe is to be filled.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// True unless the socket is known to be empty.
    pub(crate) fn can_fill(&self) -> bool {
        let source = self.filling.as_ref().map(|it| it.source);
        matches!(source, Some(Source::Unknown | Source::Ready))
    }

    /// There is something for the pipe, or the end of the stream.
    pub(crate) fn may_fill(&mut self) {
        self.filling.iter_mut().for_each(|it| it.source = Source::Ready);
    }

    /// Moves what the socket has into the pipe.
    ///
    /// # Errors
    /// The stream is at its end or broken.
    pub(crate) fn fill(&mut self, at: Moment) -> io::Result<Filled> {
        let Some(mut filling) = self.filling.take() else { return Ok(Filled::Part) };
        let socket = self.socket.as_fd();
        // If there is something that does not come, that is no question of time.
        let mut had_room = filling.source != Source::Ready;
        loop {
            match store::piped::receive(socket, &mut filling.piped, filling.missing) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.arrival.received(at);
                    filling.missing -= count;
                    had_room = true;
                }
                Err(Errno::AGAIN) if !had_room => break,
                Err(Errno::AGAIN) => had_room = false,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let Filling { mut front, piped, missing: 0, .. } = filling else {
                if ioctl_fionread(socket)? == 0 {
                    filling.source = Source::Dry;
                    self.filling = Some(filling);
                    return Ok(Filled::Part);
                }
                continue;
            };
            self.note_whole_frame(front.len() + piped.length());
            front.advance(frame::SIZE);
            return Ok(Filled::Whole(front, piped));
        }
        let Filling { mut front, mut piped, .. } = filling;
        store::piped::read(&mut piped, &mut front)?;
        (self.received, self.piped_write_min) = (Some(front), None);
        self.page_doublings = (self.page_doublings + 1).min(PAGE_DOUBLINGS_MAX);
        Ok(Filled::NoRoom(piped))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use object::Pipe;
    use rustix::net::{SendFlags, send};
    use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
    use uring::Op;

    use super::*;

    const DATA_LEN: usize = 300_000;

    fn data() -> Vec<u8> {
        (0..DATA_LEN).map(|at| (at ^ (at >> 8)).to_le_bytes()[0]).collect()
    }

    fn pipe(pages: usize) -> Piped {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (output, input) = pipe_with(flags).expect("there are descriptors");
        fcntl_setpipe_size(&input, pages * 4_096).expect("it is not too large");
        Piped::new(Pipe { output, input, pages_max: pages, counted: Arc::default() }, 0)
    }

    /// Returns a transport that has received the front of a frame with this many pages to come, and
    /// its client.
    fn filling(pages: usize) -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let mut transport = Transport::new(
            listener.accept().expect("it connects").0,
            &proto::MemoryAccount::new(256 << 20),
        );
        let length = FRONT_LEN - frame::SIZE + DATA_LEN;
        let mut front = frame::FrameHeader::message(length).expect("short").to_vec();
        front.resize(FRONT_LEN, 7);
        transport.received(BytesMut::from(&front[..]), Moment::default());
        assert!(transport.front().is_none(), "nothing is to go into pipes yet");
        transport.pipe_writes_from(Some(DATA_LEN));
        let (known, behind) = transport.front().expect("it is long enough");
        assert_eq!((known.len(), behind), (FRONT_LEN - frame::SIZE, DATA_LEN));
        transport.begin_filling(pipe(pages));
        (transport, client)
    }

    /// Waits until there is something, as the kernel is asked to.
    fn poll(transport: &mut Transport) {
        assert!(matches!(transport.receive(true), Some(Op::PollReadable { .. })));
        assert!(transport.receive(true).is_none() && transport.is_busy() && !transport.can_fill());
        let mut fds = [rustix::event::PollFd::new(&transport.socket, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).expect("it is a socket");
        transport.may_fill();
        assert!(transport.can_fill());
    }

    #[test]
    fn a_frame_is_whole_when_its_last_byte_is_in_the_pipe() {
        let (mut transport, mut client) = filling(256);
        let data = data();
        for part in data.chunks(70_000) {
            assert!(matches!(transport.fill(Moment::default()), Ok(Filled::Part)));
            assert!(!transport.can_fill(), "it is dry");
            client.write_all(part).expect("sent");
            poll(&mut transport);
        }
        let (front, mut piped) = loop {
            match transport.fill(Moment::default()).expect("it goes on") {
                Filled::Whole(front, piped) => break (front, piped),
                Filled::Part => poll(&mut transport),
                Filled::NoRoom(_) => panic!("there is room"),
            }
        };
        assert_eq!((front.len(), front[0]), (FRONT_LEN - frame::SIZE, 7));
        let mut came = BytesMut::new();
        store::piped::read(&mut piped, &mut came).expect("it is there");
        assert!(came == data);
        // The next frame is expected to be like this one, of which only the front is received.
        let Some(Op::Receive { limit, .. }) = transport.receive(true) else { panic!("it goes on") };
        assert_eq!(limit, FRONT_LEN);
    }

    #[test]
    fn the_end_of_the_stream_in_the_middle_is_an_error() {
        let (mut transport, mut client) = filling(256);
        client.write_all(&data()[..1_000]).expect("sent");
        client.shutdown(std::net::Shutdown::Write).expect("it is open");
        while transport.fill(Moment::default()).is_ok() {
            poll(&mut transport);
        }
        assert!(!transport.is_filling());
    }

    #[test]
    fn data_beyond_the_pages_of_a_pipe_come_into_memory_and_the_next_pipe_is_larger() {
        let (mut transport, mut client) = filling(1);
        assert_eq!(transport.room_for(DATA_LEN), DATA_LEN);
        let data = data();
        let sender = std::thread::spawn(move || {
            client.write_all(&data).expect("sent");
            (client, data)
        });
        let empty = loop {
            match transport.fill(Moment::default()).expect("it goes on") {
                Filled::NoRoom(piped) => break piped,
                Filled::Part => poll(&mut transport),
                Filled::Whole(..) => panic!("one page has no room for it"),
            }
        };
        assert_eq!(empty.length(), 0);
        assert!(transport.front().is_none(), "no other pipe is tried for this frame");
        assert_eq!(transport.room_for(DATA_LEN), 2 * DATA_LEN);
        // The missing bytes follow it there.
        let Some(Op::Receive { mut buffer, limit, .. }) = transport.receive(true) else {
            panic!("more")
        };
        let missing = FRONT_LEN + DATA_LEN - buffer.len();
        assert!(limit == missing && missing < DATA_LEN);
        let at = buffer.len();
        buffer.resize(at + missing, 0);
        io::Read::read_exact(&mut &transport.socket, &mut buffer[at..]).expect("it comes");
        transport.received(buffer, Moment::default());
        let whole = transport.next_frame(|| 1 << 20).expect("a frame").expect("it is whole");
        let (_client, data) = sender.join().expect("it was sent");
        assert!(whole[FRONT_LEN - frame::SIZE..] == data);
    }

    #[test]
    fn an_urgent_byte_is_passed_by_in_memory() {
        let (mut transport, mut client) = filling(256);
        client.write_all(&data()[..1_000]).expect("sent");
        send(&client, b"!", SendFlags::OOB).expect("sent");
        client.write_all(&data()[1_000..]).expect("sent");
        // It would be asked for ever.
        for _ in 0..100 {
            match transport.fill(Moment::default()).expect("it goes on") {
                Filled::NoRoom(_) => return,
                Filled::Part => poll(&mut transport),
                Filled::Whole(..) => panic!("it stands before the urgent byte"),
            }
        }
        panic!("it stays there");
    }
}
