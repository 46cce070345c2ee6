//! The text of a file of `net usershare add`.

use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};

/// Entries of an access control list; a file has room for some hundred.
const ENTRIES_MAX: usize = 1_000;

/// A share as its file describes it.
#[derive(Debug)]
pub(super) struct UsershareFile {
    /// Name of the share, in the letters that its owner wrote.
    pub(super) name: String,
    /// Folder to share, not verified.
    pub(super) path: String,
    /// Description in lists of shares.
    pub(super) comment: String,
    /// Rights of users in the share.
    pub(super) descriptor: SecurityDescriptor,
    /// True if guests may connect.
    pub(super) guest_ok: bool,
}

impl UsershareFile {
    /// Reads version 1 or 2 of the format. `file_name` is the name of the share in small letters.
    ///
    /// # Errors
    /// The fault, in words.
    pub(super) fn parse(text: &str, file_name: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let version = match lines.next() {
            Some("#VERSION 1") => 1,
            Some("#VERSION 2") => 2,
            _ => return Err("its version is neither 1 nor 2".to_owned()),
        };
        let mut value = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.map(str::trim).ok_or_else(|| format!("`{name}=` is missing"))
        };
        let path = value("path")?.to_owned();
        let comment = value("comment")?.to_owned();
        let descriptor = descriptor(value("usershare_acl")?)?;
        let guest_ok = match version {
            1 => false,
            _ => value("guest_ok")?.starts_with(['y', 'Y']),
        };
        let name = value("sharename").unwrap_or(file_name).to_owned();
        if name.to_lowercase() != file_name {
            return Err("`sharename` is not the name of the file".to_owned());
        }
        if text.contains('\0') {
            return Err("it has a zero byte".to_owned());
        }
        Ok(Self { name, path, comment, descriptor, guest_ok })
    }
}

/// Reads `SID:F,SID:R,SID:D`: full access, reading, or none. An empty list lets everyone read.
fn descriptor(text: &str) -> Result<SecurityDescriptor, String> {
    let text = text.trim_end_matches(',');
    let entries: Vec<&str> = match text {
        "" => vec!["S-1-1-0:R"],
        text => text.split(',').collect(),
    };
    if entries.len() > ENTRIES_MAX {
        return Err(format!("`usershare_acl` has more than {ENTRIES_MAX} entries"));
    }
    let aces = entries.into_iter().map(|entry| {
        let bad = || format!("`usershare_acl` has {entry:?}");
        let (sid, access) = entry.trim().split_once(':').ok_or_else(bad)?;
        let sid = Sid::parse(sid.trim()).ok_or_else(bad)?;
        let none = AceFlags::empty();
        Ok(match access {
            "F" | "f" => Ace::allow(sid, AccessMask::FILE_ALL, none),
            "R" | "r" => Ace::allow(
                sid,
                AccessMask::FILE_GENERIC_READ | AccessMask::FILE_GENERIC_EXECUTE,
                none,
            ),
            "D" | "d" => Ace::deny(sid, AccessMask::FILE_ALL, none),
            _ => return Err(bad()),
        })
    });
    let dacl = Some(Acl::new(aces.collect::<Result<_, String>>()?));
    Ok(SecurityDescriptor { dacl, ..SecurityDescriptor::default() })
}

#[cfg(test)]
mod tests {
    use super::UsershareFile;

    const GOOD: &str = "#VERSION 2\npath=/home/anna/films\ncomment= old ones \n\
                        usershare_acl=S-1-1-0:R,S-1-22-1-1000:F,S-1-5-7:d,\nguest_ok=y\n\
                        sharename=Films\n";

    fn masks(text: &str) -> Result<usize, String> {
        let file = UsershareFile::parse(text, "films")?;
        Ok(file.descriptor.dacl.expect("it has one").aces.len())
    }

    #[test]
    fn both_versions_are_read() {
        let file = UsershareFile::parse(GOOD, "films").expect("well-formed");
        assert_eq!((&*file.name, &*file.path), ("Films", "/home/anna/films"));
        assert_eq!((&*file.comment, file.guest_ok), ("old ones", true));
        assert_eq!(masks(GOOD), Ok(3));
        let old = "#VERSION 1\npath=/srv\ncomment=\nusershare_acl=";
        let file = UsershareFile::parse(old, "films").expect("well-formed");
        assert_eq!((&*file.name, file.guest_ok), ("films", false));
        assert_eq!(masks(old), Ok(1), "everyone may read");
    }

    #[test]
    fn hostile_files_are_refused() {
        let faults = [
            (GOOD.replace("VERSION 2", "VERSION 3"), "version"),
            (GOOD.replace("path=", "paths="), "`path=`"),
            (GOOD.replace("comment=", "[global]\ncomment="), "`comment=`"),
            (GOOD.replace("S-1-1-0:R", "S-1-1-0:W"), "usershare_acl"),
            (GOOD.replace("S-1-1-0:R", "Everyone:R"), "usershare_acl"),
            (GOOD.replace("S-1-1-0:R", "S-1-1--0:R"), "usershare_acl"),
            (GOOD.replace("S-1-1-0:R", "S-1-1-+0:R"), "usershare_acl"),
            (GOOD.replace("S-1-1-0:R", "S-1-1-4294967296:R"), "usershare_acl"),
            (GOOD.replace("S-1-1-0:R", &format!("S-1-1{}:R", "-1".repeat(16))), "usershare_acl"),
            (GOOD.replace("S-1-1-0:R", "S-1-281474976710656-1:R"), "usershare_acl"),
            (GOOD.replace("guest_ok", "guests"), "`guest_ok=`"),
            (GOOD.replace("=Films", "=other"), "sharename"),
            (GOOD.replace("films", "fil\0ms"), "zero byte"),
            (String::new(), "version"),
        ];
        for (text, wanted) in faults {
            let fault = masks(&text).expect_err(&text);
            assert!(fault.contains(wanted), "{text}: {fault}");
        }
    }
}
