//! The folder, and the invariants of all its entries.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use bytes::Bytes;
use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, FileAttributes, FileTime, NtStatus, SecurityDescriptor,
    SecurityInformation, Sid,
};
use object::{BasicChange, Disposition, LocalOpen, ObjectOp, ObjectPath, RequestedKind, UserId};
use proptest::prelude::*;
use store::{Credentials, InheritOwner, NtAclSettings, RootSettings};

use crate::step::{Act, Given, List, PATHS, Step};
use crate::support::{DELETE, READ, Share, WRITE, account};

const A: u32 = 70_001;
const B: u32 = 70_002;
/// The user of a share with `force user`.
const OWNER: u32 = 70_003;
/// A group of A's, whose directory `team` is.
const TEAM: u32 = 70_010;
/// A group that nobody here is in.
const FOREIGN: u32 = 70_020;

const UIDS: [u32; 3] = [A, B, 0];
const GIDS: [u32; 5] = [A, B, TEAM, FOREIGN, 0];

const CONTROL: AccessMask =
    AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC).union(AccessMask::WRITE_OWNER);

/// Opens that are kept, at most.
const KEPT_MAX: usize = 4;

/// Settings of the share of the folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    nt_acls: bool,
    forced: Option<u32>,
    inherit_owner: InheritOwner,
    inherit_permissions: bool,
    inherit_acls: bool,
    /// "force create mode" and "force directory mode".
    forced_mode: u32,
}

impl Setting {
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let forced = prop_oneof![3 => Just(None), 1 => Just(Some(OWNER)), 1 => Just(Some(0))];
        let inherit_owner = prop_oneof![
            2 => Just(InheritOwner::No),
            1 => Just(InheritOwner::WindowsAndUnix),
            1 => Just(InheritOwner::UnixOnly)
        ];
        let forced_mode = prop_oneof![3 => Just(0), 1 => Just(0o6111)];
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (forced, inherit_owner, forced_mode, flags).prop_map(
            |(forced, inherit_owner, forced_mode, (nt_acls, inherit_permissions, inherit_acls))| {
                Self {
                    nt_acls,
                    forced,
                    inherit_owner,
                    inherit_permissions,
                    inherit_acls,
                    forced_mode,
                }
            },
        )
    }

    fn put_into(self, settings: &mut RootSettings) {
        settings.nt_acls = self.nt_acls.then(|| NtAclSettings::new(true));
        settings.masks_given_modes = self.forced.is_some();
        settings.inherit_owner = self.inherit_owner;
        settings.inherit_permissions = self.inherit_permissions;
        settings.inherit_acls = self.inherit_acls;
        settings.force_create_mode = self.forced_mode;
        settings.force_directory_mode = self.forced_mode;
    }
}

/// An object as the host has it.
#[derive(Clone, Debug)]
struct Seen {
    path: String,
    uid: u32,
    gid: u32,
    mode: u32,
    is_directory: bool,
    /// The inode of its directory.
    parent: u64,
}

impl Seen {
    fn set_id(&self) -> u32 {
        self.mode & 0o6000
    }

    fn is_set_gid_directory(&self) -> bool {
        self.is_directory && self.mode & 0o2000 != 0
    }
}

pub(crate) struct Folder {
    share: Share,
    setting: Setting,
    kept: Vec<(usize, LocalOpen)>,
}

