//! Shares that a relayed logon reaches (an NTLM relay attack).
//!
//! The relay has no session key, so required signing or encryption keeps it out; so does dialect
//! 3.1.1, where a user's TREE_CONNECT must be signed: [MS-SMB2] 3.3.5.7.

use config::choice::Encryption;
use config::{Config, Share};

/// The first dialect whose users must sign: [MS-SMB2] 2.2.3.
const DIALECT_3_1_1: u16 = 0x0311;

/// Setting that stops relayed logons.
pub(in crate::command) const REMEDY: &str = "server signing = mandatory";

/// Returns the names of the shares that a relayed logon reaches.
pub(super) fn reachable(config: &Config) -> Vec<&str> {
    let (dialect_min, _) = config.global.dialects();
    if config.global.signing_required()
        || dialect_min >= DIALECT_3_1_1
        || config.defaults.smb_encrypt == Encryption::Required
    {
        return Vec::new();
    }
    let is_open = |share: &&Share| share.available && share.smb_encrypt != Encryption::Required;
    // IPC$ as well: it lists shares and users.
    let shares = config.shares.iter().chain(config.homes.iter());
    let shares = shares.chain(Some(&config.ipc)).filter(is_open);
    shares.map(|share| share.name.as_str()).collect()
}

/// Returns the danger in words, if any share is reachable.
pub(in crate::command) fn danger(config: &Config) -> Option<String> {
    let shares = reachable(config);
    (!shares.is_empty()).then(|| {
        format!(
            "neither signing nor encryption is required, so an attacker who relays a client's \
             logon reaches: {}",
            shares.join(", ")
        )
    })
}

/// Returns a warning for the administrator, with the remedy.
pub(super) fn warning(config: &Config) -> Option<String> {
    let danger = danger(config)?;
    Some(format!("{danger}. To prevent this, set in [global]: {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::{reachable, warning};

    #[track_caller]
    fn check(global: &str, share: &str, want: &[&str]) {
        let text = format!(
            "[global]\n{global}\n[sealed]\npath = /s\nsmb encrypt = required\n\
             [data]\npath = /d\n{share}\n"
        );
        let (config, warnings) = Config::parse(&text, "test").expect("it is well-formed");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(reachable(&config), want, "{text}");
    }

    #[test]
    fn a_relayed_logon_reaches_shares_without_signing_and_encryption() {
        let all: &[&str] = &["data", "IPC$"];
        check("", "", all);
        check("server signing = auto", "smb encrypt = desired", all);
        check("server min protocol = SMB3_02", "", all);
        check("server signing = mandatory", "", &[]);
        check("server min protocol = SMB3_11", "", &[]);
        check("smb encrypt = required", "", &[]);
        // IPC$ is reachable still, and lists users and shares.
        check("", "smb encrypt = required", &["IPC$"]);
        check("", "smb encrypt = required\n[IPC$]\nsmb encrypt = required", &[]);
        check("", "available = no", &["IPC$"]);
    }

    #[test]
    fn the_recommended_line_protects_the_named_shares() {
        let (open, _) = Config::parse("[data]\npath = /d\n", "test").expect("it is one");
        let text = warning(&open).expect("it is open");
        assert!(text.contains("reaches: data, IPC$. "), "{text}");
        let line = text.rsplit(": ").next().expect("a line");
        let closed = format!("[global]\n{line}\n[data]\npath = /d\n");
        let (closed, _) = Config::parse(&closed, "test").expect("it is one");
        assert_eq!(warning(&closed), None);
    }
}
