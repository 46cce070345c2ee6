//! Settings of Samba with an effect that this server lacks and must not ignore.
//!
//! Most parameters without effect change nothing that an operator relies on, and are accepted
//! ([`crate::accepted`]). Without the effect of these, the server would have no users, would serve
//! other files, or would admit users that the operator excludes. They refuse the configuration, or
//! are warnings if configurations of distributions contain them.

/// A refusal of the configuration, or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// As `Refused`, at the end of the configuration: another line names ctdbd's socket, by which
    /// the reason is explained.
    Cluster(&'static str),
    /// The configuration must not be served; the text has the reason and a remedy.
    Refused(&'static str),
    /// The configuration is served; the text names the missing effect.
    Missing(&'static str),
}

/// Returns the missing effect of `parameter = value`; `None` for a value without an effect.
pub(crate) fn of(parameter: &str, value: &str) -> Option<Unsupported> {
    let value = value.trim().trim_matches('"').to_ascii_lowercase();
    let is = |words: &[&str]| words.contains(&value.as_str());
    let yes = is(YES);
    let found = match parameter {
        "clustering" if yes => Unsupported::Cluster(CLUSTER),
        "config backend" if !is(&["", "file"]) => Unsupported::Refused(REGISTRY),
        "config file" if !value.is_empty() => Unsupported::Refused(OTHER_FILE),
        "domain logons" if yes => Unsupported::Refused(CONTROLLER),
        "obey pam restrictions" if yes => Unsupported::Missing(PAM),
        "only user" if yes => Unsupported::Refused(ONLY_USER),
        "root directory" if !is(&["", "/"]) => Unsupported::Refused(ROOT_DIRECTORY),
        "username map script" if !value.is_empty() => Unsupported::Missing(MAP_SCRIPT),
        _ => return None,
    };
    Some(found)
}

/// Returns the reason to refuse a share with this word in `vfs objects`; none for other modules.
pub(crate) fn of_module(name: &str) -> Option<&'static str> {
    let protects = ["acl_tdb", "readonly", "worm"];
    protects.iter().any(|module| module.eq_ignore_ascii_case(name)).then_some(MODULE)
}

const YES: &[&str] = &["yes", "true", "1", "on"];

const CLUSTER: &str = "clusters are not supported: nodes would not see each other's locks and \
                       open files; serve from one machine with `clustering = no`. `choro check` \
                       shows the state of the cluster";
/// Of a server role of a domain controller.
pub(crate) const CONTROLLER: &str = "this server cannot be a domain controller; `server role = \
                                     standalone server` serves files to users of its own";
const MAP_SCRIPT: &str = "the script is not run, so names stay as clients send them; `username \
                          map` names a file";
/// Of a domain that is not of Active Directory.
pub(crate) const OTHER_DOMAIN: &str = "only domains of Active Directory are supported, with \
                                       `security = ads`; `security = user` serves users of its \
                                       own (`choro user add`)";
const MODULE: &str = "without this module clients could do what it forbids; remove it to serve the \
                      share without its protection";
/// Of a highest dialect below SMB 2.
pub(crate) const NO_DIALECT: &str =
    "dialects before SMB 2 are not spoken, so no client could connect; leave the line out";

const ONLY_USER: &str = "it would not exclude other users; use `valid users`";
const OTHER_FILE: &str = "no other configuration is read; name the file with `--config`";
const PAM: &str = "PAM is not asked, so an account that PAM locks can still log on; `choro user \
                   remove` keeps a user out";
const REGISTRY: &str = "shares in Samba's registry are not read; `net conf list` writes them out \
                        as a file";
const ROOT_DIRECTORY: &str = "paths would be taken from the real root directory; write the paths \
                              of the shares in full";

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(parameter: &str, value: &str) -> bool {
        matches!(of(parameter, value), Some(Unsupported::Cluster(_) | Unsupported::Refused(_)))
    }

    #[test]
    fn a_cluster_and_logons_of_a_controller_are_refused_until_they_work() {
        assert!(is_refused("clustering", "yes") && is_refused("domain logons", "True"));
    }

    #[test]
    fn values_without_effect_are_accepted() {
        let harmless = [
            ("clustering", "no"),
            ("config backend", "file"),
            ("root directory", "/"),
            ("wins support", "yes"),
        ];
        for (parameter, value) in harmless {
            assert_eq!(of(parameter, value), None, "{parameter} = {value}");
        }
    }

    #[test]
    fn parameters_that_keep_clients_out_are_never_ignored_in_silence() {
        assert!(is_refused("only user", "yes"));
        assert!(is_refused("root directory", "/srv/jail"));
        assert!(matches!(of("obey pam restrictions", "yes"), Some(Unsupported::Missing(_))));
        assert!(of_module("ReadOnly").is_some() && of_module("recycle").is_none());
    }

    #[test]
    fn every_unsupported_setting_is_about_an_accepted_parameter() {
        let known = ["clustering", "config backend", "config file", "domain logons"];
        let rest = ["obey pam restrictions", "only user", "root directory", "username map script"];
        for name in known.iter().chain(&rest) {
            let found = crate::parameter::find(name).map(|(parameter, _)| parameter.effect);
            assert_eq!(found, Some(crate::parameter::Effect::Never), "{name}");
        }
    }
}
