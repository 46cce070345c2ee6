use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;

use super::{Directory, NameHashes, SHORT_HASHES_MAX};
use crate::cache::directories::Inode;
use crate::names::short_name::short_name;
use crate::settings::{MangledNames, RootSettings};
use crate::sys::system;

/// A directory with some names, none of which is of 8.3 form.
struct Place {
    temporary: tempfile::TempDir,
    directory: Directory,
    names: NameHashes,
}

const STORED: [&str; 3] = ["a longer name.text", "Another Name", "x:y"];

fn settings() -> RootSettings {
    RootSettings { mangled_names: MangledNames::Yes, ..RootSettings::new("/") }
}

impl Place {
    fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        for name in STORED {
            File::create(temporary.path().join(name)).expect("a file");
        }
        let fd = File::open(temporary.path()).expect("it is there").into();
        let status = system::status_of(AsFd::as_fd(&fd)).expect("a status");
        let directory = Directory { fd, inode: Inode::of(&status) };
        Self { temporary, directory, names: NameHashes::default() }
    }

    fn find(&mut self, name: &str, settings: &RootSettings) -> Option<OsString> {
        let status = system::status_of(self.directory.fd.as_fd()).expect("a status");
        self.names.find(&self.directory, &status, name, settings).expect("it can be read")
    }
}

fn short_of(name: &str) -> String {
    short_name(&settings(), OsStr::new(name)).expect("it is a long name")
}

#[test]
fn absent_short_names_take_one_pass_over_an_unchanged_directory() {
    let mut place = Place::new();
    for number in 10..99 {
        assert_eq!(place.find(&format!("ABCD{number}~1.TXT"), &settings()), None);
    }
    // One more for each second that this takes on a busy machine.
    assert!(place.names.passes < 10, "{}", place.names.passes);
    for stored in STORED {
        assert_eq!(place.find(&short_of(stored), &settings()), Some(stored.into()));
    }
}

#[test]
fn a_short_name_is_found_once_its_long_name_is_there() {
    let added = "a name that comes later";
    let short = short_of(added);
    for is_own in [true, false] {
        let mut place = Place::new();
        assert_eq!(place.find(&short, &settings()), None);
        let verified = place.names.verified(&place.directory);
        File::create(place.temporary.path().join(added)).expect("a file");
        if is_own {
            let added = Some((OsStr::new(added), &settings()));
            place.names.changed(&place.directory, verified, added);
        }
        assert_eq!(place.find(&short, &settings()), Some(added.into()), "{is_own}");
    }
}

#[test]
fn short_names_of_one_share_say_nothing_of_those_of_another() {
    let mut place = Place::new();
    let other = RootSettings { mangle_prefix: 4, ..settings() };
    let short = short_name(&other, OsStr::new(STORED[0])).expect("it is a long name");
    assert_eq!(place.find(&short, &settings()), None);
    assert_eq!(place.find(&short, &other), Some(STORED[0].into()));
    // Nor does a name that the other one adds.
    let short = short_of("a name that comes later");
    assert_eq!(place.find(&short, &other), None);
    let verified = place.names.verified(&place.directory);
    File::create(place.temporary.path().join("a name that comes later")).expect("a file");
    let added = OsStr::new("a name that comes later");
    place.names.changed(&place.directory, verified, Some((added, &settings())));
    assert_eq!(place.find(&short, &settings()), Some(added.into()));
}

#[test]
fn a_directory_with_too_many_names_keeps_no_short_ones() {
    let mut place = Place::new();
    assert_eq!(place.find("ABCDEF~1.TXT", &settings()), None);
    let short = place.names.known[0].short.as_mut().expect("they are kept");
    short.hashes.extend(0..u64::try_from(SHORT_HASHES_MAX).expect("it is small"));
    let added = Some((OsStr::new("one name more"), &settings()));
    place.names.changed(&place.directory, true, added);
    assert!(place.names.known[0].short.is_none());
}
