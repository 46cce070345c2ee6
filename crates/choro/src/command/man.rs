//! `choro man`, which prints the manual pages.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use observe::report;

use super::CommandLine;

/// Print the manual page, or write all of them into a directory.
#[derive(Args, Debug)]
pub(super) struct Man {
    /// Directory to write choro.8, choro-serve.8 and the others to.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Manual section of administrators' commands.
const SECTION: &str = "8";

impl Man {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let mut command = CommandLine::command().disable_help_subcommand(true);
        // Passes the global arguments on to the subcommands.
        command.build();
        match &self.out {
            None => report::print(&String::from_utf8(render(command)?)?),
            Some(directory) => {
                let mut builder = DirBuilder::new();
                let made = builder.recursive(true).mode(0o755).create(directory);
                made.with_context(|| format!("cannot create {}", directory.display()))?;
                write_all(command, "choro", directory)
            }
        }
    }
}

/// Writes the page of a command and those of its subcommands.
fn write_all(command: clap::Command, name: &str, directory: &Path) -> anyhow::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("{name}-{}", subcommand.get_name());
        write_all(subcommand.clone(), &name, directory)?;
    }
    let path = directory.join(format!("{name}.{SECTION}"));
    let page = render(command.display_name(name.to_owned()))?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o644).open(&path);
    file.and_then(|mut file| file.write_all(&page))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn render(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).section(SECTION).render(&mut page)?;
    Ok(page)
}
