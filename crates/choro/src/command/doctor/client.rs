//! `choro doctor client`: why is a client slow, unsigned, or on one connection?

use std::net::SocketAddr;

use clap::Args;
use config::choice::Encryption;
use config::{Config, Global};
use interfaces::Offer;
use messaging::{Channel, SingleChannel};
use observe::report::{self, Row};
use observe::{Activities, Activity};
use settings::Settings;
use tables::{ClientRecord, Registry, SessionRecord, TreeConnectRecord};
use trace::Phase;

use super::finding::{Change, Finding, Shown, lines, word};
use crate::command::status::channels::SessionChannels;
use crate::command::status::{cipher, dialect, signing};

/// Latency at which people notice a delay, in nanoseconds: a client is slow if one request in a
/// hundred takes longer.
const SLOW_NS: u64 = 100_000_000;

/// Requests that a client must have made before its latency says anything, unless they have taken
/// [`TIME_MIN_NS`].
const REQUESTS_MIN: u64 = 20;

/// Time of a client's requests, in nanoseconds, after which a few say enough: a large copy makes
/// few of them.
const TIME_MIN_NS: u64 = 3_000_000_000;

/// The first dialect with several channels, and with encryption: [MS-SMB2] 1.7.
const DIALECT_3_0: u16 = 0x0300;

/// Show why a connected client is slow, unsigned, or has one channel.
///
/// Latencies are those since the client came. The phases in which requests wait are those of
/// `choro top`.
#[derive(Args, Debug)]
pub(super) struct Client {
    /// Address of the client, name of its user, or `all`.
    client: String,
}

/// A client, and what the server knows of it.
struct Examined<'a> {
    record: &'a ClientRecord,
    sessions: Vec<&'a SessionRecord>,
    trees: Vec<&'a TreeConnectRecord>,
    channels: Vec<&'a Channel>,
    activity: Option<&'a Activity>,
}

/// State of the server that clients are examined with.
pub(super) struct Connected {
    clients: Vec<ClientRecord>,
    sessions: Vec<SessionRecord>,
    trees: Vec<TreeConnectRecord>,
    channels: SessionChannels,
    activities: Activities,
}

impl Connected {
    /// # Errors
    /// The tables or the pages of the workers cannot be read.
    pub(super) fn read(
        settings: &Settings,
        registry: &Registry,
        activities: Activities,
    ) -> anyhow::Result<Self> {
        let sessions = registry.list_sessions()?.records;
        let mut clients = registry.list_clients()?.records;
        clients.retain(|client| client.dialect != 0);
        Ok(Self {
            clients,
            trees: registry.list_tree_connects()?.records,
            channels: SessionChannels::ask(settings, registry.supervisor(), &sessions),
            sessions,
            activities,
        })
    }

    fn examined(&self) -> impl Iterator<Item = Examined<'_>> {
        self.clients.iter().map(|record| {
            let is_its = |session: &&SessionRecord| session.server_id == record.server_id;
            let sessions: Vec<&SessionRecord> = self.sessions.iter().filter(is_its).collect();
            let channels = sessions.iter().flat_map(|it| self.channels.of(it.session_id)).collect();
            let trees = self.trees.iter().filter(|it| it.server_id == record.server_id).collect();
            let pid = record.server_id.pid;
            let activity = self.activities.clients.iter().find(|it| it.pid == pid);
            Examined { record, sessions, trees, channels, activity }
        })
    }

    /// Returns the findings about all clients.
    pub(super) fn findings(&self, config: &Config) -> Vec<Finding> {
        self.examined().flat_map(|it| it.findings(config, &self.activities.throttling)).collect()
    }
}

impl Client {
    /// Prints the clients, and returns the findings about them.
    ///
    /// # Errors
    /// There is no such client, or the server does not run.
    pub(super) fn run(
        &self,
        settings: &Settings,
        shown: &Shown,
        json: bool,
    ) -> anyhow::Result<Vec<Finding>> {
        let lock = &settings.directories.lock;
        // It opens the tables for a moment, and a process cannot have them open twice.
        let activities = Activities::read(lock)?;
        let connected = Connected::read(settings, &Registry::observe(lock)?, activities)?;
        let examined: Vec<Examined<'_>> =
            connected.examined().filter(|it| it.is_called(&self.client)).collect();
        if examined.is_empty() && self.client != "all" {
            anyhow::bail!("no client {} is connected; `choro status` lists them", self.client);
        }
        let throttling = &connected.activities.throttling;
        let findings: Vec<Finding> =
            examined.iter().flat_map(|it| it.findings(&settings.config, throttling)).collect();
        if json {
            let rows = examined.iter().map(Examined::row);
            report::print_json(rows.chain(findings.iter().map(|it| it.row(shown))).collect())?;
        } else {
            report::print(&lines(examined.iter().flat_map(Examined::lines)))?;
        }
        Ok(findings)
    }
}

