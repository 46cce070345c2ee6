//! `choro bench`, the command that measures parts of the server.

use bench_messaging::PeerProgram;
use bench_messaging::options::MessagingOptions;
use bench_messaging::peer::{self, PeerOptions};
use clap::Subcommand;

/// Measure parts of the server on this machine.
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    Messaging(MessagingOptions),
    /// A peer process of `choro bench messaging`.
    #[command(hide = true)]
    MessagingPeer(PeerOptions),
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Messaging(options) => {
                let program = PeerProgram {
                    program: "/proc/self/exe".into(),
                    arguments: ["bench", "messaging-peer"].map(Into::into).to_vec(),
                };
                bench_messaging::run(&options, &program)
            }
            Self::MessagingPeer(options) => peer::run(&options),
        }
    }
}
