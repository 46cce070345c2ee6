//! Settings of Samba that promise what this server does not have.
//!
//! Most parameters without effect change nothing that an operator relies on, and are accepted
//! ([`crate::accepted`]). These do: without their effect the server would have no users, would
//! serve other files, or would admit whom the operator keeps out. They refuse the configuration,
//! or, where the files of distributions have them, are warnings.

/// A refusal of the configuration, or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Serving without the effect would be wrong; the text says why, and what to do.
    Refused(&'static str),
    /// The server serves all the same; the text says what is missing.
    Missing(&'static str),
}

/// Returns what `parameter = value` promises and this server does not do; `None` for a value that
/// asks for nothing.
pub(crate) fn of(parameter: &str, value: &str) -> Option<Promise> {
    let value = value.trim().trim_matches('"').to_ascii_lowercase();
    let is = |words: &[&str]| words.contains(&value.as_str());
    let yes = is(YES);
    let promise = match parameter {
        "clustering" if yes => Promise::Refused(CLUSTER),
        "config backend" if !is(&["", "file"]) => Promise::Refused(REGISTRY),
        "config file" if !value.is_empty() => Promise::Refused(OTHER_FILE),
        "domain logons" if yes => Promise::Refused(CONTROLLER),
        "obey pam restrictions" if yes => Promise::Missing(PAM),
        "only user" if yes => Promise::Refused(ONLY_USER),
        "preexec close" | "root preexec close" if yes => Promise::Refused(PREEXEC),
        "root directory" if !is(&["", "/"]) => Promise::Refused(ROOT_DIRECTORY),
        "username map script" if !value.is_empty() => Promise::Missing(MAP_SCRIPT),
        _ => return None,
    };
    Some(promise)
}

/// Returns why a share with this word in `vfs objects` must not be served without the module.
pub(crate) fn of_module(name: &str) -> Option<&'static str> {
    let protects = ["acl_tdb", "readonly", "worm"];
    protects.iter().any(|module| module.eq_ignore_ascii_case(name)).then_some(MODULE)
}

const YES: &[&str] = &["yes", "true", "1", "on"];

const CLUSTER: &str = "this server is no node of a cluster: nodes would not see each other's locks \
                       and open files; serve from one machine with `clustering = no`";
/// Of a server role of a domain controller.
pub(crate) const CONTROLLER: &str = "this server is no domain controller; `server role = \
                                     standalone server` serves files to users of its own";
const MAP_SCRIPT: &str = "the script is not run, so names stay as clients send them; `username \
                          map` names a file";
/// Of a domain that is not of Active Directory.
pub(crate) const OTHER_DOMAIN: &str = "only a domain of Active Directory is asked for users, with \
                                       `security = ads`; `security = user` serves users of its \
                                       own (`choro user add`)";
const MODULE: &str = "without this module clients could do what it forbids; remove it to serve the \
                      share without its protection";
/// Of a highest dialect below SMB 2.
pub(crate) const NO_DIALECT: &str =
    "dialects before SMB 2 are not spoken, so no client could connect; leave the line out";

const ONLY_USER: &str = "it would not keep other users out; `valid users` does";
const OTHER_FILE: &str = "another configuration is not read from here; name the file with \
                          `--config`";
const PAM: &str = "PAM is not asked, so an account that PAM locks can still log on; `choro user \
                   remove` keeps a user out";
const PREEXEC: &str = "commands are not run, so none could keep a client out";
const REGISTRY: &str = "shares in Samba's registry are not read; `net conf list` writes them out \
                        as a file";
const ROOT_DIRECTORY: &str = "paths would be taken from the real root directory; write the paths \
                              of the shares in full";

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(parameter: &str, value: &str) -> bool {
        matches!(of(parameter, value), Some(Promise::Refused(_)))
    }

    #[test]
    fn a_cluster_and_logons_of_a_controller_are_refused_until_they_work() {
        assert!(is_refused("clustering", "yes") && is_refused("domain logons", "True"));
    }

    #[test]
    fn values_that_ask_for_nothing_are_accepted() {
        let harmless = [
            ("clustering", "no"),
            ("config backend", "file"),
            ("preexec close", "no"),
            ("root directory", "/"),
            ("wins support", "yes"),
        ];
        for (parameter, value) in harmless {
            assert_eq!(of(parameter, value), None, "{parameter} = {value}");
        }
    }

    #[test]
    fn parameters_that_keep_clients_out_are_never_ignored_in_silence() {
        for parameter in ["only user", "preexec close", "root preexec close"] {
            assert!(is_refused(parameter, "yes"), "{parameter}");
        }
        assert!(is_refused("root directory", "/srv/jail"));
        assert!(matches!(of("obey pam restrictions", "yes"), Some(Promise::Missing(_))));
        assert!(of_module("ReadOnly").is_some() && of_module("recycle").is_none());
    }

    #[test]
    fn every_promise_is_about_an_accepted_parameter() {
        let known = ["clustering", "config backend", "config file", "domain logons"];
        let more = ["obey pam restrictions", "only user", "preexec close", "root preexec close"];
        let rest = ["root directory", "username map script"];
        for name in known.iter().chain(&more).chain(&rest) {
            let found = crate::parameter::find(name).map(|(parameter, _)| parameter.effect);
            assert_eq!(found, Some(crate::parameter::Effect::Never), "{name}");
        }
    }
}
