//! Random parameters of shares, known to both servers.

use std::fmt::Write as _;

use super::random::Random;

/// Parameters of one share, by names that both servers know.
#[derive(Clone, Debug)]
pub(super) struct Parameters(Vec<(&'static str, &'static str)>);

impl Parameters {
    /// Chooses a few of the parameters, and a value for each.
    pub(super) fn choose(random: &mut Random) -> Self {
        let mut chosen = Vec::new();
        for (name, values) in CHOICES {
            let likely = ALWAYS.contains(name);
            if likely || random.once_in(ONE_IN) {
                chosen.push((*name, random.one_of(values)));
            }
        }
        Self(chosen)
    }

    /// The lines of the section.
    pub(super) fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "{name} = {value}");
            text
        })
    }

    /// The same as single lines, by which explanations are found.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.0.iter().map(|(name, value)| format!("{name} = {value}"));
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    pub(super) fn has_forced_user(&self) -> bool {
        self.0.iter().any(|(name, value)| *name == "force user" && *value != "root")
    }
}

/// Parameters that each share has.
const ALWAYS: &[&str] = &["read only", "force user", "vfs objects"];

/// One of so many other parameters is in a share.
const ONE_IN: usize = 6;

const BOTH: &[&str] = &["yes", "no"];

/// Parameters of shares that change answers or the disk, with values to choose from.
const CHOICES: &[(&str, &[&str])] = &[
    ("read only", &["no", "no", "no", "no", "no", "no", "no", "yes"]),
    ("force user", &["daemon", "daemon", "root"]),
    (
        "vfs objects",
        &["", "streams_xattr", "acl_xattr streams_xattr", "streams_xattr", "catia streams_xattr"],
    ),
    ("available", &["yes", "yes", "yes", "no"]),
    ("case sensitive", &["auto", "yes", "no"]),
    ("create mask", &["0644", "0755", "0600", "0777", "0700"]),
    ("csc policy", &["manual", "documents", "disable"]),
    ("default case", &["lower", "upper"]),
    ("delete readonly", BOTH),
    ("delete veto files", BOTH),
    ("directory mask", &["0700", "0750", "0777"]),
    ("dos filemode", BOTH),
    ("dos filetimes", BOTH),
    ("ea support", BOTH),
    ("follow symlinks", BOTH),
    ("force create mode", &["0660", "0111", "0007"]),
    ("force directory mode", &["0770", "0007"]),
    ("force group", &["daemon", "+daemon", "root"]),
    ("fstype", &["NTFS", "Samba", "FAT"]),
    ("guest ok", BOTH),
    ("hide dot files", BOTH),
    ("hide files", &["/*.tmp/", "/UPPER/long*/"]),
    ("hide special files", BOTH),
    ("hide unreadable", BOTH),
    ("hide unwriteable files", BOTH),
    ("hosts allow", &["127.0.0.1", "127. EXCEPT 127.0.0.2", "10.0.0.0/8"]),
    ("hosts deny", &["10.0.0.0/8", "ALL EXCEPT 127.0.0.1", "127.0.0.1"]),
    ("inherit acls", BOTH),
    ("inherit owner", &["no", "windows and unix", "unix only"]),
    ("inherit permissions", BOTH),
    ("invalid users", &["daemon", "root", "@nogroup"]),
    ("kernel oplocks", BOTH),
    // With "yes", Samba refuses opens: Linux has had no LOCK_MAND since 5.15.
    ("kernel share modes", &["no"]),
    ("level2 oplocks", BOTH),
    ("locking", &["yes"]),
    ("mangled names", &["no", "illegal", "yes"]),
    ("map archive", BOTH),
    ("map hidden", BOTH),
    ("map readonly", &["no", "yes", "permissions"]),
    ("map system", BOTH),
    ("max connections", &["0", "1", "5"]),
    ("nt acl support", BOTH),
    ("oplocks", BOTH),
    ("posix locking", BOTH),
    ("preserve case", BOTH),
    ("read list", &["root", "daemon", "nobody"]),
    ("short preserve case", BOTH),
    ("store dos attributes", BOTH),
    ("strict locking", &["auto", "yes", "no"]),
    ("strict rename", BOTH),
    ("strict sync", BOTH),
    ("sync always", BOTH),
    ("use sendfile", BOTH),
    ("valid users", &["root", "daemon", "root, nobody", "%U", "+root"]),
    ("veto files", &["/*.tmp/", "/UPPER/.hidden/", "/b?.txt/"]),
    ("volume", &["Volume", "%S"]),
    ("write list", &["root", "daemon"]),
];

#[cfg(test)]
mod tests {
    use super::{ALWAYS, CHOICES, Parameters, Random};

    #[test]
    fn names_stand_in_order_behind_those_of_each_share() {
        let (always, rest) = CHOICES.split_at(ALWAYS.len());
        assert!(always.iter().map(|(name, _)| name).eq(ALWAYS));
        assert!(rest.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn a_seed_decides_the_parameters() {
        let text = |seed| Parameters::choose(&mut Random::new(seed)).text();
        assert_eq!(text(3), text(3));
        assert_ne!(text(3), text(4));
    }
}
