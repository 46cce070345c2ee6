//! `choro status --cluster`: nodes and public addresses, as the ctdbd of this node has them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use config::LoadError;
use ctdb::{NoDaemon, Node, Observation, Standing};
use observe::report::{self, Row};
use settings::Settings;

const NODE_TITLES: &[&str] = &["NODE", "ADDRESS", "STATE", "THIS"];
const ADDRESS_TITLES: &[&str] = &["PUBLIC ADDRESS", "NODE"];

/// Time in which ctdbd must answer. One that is busy with a recovery does so within milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Prints the state of the cluster.
///
/// # Errors
/// There is no ctdbd, or it does not answer.
pub(super) fn show(config: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let socket = socket_of(Settings::find(config))?;
    let seen = look(&socket).with_context(|| {
        format!("cannot look at the cluster through the socket {}", socket.display())
    })?;
    if !seen.unanswered.is_empty() {
        writeln!(io::stderr(), "choro: ctdbd does not tell: {}", seen.unanswered.join(", "))?;
    }
    if json {
        return report::print_json(rows(&seen));
    }
    report::print(&text(&seen))
}

/// Asks the ctdbd at a socket for the state of the cluster.
///
/// # Errors
/// There is no ctdbd, or it does not answer.
pub(in crate::command) fn look(socket: &Path) -> Result<Observation, NoDaemon> {
    Observation::take(socket, PATIENCE)
}

/// Returns the socket that a configuration names, also one that is refused for its cluster.
///
/// # Errors
/// The configuration is refused for another reason.
fn socket_of(settings: anyhow::Result<Settings>) -> anyhow::Result<PathBuf> {
    let named = match settings {
        Ok(settings) => settings.config.global.ctdbd_socket.clone(),
        Err(error) => match error.downcast_ref() {
            Some(LoadError::Clustered { socket, .. }) => socket.clone(),
            _ => return Err(error),
        },
    };
    Ok(socket(&named))
}

/// Returns the path of ctdbd's socket for a value of `ctdbd socket`.
pub(in crate::command) fn socket(named: &str) -> PathBuf {
    if named.is_empty() { ctdb::SOCKET } else { named }.into()
}

/// Returns the part that this node takes in the cluster, in words.
pub(in crate::command) fn part(standing: Standing) -> String {
    match standing {
        Standing::Active => "takes part in the cluster".to_owned(),
        Standing::Inactive(flags) => format!("takes no part: it is {flags}"),
        Standing::Recovering => "waits while the cluster recovers".to_owned(),
        Standing::Starting(state) => {
            format!("takes no part yet: ctdbd is in the state {}", state.name())
        }
        Standing::Unknown => "has an unknown state".to_owned(),
    }
}

fn text(seen: &Observation) -> String {
    let state = &seen.state;
    let number = shown(state.own_number);
    let mut text = format!("This is node {number}. It {}.\n", part(state.standing()));
    let generation = shown(state.map.as_ref().map(|map| map.generation));
    let recovery = state.recovery.map_or(UNKNOWN, |mode| mode.name());
    text += &format!("Generation: {generation}\nRecovery mode: {recovery}\n\n");
    text += &format!("Nodes: {}\n", state.nodes.len());
    let is_own = |node: &Node| Some(node.number) == state.own_number;
    let cells = |node: &Node| {
        let this = if is_own(node) { "yes" } else { "" };
        vec![node.number.to_string(), address(node), node.flags.to_string(), this.to_owned()]
    };
    let nodes: Vec<_> = state.nodes.iter().map(cells).collect();
    text += &report::table(NODE_TITLES, &nodes);
    text += &format!("\nPublic addresses: {}\n", seen.public_addresses.len());
    if !seen.public_addresses.is_empty() {
        let cells = seen.public_addresses.iter().map(|(address, node)| {
            vec![
                address.to_string(),
                node.map_or_else(|| "none".to_owned(), |node| node.to_string()),
            ]
        });
        text += &report::table(ADDRESS_TITLES, &cells.collect::<Vec<_>>());
    }
    text
}

fn rows(seen: &Observation) -> Vec<Row> {
    let state = &seen.state;
    let keepalive = seen.keepalive;
    let cluster = vec![
        ("kind", "cluster".into()),
        ("own_node", state.own_number.into()),
        ("generation", state.map.as_ref().map(|map| map.generation).into()),
        ("recovery_mode", state.recovery.map(|mode| mode.name()).into()),
        ("run_state", state.run_state.map(|state| state.name()).into()),
        ("is_active", (state.standing() == Standing::Active).into()),
        ("keepalive_interval_s", keepalive.map(|it| it.interval).into()),
        ("keepalive_limit", keepalive.map(|it| it.limit).into()),
    ];
    let node = |node: &Node| {
        vec![
            ("kind", "node".into()),
            ("node", node.number.into()),
            ("address", node.address.map(|it| it.to_string()).into()),
            ("state", node.flags.to_string().into()),
            ("is_active", node.flags.is_active().into()),
        ]
    };
    let addresses = seen.public_addresses.iter().map(|(address, node)| {
        vec![
            ("kind", "public_address".into()),
            ("address", address.to_string().into()),
            ("node", (*node).into()),
        ]
    });
    std::iter::once(cluster).chain(state.nodes.iter().map(node)).chain(addresses).collect()
}

/// Shown in place of an answer that did not come.
const UNKNOWN: &str = "unknown";

fn shown(number: Option<u32>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string())
}

fn address(node: &Node) -> String {
    node.address.map_or_else(|| "-".to_owned(), |address| address.to_string())
}
