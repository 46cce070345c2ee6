//! Sample requests of each kind.

use dtyp::utf16;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::echo::EchoRequest;
use wire::flush::FlushRequest;
use wire::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::logoff::LogoffRequest;
use wire::oplock_break::OplockBreak;
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use wire::query_info::InfoType;
use wire::set_info::SetInfoRequest;
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::{Command, Dialect, FileId, OplockLevel};

use crate::create::Create;
use crate::login::Login;
use crate::peer::{Offer, Peer};
use crate::request::Request;

/// Returns one valid request of every command, in the order of their codes, for an open file and an
/// open directory. Requests that would end objects of the peer name others.
#[must_use]
pub fn of_every_command(peer: &mut Peer, file: FileId, directory: FileId) -> Vec<Request> {
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    let login = Login::user("alice", "whatever");
    let (_, token) = peer.begin(&login);
    let element = LockElement { offset: 1, length: 2, flags: LockFlags::EXCLUSIVE_LOCK };
    let mut requests = vec![
        peer.negotiate_request(&offer, &offer.contexts()),
        peer.session_setup(&login, &token).session(0),
        peer.request(Command::LOGOFF, &LogoffRequest).session(1),
        peer.tree_request("data"),
        peer.request(Command::TREE_DISCONNECT, &TreeDisconnectRequest).tree(9),
        peer.request(Command::CREATE, &Create::open_if("another")),
        peer.close_request(FileId::ANY),
        peer.request(Command::FLUSH, &FlushRequest { file_id: file }),
        peer.read_request(file, 0, 100),
        peer.write_request(file, 3, b"data"),
        peer.request(
            Command::LOCK,
            &LockRequest { lock_sequence: 0, file_id: file, locks: Locks::new(&[element]) },
        ),
        peer.request(
            Command::IOCTL,
            &IoctlRequest {
                ctl_code: FsctlCode(0x0014_0204),
                file_id: file,
                input: &[1; 40],
                max_input_response: 0,
                output_count: 0,
                max_output_response: 100,
                flags: IoctlFlags::all(),
            },
        ),
        peer.request(Command::CANCEL, &EchoRequest),
        peer.request(Command::ECHO, &EchoRequest),
    ];
    requests.extend(of_information(peer, file, directory));
    requests
}

/// Returns those for listings, changes, information and breaks.
fn of_information(peer: &mut Peer, file: FileId, directory: FileId) -> [Request; 5] {
    let pattern = utf16::to_bytes("*");
    [
        peer.request(
            Command::QUERY_DIRECTORY,
            &QueryDirectoryRequest {
                file_information_class: dtyp::FileInformationClass(37),
                flags: QueryDirectoryFlags::empty(),
                file_index: 0,
                file_id: directory,
                output_buffer_length: 65_536,
                file_name: &pattern,
            },
        ),
        peer.request(
            Command::CHANGE_NOTIFY,
            &ChangeNotifyRequest {
                flags: ChangeNotifyFlags::empty(),
                output_buffer_length: 100,
                file_id: directory,
                completion_filter: CompletionFilter::all(),
            },
        ),
        peer.query_request(file),
        peer.request(
            Command::SET_INFO,
            &SetInfoRequest {
                info_type: InfoType(1),
                file_info_class: 20,
                additional_information: 0,
                file_id: file,
                buffer: &[9, 0, 0, 0, 0, 0, 0, 0],
            },
        ),
        peer.request(
            Command::OPLOCK_BREAK,
            &OplockBreak { oplock_level: OplockLevel::NONE, file_id: file },
        ),
    ]
}