impl Folder {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut share = Share::with(|settings| setting.put_into(settings));
        for (name, mode) in [("d", 0o1777), ("team", 0o777)] {
            share.local_directory(name);
            share.mode(name, mode);
        }
        let host = Credentials { gid: TEAM, ..account(0, &[]) };
        let team = share.host("team");
        chown(team, None, Some(TEAM)).expect("root");
        share.local_mode(&host, "team", None, 0o2777);
        Self { share, setting, kept: Vec::new() }
    }

    /// Takes a step, and sees what became of everything.
    pub(crate) fn take(&mut self, step: &Step) {
        let before = self.scan();
        let user = match *step {
            Step::Client { user, path, posix, act } => {
                self.share.user = self.user(user);
                // A refusal is fine.
                let _ = self.client(path, posix, act);
                user
            }
            Step::Keep { user, path } => {
                self.share.user = self.user(user);
                if let Ok(open) = self.open(path, true, CONTROL)
                    && self.kept.len() < KEPT_MAX
                {
                    self.kept.push((user, open));
                }
                user
            }
            Step::SetKept { pick, given } => {
                let Some(&(user, open)) = self.kept.get(pick % self.kept.len().max(1)) else {
                    return;
                };
                self.share.user = self.user(user);
                let (information, descriptor) = descriptor(given);
                let _ = self.share.write_security(open, information, &descriptor);
                user
            }
            Step::Chmod { user, path, mode } => {
                let path = self.share.host(PATHS[path]);
                let mode = std::fs::Permissions::from_mode(mode);
                let _ = self
                    .share
                    .locally(&credentials(user), || std::fs::set_permissions(path, mode).is_ok());
                return;
            }
            Step::Chgrp { user, path, group } => {
                let path = self.share.host(PATHS[path]);
                let _ = self
                    .share
                    .locally(&credentials(user), || chown(path, None, Some(GIDS[group])).is_ok());
                return;
            }
        };
        let acting = self.acting(user);
        let after = self.scan();
        for (inode, now) in &after {
            match before.get(inode) {
                Some(was) => verify_changed(&acting, was, now, step),
                None => self.verify_new(&acting, &after[&now.parent], now, step),
            }
        }
    }

    /// Returns the credentials of a user's requests.
    fn acting(&self, user: usize) -> Credentials {
        self.setting.forced.map_or_else(|| credentials(user), |uid| account(uid, &[]))
    }

    fn user(&mut self, user: usize) -> UserId {
        let acting = self.acting(user);
        self.share.store.register_user(acting)
    }

    /// All that there is, by inode.
    fn scan(&mut self) -> BTreeMap<u64, Seen> {
        self.share.store.revert_to_server();
        let mut found = BTreeMap::new();
        let mut waiting = vec![(String::new(), 0)];
        while let Some((path, parent)) = waiting.pop() {
            let host = self.share.host(&path);
            let status = std::fs::symlink_metadata(&host).expect("there");
            if status.is_dir() {
                for entry in std::fs::read_dir(&host).expect("root reads it") {
                    let name = entry.expect("there").file_name().into_string().expect("ours");
                    let below = [path.as_str(), &name].join("/");
                    waiting.push((below.trim_start_matches('/').to_owned(), status.ino()));
                }
            }
            let (uid, gid, mode) = (status.uid(), status.gid(), status.mode() & 0o7777);
            let is_directory = status.is_dir();
            found.insert(status.ino(), Seen { path, uid, gid, mode, is_directory, parent });
        }
        found
    }

    fn open(
        &mut self,
        path: usize,
        posix: bool,
        access: AccessMask,
    ) -> Result<LocalOpen, NtStatus> {
        let path = named(path, posix);
        let opened = self.share.try_open("", |request| {
            (request.path, request.desired_access) = (path, access);
        });
        Ok(opened?.open)
    }

    /// Opens an object, runs an operation on it and closes it.
    fn with(
        &mut self,
        path: usize,
        posix: bool,
        access: AccessMask,
        op: impl FnOnce(LocalOpen) -> ObjectOp,
    ) -> Result<(), NtStatus> {
        let open = self.open(path, posix, access)?;
        let result = self.share.run(op(open)).map(drop);
        self.share.run(ObjectOp::Close { open, unlink: false })?;
        result
    }

    fn client(&mut self, path: usize, posix: bool, act: Act) -> Result<(), NtStatus> {
        match act {
            Act::Copy { from } => {
                let source = self.open(from, posix, READ)?;
                let copied = self.with(path, posix, READ | WRITE, |target| ObjectOp::CopyRange {
                    source,
                    target,
                    source_offset: 0,
                    target_offset: 0,
                    length: 64,
                });
                self.share.close(source);
                copied
            }
            Act::Create { directory, mode, given } => {
                self.create(path, posix, directory, mode, given)
            }
            Act::Delete => {
                let open = self.open(path, posix, DELETE)?;
                self.share.unlink(open)
            }
            Act::Link { to } => self.with(path, posix, READ, |open| ObjectOp::Link {
                open,
                target: named(to, posix).into(),
                replace: true,
            }),
            Act::Overwrite { supersede } => {
                self.with(path, posix, READ | WRITE, |open| ObjectOp::Overwrite {
                    open,
                    supersede,
                    attributes: FileAttributes::HIDDEN,
                    extended_attributes: Vec::new(),
                    allocation_size: 0,
                })
            }
            Act::Rename { to } => self.with(path, posix, DELETE, |open| ObjectOp::Rename {
                open,
                target: named(to, posix).into(),
                replace: true,
            }),
            Act::SetBasic => self.with(path, posix, AccessMask::WRITE_ATTRIBUTES, |open| {
                let basic = BasicChange {
                    attributes: Some(FileAttributes::READONLY),
                    last_write_time: Some(FileTime(131_000_000_000_000_000)),
                    ..BasicChange::default()
                };
                ObjectOp::SetBasic { open, basic: basic.into() }
            }),
            Act::SetSecurity(given) => {
                let (information, descriptor) = descriptor(given);
                let access = access_for(information);
                self.with(path, posix, access, |open| ObjectOp::WriteSecurity {
                    open,
                    information: information.bits(),
                    descriptor: Bytes::from(descriptor.to_bytes()),
                    nfs_entries: false,
                })
            }
            Act::WriteStream => self.write_stream(path),
            Act::Write => self.with(path, posix, READ | WRITE, write),
        }
    }

    fn create(
        &mut self,
        path: usize,
        posix: bool,
        directory: bool,
        mode: Option<u32>,
        given: Option<Given>,
    ) -> Result<(), NtStatus> {
        let path = named(path, posix);
        let created = self.share.try_open("", |request| {
            request.path = path;
            request.disposition = Disposition::Create;
            request.kind = if directory { RequestedKind::Directory } else { RequestedKind::File };
            request.posix_mode = mode.filter(|_| posix);
            request.security = given.map(|given| Bytes::from(descriptor(given).1.to_bytes()));
        });
        self.share.run(ObjectOp::Close { open: created?.open, unlink: false }).map(drop)
    }

    fn write_stream(&mut self, path: usize) -> Result<(), NtStatus> {
        let path = format!("{}:stream", PATHS[path].replace('/', "\\"));
        let made = self.share.try_open(&path, |request| {
            request.disposition = Disposition::OpenIf;
            request.desired_access = READ | WRITE;
        });
        let open = made?.open;
        let written = self.share.run(write(open)).map(drop);
        self.share.run(ObjectOp::Close { open, unlink: false })?;
        written
    }

    fn verify_new(&self, acting: &Credentials, parent: &Seen, now: &Seen, step: &Step) {
        let made = format!("{step:?} made {} in {}: {now:?}", now.path, parent.path);
        let inherits_owner = self.setting.inherit_owner != InheritOwner::No;
        let is_owner = now.uid == acting.uid || inherits_owner && now.uid == parent.uid;
        assert!(is_owner || acting.uid == 0, "{made}");
        let inherits = parent.is_set_gid_directory();
        assert!(is_in(acting, now.gid) || inherits && now.gid == parent.gid, "{made}");
        let allowed = if now.is_directory && inherits { 0o2000 } else { 0 };
        assert_eq!(now.set_id() & !allowed, 0, "{made}");
    }
}

