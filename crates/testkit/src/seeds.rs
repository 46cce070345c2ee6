//! Inputs for the fuzzers, recorded from successful conversations.
//!
//! A fuzzer that begins with valid messages reaches the checks behind the first one.
//! `fuzz/fuzz_targets` defines the form of each target's input; parts of an input follow each
//! other, each after its length in two bytes.

mod data;
pub mod pipe;

use std::collections::BTreeMap;

use auth::Framing;
use wire::compound::Compound;
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::{Command, Dialect, FileId, Header};

use crate::accounts::ALICE;
use crate::create::Create;
use crate::login::Login;
use crate::peer::Peer;
use crate::request::{RELATED, Request, of_every_command};
use crate::world::{Plain, World};

/// Seeds of each target, by their names.
pub type Seeds = BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>;

/// Longest seed in bytes that is kept.
const SEED_BYTES_MAX: usize = 4_096;

/// Records the seeds of all targets.
#[must_use]
pub fn record() -> Seeds {
    let mut recorder = Recorder::default();
    for dialect in [Dialect::SMB_2_0_2, Dialect::SMB_3_0, Dialect::SMB_3_1_1] {
        recorder.conversation(dialect);
    }
    recorder.tokens();
    recorder.steps();
    data::record(&mut recorder);
    pipe::record(&mut recorder);
    recorder.seeds
}

/// Joins parts to one input.
#[must_use]
pub fn join<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        let part = part.as_ref();
        let Ok(len) = u16::try_from(part.len()) else { continue };
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// Splits an input into its parts. A length beyond the end stands for the rest.
pub fn split(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = input.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (part, rest) = rest.split_at(len);
        input = rest;
        Some(part)
    })
}

/// Returns a client for the target `session`: in a guest's session, where nothing is signed and
/// every request reaches its command.
///
/// # Panics
/// If the server refuses.
#[must_use]
pub fn guest(world: &World) -> (Peer, FileId, FileId) {
    let mut peer = world.connect();
    peer.credit_request = 256;
    peer.negotiate([Dialect::SMB_3_0]);
    peer.authenticate(&Login::anonymous()).ok();
    peer.tree("data");
    let file = peer.create(&Create::open_if("file")).file_id;
    peer.write(file, 0, b"some data").ok();
    let directory = peer.create(&Create::directory("dir")).file_id;
    (peer, file, directory)
}

#[derive(Default)]
struct Recorder {
    seeds: Seeds,
}

impl Recorder {
    fn put(&mut self, target: &'static str, name: impl Into<String>, bytes: Vec<u8>) {
        if bytes.len() <= SEED_BYTES_MAX {
            self.seeds.entry(target).or_default().insert(name.into(), bytes);
        }
    }

    /// Records a conversation from NEGOTIATE to LOGOFF, with a request of every command.
    fn conversation(&mut self, dialect: Dialect) {
        let world = World::new();
        let mut peer = world.connect();
        peer.negotiate([dialect]);
        peer.login_alice();
        // A signature would not survive the first mutation.
        peer.signs = dialect == Dialect::SMB_3_1_1;
        peer.tree("data");
        peer.signs = false;
        let file = peer.create(&Create::open_if("file")).file_id;
        peer.write(file, 0, b"some data").ok();
        let directory = peer.create(&Create::directory("dir")).file_id;
        let compound = [
            peer.request(Command::CREATE, &Create::open("file")),
            peer.read_request(RELATED, 0, 4).related(),
            peer.close_request(RELATED).related(),
        ];
        peer.call_all(compound);
        for request in of_every_command(&mut peer, file, directory) {
            let request = match request.command_code() {
                Command::NEGOTIATE => continue,
                // Unsigned it would end the connection.
                Command::TREE_CONNECT => request.signed(),
                _ => request,
            };
            peer.send(request);
            peer.receive();
        }
        let last = [
            peer.close_request(file),
            peer.request(Command::TREE_DISCONNECT, &TreeDisconnectRequest),
        ];
        for request in last {
            peer.send(request);
            // Includes the response of the CHANGE_NOTIFY, which ends now.
            peer.receive();
        }
        let revision = format!("{:04x}", dialect.0);
        self.put("server", &revision, join(world.frames()));
        if peer.has_sealing_keys() {
            peer.seals = true;
            peer.echo();
            let sealed = world.frames().pop().expect("an ECHO was sent");
            self.put("transform", &revision, sealed);
        }
        peer.logoff();
        for plain in world.plain_frames() {
            self.messages(&revision, &plain);
        }
    }

