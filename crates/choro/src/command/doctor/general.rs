//! `choro doctor` without a question: the examination of the whole server.

use std::net::Ipv4Addr;

use object::ObjectPath;
use observe::Activities;
use settings::Settings;
use users::UserDatabase;

use super::access::{self, Extent, Tables};
use super::client::Connected;
use super::configuration;
use super::finding::{Finding, Severity};
use super::network;
use crate::command::check::paths;

/// Pairs of a user and a share that are examined; each takes a millisecond.
const PAIRS_MAX: usize = 1_000;

/// Examines configuration, server, network, shares and clients.
///
/// # Errors
/// Something cannot be read.
pub(super) fn examine(settings: &Settings) -> anyhow::Result<Vec<Finding>> {
    let mut findings = configuration::examine(settings);
    let lock = &settings.directories.lock;
    // It opens the tables for a moment, and a process cannot have them open twice.
    let activities = Activities::read(lock);
    let tables = Tables::of(settings);
    let supervisor = tables.as_ref().map(|tables| tables.registry.supervisor().pid);
    findings.extend(network::examine(settings, supervisor)?);
    let Ok(tables) = tables else { return Ok(findings) };
    findings.extend(configuration::is_outdated(settings));
    findings.extend(shares(settings, &tables)?);
    let connected = Connected::read(settings, &tables.registry, activities?)?;
    findings.extend(connected.findings(&settings.config));
    Ok(findings)
}

/// Whether each user reaches the folder of each share that admits the user.
fn shares(settings: &Settings, tables: &Tables) -> anyhow::Result<Vec<Finding>> {
    let missing: Vec<&str> =
        paths::missing(&settings.config).into_iter().map(|(share, ..)| share).collect();
    let database = UserDatabase::open(&settings.users_path())?;
    let served = settings.config.shares.iter().filter(|share| share.available);
    let served: Vec<_> = served.filter(|it| !missing.contains(&it.name.as_str())).collect();
    let users = database.users().iter().filter(|user| user.enabled);
    let pairs = users.flat_map(|user| served.iter().map(move |share| (user, share)));
    let mut findings: Vec<Finding> = Vec::new();
    for (user, share) in pairs.take(PAIRS_MAX) {
        let root = ObjectPath::root();
        let loopback = Ipv4Addr::LOCALHOST.into();
        let target = (&*share.name, root);
        let answer =
            access::examine(settings, tables, &user.name, target, loopback, Extent::Unmeant)?;
        let works = answer.is_usable();
        let new = answer.findings.into_iter().filter(|it| is_unintended(it.cause));
        for mut finding in new {
            if works {
                finding.severity = finding.severity.max(Severity::Warning);
            }
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

/// Lists of users, and shares for reading only, are mostly meant; permissions that contradict the
/// share are not.
fn is_unintended(cause: &str) -> bool {
    !matches!(
        cause,
        "user_lists"
            | "hosts"
            | "server_hosts"
            | "guest"
            | "share_security"
            | "read_only_share"
            | "made_at_connect"
    )
}
