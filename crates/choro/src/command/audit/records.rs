//! Records in audit files: finding the files, and reading their lines.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use serde_json::{Map, Value};

/// Highest number of bytes of a line; longer ones are no records.
const LINE_BYTES_MAX: u64 = 131_072;

/// Ends of names of compressed files.
const COMPRESSED: [&str; 4] = ["bz2", "gz", "xz", "zst"];

/// Order of the members of a record.
const MEMBERS: [&str; 14] = [
    "time", "event", "result", "user", "domain", "address", "client", "share", "path", "new_path",
    "bytes", "unlogged", "count", "worker",
];

/// One record, a JSON object with an event.
#[derive(Debug)]
pub(super) struct Record(Map<String, Value>);

impl Record {
    /// Reads a line; `None` for one that is no record.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let members: Map<String, Value> = serde_json::from_slice(line).ok()?;
        members.get("event").is_some_and(Value::is_string).then_some(Self(members))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A member; empty if it is missing, or no text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The known members in their order.
    pub(super) fn into_members(mut self) -> Vec<(&'static str, Value)> {
        MEMBERS.iter().filter_map(|name| Some((*name, self.0.remove(*name)?))).collect()
    }
}

/// Finds the audit file and the older ones beside it, the oldest first. Names those that are
/// compressed on standard error.
pub(super) fn files(file: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let name = file.file_name().context("the audit file has no name")?.to_string_lossy();
    let folder =
        file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry.with_context(|| folder.display().to_string())?;
        let other = entry.file_name();
        let other = other.to_string_lossy();
        let is_older = other.strip_prefix(&*name).is_some_and(|end| end.starts_with(['.', '-']));
        let (path, metadata) = (entry.path(), entry.metadata()?);
        if !is_older || !metadata.is_file() {
            continue;
        }
        if path.extension().is_some_and(|end| COMPRESSED.iter().any(|it| end == *it)) {
            let path = path.display();
            writeln!(io::stderr(), "choro: {path} is compressed and not read: see `--file -`")?;
            continue;
        }
        found.push((metadata.modified()?, path));
    }
    found.sort();
    let older = found.into_iter().map(|(_, path)| path);
    Ok(older.chain(file.exists().then(|| file.to_owned())).collect())
}

/// Reads the records of a file. Returns the number of lines that are none.
pub(super) fn read(file: &Path, take: impl FnMut(Record)) -> anyhow::Result<u64> {
    if file == Path::new("-") {
        return read_from(io::stdin().lock(), take).context("standard input");
    }
    let name = || file.display().to_string();
    let source = File::open(file).with_context(name)?;
    read_from(BufReader::new(source), take).with_context(name)
}

fn read_from(mut source: impl BufRead, mut take: impl FnMut(Record)) -> io::Result<u64> {
    let (mut line, mut unread) = (Vec::new(), 0);
    loop {
        line.clear();
        if source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(unread);
        }
        let is_whole = line.ends_with(b"\n");
        match Record::parse(&line) {
            Some(record) => take(record),
            None => unread += 1,
        }
        if !is_whole {
            // The rest of a line that is too long; nothing behind the last line.
            source.skip_until(b'\n')?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, files, read_from};

    #[test]
    fn lines_that_are_no_records_are_counted_and_the_others_read() {
        let long = "x".repeat(usize::try_from(LINE_BYTES_MAX).expect("small") * 2);
        let text = format!("{{\"event\":\"a\"}}\n{{\"torn\n{long}\n[1]\n{{\"event\":\"b\"}}");
        let mut events = Vec::new();
        let unread = read_from(text.as_bytes(), |it| events.push(it.text("event").to_owned()));
        assert_eq!((events, unread.expect("it is in memory")), (vec!["a".into(), "b".into()], 3));
    }

    #[test]
    fn older_files_come_first_and_others_not_at_all() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = |name| folder.path().join(name);
        for (name, age) in [("a.json", 0), ("a.json.1", 1), ("a.json-2026", 2), ("a.json.3.gz", 3)]
        {
            let file = std::fs::File::create(path(name)).expect("there is space");
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(time).expect("it is ours");
        }
        std::fs::write(path("a.jsonx"), "").expect("there is space");
        let found = files(&path("a.json")).expect("the folder is there");
        assert_eq!(found, ["a.json-2026", "a.json.1", "a.json"].map(path));
    }
}
