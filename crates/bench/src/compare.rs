//! Comparison of Choro with Samba: the same requests to both, over shares with random parameters.
//!
//! A seed decides on the parameters of each share (`parameters`) and on the requests
//! (`operation`), which a client of each server sends in turn (`peer`). Compared are the
//! statuses, the data that must be the same, and at the end the folders (`disk`). A list in the
//! tree explains the differences that are known (`explanation`); others are faults.
//!
//! A difference makes others: a file that one server has refused is missing later. So the requests
//! of a share are divided into rounds, each in a folder of its own, and names that have differed in
//! a round are not compared again in it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::client::Protection;
use crate::server::{Kind, Server};

mod disk;
pub mod explanation;
mod operation;
mod parameters;
mod peer;
mod random;

use disk::Entry;
use explanation::{Difference, Explanations, Findings};
use operation::{Operation, SLOTS};
use parameters::Parameters;
use peer::{Answer, Peer};
use random::Random;

/// Extent of a comparison, and its seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number that decides on everything else.
    pub seed: u64,
    /// Number of shares at each server.
    pub shares: usize,
    /// Requests in all, at each server.
    pub requests: usize,
    /// The only share to send requests to; `None` for all.
    pub only: Option<usize>,
}

/// Requests of a round, which has a folder of its own.
const ROUND_REQUESTS: usize = 25;

/// User that shares with `force user` act as; every system has it.
const FORCED_USER: (&str, u32) = ("daemon", 1);

/// Global parameters of both: Samba would let a client wait a second for each sharing violation.
const GLOBAL: &str = "defer sharing violations = no\nunix extensions = no\n";

/// Both servers, and a client of each.
struct Pair {
    peers: [Peer; 2],
    folders: [PathBuf; 2],
    servers: [Server; 2],
}

/// Compares the servers, and returns the differences.
///
/// # Errors
///
/// A server cannot be started, or ends a connection.
pub fn run(
    plan: Plan,
    choro: &Path,
    explanations: Explanations,
    progress: &mut dyn io::Write,
) -> Result<Findings> {
    let site = tempfile::Builder::new().prefix("choro-compare.").tempdir()?;
    // The forced user has to reach the shares.
    fs::set_permissions(site.path(), fs::Permissions::from_mode(0o755))?;
    let mut random = Random::new(plan.seed);
    let shares: Vec<Parameters> =
        (0..plan.shares).map(|_| Parameters::choose(&mut random)).collect();
    let seeds: Vec<u64> = shares.iter().map(|_| random.next()).collect();
    let mut pair = Pair::start(site.path(), choro, &shares)?;
    let mut findings = Findings::new(explanations, plan.only.is_some());
    let requests = plan.requests.div_ceil(plan.shares.max(1));
    for (index, (share, seed)) in shares.iter().zip(seeds).enumerate() {
        if plan.only.is_some_and(|only| only != index) {
            continue;
        }
        let before = findings.unexplained();
        if let Err(error) = pair.compare_share(index, share, (seed, requests), &mut findings) {
            let place = Place { share: index, round: 0, parameters: share };
            pair.go_on_after(&error, &place, &mut findings)?;
        }
        let new = findings.unexplained() - before;
        if new > 0 {
            writeln!(progress, "share {index}: {new} differences without an explanation")?;
        }
    }
    Ok(findings)
}

/// States of a connection after an error.
const ENDED: &str = "ended";
const OPEN: &str = "open";

/// State of a server's connection after an error, which names the server.
fn end_of(kind: Kind, error: &anyhow::Error) -> &'static str {
    if error.chain().any(|it| it.to_string() == kind.name()) { ENDED } else { OPEN }
}

fn share_name(index: usize) -> String {
    format!("share{index:03}")
}

