//! `vfs objects = full_audit`: the parametric options of Samba's module, with their defaults.

use std::path::PathBuf;

use crate::kind::Kind;
use crate::list;
use crate::share::Share;

/// The module that a share names to be audited.
pub(crate) const MODULE: &str = "full_audit";

/// Names of the options, of those without effect, too.
pub(crate) const OPTIONS: &[&str] =
    &["facility", "failure", "log_secdesc", "prefix", "priority", "success", "syslog"];

/// Prefix of each line for syslog, as in Samba.
const PREFIX: &str = "%u|%I";

/// Samba's operations that this server records, with the events that they select. Names of old and
/// new versions are among them, because files move along.
const RECORDED: &[(&str, &[&str])] = &[
    ("chmod", &["set_rights"]),
    ("chmod_acl", &["set_rights"]),
    ("chown", &["set_rights"]),
    ("close", &["close"]),
    ("connect", &["connect"]),
    ("create_file", &["create", "create_directory", "open"]),
    ("disconnect", &["disconnect"]),
    ("fallocate", &["write"]),
    ("fchmod", &["set_rights"]),
    ("fchmod_acl", &["set_rights"]),
    ("fchown", &["set_rights"]),
    ("fset_nt_acl", &["set_rights"]),
    ("ftruncate", &["write"]),
    ("lchown", &["set_rights"]),
    ("link", &["link"]),
    ("linkat", &["link"]),
    ("mkdir", &["create_directory"]),
    ("mkdirat", &["create_directory"]),
    ("offload_write_recv", &["write"]),
    ("offload_write_send", &["write"]),
    ("open", &["create", "open"]),
    ("openat", &["create", "open"]),
    ("pwrite", &["write"]),
    ("pwrite_recv", &["write"]),
    ("pwrite_send", &["write"]),
    ("recvfile", &["write"]),
    ("rename", &["rename"]),
    ("rename_stream", &["rename"]),
    ("renameat", &["rename"]),
    ("rmdir", &["delete_directory"]),
    ("set_nt_acl", &["set_rights"]),
    ("sys_acl_delete_def_fd", &["set_rights"]),
    ("sys_acl_delete_def_file", &["set_rights"]),
    ("sys_acl_set_fd", &["set_rights"]),
    ("sys_acl_set_file", &["set_rights"]),
    ("unlink", &["delete", "delete_pending"]),
    ("unlinkat", &["delete", "delete_directory", "delete_pending"]),
    ("write", &["write"]),
];

/// Samba's other operations: accepted, and recorded by nothing here. They only read, or are steps
/// of operations above.
const UNRECORDED: &[&str] = &[
    "aio_force",
    "audit_file",
    "brl_lock_windows",
    "brl_unlock_windows",
    "chdir",
    "chflags",
    "closedir",
    "connectpath",
    "copy_chunk_recv",
    "copy_chunk_send",
    "create_dfs_pathat",
    "disk_free",
    "durable_cookie",
    "durable_disconnect",
    "durable_reconnect",
    "fchflags",
    "fcntl",
    "fdopendir",
    "fget_compression",
    "fget_dos_attributes",
    "fget_nt_acl",
    "fget_nt_acl_at",
    "fgetxattr",
    "file_id_create",
    "filesystem_sharemode",
    "flistxattr",
    "fntimes",
    "freaddir_attr",
    "fremovexattr",
    "fs_capabilities",
    "fs_file_id",
    "fsctl",
    "fset_dos_attributes",
    "fsetxattr",
    "fstat",
    "fstatat",
    "fstreaminfo",
    "fsync",
    "fsync_recv",
    "fsync_send",
    "get_alloc_size",
    "get_compression",
    "get_dfs_referrals",
    "get_dos_attributes",
    "get_dos_attributes_recv",
    "get_dos_attributes_send",
    "get_nt_acl",
    "get_nt_acl_at",
    "get_quota",
    "get_real_filename",
    "get_real_filename_at",
    "get_shadow_copy_data",
    "getlock",
    "getwd",
    "getxattr",
    "getxattrat_recv",
    "getxattrat_send",
    "is_offline",
    "kernel_flock",
    "linux_setlease",
    "listxattr",
    "lock",
    "lseek",
    "lstat",
    "mknod",
    "mknodat",
    "ntimes",
    "offload_read_recv",
    "offload_read_send",
    "open_share_root",
    "opendir",
    "parent_pathname",
    "pread",
    "pread_recv",
    "pread_send",
    "read",
    "read_dfs_pathat",
    "readdir",
    "readdir_attr",
    "readlink",
    "readlinkat",
    "realpath",
    "removexattr",
    "rewinddir",
    "seekdir",
    "sendfile",
    "set_compression",
    "set_dos_attributes",
    "set_offline",
    "set_quota",
    "setxattr",
    "snap_check_path",
    "snap_create",
    "snap_delete",
    "stat",
    "statvfs",
    "streaminfo",
    "strict_lock_check",
    "strict_unlock",
    "symlink",
    "symlinkat",
    "sys_acl_blob_get_fd",
    "sys_acl_blob_get_file",
    "sys_acl_get_fd",
    "sys_acl_get_file",
    "telldir",
    "translate_name",
    "unlock",
    "utime",
];

