//! Audit of shares (`vfs objects = full_audit`): from requests to records for the worker.
//!
//! A share without an audit has none in [`model::share::Share`], and its opens have none: then a
//! request costs a look at that field, and nothing here runs.

use std::sync::Arc;

use arbitration::Standing;
use dtyp::fscc::FileInformationClass;
use dtyp::{AccessMask, NtStatus};
use model::audit::{Audit, AuditEvent, AuditedOpen};
use model::open::{Open, OpenFile, Target};
use model::reject::Reject;
use model::share::Share;
use object::{ObjectPath, Opened};
use wire::create::{CreateDisposition, CreateOptions, CreateRequest};
use wire::query_info::InfoType;
use wire::set_info::SetInfoRequest;
use wire::tree_connect::TreeConnectRequest;
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId};

use crate::effect::{ByClose, Removal};
use crate::globals::Globals;
use crate::notice::{AuditRecord, Notice};
use crate::request::Incoming;
use crate::server::Server;

/// Characters of a refused path that are kept; no path that the kernel resolves has more.
const PATH_CHARACTERS_MAX: usize = 4_096;

/// Characters of a name of a share that are kept, if there may be no such share.
const NAME_CHARACTERS_MAX: usize = 255;

/// Rights that make an open one for writing.
const WRITING: AccessMask = AccessMask::WRITE_DATA.union(AccessMask::APPEND_DATA);

impl Globals {
    /// Sends a record to the worker, if the share's audit selects its event.
    #[cold]
    pub fn audit(&mut self, record: AuditRecord) {
        let AuditRecord { audit, event, status, .. } = &record;
        let selected = if status.is_error() { audit.failure } else { audit.success };
        if selected.contains(*event) {
            self.outbox.notices.push_back(Notice::Audited(Box::new(record)));
        }
    }

    /// Records the connection of a session to a share, or its end.
    pub fn audit_share(&mut self, share: &Share, event: AuditEvent) {
        if let Some(audit) = &share.audit {
            self.audit(AuditRecord::new(audit, event));
        }
    }

    /// Records a file or directory that CREATE has created.
    #[cold]
    pub fn audit_created(&mut self, audit: &Arc<Audit>, path: &ObjectPath, is_directory: bool) {
        let event = if is_directory { AuditEvent::CreateDirectory } else { AuditEvent::Create };
        self.audit(AuditRecord::new(audit, event).of(path));
    }

    /// Begins the audit of an open. Records an existing file that was opened for writing.
    #[cold]
    pub fn audit_opened(&mut self, audit: &Arc<Audit>, opened: &Opened) -> Box<AuditedOpen> {
        let is_directory = opened.metadata.is_directory() && opened.path.stream().is_none();
        if !opened.created && !is_directory && opened.granted_access.intersects(WRITING) {
            self.audit(AuditRecord::new(audit, AuditEvent::Open).of(&opened.path));
        }
        Box::new(AuditedOpen::new(Arc::clone(audit)))
    }

    /// Records the first change of a file over an open, and counts the bytes that were written.
    #[inline]
    pub fn audit_written(&mut self, open: &mut Open, bytes: u64) {
        if let Target::File(file) = &mut open.target
            && file.audit.is_some()
        {
            self.note_written(file, bytes);
        }
    }

    #[cold]
    fn note_written(&mut self, file: &mut OpenFile, bytes: u64) {
        let Some(audited) = &mut file.audit else { return };
        audited.bytes_written = audited.bytes_written.saturating_add(bytes);
        if !std::mem::replace(&mut audited.has_written, true) {
            self.audit(AuditRecord::new(&audited.audit, AuditEvent::Write).of(&file.path));
        }
    }

    /// Records a change of an open's file.
    pub fn audit_change(&mut self, file: &OpenFile, event: AuditEvent, new: Option<&ObjectPath>) {
        if let Some(audited) = &file.audit {
            let record = AuditRecord::new(&audited.audit, event).of(&file.path);
            self.audit(AuditRecord { new_path: new.map(text), ..record });
        }
    }

