//! `choro-compare`: sends the same requests to Choro and Samba, and lists the differences.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench::compare::{self, Plan, explanation::Explanations};
use clap::Parser;

/// Compare Choro's answers with Samba's.
///
/// Starts both servers with the same shares, which have random parameters, and sends the same
/// random requests to both. Prints the answers and the files that differ. Exits with 1 if one of
/// them is not in the list of explanations.
#[derive(Debug, Parser)]
#[command(name = "choro-compare", version, max_term_width = 100)]
struct Options {
    /// Number that decides on the shares and the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of shares at each server.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=900))]
    shares: u16,
    /// Number of requests in all shares.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Send requests to this share only, as a difference names it.
    #[arg(long, value_name = "NUMBER")]
    share: Option<usize>,
    /// List of explanations of known differences.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_LIST)]
    explanations: PathBuf,
    /// Write each difference to this file, also a known one, with fields separated by tabs. With
    /// `--share`, the requests follow, with both answers.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Executable of Choro; by default choro beside this program.
    #[arg(long, value_name = "FILE")]
    choro: Option<PathBuf>,
}

/// The list in the tree.
const DEFAULT_LIST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/compare/explanations.tsv");

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed as well, the exit code alone must do.
            let _ = writeln!(io::stderr(), "choro-compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Compares, and prints the differences. Returns true if all have an explanation.
fn run(options: &Options) -> Result<bool> {
    let path = &options.explanations;
    let list = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let choro = match &options.choro {
        Some(choro) => choro.clone(),
        None => std::env::current_exe().context("no own path")?.with_file_name("choro"),
    };
    let plan = Plan {
        seed: options.seed,
        shares: options.shares.into(),
        requests: options.requests,
        only: options.share,
    };
    let findings =
        compare::run(plan, &choro, Explanations::parse(&list)?, &mut io::stderr().lock())?;
    if let Some(path) = &options.table {
        fs::write(path, findings.to_table()).with_context(|| path.display().to_string())?;
    }
    write!(io::stdout(), "{}", findings.to_text())?;
    Ok(findings.unexplained() == 0)
}