/// Facilities of syslog with their numbers (RFC 5424).
const FACILITIES: &[(&str, u8)] = &[
    ("KERN", 0),
    ("USER", 1),
    ("MAIL", 2),
    ("DAEMON", 3),
    ("AUTH", 4),
    ("SYSLOG", 5),
    ("LPR", 6),
    ("NEWS", 7),
    ("UUCP", 8),
    ("CRON", 9),
    ("AUTHPRIV", 10),
    ("FTP", 11),
    ("LOCAL0", 16),
    ("LOCAL1", 17),
    ("LOCAL2", 18),
    ("LOCAL3", 19),
    ("LOCAL4", 20),
    ("LOCAL5", 21),
    ("LOCAL6", 22),
    ("LOCAL7", 23),
];

/// Priorities of syslog; the index is the number.
const PRIORITIES: &[&str] =
    &["EMERG", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG"];

/// Audit of a share, as its options describe it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FullAudit {
    /// Names of events to record if the operation succeeds.
    pub success: Vec<&'static str>,
    /// Names of events to record if it fails.
    pub failure: Vec<&'static str>,
    /// Lines for syslog; `None` if they are switched off.
    pub syslog: Option<AuditSyslog>,
}

/// Lines of an audit for syslog.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditSyslog {
    /// Begin of each line; may contain substitutions.
    pub prefix: String,
    /// Facility and priority in one number, as at the begin of a packet (RFC 3164, PRI).
    pub priority: u8,
}

/// Places that records of audits go to: options `choro:audit …` of `[global]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditOutputs {
    /// File with a JSON object a line; `None` for `choro:audit file = none`.
    pub file: Option<PathBuf>,
    /// Datagram socket that gets the same objects.
    pub socket: Option<PathBuf>,
    /// Datagram socket that syslog listens on.
    pub syslog: PathBuf,
}

/// Fault of an option, with its effect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The share must not be served: less than the operator expects would be recorded.
    Refused(String),
    /// The option has no effect.
    Ignored(String),
}

impl FullAudit {
    /// The audit of a share; `None` if its `vfs objects` name none.
    #[must_use]
    pub fn of(share: &Share) -> Option<Self> {
        if !share.has_module(MODULE) {
            return None;
        }
        let text = |option| share.option(MODULE, option).unwrap_or_default();
        let events = |option| selected(text(option)).unwrap_or_default();
        let facility = number_of(FACILITIES, text("facility")).unwrap_or(1);
        let priority = priority(text("priority")).unwrap_or(5);
        let syslog = share.option_is_on(MODULE, "syslog", true).then(|| AuditSyslog {
            prefix: share.option(MODULE, "prefix").unwrap_or(PREFIX).to_owned(),
            priority: facility * 8 + priority,
        });
        Some(Self { success: events("success"), failure: events("failure"), syslog })
    }

    /// True if nothing is recorded, as by default in Samba.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.success.is_empty() && self.failure.is_empty()
    }
}

/// Returns the names of all events that operations can select.
pub fn audit_events() -> impl Iterator<Item = &'static str> {
    RECORDED.iter().flat_map(|(_, events)| events.iter().copied())
}

/// Returns the fault of an option `full_audit:option`, in words; `None` for a good one.
pub(crate) fn fault(option: &str, value: &str) -> Option<Fault> {
    match option {
        "success" | "failure" => selected(value).err().map(|word| {
            Fault::Refused(format!("no operation of Samba is called `{word}`; `all` selects all"))
        }),
        "facility" if number_of(FACILITIES, value).is_none() => {
            Some(Fault::Refused("a facility of syslog is expected, such as LOCAL5".to_owned()))
        }
        "priority" if priority(value).is_none() => {
            Some(Fault::Refused("a priority of syslog is expected, such as NOTICE".to_owned()))
        }
        "syslog" => {
            let bad = Kind::Bool.canonical(value.trim(), "").err()?;
            Some(Fault::Ignored(format!("{bad}; the default is used")))
        }
        "log_secdesc" => Some(Fault::Ignored("descriptors are not recorded".to_owned())),
        _ => None,
    }
}

