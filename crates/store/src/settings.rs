//! Settings of the store and of each share, as an administrator decides them.

mod recycle;
mod snapshots;
mod streams_depot;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dtyp::{NameExpression, Sid};
use object::StoreNumber;

pub use self::recycle::{RecycleSettings, Touch};
pub(crate) use self::recycle::{Unforeseen, names_for};
pub use self::snapshots::{
    NameFormat, NamePrefix, SnapshotDirectory, SnapshotNames, SnapshotOrder, SnapshotSettings,
};
pub use self::streams_depot::DepotSettings;
use crate::names::character_mappings::CharacterMappings;

/// Settings of a [`Store`](crate::Store), the same for all shares.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Opens that may exist at once; beyond it opening answers TOO_MANY_OPENED_FILES.
    pub opens_max: u32,
    /// Highest number of open shares; opening one more fails with INSUFF_SERVER_RESOURCES.
    pub roots_max: u32,
    /// Take the credentials of the user of each request. Needs root; without root every request
    /// runs as the server's own user, and this must be `false`.
    pub impersonate_users: bool,
    /// Its number among the stores of the worker.
    pub number: StoreNumber,
    /// Time after which a listing or a query of ranges pauses, with the entries that it has.
    pub listing_time: Duration,
    /// Ids of users and groups with SIDs of a domain, or of Samba's database.
    pub domain_ids: Option<Arc<dyn DomainIds>>,
}

/// Ids that users and groups with SIDs of a domain have on this system. Samba's database is such a
/// domain.
pub trait DomainIds: std::fmt::Debug + Send + Sync {
    /// The id of a SID, if it is known.
    fn id_of(&self, sid: &Sid) -> Option<Trustee>;
}

/// User or group of this system that a SID stands for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Trustee {
    /// A user with this id.
    User(u32),
    /// A group with this id.
    Group(u32),
}

impl Default for StoreSettings {
    /// 16,384 opens are what Samba allows a process ("max open files").
    fn default() -> Self {
        Self {
            opens_max: 16_384,
            roots_max: 1_024,
            impersonate_users: rustix::process::geteuid().is_root(),
            number: StoreNumber::default(),
            listing_time: Duration::from_millis(2),
            domain_ids: None,
        }
    }
}

/// Selection of the names that have a short name of 8.3 form.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MangledNames {
    /// None: names that clients cannot use are left out of listings.
    No,
    /// Those that clients cannot use.
    #[default]
    Illegal,
    /// All that are not of that form themselves: listings tell the short name beside the long one.
    Yes,
}

/// DOS attributes that permission bits stand for where none are stored. In quotes: the parameter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ModeAttributes {
    /// ARCHIVE is the owner's execute bit ("map archive").
    pub archive: bool,
    /// SYSTEM is the group's execute bit ("map system").
    pub system: bool,
    /// HIDDEN is the others' execute bit ("map hidden").
    pub hidden: bool,
    /// Source of READONLY ("map readonly").
    pub read_only: ReadOnlySource,
}

impl Default for ModeAttributes {
    /// Samba's defaults: ARCHIVE alone is mapped.
    fn default() -> Self {
        Self { archive: true, system: false, hidden: false, read_only: ReadOnlySource::No }
    }
}

/// Source of the attribute READONLY where none is stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadOnlySource {
    /// No source: nothing has it.
    #[default]
    No,
    /// The owner's write bit: an object without it.
    Mode,
    /// The user's rights: an object that the user may not write.
    Rights,
}

/// Conversion of the letters of a new name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NewCase {
    /// The letters stay as the client sent them.
    #[default]
    Kept,
    /// All letters become small ones.
    Lower,
    /// All letters become capital ones.
    Upper,
}

