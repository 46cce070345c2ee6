//! `%` in values.
//!
//! One pass: an inserted value is never expanded again, so a user named `%$(SECRET)` or `../../etc`
//! is only a strange name. Where the result is a path, [`Substitutions::expand_path`] also
//! restricts such names to one component of it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::limits::LINE_BYTES_MAX;

/// Values of the letters. An unknown field is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Substitutions {
    /// `%u`: user of the tree connect, after `force user`.
    pub user: String,
    /// `%g` and `%G`: the user's primary group.
    pub group: String,
    /// `%m`: name of the client, as it gave it; its address if it gave none.
    pub client_name: String,
    /// `%I` and `%M`, and `%J` with `_` for dots and colons: address of the client, whose name is
    /// not looked up.
    pub client_address: String,
    /// `%L` and `%N`: name by which the client calls the server.
    pub server_name: String,
    /// `%S`: name of the share.
    pub share: String,
    /// `%P`: folder of the share. Trusted: may have several components.
    pub path: String,
    /// `%H`: home folder of the user. Trusted: may have several components.
    pub home: String,
    /// `%d`: process that serves the client.
    pub pid: u32,
    /// `%D`: domain or workgroup of the user.
    pub domain: String,
    /// `%U`: user the client asked for.
    pub requested_user: String,
    /// `%a`: kind of client, such as `Vista` for Windows since then.
    pub arch: String,
    /// `%R`: dialect of the connection in use, such as `SMB3_11`.
    pub dialect: String,
    /// `%h`: name of the host.
    pub hostname: String,
    /// `%T`, and `%t` as `20261120_231659`, which paths can contain: date and time.
    pub time: String,
    /// `%v` and `%V`: version of the server; the version of this build when empty.
    pub version: String,
    /// `%i`, and `%j` with `_` for dots and colons: address the client connected to.
    pub interface: String,
    /// `%$(NAME)`: environment. Trusted: may have several components.
    pub environment: Arc<BTreeMap<String, String>>,
}

impl Substitutions {
    /// Returns the values that a process knows before any client: its id; host and environment as
    /// of the first call in this process or in the one that it was forked from.
    #[must_use]
    pub fn of_this_process() -> Self {
        static OF_THIS_PROCESS: OnceLock<Substitutions> = OnceLock::new();
        let known = OF_THIS_PROCESS.get_or_init(Self::detect).clone();
        Self { pid: std::process::id(), ..known }
    }

    fn detect() -> Self {
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let hostname = hostname.trim().to_owned();
        let label = hostname.split('.').next().unwrap_or_default();
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self {
            server_name: label.to_uppercase(),
            environment: Arc::new(environment.collect()),
            hostname,
            ..Self::default()
        }
    }

    /// Returns the text with its substitutions done. `%%` is a percent sign; an unknown letter
    /// stays as it is, percent sign included. The result is cut at [`LINE_BYTES_MAX`] bytes.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        self.replaced(text, |value, _| value)
    }

    /// As [`Substitutions::expand`], for the name of a file or folder: a value that a client could
    /// have chosen never adds a component, never is `.` or `..`, and never removes one.
    #[must_use]
    pub fn expand_path(&self, text: &str) -> String {
        let component = |meant: &str| {
            let mut has_trusted = false;
            let expanded = self.replaced(meant, |value, trusted| {
                has_trusted |= trusted;
                if trusted { value } else { one_component(&value) }
            });
            // Two harmless values side by side can still make a `..`, and an empty one can turn the
            // path into its parent folder.
            let harmless = !matches!(expanded.as_str(), "" | "." | "..");
            if harmless || has_trusted || expanded == meant { expanded } else { "_".to_owned() }
        };
        let mut out = String::new();
        for (index, meant) in text.split('/').enumerate() {
            if index > 0 {
                out.push('/');
            }
            out.push_str(&component(meant));
            if out.len() > LINE_BYTES_MAX {
                break;
            }
        }
        shortened(out)
    }

    /// Returns the parts of a text around its variables: one part more than there are variables.
    #[must_use]
    pub fn parts_around_variables(text: &str) -> Vec<String> {
        // No name of a file has a zero.
        let replaced = Self::default().replaced(text, |_, _| "\0".to_owned());
        replaced.split('\0').map(str::to_owned).collect()
    }

    /// Returns the letters of the variables in a text, in their order. Those of the environment
    /// have none.
    pub(crate) fn letters(text: &str) -> impl Iterator<Item = char> {
        let mut rest = text;
        std::iter::from_fn(move || {
            loop {
                let (_, after) = rest.split_once('%')?;
                let letter = after.chars().next()?;
                rest = &after[letter.len_utf8()..];
                if Self::default().value(after).is_some() && letter != '$' {
                    return Some(letter);
                }
            }
        })
    }

    fn replaced(&self, text: &str, mut guard: impl FnMut(String, bool) -> String) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            out.push_str(before);
            match self.value(after) {
                Some((value, trusted, used)) => {
                    out.push_str(&guard(value, trusted));
                    rest = &after[used..];
                }
                None => {
                    out.push('%');
                    // `%%` is consumed whole, or the second sign would start a substitution.
                    rest = after.strip_prefix('%').unwrap_or(after);
                }
            }
            if out.len() > LINE_BYTES_MAX {
                break;
            }
        }
        out.push_str(rest);
        shortened(out)
    }

    /// Returns the value for the text behind a percent sign, whether it is trusted in a path, and
    /// the number of bytes that name it.
    pub(crate) fn value(&self, after: &str) -> Option<(String, bool, usize)> {
        if let Some(environment) = after.strip_prefix("$(") {
            let (name, _) = environment.split_once(')')?;
            let value = self.environment.get(name).cloned().unwrap_or_default();
            return Some((value, true, name.len() + 3));
        }
        let letter = after.chars().next()?;
        let value = match letter {
            'u' => self.user.clone(),
            'U' => self.requested_user.clone(),
            'g' | 'G' => self.group.clone(),
            'm' => self.client_name.clone(),
            'I' | 'M' => self.client_address.clone(),
            'J' => underscored(&self.client_address),
            'L' | 'N' => self.server_name.clone(),
            'S' => self.share.clone(),
            'P' => self.path.clone(),
            'H' => self.home.clone(),
            'd' => self.pid.to_string(),
            'D' => self.domain.clone(),
            'w' => "\\".to_owned(),
            'a' => self.arch.clone(),
            'R' => self.dialect.clone(),
            'h' => self.hostname.clone(),
            'T' => self.time.clone(),
            't' => self.time.replace(['/', ':'], "").replace(' ', "_"),
            'v' | 'V' if self.version.is_empty() => env!("CARGO_PKG_VERSION").to_owned(),
            'v' | 'V' => self.version.clone(),
            'i' => self.interface.clone(),
            'j' => underscored(&self.interface),
            _ => return None,
        };
        Some((value, matches!(letter, 'P' | 'H'), letter.len_utf8()))
    }
}

/// Cuts the text at [`LINE_BYTES_MAX`] bytes, between characters.
fn shortened(mut text: String) -> String {
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// Returns the value without characters that have a meaning to the file system.
pub(crate) fn one_component(value: &str) -> String {
    if value == "." {
        return "_".to_owned();
    }
    let plain = |c: char| if c == '/' || c.is_control() { '_' } else { c };
    value.replace("..", "_").chars().map(plain).collect()
}

fn underscored(text: &str) -> String {
    text.replace(['.', ':', '/', ' '], "_")
}

#[cfg(test)]
mod tests;
