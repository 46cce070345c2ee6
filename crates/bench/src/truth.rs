//! Verification of the load generator against independent clients.
//!
//! smbclient copies a large file both ways, with its own block size and pipelining. It should stay
//! below our figure for 1 MiB at depth 16, since it reads and writes real files; smbtorture's
//! `smb2.bench.echo` counts ECHO with one connection and one request in flight, as our row does,
//! and is the slower client. The cost of a byte or an ECHO to the *server* must be about the same
//! with either client, however fast it is: it would reveal a load generator that sends fewer
//! requests than it counts. (A put costs the server more: it creates a new file each time, and our
//! row overwrites one.)

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::client::Protection;
use crate::load::fixture::{self, STREAM};
use crate::load::metadata::Question;
use crate::load::stream::Direction;
use crate::measure::{Conditions, Cpu, measure};
use crate::options::Options;
use crate::processor::Processors;
use crate::row::{Quantity, Row, Work};
use crate::run::{fresh_directory, start_servers};
use crate::server::process_tree::reaped_cpu;
use crate::server::{SHARE, Server};
use crate::table::{Table, figure};

const MIB: usize = 1 << 20;

/// Number of copies by smbclient, so that its start counts for little.
const COPIES: u32 = 8;

/// Rate of a client, and its cost to the server.
struct Claim {
    figure: f64,
    /// Of the client, in percent of the wall time.
    client_percent: f64,
    /// Of the server, seconds per GiB or microseconds per operation.
    server_cpu: f64,
}

/// Processor time and duration of a client program.
struct Cost {
    wall: Duration,
    client: Duration,
    server: Duration,
}

/// Runs the comparison on each server.
///
/// # Errors
///
/// When a server or a client does not run.
pub fn compare(options: &Options) -> Result<Table> {
    let directory = fresh_directory(options)?;
    let servers = start_servers(options, directory.path())?;
    let processors = Processors::new(options.cpu)?;
    let conditions = Conditions {
        scale: options.scale(),
        duration: options.duration(),
        processors,
        own_network: options.own_network,
    };
    let mut table = Table::new([
        "server and work",
        "unit",
        "ours",
        "theirs",
        "our CPU",
        "their CPU",
        "server CPU, ours",
        "server CPU, theirs",
    ]);
    let mut push = |server: &Server, work: &str, unit: &str, ours: &Claim, theirs: &Claim| {
        let percent = |claim: &Claim| format!("{:.0} %", claim.client_percent);
        let mut row = vec![format!("{}, {work}", server.kind().name()), unit.to_owned()];
        row.extend([figure(ours.figure), figure(theirs.figure), percent(ours), percent(theirs)]);
        row.extend([figure(ours.server_cpu), figure(theirs.server_cpu)]);
        table.push(row);
    };
    for server in &servers {
        fixture::stream(server.share_path(), conditions.scale)?;
        for (direction, name) in [(Direction::Read, "get"), (Direction::Write, "put")] {
            let work = Work::Stream { direction, block_bytes: MIB, depth: 16 };
            let ours = our_claim(work, server, &conditions)?;
            let theirs = smbclient(server, direction)?;
            push(server, &format!("smbclient {name}"), "MiB/s", &ours, &theirs);
        }
        let work = Work::Metadata { question: Question::Echo, depth: 1 };
        let ours = our_claim(work, server, &conditions)?;
        // Still pinned, as the row is: smbtorture inherits the processor of this thread.
        let theirs = smbtorture_echo(server, conditions.duration)?;
        push(server, "smbtorture smb2.bench.echo", "op/s", &ours, &theirs);
    }
    Ok(table)
}

fn our_claim(work: Work, server: &Server, conditions: &Conditions) -> Result<Claim> {
    let row = Row { work, protection: Protection::Plain, quantity: Quantity::Throughput };
    let sample = measure(&row, server, conditions)?;
    let Cpu { client_percent, server, .. } = sample.cpu.context("the load is timed")?;
    Ok(Claim { figure: sample.figure, client_percent, server_cpu: server })
}

