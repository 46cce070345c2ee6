//! Attacks on the other processes of the server: messages, orders, commands, files that are shared.

use std::fs;

use messaging::{
    Content, Done, FindSession, LogonAnswer, LogonProof, LogonQuestion, LogonVerdict, MessageKind,
    SessionFound,
};
use process::{CommandAnswer, CommandRequest, Identity};
use shares::share_commands::scripts;

use crate::attack::{Attack, Layer, open, stopped};
use crate::harness::choro::wait_until;
use crate::harness::{OTHER_USER, USER};
use crate::message::{connect, member, receive, send, send_as, send_attested, send_own, wait_for};
use crate::scene::Scene;
use crate::taken_over::{Answer, Failure};

const CHANGE: i32 = libc::O_RDWR;

const TABLES: &str = "tables are shared: opens and locks of all clients";

pub(crate) const ATTACKS: &[Attack] = &[
    open("change records of another client's files", TABLES, |scene| {
        change(scene, "lock/files.tdb")
    }),
    open("change records of another client's session", "others' sessions end", |scene| {
        change(scene, "lock/sessions.tdb")
    }),
    open("change the counters of failed logons", "it guesses without a pause", |scene| {
        change(scene, "lock/failed_logons")
    }),
    open("change limits of other clients", "it slows others down", |scene| {
        change(scene, "lock/qos")
    }),
    open("change the counters of another worker", "metrics are wrong", |scene| {
        let other = member(scene, scene.other_worker);
        let page = format!("lock/trace/{}-{:016x}", other.pid, other.unique_id);
        change(scene, &page)
    }),
    stopped("change the published users", Layer::Paths, |scene| change(scene, "lock/known_users")),
    stopped("take the place of logond", Layer::Paths, |scene| change(scene, "lock/logond")),
    stopped("change the configuration in effect", Layer::Paths, |scene| {
        change(scene, "lock/smb.conf.effective")
    }),
    stopped("send a message in another's name", Layer::Credentials, |scene| {
        let supervisor = member(scene, scene.supervisor());
        let other = member(scene, scene.other_worker);
        send_as(scene, other, supervisor, &PING)?;
        // A message in its own name comes after it.
        send_own(scene, supervisor, &PING)?;
        wait_for(scene, MessageKind::PONG)?;
        match counter(scene, "forged") {
            0 => Ok(0),
            _ => Err(Failure::Unheeded),
        }
    }),
    open("have SYS_ADMIN attest another's name", "it speaks as any process", |scene| {
        let supervisor = member(scene, scene.supervisor());
        let other = member(scene, scene.other_worker);
        let before = counter(scene, "forged");
        send_attested(scene, other, supervisor, &PING)?;
        send_own(scene, supervisor, &PING)?;
        wait_for(scene, MessageKind::PONG)?;
        match counter(scene, "forged") - before {
            0 => Ok(0),
            _ => Err(Failure::Unheeded),
        }
    }),
    open("send an administrator's message", "it reloads, and closes shares of others", |scene| {
        let supervisor = member(scene, scene.supervisor());
        send_own(scene, supervisor, &Content::new(MessageKind::RELOAD_CONFIG, &[]))?;
        let done = Done::decode(&wait_for(scene, MessageKind::DONE)?).expect("it can be read");
        done.outcome.map_err(|_| Failure::Unheeded)
    }),
    stopped("ask for the key of another user's session", Layer::Workers, |scene| {
        let other = member(scene, scene.other_worker);
        let (session_id, message) = (scene.other_session, vec![0; 100]);
        let data = FindSession { question_id: 1, session_id, message }.encode();
        send_own(scene, other, &Content::new(MessageKind::FIND_SESSION, &data))?;
        let answer = wait_for(scene, MessageKind::SESSION_FOUND)?;
        let found = SessionFound::decode(&answer).expect("it can be read");
        found.session.map(|_| 0).ok_or(Failure::Unheeded)
    }),
    stopped("ask logond for another user's key", Layer::Logond, |scene| {
        match check_proof(scene, 0)? {
            LogonVerdict::Refused(_) => Err(Failure::Unheeded),
            _ => Ok(0),
        }
    }),
    open("have logond check guesses without a pause", "it guesses passwords", guess),
    stopped("have a text run that is not configured", Layer::Commandd, |scene| {
        run(scene, "true".to_owned(), Identity::default())
    }),
    open("have a configured command run as root", "it runs with values of its choice", |scene| {
        let mut texts = scripts(&configuration(scene)).into_iter();
        let (script, _) = texts.next().expect("there is one");
        run(scene, script, Identity::default())?;
        let ran_as = fs::read_to_string(scene.in_share("data", "ran_as"));
        match ran_as.is_ok_and(|it| it == "0\n") {
            true => Ok(0),
            false => Err(Failure::Unheeded),
        }
    }),
    open("ask for users and groups of the system", "as any worker; not without end", |scene| {
        connect(scene, libc::SOCK_SEQPACKET, "names")
    }),
];

