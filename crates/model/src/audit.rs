//! Audit of a share: the events to record, and the client of a tree connect.

use std::net::SocketAddr;
use std::sync::Arc;

/// An event of an audit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuditEvent {
    /// A session was connected to the share.
    Connect,
    /// A session was disconnected from the share.
    Disconnect,
    /// A file or a stream was created.
    Create,
    /// A directory was created by CREATE.
    CreateDirectory,
    /// An existing file was opened for writing.
    Open,
    /// A file was changed, for the first time over an open.
    Write,
    /// A file that was changed over an open was closed.
    Close,
    /// A file or directory got another name.
    Rename,
    /// A file got a further name.
    Link,
    /// A file or a stream was deleted.
    Delete,
    /// A directory was deleted, which was empty.
    DeleteDirectory,
    /// An open ended that had made its file delete pending; other opens keep the file for now.
    DeletePending,
    /// The security descriptor was changed.
    SetRights,
}

impl AuditEvent {
    const ALL: [Self; 13] = [
        Self::Connect,
        Self::Disconnect,
        Self::Create,
        Self::CreateDirectory,
        Self::Open,
        Self::Write,
        Self::Close,
        Self::Rename,
        Self::Link,
        Self::Delete,
        Self::DeleteDirectory,
        Self::DeletePending,
        Self::SetRights,
    ];

    /// Name of the event in configuration and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::Create => "create",
            Self::CreateDirectory => "create_directory",
            Self::Open => "open",
            Self::Write => "write",
            Self::Close => "close",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Delete => "delete",
            Self::DeleteDirectory => "delete_directory",
            Self::DeletePending => "delete_pending",
            Self::SetRights => "set_rights",
        }
    }

    /// Name of Samba's operation for the event, for syslog.
    #[must_use]
    pub fn operation(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::Create | Self::Open => "openat",
            Self::CreateDirectory => "mkdirat",
            Self::Write => "pwrite",
            Self::Close => "close",
            Self::Rename => "renameat",
            Self::Link => "linkat",
            Self::Delete | Self::DeleteDirectory | Self::DeletePending => "unlinkat",
            Self::SetRights => "fset_nt_acl",
        }
    }
}

/// A set of events, one bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AuditEvents(u16);

impl AuditEvents {
    /// Returns the set of the events with these names; other names add nothing.
    #[must_use]
    pub fn named(names: &[&str]) -> Self {
        let named = AuditEvent::ALL.into_iter().filter(|event| names.contains(&event.name()));
        Self(named.fold(0, |set, event| set | 1 << event as u16))
    }

    /// Returns whether the event is in the set.
    #[must_use]
    pub fn contains(self, event: AuditEvent) -> bool {
        self.0 & (1 << event as u16) != 0
    }
}

/// Audit of a tree connect: the events to record, and the client that causes them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Audit {
    /// Events to record if the operation succeeds.
    pub success: AuditEvents,
    /// Events to record if it fails.
    pub failure: AuditEvents,
    /// Lines for syslog; none if there are only records.
    pub syslog: Option<AuditSyslog>,
    /// True for guests and anonymous users, whose number nothing limits.
    pub is_guest: bool,
    /// Name of the user as configured.
    pub user: String,
    /// Domain or workgroup of the user.
    pub domain: String,
    /// Address and port of the connection that the tree connect came by.
    pub client: SocketAddr,
    /// Name of the client machine, as the client gave it with its password; unproven. Empty for
    /// tickets.
    pub client_name: String,
    /// Name of the share as configured.
    pub share: String,
}

/// Form of lines for syslog.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditSyslog {
    /// Begin of each line, after substitutions.
    pub prefix: String,
    /// Facility and priority, as in a packet of syslog.
    pub priority: u8,
}

/// Audit of an open, and its changes so far.
#[derive(Clone, Debug)]
pub struct AuditedOpen {
    /// Audit of the tree connect that the open was made in.
    pub audit: Arc<Audit>,
    /// Bytes that were written over the open.
    pub bytes_written: u64,
    /// True once the file was changed over the open.
    pub has_written: bool,
    /// True if the file was made delete pending over the open.
    pub has_marked: bool,
}

impl AuditedOpen {
    /// Makes the audit of an open without any change so far.
    #[must_use]
    pub fn new(audit: Arc<Audit>) -> Self {
        Self { audit, bytes_written: 0, has_written: false, has_marked: false }
    }
}

#[cfg(test)]
mod tests {
    use super::{AuditEvent, AuditEvents};

    #[test]
    fn each_event_is_found_by_its_name_alone() {
        for event in AuditEvent::ALL {
            let set = AuditEvents::named(&[event.name()]);
            let found: Vec<AuditEvent> =
                AuditEvent::ALL.into_iter().filter(|it| set.contains(*it)).collect();
            assert_eq!(found, [event]);
        }
        assert_eq!(AuditEvents::named(&["other"]), AuditEvents::default());
    }
}
