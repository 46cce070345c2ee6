//! Speed of this machine alone with small files: `cp -r` within the file system of the shares.
//!
//! Copies the same tree as [`crate::load::small_files`], without a server, a client or a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::load::fixture::{FILES_PER_DIRECTORY, Scale};
use crate::load::small_files::FILE_BYTES;
use crate::statistics::Summary;

/// A tree that is copied again and again.
#[derive(Debug)]
pub struct LocalCopy {
    source: PathBuf,
    target: PathBuf,
    files: u32,
    /// Files copied per second, by repetition.
    samples: Vec<f64>,
}

impl LocalCopy {
    /// Makes the tree in `directory`.
    ///
    /// # Errors
    ///
    /// When the file system refuses.
    pub fn prepare(directory: &Path, scale: Scale) -> Result<Self> {
        let [source, target] = ["source", "copy"].map(|name| directory.join(name));
        let files = scale.copied_files;
        let data = vec![0xA5; FILE_BYTES];
        for file in 0..files {
            let folder = source.join(format!("directory {:03}", file / FILES_PER_DIRECTORY));
            if file % FILES_PER_DIRECTORY == 0 {
                fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
            }
            let path = folder.join(format!("small file {:05}.txt", file % FILES_PER_DIRECTORY));
            fs::write(&path, &data).with_context(|| format!("{}", path.display()))?;
        }
        Ok(Self { source, target, files, samples: Vec::new() })
    }

    /// Copies once.
    ///
    /// # Errors
    ///
    /// When `cp` fails.
    pub fn measure(&mut self) -> Result<()> {
        let start = Instant::now();
        let status = Command::new("cp").arg("-r").args([&self.source, &self.target]).status();
        let seconds = start.elapsed().as_secs_f64();
        ensure!(status.context("starting cp")?.success(), "cp failed");
        fs::remove_dir_all(&self.target).context("removing the copy")?;
        self.samples.push(f64::from(self.files) / seconds);
        Ok(())
    }

    /// Files per second; nothing before the first copy.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(self.samples.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::LocalCopy;
    use crate::load::fixture::Scale;

    #[test]
    fn every_copy_is_counted_and_leaves_nothing() {
        let directory = tempfile::tempdir().expect("there is space");
        let mut copy = LocalCopy::prepare(directory.path(), Scale::QUICK).expect("it is made");
        assert_eq!(copy.summary(), None);
        for _ in 0..2 {
            copy.measure().expect("it is copied");
        }
        let summary = copy.summary().expect("it was copied");
        assert!(summary.min > 0.0 && summary.min <= summary.max);
        assert!(!directory.path().join("copy").exists());
    }
}
