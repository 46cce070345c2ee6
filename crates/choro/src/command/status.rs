//! `choro status`, which lists clients and opens.

pub(super) mod channels;
pub(super) mod cluster;
mod confinement;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use arbitration::{Caching, FileKey, FileRecords as _, Holding, OpenEntry};
use clap::Args;
use dtyp::{FileTime, UtcTime};
use messaging::SingleChannel;
use observe::report::{self, Row};
use settings::Settings;
use tables::{ClientRecord, FileTable, Registry, SessionRecord, TreeConnectRecord};

use channels::SessionChannels;

/// Show clients, sessions, channels, tree connects and opens.
///
/// A channel is a connection of a session; a connection of several sessions is listed with each.
/// Bytes are those of the connection; sent bytes count once the client's machine has acknowledged
/// them. Break retries are oplock and lease breaks that were sent again on a channel, because
/// another channel ended before the acknowledgment. If a session has one channel only, the reason
/// is shown.
///
/// Only the user that the server runs as sees the channels. Exits with 1 if the server is not
/// running.
#[derive(Args, Debug)]
pub(super) struct Status {
    /// Print a JSON array; `kind` of each object is client, session, channel, tree_connect or open;
    /// with --cluster: cluster, node or public_address.
    #[arg(long)]
    json: bool,
    /// Show instead the rights of the server's processes: system calls, programs, capabilities; and
    /// what is not confined, with the reason (docs/design/isolation.md).
    #[arg(long)]
    confinement: bool,
    /// Show instead the nodes of the cluster, its generation, whether it recovers, and where its
    /// public addresses are, as ctdbd on this machine has them. No server needs to run; without
    /// ctdbd, the exit code is 1.
    #[arg(long, conflicts_with = "confinement")]
    cluster: bool,
}

/// Contents of the tables at one moment.
struct Snapshot {
    clients: Vec<ClientRecord>,
    sessions: Vec<SessionRecord>,
    channels: SessionChannels,
    tree_connects: Vec<TreeConnectRecord>,
    opens: Vec<(FileKey, OpenEntry, Caching)>,
}

impl Status {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        if self.cluster {
            return cluster::show(config, self.json);
        }
        let settings = Settings::find(config)?;
        if self.confinement {
            return confinement::show(&settings, self.json);
        }
        let registry = Registry::observe(&settings.directories.lock)?;
        let files = FileTable::observe(&settings.directories.lock)?;
        let snapshot =
            Snapshot::take(&settings, &registry, &files).context("cannot read the tables")?;
        if self.json {
            for remark in &snapshot.channels.remarks {
                writeln!(io::stderr(), "choro: {remark}")?;
            }
            return report::print_json(snapshot.rows());
        }
        let supervisor = registry.supervisor().pid;
        report::print(&format!("Choro is running (pid {supervisor}).\n\n{}", snapshot.tables()))
    }
}

/// Counts the channels of all sessions; `None` if a worker did not report them.
pub(super) fn count_channels(settings: &Settings) -> Option<usize> {
    let registry = Registry::observe(&settings.directories.lock).ok()?;
    let sessions = registry.list_sessions().ok()?.records;
    let channels = SessionChannels::ask(settings, registry.supervisor(), &sessions);
    channels.remarks.is_empty().then(|| channels.count())
}

impl Snapshot {
    fn take(settings: &Settings, registry: &Registry, files: &FileTable) -> anyhow::Result<Self> {
        let mut opens = Vec::new();
        files
            .for_each(&mut |key, record| {
                for open in &record.opens {
                    opens.push((key, open.clone(), record.cache_of(open).state));
                }
            })
            .map_err(|error| anyhow!("cannot read the table of files: {error}"))?;
        let sessions = registry.list_sessions()?.records;
        Ok(Self {
            // A client that has not negotiated yet has a record without anything to show.
            clients: {
                let clients = registry.list_clients()?.records;
                clients.into_iter().filter(|client| client.dialect != 0).collect()
            },
            channels: SessionChannels::ask(settings, registry.supervisor(), &sessions),
            sessions,
            tree_connects: registry.list_tree_connects()?.records,
            opens,
        })
    }

    fn rows(&self) -> Vec<Row> {
        let clients = self.clients.iter().map(client_row);
        let sessions = self.sessions.iter().map(|session| self.session_row(session));
        let tree_connects =
            self.tree_connects.iter().map(|tree_connect| self.tree_connect_row(tree_connect));
        clients
            .chain(sessions)
            .chain(self.channels.rows())
            .chain(tree_connects)
            .chain(self.opens.iter().map(open_row))
            .collect()
    }

