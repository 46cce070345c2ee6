//! What workers wait in: stacks with which they leave the processor, by bpftrace.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// What is asked of the kernel; `PID` stands for the workers.
const SCRIPT: &str = include_str!("../../../../../tools/trace/off_cpu.bt");

/// Workers that one script can watch: a longer one is not taken.
const WORKERS_MAX: usize = 64;

/// Watches for so many seconds. Lines of callers, each with nanoseconds.
///
/// # Errors
/// bpftrace is not there or may not, in words.
pub(super) fn watch(pids: &[u32], seconds: u32) -> anyhow::Result<Vec<u8>> {
    if pids.len() > WORKERS_MAX {
        bail!("more than {WORKERS_MAX} workers cannot be watched at once; name one");
    }
    let done = Command::new("bpftrace")
        .args(["-f", "json", "-e", &script(pids, seconds)])
        .stdin(Stdio::null())
        .output();
    let done = done.map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "bpftrace is not installed, and nothing else sees what waits; \
             Debian has it in the package bpftrace"
        ),
        _ => anyhow::Error::new(error).context("bpftrace cannot be started"),
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

/// Why bpftrace gave up, in a sentence.
fn why_not(said: &str) -> String {
    if said.contains("root user") || said.contains("ermission") || said.contains("not permitted") {
        return "the kernel lets only root see what processes wait in".to_owned();
    }
    if said.contains("tracepoint not found") {
        return "bpftrace finds no tracepoints; is tracefs mounted? \
                (mount -t tracefs none /sys/kernel/tracing)"
            .to_owned();
    }
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    format!("bpftrace has failed, and says: {line}")
}

/// From bpftrace's JSON, an object a line, to lines of callers with how long they waited.
fn fold(said: &str) -> anyhow::Result<Vec<u8>> {
    let mut folded = String::new();
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).context("bpftrace says what is no JSON")?;
        let Some(stacks) = value["data"]["@ns"].as_object() else { continue };
        for (stack, ns) in stacks {
            // The program's part and the kernel's, each with the innermost first.
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

/// The name in a line of a stack: without the place in the function, and without the hash that Rust
/// puts behind it.
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
        let said = "{\"type\": \"attached_probes\", \"data\": {\"probes\": 3}}\n\n\
            {\"type\": \"map\", \"data\": {\"@ns\": {\
            \"\\n    wait::h0123456789abcdef+35\\n    main+1\\n,\\n    schedule+35\\n    entry+9\\n\": 29}}}\n";
        let folded = fold(said).expect("it is JSON");
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
    fn what_keeps_bpftrace_from_it_is_said_plainly() {
        let root = why_not("ERROR: bpftrace currently only supports running as the root user.");
        assert_eq!(root, "the kernel lets only root see what processes wait in");
        let tracefs = why_not("stdin:1:1-30: ERROR: tracepoint not found: sched:sched_switch");
        assert!(tracefs.contains("is tracefs mounted?"), "{tracefs}");
        assert_eq!(why_not("\n oh\n"), "bpftrace has failed, and says: oh");
    }
}
