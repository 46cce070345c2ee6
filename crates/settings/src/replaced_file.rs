//! Files that are replaced as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces a file, whatever its type, by a new one with this mode. Its readers see the old content
/// or the new one, also after a crash.
///
/// # Errors
/// Those of the file system. Then the old file is there.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let draft = path.with_file_name(name);
    // It is left from a writer that died, or a link of somebody who may write to the folder: root
    // must not write to its target.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::replace_file;

    #[test]
    fn a_new_file_has_the_mode_of_its_writer_and_none_of_the_old_one() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("choro.service");
        fs::write(&path, "of somebody else").expect("there is space");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("it is ours");
        replace_file(&path, b"ours", 0o644).expect("there is space");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "ours");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).expect("it is ours").count(), 1, "no draft stays");
    }

    #[test]
    fn a_link_in_the_place_of_the_draft_is_not_followed() {
        let folder = tempfile::tempdir().expect("there is space");
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "of somebody else").expect("there is space");
        symlink(&other, folder.path().join("file.new")).expect("the name is free");
        replace_file(&path, b"ours", 0o600).expect("there is space");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "ours");
        assert_eq!(fs::read_to_string(&other).expect("it is there"), "of somebody else");
    }
}
