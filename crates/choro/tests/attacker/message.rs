//! Messages of a taken worker, which writes its own packets.

use std::fs;

use dtyp::ServerId;
use libc::c_int;
use messaging::{Content, MESSAGE_VERSION};

use crate::harness::choro::wait_until;
use crate::scene::Scene;
use crate::taken_over::{Answer, Failure, number};

/// Version of a packet, and the bytes before its first frame: `messaging/src/transport/packet.rs`.
const PACKET_VERSION: u16 = 2;
const HEAD_BYTES: usize = 52;
const ENTRY_BYTES: usize = 24;

/// Bytes behind the data of a message.
const TRAILER_BYTES: usize = 8;

/// More than an answer here has.
const ANSWER_BYTES: usize = 8_192;

/// Bytes of a `sockaddr_un` with the longest path.
const ADDRESS_BYTES: usize = 110;

/// Family of local sockets, as an address has it.
const UNIX: [u8; 2] = [1, 0];

/// Connects a socket of the worker to one of the server in the lock directory.
pub(crate) fn connect(scene: &mut Scene<'_>, kind: c_int, name: &str) -> Answer {
    let kind = kind | libc::SOCK_NONBLOCK;
    let socket = scene.worker.call(libc::SYS_socket, &[number(libc::AF_UNIX), number(kind), 0])?;
    let path = scene.path(&format!("lock/{name}"));
    let address = [&UNIX, path.as_bytes(), &[0]].concat();
    let (place, length) = (scene.worker.put(&address), address.len() as u64);
    scene.worker.call(libc::SYS_connect, &[socket, place, length])?;
    Ok(socket)
}

pub(crate) fn send(scene: &mut Scene<'_>, socket: u64, packet: &[u8]) -> Answer {
    let place = scene.worker.put(packet);
    scene.worker.call(libc::SYS_sendto, &[socket, place, packet.len() as u64, 0, 0, 0])
}

/// Waits for a packet, and returns its bytes.
pub(crate) fn receive(scene: &mut Scene<'_>, socket: u64) -> Result<Vec<u8>, Failure> {
    let room = scene.worker.reserve(ANSWER_BYTES);
    let arguments = [socket, room, ANSWER_BYTES as u64, number(libc::MSG_DONTWAIT), 0, 0];
    let mut answer = Err(Failure::Refused(nix::errno::Errno::EAGAIN));
    wait_until(
        || {
            answer = scene.worker.call(libc::SYS_recvfrom, &arguments);
            answer != Err(Failure::Refused(nix::errno::Errno::EAGAIN))
        },
        || "nothing comes".to_owned(),
    );
    let length = usize::try_from(answer?).expect("it has room");
    Ok(scene.worker.read::<ANSWER_BYTES>(room)[..length].to_vec())
}

/// The process of the server with this pid.
pub(crate) fn member(scene: &Scene<'_>, pid: u32) -> ServerId {
    let entries = fs::read_dir(scene.path("lock/msg")).expect("it is there").flatten();
    let mut names = entries.filter_map(|it| it.file_name().into_string().ok());
    let found = names.find_map(|name| {
        let (of, unique_id) = name.split_once('-')?;
        let unique_id = u64::from_str_radix(unique_id, 16).ok()?;
        (of == pid.to_string()).then_some(ServerId { pid, unique_id })
    });
    found.expect("it is a member")
}

/// Name of the socket of a process.
pub(crate) fn socket_name(of: ServerId) -> String {
    format!("msg/{}-{:016x}", of.pid, of.unique_id)
}

/// A packet with one message.
pub(crate) fn packet(sender: ServerId, receiver: ServerId, content: &Content<'_>) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("it is short").to_le_bytes();
    let trailer = [MESSAGE_VERSION.to_le_bytes(), content.kind.0.to_le_bytes()].concat();
    let frame = [content.data, &trailer, &length(content.data.len())].concat();
    let ids = [sender.to_bytes(), receiver.to_bytes()].concat();
    let entry = [length(frame.len()), [0; 4]].concat();
    // Number and time of the message do not matter.
    [&PACKET_VERSION.to_le_bytes(), &[0; 2][..], &ids, &entry, &[0; 16], &frame].concat()
}