    fn tables(&self) -> String {
        let sections = [
            ("Clients", CLIENT_TITLES, self.clients.iter().map(client_cells).collect()),
            ("Sessions", SESSION_TITLES, self.sessions.iter().map(session_cells).collect()),
            ("Channels", channels::TITLES, self.channels.cells()),
            (
                "Tree connects",
                TREE_CONNECT_TITLES,
                self.tree_connects.iter().map(|tree| self.tree_connect_cells(tree)).collect(),
            ),
            ("Opens", OPEN_TITLES, self.opens.iter().map(open_cells).collect::<Vec<_>>()),
        ];
        let mut text = String::new();
        for (name, titles, rows) in sections {
            text.push_str(&format!("{name}: {}\n", rows.len()));
            if !rows.is_empty() {
                text.push_str(&report::table(titles, &rows));
            }
            if titles == channels::TITLES {
                text.push_str(&self.channels.notes());
            }
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    /// Returns the user and address of a session; empty if it ended while the tables were read.
    fn user_of(&self, session_id: u64) -> (String, String) {
        let session = self.sessions.iter().find(|session| session.session_id == session_id);
        session.map_or_else(Default::default, |session| {
            (session.user.clone(), session.client_address.clone())
        })
    }

    fn session_row(&self, session: &SessionRecord) -> Row {
        let channels = self.channels.of(session.session_id);
        let single = channels.first().and_then(|channel| channel.single);
        let of_channels: Row = vec![
            // Every session has a channel, so zero means that they are unknown.
            ("channels", Some(channels.len()).filter(|count| *count > 0).into()),
            ("single_channel", single.map(SingleChannel::name).into()),
            ("single_channel_because", single.map(SingleChannel::why).into()),
        ];
        session_row(session).into_iter().chain(of_channels).collect()
    }

    fn tree_connect_cells(&self, tree_connect: &TreeConnectRecord) -> Vec<String> {
        let (user, client_address) = self.user_of(tree_connect.session_id);
        let access = if tree_connect.read_only { "read" } else { "write" };
        vec![
            tree_connect.server_id.pid.to_string(),
            format!("{:016x}", tree_connect.session_id),
            tree_connect.share.clone(),
            user,
            client_address,
            access.to_owned(),
            since(tree_connect.connected_at),
        ]
    }

    fn tree_connect_row(&self, tree_connect: &TreeConnectRecord) -> Row {
        let (user, client_address) = self.user_of(tree_connect.session_id);
        vec![
            ("kind", "tree_connect".into()),
            ("pid", tree_connect.server_id.pid.into()),
            ("session_id", format!("{:016x}", tree_connect.session_id).into()),
            ("tree_id", tree_connect.tree_id.into()),
            ("share", tree_connect.share.clone().into()),
            ("user", user.into()),
            ("client_address", client_address.into()),
            ("read_only", tree_connect.read_only.into()),
            ("encrypted", tree_connect.encrypted.into()),
            ("connected_at_unix_s", unix_seconds(tree_connect.connected_at).into()),
        ]
    }
}

const CLIENT_TITLES: &[&str] = &["PID", "CLIENT", "DIALECT", "SIGNING", "CIPHER", "SINCE"];
const SESSION_TITLES: &[&str] =
    &["PID", "SESSION", "USER", "CLIENT", "DIALECT", "SIGNING", "CIPHER", "SINCE"];
const TREE_CONNECT_TITLES: &[&str] =
    &["PID", "SESSION", "SHARE", "USER", "CLIENT", "ACCESS", "SINCE"];
const OPEN_TITLES: &[&str] = &["PID", "SESSION", "SHARE", "PATH", "ACCESS", "SINCE"];

fn client_cells(client: &ClientRecord) -> Vec<String> {
    vec![
        client.server_id.pid.to_string(),
        client.client_address.clone(),
        dialect(client.dialect),
        signing_cell(client.signing_algorithm, client.signing_required),
        cipher(client.cipher).unwrap_or("-").to_owned(),
        since(client.connected_at),
    ]
}

fn client_row(client: &ClientRecord) -> Row {
    vec![
        ("kind", "client".into()),
        ("pid", client.server_id.pid.into()),
        ("client_guid", client.client_guid.to_string().into()),
        ("client_address", client.client_address.clone().into()),
        ("local_address", client.local_address.clone().into()),
        ("dialect", dialect(client.dialect).into()),
        ("signing_algorithm", signing(client.signing_algorithm).into()),
        ("signing_required", client.signing_required.into()),
        ("cipher", cipher(client.cipher).into()),
        ("connected_at_unix_s", unix_seconds(client.connected_at).into()),
    ]
}

fn session_cells(session: &SessionRecord) -> Vec<String> {
    let used = if session.encrypted { cipher(session.cipher) } else { None };
    vec![
        session.server_id.pid.to_string(),
        format!("{:016x}", session.session_id),
        session.user.clone(),
        session.client_address.clone(),
        dialect(session.dialect),
        signing_cell(session.signing_algorithm, session.signing_required),
        used.unwrap_or("-").to_owned(),
        since(session.created_at),
    ]
}

fn session_row(session: &SessionRecord) -> Row {
    vec![
        ("kind", "session".into()),
        ("pid", session.server_id.pid.into()),
        ("session_id", format!("{:016x}", session.session_id).into()),
        ("user", session.user.clone().into()),
        ("domain", session.domain.clone().into()),
        ("user_sid", session.user_sid.clone().into()),
        ("client_address", session.client_address.clone().into()),
        ("dialect", dialect(session.dialect).into()),
        ("signing_algorithm", signing(session.signing_algorithm).into()),
        ("signing_required", session.signing_required.into()),
        ("cipher", cipher(session.cipher).into()),
        ("encrypted", session.encrypted.into()),
        ("created_at_unix_s", unix_seconds(session.created_at).into()),
    ]
}

fn open_cells((_, open, _): &(FileKey, OpenEntry, Caching)) -> Vec<String> {
    vec![
        open.id.worker.pid.to_string(),
        format!("{:016x}", open.facts.session_id),
        open.facts.share.clone(),
        open.facts.path.clone(),
        format!("{:#010x}", open.mode.granted_access.bits()),
        since(open.facts.opened_at),
    ]
}

fn open_row((file, open, caching): &(FileKey, OpenEntry, Caching)) -> Row {
    vec![
        ("kind", "open".into()),
        ("pid", open.id.worker.pid.into()),
        ("session_id", format!("{:016x}", open.facts.session_id).into()),
        ("tree_id", open.facts.tree_id.into()),
        ("persistent_file_id", format!("{:016x}", open.facts.persistent).into()),
        ("volatile_file_id", format!("{:016x}", open.id.number).into()),
        ("share", open.facts.share.clone().into()),
        ("path", open.facts.path.clone().into()),
        ("granted_access", open.mode.granted_access.bits().into()),
        ("share_read", open.mode.share_read.into()),
        ("share_write", open.mode.share_write.into()),
        ("share_delete", open.mode.share_delete.into()),
        ("create_options", open.facts.create_options.into()),
        ("holding", holding(open).into()),
        ("caching", letters(*caching).into()),
        ("disconnected", open.is_disconnected().into()),
        ("device", file.device.into()),
        ("inode", file.inode.into()),
        ("opened_at_unix_s", unix_seconds(open.facts.opened_at).into()),
    ]
}

/// Returns whether the client caches under a lease or an oplock.
fn holding(open: &OpenEntry) -> Option<&'static str> {
    match open.holding {
        Holding::Nothing => None,
        Holding::Oplock(_) => Some("oplock"),
        Holding::Lease(_) => Some("lease"),
    }
}

/// Letters of the caching rights: read, write, handle.
fn letters(caching: Caching) -> String {
    let all = [(Caching::READ, 'R'), (Caching::WRITE, 'W'), (Caching::HANDLE, 'H')];
    all.into_iter().filter(|(it, _)| caching.contains(*it)).map(|(_, letter)| letter).collect()
}

/// Version number for [MS-SMB2] 2.2.4 DialectRevision.
pub(super) fn dialect(revision: u16) -> String {
    match revision {
        0x0202 => "2.0.2".to_owned(),
        0x0210 => "2.1".to_owned(),
        0x0300 => "3.0".to_owned(),
        0x0302 => "3.0.2".to_owned(),
        0x0311 => "3.1.1".to_owned(),
        other => format!("{other:#06x}"),
    }
}

/// [MS-SMB2] 2.2.3.1.7 SigningAlgorithms.
pub(super) fn signing(algorithm: Option<u16>) -> Option<&'static str> {
    Some(match algorithm? {
        0 => "HMAC-SHA256",
        1 => "AES-128-CMAC",
        2 => "AES-128-GMAC",
        _ => "unknown",
    })
}

fn signing_cell(algorithm: Option<u16>, required: bool) -> String {
    let algorithm = signing(algorithm).unwrap_or("-");
    if required { format!("{algorithm} required") } else { algorithm.to_owned() }
}

/// [MS-SMB2] 2.2.3.1.2 Ciphers.
pub(super) fn cipher(cipher: Option<u16>) -> Option<&'static str> {
    Some(match cipher? {
        1 => "AES-128-CCM",
        2 => "AES-128-GCM",
        3 => "AES-256-CCM",
        4 => "AES-256-GCM",
        _ => "unknown",
    })
}

fn unix_seconds(time: FileTime) -> i64 {
    time.to_unix().0
}

/// Formats a time as ISO 8601, UTC.
fn since(time: FileTime) -> String {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_unix(unix_seconds(time));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::{dialect, since};
    use dtyp::FileTime;

    #[test]
    fn times_are_shown_in_utc() {
        let time = FileTime((1_700_000_000 + 11_644_473_600) * 10_000_000);
        assert_eq!(since(time), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn an_unknown_dialect_is_shown_as_its_number() {
        assert_eq!(dialect(0x0311), "3.1.1");
        assert_eq!(dialect(0x02ff), "0x02ff");
    }
}
