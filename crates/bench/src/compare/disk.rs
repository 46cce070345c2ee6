//! Folders of a share as they are on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};

/// A file or folder on the disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    mode: u32,
    owner: (u32, u32),
    is_folder: bool,
    content: Vec<u8>,
}

impl Entry {
    /// Properties to be compared, by name; of a missing one too.
    pub(super) fn text(entry: Option<&Self>) -> Vec<(&'static str, String)> {
        let Some(Self { mode, owner, is_folder, content }) = entry else {
            return vec![("presence", "absent".to_owned())];
        };
        let kind = if *is_folder { "folder" } else { "file" };
        let mut text = vec![
            ("presence", kind.to_owned()),
            ("mode", format!("{mode:04o}")),
            ("owner", format!("{}:{}", owner.0, owner.1)),
        ];
        if !is_folder {
            text.push(("size", content.len().to_string()));
            text.push(("content", String::from_utf8_lossy(content).into_owned()));
        }
        text
    }
}

/// Entries below a folder, by their paths there.
type Entries = BTreeMap<String, Entry>;

/// Reads a folder of a share; an absent one is empty.
pub(super) fn read(share: &Path, folder: &str) -> Result<Entries> {
    let mut entries = Entries::new();
    let root = share.join(folder);
    if root.symlink_metadata().is_ok() {
        add(&root, "", &mut entries).with_context(|| root.display().to_string())?;
    }
    Ok(entries)
}

fn add(folder: &Path, prefix: &str, entries: &mut Entries) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = path.symlink_metadata()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{name}");
        let content = match metadata.is_file() {
            true => read_file(&path)?,
            false => Vec::new(),
        };
        let entry = Entry {
            mode: metadata.permissions().mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            is_folder: metadata.is_dir(),
            content,
        };
        let is_folder = entry.is_folder;
        entries.insert(name.clone(), entry);
        if is_folder {
            add(&path, &format!("{name}/"), entries)?;
        }
    }
    Ok(())
}

/// Reads a file; a server may delete it meanwhile.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        result => Ok(result?),
    }
}