impl Examined<'_> {
    fn is_called(&self, name: &str) -> bool {
        let address = self.record.client_address.parse::<SocketAddr>();
        let is_address = |address: SocketAddr| {
            name == self.record.client_address || address.ip().to_canonical().to_string() == name
        };
        name == "all"
            || address.is_ok_and(is_address)
            || self.sessions.iter().any(|session| session.user.eq_ignore_ascii_case(name))
    }

    /// The client in sentences: its address, and its users.
    fn name(&self) -> String {
        let users: Vec<&str> = self.sessions.iter().map(|it| it.user.as_str()).collect();
        match users.is_empty() {
            true => self.record.client_address.clone(),
            false => format!("{} ({})", self.record.client_address, users.join(", ")),
        }
    }

    fn is_signed(&self) -> bool {
        self.sessions.iter().all(|session| session.signing_required)
    }

    fn is_encrypted(&self) -> bool {
        let is_share_encrypted = |session: &SessionRecord| {
            let mut trees =
                self.trees.iter().filter(|it| it.session_id == session.session_id).peekable();
            trees.peek().is_some() && trees.all(|tree| tree.encrypted || tree.share == "IPC$")
        };
        !self.sessions.is_empty()
            && self.sessions.iter().all(|it| it.encrypted || is_share_encrypted(it))
    }

    fn lines(&self) -> Vec<String> {
        let record = self.record;
        let protection = match (self.is_encrypted(), self.is_signed()) {
            (true, _) => format!("encrypted ({})", cipher(record.cipher).unwrap_or("-")),
            (false, true) => {
                format!("signed ({})", signing(record.signing_algorithm).unwrap_or("-"))
            }
            (false, false) => "neither signed nor encrypted".to_owned(),
        };
        let channels = self.channels.len();
        let mut lines = vec![
            format!("Client:    {}", self.name()),
            format!("Dialect:   {}, {protection}", dialect(record.dialect)),
            format!("Channels:  {channels}"),
        ];
        if let Some(Activity { requests, p50_ns, p99_ns, time_goes_to, .. }) = self.activity {
            let (p50, p99) = (report::duration(*p50_ns), report::duration(*p99_ns));
            let waits = time_goes_to.clone().unwrap_or_else(|| "-".to_owned());
            lines
                .push(format!("Requests:  {requests}, p50 {p50}, p99 {p99}; time goes to {waits}"));
        }
        lines
    }

    fn row(&self) -> Row {
        let record = self.record;
        let users: Vec<&str> = self.sessions.iter().map(|it| it.user.as_str()).collect();
        vec![
            ("kind", "client".into()),
            ("client_address", record.client_address.clone().into()),
            ("users", users.join(", ").into()),
            ("dialect", dialect(record.dialect).into()),
            ("signed", self.is_signed().into()),
            ("encrypted", self.is_encrypted().into()),
            ("channels", self.channels.len().into()),
            ("requests", self.activity.map(|it| it.requests).into()),
            ("p50_ns", self.activity.map(|it| it.p50_ns).into()),
            ("p99_ns", self.activity.map(|it| it.p99_ns).into()),
            ("time_goes_to", self.activity.and_then(|it| it.time_goes_to.clone()).into()),
        ]
    }

    fn findings(&self, config: &Config, throttling: &[String]) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.slow(throttling));
        findings.extend(self.protection(config));
        findings.extend(self.single_channel(&config.global));
        findings
    }

    fn slow(&self, throttling: &[String]) -> Option<Finding> {
        let activity = self.activity?;
        let says_little = activity.requests < REQUESTS_MIN && activity.ns < TIME_MIN_NS;
        if says_little || activity.p99_ns < SLOW_NS {
            return None;
        }
        let p99 = report::duration(activity.p99_ns);
        let fact =
            format!("{} is slow: one request in a hundred takes {p99} or more.", self.name());
        let reason = match &activity.time_goes_to {
            Some(waits) => format!("Most of the time goes to: {waits}."),
            None => "No phase stands out.".to_owned(),
        };
        let finding = Finding::warning("slow", fact, reason);
        let pid = activity.pid;
        Some(match activity.slowest? {
            Phase::Throttled => throttling.iter().fold(finding, |finding, class| {
                let class = word(class);
                finding.command(format!("choro qos set {class} max-bandwidth=none max-iops=none"))
            }),
            Phase::Storage => finding
                .command("choro qos show --storage")
                .advice("the disk or the network file system of the share has to become faster"),
            Phase::Break => {
                let share = self.trees.iter().find(|it| it.share != "IPC$");
                let section = share.map_or("SHARE", |it| it.share.as_str());
                finding.change(Change::line(section, "oplocks = no"))
            }
            Phase::Sending | Phase::Receiving => finding
                .advice("measure the network between both with `iperf3`; the client may be busy"),
            _ => finding.command(format!("choro profile {pid} --seconds 10 -o flame.svg")),
        })
    }

    fn protection(&self, config: &Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.is_encrypted() || self.sessions.is_empty() {
            return findings;
        }
        let global = &config.global;
        if !self.is_signed() {
            let fact = format!("The messages of {} are not signed.", self.name());
            let cannot_sign = self.sessions.iter().any(|it| it.signing_algorithm.is_none());
            findings.push(match cannot_sign {
                true => {
                    let reason = "A guest has no key to sign with.";
                    let finding = Finding::warning("unsigned_guest", fact, reason);
                    finding.change(Change::global("map to guest = never"))
                }
                false => {
                    let reason = "Neither the client nor `server signing` requires it.";
                    let finding = Finding::warning("unsigned", fact, reason);
                    finding.change(Change::global("server signing = mandatory"))
                }
            });
        }
        let fact = format!("The messages of {} are not encrypted.", self.name());
        let is_old = self.record.dialect < DIALECT_3_0;
        findings.push(match (self.record.cipher, config.defaults.smb_encrypt) {
            (None, _) if is_old => {
                let reason =
                    format!("The dialect {} cannot encrypt.", dialect(self.record.dialect));
                older(global, Finding::note("unencrypted", fact, reason))
            }
            (_, Encryption::Off) => {
                let reason = "`smb encrypt = off` switches encryption off.";
                let finding = Finding::note("unencrypted", fact, reason);
                finding.change(Change::global("smb encrypt = desired"))
            }
            (None, _) => {
                let reason = "The client offered no cipher.";
                Finding::note("unencrypted", fact, reason)
                    .advice("switch encryption on at the client")
            }
            (Some(_), _) => {
                let reason = "Neither the client nor `smb encrypt` requires it.";
                let finding = Finding::note("unencrypted", fact, reason);
                finding.change(Change::global("smb encrypt = required"))
            }
        });
        findings
    }

    fn single_channel(&self, global: &Global) -> Option<Finding> {
        let single = self.channels.iter().find_map(|channel| channel.single)?;
        let fact = format!("{} has one channel only.", self.name());
        let finding = Finding::note("single_channel", fact, single.why());
        Some(match single {
            SingleChannel::Dialect => older(global, finding),
            SingleChannel::NotWanted | SingleChannel::NeverAsked => finding.advice(
                "on Linux, mount with `multichannel,max_channels=4`; on Windows: \
                         Set-SmbClientConfiguration -EnableMultiChannel $true",
            ),
            SingleChannel::SwitchedOff => {
                finding.change(Change::global("server multi channel support = yes"))
            }
            SingleChannel::Unsupported => finding.advice("use a newer kernel"),
            SingleChannel::Guest => finding.advice("log on with the name of a user"),
            SingleChannel::OneInterface => match Offer::now(global) {
                Ok(Offer { offered, .. }) if !offered.is_empty() => {
                    let address = offered[0].address;
                    let line = format!("interfaces = \"{address};capability=RSS\"");
                    finding.change(Change::global(line))
                }
                _ => finding.advice("add a second network interface"),
            },
            SingleChannel::NotConnected => {
                let offered = Offer::now(global).map(|offer| offer.offered).unwrap_or_default();
                let addresses: Vec<String> =
                    offered.iter().map(|it| it.address.to_string()).collect();
                finding.advice(format!(
                    "see whether the client reaches each of these addresses at TCP port {}: {}",
                    global.smb_ports.first().copied().unwrap_or(445),
                    addresses.join(", ")
                ))
            }
        })
    }
}

/// A client with an old dialect has no better one, or the server refuses those.
fn older(global: &Global, finding: Finding) -> Finding {
    match global.dialects() {
        (_, max) if max < DIALECT_3_0 => {
            finding.change(Change::global("server max protocol = SMB3_11"))
        }
        _ => finding.advice("use a client with SMB 3"),
    }
}
