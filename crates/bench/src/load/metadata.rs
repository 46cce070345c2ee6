//! Small requests about files that are there: stat, open and close, echo.

use anyhow::Result;
use dtyp::utf16;
use wire::{Command, FileId};

use super::fixture::{self, Scale};
use super::{Done, Limit, Load};
use crate::client::pipeline::{self, Job, Progress};
use crate::client::requests::{Purpose, created, push_close, push_create, push_stat};
use crate::client::{Client, Protection, Reply, Slot};
use crate::server::Server;

/// Kinds of queries of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// ECHO: the cost of a request without an effect.
    Echo,
    /// CREATE, then CLOSE of the file.
    OpenClose,
    /// CREATE, QUERY_INFO and CLOSE in one compound, as clients stat.
    Stat,
}

/// One question after the other, about one file after the other.
#[derive(Debug)]
pub struct Metadata {
    client: Client,
    question: Question,
    depth: usize,
    names: Vec<Vec<u8>>,
    next: usize,
}

/// Credits that the jobs of one slot may need: a compound of three.
const CREDITS_PER_JOB: usize = 3;

impl Metadata {
    /// Makes the files and connects.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn prepare(
        server: &Server,
        scale: Scale,
        protection: Protection,
        (question, depth): (Question, usize),
    ) -> Result<Self> {
        let names = fixture::known(server.share_path(), scale)?;
        let names = names.iter().map(|name| utf16::to_bytes(name)).collect();
        let mut client = server.connect(protection)?;
        client.gather_credits(depth * CREDITS_PER_JOB, 0)?;
        let mut metadata = Self { client, question, depth, names, next: 0 };
        metadata.run(Limit::Operations(u64::try_from(depth)? * 8))?;
        Ok(metadata)
    }
}

impl Load for Metadata {
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        let Self { client, question, depth, names, next } = self;
        let question = *question;
        let operations = pipeline::run(client, *depth, || {
            let name = &names[*next % names.len()];
            *next += 1;
            limit.take().then_some(NameQuery { question, name, answers: 0 })
        })?;
        Ok(Done { operations, bytes: 0 })
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

struct NameQuery<'a> {
    question: Question,
    name: &'a [u8],
    answers: u32,
}

impl Job for NameQuery<'_> {
    fn start(&mut self, client: &mut Client, slot: Slot) -> Result<()> {
        match self.question {
            Question::Echo => client.push(Command::ECHO, 0, &wire::echo::EchoRequest),
            Question::OpenClose => push_create(client, Purpose::Open, self.name),
            Question::Stat => push_stat(client, self.name),
        }
        client.flush(slot)
    }

    fn advance(&mut self, client: &mut Client, slot: Slot, reply: &Reply) -> Result<Progress> {
        self.answers += 1;
        let wanted = match self.question {
            Question::Echo => 1,
            Question::OpenClose => 2,
            Question::Stat => 3,
        };
        if self.question == Question::OpenClose && self.answers == 1 {
            let file_id: FileId = created(client, reply)?;
            push_close(client, file_id);
            client.flush(slot)?;
        } else {
            reply.clone().succeeded()?;
        }
        Ok(if self.answers == wanted { Progress::Done } else { Progress::More })
    }
}