impl Pair {
    fn start(site: &Path, choro: &Path, shares: &[Parameters]) -> Result<Self> {
        let start = |kind: Kind| -> Result<(Server, PathBuf)> {
            let directory = site.join(kind.name());
            let folder = directory.join("shares");
            let mut text = GLOBAL.to_owned();
            for (index, share) in shares.iter().enumerate() {
                let name = share_name(index);
                let path = folder.join(&name);
                fs::create_dir_all(&path)?;
                if share.has_forced_user() {
                    chown(&path, Some(FORCED_USER.1), Some(FORCED_USER.1))?;
                }
                write!(text, "[{name}]\npath = {}\n{}", path.display(), share.text())?;
            }
            Ok((Server::start_with(kind, &directory, choro, &text)?, folder))
        };
        let (samba, samba_folder) = start(Kind::Samba)?;
        let (own, own_folder) = start(Kind::Choro)?;
        let peers = [samba.connect(Protection::Signed)?, own.connect(Protection::Signed)?];
        Ok(Self {
            peers: peers.map(Peer::new),
            folders: [samba_folder, own_folder],
            servers: [samba, own],
        })
    }

    /// Notes that a connection has ended, and replaces both.
    fn go_on_after(
        &mut self,
        error: &anyhow::Error,
        place: &Place<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        let states = [Kind::Samba, Kind::Choro].map(|kind| end_of(kind, error));
        let request = format!("{error:#}");
        findings.add(place.difference("connection", states[0], states[1], &request));
        if states == [ENDED, OPEN] {
            // Otherwise Choro counts this connection where a share has a limit.
            let _ = self.peers[1].disconnect();
        }
        let [samba, own] = &self.servers;
        let peers = [samba.connect(Protection::Signed)?, own.connect(Protection::Signed)?];
        self.peers = peers.map(Peer::new);
        Ok(())
    }

    fn compare_share(
        &mut self,
        index: usize,
        share: &Parameters,
        (seed, requests): (u64, usize),
        findings: &mut Findings,
    ) -> Result<()> {
        let mut random = Random::new(seed);
        let place = Place { share: index, round: 0, parameters: share };
        if !self.connect_share(&place, findings)? {
            return Ok(());
        }
        for round in 0..requests.div_ceil(ROUND_REQUESTS) {
            let place = Place { share: index, round, parameters: share };
            if let Err(error) = self.compare_round(&place, &mut random, findings) {
                // The next round has another folder, and needs nothing of this one.
                self.go_on_after(&error, &place, findings)?;
                if !self.connect_share(&place, findings)? {
                    return Ok(());
                }
            }
        }
        self.each(Peer::disconnect).context("TREE_DISCONNECT")?;
        Ok(())
    }

    /// Connects both clients to a share. Returns false if one of them may not.
    fn connect_share(&mut self, place: &Place<'_>, findings: &mut Findings) -> Result<bool> {
        let name = share_name(place.share);
        let connected = self.each(|peer| peer.connect(&name))?;
        place.compare("connect", "", &connected, &mut BTreeSet::new(), findings);
        Ok(connected.iter().all(Answer::is_success))
    }

    fn compare_round(
        &mut self,
        place: &Place<'_>,
        random: &mut Random,
        findings: &mut Findings,
    ) -> Result<()> {
        let folder = format!("r{}", place.round);
        let mut tainted = BTreeSet::new();
        let made = self.each(|peer| peer.make_folder(&folder))?;
        if !place.compare("mkdir", "", &made, &mut tainted, findings) {
            return Ok(());
        }
        let has_folder = made[0].is_success();
        let mut is_lost = false;
        for _ in 0..ROUND_REQUESTS {
            let operation = Operation::choose(random, &self.peers[0].held());
            let names = self.peers[0].names_of(&operation);
            let detail = self.peers[0].describe(&operation);
            let answers =
                self.each(|peer| peer.perform(&folder, &operation)).context(detail.clone())?;
            findings.note(place.round, &detail, &answers);
            let is_known = is_lost || names.iter().any(|name| tainted.contains(name));
            let same = if is_known {
                // A rename takes what differs along.
                !operation.changes_name() || answers.iter().all(|answer| !answer.is_success())
            } else {
                let name = names.first().map_or("", String::as_str);
                let request = (operation.name(), name, detail.as_str());
                place.compare_as(request, &answers, &mut tainted, findings)
            };
            is_lost |= operation.deletes_folder();
            // Samba makes the file of a stream even if it refuses the stream then.
            let is_refused = operation.names_stream() && !answers[0].is_success();
            // Samba forgets by a rename that the file is to be deleted.
            let is_kept = self.peers[0].renames_pending(&operation);
            if !same || is_refused || is_kept {
                // Only one server may have marked the folder for deletion, or renamed it.
                is_lost |= is_known && names.iter().any(String::is_empty);
                tainted.extend(names);
            }
            self.drop_lonely_opens()?;
        }
        self.each(|peer| peer.close_all().map(|()| Answer::default()))?;
        if has_folder && !is_lost {
            self.compare_disk(place, &folder, &tainted, findings)?;
        }
        Ok(())
    }

