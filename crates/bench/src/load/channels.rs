//! One client that reads or writes one file over several channels at once.

use std::thread;

use anyhow::{Context, Result};

use super::fixture::{self, STREAM, Scale};
use super::stream::{Direction, Stream};
use super::{Done, Limit, Load};
use crate::client::requests::{Purpose, open};
use crate::client::{Client, Protection};
use crate::server::Server;

/// A stream per channel, each in a thread of its own, all through one open.
#[derive(Debug)]
pub struct Channels {
    streams: Vec<Stream>,
    discards: bool,
}

impl Channels {
    /// Opens the file over the first channel, and binds the others. Data that are read may be
    /// discarded ([`Client::discard`]).
    ///
    /// # Errors
    ///
    /// The server refuses a request.
    pub fn prepare(
        server: &Server,
        scale: Scale,
        protection: Protection,
        (channels, discards): (u8, bool),
        what: (Direction, usize, usize),
    ) -> Result<Self> {
        fixture::stream(server.share_path(), scale)?;
        let mut first = server.connect(protection)?;
        let file_id = open(&mut first, Purpose::Open, STREAM)?;
        let further = (1..channels)
            .map(|number| server.bind(&first, protection, number).context("binding a channel"))
            .collect::<Result<Vec<Client>>>()?;
        let streams = std::iter::once(first)
            .chain(further)
            .map(|client| Stream::over(client, file_id, scale, what))
            .collect::<Result<_>>()?;
        Ok(Self { streams, discards })
    }
}

impl Load for Channels {
    fn run(&mut self, limit: Limit) -> Result<Done> {
        let discards = self.discards;
        let run = |stream: &mut Stream| {
            if discards { stream.discard(limit) } else { stream.run(limit) }
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                self.streams.iter_mut().map(|stream| scope.spawn(move || run(stream))).collect();
            let mut sum = Done::default();
            for thread in threads {
                let Done { operations, bytes } = thread.join().expect("a channel panicked")?;
                sum.operations += operations;
                sum.bytes += bytes;
            }
            Ok(sum)
        })
    }

    fn client(&self) -> Option<&Client> {
        None
    }
}