/// An attack that ends the worker.
pub(crate) const LAST: &[Attack] =
    &[stopped("send an order of the supervisor's", Layer::Supervisor, order)];

const PING: Content<'_> = Content { kind: MessageKind::PING, data: &[], descriptors: &[] };

/// Guesses without a pause: more than a throttled address has at once.
const GUESSES: u64 = 20;

/// Finds a file that processes share in its memory, or opens it and writes a byte as it was.
fn change(scene: &mut Scene<'_>, name: &str) -> Answer {
    let path = scene.path(name);
    if scene.worker.has_mapped_to_write(&path) {
        return Ok(0);
    }
    let file = scene.worker.open(&path, CHANGE)?;
    let byte = scene.worker.reserve(1);
    let read = scene.worker.call(libc::SYS_pread64, &[file, byte, 1, 0])?;
    scene.worker.call(libc::SYS_pwrite64, &[file, byte, read, 0])
}

/// A counter of the supervisor's messages.
fn counter(scene: &Scene<'_>, name: &str) -> u64 {
    let pid = scene.supervisor().to_string();
    let shown = scene.server.site().run(&["message", "stats", &pid, "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&shown).expect("an array");
    rows[0][name].as_u64().expect("it is counted")
}

fn configuration(scene: &Scene<'_>) -> config::Config {
    let path = scene.path("smb.conf");
    let text = fs::read_to_string(&path).expect("it was written");
    config::Config::parse(&text, &path).expect("it is served").0
}

fn guess(scene: &mut Scene<'_>) -> Answer {
    for number in 0..GUESSES {
        check_proof(scene, number)?;
    }
    Ok(0)
}

/// Has `logond` check a wrong proof of another user.
fn check_proof(scene: &mut Scene<'_>, number: u64) -> Result<LogonVerdict, Failure> {
    let logond = scene.server.server().logond().expect("it runs");
    let logond = member(scene, logond);
    let proof = LogonProof::OwnResponse {
        users: vec![OTHER_USER.to_owned()],
        user: OTHER_USER.to_owned(),
        domain: String::new(),
        challenge: [0; 8],
        nt_response: vec![0; 60],
    };
    let data = LogonQuestion { number, proof }.encode();
    send_own(scene, logond, &Content::new(MessageKind::CHECK_LOGON, &data))?;
    let answer = LogonAnswer::decode(&wait_for(scene, MessageKind::LOGON_CHECKED)?);
    Ok(answer.expect("it can be read").verdict)
}

/// Has `commandd` run a text.
fn run(scene: &mut Scene<'_>, script: String, identity: Identity) -> Answer {
    let socket = connect(scene, libc::SOCK_SEQPACKET, "commands")?;
    let (identity, requester) = (Some(identity), USER.to_owned());
    let request = CommandRequest { script, identity, requester, ..CommandRequest::default() };
    send(scene, socket, &request.encode())?;
    match CommandAnswer::decode(&receive(scene, socket)?).expect("it can be read") {
        CommandAnswer::Ended(..) => Ok(0),
        CommandAnswer::Refused(_) => Err(Failure::Unheeded),
    }
}

/// Sends what the supervisor sends: it ends a worker that sends another message than its own.
fn order(scene: &mut Scene<'_>) -> Answer {
    // The version, and that the receiver is to end.
    let shutdown: Vec<u8> = [[2, 0], [3, 0]].concat().into_iter().chain([0; 20]).collect();
    // The first one that it has: the others are those of attacks.
    let control = scene.socket_with(libc::SO_TYPE, libc::SOCK_SEQPACKET).expect("it has one");
    match send(scene, control, &shutdown) {
        // The supervisor may be faster than the answer.
        Ok(_) | Err(Failure::Ended) => {}
        answer => return answer,
    }
    let pid = scene.worker.pid();
    let refused = format!("worker {pid}: control message: a kind that no worker sends");
    scene.worker.wait_for_end();
    wait_until(|| scene.server.log().contains(&refused), || scene.server.log());
    Err(Failure::Unheeded)
}
