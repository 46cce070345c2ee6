//! `choro completions`, which prints shell completions.

use clap::{Args, CommandFactory, ValueEnum};
use observe::report;

use super::CommandLine;

/// Print the completions of a shell.
///
/// For example: choro completions bash > /etc/bash_completion.d/choro
#[derive(Args, Debug)]
pub(super) struct Completions {
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Fish => clap_complete::Shell::Fish,
            Shell::Zsh => clap_complete::Shell::Zsh,
        };
        // Into memory first: the generator panics where printing would fail.
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut CommandLine::command(), "choro", &mut text);
        report::print(&String::from_utf8(text)?)
    }
}