/// Returns the events that a list selects, as Samba reads it: `none` ends the list, and `!name`
/// takes an operation out again.
///
/// # Errors
/// The first word that is no operation.
fn selected(text: &str) -> Result<Vec<&'static str>, String> {
    let mut operations: Vec<usize> = Vec::new();
    for word in list::words(text) {
        if word.eq_ignore_ascii_case("all") {
            operations = (0..RECORDED.len()).collect();
            continue;
        }
        if word.eq_ignore_ascii_case("none") {
            break;
        }
        let (name, is_out) = word.strip_prefix('!').map_or((&*word, false), |name| (name, true));
        match RECORDED.iter().position(|(it, _)| it.eq_ignore_ascii_case(name)) {
            Some(index) if is_out => operations.retain(|it| *it != index),
            Some(index) => operations.push(index),
            None if UNRECORDED.iter().any(|it| it.eq_ignore_ascii_case(name)) => {}
            None => return Err(crate::warning::quoted(&word)),
        }
    }
    let mut events: Vec<&str> =
        operations.into_iter().flat_map(|index| RECORDED[index].1.iter().copied()).collect();
    events.sort_unstable();
    events.dedup();
    Ok(events)
}

fn number_of(table: &[(&str, u8)], word: &str) -> Option<u8> {
    let word = word.trim();
    table.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, number)| *number)
}

fn priority(word: &str) -> Option<u8> {
    let word = word.trim();
    let index = PRIORITIES.iter().position(|name| name.eq_ignore_ascii_case(word))?;
    u8::try_from(index).ok()
}

#[cfg(test)]
mod tests {
    use super::{FullAudit, RECORDED, UNRECORDED};
    use crate::Config;

    fn parsed(lines: &str) -> Result<(Option<FullAudit>, Vec<String>), String> {
        let text = format!("[a]\npath = /a\n{lines}\n");
        let (config, warnings) = Config::parse(&text, "test").map_err(|it| it.to_string())?;
        let reported = warnings.iter().map(ToString::to_string).collect();
        Ok((FullAudit::of(&config.shares[0]), reported))
    }

    fn success(list: &str) -> Vec<&'static str> {
        let lines = format!("vfs objects = full_audit\nfull_audit:success = {list}");
        parsed(&lines).expect("it is served").0.expect("it has the module").success
    }

    #[test]
    fn a_share_without_the_module_is_not_audited() {
        assert_eq!(parsed("full_audit:success = all").expect("it is served").0, None);
    }

    #[test]
    fn nothing_is_recorded_by_default_as_in_samba() {
        let (audit, reported) = parsed("vfs objects = full_audit").expect("it is served");
        let audit = audit.expect("it has the module");
        assert!(audit.is_empty() && reported.len() == 1, "{reported:?}");
        assert!(reported[0].contains("records nothing"), "{reported:?}");
        let syslog = audit.syslog.expect("as in Samba");
        assert_eq!((syslog.prefix.as_str(), syslog.priority), ("%u|%I", 13));
    }

    #[test]
    fn lists_are_read_as_samba_reads_them() {
        assert_eq!(
            success("unlinkat renameat"),
            ["delete", "delete_directory", "delete_pending", "rename"]
        );
        assert_eq!(success("mkdir rmdir pread"), ["create_directory", "delete_directory"]);
        assert_eq!(success("connect none disconnect"), ["connect"]);
        let all = success("all");
        assert!(all.contains(&"close") && all.contains(&"set_rights"));
        assert!(!success("ALL !close").contains(&"close"));
    }

    #[test]
    fn an_unknown_operation_or_facility_refuses_the_configuration() {
        for line in ["success = unlinkat renam", "failure = !opn", "facility = x", "priority = x"] {
            let refused = parsed(&format!("vfs objects = full_audit\nfull_audit:{line}"));
            assert!(refused.as_ref().is_err_and(|it| it.contains("test:4")), "{line}: {refused:?}");
        }
    }

    #[test]
    fn options_without_effect_are_reported() {
        let lines = "vfs objects = full_audit\nfull_audit:success = all\nfull_audit:sucess = all\n\
                     full_audit:log_secdesc = yes\nfull_audit:syslog = maybe";
        let (_, reported) = parsed(lines).expect("it is served");
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert!(
            reported[0].contains("test:5") && reported[0].contains("unknown parameter"),
            "{reported:?}"
        );
    }

    #[test]
    fn facility_and_priority_are_one_number() {
        let lines = "vfs objects = full_audit\nfull_audit:facility = local5\n\
                     full_audit:priority = Info\nfull_audit:prefix = %S";
        let (audit, _) = parsed(lines).expect("it is served");
        let syslog = audit.and_then(|it| it.syslog).expect("it is on");
        assert_eq!((syslog.prefix.as_str(), syslog.priority), ("%S", 21 * 8 + 6));
        let off = parsed("vfs objects = full_audit\nfull_audit:syslog = no").expect("it is served");
        assert_eq!(off.0.expect("it has the module").syslog, None);
    }

    #[test]
    fn no_operation_is_listed_twice() {
        let names = RECORDED.iter().map(|(name, _)| *name).chain(UNRECORDED.iter().copied());
        let mut names: Vec<&str> = names.collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
