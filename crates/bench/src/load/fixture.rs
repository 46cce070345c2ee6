//! Files that a share must contain before a load. They are created directly, not over SMB: the same
//! bytes in the same order for every server.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Sizes of the loads and their files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scale {
    /// Bytes of the file that is read and overwritten; a multiple of 1 MiB.
    pub stream_bytes: u64,
    /// Files that are asked about and opened.
    pub known_files: u32,
    /// Files of the directory that is listed.
    pub listed_files: u32,
    /// Files of the directory in which new ones are made.
    pub crowding_files: u32,
    /// Files that are copied; the copy has a directory for each [`FILES_PER_DIRECTORY`] of them.
    pub copied_files: u32,
    /// Clients that are idle at once.
    pub idle_clients: u32,
    /// Number of operations whose system calls are counted.
    pub counted_operations: u64,
}

/// Files of each directory of the small-file copy: with the root, 10,000 files make 101.
pub const FILES_PER_DIRECTORY: u32 = 100;

/// The file that is read and overwritten.
pub const STREAM: &str = "stream";

impl Scale {
    /// Sizes for the published tables.
    pub const FULL: Self = Self {
        stream_bytes: 256 << 20,
        known_files: 1_000,
        listed_files: 50_000,
        crowding_files: 100_000,
        copied_files: 10_000,
        idle_clients: 20,
        counted_operations: 1_000,
    };

    /// Enough to see that everything works.
    pub const QUICK: Self = Self {
        stream_bytes: 16 << 20,
        known_files: 50,
        listed_files: 1_000,
        crowding_files: 2_000,
        copied_files: 200,
        idle_clients: 3,
        counted_operations: 50,
    };
}

/// Makes the file for streams, if it is not there.
///
/// # Errors
///
/// When the file system refuses.
pub fn stream(share: &Path, scale: Scale) -> Result<()> {
    let path = share.join(STREAM);
    if path.exists() {
        return Ok(());
    }
    let mut file = File::create(&path).with_context(|| format!("{}", path.display()))?;
    let block: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
    for _ in 0..scale.stream_bytes >> 20 {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Creates one file for the streams of all these shares: the location of its pages makes some
/// percent of the cost of moving them, and must be the same for every server.
///
/// # Errors
///
/// The file system refuses a call.
pub fn common_stream<'a>(shares: impl IntoIterator<Item = &'a Path>, scale: Scale) -> Result<()> {
    let mut shares = shares.into_iter();
    let Some(first) = shares.next() else { return Ok(()) };
    stream(first, scale)?;
    shares.try_for_each(|share| {
        let path = share.join(STREAM);
        fs::hard_link(first.join(STREAM), &path).with_context(|| format!("{}", path.display()))
    })
}

/// Makes the files that are asked about, if they are not there, and returns their names.
///
/// # Errors
///
/// When the file system refuses.
pub fn known(share: &Path, scale: Scale) -> Result<Vec<String>> {
    fill(share, "known", scale.known_files)?;
    Ok((0..scale.known_files).map(|number| format!(r"known\{}", file_name(number))).collect())
}

/// Makes the directory that is listed, if it is not there, and returns its name.
///
/// # Errors
///
/// When the file system refuses.
pub fn listed(share: &Path, scale: Scale) -> Result<&'static str> {
    fill(share, "listed", scale.listed_files)?;
    Ok("listed")
}

/// Makes the directory that is full already, if it is not there, and returns its name.
///
/// # Errors
///
/// When the file system refuses.
pub fn crowded(share: &Path, scale: Scale) -> Result<&'static str> {
    fill(share, "crowded", scale.crowding_files)?;
    Ok("crowded")
}

fn fill(share: &Path, directory: &str, files: u32) -> Result<()> {
    let directory = share.join(directory);
    if directory.exists() {
        return Ok(());
    }
    fs::create_dir(&directory).with_context(|| format!("{}", directory.display()))?;
    (0..files).try_for_each(|number| {
        File::create(directory.join(file_name(number))).map(drop).context("making a file")
    })
}

fn file_name(number: u32) -> String {
    format!("Some File {number:06}.dat")
}
