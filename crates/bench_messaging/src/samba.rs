//! Samba's own test of its messages: `local.messaging.ping_speed` of smbtorture.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::histogram::Histogram;
use super::measurement::Measurement;
use crate::own_directories;

/// The test, with directories of its own.
pub(super) struct PingSpeed {
    config: PathBuf,
    directory: PathBuf,
}

const PROGRAM: &str = "smbtorture";

impl PingSpeed {
    /// The test, if it can be run here; else the reason why not.
    pub(super) fn find(parent: &Path, is_unwanted: bool) -> Result<Result<Self, String>> {
        if is_unwanted {
            return Ok(Err("it was not asked for".to_owned()));
        }
        let found = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).status();
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Err(format!(
                    "there is no {PROGRAM} (Debian has it in samba-testsuite)"
                )));
            }
            found => found.with_context(|| format!("cannot start {PROGRAM}"))?,
        };
        let directory = parent.join("samba");
        fs::create_dir(&directory)?;
        let text = format!("[global]\n{}", own_directories(&directory)?);
        let config = directory.join("smb.conf");
        fs::write(&config, text)?;
        Ok(Ok(Self { config, directory }))
    }

    /// Runs it for this time, or the nearest it can: it counts whole seconds.
    pub(super) fn measure(&self, duration: Duration) -> Result<Measurement> {
        let seconds = duration.as_secs_f64().round().max(1.0);
        // The share is needed by its command line and not by the test.
        let output = Command::new(PROGRAM)
            .arg("-s")
            .arg(&self.config)
            .arg("--basedir")
            .arg(&self.directory)
            .arg(format!("--option=torture:timelimit={seconds}"))
            .args(["//localhost/none", "local.messaging.ping_speed"])
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{PROGRAM} failed:\n{printed}");
        let rate =
            rate_in(&printed).with_context(|| format!("{PROGRAM} told no rate:\n{printed}"))?;
        Ok(Measurement { messages_per_second: rate, round_trips: Histogram::default() })
    }
}

fn rate_in(printed: &str) -> Option<f64> {
    let rate = printed.split_once("ping rate of ")?.1;
    rate.split_once(" messages/sec")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::rate_in;

    #[test]
    fn the_rate_is_found_in_the_output_of_the_test() {
        let printed = "sending exit\nping rate of 96344 messages/sec\nsuccess: ping_speed\n";
        assert_eq!(rate_in(printed), Some(96_344.0));
        assert_eq!(rate_in("failure: ping_speed"), None);
    }
}