/// Settings of one share. In quotes: the parameter of `smb.conf`.
#[derive(Clone, Debug)]
pub struct RootSettings {
    /// The directory that is shared. Symbolic links in this path are the administrator's, and
    /// followed.
    pub path: PathBuf,
    /// Names that differ in case only are different files ("case sensitive").
    pub case_sensitive: bool,
    /// Characters that are other ones on disk ("vfs objects = catia", "catia:mappings").
    pub character_mappings: CharacterMappings,
    /// Selection of the names with short names ("mangled names").
    pub mangled_names: MangledNames,
    /// Letters of a name that its short name begins with, 1 to 6 ("mangle prefix").
    pub mangle_prefix: u8,
    /// Case of new names ("preserve case", "default case").
    pub new_case: NewCase,
    /// Case of new names of 8.3 form ("short preserve case", "default case").
    pub new_short_case: NewCase,
    /// Mode bits that a created file may have ("create mask").
    pub create_mask: u32,
    /// Mode bits that a created directory may have ("directory mask").
    pub directory_mask: u32,
    /// Mode bits that a created file always has ("force create mode").
    pub force_create_mode: u32,
    /// Mode bits that a created directory always has ("force directory mode").
    pub force_directory_mode: u32,
    /// These four hold also for new entries that a client gives the mode of, because they belong to
    /// somebody else ("force user").
    pub masks_given_modes: bool,
    /// New entries have the mode of their directory instead of these four, files only its bits for
    /// reading and writing ("inherit permissions").
    pub inherit_permissions: bool,
    /// Nothing may be changed ("read only").
    pub read_only: bool,
    /// Keep DOS attributes and creation time in an extended attribute ("store dos attributes").
    pub store_dos_attributes: bool,
    /// Attributes in permission bits, without that or where the file system keeps none.
    pub mode_attributes: ModeAttributes,
    /// Users who may write a file may change its permissions ("dos filemode").
    pub writers_change_permissions: bool,
    /// Serve extended attributes ("ea support").
    pub ea_support: bool,
    /// Serve named streams of files and directories.
    pub streams: bool,
    /// Depot of the named streams; without one they are in extended attributes (Samba's
    /// `vfs_streams_xattr`).
    pub streams_depot: Option<DepotSettings>,
    /// Streams are as Apple's clients want them: one without bytes is none, and `AFP_AfpInfo` a
    /// structure (Samba's `vfs_fruit`).
    pub apple_streams: bool,
    /// Files `._NAME` are removed once their contents are in streams
    /// ("fruit:delete_empty_adfiles").
    pub removes_apple_doubles: bool,
    /// Highest size of all backups of Apple's clients in the share ("fruit:time machine max size").
    pub backup_bytes_max: Option<u64>,
    /// Names that begin with a dot are HIDDEN ("hide dot files").
    pub hide_dot_files: bool,
    /// Names that are HIDDEN ("hide files").
    pub hide_files: Vec<NameExpression>,
    /// Names that no client sees ("veto files"). The store finds them by no short name; the caller
    /// of the store checks names that clients send.
    pub vetoed: Vec<NameExpression>,
    /// Vetoed entries are deleted with their directory ("delete veto files").
    pub remove_vetoed: bool,
    /// Files with READONLY may be deleted ("delete readonly").
    pub delete_readonly: bool,
    /// Clients are told that objects have access control lists ("nt acl support").
    pub nt_acl_support: bool,
    /// Follow symbolic links that stay beneath the share ("follow symlinks").
    pub follow_symlinks: bool,
    /// Follow them wherever they lead ("wide links"); needs `follow_symlinks`.
    pub wide_links: bool,
    /// Symbolic links to `msdfs:server\share` are links of a DFS namespace ("msdfs root").
    pub dfs_links: bool,
    /// The label that clients see ("volume").
    pub volume_label: String,
    /// The file system's name that clients see ("fstype").
    pub file_system_name: String,
    /// Bin for deleted files, if the share has one (Samba's `vfs_recycle`).
    pub recycle: Option<RecycleSettings>,
    /// Location of the share's earlier versions, if it has any (Samba's `vfs_shadow_copy2`).
    pub snapshots: Option<SnapshotSettings>,
    /// NT security descriptors are kept (Samba's `vfs_acl_xattr`); without this they are what the
    /// mode says.
    pub nt_acls: Option<NtAclSettings>,
    /// Choice of the owner of a created object ("inherit owner").
    pub inherit_owner: InheritOwner,
    /// A default POSIX ACL of the directory decides on created objects, not the masks
    /// ("inherit acls").
    pub inherit_acls: bool,
    /// Objects that a listing leaves out.
    pub hide: Hide,
    /// Whether data are read into a pipe where that may be ("use sendfile").
    pub piping: Piping,
    /// Respect for byte-range locks of local programs ("posix locking", "strict locking").
    pub lock_checks: LockChecks,
}

/// Checks for byte-range locks of local programs before data are read or changed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LockChecks {
    /// No access is checked for locks.
    #[default]
    Never,
    /// READs and WRITEs that ask for it, unless the file had no lock a moment ago; other changes.
    Recent,
    /// READs and WRITEs that ask for it, and other changes.
    Always,
}

/// Whether data are read into a pipe, whose pages a socket takes without a copy, and not into
/// memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Piping {
    /// Data always pass through memory.
    Never,
    /// Data pass through a pipe wherever possible.
    Always,
    /// As the sender measured to be cheaper.
    #[default]
    AsMeasured,
}