    /// Closes what only one server has opened.
    fn drop_lonely_opens(&mut self) -> Result<()> {
        for slot in 0..SLOTS {
            let [samba, own] = &mut self.peers;
            if samba.has_open(slot) != own.has_open(slot) {
                samba.close(slot).context(Kind::Samba.name())?;
                own.close(slot).context(Kind::Choro.name())?;
            }
        }
        Ok(())
    }

    fn compare_disk(
        &self,
        place: &Place<'_>,
        folder: &str,
        tainted: &BTreeSet<String>,
        findings: &mut Findings,
    ) -> Result<()> {
        let share = share_name(place.share);
        let read = |at: usize| disk::read(&self.folders[at].join(&share), folder);
        let (samba, own) = (read(0)?, read(1)?);
        let names: BTreeSet<&String> = samba.keys().chain(own.keys()).collect();
        for name in names {
            let top = name.split('/').next().unwrap_or_default().to_lowercase();
            if tainted.contains(&top) {
                continue;
            }
            let texts = [samba.get(name), own.get(name)].map(Entry::text);
            for ((field, samba), (_, own)) in texts[0].iter().zip(&texts[1]) {
                if samba != own {
                    let detail = format!("{folder}/{name}");
                    findings.add(place.difference(&format!("disk.{field}"), samba, own, &detail));
                }
            }
        }
        Ok(())
    }

    /// Has both clients do the same; Samba's first.
    fn each(&mut self, act: impl Fn(&mut Peer) -> Result<Answer>) -> Result<[Answer; 2]> {
        let [samba, own] = &mut self.peers;
        Ok([act(samba).context("Samba")?, act(own).context("Choro")?])
    }
}

/// Share and round of a comparison.
struct Place<'a> {
    share: usize,
    round: usize,
    parameters: &'a Parameters,
}

impl Place<'_> {
    /// Notes differences of two answers. Returns true if both succeeded or both failed alike.
    fn compare(
        &self,
        operation: &str,
        detail: &str,
        answers: &[Answer; 2],
        tainted: &mut BTreeSet<String>,
        findings: &mut Findings,
    ) -> bool {
        self.compare_as((operation, "", detail), answers, tainted, findings)
    }

    fn compare_as(
        &self,
        (operation, name, detail): (&str, &str, &str),
        answers: &[Answer; 2],
        tainted: &mut BTreeSet<String>,
        findings: &mut Findings,
    ) -> bool {
        let [samba, own] = answers;
        let mut same = samba.status == own.status;
        if !same {
            let texts = [samba, own].map(|it| format!("{:?}", it.status));
            let kind = format!("{operation}.status");
            findings.add(self.difference(&kind, &texts[0], &texts[1], detail));
            return false;
        }
        let fields: BTreeSet<_> = samba.fields.keys().chain(own.fields.keys()).collect();
        for (field, of) in fields {
            // An entry of a listing differs for itself.
            let subject = if of.is_empty() { name.to_owned() } else { of.to_lowercase() };
            let key = (*field, of.clone());
            let values =
                [samba, own].map(|it| it.fields.get(&key).map_or("absent", String::as_str));
            if values[0] != values[1] && (subject.is_empty() || !tainted.contains(&subject)) {
                let detail = format!("{detail} {of}");
                let kind = format!("{operation}.{field}");
                findings.add(self.difference(&kind, values[0], values[1], detail.trim()));
                same &= !of.is_empty();
                tainted.insert(subject);
            }
        }
        same
    }

    fn difference(&self, kind: &str, samba: &str, own: &str, detail: &str) -> Difference {
        Difference {
            kind: kind.to_owned(),
            samba: samba.trim_end().to_owned(),
            own: own.trim_end().to_owned(),
            share: self.share,
            lines: self.parameters.lines(),
            round: self.round,
            request: detail.to_owned(),
        }
    }
}
