//! One measurement: one row, one server, once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::client::Protection;
use crate::load::fixture::Scale;
use crate::load::{Done, Limit, Load};
use crate::processor::{Processors, own_cpu};
use crate::row::{Quantity, Row, Unit, Work};
use crate::server::Server;
use crate::system_calls::Counter;

/// Time without a change after which a server's memory counts as stable.
const SETTLED: Duration = Duration::from_millis(300);

/// Longest wait for stable memory.
const SETTLING_MAX: Duration = Duration::from_secs(5);

/// Results of one measurement on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// In the unit of the row.
    pub figure: f64,
    /// Processor time, when the row has a load that is timed.
    pub cpu: Option<Cpu>,
    /// The figure to that of one channel, which was measured right before, when the row is of a
    /// capacity.
    pub of_one_channel: Option<f64>,
}

/// Processor time of a timed load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Of the server: seconds per GiB for streams, else microseconds per operation.
    pub server: f64,
    /// Of the client, in percent of the wall time: near 100 the client is the limit.
    pub client_percent: f64,
    /// Cost in the server's busiest thread, in the unit of `server`: the limit on a machine with a
    /// processor for each thread of the server.
    pub busiest: f64,
}

/// Conditions of a measurement on a server.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Sizes of the loads, in operations.
    pub scale: Scale,
    /// Duration of loads without a fixed size.
    pub duration: Duration,
    /// Processors for client and server.
    pub processors: Processors,
    /// This process has a network namespace of its own, in which it may drop packets.
    pub own_network: bool,
}

/// Measures `row` on `server`.
///
/// # Errors
///
/// The load fails, or a counter cannot be read.
pub fn measure(row: &Row, server: &Server, conditions: &Conditions) -> Result<Sample> {
    let Conditions { scale, processors, .. } = *conditions;
    // The server first, so that processes that it starts for the client inherit the processors.
    processors.apply(row.is_pinned(), server)?;
    match (row.quantity, row.work) {
        (Quantity::Capacity, _) => capacity(row, server, conditions),
        (Quantity::Memory, _) => idle_memory(server, scale),
        (Quantity::SystemCalls, _) => {
            system_calls(row, server, &mut *row.prepare(server, scale)?, scale)
        }
        (_, Work::LostChannel { loss }) => {
            let time = loss.measure(server, scale, conditions.own_network)?;
            Ok(Sample { figure: time.as_secs_f64() * 1e3, ..Sample::default() })
        }
        _ => timed(row, server, &mut *row.prepare(server, scale)?, conditions),
    }
}

/// Returns the server's capacity, and its ratio to the capacity over one channel.
fn capacity(row: &Row, server: &Server, conditions: &Conditions) -> Result<Sample> {
    let measure = |row: &Row| -> Result<(Sample, f64)> {
        let mut load = row.prepare(server, conditions.scale)?;
        let sample = timed(row, server, &mut *load, conditions)?;
        let busiest = sample.cpu.map(|cpu| cpu.busiest).filter(|busiest| *busiest > 0.0);
        Ok((sample, 1.0 / busiest.context("the server took no time that could be seen")?))
    };
    // Both within a moment, for machines change.
    let of_one = row.over_one_channel().map(|row| measure(&row)).transpose()?;
    let (sample, figure) = measure(row)?;
    Ok(Sample { figure, of_one_channel: of_one.map(|(_, one)| figure / one), ..sample })
}

fn timed(
    row: &Row,
    server: &Server,
    load: &mut dyn Load,
    conditions: &Conditions,
) -> Result<Sample> {
    let threads_before = server.processes()?.cpu_of_threads();
    let server_before = server.processes()?.cpu();
    let client_before = own_cpu();
    // Not before /proc was read, which takes its time on a busy machine.
    let limit = match row.work {
        Work::SmallFiles { .. } => Limit::Operations(conditions.scale.copied_files.into()),
        _ => Limit::after(conditions.duration),
    };
    let start = Instant::now();
    let done = load.run(limit)?;
    let wall = start.elapsed();
    ensure!(done.operations > 0, "nothing was done in the time that there was");
    let client = own_cpu().saturating_sub(client_before);
    let processes = server.processes()?;
    let server = processes.cpu().saturating_sub(server_before);
    let used = |(id, now): (u32, Duration)| {
        now.saturating_sub(threads_before.get(&id).copied().unwrap_or_default())
    };
    let busiest = processes.cpu_of_threads().into_iter().map(used).max().unwrap_or_default();
    Ok(sample(row.unit(), done, wall, Times { server, client, busiest }))
}

