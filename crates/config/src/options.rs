//! Parametric options that are known: those of this server, and those of Samba's modules whose
//! function it has.
//!
//! Any `module:option` is accepted, as by Samba, so a misspelled one would do nothing in silence.
//! Options of other modules stay unexamined.

use crate::class;
use crate::full_audit;
use crate::kind::{Kind, boolean};
use crate::parameter::nearest_of;
use crate::recycle;
use crate::shadow_copy;
use crate::streams_depot;
use crate::warning::{WarningKind, hint, quoted};

/// The options that have one prefix in common.
#[derive(Debug, Clone, Copy)]
enum Options {
    /// Names, with the forms of their values.
    Listed(&'static [(&'static str, Form)]),
    /// Those that a module of this crate reads and examines.
    OfModule { names: fn() -> Vec<&'static str>, fault: FindFault },
}

/// Returns the fault of an option and its value, in words.
type FindFault = fn(&str, &str) -> Option<String>;

/// Form of an option's value.
#[derive(Debug, Clone, Copy)]
enum Form {
    Bool,
    Bytes,
    Number,
    Text,
    /// One of these words, in small or capital letters.
    Words(&'static [&'static str]),
}

/// Returns a remark about an option `module:option` in small letters; none for a good one.
pub(crate) fn remark(key: &str, value: &str) -> Option<(WarningKind, String)> {
    let (prefix, option) = key.split_once(':')?;
    let Some(options) = of(prefix) else {
        let near = nearest_with_prefix(prefix, option)?;
        return Some(unknown(key, Some(&near)));
    };
    if !options.names().contains(&option) {
        let near = nearest_of(option, options.names()).map(|near| format!("{prefix}:{near}"));
        return Some(unknown(key, near.as_deref()));
    }
    let fault = options.fault(option, value)?;
    let text = format!("`{} = {}`: {fault}", quoted(key), quoted(value));
    Some((WarningKind::BadValue, text))
}

fn of(prefix: &str) -> Option<Options> {
    KNOWN.iter().find(|(known, _)| *known == prefix).map(|(_, options)| *options)
}

fn unknown(key: &str, near: Option<&str>) -> (WarningKind, String) {
    let text = format!("unknown parameter `{}`{}", quoted(key), hint(near));
    (WarningKind::UnknownParameter, text)
}

/// Returns the nearest known option for one with an unknown prefix, if both parts are near: others
/// may be options of modules that this server does not have.
fn nearest_with_prefix(prefix: &str, option: &str) -> Option<String> {
    let near = nearest_of(prefix, KNOWN.iter().map(|(known, _)| *known))?;
    let option = nearest_of(option, of(near)?.names())?;
    Some(format!("{near}:{option}"))
}

impl Options {
    fn names(self) -> Vec<&'static str> {
        match self {
            Self::Listed(list) => list.iter().map(|(name, _)| *name).collect(),
            Self::OfModule { names, .. } => names(),
        }
    }

    fn fault(self, option: &str, value: &str) -> Option<String> {
        match self {
            Self::Listed(list) => list.iter().find(|(name, _)| *name == option)?.1.fault(value),
            Self::OfModule { fault, .. } => fault(option, value),
        }
    }
}

impl Form {
    /// Returns the fault of a value. An empty one is the default.
    fn fault(self, value: &str) -> Option<String> {
        let value = value.trim();
        let expected = match self {
            Self::Text => return None,
            _ if value.is_empty() => return None,
            Self::Bool if boolean(value).is_none() => "yes or no".to_owned(),
            Self::Bytes => {
                let kind = Kind::Bytes { min: 0, max: u64::MAX };
                return kind.canonical(value, "").err().map(|bad| format!("{bad}; {UNUSED}"));
            }
            Self::Number if value.parse::<u64>().is_err() => "a number".to_owned(),
            Self::Words(words) if !words.iter().any(|it| it.eq_ignore_ascii_case(value)) => {
                let hint = nearest_of(value, words.iter().copied());
                let hint = hint.map_or_else(String::new, |it| format!(" (did you mean `{it}`?)"));
                format!("{}{hint}", words.join(", "))
            }
            _ => return None,
        };
        Some(format!("expected {expected}; {UNUSED}"))
    }
}