    /// Records the end of an open, unless it changed nothing. Returns the record of the deletion
    /// that the end causes: of `deleted`, the path of the file or stream that goes.
    #[cold]
    pub(crate) fn audit_retired(
        &mut self,
        audited: &AuditedOpen,
        file: &OpenFile,
        deleted: Option<&ObjectPath>,
    ) -> Option<Box<AuditRecord>> {
        let audit = &audited.audit;
        if audited.has_written {
            let bytes = Some(audited.bytes_written);
            let record = AuditRecord::new(audit, AuditEvent::Close).of(&file.path);
            self.audit(AuditRecord { bytes, ..record });
        }
        if let Some(path) = deleted {
            let is_directory = file.is_directory && path.stream().is_none();
            let event = if is_directory { AuditEvent::DeleteDirectory } else { AuditEvent::Delete };
            return Some(Box::new(AuditRecord::new(audit, event).of(path)));
        }
        // The last close deletes the file, at the request of this user.
        let wants_deletion = audited.has_marked || file.delete_on_close;
        if wants_deletion && self.files.is_delete_pending(file.identity, file.link) {
            self.audit(AuditRecord::new(audit, AuditEvent::DeletePending).of(&file.path));
        }
        None
    }

    /// Records a deletion under the name of the user who has asked for it, unless a close has.
    pub(crate) fn audit_removed(&mut self, removal: &Removal, removed: Result<&Opened, NtStatus>) {
        let Some(audit) = removal.audit.as_ref().filter(|_| removal.close != ByClose::Tried) else {
            return;
        };
        let is_directory = removed.is_ok_and(|it| it.metadata.is_directory());
        let event = match is_directory && removal.path.stream().is_none() {
            true => AuditEvent::DeleteDirectory,
            false => AuditEvent::Delete,
        };
        let status = removed.err().unwrap_or(NtStatus::SUCCESS);
        self.audit(AuditRecord { status, ..AuditRecord::new(audit, event).of(&removal.path) });
    }
}

impl Server {
    /// Records a refused request, if an audit selects its event.
    #[cold]
    pub(crate) fn audit_refusal(
        &mut self,
        incoming: &Incoming,
        named: Option<FileId>,
        reject: Reject,
    ) {
        let message = &incoming.message;
        let record = match incoming.header.command {
            Command::CREATE => self.refused_create(incoming),
            Command::SET_INFO => {
                let request = SetInfoRequest::decode(message).ok();
                request.and_then(|it| self.refused_change(&it, named))
            }
            Command::WRITE => {
                let request = WriteRequest::decode(message).ok();
                let open = request.and_then(|it| self.audited_open(it.file_id, named));
                open.map(|(file, audit)| AuditRecord::new(audit, AuditEvent::Write).of(&file.path))
            }
            Command::TREE_CONNECT => return self.refused_connect(incoming, reject),
            _ => None,
        };
        if let Some(record) = record {
            self.globals.audit(AuditRecord { status: reject.status(), ..record });
        }
    }

    fn refused_create(&self, incoming: &Incoming) -> Option<AuditRecord> {
        let session = self.sessions.get(&incoming.header.session_id)?;
        let tree = session.tree_connects.get(&incoming.header.tree_id)?;
        let audit = tree.share.audit.as_ref()?;
        let request = CreateRequest::decode(&incoming.message).ok()?;
        let is_directory = request.create_options.contains(CreateOptions::DIRECTORY_FILE);
        let event = match request.create_disposition {
            CreateDisposition::OPEN | CreateDisposition::OVERWRITE => AuditEvent::Open,
            _ if is_directory => AuditEvent::CreateDirectory,
            _ => AuditEvent::Create,
        };
        let path = dtyp::utf16::decode(request.name).unwrap_or_default().replace('\\', "/");
        let path = path.chars().take(PATH_CHARACTERS_MAX).collect();
        Some(AuditRecord { path: Some(path), ..AuditRecord::new(audit, event) })
    }

