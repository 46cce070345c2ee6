//! The smbtorture to run: the installed one, or a newer one in a chroot.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::choro::text;

/// An smbtorture, and what to expect of it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Root of a chroot with it, from `SMBTORTURE_ROOT`.
    root: Option<PathBuf>,
}

impl Program {
    /// The program that the environment chooses.
    pub fn chosen() -> Self {
        let root = env::var_os("SMBTORTURE_ROOT").filter(|root| !root.is_empty());
        Self { root: root.map(PathBuf::from) }
    }

    /// Program and options that precede the arguments.
    pub fn command(&self) -> Vec<String> {
        match &self.root {
            None => vec!["smbtorture".to_owned()],
            Some(root) => vec!["chroot".to_owned(), text(root), "smbtorture".to_owned()],
        }
    }

    /// As [`Program::command`], and the name by which the program knows a folder of the server.
    pub fn command_with(&self, folder: &Path) -> (Vec<String>, String) {
        let Some(root) = &self.root else { return (self.command(), text(folder)) };
        let mount = "mount --bind \"$0\" \"$1/mnt\" && exec chroot \"$1\" smbtorture \"${@:2}\"";
        let words = ["unshare", "--mount", "bash", "-c", mount, &text(folder), &text(root)];
        (words.map(str::to_owned).to_vec(), "/mnt".to_owned())
    }

    /// A folder for its own files, by the name that it knows.
    pub fn own_folder(&self, folder: &Path) -> String {
        if self.root.is_some() { "/tmp".to_owned() } else { text(folder) }
    }

    /// Part of the names of its lists: empty for the installed one, of Debian 12.
    pub fn suffix(&self) -> String {
        if self.root.is_none() {
            return String::new();
        }
        let version = self.output("--version");
        let words = version.split(['-', ' ']).find(|word| word.starts_with("4."));
        let mut numbers = words.unwrap_or_else(|| panic!("no version: {version}")).split('.');
        let (major, minor) = (numbers.next(), numbers.next());
        format!("-{}.{}", major.unwrap_or_default(), minor.unwrap_or_default())
    }

    /// Its output with this argument.
    pub fn output(&self, argument: &str) -> String {
        let command = self.command();
        let output = Command::new(&command[0])
            .args(&command[1..])
            .arg(argument)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .expect("Debian's samba-testsuite is installed");
        String::from_utf8(output.stdout).expect("names of tests are ASCII")
    }
}