    fn messages(&mut self, revision: &str, plain: &Plain) {
        let (target, frame) = match plain {
            Plain::Requests(frame) => ("request", frame),
            Plain::Responses(frame) => ("response", frame),
        };
        let messages: Vec<&[u8]> = Compound::new(frame).filter_map(Result::ok).collect();
        if messages.len() > 1 {
            self.put("compound", format!("{target}-{revision}"), frame.clone());
        }
        for message in messages {
            let header = Header::decode(message).expect("it was sent or received");
            let command = format!("{:?}", header.command).to_lowercase();
            let outcome = if header.status.is_error() { "-error" } else { "" };
            // The command goes first, so that a target finds it without a search.
            let code = u8::try_from(header.command.0).expect("below 19");
            let mut seed = vec![code];
            seed.extend_from_slice(message);
            self.put(target, format!("{command}{outcome}-{revision}"), seed);
            if header.command == Command::NEGOTIATE {
                self.put("compound", format!("{target}-single"), message.to_vec());
            }
        }
    }

    /// Records the tokens of logons, for the server's fixed challenge.
    fn tokens(&mut self) {
        let framings = [
            ("raw", Framing::Raw),
            ("spnego", Framing::Spnego),
            ("kerberos", Framing::SpnegoAfterKerberos),
        ];
        for (name, framing) in framings {
            let world = World::new();
            let mut peer = world.connect();
            peer.negotiate([Dialect::SMB_2_1]);
            let login = Login::user(ALICE.0, ALICE.1).framing(framing);
            peer.authenticate(&login).ok();
            let mut tokens: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
            for plain in world.plain_frames() {
                use wire::Decode;
                use wire::session_setup::{SessionSetupRequest, SessionSetupResponse};
                let (side, token) = match &plain {
                    Plain::Requests(frame) => {
                        (0, SessionSetupRequest::decode(frame).map(|it| it.security_buffer))
                    }
                    Plain::Responses(frame) => {
                        (1, SessionSetupResponse::decode(frame).map(|it| it.security_buffer))
                    }
                };
                tokens[side].extend(token.ok().map(<[u8]>::to_vec));
            }
            self.put("acceptor", name, join(&tokens[0]));
            self.put("initiator", name, join(&tokens[1]));
        }
    }

    /// Records input of the target `session`: command, flags and body of each request.
    fn steps(&mut self) {
        let world = World::new();
        let (mut peer, file, directory) = guest(&world);
        let requests = of_every_command(&mut peer, file, directory);
        let step = |request: &Request| {
            let mut step = vec![u8::try_from(request.command_code().0).expect("below 19"), 0];
            step.extend_from_slice(&request.to_message()[wire::header::SIZE..]);
            step
        };
        for request in &requests {
            let name = format!("{:?}", request.command_code()).to_lowercase();
            self.put("session", name, join([step(request)]));
        }
        // NEGOTIATE would end the connection, and LOGOFF the session.
        let all = requests.iter().skip(1).filter(|it| it.command_code() != Command::LOGOFF);
        self.put("session", "all", join(all.map(step)));
    }
}

#[cfg(test)]
mod tests {
    use super::{join, record, split};

    /// Targets whose seeds are files of their own: no conversation of SMB has such messages.
    const WRITTEN: [&str; 3] = ["ctdb", "llmnr", "wsd"];

    #[test]
    fn joined_parts_split_again() {
        let parts: [&[u8]; 3] = [b"one", b"", b"three"];
        let joined = join(parts);
        assert_eq!(split(&joined).collect::<Vec<_>>(), parts);
        assert_eq!(split(b"\xFF\xFFrest").collect::<Vec<_>>(), [b"rest"]);
    }

    #[test]
    fn every_fuzz_target_has_seeds() {
        let targets = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
        let mut wanted: Vec<String> = std::fs::read_dir(targets)
            .expect("the fuzz targets are beside the crates")
            .map(|entry| entry.expect("a readable entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        wanted.sort();
        let mut seeds: Vec<String> = record().into_keys().map(str::to_owned).collect();
        seeds.extend(WRITTEN.map(str::to_owned));
        seeds.sort();
        assert_eq!(seeds, wanted);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        for target in wanted {
            let files = std::fs::read_dir(std::path::Path::new(folder).join(&target));
            assert!(files.is_ok_and(|mut it| it.next().is_some()), "{target} has no seeds");
        }
    }
}