    fn refused_change(
        &self,
        request: &SetInfoRequest<'_>,
        named: Option<FileId>,
    ) -> Option<AuditRecord> {
        let (file, audit) = self.audited_open(request.file_id, named)?;
        let event = match (request.info_type, FileInformationClass(request.file_info_class)) {
            (InfoType::SECURITY, _) => AuditEvent::SetRights,
            (InfoType::FILE, FileInformationClass::RENAME) => AuditEvent::Rename,
            (InfoType::FILE, FileInformationClass::LINK) => AuditEvent::Link,
            (
                InfoType::FILE,
                FileInformationClass::DISPOSITION | FileInformationClass::DISPOSITION_EX,
            ) if file.is_directory => AuditEvent::DeleteDirectory,
            (
                InfoType::FILE,
                FileInformationClass::DISPOSITION | FileInformationClass::DISPOSITION_EX,
            ) => AuditEvent::Delete,
            (
                InfoType::FILE,
                FileInformationClass::ALLOCATION | FileInformationClass::END_OF_FILE,
            ) => AuditEvent::Write,
            _ => return None,
        };
        Some(AuditRecord::new(audit, event).of(&file.path))
    }

    /// Returns the open of a refused request; in a related request, that of the one before it.
    fn audited_open(
        &self,
        file_id: FileId,
        named: Option<FileId>,
    ) -> Option<(&OpenFile, &Arc<Audit>)> {
        let open = self.opens.get(&file_id.volatile);
        let open = open.or_else(|| self.opens.get(&named?.volatile))?;
        let file = open.file().ok()?;
        Some((file, &file.audit.as_ref()?.audit))
    }

    /// Records a refused tree connect. The share may be unknown, so no share's audit selects it.
    fn refused_connect(&mut self, incoming: &Incoming, reject: Reject) {
        let header = &incoming.header;
        let Some(session) = self.sessions.get(&header.session_id) else { return };
        let Some(connection) = self.connections.get(&incoming.connection) else { return };
        let Some(account) = &session.account else { return };
        let request = TreeConnectRequest::decode(&incoming.message).ok();
        let path = request.and_then(|it| dtyp::utf16::decode(it.path).ok()).unwrap_or_default();
        let name = path.rsplit('\\').next().unwrap_or_default();
        let audit = Arc::new(Audit {
            success: Default::default(),
            failure: Default::default(),
            syslog: None,
            is_guest: session.standing == Standing::Guest,
            user: account.user.clone(),
            domain: account.domain.clone(),
            client: connection.client,
            client_name: session.client_name.clone(),
            share: name.chars().take(NAME_CHARACTERS_MAX).collect(),
        });
        let record = AuditRecord::new(&audit, AuditEvent::Connect);
        let record = Box::new(AuditRecord { status: reject.status(), ..record });
        self.globals.outbox.notices.push_back(Notice::Audited(record));
    }
}

impl AuditRecord {
    /// Makes the record of a success, without details.
    #[must_use]
    pub fn new(audit: &Arc<Audit>, event: AuditEvent) -> Self {
        let audit = Arc::clone(audit);
        let status = NtStatus::SUCCESS;
        Self { audit, event, status, path: None, new_path: None, bytes: None }
    }

    /// Returns whether a guest caused it without a change, and could do so over and over.
    #[must_use]
    pub fn is_cheap(&self) -> bool {
        let is_change = !matches!(self.event, AuditEvent::Connect | AuditEvent::Disconnect);
        self.audit.is_guest && (self.status.is_error() || !is_change)
    }

    /// Adds the path of the file.
    #[must_use]
    pub fn of(self, path: &ObjectPath) -> Self {
        Self { path: Some(text(path)), ..self }
    }
}

/// Returns a path as records have it: below the share, with `/` between components.
fn text(path: &ObjectPath) -> String {
    match path.stream() {
        None => path.as_str().to_owned(),
        Some(stream) => format!("{}:{stream}", path.as_str()),
    }
}