/// The worker's own socket for messages.
fn own_socket(scene: &mut Scene<'_>) -> u64 {
    let name = socket_name(member(scene, scene.worker.pid()));
    let (place, length) = (scene.worker.reserve(ADDRESS_BYTES + 2), scene.worker.reserve(4));
    let descriptors = scene.worker.descriptors().into_iter();
    let mut sockets = descriptors.filter(|(_, target)| target.starts_with("socket:"));
    let found = sockets.find(|(socket, _)| {
        scene.worker.write(length, &110_u32.to_le_bytes());
        scene.worker.write(place, &[0; ADDRESS_BYTES]);
        let named = scene.worker.call(libc::SYS_getsockname, &[*socket, place, length]);
        named.expect("it is a socket");
        let address = scene.worker.read::<ADDRESS_BYTES>(place);
        String::from_utf8_lossy(&address).trim_end_matches('\0').ends_with(&name)
    });
    found.expect("it is a member").0
}

/// Sends a message in the name of a process, from a new socket.
pub(crate) fn send_as(
    scene: &mut Scene<'_>,
    sender: ServerId,
    to: ServerId,
    content: &Content<'_>,
) -> Answer {
    let socket = connect(scene, libc::SOCK_DGRAM, &socket_name(to))?;
    send(scene, socket, &packet(sender, to, content))
}

/// Sends a message in the name of a process, and has the kernel attest the name.
pub(crate) fn send_attested(
    scene: &mut Scene<'_>,
    sender: ServerId,
    to: ServerId,
    content: &Content<'_>,
) -> Answer {
    let socket = connect(scene, libc::SOCK_DGRAM, &socket_name(to))?;
    let packet = packet(sender, to, content);
    let part = scene.worker.put(&packet);
    let parts = scene.worker.put(&[part, packet.len() as u64].map(u64::to_le_bytes).concat());
    // A `cmsghdr` and its `ucred`: level, type, then pid, user and group.
    let credentials = [libc::SOL_SOCKET, libc::SCM_CREDENTIALS].map(c_int::to_le_bytes).concat();
    let ids = [sender.pid, 0, 0, 0].map(u32::to_le_bytes).concat();
    let control = [&28_u64.to_le_bytes(), &credentials[..], &ids].concat();
    let control = scene.worker.put(&control);
    // A `msghdr`: no address, one part, this control data.
    let message = [0, 0, parts, 1, control, 32, 0].map(u64::to_le_bytes).concat();
    let message = scene.worker.put(&message);
    scene.worker.call(libc::SYS_sendmsg, &[socket, message, 0])
}

/// Sends a message in the worker's own name.
pub(crate) fn send_own(scene: &mut Scene<'_>, to: ServerId, content: &Content<'_>) -> Answer {
    let own = member(scene, scene.worker.pid());
    send_as(scene, own, to, content)
}

/// Waits for a message of this kind to the worker, and returns its data.
pub(crate) fn wait_for(
    scene: &mut Scene<'_>,
    kind: messaging::MessageKind,
) -> Result<Vec<u8>, Failure> {
    let socket = own_socket(scene);
    loop {
        let packet = receive(scene, socket)?;
        let mut rest = &packet[HEAD_BYTES - ENTRY_BYTES..];
        while let Some((entry, bytes)) = rest.split_first_chunk::<ENTRY_BYTES>() {
            let total = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let total = usize::try_from(total).expect("it fits into memory");
            let (frame, following) = bytes.split_at(total);
            let (data, trailer) = frame.split_at(total - TRAILER_BYTES);
            if trailer[2..4] == kind.0.to_le_bytes() {
                return Ok(data.to_vec());
            }
            rest = following;
        }
    }
}
