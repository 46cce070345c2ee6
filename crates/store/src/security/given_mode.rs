//! Modes that clients give outright: in the POSIX create context, and as S-1-5-88-3-MODE in a list.
//!
//! Permissions are all that a client may say, and of a directory that it is sticky. A program that
//! is setuid or setgid acts as its owner or group, who with `force user` is not the client. Samba
//! has the same rule for S-1-5-88-3-MODE. That a directory is setgid the file system decides, see
//! `credentials/privileged.rs`.

use crate::settings::RootSettings;

/// The bits of a given mode that an object may have.
pub(crate) fn permitted(given: u32, directory: bool) -> u32 {
    given & if directory { 0o1777 } else { 0o777 }
}

/// The mode of a new object that a client gives one.
///
/// A client that says the mode means it, so the masks do not hold, unless what is made belongs to
/// somebody else ("force user").
pub(crate) fn of_new(settings: &RootSettings, given: u32, directory: bool) -> u32 {
    let given = permitted(given, directory);
    if !settings.masks_given_modes {
        return given;
    }
    let (mask, forced) = match directory {
        true => (settings.directory_mask, settings.force_directory_mode),
        false => (settings.create_mask, settings.force_create_mode),
    };
    permitted(given & mask | forced, directory)
}
