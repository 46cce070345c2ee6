//! A share with a depot of streams, and requests for streams.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use dtyp::NtStatus;
use object::{Disposition, LocalOpen};
use store::{DepotSettings, RootSettings};

use super::{READ, Share, WRITE};

/// Samba's defaults for a depot in this directory.
pub fn settings(directory: impl Into<PathBuf>) -> DepotSettings {
    DepotSettings { directory: directory.into(), delete_lost: false, check_valid: true }
}

/// Gives a share a depot beside its folder.
pub fn beside(root: &mut RootSettings) -> &mut DepotSettings {
    let depot = root.path.parent().expect("it is in a folder").join("depot");
    root.streams_depot.insert(settings(depot))
}

/// The depot beside a share.
pub fn depot(share: &Share) -> PathBuf {
    share.folder.path().join("depot")
}

/// The entries of a directory, none if there is no such directory.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.expect("it is there").path()).collect()
}

/// The folders of streams in the depot beside a share; lost ones are left out.
pub fn folders(share: &mut Share) -> Vec<PathBuf> {
    share.store.revert_to_server();
    let is_hash = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 2);
    let hashes = below(&depot(share)).into_iter().filter(is_hash);
    hashes.flat_map(|hash| below(&hash)).flat_map(|hash| below(&hash)).collect()
}

/// The folders of streams in the depot beside a share that no object leads to any more.
pub fn lost(share: &mut Share) -> Vec<PathBuf> {
    share.store.revert_to_server();
    let is_lost = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lost-"))
    };
    below(&depot(share)).into_iter().filter(is_lost).collect()
}

/// Gives the depot beside a share, and the directories by hashes in it, an owner and permissions.
pub fn give(share: &mut Share, owner: u32, mode: u32) {
    share.store.revert_to_server();
    let depot = depot(share);
    let firsts = below(&depot);
    let seconds = firsts.iter().flat_map(|first| below(first));
    for directory in seconds.chain(firsts.iter().cloned()).chain([depot]) {
        chown(&directory, Some(owner), None).expect("root");
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).expect("root");
    }
}

/// Opens a stream for reading and writing, and makes it if it is missing.
pub fn open_if(share: &mut Share, path: &str) -> Result<LocalOpen, NtStatus> {
    let opened = share.try_open(path, |request| {
        request.disposition = Disposition::OpenIf;
        request.desired_access = READ | WRITE;
    });
    opened.map(|opened| opened.open)
}

/// Writes a stream, in pieces as a client does.
pub fn put(share: &mut Share, path: &str, data: &[u8]) -> Result<(), NtStatus> {
    let open = open_if(share, path)?;
    for (offset, piece) in (0..).step_by(65_536).zip(data.chunks(65_536)) {
        share.write(open, offset, piece);
    }
    share.close(open);
    Ok(())
}

/// Reads a stream, whose metadata must have the length of its data.
#[track_caller]
pub fn get(share: &mut Share, path: &str) -> Result<Vec<u8>, NtStatus> {
    let open = share.try_open(path, |_| {})?.open;
    let data = share.read(open, 0, 8 << 20);
    assert_eq!(share.metadata(open).end_of_file, u64::try_from(data.len()).expect("64 bits"));
    share.close(open);
    Ok(data)
}

/// Names and sizes of a file's streams, the unnamed one left out.
pub fn listed(share: &mut Share, path: &str) -> Vec<(String, u64)> {
    let open = share.open(path);
    let streams = share.streams(open).into_iter().map(|stream| (stream.name, stream.size));
    let named = streams.filter(|(name, _)| !name.is_empty()).collect();
    share.close(open);
    named
}