/// Processor time of a timed load.
#[derive(Clone, Copy, Debug)]
struct Times {
    server: Duration,
    client: Duration,
    busiest: Duration,
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn sample(
    unit: Unit,
    done: Done,
    wall: Duration,
    Times { server, client, busiest }: Times,
) -> Sample {
    let seconds = wall.as_secs_f64();
    // Amount of work, and the factor from processor time per unit of work to the cost.
    let (amount, scale) = match unit {
        Unit::GibPerSecond | Unit::MibPerSecond => (done.bytes as f64 / f64::from(1 << 20), 1024.0),
        _ => (done.operations as f64, 1e6),
    };
    let cost = |time: Duration| time.as_secs_f64() * scale / amount;
    let client_percent = client.as_secs_f64() / seconds * 100.0;
    let cpu = Cpu { server: cost(server), client_percent, busiest: cost(busiest) };
    Sample { figure: amount / seconds, cpu: Some(cpu), of_one_channel: None }
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn system_calls(row: &Row, server: &Server, load: &mut dyn Load, scale: Scale) -> Result<Sample> {
    let port = load.client().context("the load has no connection of its own")?.local_port()?;
    let pid = server
        .processes()?
        .serving(server.destination().address, port)
        .context("no process of the server has the connection")?;
    let limit = match row.work {
        // One listing is many requests already.
        Work::Listing { .. } => Limit::Operations(1),
        _ => Limit::Operations(scale.counted_operations),
    };
    let counter = Counter::attach(pid)?;
    let done = load.run(limit)?;
    let calls = counter.count()?;
    Ok(Sample { figure: calls as f64 / done.operations as f64, ..Sample::default() })
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn idle_memory(server: &Server, scale: Scale) -> Result<Sample> {
    let before = settled_memory(server)?;
    let clients = (0..scale.idle_clients)
        .map(|_| server.connect(Protection::Plain))
        .collect::<Result<Vec<_>>>()?;
    let after = settled_memory(server)?;
    let each = after.saturating_sub(before) as f64 / f64::from(scale.idle_clients);
    for client in clients {
        client.logoff()?;
    }
    Ok(Sample { figure: each / 1024.0, ..Sample::default() })
}

/// The server's private memory once it no longer changes: processes of clients that left may
/// still be at their end, and ones for clients to come at their start.
fn settled_memory(server: &Server) -> Result<u64> {
    let start = Instant::now();
    let mut last = server.processes()?.private_bytes();
    loop {
        sleep(SETTLED);
        let now = server.processes()?.private_bytes();
        if now == last || start.elapsed() > SETTLING_MAX {
            return Ok(now);
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Cpu, Times, sample};
    use crate::load::Done;
    use crate::row::Unit;

    #[test]
    fn figures_are_per_second_and_costs_per_unit_of_work() {
        let [server, client, busiest] = [500, 1500, 250].map(Duration::from_millis);
        let times = Times { server, client, busiest };
        let done = Done { operations: 4096, bytes: 4 << 30 };
        let stream = sample(Unit::MibPerSecond, done, Duration::from_secs(2), times);
        assert_eq!(stream.figure, 2048.0);
        assert_eq!(stream.cpu, Some(Cpu { server: 0.125, client_percent: 75.0, busiest: 0.0625 }));
        let done = Done { operations: 1000, bytes: 0 };
        let small = sample(Unit::PerSecond, done, Duration::from_secs(2), times);
        assert_eq!(small.figure, 500.0);
        assert_eq!(small.cpu, Some(Cpu { server: 500.0, client_percent: 75.0, busiest: 250.0 }));
    }
}
