//! The share that was asked about, opened, and the target in it.

use std::path::{Path, PathBuf};

use dtyp::{AccessMask, NameExpression, NtStatus};
use object::{
    Disposition, ObjectOp, ObjectPath, ObjectReply, OpenRequest, Opened, RequestedKind, RootId,
    UserId,
};
use store::{HostRights, NtAclSettings, RootSettings, Started};

use super::Inquiry;
use crate::command::doctor::finding::{Change, Finding, path_word};

/// A share that is open, and the user in it.
pub(super) struct Place {
    pub(super) root: RootId,
    pub(super) settings: RootSettings,
    pub(super) access_max: AccessMask,
    /// The user whose rights the kernel checks.
    pub(super) user: UserId,
    /// The same by name, for sentences, and for commands.
    pub(super) name: String,
    /// Directory that the share serves.
    pub(super) folder: PathBuf,
    /// The user that sees all.
    pub(super) root_user: UserId,
}

/// The requested object, or the directory for a new one.
pub(super) struct Target {
    pub(super) path: ObjectPath,
    pub(super) host: PathBuf,
    pub(super) opened: Opened,
}

/// A target with what the kernel and the store grant the user there.
pub(super) struct Case<'a> {
    pub(super) place: &'a Place,
    pub(super) target: &'a Target,
    /// Permissions by mode and POSIX ACL.
    pub(super) rights: HostRights,
    /// Rights by the store, whose NT descriptors count as well.
    pub(super) maximal: AccessMask,
}

impl Place {
    /// Whether an NT descriptor decides beside mode and POSIX ACL. Takes the server's rights.
    pub(super) fn has_descriptor(&self, path: &Path) -> bool {
        let has_one = |settings: &NtAclSettings| {
            settings.ignore_system_acls
                || rustix::fs::getxattr(path, &settings.attribute, &mut [0; 0]).is_ok()
        };
        self.settings.nt_acls.as_ref().is_some_and(has_one)
    }
}

impl Inquiry<'_> {
    /// Verifies that the share has no rule against the names in the path.
    pub(super) fn explain_names(&mut self, place: &Place) -> bool {
        let vetoed = |name: &str| place.settings.vetoed.iter().any(|it| it.matches(name));
        let found = self.path.components().find(|name| vetoed(name)).map(str::to_owned);
        let Some(name) = found else { return true };
        let share = self.share();
        let list = share.map(|share| share.veto_files.clone()).unwrap_or_default();
        let expression = |pattern: &str| match place.settings.case_sensitive {
            true => NameExpression::case_sensitive(pattern),
            false => NameExpression::new(pattern),
        };
        let patterns = list.split('/').filter(|pattern| !pattern.is_empty());
        let kept: Vec<&str> = patterns.filter(|it| !expression(it).matches(&name)).collect();
        let line = match kept.is_empty() {
            true => "veto files =".to_owned(),
            false => format!("veto files = /{}/", kept.join("/")),
        };
        let fact = format!("No client sees {name} in the share {}.", self.request.name);
        let reason = format!("`veto files = {list}` of the share hides the name.");
        let section = self.section();
        self.refuse_all();
        self.add(Finding::fault("veto_files", fact, reason).change(Change::line(&section, line)));
        false
    }

    pub(super) fn refuse_all(&mut self) {
        self.answer.may_read = Some(false);
        self.answer.may_write = Some(false);
        self.answer.may_delete = Some(false);
    }

    /// Finds the target with the rights of root. A path that leads nowhere is explained.
    pub(super) fn find(&mut self, place: &Place) -> Option<Target> {
        let path = self.path.without_stream();
        let opened = match self.open(place, place.root_user, &path, AccessMask::READ_ATTRIBUTES) {
            Ok(opened) => {
                self.answer.exists = true;
                opened
            }
            Err(NtStatus::OBJECT_NAME_NOT_FOUND) => {
                let parent = path.parent().unwrap_or_else(ObjectPath::root);
                self.open(place, place.root_user, &parent, AccessMask::READ_ATTRIBUTES).ok()?
            }
            Err(status) => {
                self.explain_missing(place, &path, status);
                return None;
            }
        };
        self.store.revert_to_server();
        let named = place.folder.join(opened.path.as_str());
        let host = std::fs::canonicalize(&named).unwrap_or(named);
        self.answer.host_path = Some(host.clone());
        Some(Target { path: opened.path.clone(), host, opened })
    }

    fn explain_missing(&mut self, place: &Place, path: &ObjectPath, status: NtStatus) {
        self.refuse_all();
        let host = place.folder.join(path.as_str());
        let fact = format!("No client reaches {}.", host.display());
        if status == NtStatus::ACCESS_DENIED {
            let (user, name) = (place.user, &place.name);
            if self.explain_refused(&host, user, name, &fact) {
                return;
            }
        }
        let finding = match status {
            NtStatus::OBJECT_PATH_NOT_FOUND => {
                let parent = host.parent().unwrap_or(&host).to_owned();
                let reason = "A directory on the way to it does not exist.";
                let command = format!("mkdir -p {}", path_word(&parent));
                Finding::fault("no_directory", fact, reason).command(command)
            }
            NtStatus::STOPPED_ON_SYMLINK => {
                let reason = "A symbolic link on the way to it leads out of the share, or \
                              `follow symlinks = no` forbids it.";
                let section = self.section();
                Finding::fault("symbolic_link", fact, reason)
                    .change(Change::line(&section, "wide links = yes"))
                    .advice("in [global], `smb3 unix extensions = no` must stand beside it")
            }
            other => Finding::fault("path", fact, format!("The system refuses the path: {other}.")),
        };
        self.add(finding);
    }

    pub(super) fn open(
        &mut self,
        place: &Place,
        user: UserId,
        path: &ObjectPath,
        access: AccessMask,
    ) -> Result<Opened, NtStatus> {
        let request = OpenRequest {
            disposition: Disposition::Open,
            kind: RequestedKind::Any,
            desired_access: access,
            share_access_max: place.access_max | AccessMask::READ_ATTRIBUTES,
            open_reparse_point: false,
            ..OpenRequest::to_remove(place.root, path.clone())
        };
        match self.ask(user, ObjectOp::Open(Box::new(request)))? {
            ObjectReply::Opened(opened) => {
                let close = ObjectOp::Close { open: opened.open, unlink: false };
                self.ask(user, close)?;
                Ok(*opened)
            }
            _ => Err(NtStatus::STOPPED_ON_SYMLINK),
        }
    }

    /// An operation that the store answers at once.
    pub(super) fn ask(
        &mut self,
        user: UserId,
        operation: ObjectOp,
    ) -> Result<ObjectReply, NtStatus> {
        match self.store.start(user, operation) {
            Started::Done(result) => result,
            Started::Submit(..) => Err(NtStatus::UNSUCCESSFUL),
        }
    }
}
