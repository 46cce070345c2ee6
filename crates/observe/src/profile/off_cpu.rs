//! Waiting time of workers: stacks that leave the processor, collected by bpftrace.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// The script; `PID` stands for the workers.
const SCRIPT: &str = include_str!("../../../../tools/trace/off_cpu.bt");

/// Workers in one script; bpftrace refuses a longer one.
const WORKERS_MAX: usize = 64;

/// Watches for `seconds`. Returns folded stacks, each with nanoseconds.
///
/// # Errors
/// bpftrace is not installed or not permitted, in words.
pub(super) fn watch(pids: &[u32], seconds: u32) -> anyhow::Result<Vec<u8>> {
    if pids.len() > WORKERS_MAX {
        bail!("more than {WORKERS_MAX} workers cannot be watched at once; name one");
    }
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.args(["-f", "json", "-e", &script(pids, seconds)]).stdin(Stdio::null());
    if pids.len() == 1 {
        // Otherwise up to version 0.17 reads all symbols of the program for each function. Those
        // of several processes would be taken for one another's.
        bpftrace.env("BPFTRACE_CACHE_USER_SYMBOLS", "1");
    }
    let done = bpftrace.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "bpftrace is not installed, and --off-cpu needs it; \
             Debian has it in the package bpftrace"
        ),
        _ => anyhow::Error::new(error).context("cannot start bpftrace"),
    })?;
    if !done.status.success() {
        bail!("{}", why_not(&String::from_utf8_lossy(&done.stderr)));
    }
    fold(&String::from_utf8_lossy(&done.stdout))
}

fn script(pids: &[u32], seconds: u32) -> String {
    let which: Vec<String> = pids.iter().map(|pid| format!("pid == {pid}")).collect();
    let script = SCRIPT.replace("pid == PID", &which.join(" || "));
    format!("{script}\ninterval:s:{seconds} {{ exit(); }}\n")
}

/// Explains a failure of bpftrace in a sentence.
fn why_not(output: &str) -> String {
    if output.contains("root user")
        || output.contains("ermission")
        || output.contains("not permitted")
    {
        return "--off-cpu needs root".to_owned();
    }
    if output.contains("tracepoint not found") {
        return "bpftrace finds no tracepoints; is tracefs mounted? \
                (mount -t tracefs none /sys/kernel/tracing)"
            .to_owned();
    }
    let line = output.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    format!("bpftrace failed: {line}")
}

/// Converts bpftrace's JSON, an object a line, to folded stacks with waiting times.
fn fold(output: &str) -> anyhow::Result<Vec<u8>> {
    let mut folded = String::new();
    for line in output.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value =
            serde_json::from_str(line).context("bpftrace printed a line that is not JSON")?;
        let Some(stacks) = value["data"]["@ns"].as_object() else { continue };
        for (stack, ns) in stacks {
            // User stack and kernel stack, each with the innermost function first.
            let (user, kernel) = stack.split_once("\n,\n").unwrap_or((stack, ""));
            let frames: Vec<String> =
                user.lines().rev().chain(kernel.lines().rev()).filter_map(frame).collect();
            if let (false, Some(ns)) = (frames.is_empty(), ns.as_u64()) {
                folded.push_str(&format!("{} {ns}\n", frames.join(";")));
            }
        }
    }
    Ok(folded.into_bytes())
}

/// Returns the function's name in a line of a stack, without the offset and without the hash that
/// Rust appends.
fn frame(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(',');
    let name = line.rsplit_once('+').map_or(line, |(name, _)| name);
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    (!name.is_empty()).then(|| name.replace(';', ":"))
}

#[cfg(test)]
mod tests {
    use super::{fold, frame, script, why_not};

    #[test]
    fn stacks_become_lines_with_the_outermost_caller_first() {
        let output = "{\"type\": \"attached_probes\", \"data\": {\"probes\": 3}}\n\n\
            {\"type\": \"map\", \"data\": {\"@ns\": {\
            \"\\n    wait::h0123456789abcdef+35\\n    main+1\\n,\\n    \
            schedule+35\\n    entry+9\\n\": 29}}}\n";
        let folded = fold(output).expect("it is JSON");
        assert_eq!(String::from_utf8_lossy(&folded), "main;wait;entry;schedule 29\n");
        assert!(fold("{\"type\": \"map\", \"data\": {}}").expect("it is JSON").is_empty());
        fold("no JSON").expect_err("it is none");
    }

    #[test]
    fn a_frame_has_its_name_alone() {
        assert_eq!(frame("    do_nanosleep+94").as_deref(), Some("do_nanosleep"));
        assert_eq!(frame("    0x7f00").as_deref(), Some("0x7f00"));
        assert_eq!(frame("  "), None);
    }

    #[test]
    fn all_workers_that_are_meant_are_watched_for_their_time() {
        let script = script(&[3, 5], 7);
        assert!(script.contains("/pid == 3 || pid == 5/"), "{script}");
        assert!(script.contains("interval:s:7 { exit(); }"), "{script}");
    }

    #[test]
    fn a_failure_of_bpftrace_has_a_plain_error() {
        let root = why_not("ERROR: bpftrace currently only supports running as the root user.");
        assert_eq!(root, "--off-cpu needs root");
        let tracefs = why_not("stdin:1:1-30: ERROR: tracepoint not found: sched:sched_switch");
        assert!(tracefs.contains("is tracefs mounted?"), "{tracefs}");
        assert_eq!(why_not("\n oh\n"), "bpftrace failed: oh");
    }
}