fn verify_changed(acting: &Credentials, was: &Seen, now: &Seen, step: &Step) {
    let made = format!("{step:?} made {}: {now:?} of {was:?}", now.path);
    let is_owner = now.uid == was.uid || now.uid == acting.uid || acting.uid == 0;
    assert!(is_owner, "{made}");
    assert!(now.gid == was.gid || is_in(acting, now.gid), "{made}");
    assert_eq!(now.set_id() & !was.set_id(), 0, "{made}");
    let has_changed_hands = (now.uid, now.gid) != (was.uid, was.gid);
    if has_changed_hands && !now.is_directory {
        assert_eq!(now.set_id(), 0, "{made}");
    }
    if was.is_set_gid_directory() && is_in(acting, now.gid) {
        assert!(now.is_set_gid_directory(), "{made}");
    }
}

/// Root is in all groups.
fn is_in(acting: &Credentials, gid: u32) -> bool {
    acting.uid == 0 || acting.gid == gid || acting.groups.contains(&gid)
}

fn credentials(user: usize) -> Credentials {
    match UIDS[user] {
        A => account(A, &[TEAM]),
        uid => account(uid, &[]),
    }
}

fn named(path: usize, posix: bool) -> ObjectPath {
    let path = PATHS[path];
    let path = match posix {
        true => ObjectPath::parse_posix(path),
        false => ObjectPath::parse(&path.replace('/', "\\")),
    };
    path.expect("a path")
}