/// Storage of NT security descriptors. In quotes: options of Samba's `vfs_acl_xattr`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NtAclSettings {
    /// The extended attribute of the host ("security_acl_name").
    pub attribute: String,
    /// Mode and POSIX ACL are neither asked nor set: everyone may do there what `create_mask` and
    /// `directory_mask` leave, and descriptors alone decide ("ignore system acls").
    pub ignore_system_acls: bool,
    /// Descriptor of objects without a stored one, if the system's ACLs are ignored ("default acl
    /// style").
    pub default_style: DefaultStyle,
    /// A list counts as computed by inheritance only if its writer also asked for that, as in
    /// Windows ("acl flag inherited canonicalization").
    pub canonicalize_inherited: bool,
}

/// Values of Samba's parameter "default acl style".
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DefaultStyle {
    /// Everyone has full control of the object.
    Everyone,
    /// The rights that the mode gives, and full control for the system.
    #[default]
    Posix,
    /// Full control for the owner and the system.
    Windows,
}

/// Values of Samba's parameter "inherit owner".
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum InheritOwner {
    /// The user who creates the object.
    #[default]
    No,
    /// The directory's owner, for the kernel and in the descriptor.
    WindowsAndUnix,
    /// The directory's owner, for the kernel only.
    UnixOnly,
}

/// Objects that a listing leaves out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hide {
    /// Objects that the user may not read ("hide unreadable").
    pub unreadable: bool,
    /// Files that the user may not write ("hide unwriteable files").
    pub unwriteable: bool,
    /// Sockets, devices and pipes ("hide special files").
    pub special: bool,
}

impl NtAclSettings {
    /// Samba's defaults. `security.` needs root; a server without root keeps descriptors in
    /// `user.`.
    #[must_use]
    pub fn new(is_root: bool) -> Self {
        Self {
            attribute: if is_root { "security.NTACL" } else { "user.NTACL" }.to_owned(),
            ignore_system_acls: false,
            default_style: DefaultStyle::default(),
            canonicalize_inherited: true,
        }
    }
}

impl RootSettings {
    /// Samba's defaults for a writable share of `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            case_sensitive: false,
            character_mappings: CharacterMappings::default(),
            mangled_names: MangledNames::Illegal,
            mangle_prefix: 1,
            new_case: NewCase::Kept,
            new_short_case: NewCase::Kept,
            create_mask: 0o744,
            directory_mask: 0o755,
            force_create_mode: 0,
            force_directory_mode: 0,
            masks_given_modes: false,
            inherit_permissions: false,
            read_only: false,
            store_dos_attributes: true,
            mode_attributes: ModeAttributes::default(),
            writers_change_permissions: false,
            ea_support: true,
            streams: true,
            streams_depot: None,
            apple_streams: false,
            removes_apple_doubles: false,
            backup_bytes_max: None,
            hide_dot_files: true,
            hide_files: Vec::new(),
            vetoed: Vec::new(),
            remove_vetoed: false,
            delete_readonly: false,
            nt_acl_support: true,
            follow_symlinks: true,
            wide_links: false,
            dfs_links: false,
            volume_label: String::new(),
            file_system_name: "NTFS".to_owned(),
            recycle: None,
            snapshots: None,
            nt_acls: None,
            inherit_owner: InheritOwner::No,
            inherit_acls: false,
            hide: Hide::default(),
            piping: Piping::default(),
            lock_checks: LockChecks::Never,
        }
    }
}

/// A user's ids, for the checks of the kernel, and SIDs, for those of NT security descriptors.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Credentials {
    /// The user's id on this system.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of the supplementary groups.
    pub groups: Vec<u32>,
    /// The user's SID, if it is another than the one that stands for the uid.
    pub sid: Option<Sid>,
    /// Groups of which the ids say nothing, Everyone and the like included; see
    /// [`Credentials::well_known`].
    pub sids: Vec<Sid>,
}

impl Credentials {
    /// The groups of all who were asked for a password: Everyone, Network, Authenticated Users and
    /// Users.
    #[must_use]
    pub fn well_known() -> Vec<Sid> {
        vec![Sid::everyone(), Sid::network(), Sid::authenticated_users(), Sid::users()]
    }

    /// The groups of guests: Everyone, Network and Guests.
    #[must_use]
    pub fn well_known_of_guests() -> Vec<Sid> {
        vec![Sid::everyone(), Sid::network(), Sid::guests()]
    }
}