/// Consequence of a bad value.
const UNUSED: &str = "the default is used";

const KNOWN: &[(&str, Options)] = &[
    ("acl_xattr", Options::Listed(ACL_XATTR)),
    (class::RATE_LIMITS, Options::Listed(RATE_LIMITS)),
    ("catia", Options::Listed(&[("mappings", Form::Text)])),
    ("choro", Options::Listed(CHORO)),
    ("fruit", Options::Listed(FRUIT)),
    (
        full_audit::MODULE,
        Options::OfModule { names: || full_audit::OPTIONS.to_vec(), fault: |_, _| None },
    ),
    ("io_uring", Options::Listed(&[("num_entries", Form::Number), ("sqpoll", Form::Bool)])),
    ("readdir_attr", Options::Listed(READDIR_ATTR)),
    (recycle::MODULE, Options::OfModule { names: recycle::options, fault: recycle::fault }),
    (
        shadow_copy::OPTIONS,
        Options::OfModule { names: shadow_copy::options, fault: shadow_copy::fault },
    ),
    (
        streams_depot::MODULE,
        Options::OfModule { names: streams_depot::options, fault: streams_depot::fault },
    ),
    (streams_depot::ATTRIBUTES, Options::Listed(STREAMS_XATTR)),
];

const ACL_XATTR: &[(&str, Form)] = &[
    ("default acl style", Form::Words(&["posix", "windows", "everyone"])),
    ("ignore system acls", Form::Bool),
    ("security_acl_name", Form::Text),
];

/// Their values are those of a class, which refuses bad ones. Samba's names changed.
const RATE_LIMITS: &[(&str, Form)] = &[
    ("read_burst_mult", Form::Text),
    ("read_bw_limit", Form::Text),
    ("read_bytes_limit", Form::Text),
    ("read_delay_max", Form::Text),
    ("read_iops_limit", Form::Text),
    ("write_burst_mult", Form::Text),
    ("write_bw_limit", Form::Text),
    ("write_bytes_limit", Form::Text),
    ("write_delay_max", Form::Text),
    ("write_iops_limit", Form::Text),
];

const CHORO: &[(&str, Form)] = &[
    ("administrators", Form::Text),
    ("audit file", Form::Text),
    ("audit socket", Form::Text),
    ("audit syslog", Form::Text),
    // The word `log` and the words of a boolean.
    ("confinement", Form::Words(&["yes", "no", "log", "true", "false", "on", "off", "1", "0"])),
    ("llmnr", Form::Bool),
    ("log format", Form::Words(&["json", "text"])),
    ("storage delay", Form::Number),
    ("storage parallel", Form::Number),
    ("storage path", Form::Words(&["auto", "inline", "threads"])),
    ("wsd", Form::Bool),
];

const FRUIT: &[(&str, Form)] = &[
    ("aapl", Form::Bool),
    ("convert_adouble", Form::Bool),
    ("copyfile", Form::Bool),
    ("delete_empty_adfiles", Form::Bool),
    ("encoding", Form::Words(&["native", "private"])),
    ("ignore_zero_aces", Form::Bool),
    ("locking", Form::Words(&["netatalk", "none"])),
    ("metadata", Form::Words(&["stream", "netatalk"])),
    ("model", Form::Text),
    ("nfs_aces", Form::Bool),
    ("posix_opens", Form::Bool),
    ("posix_rename", Form::Bool),
    ("resource", Form::Words(&["file", "xattr", "stream"])),
    ("time machine", Form::Bool),
    ("time machine max size", Form::Bytes),
    ("validate_afpinfo", Form::Bool),
    ("veto_appledouble", Form::Bool),
    ("wipe_intentionally_left_blank_rfork", Form::Bool),
    ("zero_file_id", Form::Bool),
];

