//! Several jobs in flight over one connection.

use anyhow::{Result, bail};

use super::{Client, Reply, Slot};

/// State of a job after a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// It is done; its slot is free.
    Done,
    /// It waits for more answers.
    More,
}

/// A chain of requests of which each needs the answer to the one before.
pub trait Job {
    /// Sends the first request.
    ///
    /// # Errors
    ///
    /// When the connection breaks.
    fn start(&mut self, client: &mut Client, slot: Slot) -> Result<()>;

    /// Takes an answer and sends the next request.
    ///
    /// # Errors
    ///
    /// When the connection breaks or the answer is wrong.
    fn advance(&mut self, client: &mut Client, slot: Slot, reply: &Reply) -> Result<Progress>;
}

/// Does jobs, `depth` at a time, until `next` has no more, and returns how many were done.
///
/// # Errors
///
/// The first error of a job. The connection is of no use then.
pub fn run<J: Job>(
    client: &mut Client,
    depth: usize,
    mut next: impl FnMut() -> Option<J>,
) -> Result<u64> {
    let mut jobs: Vec<Option<J>> = Vec::with_capacity(depth);
    for at in 0..depth {
        jobs.push(start(client, Slot(at), &mut next)?);
    }
    let mut done = 0;
    while client.in_flight() > 0 {
        let reply = client.receive()?;
        let slot = reply.slot;
        let Some(job) = jobs.get_mut(slot.0).and_then(Option::as_mut) else {
            bail!("an answer to a job that is done: {:?}", reply.header);
        };
        if job.advance(client, slot, &reply)? == Progress::Done {
            done += 1;
            jobs[slot.0] = start(client, slot, &mut next)?;
        }
    }
    Ok(done)
}

fn start<J: Job>(
    client: &mut Client,
    slot: Slot,
    next: &mut impl FnMut() -> Option<J>,
) -> Result<Option<J>> {
    let Some(mut job) = next() else {
        return Ok(None);
    };
    job.start(client, slot)?;
    Ok(Some(job))
}