fn write(open: LocalOpen) -> ObjectOp {
    let data = Bytes::from_static(b"another program");
    ObjectOp::Write {
        open,
        offset: 0,
        data,
        piped: None,
        write_through: false,
        verify_locks: false,
    }
}

/// Returns the rights to set some parts: [MS-SMB2] 3.3.5.21.3.
fn access_for(information: SecurityInformation) -> AccessMask {
    let mut access = AccessMask::READ_CONTROL;
    if information.contains(SecurityInformation::DACL) {
        access |= AccessMask::WRITE_DAC;
    }
    if information.intersects(SecurityInformation::OWNER | SecurityInformation::GROUP) {
        access |= AccessMask::WRITE_OWNER;
    }
    access
}

fn descriptor(given: Given) -> (SecurityInformation, SecurityDescriptor) {
    let sid = |kind: u32, id: u32| match given.nfs {
        true => Sid::new(5, &[88, kind, id]),
        false => Sid::new(22, &[kind, id]),
    };
    let mut information = SecurityInformation::empty();
    information.set(SecurityInformation::OWNER, given.owner.is_some());
    information.set(SecurityInformation::GROUP, given.group.is_some());
    information.set(SecurityInformation::DACL, given.list.is_some());
    let mut control = Control::SELF_RELATIVE;
    control.set(Control::DACL_PRESENT, given.list.is_some());
    let descriptor = SecurityDescriptor {
        control,
        owner: given.owner.map(|user| sid(1, UIDS[user])),
        group: given.group.map(|group| sid(2, GIDS[group])),
        sacl: None,
        dacl: given.list.and_then(list),
    };
    (information, descriptor)
}

fn list(list: List) -> Option<Acl> {
    let allow =
        |sid, mask| Ace::allow(sid, mask, AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT);
    let all = AccessMask::FILE_ALL;
    let aces = match list {
        List::Null => return None,
        List::Everyone => vec![allow(Sid::everyone(), all)],
        List::Bait => vec![
            Ace::allow(Sid::new(3, &[4]), AccessMask::FILE_GENERIC_EXECUTE, AceFlags::empty()),
            allow(Sid::everyone(), READ | WRITE | CONTROL),
        ],
        List::Named => vec![
            allow(Sid::unix_user(A), all),
            allow(Sid::unix_group(FOREIGN), all),
            allow(Sid::everyone(), READ | CONTROL),
        ],
        List::Mode(mode) => {
            vec![Ace::allow(Sid::new(5, &[88, 3, mode]), AccessMask::empty(), AceFlags::empty())]
        }
    };
    Some(Acl::new(aces))
}
