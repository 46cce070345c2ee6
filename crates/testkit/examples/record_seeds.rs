//! Writes the seeds of the fuzzers: `cargo run -p testkit --example record_seeds -- fuzz/seeds`.

use std::fs;
use std::io;
use std::path::PathBuf;

fn main() -> io::Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).unwrap_or_else(|| "fuzz/seeds".into()).into();
    for (target, seeds) in testkit::seeds::record() {
        let folder = folder.join(target);
        // Remove seeds that are no longer recorded.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&folder)?,
        }
        for (name, bytes) in seeds {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