const READDIR_ATTR: &[(&str, Form)] = &[
    ("aapl_finder_info", Form::Bool),
    ("aapl_max_access", Form::Bool),
    ("aapl_rsize", Form::Bool),
];

const STREAMS_XATTR: &[(&str, Form)] = &[
    ("max xattrs per stream", Form::Number),
    ("prefix", Form::Text),
    ("store_stream_type", Form::Bool),
];

#[cfg(test)]
mod tests {
    use super::{KNOWN, remark};
    use crate::WarningKind;

    fn message(key: &str, value: &str) -> Option<String> {
        remark(key, value).map(|(_, message)| message)
    }

    #[test]
    fn an_unknown_option_is_named_with_the_nearest_one() {
        for (key, near) in [
            ("choro:wdd", "choro:wsd"),
            ("choro:audit sylog", "choro:audit syslog"),
            ("chroo:wsd", "choro:wsd"),
            ("fruit:copy file", "fruit:copyfile"),
            ("fruit:timemachine", "fruit:time machine"),
            ("full_audit:sucess", "full_audit:success"),
            ("recycle:keep_tree", "recycle:keeptree"),
            ("shadow:snapdri", "shadow:snapdir"),
            ("streams_depot:directroy", "streams_depot:directory"),
        ] {
            let want = format!("unknown parameter `{key}`, did you mean `{near}`?");
            assert_eq!(remark(key, "yes"), Some((WarningKind::UnknownParameter, want)));
        }
        let nothing_near = message("fruit:seeds", "yes");
        assert_eq!(nothing_near.as_deref(), Some("unknown parameter `fruit:seeds`"));
    }

    #[test]
    fn options_of_other_modules_of_samba_are_no_mistakes() {
        for key in [
            "audit:facility",
            "cap:x",
            "crossrename:sizelimit",
            "extd_audit:prefix",
            "glusterfs:volume",
            "idmap config *:range",
            "nfs4:mode",
            "smb2:max lease mask",
            "smb3 ca:max lease mask",
            "smbd:fsctl_smbtorture",
            "time_audit:timeout",
            "worm:grace_period",
        ] {
            assert_eq!(remark(key, "x"), None, "{key}");
        }
    }

    #[test]
    fn values_that_an_option_does_not_have_are_named() {
        for (key, value, want) in [
            ("choro:wsd", "of", "expected yes or no"),
            ("choro:log format", "jsn", "expected json, text (did you mean `json`?)"),
            (
                "choro:storage path",
                "treads",
                "expected auto, inline, threads (did you mean `threads`?)",
            ),
            ("choro:storage delay", "10ms", "expected a number"),
            (
                "fruit:time machine max size",
                "lots",
                "expected a number of bytes such as 65536 or 64K",
            ),
            ("fruit:metadata", "file", "expected stream, netatalk"),
        ] {
            let want = format!("`{key} = {value}`: {want}; the default is used");
            assert_eq!(remark(key, value), Some((WarningKind::BadValue, want)));
        }
    }

    #[test]
    fn good_values_are_accepted_as_they_were_before() {
        for (key, value) in [
            ("choro:wsd", "Off"),
            ("choro:log format", " JSON "),
            ("choro:log format", ""),
            ("choro:confinement", "Log"),
            ("choro:storage path", "Threads"),
            ("fruit:time machine max size", "2 T"),
            ("fruit:resource", "XATTR"),
            ("catia:mappings", "0x22:0xa8,0x2a:0xa4"),
            ("recycle:maxsize", "1G"),
        ] {
            assert_eq!(remark(key, value), None, "{key} = {value}");
        }
    }

    #[test]
    fn every_known_option_is_found_by_its_key() {
        for (prefix, options) in KNOWN {
            for name in options.names() {
                let found = remark(&format!("{prefix}:{name}"), "");
                let is_known = found.is_none_or(|(kind, _)| kind == WarningKind::BadValue);
                assert!(is_known, "{prefix}:{name}");
            }
        }
    }
}
