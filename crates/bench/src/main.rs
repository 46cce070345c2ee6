//! `choro-bench`: measures Choro and Samba side by side.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench::options::Options;
use bench::run::{self, Interrupt};
use bench::{
    hanging_storage, kernel_client, limits, machine, network, null_server, ratio_chart, row,
    sharing, transports, truth,
};
use clap::Parser;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed as well, the exit code alone must do.
            let _ = writeln!(io::stderr(), "choro-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Executes the options. Returns true if all of it succeeded.
fn run(options: &Options) -> Result<bool> {
    if options.list {
        let mut out = io::stdout().lock();
        row::all().iter().try_for_each(|row| writeln!(out, "{row}"))?;
        return Ok(true);
    }
    if let Some(port) = options.serve_nothing {
        let folder = options.serve_folder.as_deref().zip(options.against_raw);
        return null_server::serve(port, folder).map(|()| true);
    }
    if options.own_network {
        network::set_up()?;
    } else if network::may_be_made() {
        if options.kernel_client {
            kernel_client::prepare()?;
        }
        return Err(network::restart_within("--own-network")).context("starting unshare");
    } else {
        let tcp = machine::congestion_control();
        writeln!(
            io::stderr(),
            "in the machine's own network, with TCP {tcp}: no right to another"
        )?;
    }
    let interrupt = Interrupt::of_signals()?;
    if options.truth {
        write!(io::stdout(), "{}", truth::compare(options)?.to_text())?;
        return Ok(true);
    }
    if options.transports {
        let measured = transports::run(options, &interrupt, &mut io::stderr().lock())?;
        let text = if options.json { measured.to_json()? } else { measured.to_text() };
        write!(io::stdout(), "{text}")?;
        return Ok(true);
    }
    if options.qos {
        let measured = sharing::run(options, &interrupt, &mut io::stderr().lock())?;
        if let (Some(path), Some(svg)) = (&options.svg, measured.to_svg()) {
            fs::write(path, svg).with_context(|| path.display().to_string())?;
        }
        let text = if options.json { measured.to_json()? } else { measured.to_markdown() };
        write!(io::stdout(), "{text}")?;
        return Ok(true);
    }
    if options.hanging_storage {
        let measured = hanging_storage::run(options, &interrupt, &mut io::stderr().lock())?;
        let text = if options.json { measured.to_json()? } else { measured.to_markdown() };
        write!(io::stdout(), "{text}")?;
        return Ok(true);
    }
    if options.kernel_client {
        let measured = kernel_client::run(options, &interrupt, &mut io::stderr().lock())?;
        let text = if options.json { measured.to_json()? } else { measured.to_markdown() };
        write!(io::stdout(), "{text}")?;
        return Ok(true);
    }
    if options.limits {
        let measured = limits::run(options, &interrupt, &mut io::stderr().lock())?;
        let text = if options.json { measured.to_json()? } else { measured.to_text() };
        write!(io::stdout(), "{text}")?;
        return Ok(true);
    }
    let report = run::run(options, &interrupt, &mut io::stderr().lock())?;
    if let Some(path) = &options.svg {
        fs::write(path, ratio_chart::draw(&report)).with_context(|| path.display().to_string())?;
    }
    run::publish(&report, options)?;
    Ok(report.failures().is_empty())
}