/// Rate of smbclient in MiB/s, from the time of the copies less that of an empty run.
fn smbclient(server: &Server, direction: Direction) -> Result<Claim> {
    let source = server.share_path().join(STREAM);
    let scratch = server.share_path().with_file_name("smbclient-copy");
    let scratch_name = scratch.to_str().context("a path in Unicode")?;
    let (copy, copied) = match direction {
        Direction::Write | Direction::WriteRandom => {
            fs::copy(&source, &scratch)?;
            (format!("put {scratch_name} put;"), server.share_path().join("put"))
        }
        Direction::Read | Direction::ReadRandom => {
            (format!("get {STREAM} {scratch_name};"), scratch.clone())
        }
    };
    let idle = run_smbclient(server, "exit")?;
    let commands = copy.repeat(usize::try_from(COPIES)?) + "exit";
    let busy = run_smbclient(server, &commands)?;
    let bytes = fs::metadata(&source)?.len();
    ensure!(size(&copied) == Some(bytes), "smbclient did not copy the file");
    for copy in [scratch, copied] {
        if copy.exists() {
            fs::remove_file(copy)?;
        }
    }
    let of = |what: fn(&Cost) -> Duration| what(&busy).saturating_sub(what(&idle)).as_secs_f64();
    let seconds = of(|cost| cost.wall);
    #[expect(clippy::cast_precision_loss, reason = "figures are for people")]
    let mib = (bytes >> 20) as f64 * f64::from(COPIES);
    Ok(Claim {
        figure: mib / seconds,
        client_percent: of(|cost| cost.client) / seconds * 100.0,
        server_cpu: of(|cost| cost.server) / (mib / 1024.0),
    })
}

fn size(path: &Path) -> Option<u64> {
    Some(fs::metadata(path).ok()?.len())
}

/// Runs `commands` in smbclient, and returns the cost.
fn run_smbclient(server: &Server, commands: &str) -> Result<Cost> {
    let mut command = Command::new("smbclient");
    command.arg(share(server)).args(login(server)).args(["-m", "SMB3_11", "-c", commands]);
    Ok(run(&mut command, server)?.0)
}

/// Rate of smbtorture's echo per second.
fn smbtorture_echo(server: &Server, duration: Duration) -> Result<Claim> {
    // Whole seconds only, and enough of them to make little of the start.
    let duration = Duration::from_secs(duration.as_secs().max(3));
    let mut command = Command::new("smbtorture");
    command
        .arg(share(server))
        .args(login(server))
        .arg(format!("--option=torture:timelimit={}", duration.as_secs()))
        .args(["--option=torture:nprocs=1", "--option=torture:qdepth=1"])
        .args(["--option=torture:progress=no", "smb2.bench.echo"]);
    let (cost, printed) = run(&mut command, server)?;
    let figure =
        operations_per_second(&printed).with_context(|| format!("it wrote:\n{printed}"))?;
    Ok(Claim {
        figure,
        client_percent: cost.client.as_secs_f64() / cost.wall.as_secs_f64() * 100.0,
        server_cpu: cost.server.as_secs_f64() * 1e6 / (figure * duration.as_secs_f64()),
    })
}

fn share(server: &Server) -> String {
    format!("//{}/{SHARE}", server.destination().address.ip())
}

fn login(server: &Server) -> [String; 3] {
    let destination = server.destination();
    let user = format!("-U{}%{}", destination.user, destination.password);
    ["-p".into(), destination.address.port().to_string(), user]
}

/// Runs a client, and returns its cost and output.
fn run(command: &mut Command, server: &Server) -> Result<(Cost, String)> {
    let server_before = server.processes()?.cpu();
    let client_before = reaped_cpu()?;
    let start = Instant::now();
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    let wall = start.elapsed();
    let client = reaped_cpu()?.saturating_sub(client_before);
    let server = server.processes()?.cpu().saturating_sub(server_before);
    // smbtorture writes results to the one and figures to the other.
    let printed =
        [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(status.success(), "{:?}: {printed}", command.get_program());
    Ok((Cost { wall, client, server }, printed))
}

/// The last "num/s=N": that of all the time.
fn operations_per_second(text: &str) -> Option<f64> {
    let at = text.rfind("num/s=")?;
    let rest = text[at + "num/s=".len()..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::operations_per_second;

    #[test]
    fn the_last_rate_counts() {
        let text = "open[num/s=1,avslat=0.1]\ropen[num/s=12345,avslat=0.000042]\n";
        assert_eq!(operations_per_second(text), Some(12_345.0));
        assert_eq!(operations_per_second("nothing"), None);
    }
}
